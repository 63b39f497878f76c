// Package trace is what is known of one outcome instance: a tree of spans that says
// where its time went, process by process, and how certain that is.
//
// The leaves of the tree divide the time of the instance among them, without gaps and
// overlaps, so that what they add up to is its duration, to the nanosecond. What is not
// known is a leaf too, with the reason. The types are plain: an exporter walks them.
package trace

import "fmt"

// A PID identifies an Erlang process within its VM: number, serial and node in
// one integer, as the eBPF programs pack them. 0 is no process.
type PID uint64

// String returns the pid as Erlang prints it, <0.123.0>.
func (p PID) String() string {
	return fmt.Sprintf("<%d.%d.%d>", p>>48, p&0xffffffff, p>>32&0xffff)
}

// A Kind says what a span's time was spent on.
type Kind uint8

// The kinds of spans. The time of a leaf is that of its kind; a span with children
// stands for how one came to them.
const (
	Root        Kind = iota // the instance itself
	Running                 // the process ran Erlang code, or code of the VM on its behalf
	Ready                   // it could have run, and waited for a scheduler of the VM
	GC                      // its garbage was collected
	Mailbox                 // a message waited in its mailbox while it was busy with others
	NIF                     // it ran a native function on a dirty scheduler
	Port                    // it was suspended because a port was busy
	Waiting                 // it waited for another process; the children are what that one did, if that is known
	OSWait                  // its scheduler's thread waited for a processor of the machine
	Unexplained             // nothing that was seen tells
	VMWait                  // it was suspended until the VM had done something, or waited for a message of the VM
	Suspended               // it was suspended by another process, as by erlang:suspend_process
	Blocked                 // its scheduler's thread slept: in native code or the VM's, not for want of work
	Stopped                 // the operating system had stopped its scheduler's thread, or the VM
	Timer                   // it waited for a timer: the time of its receive ran out, or a timer sent it a message
	External                // it waited for a message of a port, a file descriptor or another node
	Kinds                   // how many there are
)

// A Mark says how it is known that one thing led to another.
type Mark uint8

// The marks, from the most certain to the least.
const (
	Exact     Mark = iota // a process's own time, or a message with a seq_trace token
	Inferred              // by the order of events
	Ambiguous             // there is more than one possibility: not followed
	Marks                 // how many there are
)

// A Link is a message between processes. The zero Link is none.
type Link struct {
	From, To       PID
	Sent, Received int64 // nanoseconds of CLOCK_MONOTONIC; 0 where it was not seen to be sent, or was not received
	Mark           Mark  // how it is known that what was received is what was sent
}

// A Span is a part of an instance's time.
type Span struct {
	Parent     int // index of its parent among the spans of the trace, -1 for the root
	Kind       Kind
	Start, End int64 // nanoseconds of CLOCK_MONOTONIC

	// Process is whose time it is: for Mailbox that of the mailbox, for Waiting the one
	// that is waited for, 0 where it is not known. Name is what it is called, "" where
	// that is not known.
	Process PID
	Name    string

	// Mark is that of the least certain step on the way from the root.
	Mark Mark

	// Other is, for Ready, the process that ran meanwhile on the same scheduler for the
	// longest part, and OtherName what it is called; 0 where there was none, or not only
	// for a moment. For Suspended, it is the process that suspended it, 0 where that is not
	// known.
	Other     PID
	OtherName string

	// Behind is, for Mailbox, how many messages were in the mailbox before this one, and were
	// taken while it was there.
	Behind int

	// Overtaken is, for Mailbox, how many messages came into the mailbox after this one and
	// were taken before it. It leaves out those for which the receiver
	// waited, those that may be answers to it, and those whose sender is not known. It is 0 or more.
	Overtaken int

	// Detail is the function of a NIF, the port of Port, what the VM did of VMWait, the
	// system call of Blocked, or what stops the thread of Stopped; "" where it is not known.
	Detail string

	// Reason says why nothing better is known, for Unexplained and for Waiting without
	// children, and what a guess rests on.
	Reason string

	// Parts is, where it is not 0, how many parts this stands for, that took turns with
	// those of the siblings next to it that have Parts too: there were too many to keep
	// each. Its length is what they add up to; where they were is known as far as from
	// the first to the last of these siblings. Behind and Overtaken are then the largest of any part.
	Parts int

	// Link is the message by which one comes from the parent to here, or that waits.
	Link Link
}

// Duration returns the length of the span in nanoseconds.
func (s *Span) Duration() int64 { return s.End - s.Start }

// A Trace is a tree of spans.
type Trace struct {
	// Spans has the root first, every other one behind its parent, and siblings in the
	// order of time. The children of a span divide its time among them.
	Spans []Span
}
