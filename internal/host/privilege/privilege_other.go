//go:build !linux

package privilege

// Current returns a state without capabilities, which only Linux has.
func Current() (State, error) { return State{}, nil }

// Reduce does nothing, as there are no capabilities to give up.
func Reduce(Set) error { return nil }

// AllowDump does nothing: a process can read its own files.
func AllowDump() error { return nil }
