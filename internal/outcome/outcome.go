// Package outcome defines outcome instances, where they come from and how they
// are counted, in the terms of ΔQ: an instance has a start and an end, and ends
// once, as a success, a failure or a timeout.
//
// A [Source] delivers what ended in a window. The invariants that every source
// keeps:
//
//   - Loss is never failure. What was lost is counted in [Loss] and never turned
//     into a timeout.
//   - An instance ends once, by whatever comes first; later ends are late.
//   - A timeout ends at start + dMax, and belongs to the window that contains
//     that time, also when its end event arrives later.
//   - Windows are half-open: an instance belongs to the window with
//     from <= end < to.
//   - Times are integer nanoseconds of CLOCK_MONOTONIC.
package outcome

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/trace"
)

// ErrLate says that a plan would have to begin before the source is ready for it.
var ErrLate = errors.New("too late for this plan")

// ErrEnded says that a source has nothing more to deliver.
var ErrEnded = errors.New("the source has ended")

// Status says how an instance ended.
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

// A Spec describes an outcome to a source. Specs are comparable: equal ones
// observe the same in the same way. One of Span, Wrapper and VM is set.
type Spec struct {
	Name     string // as in the configuration
	Span     string // name of the spans of user_trace that are its instances
	Wrapper  string // name of the spans that the published wrapper sends over TCP
	VM       Events // of the VM that start and end its instances
	BinWidth time.Duration
	Bins     int

	// Group is what instances are grouped by besides, "" for nothing: [GroupPID],
	// [GroupMFA] or, of those of VM, the name of an argument of the events that start
	// them. Those of Wrapper are not grouped.
	Group string

	// Accounts has groups of the VM's outcomes have Starts, Processor and Dirty, where
	// these are about them. Recordings do not keep these figures.
	Accounts bool

	// ExitFails makes the exit of the process that started an instance its
	// failure, at the moment of the exit. Otherwise such an instance times out.
	ExitFails bool

	// Detail says which single instances are wanted besides the counts.
	Detail Detail

	// Explain says that the worst instances of each window and VM are to be explained,
	// up to MaxWorst, for outcomes with Span: it needs Detail.
	Explain bool
}

// Alias returns the name of the spans of an outcome, or that of the outcome built into
// the VM, where it is not the outcome's own; "" where it is, or there is none.
func (s Spec) Alias() string {
	if name := cmp.Or(s.Span, s.Wrapper, s.VM.Builtin); name != s.Name {
		return name
	}
	return ""
}

// Events are the events of a VM that are the starts and ends of instances, as a scope
// file names them. The zero Events are none.
type Events struct {
	Builtin    string // name of a built-in outcome, see [dtrace.Builtins]; or
	Start, End string // expressions
	StartKey   string // arguments that tell instances apart
	EndKey     string
	Pairing    dtrace.Pairing
}

// OfVM reports whether the instances happen at probes of a VM: whether [VMSource] is who
// observes them.
func (s Spec) OfVM() bool { return s.Span != "" || s.VM != (Events{}) }

// Rule returns the rule of the events. The error is that of the expression that cannot
// be read, or says that there is no such built-in outcome.
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

// What instances can be grouped by, besides the arguments of their starts.
const (
	GroupPID = bpf.GroupByPID // "pid": the process
	GroupMFA = bpf.GroupByMFA // "mfa": the function of the event or, where it has none, that with which the process was spawned
)

// A Detail says which single instances of an outcome a source delivers.
type Detail uint8

// Details of an outcome.
const (
	CountsOnly Detail = iota // no single instances

	// Worst are up to MaxWorst instances of each window and VM: timeouts before
	// failures before successes, and among each the slowest.
	Worst

	Everything // every instance
)

// MaxWorst is how many instances of an outcome, VM and window Worst delivers.
const MaxWorst = 16

// MaxSpans is how many spans the traces of a batch have at most, all together. Where there
// would be more, the worst of each outcome and VM are explained, and others have a trace
// that says why they are not.
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

// A Plan says what to observe from a time on, and in which windows. It holds
// until the next one begins.
type Plan struct {
	From   int64         // where its first window begins, nanoseconds of CLOCK_MONOTONIC
	Window time.Duration // length of its windows
	Specs  []Spec        // names and spans are different
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
	Node string // name of the node, "" where it has none
}

// String names the VM for people.
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
	Parent     uint64 // ID of the span within which it started, 0 where there is none
	Process    PID    // that started it
	Class      string // of a failure, "" where none was given

	// Trace says where its time went; nil where that was not asked for, or where a window
	// has more than MaxSpans / 2 instances of which it was. Nobody changes it.
	Trace *trace.Trace
}

// Name is what the instance is called: its outcome and the id of its span.
func (i Instance) Name() string { return fmt.Sprintf("%s #%d", i.Outcome, i.ID) }

// Elapsed returns the delay between the start and the end.
func (i Instance) Elapsed() time.Duration { return time.Duration(i.End - i.Start) }

// A PID identifies an Erlang process within its VM.
type PID = trace.PID

// Counts are what was counted of one outcome in one VM in one window.
type Counts struct {
	Outcome string
	VM      VM

	Starts, Ends                  uint64   // events
	Successes, Failures, Timeouts uint64   // instances that ended in the window
	Orphans                       uint64   // ends whose start was not seen
	Lates                         uint64   // ends of instances that had ended before
	Unstreamed                    uint64   // instances that were counted, and found no room in the stream
	Dropped                       uint64   // events that did not satisfy the conditions
	Inferred                      uint64   // instances of which start and end were paired by their order
	Amount                        uint64   // sum over the instances of what their ends say, such as reclaimed words
	Bins                          []uint64 // delays of the successes
	Loss                          Loss

	// Groups are the instances by what they are grouped by, those that took longest in
	// all first. The last may be that of all that found no room among the groups, which
	// has no key.
	Groups []Group

	// Unobserved says that we were not there for all of the window: it holds no
	// instances, and an unknown number is missing besides those in Loss.
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

// Loss counts what happened and was not turned into an instance of the window,
// by reason. It does not include instances that were counted but not streamed.
type Loss struct {
	Unreadable uint64 // events with an argument that could not be read
	NoRoom     uint64 // starts for which there was no room among the open instances
	Missed     uint64 // instances that came when their window had no room, because we were late
	Cut        uint64 // instances given up because what to observe changed while they were open
	Exits      uint64 // exits of processes that were not noted: failures that show as timeouts
	Crowded    uint64 // instances and losses of VMs beyond those that can be told apart
	Rejected   uint64 // events that were understood only so far as to know whose they are
	Unpaired   uint64 // instances that another start of the same key overtook: their end is not known
}

// Total returns the sum over all reasons.
func (l Loss) Total() uint64 {
	return l.Unreadable + l.NoRoom + l.Missed + l.Cut + l.Exits + l.Crowded + l.Rejected + l.Unpaired
}

// Add returns the sum of two losses, reason by reason.
func (l Loss) Add(m Loss) Loss {
	return Loss{
		Unreadable: l.Unreadable + m.Unreadable,
		NoRoom:     l.NoRoom + m.NoRoom,
		Missed:     l.Missed + m.Missed,
		Cut:        l.Cut + m.Cut,
		Exits:      l.Exits + m.Exits,
		Crowded:    l.Crowded + m.Crowded,
		Rejected:   l.Rejected + m.Rejected,
		Unpaired:   l.Unpaired + m.Unpaired,
	}
}

// A Notice is something about the source itself that a person should know.
type Notice struct {
	Time int64 // nanoseconds of CLOCK_MONOTONIC
	Text string
}

// A Batch is what a source knows of one window.
type Batch struct {
	Window Window
	Time   time.Time // wall time of the window's end

	// Counts has one entry for each outcome and VM, in the order of the plan's
	// specs and then of the VMs: one for each outcome at least, also where nothing
	// happened and where there is no VM.
	Counts []Counts

	// Instances are those of outcomes that ask for them, in the order of their
	// ends.
	Instances []Instance

	Rejected Rejected
	Cost     Cost

	// Loads say what part each running VM has in the events of the cost, in no order. A source
	// that does not know has none, and recordings keep none.
	Loads []Load

	// Strangers is true where processes have a part in the cost that are no VMs, or may be
	// none. The cost is not what observing the VMs costs then. Recordings keep neither this nor
	// Renew.
	Strangers bool

	// Renew is true where the plan in force is to begin again: only a new plan rids the source
	// of such processes.
	Renew bool
}

// A Load is what a VM has of the events of a [Cost].
type Load struct {
	VM     VM
	User   int // id of its user
	Events uint64
}

// Rejected counts what came in and could not be understood. Where it is certain
// all the same to which outcome it belongs, it is counted in the loss of that one
// as well.
type Rejected struct {
	Count uint64 // since the batch before
	Last  string // the last one, shortened, and what is wrong with it; "" where there was none
}

// Cost is what observing cost in a window.
type Cost struct {
	Events    uint64        // in the VMs, at which a program of ours ran
	PerEvent  time.Duration // as measured on this machine; 0 where it is not known
	Collector time.Duration // processor time of our own process, user and system
}

// Share returns what the VMs paid as a share of one processor in a window of this
// length.
func (c Cost) Share(window time.Duration) float64 {
	return float64(c.Events) * float64(c.PerEvent) / float64(window)
}

// A Source delivers outcome instances. Its methods are called from one
// goroutine.
type Source interface {
	// Plan changes what is observed. It is called before p.From, which is where a
	// window of the plan before ends; windows up to there are still of that one.
	// Outcomes whose spec stays the same are observed without a gap. Of one whose
	// spec changes, what began before p.From and ends later is lost as cut, unless
	// nothing but the name or the detail changes: then nothing is lost, but the
	// parent and the process of an instance may not be known that began before. On an
	// error everything is as it was; it wraps [ErrLate] where a later From would do, and
	// the cause of a context that is done before the change is made.
	Plan(ctx context.Context, p Plan) error

	// Collect returns what ended in the window. Windows follow each other without
	// gaps as the plans say, and each is asked for when it has been over for some
	// time: one window's length as a rule, or that of the next plan's where they are
	// shorter and already begin to wait. The batch, and what it refers to, holds
	// until the next call. It returns an error wrapping [ErrEnded], perhaps with
	// a last batch, when the source has nothing more to deliver.
	Collect(ctx context.Context, w Window) (Batch, error)

	// Watch looks after what is observed, as to attach to what is new, and
	// returns what a person should know of it. It is called about once a second. Once the
	// context is done, it attaches to nothing.
	Watch(ctx context.Context) []Notice

	// Close detaches from whatever the source observes.
	Close() error
}
