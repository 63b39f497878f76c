package bpf

// An EventKind is the kind of an event.
type EventKind uint8

// The kinds of events. Process is the process of the event, unless the comment says otherwise.
const (
	EventWatch     EventKind = iota + 1 // events of Process are recorded from here on: Other sent it a message, or it started a span (Other is 0)
	EventUnwatched                      // there was no room to watch Process
	EventSpanStart                      // Process starts the span ID of Outcome, on Thread
	EventSpanEnd                        // Process ends a span, which another process may have started
	EventIn                             // a scheduler begins to run Process, on Thread; a thread that has waited since before attaching does not report it
	EventOut                            // it stops running, see State and Reductions. Does not follow EventExit
	EventGCStart
	EventGCEnd
	EventNIFStart // a dirty scheduler calls the native function Text
	EventNIFEnd
	EventSend    // Process sends a message to Other
	EventQueued  // Process fetches a message from its outer queue
	EventReceive // Process takes a message out of its mailbox; Origin and Other are its sender
	EventSuspend // Process is suspended; Port, Other and Caller give the cause
	EventExit
	EventOffCPU    // Thread, a scheduler of the VM, did not run from From until Time, and was ready since To; Off and Text give the reason why it was not ready before. No Process
	EventNeighbour // Process, which begins to run on Thread, had to wait: Other ran there from From until To
	EventResume    // Process is resumed; Other is the number of its suspensions, 0 if unknown
	EventHold      // Other asks the VM to suspend Process, by erlang:suspend_process
	EventRelease   // Other asks the VM to resume Process, or to count one suspension less
	EventReady     // Process, which waited, is ready: it is given to a scheduler
	EventMonitor   // Process begins to monitor the process Other, 0 for one of another node
)

// States of [Event.State], and whether the state is known. EventIn has only the last two,
// EventReady only the last.
const (
	StateKnown     = 1 << iota // the others are valid
	StateActive                // the process is ready: it was preempted, or moves to another scheduler
	StateSuspended             // it must be resumed first
	StateDirty                 // it continues on a dirty scheduler
	StateExiting
	StateTimer    // a receive has a timeout that has not expired
	StateTimedOut // a receive has a timeout that has expired or never expires
)

// An Origin is the kind of sender of a message, as the VM stores it with the message.
type Origin uint8

// The origins, with the meaning of [Event.Other].
const (
	OriginUnknown Origin = iota // 0
	OriginProcess               // a process of this node, in the form of Process: it sent the message, or the VM did on its behalf, for example at its exit or after its garbage collection
	OriginPort                  // the number of a port
	OriginAtom                  // the index of an atom: clock_service and system, parts of the VM; undefined; or the name of another node
	OriginDown                  // the message of a monitor: a process has ended, Other
)

// An OffReason is the reason why a thread does not run.
type OffReason uint8

// The reasons.
const (
	OffReady   OffReason = iota // it is runnable and waits for a processor
	OffBlocked                  // it sleeps: in a system call, or because of a page that is not in memory
	OffStopped                  // by a signal, with all threads of the VM
	OffTraced                   // by a debugger
	OffFrozen                   // with its cgroup, and thus all threads of the VM
)

// An Event happened to a process that takes part in an open span of an outcome with Explain, or to
// which such a process sends a message.
type Event struct {
	Time    int64 // nanoseconds of CLOCK_MONOTONIC
	VM      int   // pid of the operating system
	Thread  int   // of the operating system, in the initial pid namespace
	Kind    EventKind
	Process uint64 // as [Instance.Process]
	Other   uint64

	Outcome int    // number of the outcome's name, see [Collector.Outcome]
	ID      uint64 // of the span

	// For messages: the size in words, the seq_trace token unless Label, Prev and Cur are all 0,
	// and, when received or queued, the number of messages in the inner queue, including this one.
	// Alias says that the message was sent to an alias, or with priority, which is possible since
	// OTP 28. Such a message has size 0, and Cur 0 if the token is unknown. For a queued message,
	// Inner counts all messages of the same fetch.
	Size             uint32
	Label, Prev, Cur int32
	Inner            uint32
	Alias            bool

	// Message is the address of a message that is queued or received without a token; 0 if unknown.
	// No other message in the mailbox has this address. It may change in a garbage collection.
	Message uint64

	// Unfetched means, for EventSend and EventReceive, that the VM does not report when processes
	// fetch messages: there is no EventQueued. Then Message of EventSend is the address of the sent
	// message, unless it is sent to an alias.
	Unfetched bool

	// Unwatched means, for EventSend and events of spans, that Process is not tracked: the event is
	// logged because of Other or the span, and nothing else is known about Process.
	Unwatched bool

	// Again means, for EventIn, that no other process ran on Thread since Process stopped there.
	Again bool

	// For EventSuspend: if Port is set, a port is busy, and Other is its number, 0 if unknown.
	// Otherwise Caller identifies the function of the VM that suspends the process: the distance in
	// bytes from the place of the probe process__suspend to the return address in that function, 0
	// if unknown. Text is the function's name, if the reader of the events has set it.
	Port   bool
	Caller int64

	State      uint8 // of EventOut, EventIn and EventReady: a set of States
	Reductions int32 // of EventOut
	From, To   int64 // nanoseconds of CLOCK_MONOTONIC
	Text       string

	Origin Origin // of EventReceive
	Tag    uint32 // for EventReceive from OriginAtom: the index of the atom at the beginning of the message, if the message is a tuple of four; otherwise 0

	// Unseen means, for EventOffCPU, that the thread did not run for an unknown part of the time
	// from To on: the kernel counted more switches than the programs saw. If From is To, nothing
	// else is known. If both are 0, the beginning of the time is not known either.
	Unseen bool

	Off OffReason // for EventOffCPU; for OffBlocked, Text is the name of the system call, "" for none
}
