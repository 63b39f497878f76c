package usdt

import "errors"

// The errors that callers distinguish with errors.Is. Functions return errors that wrap them, with
// the file, note, field or process.
var (
	// ErrNoProbes means that a file holds no stapsdt note at all: it was built
	// without USDT probes.
	ErrNoProbes = errors.New("no USDT probes (stapsdt notes)")

	// ErrFormat means that a file is not ELF, is malformed, or exceeds one of the
	// package's limits.
	ErrFormat = errors.New("malformed ELF file")

	// ErrMachine means that a file is ELF, but not for 64-bit little-endian x86-64
	// or arm64.
	ErrMachine = errors.New("machine not supported")

	// ErrArgument means that one argument specification is malformed or of a form
	// that cannot be read by a tracer, such as a floating-point value.
	ErrArgument = errors.New("argument not usable")

	// ErrNoSymbol means that no symbol table of a file defines a name.
	ErrNoSymbol = errors.New("symbol not defined")

	// ErrNoSemaphore means that a site has no semaphore, or that the process does
	// not map it.
	ErrNoSemaphore = errors.New("no semaphore")

	// ErrProcessGone means that a process has ended, possibly during an inspection, or that its PID
	// now belongs to another one.
	ErrProcessGone = errors.New("process is gone")

	// ErrServed means that reading a file may never end: a program of another user serves its file
	// system (FUSE), or that user has mounted it.
	ErrServed = errors.New("the file system of the executable may not answer, because its user serves or has mounted it")

	// ErrReplaced means that a process runs another file than before, or that a path
	// leads to another one.
	ErrReplaced = errors.New("the file was replaced by another")
)
