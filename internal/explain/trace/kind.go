package trace

import "fmt"

// kindWords are the names of the kinds for people, and in stored data.
var kindWords = [Kinds]struct{ people, machines string }{
	Root:        {"the instance", "root"},
	Running:     {"running", "running"},
	Ready:       {"waiting to run", "ready"},
	GC:          {"garbage collection", "gc"},
	Mailbox:     {"mailbox wait", "mailbox"},
	NIF:         {"dirty function", "nif"},
	Port:        {"port stall", "port"},
	Waiting:     {"waiting for another process", "waiting"},
	OSWait:      {"no processor", "os"},
	Unexplained: {"unexplained", "unexplained"},
	VMWait:      {"waiting for the VM", "vm"},
	Suspended:   {"suspension", "suspended"},
	Blocked:     {"blocked", "blocked"},
	Stopped:     {"stopped", "stopped"},
	Timer:       {"waiting for a timer", "timer"},
	External:    {"waiting for a port or another node", "external"},
}

// String returns the name of the kind for people, such as "mailbox wait".
func (k Kind) String() string {
	if k < Kinds {
		return kindWords[k].people
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Word returns the single word for the kind in machine-readable data, such as "mailbox".
func (k Kind) Word() string {
	if k < Kinds {
		return kindWords[k].machines
	}
	return k.String()
}

// String returns the mark as a word: exact, inferred or ambiguous.
func (m Mark) String() string {
	switch m {
	case Exact:
		return "exact"
	case Inferred:
		return "inferred"
	case Ambiguous:
		return "ambiguous"
	}
	return fmt.Sprintf("Mark(%d)", uint8(m))
}
