package dtrace

import (
	"errors"
	"fmt"
	"slices"
)

// A Rule says which events of the VM are the start and the end of an outcome's
// instances, and how those of one instance find each other.
type Rule struct {
	Start, End Expr
	Key        Key
	Pairing    Pairing

	// Via are events between start and end through which instances pass in order,
	// with [FIFO] only: what leaves there without having started goes on to the end
	// as an orphan, so that the order of the others stays right.
	Via Expr

	// Sync are events which say that a receiver has got to work on what it had fetched,
	// with [FIFO] only: what started before it last fetched anything, and has not left
	// the first stage by then, never will, and is given up as unpaired. Receivers fetch
	// all there is at a time. With message-queued for Via, the ends say it.
	Sync Expr

	// Arm are events without which a start is none: the last one of the same key
	// since the start before has to have the same argument Armed as the start has in
	// its argument ArmedBy. Empty: every start counts.
	Arm            Expr
	Armed, ArmedBy string

	// Amount is the argument of ends that is added up, such as reclaimed words; "" for
	// none.
	Amount string

	// Loose says that ends come without starts as a rule. Those are counted as dropped,
	// and not as orphans.
	Loose bool

	// Overtaken says that an end may be told before its start, by a second at most, as
	// they come from different threads: such an instance is a success without delay, and
	// its end has been counted as an orphan before. Without [FIFO] and Arm only.
	Overtaken bool

	// RunQueue says that the instances are the waits of the VM's scheduler threads for a
	// processor. The operating system's scheduler tells of them, no probe: everything
	// else is empty.
	RunQueue bool
}

// Synced reports whether it is known when receivers have fetched all there was: there are
// Sync events, or the instances pass through message-queued, where receivers fetch.
func (r Rule) Synced() bool {
	return len(r.Sync) > 0 || slices.ContainsFunc(r.Via, func(e Event) bool { return e.Probe.Name == "message__queued" })
}

// Selective reports whether ends may take the instances of a receiver in another order
// than that of their starts: a process takes whichever message of its mailbox matches.
func (r Rule) Selective() bool {
	return r.Pairing == FIFO && slices.ContainsFunc(r.End, func(e Event) bool { return e.Probe.Name == "message__receive" })
}

// OfProcesses reports whether the instances of a rule with [FIFO] are told apart by the
// process that takes them: when it exits, nothing that it has left can end any more.
func (r Rule) OfProcesses() bool {
	return r.Pairing == FIFO && !slices.ContainsFunc(r.End, func(e Event) bool {
		o, ok := e.Probe.Operand(r.Key.End)
		return !ok || o.Kind != OperandArg || e.Probe.Args[o.Arg].Type != PID
	})
}

// Probes returns the probes that a rule waits for, each once, in the order in which it
// names them.
func (r Rule) Probes() []Probe {
	var probes []Probe
	for _, event := range slices.Concat(r.Start, r.End, r.Via, r.Sync, r.Arm) {
		if !slices.ContainsFunc(probes, func(p Probe) bool { return p.Name == event.Probe.Name }) {
			probes = append(probes, event.Probe)
		}
	}
	return probes
}

// Validate checks what expressions alone do not show: that all events have what the
// rule needs of them. The error says which part of the rule is wrong.
func (r Rule) Validate() error {
	if r.RunQueue {
		if len(r.Probes()) > 0 || r.Key != (Key{}) || r.Amount != "" || r.Loose {
			return errors.New("the waits of scheduler threads have no events, no key and no amount")
		}
		return nil
	}
	if len(r.Start) == 0 || len(r.End) == 0 {
		return errors.New("an outcome has both start and end")
	}
	if r.Pairing > FIFO {
		return fmt.Errorf("there is no pairing %s", r.Pairing)
	}
	if len(r.Via) > 0 && r.Pairing != FIFO {
		return fmt.Errorf("via goes with the pairing %s only, not %s", FIFO, r.Pairing)
	}
	if len(r.Sync) > 0 && (r.Pairing != FIFO || len(r.Via) > 0) {
		return fmt.Errorf("sync goes with the pairing %s only, and without via", FIFO)
	}
	if r.Overtaken && (r.Pairing == FIFO || len(r.Arm) > 0) {
		return fmt.Errorf("ends that overtake their starts do not go with the pairing %s, nor with arm", FIFO)
	}
	return errors.Join(r.validateKey(), r.validateArm(), r.validateAmount())
}

// validateKey checks that all events have the key, and the same kind of it.
func (r Rule) validateKey() error {
	var first string
	for _, part := range []struct {
		name   string
		events Expr
		key    string
	}{{"start", r.Start, r.Key.Start}, {"end", r.End, r.Key.End}, {"via", r.Via, r.Key.End}, {"sync", r.Sync, r.Key.End}, {"arm", r.Arm, r.Key.Start}} {
		for _, event := range part.events {
			operand, ok := event.Probe.Operand(part.key)
			if !ok {
				return fmt.Errorf("%s: %s has no argument %q to be its key: it has %s, or take %s", part.name, event.Probe.DTraceName(), part.key, argumentList(event.Probe), Thread)
			}
			kind := operand.describe(event.Probe)
			if first == "" {
				first = kind
			}
			if kind != first {
				return fmt.Errorf("%s: the key of %s is %s, and that of the start %s: they are never the same", part.name, event.Probe.DTraceName(), kind, first)
			}
		}
	}
	return nil
}

// describe says what an operand of a probe is: a thread, or an argument of some type.
func (o Operand) describe(p Probe) string {
	if o.Kind == OperandThread {
		return "a thread"
	}
	return p.Args[o.Arg].Type.describe()
}

// describe says what arguments of a type are. Those with the same description can be
// equal.
func (t Type) describe() string {
	switch {
	case !t.IsText():
		return "an integer"
	case t == MFA:
		return "an mfa"
	}
	return "a " + t.String()
}

func (r Rule) validateArm() error {
	if len(r.Arm) == 0 {
		if r.Armed != "" || r.ArmedBy != "" {
			return errors.New("arm: there are arguments to compare, but no events")
		}
		return nil
	}
	for _, arm := range r.Arm {
		armed, err := arm.Probe.argument(r.Armed)
		if err != nil {
			return fmt.Errorf("arm: %w", err)
		}
		for _, start := range r.Start {
			by, err := start.Probe.argument(r.ArmedBy)
			if err != nil {
				return fmt.Errorf("start: %w", err)
			}
			if armed.Type.describe() != by.Type.describe() {
				return fmt.Errorf("start: %s of %s is %s, and %s of %s %s: they are never the same", by.Name, start.Probe.DTraceName(), by.Type.describe(), armed.Name, arm.Probe.DTraceName(), armed.Type.describe())
			}
		}
	}
	return nil
}

func (r Rule) validateAmount() error {
	if r.Amount == "" {
		return nil
	}
	for _, event := range r.End {
		arg, err := event.Probe.argument(r.Amount)
		if err != nil {
			return fmt.Errorf("end: %w", err)
		}
		if arg.Type.IsText() {
			return fmt.Errorf("end: %s of %s is %s, and cannot be added up", arg.Name, event.Probe.DTraceName(), arg.Type.describe())
		}
	}
	return nil
}

// argument returns the argument of a name.
func (p Probe) argument(name string) (Arg, error) {
	i := p.index(name)
	if i < 0 {
		return Arg{}, fmt.Errorf("%s has no argument %q: it has %s", p.DTraceName(), name, argumentList(p))
	}
	return p.Args[i], nil
}

// index returns the index of the argument of a name, or -1.
func (p Probe) index(name string) int {
	return slices.IndexFunc(p.Args, func(a Arg) bool { return a.Name == name })
}

// A Key says which arguments of events tell instances apart. [Thread] stands for the
// thread of the operating system on which an event happens. An event that has no
// argument of that name is told by its subject, the process that does it.
type Key struct{ Start, End string }

// Thread is the key of what starts and ends on one thread of the operating system.
const Thread = "thread"

// A Pairing says which start belongs to an end of the same key.
type Pairing uint8

// The pairings.
const (
	// First: an instance that is open is not started again; further starts are part
	// of it.
	First Pairing = iota

	// Last: a start takes the place of an open instance, which is counted as loss,
	// for it is not known what became of it.
	Last

	// FIFO: the first that started is the first that ends. That is inferred and
	// counted as such. Where the arguments show a seq_trace token, it tells exactly
	// which start an end belongs to.
	FIFO
)

// String returns the pairing as it is written in scope files: first, last or fifo.
func (p Pairing) String() string { return name(p, "first", "last", "fifo") }

// An Operand is where an event has what a key or a group is made of.
type Operand struct {
	Kind OperandKind
	Arg  int // index of the argument, for OperandArg
}

// An OperandKind says what an operand is.
type OperandKind uint8

// The kinds of operands.
const (
	OperandNone   OperandKind = iota
	OperandThread             // the thread of the operating system
	OperandArg                // an argument
)

// Operand returns where an event of the probe has the argument of this name, which may
// be [Thread]: an argument that it lacks is its subject. ok is false where it has
// neither.
func (p Probe) Operand(name string) (o Operand, ok bool) {
	if name == Thread {
		return Operand{Kind: OperandThread}, true
	}
	for _, wanted := range []string{name, p.Subject} {
		for i, a := range p.Args {
			if wanted != "" && a.Name == wanted {
				return Operand{Kind: OperandArg, Arg: i}, true
			}
		}
	}
	return Operand{}, false
}
