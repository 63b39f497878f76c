package dtrace

import (
	"slices"
	"time"
)

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
func Builtins() []Builtin {
	return slices.Concat(collections(), deliveries(), lifetimes(), dirtyFunctions(), congestion(), scheduling())
}

// LookupBuiltin returns the built-in outcome of a name.
func LookupBuiltin(name string) (Builtin, bool) {
	for _, b := range Builtins() {
		if b.Name == name {
			return b, true
		}
	}
	return Builtin{}, false
}

// events parses an expression of this file, which is right.
func events(text string) Expr {
	expr, err := ParseExpr(text)
	if err != nil {
		panic(err)
	}
	return expr
}

// collections are the outcomes of garbage collection.
func collections() []Builtin {
	collection := func(name, start, end string) Builtin {
		return Builtin{
			Name: name, DMax: 20 * time.Millisecond, Bins: 1000,
			Rule: Rule{Start: events(start), End: events(end), Key: Key{Thread, Thread}, Pairing: Last, Amount: "reclaimed"},
			Cost: "Two events for each collection, moderately hot.",
		}
	}
	const literals = "Collections when a process hibernates, and those of literals when code is purged, are not seen, nor is what a process waits for a dirty scheduler when a large heap is collected there."
	all := collection("gc", "gc_minor-start or gc_major-start", "gc_minor-end or gc_major-end")
	all.Starts = "A garbage collection of a process starts, minor or major."
	all.Ends = "It ends on the same thread. The amount are the words that it reclaimed."
	all.Blind = "A minor collection for which the old heap has no room does nothing, and a major one follows at once: these are two instances. " + literals
	minor := collection("gc-minor", "gc_minor-start", "gc_minor-end")
	minor.Starts = "A minor garbage collection of a process starts."
	minor.Ends = "It ends on the same thread. The amount are the words that it reclaimed."
	minor.Blind = "One for which the old heap has no room does nothing, and is an instance all the same; the major collection that follows is none of this outcome. " + literals
	major := collection("gc-major", "gc_major-start", "gc_major-end")
	major.Starts = "A major garbage collection of a process starts, also one in place of a minor one for which the old heap has no room."
	major.Ends = "It ends on the same thread. The amount are the words that it reclaimed."
	major.Blind = literals
	return []Builtin{all, minor, major}
}

// localSend is a send to a process of this node. Other receivers are named, or their
// pids begin with the number of their node.
const localSend = `message-send[receiver="<0.*"]`

// deliveries are the outcomes of messages.
func deliveries() []Builtin {
	const (
		pairing  = "The probes do not say which send a message belongs to. A seq_trace token says so; messages without one are paired in their order, for each receiver, and counted as inferred. "
		silent   = "Some messages have no send event: replies to an alias, such as those of gen_server:call with a finite timeout, messages with priority (since OTP 28), and what timers, ports, other nodes and the VM itself send. They end nothing, or they end the oldest instance of the receiver in place of its own message. What was sent before the receiver fetched, and is left over, is lost as unpaired when it fetches again. "
		gone     = "Messages that the receiver never fetches, because it exits, time out. "
		tooQuick = "Messages that several senders send at once may enter the queue in another order than that of their events. Where the operating system interrupts a sender for more than 0.1 ms before its message is in the queue, that message may be lost as unpaired."
		selected = "The probes do not say which message a process takes out of its mailbox. The address of the message says so where the executable has debugging information. Without it, messages that have no seq_trace token are paired in their order. A process may take a later message first, so that order is only trusted for dMax after the mailbox was last empty. After that, a message that is taken, or that times out, is lost as unpaired. "
	)
	return []Builtin{
		{
			Name: "hop", DMax: 100 * time.Millisecond, Bins: 1000,
			Rule:   Rule{Start: events(localSend), End: events("message-queued"), Sync: events("message-receive"), Key: Key{"receiver", "receiver"}, Pairing: FIFO},
			Starts: "A message is sent to a process of the same node.",
			Ends:   "The receiver fetches it from its outer queue, which it does when it runs and wants a message: the delay is that of waking it up.",
			Blind:  pairing + silent + gone + tooQuick,
			Cost:   "Three events for each message, hot.",
		},
		{
			Name: "mailbox", DMax: 100 * time.Millisecond, Bins: 1000,
			Rule:   Rule{Start: events("message-queued"), End: events("message-receive"), Key: Key{"receiver", "receiver"}, Pairing: FIFO},
			Starts: "A receiver fetches a message from its outer queue.",
			Ends:   "It takes the message out of its mailbox: the delay is the wait there.",
			Blind:  selected + "Instances that are paired in their order are counted as inferred. Messages that no receive ever matches, or that the receiver leaves behind when it exits, time out.",
			Cost:   "Two events for each message, hot.",
		},
		{
			Name: "message", DMax: 100 * time.Millisecond, Bins: 1000,
			Rule:   Rule{Start: events(localSend), Via: events("message-queued"), End: events("message-receive"), Key: Key{"receiver", "receiver"}, Pairing: FIFO},
			Starts: "A message is sent to a process of the same node.",
			Ends:   "The receiver takes it out of its mailbox, after it has fetched it from its outer queue: the delay is that of hop and mailbox together.",
			Blind:  pairing + "Messages without a send event (see hop) are followed from the outer queue on: they do not disturb the order of those behind them in the mailbox, but may do so in the outer queue. " + selected + gone + tooQuick,
			Cost:   "Three events for each message, hot.",
		},
		{
			Name: "call", DMax: 100 * time.Millisecond, Bins: 1000,
			Rule: Rule{
				Arm: events("process-monitor[type=0]"), Armed: "target", ArmedBy: "receiver",
				Start: events(localSend), End: events("process-demonitor"),
				Key: Key{"sender", "pid"}, Pairing: Last, Loose: true,
			},
			Starts: "A process sends a message to the process of the same node that it has begun to monitor just before: gen_server:call, or any other call by the module gen, sends its request.",
			Ends:   "The process removes a monitor, as the call does when the reply is there: the delay is the call as its caller sees it.",
			Blind:  "Any program may monitor, send and demonitor in this order: such instances look the same. A call of a process that is gone already is none, as nothing is sent. Where the process that is called dies, its monitor needs no removal: the instance is lost as unpaired at the caller's next call, or ends with the next monitor that the caller removes, or times out. Where the caller is killed while it waits, its monitors are removed, and that looks like a reply; so does a timeout of the call that is shorter than dMax. Calls to other nodes, calls to itself and erpc are not seen. Requests that are sent without waiting, such as those of gen_server:send_request, end with the next monitor that is removed.",
			Cost:   "Two events for each call, moderately hot, and one for each message of any kind, hot.",
		},
	}
}

func lifetimes() []Builtin {
	return []Builtin{{
		Name: "lifetime", DMax: 10 * time.Second, Bins: 1000,
		Rule:   Rule{Start: events("process-spawn"), End: events("process-exit"), Key: Key{"pid", "pid"}, Pairing: Last, Overtaken: true},
		Starts: "A process is spawned.",
		Ends:   "It begins to exit, for whatever reason: any exit is a success here.",
		Blind:  "Processes that live longer than dMax time out, which is no fault of theirs; those that lived before the observation end as orphans. The VM tells of a spawn when the process may run already: of one that exits at once on another scheduler the exit can come first, which is an orphan then, and makes its spawn a success without delay. What takes place between the exit and the end of the process, such as telling its links, is not in the delay.",
		Cost:   "Two events for each process, moderately hot.",
	}}
}

// dirtyFunctions are the outcomes of native functions on dirty schedulers.
func dirtyFunctions() []Builtin {
	const blind = "The wait for a dirty scheduler comes before the start. An exception ends an instance like any other return. One that goes on in pieces is an instance for each piece. "
	return []Builtin{
		{
			Name: "dirty-nif", DMax: 100 * time.Millisecond, Bins: 1000,
			Rule:   Rule{Start: events("nif-entry"), End: events("nif-return"), Key: Key{Thread, Thread}, Pairing: Last},
			Starts: "A dirty scheduler calls a native function: a NIF, or one of the VM's own that runs there.",
			Ends:   "The function returns on the same thread.",
			Blind:  "Native functions on ordinary schedulers are not seen, for compiled code calls them without an event. " + blind + "Where the process is killed meanwhile, no event tells of the return: the instance is lost as unpaired when the thread calls the next function, or times out.",
			Cost:   "Two events for each call, moderately hot.",
		},
		{
			Name: "file-io", DMax: 100 * time.Millisecond, Bins: 1000,
			Rule:   Rule{Start: events(`nif-entry[mfa="prim_file:*"]`), End: events("nif-return"), Key: Key{Thread, Thread}, Pairing: Last, Loose: true},
			Starts: "A dirty scheduler calls a native function of prim_file, through which the module file reads and writes, opens and lists.",
			Ends:   "The thread returns from the function. The event does not tell which function it was, but a thread runs one at a time.",
			Blind:  blind + "Where the process is killed meanwhile, no event tells of the return: the next return on the thread, of any function, is taken for it. A file that is not opened as raw has a process of its own, which does the input and output for others: what they wait for it is not in the delay. What the kernel writes later is not seen.",
			Cost:   "Two events for each operation, moderately hot; those of other dirty functions are dropped in the kernel.",
		},
	}
}

// congestion are the outcomes of what is busy.
func congestion() []Builtin {
	return []Builtin{
		{
			Name: "port-busy", DMax: time.Second, Bins: 500,
			Rule:   Rule{Start: events("port-busy"), End: events("port-not_busy"), Key: Key{"port", "port"}, Pairing: First},
			Starts: "The driver of a port says that it is busy, as that of a socket does when what it has to send is above its high watermark: who writes to the port has to wait.",
			Ends:   "The driver says that it is not busy any more.",
			Blind:  "A port to which commands come faster than its driver takes them is busy too, without an event. A port that is closed while it is busy times out. How many processes wait does not show. Sockets of the module socket are no ports.",
			Cost:   "Two events each time, rare.",
		},
		{
			Name: "dist-busy", DMax: time.Second, Bins: 500,
			Rule:   Rule{Start: events("dist-port_busy"), End: events("dist-port_not_busy"), Key: Key{"port", "port"}, Pairing: First},
			Starts: "A process is suspended because what it sends to another node is more than the connection can buffer (erl +zdbbl). Those that are suspended while one is belong to the same instance.",
			Ends:   "The port of the connection can write again; the processes go on when the buffer has become small enough, which is a little later.",
			Blind:  "A buffer that becomes full and empty again while the port can write all the time has no end event, and times out; so does one of which the connection breaks. Connections without a port, such as those by TLS, have no end event either. A process that is suspended between two fragments of a message, as it may be with one of more than 64 KiB, has no start event.",
			Cost:   "Two events each time, rare.",
		},
	}
}

// scheduling are the outcomes of running and of waiting to run.
func scheduling() []Builtin {
	const functions = "The events stand on the function erts_schedule, so an executable that does not export it has none. "
	return []Builtin{
		{
			Name: "run", DMax: 10 * time.Millisecond, Bins: 500,
			Rule:   Rule{Start: events("process-in"), End: events("process-out"), Key: Key{"pid", "pid"}, Pairing: Last},
			Starts: "A scheduler of any kind starts to run a process: erts_schedule returns it.",
			Ends:   "The process leaves the scheduler, because it waits, has used up its reductions, moves to a dirty scheduler or back, or exits: erts_schedule is entered with it.",
			Blind:  functions + "The first slice of each scheduler is not seen where the observation begins while that scheduler runs it or waits for one. What erts_schedule itself does is in no slice: port tasks, timers, and signals and system tasks that are handled before a process is run. The time that the operating system takes the processor away from the scheduler is in the slice, see os-wait.",
			Cost:   "Two events for each slice, hot, and the return of a function costs more than a probe.",
		},
		{
			Name: "run-wait", DMax: 50 * time.Millisecond, Bins: 500,
			Rule:   Rule{Start: events("process-out[reductions>=4000]"), End: events("process-in"), Key: Key{"pid", "pid"}, Pairing: Last, Loose: true},
			Starts: "A process has used up its reductions and leaves its scheduler, although it could go on.",
			Ends:   "A scheduler runs it again: the delay is the wait for its turn.",
			Blind:  functions + "Of processes that are woken up by a message the wait is in hop, and not here. A process that comes to wait for a message with its last reduction, or that is suspended then, looks like one that could go on: the delay is then until it is woken up and runs, or a timeout. A process that has fewer reductions than 4000 to begin with, because signals or system tasks of it were handled just before it ran, is not seen when it has used them up, nor is one that gives way by erlang:yield. After more than 1 ms on a dirty CPU scheduler, which counts as 4000 reductions, the delay is the wait for an ordinary scheduler.",
			Cost:   "Two events for each slice, hot, and the return of a function costs twice as much as a probe.",
		},
		{
			Name: "os-wait", DMax: 20 * time.Millisecond, Bins: 500,
			Rule:   Rule{RunQueue: true},
			Starts: "A scheduler thread of the VM wakes up, or is taken off its processor although it could go on: it waits in the run queue of the operating system.",
			Ends:   "The operating system gives it a processor.",
			Blind:  "It is told by the tracepoints of the kernel's scheduler, and needs a kernel that has them. In a virtual machine the time that the host takes away does not show. Where the VM has a control group with a limit of processor time, the wait for the next period is in the delay.",
			Cost:   "Nothing in the VM itself; a short program at each switch and each waking of any thread of the machine, hot.",
		},
	}
}
