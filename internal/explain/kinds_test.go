package explain

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/bpf"
)

// A scenario is a script with the expected explanation of the span 7 of process 1 or another owner.
type scenario struct {
	name   string
	events string
	start  int64
	end    int64
	owner  uint64
	want   string

	unscheduled string // as in the instance
	threadless  bool
	firstSpan   bool // no end of another span of its outcome was seen
}

func (s scenario) run(t *testing.T) {
	t.Helper()
	var l Log
	l.Add(script(t, s.events), bpf.Loss{})
	s.explain(t, &l)
}

func (s scenario) explain(t *testing.T, l *Log) {
	t.Helper()
	i := Instance{VM: vmPID, ID: 7, Start: s.start, End: s.end, Owner: 1, Unscheduled: s.unscheduled, Threadless: s.threadless}
	if s.owner != 0 {
		i.Owner = pid(s.owner)
	}
	if v := l.vms[vmPID]; v != nil && !s.firstSpan {
		if _, known := v.handed[i.Outcome]; !known {
			v.handed[i.Outcome] = handover{same: 1}
		}
	}
	tr := l.Explain(i)
	checked(t, tr, i)
	if got, want := drawn(tr), undent(s.want); got != want {
		t.Errorf("%s:\ngot\n%swant\n%s", s.name, got, want)
	}
}

// undent removes the first line break, and the indentation of the first line from all lines.
func undent(text string) string {
	text = strings.TrimPrefix(text, "\n")
	indent := text[:len(text)-len(strings.TrimLeft(text, "\t"))]
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimPrefix(line, indent); strings.TrimSpace(line) != "" {
			b.WriteString(strings.TrimRight(line, "\n") + "\n")
		}
	}
	return b.String()
}

// Each state of the process that has the span is a kind.
func TestKinds(t *testing.T) {
	for _, s := range []scenario{{
		name: "running", events: `
			0 watch 1
			10 start 1 7
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-90 running 1`,
	}, {
		name: "preempted, with another one on the scheduler", events: `
			0 watch 1
			10 start 1 7
			20 out 1 ready
			60 beside 1>5 20-30
			60 beside 1>6 30-60
			60 in 1 @3
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-60 ready 1 beside 6
			60-90 running 1`,
	}, {
		name: "a neighbour with pauses, of which some is told twice", events: `
			0 watch 1
			10 start 1 7
			20 out 1 ready
			120 beside 1>5 20-32
			120 beside 1>6 40-58
			120 beside 1>5 60-64
			120 beside 1>6 60-62
			120 beside 1>5 60-72
			120 in 1 @3
			130 end 1 7`,
		start: 10, end: 130, want: `
			10-20 running 1
			20-120 ready 1 beside 5
			120-130 running 1`,
	}, {
		name: "the scheduler collects its garbage before it begins to run", events: `
			0 watch 1
			10000 start 1 7
			20000 out 1 ready
			60000 gc+ 1 @3
			80000 gc- 1 @3
			90000 beside 1>5 20000-60000
			90000 in 1 @3
			100000 end 1 7`,
		start: 10000, end: 100000, want: `
			10000-20000 running 1
			20000-60000 ready 1 beside 5
			60000-80000 gc 1
			80000-90000 ready 1
			90000-100000 running 1`,
	}, {
		name: "a neighbour of a later time", events: `
			0 watch 1
			10000 start 1 7
			20000 out 1 ready
			60000 in 1 @3
			70000 out 1 ready
			90000 beside 1>5 20000-90000
			90000 in 1 @3
			100000 end 1 7`,
		start: 10000, end: 100000, want: `
			10000-20000 running 1
			20000-60000 ready 1
			60000-70000 running 1
			70000-90000 ready 1 beside 5
			90000-100000 running 1`,
	}, {
		name: "a neighbour for moments, told twice", events: `
			0 watch 1
			10 start 1 7
			20 out 1 ready
			120 beside 1>5 20-35
			120 beside 1>5 20-35
			120 in 1 @3
			130 end 1 7`,
		start: 10, end: 130, want: `
			10-20 running 1
			20-120 ready 1
			120-130 running 1`,
	}, {
		name: "a neighbour for a moment", events: `
			0 watch 1
			10 start 1 7
			20 out 1 ready
			120 beside 1>5 20-39
			120 in 1
			130 end 1 7`,
		start: 10, end: 130, want: `
			10-20 running 1
			20-120 ready 1
			120-130 running 1`,
	}, {
		name: "preempted, and it goes on at once, or not", events: `
			0 watch 1
			10 start 1 7
			20 out 1 ready
			25 in 1 again
			40 out 1 ready
			45 in 1 @2
			50 out 1 ready
			55 in 1 @2
			60 out 1 ready
			99999 in 1 @2 again`,
		start: 10, end: 100_000, want: `
			10-40 running 1
			40-45 ready 1
			45-50 running 1
			50-55 ready 1
			55-60 running 1
			60-99999 ready 1
			99999-100000 running 1`,
	}, {
		name: "it is not watched any more when it ends the span, long after dMax", events: `
			0 watch 1
			10 start 1 7
			20 send 1>2 5
			20 watch 2
			22 out 1 wait
			25 in 2
			26 queued 2 5 #1
			27 receive 2 5 #1
			90 gc+ 2
			99999 end 1 7 unwatched`,
		start: 10, end: 80, want: `
			10-22 running 1
			22-80 waiting 2 inferred by 1>2 20..27: assumed: it sent the last message there
				22-25 ready 2 inferred
				25-80 running 2 inferred`,
	}, {
		name: "it timed out with its message in a mailbox, and that was not watched later on", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			10 start 1 7
			20 send 1>2 5
			22 out 1 wait
			70 gc+ 2 @2
			75 gc- 2 @2
			90000 watch 2
			99999 end 1 7 unwatched`,
		start: 10, end: 60, want: `
			10-22 running 1
			22-60 waiting 2 inferred by 1>2 20..0: assumed: it sent the last message there
				22-60 mailbox 2 inferred behind 0 by 1>2 20..0`,
	}, {
		name: "it timed out, and that its message was taken was not seen", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			10 start 1 7
			20 send 1>2 5
			22 out 1 wait
			30 queued 2 5 #1
			31 gc+ 2 @2
			32 gc- 2 @2
			33 queued 2 6 #1
			34 receive 2 6 #1
			99999 end 1 7 unwatched`,
		start: 10, end: 60, want: `
			10-22 running 1
			22-60 waiting 2 ambiguous by 1>2 20..0: assumed: it sent the last message there; beamscope did not see when it took the message`,
	}, {
		name: "no state: the reductions tell", events: `
			0 watch 1
			10 start 1 7
			20 out 1 reds=4000
			30 in 1 @2
			40 out 1 reds=3999
			50 in 1 untold
			60 end 1 7`,
		start: 10, end: 60, want: `
			10-20 running 1
			20-30 ready 1 inferred: ` + guessReductions + `
			30-40 running 1
			40-50 unexplained 1 inferred: it took no message: a timer or a signal woke it, and the VM does not tell which
			50-60 running 1`,
	}, {
		name: "garbage collection", events: `
			0 watch 1
			10 start 1 7
			20 gc+ 1
			50 gc- 1
			60 end 1 7`,
		start: 10, end: 60, want: `
			10-20 running 1
			20-50 gc 1
			50-60 running 1`,
	}, {
		name: "garbage collection on a dirty scheduler", events: `
			0 watch 1
			10 start 1 7
			20 out 1 dirty
			30 gc+ 1 @9
			50 gc- 1 @9
			55 in 1
			60 end 1 7`,
		start: 10, end: 60, want: `
			10-20 running 1
			20-30 ready 1
			30-50 gc 1
			50-55 ready 1
			55-60 running 1`,
	}, {
		name: "native function on a dirty scheduler", events: `
			0 watch 1
			10 start 1 7
			20 out 1 dirty
			25 in 1 @9
			26 nif+ 1 @9 prim_file:read_nif/2
			70 nif- 1 @9 prim_file:read_nif/2
			71 out 1 ready @9
			80 in 1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-25 ready 1
			25-26 running 1
			26-70 nif 1 [prim_file:read_nif/2]
			70-71 running 1
			71-80 ready 1
			80-90 running 1`,
	}, {
		name: "the thread waits for a processor", events: `
			0 watch 1
			10 start 1 7 @3
			30 os @3 20
			40 os @4 20
			50 out 1 ready @3
			70 os @3 55
			70 beside 1>5 50-52
			70 in 1 @3
			72 gc+ 1 @3
			80 os @3 75
			85 gc- 1 @3
			90 end 1 7 @3`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-30 oswait 1
			30-50 running 1
			50-55 ready 1
			55-70 oswait 1
			70-72 running 1
			72-75 gc 1
			75-80 oswait 1
			80-85 gc 1
			85-90 running 1`,
	}, {
		name: "a timer", events: `
			0 watch 1
			10 start 1 7
			20 out 1 wait
			70 in 1
			71 queued 1 3 #1
			72 receive 1 3 #1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-70 unexplained 1: it waited for a message that beamscope did not see sent, and the VM does not tell who sent it
			70-90 running 1`,
	}, {
		name: "a sleep", events: `
			0 watch 1
			10 start 1 7
			20 out 1 timer
			70 in 1 over
			75 out 1 timer
			80 in 1 over
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-70 timer 1: its receive timed out: it slept, or the message that it waited for did not come
			70-75 running 1
			75-80 timer 1: its receive timed out: it slept, or the message that it waited for did not come
			80-90 running 1`,
	}, {
		name: "exit", events: `
			0 watch 1
			10 start 1 7
			20 exit 1
			21 out 1 exiting`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-90 unexplained 1: it had exited`,
	}} {
		t.Run(s.name, func(t *testing.T) { s.run(t) })
	}
}

// Time without records is unexplained, with the reason.
func TestUnseen(t *testing.T) {
	for _, s := range []scenario{{
		name: "watched too late", events: `
			0 watch 9
			30 watch 1
			40 out 1 ready
			50 in 1 @2
			60 end 1 7`,
		start: 10, end: 60, want: `
			10-30 unexplained 1: what it did is not known: beamscope did not track it then
			30-40 running 1
			40-50 ready 1
			50-60 running 1`,
	}, {
		name: "no room", events: `
			0 watch 1
			10 start 1 7
			20 unwatched 1`,
		start: 10, end: 60, want: `
			10-20 running 1
			20-60 unexplained 1: what it did is not known: beamscope had no room to track it`,
	}, {
		name: "never heard of", events: `
			0 watch 9`,
		start: 10, end: 60, want: `
			10-60 unexplained 1: what it did is not known: beamscope did not track it then`,
	}, {
		name: "nothing was seen to happen", events: `
			0 watch 1`,
		start: 10, end: 60, want: `
			10-60 unexplained 1: what it did is not known: no event of it was seen yet`,
	}, {
		name: "GC under way", events: `
			0 watch 1
			30 gc- 1
			60 end 1 7`,
		start: 10, end: 60, want: `
			10-30 gc 1
			30-60 running 1`,
	}, {
		name: "native function under way", events: `
			0 watch 1
			30 nif- 1 f
			60 end 1 7`,
		start: 10, end: 60, want: `
			10-30 nif 1 [f]
			30-60 running 1`,
	}, {
		name: "before the recording", events: `
			30 watch 1
			30 in 1
			60 end 1 7`,
		start: 10, end: 60, want: `
			10-30 unexplained 1: before the recording began
			30-60 running 1`,
	}, {
		name: "that it is watched was not seen", events: `
			0 watch 9
			10 start 1 7
			30 gc+ 1
			50 gc- 1
			60 end 1 7`,
		start: 10, end: 60, want: `
			10-30 unexplained 1: what it did is not known: beamscope did not track it then
			30-50 gc 1
			50-60 running 1`,
	}, {
		name: "watched again after it has ended: it was watched until then", events: `
			0 watch 1
			10 start 1 7
			20 gc+ 1
			70 watch 1`,
		start: 10, end: 60, want: `
			10-20 running 1
			20-60 gc 1`,
	}, {
		name: "watched again before it has ended", events: `
			0 watch 1
			10 start 1 7
			20 gc+ 1
			50 watch 1
			55 gc- 1`,
		start: 10, end: 60, want: `
			10-20 running 1
			20-50 unexplained 1: what it did is not known: beamscope did not track it then
			50-55 gc 1
			55-60 running 1`,
	}, {
		name: "it sends something when it is not watched any more", events: `
			0 watch 1
			10 start 1 7
			20 gc+ 1
			40 send 1>2 unwatched 4
			50 watch 1
			55 gc- 1`,
		start: 10, end: 60, want: `
			10-20 running 1
			20-50 unexplained 1: what it did is not known: beamscope did not track it then
			50-55 gc 1
			55-60 running 1`,
	}} {
		t.Run(s.name, func(t *testing.T) { s.run(t) })
	}
}

func TestOverwritten(t *testing.T) {
	var l Log
	l.Add(script(t, `
		0 watch 1
		10 start 1 7
		20 gc+ 1`), bpf.Loss{})
	l.Add(script(t, `
		50 out 1 ready
		60 in 1 @2`), bpf.Loss{Events: 1, From: 20, To: 50})
	scenario{name: "in between", start: 10, end: 70, want: `
		10-20 running 1
		20-50 unexplained 1: its events were overwritten before they were read
		50-60 ready 1
		60-70 running 1`}.explain(t, &l)

	l = Log{}
	l.Add(script(t, `
		50 out 1 ready
		60 in 1 @2`), bpf.Loss{Events: 1, To: 50})
	scenario{name: "at the beginning", start: 10, end: 70, want: `
		10-50 unexplained 1: its events were overwritten before they were read
		50-60 ready 1
		60-70 running 1`}.explain(t, &l)
}

// Events that one processor has lost are missing among the events of others, up to a time that only
// a later call may reach. Nothing is known about that interval except the watched processes.
func TestOverwrittenInPart(t *testing.T) {
	const why = ": its events were overwritten before they were read"
	var l Log
	l.Add(script(t, `
		0 watch 1
		0 in 1
		12 send 1>2 4
		12 watch 2`), bpf.Loss{})
	l.Add(script(t, `
		22 in 2
		23 queued 2 4 #1
		24 receive 2 4 #1
		26 out 2 wait
		28 watch 3
		29 os @1 27`), bpf.Loss{Events: 9, From: 20, To: 50})
	l.Add(script(t, `
		40 exit 3
		44 send 2>1 4
		45 watch 4
		48 in 1
		60 in 2
		70 gc+ 1
		80 gc- 1`), bpf.Loss{})
	for _, s := range []scenario{
		{name: "who runs before and after", start: 10, end: 90, want: `
			10-12 running 1
			12-50 unexplained 1` + why + `
			50-70 running 1
			70-80 gc 1
			80-90 running 1`},
		{name: "who was said to take a message", owner: 2, start: 13, end: 70, want: `
			13-20 unexplained 2: what it did is not known: no event of it was seen yet
			20-50 unexplained 2` + why + `
			50-60 ready 2 inferred
			60-70 running 2`},
		{name: "who has exited meanwhile", owner: 3, start: 13, end: 70, want: `
			13-50 unexplained 3: what it did is not known: beamscope did not track it then
			50-70 unexplained 3: it had exited`},
		{name: "who is watched since", owner: 4, start: 13, end: 70, want: `
			13-50 unexplained 4: what it did is not known: beamscope did not track it then
			50-70 unexplained 4: what it did is not known: no event of it was seen yet`},
	} {
		t.Run(s.name, func(t *testing.T) { s.explain(t, &l) })
	}
}

// A gap is kept even if there are no other events.
func TestOverwrittenAndNothingLeft(t *testing.T) {
	var l Log
	l.Add(nil, bpf.Loss{Events: 1, From: 3, To: 5})
	l.Add(script(t, `
		4 watch 1
		5 gc+ 1
		10 start 1 7
		20 gc- 1`), bpf.Loss{})
	l.Add(nil, bpf.Loss{Events: 1, From: 40, To: 50})
	scenario{start: 0, end: 70, want: `
		0-5 unexplained 1: its events were overwritten before they were read
		5-20 gc 1
		20-50 unexplained 1: its events were overwritten before they were read
		50-70 unexplained 1: what it did is not known: no event of it was seen yet`}.explain(t, &l)
}

func TestForget(t *testing.T) {
	var l Log
	l.Add(script(t, `
		0 watch 1
		10 start 1 7
		20 gc+ 1
		50 gc- 1`), bpf.Loss{})
	l.Forget(30)
	scenario{name: "forgotten", start: 10, end: 70, want: `
		10-30 unexplained 1: too long ago: beamscope no longer has these events
		30-50 gc 1
		50-70 running 1`}.explain(t, &l)
	l.Forget(1000)
	scenario{name: "still running", start: 1000, end: 2000, want: `
		1000-2000 running 1`}.explain(t, &l)
	l.Add(script(t, `3000 exit 1`), bpf.Loss{})
	l.Forget(4000)
	if len(l.vms) != 0 {
		t.Errorf("there are still %d VMs", len(l.vms))
	}
}

// Everything can be dropped except the present states of processes.
func TestForgetEverything(t *testing.T) {
	var l Log
	for turn := range int64(3) {
		for at := turn * 1000; at < turn*1000+100; at += 10 {
			l.Add(script(t, fmt.Sprintf("%d gc+ 1\n%d gc- 1\n%d send 1>2 4", at, at+5, at+6)), bpf.Loss{})
		}
		l.Forget(math.MaxInt64)
		p := l.vms[vmPID].processes[1]
		if len(p.changes) != 1 || len(p.sent) != 0 || p.current().state != running {
			t.Errorf("left are %d states and %d messages; now it is in state %d", len(p.changes), len(p.sent), p.current().state)
		}
	}
}

// A VM has no data of an earlier VM with the same pid.
func TestForgetVM(t *testing.T) {
	var l Log
	l.ForgetVM(vmPID)
	l.Add(script(t, `
		0 watch 1
		10 start 1 7
		20 gc+ 1`), bpf.Loss{})
	l.ForgetVM(vmPID + 1)
	scenario{name: "another one", start: 10, end: 30, want: `
		10-20 running 1
		20-30 gc 1`}.explain(t, &l)
	l.ForgetVM(vmPID)
	l.Add(script(t, `
		50 watch 1
		60 gc+ 1`), bpf.Loss{})
	scenario{name: "the next one", start: 10, end: 70, want: `
		10-50 unexplained 1: what it did is not known: beamscope did not track it then
		50-60 running 1
		60-70 gc 1`}.explain(t, &l)
}

// The end of a watch is not reported. So the last known activity of a process only holds as long as
// events show that it is still watched.
func TestWatchEndsSilently(t *testing.T) {
	const before = `
		1 watch 1
		2 start 1 6
		2 send 1>2 5
		2 watch 2
		3 in 2
		4 queued 2 5 #1
		5 receive 2 5 #1
		6 end 1 6
		10000 start 1 7`
	for _, s := range []scenario{{
		name: "with its span", events: before + `
			10001 out 1 wait`,
		start: 10000, end: 900000, want: `
			10000-10001 running 1
			10001-900000 waiting 2 inferred by 1>2 2..5: assumed: it sent the last message there; what it did is not known: beamscope did not track it then`,
	}, {
		name: "seen when it is again", events: before + `
			10001 out 1 wait
			950000 watch 3
			950000 start 3 8
			950001 send 3>2 5
			950001 watch 2
			950002 gc+ 2`,
		start: 10000, end: 900000, want: `
			10000-10001 running 1
			10001-900000 waiting 2 inferred by 1>2 2..5: assumed: it sent the last message there; what it did is not known: beamscope did not track it then`,
	}, {
		name: "it is asked", events: before + `
			10001 send 1>2 5
			10002 out 1 wait`,
		start: 10000, end: 900000, want: `
			10000-10002 running 1
			10002-900000 waiting 2 inferred by 1>2 10001..0: assumed: it sent the last message there
				10002-900000 mailbox 2 inferred behind 0 by 1>2 10001..0`,
	}, {
		name: "it does something later", events: before + `
			10001 out 1 wait
			950000 gc+ 2`,
		start: 10000, end: 900000, want: `
			10000-10001 running 1
			10001-900000 waiting 2 inferred by 1>2 2..5: assumed: it sent the last message there
				10001-900000 running 2 inferred`,
	}} {
		t.Run(s.name, func(t *testing.T) { s.run(t) })
	}
}

// An exited process stays exited, even if a request comes afterwards.
func TestAskedAfterExit(t *testing.T) {
	const before = `
		0 watch 1
		1 watch 2
		5 in 2
		9 exit 2
		10 start 1 7
		20 send 1>2 9
		20 watch 2
		30 out 1 wait`
	scenario{name: "for ever", events: before, start: 10, end: 90, want: `
		10-30 running 1
		30-90 waiting 2 inferred by 1>2 20..0: assumed: it sent the last message there; it had exited`}.run(t)
	scenario{name: "until another one has its place", events: before + `
		40 gc+ 2
		50 gc- 2`, start: 10, end: 90, want: `
		10-30 running 1
		30-90 waiting 2 inferred by 1>2 20..0: assumed: it sent the last message there
			30-40 waiting 2 inferred: it had exited
			40-50 gc 2 inferred
			50-90 running 2 inferred`}.run(t)
}

// A loss of events adds no invented activity to a process that was not watched before.
func TestWatchedAfterLoss(t *testing.T) {
	var l Log
	l.Add(script(t, `0 watch 1`), bpf.Loss{})
	l.Add(script(t, `100 gc+ 1`), bpf.Loss{Events: 1, From: 50, To: 100})
	l.Add(script(t, `
		600000 in 5
		600001 watch 5
		600010 gc+ 5`), bpf.Loss{})
	scenario{name: "swapped", start: 200, end: 600020, owner: 5, want: `
		200-600001 unexplained 5: what it did is not known: beamscope did not track it then
		600001-600010 running 5
		600010-600020 gc 5`}.explain(t, &l)

	l.Add(script(t, `
		700000 gc- 6`), bpf.Loss{})
	scenario{name: "it is lost that it was watched", start: 50, end: 700020, owner: 6, want: `
		50-100 unexplained 6: what it did is not known: beamscope did not track it then
		100-700000 gc 6
		700000-700020 running 6`}.explain(t, &l)

	l.Forget(650000)
	l.Add(script(t, `
		800000 gc- 8`), bpf.Loss{})
	scenario{name: "long ago", start: 700000, end: 800020, owner: 8, want: `
		700000-800000 unexplained 8: what it did is not known: beamscope did not track it then
		800000-800020 running 8`}.explain(t, &l)
}

// A process that is watched again at once counts as watched all the time.
func TestWatchedAgainAtOnce(t *testing.T) {
	scenario{events: `
		0 watch 1
		10 start 1 7
		20 gc+ 1
		20 watch 1
		30 gc- 1`,
		start: 10, end: 40, want: `
			10-20 running 1
			20-30 gc 1
			30-40 running 1`,
	}.run(t)
}
