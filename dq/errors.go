package dq

import "errors"

// The errors of this package. They come wrapped with what was wrong; compare
// them with [errors.Is].
var (
	// ErrGrid is a bin width, a number of bins, an exponent or a dMax out of
	// range.
	ErrGrid = errors.New("invalid grid")

	// ErrDelay is a delay below zero, or above what a model or an operator takes.
	ErrDelay = errors.New("invalid delay")

	// ErrShape is a shape of a distribution out of range.
	ErrShape = errors.New("invalid shape")

	// ErrCounts are counts that do not fit their grid, or too many instances.
	ErrCounts = errors.New("invalid counts")

	// ErrProbability is a probability outside [0, 1], or not a number.
	ErrProbability = errors.New("invalid probability")

	// ErrOperands are too few operands, or operands and weights that differ in
	// number.
	ErrOperands = errors.New("invalid operands")

	// ErrNoData is asked of an observed ΔQ that has seen no instance, and of the
	// zero DeltaQ.
	ErrNoData = errors.New("no data")
)
