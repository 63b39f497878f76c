package dq

import "errors"

// The errors of this package. Functions wrap them with the details; compare them with [errors.Is].
var (
	// ErrGrid means that a bin width, a number of bins, an exponent or a dMax is out of range.
	ErrGrid = errors.New("invalid grid")

	// ErrDelay means that a delay is below zero, or above the limit of a model or an operator.
	ErrDelay = errors.New("invalid delay")

	// ErrShape means that the shape of a distribution is out of range.
	ErrShape = errors.New("invalid shape")

	// ErrCounts means that counts do not match their grid, or that there are too many instances.
	ErrCounts = errors.New("invalid counts")

	// ErrProbability means that a probability is outside [0, 1] or not a number.
	ErrProbability = errors.New("invalid probability")

	// ErrOperands means that there are too few operands, or that the numbers of operands and
	// weights differ.
	ErrOperands = errors.New("invalid operands")

	// ErrNoData means that an operand has no data: it is an observed ΔQ without instances, or the
	// zero DeltaQ.
	ErrNoData = errors.New("no data")
)
