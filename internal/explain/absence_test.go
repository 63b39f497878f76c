package explain

import (
	"testing"

	"github.com/beamscope/beamscope/bpf"
)

// Time in which a scheduler's thread does not run is not attributed to its process.
func TestAbsences(t *testing.T) {
	for _, s := range []scenario{{
		name: "blocked, and then without a processor", events: `
			0 watch 1
			10 start 1 7 @3
			40 off @3 20 30 nanosleep
			60 off @3 50 60 blocked
			65 off @4 20 60 futex
			70 out 1 ready @3
			85 off @3 75 80 futex
			90 in 1 @3
			100 end 1 7 @3`,
		start: 10, end: 100, want: `
			10-20 running 1
			20-30 blocked 1 [nanosleep]
			30-40 oswait 1
			40-50 running 1
			50-60 blocked 1
			60-70 running 1
			70-80 ready 1
			80-85 oswait 1
			85-90 ready 1
			90-100 running 1`,
	}, {
		name: "a collection that is blocked, and a dirty function, that may be", events: `
			0 watch 1
			10 start 1 7 @3
			20 gc+ 1 @3
			40 off @3 25 30 blocked
			50 gc- 1 @3
			51 out 1 dirty @3
			52 in 1 @9
			53 nif+ 1 f @9
			80 off @9 60 70 pread64
			90 nif- 1 f @9
			100 end 1 7 @9`,
		start: 10, end: 100, want: `
			10-20 running 1
			20-25 gc 1
			25-30 blocked 1
			30-40 oswait 1
			40-50 gc 1
			50-51 running 1
			51-52 ready 1
			52-53 running 1
			53-70 nif 1 [f]
			70-80 oswait 1
			80-90 nif 1 [f]
			90-100 running 1`,
	}, {
		name: "the VM is stopped while it runs, is ready and waits, and a debugger stops one thread", events: `
			0 watch 1
			10 start 1 7 @3
			31 off @3 20 30 stopped
			32 off @4 19 30 stopped
			40 off @3 35 36 traced
			41 out 1 ready @3
			51 off @3 43 50 frozen
			60 in 1 @3
			61 out 1 wait @3
			81 off @3 70 80 stopped
			90 in 1 @3
			95 end 1 7 @3`,
		start: 10, end: 95, want: `
			10-20 running 1
			20-30 stopped 1 [by a signal]
			30-31 oswait 1
			31-35 running 1
			35-36 stopped 1 [by a debugger]
			36-40 oswait 1
			40-41 running 1
			41-43 ready 1
			43-50 stopped 1 [with its control group]
			50-51 oswait 1
			51-60 ready 1
			60-61 running 1
			61-70 unexplained 1 inferred: ` + reasonSignal + `
			70-80 stopped 1 [by a signal]
			80-90 unexplained 1 inferred: ` + reasonSignal + `
			90-95 running 1`,
	}, {
		name: "it was not seen when the thread ran again, and for some time nothing was", events: `
			0 watch 1
			10 start 1 7 @3
			32 off @3 20 30 nanosleep unseen
			50 off @3 35 unseen
			52 off @4 10 unseen
			60 end 1 7 @3`,
		start: 10, end: 60, want: `
			10-20 running 1
			20-30 blocked 1 [nanosleep]
			30-32 unexplained 1: ` + whyOffUnseen + `
			32-35 running 1
			35-50 unexplained 1: ` + whyOffUnseen + `
			50-60 running 1`,
	}, {
		name: "since when a thread did not run was not seen", events: `
			0 watch 1
			10 start 1 7 @3
			20 gc+ 1 @3
			25 gc- 1 @3
			27 off @3 0 unseen
			40 out 1 ready @3
			46 in 1 @4
			60 off @3 50 unseen
			75 end 1 7 @4`,
		start: 10, end: 75, want: `
			10-27 unexplained 1: ` + whyOffUnseen + `
			27-40 running 1
			40-46 ready 1
			46-75 running 1`,
	}, {
		name: "a thread with an unseen switch runs the process that the span waits for", events: `
			0 watch 1
			0 watch 2
			10 start 1 7 @3
			20 send 1>2 4 @3
			21 out 1 wait @3
			22 in 2 @4
			23 queued 2 4 #1 @4
			24 receive 2 4 #1 @4
			60 off @4 40 unseen
			70 send 2>1 4 @4
			71 out 2 wait @4
			80 queued 1 4 #1 @3
			81 in 1 @3
			82 receive 1 4 #1 @3
			90 end 1 7 @3`,
		start: 10, end: 90, want: `
			10-21 running 1
			21-70 waiting 2 inferred by 2>1 70..82
				21-22 ready 2 inferred
				22-40 running 2 inferred
				40-60 waiting 2 inferred: ` + whyOffUnseen + `
				60-70 running 2 inferred
			70-81 ready 1
			81-90 running 1`,
	}, {
		name: "a mailbox meanwhile", events: `
			0 watch 1
			0 watch 2
			1 in 2 @4
			10 start 1 7 @3
			20 send 1>2 4 @3
			21 out 1 wait @3
			51 off @4 30 50 stopped
			52 off @3 22 50 stopped
			60 queued 2 4 #1 @4
			61 receive 2 4 #1 @4
			70 send 2>1 4 @4
			71 out 2 wait @4
			80 queued 1 4 #1 @3
			81 in 1 @3
			82 receive 1 4 #1 @3
			90 end 1 7 @3`,
		start: 10, end: 90, want: `
			10-21 running 1
			21-22 waiting 2 inferred by 2>1 70..82
				21-22 mailbox 2 inferred behind 0 by 1>2 20..61
			22-50 stopped 1 [by a signal]
			50-70 waiting 2 inferred by 2>1 70..82
				50-61 mailbox 2 inferred behind 0 by 1>2 20..61
				61-70 running 2 inferred
			70-81 ready 1
			81-90 running 1`,
	}} {
		s.run(t)
	}
}

// A thread that does not run at present is known from the collector, until the log reports it.
func TestOpenAbsences(t *testing.T) {
	var l Log
	l.Add(script(t, `
		0 watch 1
		10 start 1 7 @3`), bpf.Loss{})
	s := scenario{start: 10, end: 90}
	want := func(text string) {
		t.Helper()
		s.want = text
		s.explain(t, &l)
	}
	off := func(thread int, from int64, why bpf.OffReason) bpf.Event {
		return bpf.Event{Kind: bpf.EventOffCPU, VM: vmPID, Thread: thread, Time: 95, From: from, Off: why, Text: "futex"}
	}
	l.Off([]bpf.Event{off(3, 50, bpf.OffBlocked), off(4, 20, bpf.OffBlocked), {Kind: bpf.EventOffCPU, VM: vmPID + 1}})
	want(`
		10-50 running 1
		50-90 blocked 1 [futex]`)
	l.Off([]bpf.Event{off(3, 50, bpf.OffStopped), off(4, 40, bpf.OffStopped)})
	want(`
		10-50 running 1
		50-90 stopped 1 [by a signal]`)
	l.Add(script(t, `
		80 off @3 50 70 stopped
		81 out 1 ready @3`), bpf.Loss{})
	want(`
		10-50 running 1
		50-70 stopped 1 [by a signal]
		70-80 oswait 1
		80-81 running 1
		81-90 stopped 1 [by a signal]`)
	l.Off([]bpf.Event{off(3, 50, bpf.OffStopped)}) // which was added since
	want(`
		10-50 running 1
		50-70 stopped 1 [by a signal]
		70-80 oswait 1
		80-81 running 1
		81-90 ready 1`)
}

// A lost event may have reported that a thread had not run for long. So it is unknown how long the
// last process before a loss of events ran.
func TestAbsenceLost(t *testing.T) {
	var l Log
	l.Add(script(t, `
		0 watch 1
		10 start 1 7 @3
		15 gc+ 1 @3
		20 gc- 1 @3`), bpf.Loss{})
	l.Add(script(t, `
		70 out 1 ready @3
		80 in 1 @3
		90 end 1 7 @3`), bpf.Loss{Events: 1, From: 50, To: 60}) // such as: 55 off @3 21 54 nanosleep
	s := scenario{start: 10, end: 90, want: `
		10-15 running 1
		15-20 gc 1
		20-60 unexplained 1: ` + whyOverwritten + `
		60-70 running 1
		70-80 ready 1
		80-90 running 1`}
	s.explain(t, &l)
}
