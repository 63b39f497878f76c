package explain

import (
	"strings"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// handedOver is a span that passes from a source through two queues with a worker each, and ends in
// the second worker: 1 → 2 → 3 → 4 → 5, as in M/M/1/K.
const handedOver = `
	0 watch 1
	0 watch 2
	0 watch 3
	0 watch 4
	0 watch 5
	1 in 2 @2
	1 in 3 @3
	1 in 4 @2
	1 in 5 @3
	2 out 2 wait @2
	2 out 4 wait @2
	2 out 5 wait @3
	3 send 9>3 7
	10 start 1 7
	12 send 1>2 5
	13 out 1 wait
	20 in 2 @2
	21 queued 2 5 #1
	22 receive 2 5 #1
	25 send 2>3 6
	26 out 2 wait @2
	30 queued 3 7 #2
	30 queued 3 6 #2
	31 receive 3 7 #2
	60 receive 3 6 #1
	100 send 3>4 5
	101 send 3>2 0
	102 out 3 wait @3
	105 in 4 @2
	106 queued 4 5 #1
	107 receive 4 5 #1
	108 send 4>5 6
	109 out 4 wait @2
	110 in 5 @3
	111 queued 5 6 #1
	112 receive 5 6 #1
	115 gc+ 5 @3
	180 gc- 5 @3
`

// In rule, three spans of outcome 0 end in another process than the one that started them.
const rule = `
	0 watch 1
	0 watch 2
	1 start 1 101
	2 end 2 101
	3 start 1 102
	4 end 2 102
	5 start 1 103
	6 end 2 103
`

func TestHandedOver(t *testing.T) {
	for _, s := range []scenario{{
		name: "two queues, with the end", events: handedOver + `
			190 end 5 7`,
		start: 10, end: 190, want: `
			10-12 running 1 inferred
			12-25 waiting 2 inferred by 1>2 12..22
				12-20 ready 2 inferred
				20-25 running 2 inferred
			25-100 waiting 3 inferred by 2>3 25..60
				25-60 mailbox 3 inferred behind 1 by 2>3 25..60
				60-100 running 3 inferred
			100-108 waiting 4 inferred by 3>4 100..107
				100-105 ready 4 inferred
				105-108 running 4 inferred
			108-190 waiting 5 inferred by 4>5 108..112
				108-110 ready 5 inferred
				110-115 running 5 inferred
				115-180 gc 5 inferred
				180-190 running 5 inferred`,
	}, {
		name: "a timeout, and a late end", events: handedOver + `
			190 end 5 7`,
		start: 10, end: 50, want: `
			10-12 running 1 inferred
			12-25 waiting 2 inferred by 1>2 12..22
				12-20 ready 2 inferred
				20-25 running 2 inferred
			25-50 waiting 3 inferred by 2>3 25..60
				25-50 mailbox 3 inferred behind 1 by 2>3 25..60`,
	}, {
		name: "no start", events: strings.Replace(handedOver, "10 start 1 7", "", 1) + `
			190 end 5 7`,
		start: 21, end: 190, owner: 77, want: `
			21-22 unexplained 2 inferred: beamscope did not see how it came to the process that has it next
			22-25 waiting 2 inferred
				22-25 running 2 inferred
			25-100 waiting 3 inferred by 2>3 25..60
				25-60 mailbox 3 inferred behind 1 by 2>3 25..60
				60-100 running 3 inferred
			100-108 waiting 4 inferred by 3>4 100..107
				100-105 ready 4 inferred
				105-108 running 4 inferred
			108-190 waiting 5 inferred by 4>5 108..112
				108-110 ready 5 inferred
				110-115 running 5 inferred
				115-180 gc 5 inferred
				180-190 running 5 inferred`,
	}, {
		name: "a message of which the sender was not seen", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			2 out 2 wait @2
			10 start 1 7
			20 in 2 @2
			21 queued 2 5 #1
			22 receive 2 5 #1
			50 end 2 7`,
		start: 10, end: 50, want: `
			10-22 unexplained 2: handed over by a message whose sender was not seen
			22-50 waiting 2
				22-50 running 2`,
	}, {
		name: "a message that was sent before it began", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			20000 send 9>2 5
			30000 start 1 7
			60000 queued 2 5 #1
			60001 receive 2 5 #1
			90000 end 2 7`,
		start: 30000, end: 90000, want: `
			30000-60001 unexplained 2: beamscope did not see how it came to the process that has it next
			60001-90000 waiting 2
				60001-90000 running 2`,
	}, {
		name: "it waits for a timer while it has the span", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			2 out 2 wait @2
			10 start 1 7
			12 send 1>2 5
			20 in 2 @2
			21 queued 2 5 #1
			22 receive 2 5 #1
			25 out 2 wait @2
			40 in 2 @2
			41 queued 2 9 #1
			42 receive 2 9 #1
			50 end 2 7`,
		start: 10, end: 50, want: `
			10-12 running 1 inferred
			12-50 waiting 2 inferred by 1>2 12..22
				12-20 ready 2 inferred
				20-25 running 2 inferred
				25-40 unexplained 2 inferred: it waited for a message that beamscope did not see sent, and the VM does not tell who sent it
				40-50 running 2 inferred`,
	}, {
		name: "a message that was not seen may have brought it", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			2 out 2 wait @2
			30000 start 1 7
			30010 send 1>2 5
			30020 in 2 @2
			30021 queued 2 5 #1
			30022 receive 2 5 #1
			80001 queued 2 50 #1
			80002 receive 2 50 #1
			90000 end 2 7`,
		start: 30000, end: 90000, want: `
			30000-80002 unexplained 2 ambiguous: handed over by a message of <0.1.0>, or of one whose sender was not seen
			80002-90000 waiting 2
				80002-90000 running 2`,
	}, {
		name: "one of two senders", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 in 2 @2
			2 out 2 wait @2
			10 start 1 7
			18 send 1>2 5
			19 send 3>2 5
			20 in 2 @2
			21 queued 2 5 #2
			21 queued 2 5 #2
			22 receive 2 5 #2
			50 end 2 7`,
		start: 10, end: 50, want: `
			10-22 unexplained 2 ambiguous: handed over by a message of <0.1.0> or <0.3.0>
			22-50 waiting 2
				22-50 running 2`,
	}, {
		name: "nothing was received", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			10 start 1 7
			50 end 2 7`,
		start: 10, end: 50, want: `
			10-50 unexplained 2: beamscope did not see how it came to the process that has it next`,
	}, {
		name: "never ended, over one process", events: rule + `
			8 in 2 @2
			9 out 2 wait @2
			10 start 1 7
			12 send 1>2 5
			15 start 1 8
			16 send 1>2 5
			20 in 2 @2
			21 queued 2 5 #2
			21 queued 2 5 #2
			22 receive 2 5 #2
			30 receive 2 5 #1`,
		start: 10, end: 50, want: `
			10-12 running 1
			12-30 waiting 2 inferred by 1>2 12..22
				12-20 ready 2 inferred
				20-30 running 2 inferred
			30-50 unexplained 2 inferred: handed over to this process; no message that passed it on was seen`,
	}, {
		name: "never ended, in a mailbox", events: rule + `
			7 watch 3
			8 in 2 @2
			9 out 2 wait @2
			10 start 1 7
			12 send 1>2 5
			20 in 2 @2
			21 queued 2 5 #1
			22 receive 2 5 #1
			25 send 2>3 4
			26 in 3
			26 out 2 wait`,
		start: 10, end: 50, want: `
			10-12 running 1
			12-25 waiting 2 inferred by 1>2 12..22
				12-20 ready 2 inferred
				20-25 running 2 inferred
			25-50 unexplained 2 ambiguous: handed over, and it is not certain that its message to <0.3.0> carried it`,
	}, {
		name: "never ended, and its owner sent a log message", events: rule + `
			7 watch 3
			10 start 1 7
			12 send 1>3 5`,
		start: 10, end: 50, want: `
			10-12 running 1
			12-50 unexplained 1 ambiguous: handed over, and it is not certain that its message to <0.3.0> carried it`,
	}, {
		name: "never ended, in a mailbox where others have been", events: strings.NewReplacer("start 1 1", "start 2 2", "end 2 1", "end 3 2").Replace(rule) + rule + `
			7 watch 3
			8 in 2 @2
			9 out 2 wait @2
			10 start 1 7
			12 send 1>2 5
			20 in 2 @2
			21 queued 2 5 #1
			22 receive 2 5 #1
			25 send 2>3 4
			26 in 3
			26 out 2 wait`,
		start: 10, end: 50, want: `
			10-12 running 1
			12-25 waiting 2 inferred by 1>2 12..22
				12-20 ready 2 inferred
				20-25 running 2 inferred
			25-50 waiting 3 inferred by 2>3 25..0
				25-26 ready 3 inferred
				26-50 running 3 inferred`,
	}, {
		name: "never ended, one of two messages", events: rule + `
			8 in 2 @2
			9 out 2 wait @2
			10 start 1 7
			12 send 1>2 5
			20 in 2 @2
			21 queued 2 5 #1
			22 receive 2 5 #1
			25 send 2>3 4
			26 send 2>4 4`,
		start: 10, end: 50, want: `
			10-12 running 1
			12-25 waiting 2 inferred by 1>2 12..22
				12-20 ready 2 inferred
				20-25 running 2 inferred
			25-50 unexplained 2 ambiguous: handed over, and which of 2 messages carried it is not certain`,
	}, {
		name: "never ended, and it is not known who started it", events: strings.Replace(handedOver, "10 start 1 7", "", 1),
		start: 100, end: 190, owner: 77, want: `
			100-190 unexplained 77: what it did is not known: beamscope did not track it then`,
	}} {
		t.Run(s.name, func(t *testing.T) { s.run(t) })
	}
}

// With tokens, the last message with the same label brought the span.
func TestHandedOverLabel(t *testing.T) {
	scenario{events: `
		0 watch 1
		0 watch 2
		0 watch 3
		1 in 2 @2
		2 out 2 wait @2
		10 start 1 7
		12 send 1>2 5 ~7.0.1
		13 send 3>2 6
		20 in 2 @2
		21 queued 2 5 #2 ~7.0.1
		21 queued 2 6 #2
		22 receive 2 5 #2 ~7.0.1
		30 receive 2 6 #1
		50 end 2 7`,
		start: 10, end: 50, want: `
			10-12 running 1
			12-50 waiting 2 by 1>2 12..22
				12-20 ready 2
				20-50 running 2`,
	}.run(t)
}

// An ended span shows the processes that it passed through. An open one is followed through those.
func TestHandedOverThrough(t *testing.T) {
	var l Log
	l.Add(script(t, handedOver+"190 end 5 7"), bpf.Loss{})
	for p := range uint64(6) {
		if got, want := l.vms[vmPID].handed[0].through[pid(p)], p > 1; got != want {
			t.Errorf("through %d: %t, want %t", p, got, want)
		}
	}
}

// Without owner, VM or time there is still a trace.
func TestExplainNothing(t *testing.T) {
	var l Log
	for _, i := range []Instance{{}, {Start: 5, End: 9}, {VM: vmPID, Start: 5, End: 9, Owner: 1}} {
		checked(t, l.Explain(i), i)
		l.Add([]bpf.Event{{VM: vmPID, Kind: bpf.EventWatch, Process: 2}}, bpf.Loss{})
	}
}

// Impossible instances have no trace.
func TestExplainImpossible(t *testing.T) {
	var l Log
	for _, i := range []Instance{{Start: 9, End: 5}, {End: trace.MaxDuration + 1}} {
		if tr := l.Explain(i); tr != nil {
			t.Errorf("%+v: %s", i, drawn(tr))
		}
	}
	longest := Instance{End: trace.MaxDuration}
	checked(t, l.Explain(longest), longest)
}

// Messages that were in a mailbox before its process was tracked have their own reason.
func TestNotTrackedYet(t *testing.T) {
	for _, s := range []scenario{{
		name: "handed over before", events: `
			5 start 1 7
			5 watch 1
			6 send 1>2 9
			6 watch 2
			20 receive 2 4 #3 @2
			30 end 2 7`,
		start: 5, end: 30, want: `
			5-20 unexplained 2: ` + reasonEarlier + `
			20-30 waiting 2
				20-30 running 2`,
	}, {
		name: "handed over before, and not fetched then", events: `
			5 start 1 7
			5 watch 1
			6 watch 2
			6 send 1>2 9
			10 queued 2 5 #2 @2
			10 queued 2 9 #2 @2
			20 receive 2 5 #2 @2
			30 end 2 7`,
		start: 5, end: 30, want: `
			5-20 unexplained 2: ` + reasonEarlier + `
			20-30 waiting 2
				20-30 running 2`,
	}, {
		name: "a message comes after it is tracked, and may be a timer's", events: `
			5 start 1 7
			5 watch 1
			6 watch 2
			6 send 1>2 9
			7 out 2 wait @2
			10 in 2 @2
			10 queued 2 5 #2 @2
			20 receive 2 5 #1 @2
			30 end 2 7`,
		start: 5, end: 30, want: `
			5-20 unexplained 2: ` + reasonOrigin + `
			20-30 waiting 2
				20-30 running 2`,
	}, {
		name: "it is tracked while it waits to look at an older message", events: `
			0 watch 1
			10 start 1 7
			20 out 1 wait
			21 send 5>1 unwatched 4
			30 in 1
			31 receive 1 8 #2
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-21 unexplained 1: ` + reasonWasThere + `
			21-30 ready 1
			30-90 running 1`,
	}} {
		t.Run(s.name, func(t *testing.T) { s.run(t) })
	}
}

// If events were lost, an unseen message may have been sent while the process was tracked.
func TestNotTrackedOrLost(t *testing.T) {
	var l Log
	l.Add(script(t, `
		5 start 1 7
		5 watch 1
		6 send 1>2 9
		6 watch 2`), bpf.Loss{})
	l.Add(script(t, `
		20 receive 2 4 #3 @2
		30 end 2 7`), bpf.Loss{Events: 1, From: 8, To: 15})
	scenario{start: 5, end: 30, want: `
		5-20 unexplained 2: ` + reasonOrigin + `
		20-30 waiting 2
			20-30 running 2`}.explain(t, &l)
}

// The owner of a span without a seen end is uncertain, unless the other spans of its outcome end in
// the process that starts them.
func TestNotEnded(t *testing.T) {
	const why = ": " + guessOwner
	events := `
		0 watch 1
		10 start 1 7
		20 send 1>2 5
		30 out 1 timer
		70 able 1 over
		72 in 1 over`
	scenario{events: events, start: 10, end: 90, firstSpan: true, want: `
		10-30 running 1 inferred` + why + `
		30-70 timer 1 inferred` + why + "; " + strings.TrimPrefix(sleeps, ": ") + `
		70-72 ready 1 inferred` + why + `
		72-90 running 1 inferred` + why}.run(t)
	scenario{events: "0 start 3 6\n1 end 3 6" + events, start: 10, end: 90, want: `
		10-30 running 1
		30-70 timer 1` + sleeps + `
		70-72 ready 1
		72-90 running 1`}.run(t)
}
