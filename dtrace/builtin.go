package dtrace

import "time"

// A Builtin is an outcome of the VM that needs no instrumentation: what scope files
// call vm: gc.
type Builtin struct {
	Name string
	Rule Rule

	// DMax and Bins are the scale where a scope file gives none.
	DMax time.Duration
	Bins int

	// What starts an instance, what ends it, what it cannot see, and what it costs:
	// sentences for the reference.
	Starts, Ends, Blind, Cost string
}

// Builtins returns the outcomes of the VM that need no instrumentation. The slice is
// the caller's.
func Builtins() []Builtin { return nil }

// LookupBuiltin returns the built-in outcome of a name.
func LookupBuiltin(name string) (Builtin, bool) {
	for _, b := range Builtins() {
		if b.Name == name {
			return b, true
		}
	}
	return Builtin{}, false
}
