package bpf

// An EventKind says what happened.
type EventKind uint8

// The kinds of events. Process is whom it happened to unless it says otherwise.
const (
	EventWatch     EventKind = iota + 1 // events of Process are recorded from here on: Other sent it a message, or it started a span (Other is 0)
	EventUnwatched                      // there was no room to watch Process
	EventSpanStart                      // Process starts the span ID of Outcome, on Thread
	EventSpanEnd                        // Process ends it, whoever started it
	EventIn                             // a scheduler begins to run Process, on Thread; not told by a thread that has waited since before we attached
	EventOut                            // it stops; State and Reductions tell how. Not told behind EventExit
	EventGCStart
	EventGCEnd
	EventNIFStart // a dirty scheduler calls a native function; Text says which
	EventNIFEnd
	EventSend    // Process sends a message to Other
	EventQueued  // Process fetches a message from its outer queue
	EventReceive // Process takes a message out of its mailbox; Origin and Other tell where it comes from
	EventSuspend // Process is suspended; Port, Other and Caller tell why
	EventExit
	EventOffCPU    // Thread, of the VM's schedulers, did not run from From until Time, and could have since To; Off and Text tell why it could not before. No Process
	EventNeighbour // Process, which begins to run on Thread, could not before: Other ran there from From until To
	EventResume    // Process is resumed; Other is how many suspensions it had, 0 where that is not known
	EventHold      // Other asks the VM to suspend Process, by erlang:suspend_process
	EventRelease   // Other asks the VM to resume Process, or to count one suspension less
	EventReady     // Process, which waited, can go on: it is given to a scheduler
	EventMonitor   // Process begins to monitor the process Other, 0 where that is of another node
)

// States of [Event.State], and whether there is one. EventIn has only the last two, EventReady
// only the last.
const (
	StateKnown     = 1 << iota // the others say something
	StateActive                // the process could go on: it was preempted, or moves to another scheduler
	StateSuspended             // it must be resumed first
	StateDirty                 // it goes on on a dirty scheduler
	StateExiting
	StateTimer    // a receive has a time that is not over
	StateTimedOut // a receive has a time that is over, or one that never is
)

// An Origin is where a message comes from, as the VM keeps it with the message.
type Origin uint8

// The origins, and what [Event.Other] is then.
const (
	OriginUnknown Origin = iota // 0
	OriginProcess               // a process of this node, as Process: it sent the message, or the VM did for its sake, as when it ends or its garbage was collected
	OriginPort                  // the number of a port
	OriginAtom                  // the index of an atom: clock_service and system, parts of the VM; undefined; or the name of another node
	OriginDown                  // a monitor tells that a process has ended; that process
)

// An OffReason is why a thread does not run.
type OffReason uint8

// The reasons.
const (
	OffReady   OffReason = iota // it could, and waits for a processor
	OffBlocked                  // it sleeps: in a system call, or because of a page that is not in memory
	OffStopped                  // by a signal, as all threads of the VM are
	OffTraced                   // by a debugger
	OffFrozen                   // with its cgroup, as all threads of the VM are
)

// An Event is something that happened to a process that takes part in an open span of
// an outcome with Explain, or is sent a message by one that does.
type Event struct {
	Time    int64 // nanoseconds of CLOCK_MONOTONIC
	VM      int   // pid of the operating system
	Thread  int   // of the operating system, in the initial pid namespace
	Kind    EventKind
	Process uint64 // as [Instance.Process]
	Other   uint64

	Outcome int    // number of the outcome's name, see [Collector.Outcome]
	ID      uint64 // of the span

	// Of messages: the size in words, the seq_trace token where Label, Prev and Cur are
	// not all 0, and, when received or queued, how many messages there were in the inner
	// queue, this one included. Alias says that it was sent to an alias, or with
	// priority, which it can be since OTP 28: then the size
	// is 0, and so is Cur where it cannot be known; Inner of what is queued is that of
	// the whole fetch.
	Size             uint32
	Label, Prev, Cur int32
	Inner            uint32
	Alias            bool

	// Message is, of what is queued or received without a token, where the VM has the message:
	// no other one that waits in the mailbox has that address. It may change when garbage is
	// collected. 0 where it is not known.
	Message uint64

	// Unwatched is, of EventSend and those of spans, that Process is not watched: it is
	// logged for Other's or the span's sake, and nothing else of Process is known then.
	Unwatched bool

	// Again, of EventIn, says that no other process ran on Thread since it stopped there.
	Again bool

	// Of EventSuspend: Port says that a port is busy, and Other is its number, 0 where that
	// is not known. Otherwise Caller tells which function of the VM suspends the process:
	// the distance in bytes from the place of the probe process__suspend to where that
	// function goes on, 0 where it is not known; and Text is the function's name, where
	// whoever reads the events has put it there.
	Port   bool
	Caller int64

	State      uint8 // of EventOut, EventIn and EventReady: a set of States
	Reductions int32 // of EventOut
	From, To   int64 // nanoseconds of CLOCK_MONOTONIC
	Text       string

	Origin Origin // of EventReceive
	Tag    uint32 // of EventReceive from OriginAtom: the index of the atom with which the message begins if it is a tuple of four, 0 if it is none

	Off OffReason // of EventOffCPU; where it is OffBlocked, Text names the system call, and is "" for none
}
