package dtrace

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

	// RunQueue says that the instances are the waits of the VM's scheduler threads for a
	// processor. The operating system's scheduler tells of them, no probe: everything
	// else is empty.
	RunQueue bool
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
