package explain

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// vmPID is the VM of all tests.
const vmPID = 42

// script reads events, one a line: a time, the kind, the process, and details:
//
//	0 watch 1            10 unwatched 2
//	0 start 1 7          90 end 2 7              span 7
//	0 in 1 @3 again      9 out 1 wait            on thread 3; or ready, port, dirty, reds=N
//	5 in 1 over          9 out 1 timer           the time of a receive: over, not yet, none; untold
//	5 able 1 over        9 monitor 1>2           a scheduler has it, the time of its receive is over; it monitors 2
//	5 send 1>2 4         5 send 1>2 alias        size 4; then a token: ~9.1.2; or unwatched
//	7 receive 2 4 from=1                         or port=1, atom=1, down=1; a tuple with tag=1
//	6 queued 2 4 #1 !9   7 receive 2 4 #1 !9     1 in the private queue; at address 9
//	6 send 1>2 direct !9 7 receive 2 direct !9   in a VM that does not report when messages are fetched
//	0 gc+ 1  1 gc- 1  2 nif+ 1 f  3 nif- 1 f     9 exit 1
//	3 suspend 1 6     port 6, or the function    7 resume 1 2       of 2 suspensions, or 1
//	3 hold 1>2        7 release 1>2              2 asks to suspend 1, and to resume it
//	9 os @3 4            9 beside 1>2 4-8        from 4 on
//	9 off @3 4 8 futex   from 4 on, and could run from 8 on; or blocked, stopped, traced, frozen
func script(t testing.TB, text string) []bpf.Event {
	t.Helper()
	var events []bpf.Event
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 0 {
			events = append(events, scripted(t, f))
		}
	}
	return events
}

func scripted(t testing.TB, f []string) bpf.Event {
	t.Helper()
	e := bpf.Event{VM: vmPID, Time: number[int64](t, f[0]), Thread: 1}
	kinds := map[string]bpf.EventKind{
		"watch": bpf.EventWatch, "unwatched": bpf.EventUnwatched, "start": bpf.EventSpanStart, "end": bpf.EventSpanEnd,
		"in": bpf.EventIn, "out": bpf.EventOut, "gc+": bpf.EventGCStart, "gc-": bpf.EventGCEnd,
		"nif+": bpf.EventNIFStart, "nif-": bpf.EventNIFEnd, "send": bpf.EventSend, "queued": bpf.EventQueued,
		"receive": bpf.EventReceive, "suspend": bpf.EventSuspend, "exit": bpf.EventExit, "os": bpf.EventOffCPU, "off": bpf.EventOffCPU, "beside": bpf.EventNeighbour,
		"able": bpf.EventReady, "monitor": bpf.EventMonitor,
		"hold": bpf.EventHold, "release": bpf.EventRelease, "resume": bpf.EventResume,
	}
	e.Kind = kinds[f[1]]
	if e.Kind == bpf.EventIn || e.Kind == bpf.EventReady {
		e.State = bpf.StateKnown
	}
	for i, arg := range f[2:] {
		switch {
		case arg[0] == '@':
			e.Thread = number[int](t, arg[1:])
		case arg[0] == '#':
			e.Inner = number[uint32](t, arg[1:])
		case arg[0] == '!':
			e.Message = number[uint64](t, arg[1:])
		case arg[0] == '~':
			if _, err := fmt.Sscanf(arg, "~%d.%d.%d", &e.Label, &e.Prev, &e.Cur); err != nil {
				t.Fatal(arg, err)
			}
		case i == 0 && e.Kind != bpf.EventOffCPU:
			from, to, _ := strings.Cut(arg, ">")
			e.Process = number[uint64](t, from)
			if to != "" {
				e.Other = number[uint64](t, to)
			}
		default:
			argument(t, &e, arg)
		}
	}
	return e
}

func argument(t testing.TB, e *bpf.Event, arg string) {
	t.Helper()
	switch e.Kind {
	case bpf.EventSpanStart, bpf.EventSpanEnd:
		if arg == "unwatched" {
			e.Unwatched = true
			return
		}
		e.ID = number[uint64](t, arg)
	case bpf.EventIn, bpf.EventReady:
		switch arg {
		case "again":
			e.Again = true
		case "over":
			e.State |= bpf.StateTimedOut
		case "untold":
			e.State = 0
		}
	case bpf.EventSuspend:
		if port, err := strconv.ParseUint(arg, 10, 32); err == nil {
			e.Port, e.Other = true, port
		} else {
			e.Text = arg
		}
	case bpf.EventResume:
		e.Other = number[uint64](t, arg)
	case bpf.EventNIFStart, bpf.EventNIFEnd:
		e.Text = arg
	case bpf.EventOffCPU:
		offCPU(t, e, arg)
	case bpf.EventNeighbour:
		from, to, _ := strings.Cut(arg, "-")
		e.From, e.To = number[int64](t, from), number[int64](t, to)
	case bpf.EventOut:
		if reds, ok := strings.CutPrefix(arg, "reds="); ok {
			e.Reductions = number[int32](t, reds)
			return
		}
		e.State = map[string]uint8{
			"wait": bpf.StateKnown, "timer": bpf.StateKnown | bpf.StateTimer, "ever": bpf.StateKnown | bpf.StateTimedOut,
			"ready": bpf.StateKnown | bpf.StateActive, "port": bpf.StateKnown | bpf.StateActive | bpf.StateSuspended,
			"dirty": bpf.StateKnown | bpf.StateActive | bpf.StateDirty, "exiting": bpf.StateKnown | bpf.StateExiting,
		}[arg]
	default:
		if tag, ok := strings.CutPrefix(arg, "tag="); ok {
			e.Tag = number[uint32](t, tag)
			return
		}
		for name, kind := range map[string]bpf.Origin{"from=": bpf.OriginProcess, "port=": bpf.OriginPort, "atom=": bpf.OriginAtom, "down=": bpf.OriginDown} {
			if of, ok := strings.CutPrefix(arg, name); ok {
				e.Origin, e.Other = kind, number[uint64](t, of)
				return
			}
		}
		switch arg {
		case "alias":
			e.Alias = true
			return
		case "unwatched":
			e.Unwatched = true
			return
		case "direct":
			e.Unfetched = true
			return
		}
		e.Size = number[uint32](t, arg)
	}
}

// offCPU reads an argument of an absence: its beginning, the time when the thread was runnable, and
// the reason.
func offCPU(t testing.TB, e *bpf.Event, arg string) {
	t.Helper()
	reasons := map[string]bpf.OffReason{"stopped": bpf.OffStopped, "traced": bpf.OffTraced, "frozen": bpf.OffFrozen}
	n, err := strconv.ParseInt(arg, 10, 64)
	switch {
	case err == nil && e.To == 0:
		e.From, e.To = n, n
	case err == nil:
		e.To = n
	case arg == "unseen":
		e.Unseen = true
	case reasons[arg] != 0:
		e.Off = reasons[arg]
	default:
		e.Off, e.Text = bpf.OffBlocked, strings.TrimPrefix(arg, "blocked")
	}
}

func number[T int | int32 | int64 | uint32 | uint64](t testing.TB, text string) T {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return T(n)
}

// drawn returns the spans below the root of a trace as text, one a line, indented.
func drawn(tr *trace.Trace) string {
	var b strings.Builder
	depth := make([]int, len(tr.Spans))
	for i, s := range tr.Spans {
		if i == 0 {
			continue
		}
		depth[i] = depth[s.Parent] + 1
		fmt.Fprintf(&b, "%s%d-%d %s %d", strings.Repeat("\t", depth[i]-1), s.Start, s.End, kindNames[s.Kind], s.Process)
		if s.Mark != trace.Exact {
			fmt.Fprintf(&b, " %s", markNames[s.Mark])
		}
		if s.Other != 0 {
			how := "beside"
			if s.Kind == trace.Suspended {
				how = "by"
			}
			fmt.Fprintf(&b, " %s %d", how, s.Other)
		}
		if s.Kind == trace.Mailbox {
			fmt.Fprintf(&b, " behind %d", s.Behind)
			if s.Overtaken != 0 {
				fmt.Fprintf(&b, " overtaken %d", s.Overtaken)
			}
		}
		if s.Parts != 0 {
			fmt.Fprintf(&b, " x%d", s.Parts)
		}
		if s.Detail != "" {
			fmt.Fprintf(&b, " [%s]", s.Detail)
		}
		if l := s.Link; l != (trace.Link{}) {
			fmt.Fprintf(&b, " by %d>%d %d..%d", l.From, l.To, l.Sent, l.Received)
		}
		if s.Reason != "" {
			fmt.Fprintf(&b, ": %s", s.Reason)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var (
	kindNames = [...]string{"root", "running", "ready", "gc", "mailbox", "nif", "port", "waiting", "oswait", "unexplained", "vm", "suspended", "blocked", "stopped", "timer", "external"}
	markNames = [...]string{"exact", "inferred", "ambiguous"}
)

// checked fails unless a trace is well formed, belongs to an instance and divides its time.
func checked(t interface {
	Helper()
	Fatalf(string, ...any)
}, tr *trace.Trace, i Instance) {
	t.Helper()
	if err := tr.Check(); err != nil {
		t.Fatalf("%v in\n%s", err, drawn(tr))
	}
	if r := tr.Spans[0]; r.Start != i.Start || r.End != i.End {
		t.Fatalf("the root is from %d to %d, want %d to %d", r.Start, r.End, i.Start, i.End)
	}
	var sum int64
	for _, s := range tr.Leaves() {
		sum += s.Duration()
	}
	if sum != i.End-i.Start {
		t.Fatalf("the leaves add up to %d of %d in\n%s", sum, i.End-i.Start, drawn(tr))
	}
}

func pid(n uint64) trace.PID { return trace.PID(n) }
