// Package eval answers what-if questions about an outcome diagram. Given a model for each outcome,
// it calculates the failure, the mean and the quantiles of each probe, and judges the requirement
// for the whole. The command "beamscope eval" uses it.
package eval
