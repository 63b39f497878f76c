package dtrace

import (
	"slices"
	"time"
)

// A Builtin is an outcome of the VM that needs no instrumentation. Scope files refer to it by
// name, as in vm: gc.
type Builtin struct {
	Name string
	Rule Rule

	// DMax and Bins are the scale if the scope file has none.
	DMax time.Duration
	Bins int

	// Sentences for the reference: the event that starts an instance, the event that ends it,
	// the limits of the outcome, and its cost.
	Starts, Ends, Blind, Cost string
}

// Builtins returns the outcomes of the VM that need no instrumentation. The caller may change
// the slice.
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

// events parses an expression of this file. It panics if the expression is wrong.
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
	const literals = "Collections when a process hibernates, and collections of literals when code is purged, have no events. If a dirty scheduler collects a large heap, the process's wait for that scheduler is not in the delay."
	all := collection("gc", "gc_minor-start or gc_major-start", "gc_minor-end or gc_major-end")
	all.Starts = "A garbage collection of a process starts, minor or major."
	all.Ends = "It ends on the same thread. The amount is the number of words that it reclaimed."
	all.Blind = "If the old heap has no room for a minor collection, that collection does nothing, and a major one follows at once: these are two instances. " + literals
	minor := collection("gc-minor", "gc_minor-start", "gc_minor-end")
	minor.Starts = "A minor garbage collection of a process starts."
	minor.Ends = "It ends on the same thread. The amount is the number of words that it reclaimed."
	minor.Blind = "If the old heap has no room for a minor collection, that collection does nothing, and is still an instance. The major collection that follows is no instance of this outcome. " + literals
	major := collection("gc-major", "gc_major-start", "gc_major-end")
	major.Starts = "A major garbage collection of a process starts, also one that follows a minor one because the old heap has no room."
	major.Ends = "It ends on the same thread. The amount is the number of words that it reclaimed."
	major.Blind = literals
	return []Builtin{all, minor, major}
}

// localSend matches a send to a process of this node. Other receivers have a name, or a pid that
// begins with the number of their node.
const localSend = `message-send[receiver="<0.*"]`

// deliveries are the outcomes of messages.
func deliveries() []Builtin {
	const (
		pairing  = "The probes do not identify the send of a message. A seq_trace token does. beamscope pairs messages without a token in their order, for each receiver, and counts them as inferred. "
		silent   = "Some messages have no send event: replies to an alias, such as those of gen_server:call with a finite timeout, messages with priority (since OTP 28), and messages from timers, ports, other nodes and the VM itself. They end nothing, or they end the oldest instance of the receiver in place of its own message. If a message was sent before one fetch of the receiver and is still open at the next fetch, it is lost as unpaired. "
		gone     = "Messages that the receiver never fetches, because it exits, time out. "
		tooQuick = "Messages that several senders send at once may enter the queue in another order than that of their events. If the operating system interrupts a sender for more than 0.1 ms before its message is in the queue, that message may be lost as unpaired."
		selected = "The probes do not say which message a process takes out of its mailbox. The address of the message does, if the executable has debugging information. Without it, beamscope pairs messages that have no seq_trace token in their order. A process may take a later message first, so beamscope trusts that order only for dMax after the mailbox was last empty. After that, a message that is taken, or that times out, is lost as unpaired. "
	)
	return []Builtin{
		{
			Name: "hop", DMax: 100 * time.Millisecond, Bins: 1000,
			Rule:   Rule{Start: events(localSend), End: events("message-queued"), Sync: events("message-receive"), Key: Key{"receiver", "receiver"}, Pairing: FIFO},
			Starts: "A message is sent to a process of the same node.",
			Ends:   "The receiver fetches the message from its outer queue, which it does when it runs and wants a message. The delay is the time to wake it up.",
			Blind:  pairing + silent + gone + tooQuick,
			Cost:   "Three events for each message, hot.",
		},
		{
			Name: "mailbox", DMax: 100 * time.Millisecond, Bins: 1000,
			Rule:   Rule{Start: events("message-queued"), End: events("message-receive"), Key: Key{"receiver", "receiver"}, Pairing: FIFO},
			Starts: "A receiver fetches a message from its outer queue.",
			Ends:   "The receiver takes the message out of its mailbox. The delay is the wait there.",
			Blind:  selected + "beamscope counts instances that are paired in their order as inferred. Messages that no receive ever matches, or that the receiver leaves behind when it exits, time out. In a VM without probes, messages to an alias, such as the replies to most calls, end as orphans.",
			Cost:   "Two events for each message, hot.",
		},
		{
			Name: "message", DMax: 100 * time.Millisecond, Bins: 1000,
			Rule:   Rule{Start: events(localSend), Via: events("message-queued"), End: events("message-receive"), Key: Key{"receiver", "receiver"}, Pairing: FIFO},
			Starts: "A message is sent to a process of the same node.",
			Ends:   "The receiver takes the message out of its mailbox, after it has fetched it from its outer queue. The delay is that of hop and mailbox together.",
			Blind:  pairing + "beamscope follows messages without a send event (see hop) from the outer queue on. They do not disturb the order of later messages in the mailbox, but may disturb it in the outer queue. " + selected + gone + tooQuick,
			Cost:   "Three events for each message, hot.",
		},
		{
			Name: "call", DMax: 100 * time.Millisecond, Bins: 1000,
			Rule: Rule{
				Arm: events("process-monitor[type=0]"), Armed: "target", ArmedBy: "receiver",
				Start: events(localSend), End: events("process-demonitor"),
				Key: Key{"sender", "pid"}, Pairing: Last, Loose: true,
			},
			Starts: "A process begins to monitor a process of the same node, and then sends it a message. gen_server:call, and any other call by the module gen, sends its request in this way.",
			Ends:   "The process removes a monitor, as the call does when the reply has come. The delay is the call as its caller sees it.",
			Blind:  "Any program may monitor, send and demonitor in this order: such instances look the same. The process of an open file monitors the process that opened it, and answers its requests. It removes no monitor, so each file that is opened without the option raw, as by file:write_file, is an instance that times out or is lost as unpaired. A call to a process that no longer exists is no instance, because the caller sends nothing. If the called process dies, nobody removes the monitor: the instance is lost as unpaired at the caller's next call, or ends with the next monitor that the caller removes, or times out. If the caller is killed while it waits, the VM removes its monitors, and that looks like a reply. So does a timeout of the call that is shorter than dMax. Calls to other nodes, calls to itself and erpc have no instances. A request whose sender does not wait, as with gen_server:send_request, ends with the next monitor that the sender removes.",
			Cost:   "Two events for each call, moderately hot, and one for each message of any kind, hot.",
		},
	}
}

func lifetimes() []Builtin {
	return []Builtin{{
		Name: "lifetime", DMax: 10 * time.Second, Bins: 1000,
		Rule:   Rule{Start: events("process-spawn"), End: events("process-exit"), Key: Key{"pid", "pid"}, Pairing: Last, Overtaken: true},
		Starts: "A process is spawned.",
		Ends:   "It begins to exit. Every exit is a success here, whatever its reason.",
		Blind:  "Processes that live longer than dMax time out, which is no fault of theirs. Processes that lived before the observation end as orphans. When the VM reports a spawn, the process may already run. If it exits at once on another scheduler, its exit can come before its spawn: that exit is an orphan, and the spawn becomes a success without delay. The delay does not contain what the VM does between the exit and the end of the process, such as sending exit signals to its links.",
		Cost:   "Two events for each process, moderately hot.",
	}}
}

// dirtyFunctions are the outcomes of native functions on dirty schedulers.
func dirtyFunctions() []Builtin {
	const blind = "The wait for a dirty scheduler comes before the start. An exception ends an instance like any other return. A function that runs in several pieces has an instance for each piece. "
	return []Builtin{
		{
			Name: "dirty-nif", DMax: 100 * time.Millisecond, Bins: 1000,
			Rule:   Rule{Start: events("nif-entry"), End: events("nif-return"), Key: Key{Thread, Thread}, Pairing: Last},
			Starts: "A dirty scheduler calls a native function: a NIF, or a built-in function of the VM that runs there.",
			Ends:   "The function returns on the same thread.",
			Blind:  "Native functions on ordinary schedulers have no instances, because compiled code calls them without an event. " + blind + "If the process is killed meanwhile, no event reports the return: the instance is lost as unpaired when the thread calls the next function, or times out.",
			Cost:   "Two events for each call, moderately hot.",
		},
		{
			Name: "file-io", DMax: 100 * time.Millisecond, Bins: 1000,
			Rule:   Rule{Start: events(`nif-entry[mfa="prim_file:*"]`), End: events("nif-return"), Key: Key{Thread, Thread}, Pairing: Last, Loose: true},
			Starts: "A dirty scheduler calls a native function of prim_file. The module file uses these to read, write, open and list files.",
			Ends:   "The thread returns from the function. The event does not report which function it was, but a thread runs one at a time.",
			Blind:  blind + "If the process is killed meanwhile, no event reports the return: the next return on the thread, of any function, ends the instance. A file that is not opened as raw has a process of its own, which does the input and output for others. Their wait for that process is not in the delay. What the kernel writes later is in no instance.",
			Cost:   "Two events for each operation, moderately hot. The kernel drops the events of other dirty functions.",
		},
	}
}

// congestion are the outcomes of busy ports and busy connections between nodes.
func congestion() []Builtin {
	return []Builtin{
		{
			Name: "port-busy", DMax: time.Second, Bins: 500,
			Rule:   Rule{Start: events("port-busy"), End: events("port-not_busy"), Key: Key{"port", "port"}, Pairing: First},
			Starts: "The driver of a port marks the port as busy. A socket is busy when its queue of unsent data exceeds the high watermark. Processes that write to the port then wait.",
			Ends:   "The driver marks the port as not busy.",
			Blind:  "A port that gets commands faster than its driver takes them is busy too, without an event. A port that is closed while it is busy times out. The number of waiting processes is not known. Sockets of the module socket are no ports.",
			Cost:   "Two events each time, rare.",
		},
		{
			Name: "dist-busy", DMax: time.Second, Bins: 500,
			Rule:   Rule{Start: events("dist-port_busy"), End: events("dist-port_not_busy"), Key: Key{"port", "port"}, Pairing: First},
			Starts: "The VM suspends a process because it sends more to another node than the connection can buffer (erl +zdbbl). Processes that are suspended later, while the instance is open, belong to the same instance.",
			Ends:   "The port of the connection can write again. The processes go on a little later, when the buffer has become small enough.",
			Blind:  "If a buffer becomes full and empty again while the port can write all the time, there is no end event, and the instance times out. It also times out if the connection breaks. Connections without a port, such as TLS connections, have no end event either. A process that is suspended between two fragments of a message of more than 64 KiB has no start event.",
			Cost:   "Two events each time, rare.",
		},
	}
}

// scheduling are the outcomes of running and of waiting to run.
func scheduling() []Builtin {
	const functions = "The events are at the function erts_schedule, so an executable that does not export this function has none of them. "
	return []Builtin{
		{
			Name: "run", DMax: 10 * time.Millisecond, Bins: 500,
			Rule:   Rule{Start: events("process-in"), End: events("process-out"), Key: Key{"pid", "pid"}, Pairing: Last},
			Starts: "A scheduler of any kind starts to run a process: erts_schedule returns it.",
			Ends:   "The process leaves the scheduler: the scheduler calls erts_schedule with it. The process waits, has used up its reductions, moves to a dirty scheduler or back, or exits.",
			Blind:  functions + "If a scheduler runs a slice or waits for one when the observation begins, its first slice has no instance. The work of erts_schedule itself is in no slice: port tasks, timers, and signals and system tasks that it handles before a process runs. A slice contains the time in which the operating system gives the scheduler no processor, see os-wait.",
			Cost:   "Two events for each slice, hot, and the return of a function costs more than a probe.",
		},
		{
			Name: "run-wait", DMax: 50 * time.Millisecond, Bins: 500,
			Rule:   Rule{Start: events("process-out[reductions>=4000]"), End: events("process-in"), Key: Key{"pid", "pid"}, Pairing: Last, Loose: true},
			Starts: "A process leaves its scheduler although it could go on: it has used up its reductions, or calls a function that runs on a dirty scheduler.",
			Ends:   "A scheduler of any kind runs it again. The delay is the wait for its turn, or for the dirty scheduler.",
			Blind:  functions + "If a message wakes up a process, its wait is in hop, and not here. A process that uses its last reduction when it begins to wait for a message, or when it is suspended, looks like one that could go on: its delay lasts until it is woken up and runs, or the instance times out. A process may begin with fewer than 4000 reductions, because the scheduler handled its signals or system tasks just before it ran. When it has used them up, it has no instance. Neither has a process that calls erlang:yield. The way back from a dirty scheduler has no instance, except after more than 1 ms on a dirty CPU scheduler, which counts as 4000 reductions.",
			Cost:   "Two events for each slice, hot, and the return of a function costs twice as much as a probe.",
		},
		{
			Name: "os-wait", DMax: 20 * time.Millisecond, Bins: 500,
			Rule:   Rule{RunQueue: true},
			Starts: "A scheduler thread of the VM wakes up, or loses its processor although it could go on. It then waits in the run queue of the operating system.",
			Ends:   "The operating system gives it a processor.",
			Blind:  "It needs a kernel with the tracepoints of its scheduler. In a virtual machine the time that the host takes away does not show. If the VM is in a control group with a limit of processor time, the delay contains the wait for the next period. If the kernel does not report a switch of a thread, a wait is missing or too long: one machine of ours did not report 0.9 % of them.",
			Cost:   "Nothing in the VM itself. A short program runs at each switch and each waking of any thread of the machine, hot.",
		},
	}
}
