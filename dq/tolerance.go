package dq

// Tolerance is the difference up to which two probabilities count as equal where they
// are compared with each other: a decimal such as 0.07 has no exact float64.
//
// It acts at ties and nowhere else: in [AtLeast], and so in quantiles, verdicts on a
// [QTA], slack and hazard, and in the partial order of [AtMost] and [Compare]. Bounds
// on probabilities are never moved by it.
const Tolerance = 1e-12

// AtLeast tells whether the probability x counts as at least p: whether x ≥ p −
// Tolerance, or x ≥ p/2 for a p below twice the Tolerance, so that 0 is never at least
// a p above 0. Everything that compares a share with what is required uses it.
func AtLeast(x, p float64) bool { return x >= lessTolerance(p) }

// lessTolerance is the least x that counts as at least p.
func lessTolerance(p float64) float64 { return p - min(Tolerance, p/2) }
