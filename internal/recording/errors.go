package recording

import (
	"errors"
	"fmt"
)

// What may be wrong with a recording.
var (
	ErrNotRecording = errors.New("not a recording")
	ErrVersion      = errors.New("a recording of a version that this program does not know")
	ErrDamaged      = errors.New("damaged recording")

	// ErrTorn is the damage of a recording that breaks off, as when the program
	// that made it was killed. What there is, is whole.
	ErrTorn = fmt.Errorf("%w, incomplete", ErrDamaged)
)

// What may be wrong with what is to be recorded.
var (
	ErrLimit    = errors.New("more than a recording holds")
	ErrNoConfig = errors.New("a window without a configuration before it")
)
