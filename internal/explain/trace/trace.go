// Package trace describes where the time of one outcome instance went: a tree of spans, process by
// process, with the certainty of each.
//
// The leaves of the tree divide the time of the instance without gaps and overlaps, so their
// durations add up to that of the instance, to the nanosecond. Unknown time is a leaf too, with the
// reason. The types are plain: an exporter walks them.
package trace

import "fmt"

// A PID identifies an Erlang process within its VM: number, serial and node in one integer, as the
// eBPF programs pack them. 0 means no process.
type PID uint64

// String returns the pid as Erlang prints it, <0.123.0>.
func (p PID) String() string {
	return fmt.Sprintf("<%d.%d.%d>", p>>48, p&0xffffffff, p>>32&0xffff)
}

// A Kind is the way in which a span's time was spent.
type Kind uint8

// The kinds of spans. A leaf has the time of its kind; a span with children is the step that leads
// to them.
const (
	Root        Kind = iota // the instance itself
	Running                 // the process ran Erlang code, or code of the VM on its behalf
	Ready                   // it was ready and waited for a scheduler of the VM
	GC                      // its garbage was collected
	Mailbox                 // a message waited in its mailbox while it was busy with others
	NIF                     // it ran a native function on a dirty scheduler
	Port                    // it was suspended because a port was busy
	Waiting                 // it waited for another process; the children are the activities of that process, if known
	OSWait                  // its scheduler's thread waited for a processor of the machine
	Unexplained             // no event gives a cause
	VMWait                  // it was suspended until the VM had done something, or waited for a message of the VM
	Suspended               // it was suspended by another process, as by erlang:suspend_process
	Blocked                 // its scheduler's thread slept in native code or code of the VM, although it had work
	Stopped                 // the operating system had stopped its scheduler's thread, or the VM
	Timer                   // it waited for a timer: the timeout of its receive expired, or a timer sent it a message
	External                // it waited for a message of a port, a file descriptor or another node
	Kinds                   // their number
)

// A Mark is the certainty that one event led to another.
type Mark uint8

// The marks, from the most certain to the least.
const (
	Exact     Mark = iota // a process's own time, or a message with a seq_trace token
	Inferred              // by the order of events
	Ambiguous             // there is more than one possibility: not followed
	Marks                 // their number
)

// A Link is a message between processes. The zero Link means that there is none.
type Link struct {
	From, To       PID
	Sent, Received int64 // nanoseconds of CLOCK_MONOTONIC; 0 if the send was not seen, or the message was not received
	Mark           Mark  // certainty that the received message is the sent one
}

// A Span is a part of an instance's time.
type Span struct {
	Parent     int // index of its parent among the spans of the trace, -1 for the root
	Kind       Kind
	Start, End int64 // nanoseconds of CLOCK_MONOTONIC

	// Process is the process that the time belongs to: for Mailbox the owner of the mailbox, for
	// Waiting the process that is waited for, 0 if unknown. Name is its name, "" if unknown.
	Process PID
	Name    string

	// Mark is the mark of the least certain step on the way from the root.
	Mark Mark

	// Other is, for Ready, the process that ran on the same scheduler for the longest part of the
	// time, and OtherName its name; 0 if there was none, or only for a moment. For Suspended it is
	// the process that suspended this one, 0 if unknown.
	Other     PID
	OtherName string

	// Behind is, for Mailbox, the number of messages that were in the mailbox before this one and
	// were taken while it waited.
	Behind int

	// Overtaken is, for Mailbox, the number of messages that came into the mailbox after this one
	// and were taken before it. It leaves out messages that the receiver waited for, possible
	// answers to it, and messages from unknown senders. It is 0 or more.
	Overtaken int

	// Detail is the function of a NIF, the port of Port, the work of the VM for VMWait, the system
	// call of Blocked, or the reason why the thread of Stopped does not run; "" if unknown.
	Detail string

	// Reason is the reason why nothing better is known, for Unexplained and for Waiting without
	// children, or the basis of an inference.
	Reason string

	// Parts is, if not 0, the number of parts that this span stands for. They took turns with the
	// parts of adjacent siblings that have Parts too, and there were too many to keep each. The
	// length of the span is the sum of its parts; their places are known only to lie between the
	// beginning of the first and the end of the last of these siblings. Behind and Overtaken are
	// then the largest of any part.
	Parts int

	// Link is the message that leads from the parent to this span, or the waiting message.
	Link Link
}

// Duration returns the length of the span in nanoseconds.
func (s *Span) Duration() int64 { return s.End - s.Start }

// A Trace is a tree of spans.
type Trace struct {
	// Spans has the root first, every other span after its parent, and siblings in order of time.
	// The children of a span divide its time among them.
	Spans []Span
}
