// Package eval answers what-if questions about an outcome diagram: given a model
// for each outcome, what are the failure, the mean, the quantiles of each probe,
// and does the whole meet its requirement? It is what "beamscope eval" does.
package eval
