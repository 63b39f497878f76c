package recording

import (
	"errors"
	"fmt"
)

// Errors of reading a recording.
var (
	ErrNotRecording = errors.New("not a recording")
	ErrVersion      = errors.New("a recording of an unknown version")
	ErrDamaged      = errors.New("damaged recording")

	// ErrTorn means that a recording breaks off, for example because its program was killed.
	// Everything before that is complete.
	ErrTorn = fmt.Errorf("%w, incomplete", ErrDamaged)
)

// Errors of making a recording.
var (
	ErrLimit    = errors.New("more than a recording holds")
	ErrNoConfig = errors.New("a window without a configuration before it")
)
