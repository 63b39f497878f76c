package dq

// Tolerance is the difference up to which two probabilities count as equal in comparisons: a
// decimal such as 0.07 has no exact float64.
//
// It applies only at ties: in [AtLeast], and so in quantiles, verdicts on a [QTA], slack and hazard
// in time, the delay of a [Budget], and the partial order of [AtMost] and [Compare]. [Deconvolve]
// returns a [*NoResidualError] only if bounds contradict each other by more than the Tolerance.
// Bounds on probabilities never include it.
const Tolerance = 1e-12

// AtLeast reports whether the probability x counts as at least p: x ≥ p − Tolerance, or x ≥ p/2 for
// a p below twice the Tolerance, so that 0 is never at least a p above 0. Every comparison of a
// share with a requirement uses it.
func AtLeast(x, p float64) bool { return x >= lessTolerance(p) }

// lessTolerance returns the least x that counts as at least p.
func lessTolerance(p float64) float64 { return p - min(Tolerance, p/2) }
