// Package outcome defines outcome instances, their sources and their counts, in the terms of ΔQ: an
// instance has a start and an end. It ends once, as a success, a failure or a timeout.
//
// A [Source] delivers the instances that ended in a window. Every source keeps these invariants:
//
//   - Loss is never failure. Lost instances are counted in [Loss] and never turned
//     into a timeout. The exception are failures by an exit that was not recorded, see
//     Exits there.
//   - An instance ends once, by whatever comes first; later ends are late.
//   - A timeout ends at start + dMax, and belongs to the window that contains
//     that time, also when its end event arrives later.
//   - Windows are half-open: an instance belongs to the window with
//     from <= end < to.
//   - Times are integer nanoseconds of CLOCK_MONOTONIC.
package outcome

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// ErrLate means that the source is not ready for a plan by the time the plan begins.
var ErrLate = errors.New("too late for this plan")

// ErrEnded means that a source has nothing more to deliver.
var ErrEnded = errors.New("the source has ended")

// Status is the way in which an instance ended.
type Status uint8

// The ways in which an instance ends.
const (
	Success Status = iota
	Failure
	Timeout
)

// String returns the status as a word: success, failure or timeout.
func (s Status) String() string {
	switch s {
	case Success:
		return "success"
	case Failure:
		return "failure"
	case Timeout:
		return "timeout"
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// A Spec describes an outcome to a source. Specs are comparable: equal specs observe the same
// instances in the same way. Exactly one of Span, Wrapper and VM is set.
type Spec struct {
	Name     string // as in the configuration
	Span     string // name of the application's spans that are its instances
	Wrapper  string // name of the spans that the published wrapper sends over TCP
	VM       Events // events of the VM that start and end its instances
	BinWidth time.Duration
	Bins     int

	// Group is the property that groups instances, or "" for no groups: [GroupPID], [GroupMFA]
	// or, for outcomes with VM, an argument of the events that start them. Instances of Wrapper
	// are not grouped.
	Group string

	// Accounts requests Starts, Processor and Dirty in the groups of outcomes that support them.
	// Recordings do not contain these figures.
	Accounts bool

	// ExitFails makes the exit of the process that started an instance its
	// failure, at the moment of the exit. Otherwise such an instance times out.
	ExitFails bool

	// Detail selects the single instances to deliver in addition to the counts.
	Detail Detail

	// Explain requests explanations of the worst instances of each window and VM, up to MaxWorst.
	// It is for outcomes with Span, and needs Detail.
	Explain bool
}

// Alias returns the name of the outcome's spans, or of the built-in outcome of the VM. It returns
// "" if that equals the outcome's own name, or if there is none.
func (s Spec) Alias() string {
	if name := cmp.Or(s.Span, s.Wrapper, s.VM.Builtin); name != s.Name {
		return name
	}
	return ""
}

// Events are the events of a VM that start and end instances, as in a scope file. The zero Events
// means no events.
type Events struct {
	Builtin    string // name of a built-in outcome, see [dtrace.Builtins]; or
	Start, End string // expressions
	StartKey   string // arguments that identify an instance
	EndKey     string
	Pairing    dtrace.Pairing
}

// OfVM reports whether the instances happen at probes of a VM, so that the source of VMs observes them.
func (s Spec) OfVM() bool { return s.Span != "" || s.VM != (Events{}) }

// Rule returns the rule of the events. It returns an error if an expression cannot be parsed, or
// if no built-in outcome has this name.
func (e Events) Rule() (*dtrace.Rule, error) {
	if e.Builtin != "" {
		b, ok := dtrace.LookupBuiltin(e.Builtin)
		if !ok {
			return nil, fmt.Errorf("there is no built-in outcome %q", e.Builtin)
		}
		return &b.Rule, nil
	}
	start, err := dtrace.ParseExpr(e.Start)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	end, err := dtrace.ParseExpr(e.End)
	if err != nil {
		return nil, fmt.Errorf("end: %w", err)
	}
	return &dtrace.Rule{
		Start: start, End: end,
		Key:     dtrace.Key{Start: e.StartKey, End: e.EndKey},
		Pairing: e.Pairing,
	}, nil
}

// Properties that can group instances, in addition to the arguments of their starts.
const (
	GroupPID = "pid" // the process
	GroupMFA = "mfa" // the function of the event or, if it has none, the function with which the process was spawned
)

// A Detail selects the single instances of an outcome that a source delivers.
type Detail uint8

// Details of an outcome.
const (
	CountsOnly Detail = iota // no single instances

	// Worst delivers up to MaxWorst instances of each window and VM: timeouts before failures
	// before successes, and the slowest first within each.
	Worst

	Everything // every instance
)

// MaxWorst is how many instances of an outcome, VM and window Worst delivers.
const MaxWorst = 16

// MaxSpans is the largest number of spans in all traces of a batch together. If there would be
// more, only the worst instances of each outcome and VM are explained. The others have a trace that
// gives the reason.
const MaxSpans = 1 << 18

// DMax returns the maximum delay of a success.
func (s Spec) DMax() time.Duration { return s.BinWidth * time.Duration(s.Bins) }

// A Window is a half-open interval of time, in nanoseconds of CLOCK_MONOTONIC.
type Window struct {
	From, To int64
}

// Contains reports whether an end at t belongs to the window.
func (w Window) Contains(t int64) bool { return w.From <= t && t < w.To }

// Duration returns the length of the window.
func (w Window) Duration() time.Duration { return time.Duration(w.To - w.From) }

// A Plan describes what to observe from a time on, and in which windows. It holds until the next
// plan begins.
type Plan struct {
	From   int64         // beginning of its first window, nanoseconds of CLOCK_MONOTONIC
	Window time.Duration // length of its windows
	Specs  []Spec        // no two have the same name or the same span
}

// At returns window number n of the plan, from 0.
func (p Plan) At(n uint64) Window {
	from := p.From + int64(n)*int64(p.Window)
	return Window{From: from, To: from + int64(p.Window)}
}

// Number returns the number of the window that contains t, which is not before
// From.
func (p Plan) Number(t int64) uint64 { return uint64((t - p.From) / int64(p.Window)) }

// A VM is an Erlang VM in which instances happen.
type VM struct {
	PID  int    // of the operating system
	Node string // name of the node, "" if it has none
}

// String returns the displayed name of the VM.
func (v VM) String() string {
	if v.PID == 0 && v.Node != "" {
		return v.Node
	}
	if v.PID == 0 {
		return "no VM"
	}
	if v.Node == "" {
		return fmt.Sprintf("pid %d", v.PID)
	}
	return fmt.Sprintf("%s (pid %d)", v.Node, v.PID)
}

// An Instance is one outcome instance that has ended.
type Instance struct {
	Outcome    string
	VM         VM
	Status     Status
	Start, End int64  // nanoseconds of CLOCK_MONOTONIC
	ID         uint64 // of the span, unique within the VM
	Parent     uint64 // ID of the span within which it started, 0 if there is none
	Process    PID    // the process that started it
	Class      string // class of a failure, "" if it has none

	// Trace shows where the time of the instance went. It is nil if the outcome is not explained,
	// or if a window has more than MaxSpans / 2 explained instances. It must not be changed.
	Trace *trace.Trace
}

// Name returns the name of the instance: its outcome and the id of its span.
func (i Instance) Name() string { return fmt.Sprintf("%s #%d", i.Outcome, i.ID) }

// NameAndEnd returns the name of the instance and, unless it succeeded, how it ended. Where its time went does
// not say why it failed.
func (i Instance) NameAndEnd() string {
	switch {
	case i.Status == Failure && i.Class != "":
		return i.Name() + " (failed: " + i.Class + ")"
	case i.Status == Failure:
		return i.Name() + " (failed)"
	case i.Status == Timeout:
		return i.Name() + " (timed out)"
	}
	return i.Name()
}

// Elapsed returns the delay between the start and the end.
func (i Instance) Elapsed() time.Duration { return time.Duration(i.End - i.Start) }

// A PID identifies an Erlang process within its VM.
type PID = trace.PID

// Counts are the counts of one outcome in one VM in one window.
type Counts struct {
	Outcome string
	VM      VM

	Starts, Ends                  uint64   // events
	Successes, Failures, Timeouts uint64   // instances that ended in the window
	Orphans                       uint64   // ends whose start was not seen
	Lates                         uint64   // ends of instances that had ended before
	Unstreamed                    uint64   // instances that were counted, but had no room in the stream
	Dropped                       uint64   // events that did not satisfy the conditions
	Inferred                      uint64   // instances whose start and end were paired by order
	Amount                        uint64   // sum of the amounts in the ends of instances, such as reclaimed words
	Bins                          []uint64 // delays of the successes
	Loss                          Loss

	// Groups are the groups of instances, those with the longest total time first. The last one may
	// contain all instances without room among the groups; it has no key.
	Groups []Group

	// Unobserved means that the source did not observe the whole window. The counts then contain
	// no instances, and an unknown number is missing in addition to Loss.
	Unobserved bool
}

// Instances returns how many instances ended in the window.
func (c Counts) Instances() uint64 { return c.Successes + c.Failures + c.Timeouts }

// Add returns the sum of two counts of one outcome and VM, without their bins and
// groups.
func (c Counts) Add(d Counts) Counts {
	return Counts{
		Outcome:    c.Outcome,
		VM:         c.VM,
		Starts:     c.Starts + d.Starts,
		Ends:       c.Ends + d.Ends,
		Successes:  c.Successes + d.Successes,
		Failures:   c.Failures + d.Failures,
		Timeouts:   c.Timeouts + d.Timeouts,
		Orphans:    c.Orphans + d.Orphans,
		Lates:      c.Lates + d.Lates,
		Unstreamed: c.Unstreamed + d.Unstreamed,
		Dropped:    c.Dropped + d.Dropped,
		Inferred:   c.Inferred + d.Inferred,
		Amount:     c.Amount + d.Amount,
		Loss:       c.Loss.Add(d.Loss),
		Unobserved: c.Unobserved || d.Unobserved,
	}
}

// A Notice is a message for people about the source itself.
type Notice struct {
	Time int64 // nanoseconds of CLOCK_MONOTONIC
	Text string

	Kind    NoticeKind
	Outcome string // displayed name of the outcome that it is about, for a [FittedNotice]
}

// A NoticeKind tells programs what a notice is about. Most notices are for people alone.
type NoticeKind uint8

const (
	PlainNotice      NoticeKind = iota
	DiscoveredNotice            // spans were discovered, and are observed from now on
	FittedNotice                // the scale of an outcome was fitted to its delays
	HistoryNotice               // an outcome is now observed differently, so its history begins again
	ExitedNotice                // a VM has exited

	// NoticeKinds is the number of kinds.
	NoticeKinds
)

// A Batch is the result of a source for one window.
type Batch struct {
	Window Window
	Time   time.Time // wall time of the window's end

	// Counts has an entry for each outcome and VM, in the order of the plan's specs and then of the
	// VMs. Each outcome has at least one entry, even if nothing happened or there is no VM.
	Counts []Counts

	// Instances are the instances of outcomes with Detail, sorted by their ends.
	Instances []Instance

	Rejected Rejected
	Cost     Cost

	// Loads are the shares of the running VMs in the events of the cost, in no order, including
	// VMs that are left out. It is nil if the source does not know them, and in recordings.
	Loads []Load

	// Users are the shares of the users' processes in the events of the cost, in no order. The
	// kernel records the user, so processes that have ended and processes that are no VMs are
	// included. Recordings do not contain Users.
	Users []UserLoad

	// Owners names the owner of each VM, see [UserOwner]. A VM may be missing.
	// Recordings do not contain Owners.
	Owners map[VM]string

	// Strangers is true if the cost includes processes that are not VMs or may not be VMs, or
	// processes that are left out because of their user. Then the cost is not that of observing
	// the VMs. Recordings contain neither this nor Renew.
	Strangers bool

	// Renew means that the current plan should begin again, because only a new plan frees the
	// source from such processes.
	Renew bool
}

// UserOwner returns the name of the owner of VMs that run as a user ID of this host. -1 means that the user is unknown.
func UserOwner(user int) string {
	if user < 0 {
		return "an unknown user"
	}
	return fmt.Sprintf("user %d", user)
}

// A Load is the share of a VM in the events of a [Cost].
type Load struct {
	VM     VM
	User   int // id of its user
	Events uint64

	// Left means that the VM is left out. It pays until the next plan begins, and a window that
	// begins soon after may contain a part of its earlier cost.
	Left bool
}

// A UserLoad is the share of a user's processes in the events of a [Cost].
type UserLoad struct {
	User   int // user id, -1 if unknown
	Events uint64
}

// Rejected counts input that could not be understood. If its outcome is certain nevertheless, it
// also counts in the loss of that outcome.
type Rejected struct {
	Count uint64 // since the previous batch
	Last  string // the last one, shortened, with its error; "" if there was none
}

// Cost is the cost of observing in a window.
type Cost struct {
	Events    uint64        // number of events in the VMs at which one of our programs ran
	PerEvent  time.Duration // as measured on this machine; 0 if unknown
	Collector time.Duration // processor time of this process, user and system
}

// Share returns the cost for the VMs as a share of one processor in a window of this length.
func (c Cost) Share(window time.Duration) float64 {
	return float64(c.Events) * float64(c.PerEvent) / float64(window)
}
