package dtrace

import (
	"errors"
	"fmt"
	"slices"
)

// A Rule defines the events of the VM that start and end an outcome's instances, and how the events
// of one instance are paired.
type Rule struct {
	Start, End Expr
	Key        Key
	Pairing    Pairing

	// Via are events between start and end through which instances pass in order,
	// with [FIFO] only. An instance that leaves this stage without having started continues to the
	// end as an orphan, so that the order of the others stays right.
	Via Expr

	// Sync are events which show that a receiver has begun to handle fetched messages, with [FIFO]
	// only. A receiver fetches all messages at once. So an instance that started before the last
	// fetch and is still in the first stage will never leave it: it is given up as unpaired. With
	// message-queued as Via, the ends show the same.
	Sync Expr

	// Arm are events that a start needs: the last Arm event of the same key since the last start
	// must have the same value in its argument Armed as the start has in its argument ArmedBy. If
	// Arm is empty, every start counts.
	Arm            Expr
	Armed, ArmedBy string

	// Amount is the argument of ends that is added up, such as reclaimed words; "" for
	// none.
	Amount string

	// Loose means that ends often come without starts. Such ends count as dropped, not as orphans.
	Loose bool

	// Overtaken means that the event of an end may come before that of its start, by at most a
	// second, because they come from different threads. Such an instance is a success without
	// delay, and its end counted as an orphan before. Only without [FIFO] and Arm.
	Overtaken bool

	// RunQueue means that the instances are the waits of the VM's scheduler threads for a
	// processor. They come from the operating system's scheduler, not from probes: all other fields
	// are empty.
	RunQueue bool
}

// Synced reports whether events show when receivers have fetched all waiting messages: there are
// Sync events, or the instances pass through message-queued, where receivers fetch.
func (r Rule) Synced() bool {
	return len(r.Sync) > 0 || slices.ContainsFunc(r.Via, func(e Event) bool { return e.Probe.Name == "message__queued" })
}

// Selective reports whether a receiver's instances may end in another order than they started: a
// process takes any message of its mailbox that matches.
func (r Rule) Selective() bool {
	return r.Pairing == FIFO && slices.ContainsFunc(r.End, func(e Event) bool { return e.Probe.Name == "message__receive" })
}

// OfProcesses reports whether each instance of a rule with [FIFO] belongs to the process that takes
// it: when that process exits, its open instances can no longer end.
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

// Validate checks what expressions alone do not show: that all events have the arguments that the
// rule needs. The error names the wrong part of the rule.
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

// validateKey checks that all events have the key, and that its kind is the same.
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

// describe describes an operand of a probe: a thread, or an argument of a type.
func (o Operand) describe(p Probe) string {
	if o.Kind == OperandThread {
		return "a thread"
	}
	return p.Args[o.Arg].Type.describe()
}

// describe describes arguments of a type. Arguments with equal descriptions can be equal.
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

// argument returns the argument with a name.
func (p Probe) argument(name string) (Arg, error) {
	i := p.index(name)
	if i < 0 {
		return Arg{}, fmt.Errorf("%s has no argument %q: it has %s", p.DTraceName(), name, argumentList(p))
	}
	return p.Args[i], nil
}

// index returns the index of the argument with a name, or -1.
func (p Probe) index(name string) int {
	return slices.IndexFunc(p.Args, func(a Arg) bool { return a.Name == name })
}

// A Key names the arguments that identify an instance. [Thread] is the thread of the operating
// system on which an event happens. If an event has no argument with that name, its subject is
// used: the process that the event is about.
type Key struct{ Start, End string }

// Thread is the key of instances that start and end on one thread of the operating system.
const Thread = "thread"

// A Pairing defines which start belongs to an end of the same key.
type Pairing uint8

// The pairings.
const (
	// First: if an instance is open, further starts are part of it.
	First Pairing = iota

	// Last: a start replaces an open instance, which counts as loss, because its end is not known.
	Last

	// FIFO: instances end in the order in which they started. That is inferred and counted as such.
	// If the arguments contain a seq_trace token, the token gives the start of an end exactly.
	FIFO
)

// String returns the pairing as it is written in scope files: first, last or fifo.
func (p Pairing) String() string { return name(p, "first", "last", "fifo") }

// An Operand is the place in an event from which a key or a group comes.
type Operand struct {
	Kind OperandKind
	Arg  int // index of the argument, for OperandArg
}

// An OperandKind is the kind of an [Operand].
type OperandKind uint8

// The kinds of operands.
const (
	OperandNone   OperandKind = iota
	OperandThread             // the thread of the operating system
	OperandArg                // an argument
)

// Operand returns the place of an argument in an event of the probe. The name may be [Thread]. For
// an argument that the event lacks it returns the subject. ok is false if the event has neither.
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
