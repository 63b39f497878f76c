// Package dq holds quality attenuation (ΔQ): delay and failure of an outcome in
// one improper distribution, and the algebra that composes them.
//
// ΔQ(t) is the probability that an outcome is done within a time t of its start.
// It need not reach 1: the rest, the intangible mass, is the probability of
// failure. The vocabulary and the operators are those of Haeri et al., "Mind
// Your Outcomes" (Computers 11(3):45, 2022); bins, dMax and the observed ΔQ are
// those of Nieri, "The ΔQ Oscilloscope" (UCLouvain, 2025), which the comments
// call the thesis.
//
// An [Observed] is counted: how many instances ended in each bin of a [Grid], how
// many failed, how many timed out. A bin tells that a delay lies between its two
// edges and no more, so whatever is read from it is an interval that contains
// the exact figure, the one that would come from the instances themselves. One
// that has seen no instance holds no data: it is neither a failure nor a perfect
// outcome, and says so.
//
// A [DeltaQ] is calculated, or a model, or made of an Observed: two distributions
// on the edges of bins, between which the exact one lies. The operators, which are
// functions and, to use memory again, methods of a [Calculator], keep that true:
// Sequential, FirstToFinish, AllToFinish, Choice, Scale, Timeout, Retry,
// RetryOverlap and Rebin. The bounds are guaranteed to the last bit, rounding
// included, and are the same bits on every processor. What is uncertain because instances are few is kept apart: see
// [Observed.Confident].
//
// A [QTA] is a requirement, judged with slack and hazard; [Compare] is the partial
// order, [Deconvolve] the inverse of Sequential, [Diverge] the distance of an
// observed ΔQ from a calculated one, and a [Window] holds the confidence bounds
// over a series of them.
//
// The package is pure. It reads and writes nothing, knows no clock, starts no
// goroutine and has no variables of its own. Its values are not safe for use
// by several goroutines while one of them changes them.
package dq
