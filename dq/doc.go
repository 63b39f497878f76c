// Package dq computes with quality attenuation (ΔQ): delay and failure of an outcome in one improper
// distribution, and the algebra that composes them.
//
// ΔQ(t) is the probability that an outcome succeeds within a time t of its start. It need not reach
// 1: the rest, the intangible mass, is the probability of failure. The vocabulary and the operators
// are those of Haeri et al., "Mind Your Outcomes" (Computers 11(3):45, 2022). Bins, dMax and the
// observed ΔQ are those of Nieri, "The ΔQ Oscilloscope" (UCLouvain, 2025), which the comments call
// the thesis.
//
// An [Observed] is counted: the number of instances that ended in each bin of a [Grid], the number
// of failures, and the number of timeouts. A bin shows only that a delay lies between its two
// edges. So every figure from an Observed is an interval that contains the exact figure of the
// instances. An Observed without instances has no data: it is marked as such, and is neither a
// failure nor a perfect outcome.
//
// A [DeltaQ] is calculated, a model, or the bounds of an Observed: two distributions on the edges
// of bins, and the exact distribution lies between them. The operators preserve that: Sequential,
// FirstToFinish, AllToFinish, Choice, Scale, Timeout, Retry, RetryOverlap and Rebin. They are
// functions, and methods of a [Calculator] to reuse memory. The bounds are guaranteed to the last
// bit, rounding included, and have the same bits on every processor. The uncertainty from a small
// number of instances is separate: see [Observed.Confident].
//
// A [QTA] is a requirement, judged with slack and hazard. [Compare] is the partial order,
// [Deconvolve] the inverse of Sequential, and [Diverge] the distance between an observed and a
// calculated ΔQ. A [Window] holds the confidence bounds over a series of them.
//
// The package is pure: it has no I/O, no clock, no goroutines and no variables of its own. Several
// goroutines must not use a value while one of them changes it.
package dq
