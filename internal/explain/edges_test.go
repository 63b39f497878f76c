package explain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/bpf"
)

// In asks a process asks another one something, and in takes it takes one of two messages.
const (
	asks = `
		0 watch 1
		0 watch 2
		0 watch 3
		1 out 1 wait
		2 out 2 wait
		3 in 3
		30 send 1>2 1
		35 queued 2 1 #1
		35 receive 2 1 #1`
	takes = `
		40 queued 1 4 #2
		40 queued 1 4 #2
		41 receive 1 4 #2`

	// backlog is five messages of one size.
	backlog = `
		0 watch 1
		0 watch 2
		0 watch 3
		10 send 3>1 4
		11 send 3>1 4
		12 send 3>1 4
		13 send 3>1 4
		14 send 3>1 4`
)

// Which message was received is inferred from the order of messages and their sizes.
func TestEdges(t *testing.T) {
	for _, test := range []struct {
		name, events, want string
	}{{
		// Literals are not copied, and do not count when a message is sent.
		name: "smaller as it is sent", events: `
			0 watch 1
			0 watch 2
			1 out 1 wait
			20 send 2>1 4
			30 queued 1 22 #1
			31 receive 1 22 #1`,
		want: "2>1 20..31 inferred",
	}, {
		name: "larger as it is sent: another one", events: `
			0 watch 1
			0 watch 2
			1 out 1 wait
			20 send 2>1 4
			30 queued 1 3 #1
			31 receive 1 3 #1`,
		want: "",
	}, {
		// Only one of the two assignments is possible.
		name: "at the same time, and one is too large for one place", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 out 1 wait
			20 send 2>1 4
			21 send 3>1 6
			30 queued 1 6 #2
			30 queued 1 5 #2
			31 receive 1 6 #2
			32 receive 1 5 #1`,
		want: "3>1 21..31 inferred\n2>1 20..32 inferred",
	}, {
		// A message that was sent before the question, or before its receipt, is not an answer.
		name: "tells who sends, and takes the next", events: `
			0 watch 1
			0 watch 2
			1 out 1 wait
			2 out 2 wait
			20 send 2>1 4
			21 send 2>1 4
			22 send 2>1 4
			30 send 1>2 1
			40 queued 1 4 #3
			40 queued 1 4 #3
			40 queued 1 4 #3
			41 receive 1 4 #3
			50 send 1>2 1
			51 receive 1 4 #2`,
		want: "2>1 20..41 inferred\n2>1 21..51 inferred",
	}, {
		// The collection fetches the first two messages, which are handed out afterwards.
		name: "sent after garbage was collected", events: `
			0 watch 1
			0 watch 2
			1 in 1
			20 send 2>1 4
			21 send 2>1 4
			30 gc+ 1
			40 gc- 1
			50 send 2>1 4
			51 send 2>1 4
			8000 queued 1 4 #2
			8000 queued 1 4 #2
			8001 receive 1 4 #2
			8002 receive 1 4 #1
			8003 queued 1 4 #2
			8003 queued 1 4 #2
			8004 receive 1 4 #2`,
		want: "2>1 20..8001 inferred\n2>1 21..8002 inferred\n2>1 50..8004 inferred",
	}, {
		// The VM hands out what it fetched in two parts.
		name: "preempted while it fetches", events: `
			0 watch 1
			0 watch 2
			1 out 1 wait
			20 send 2>1 4
			30 in 1
			31 queued 1 4 #1
			32 receive 1 4 #1
			40 send 2>1 4
			41 send 2>1 4
			42 send 2>1 4
			8000 queued 1 4 #3
			8000 queued 1 4 #3
			8001 out 1 ready
			8002 in 1
			8003 queued 1 4 #3
			8004 receive 1 4 #3
			8005 receive 1 4 #2
			8006 receive 1 4 #1`,
		want: "2>1 20..32 inferred\n2>1 40..8004 inferred\n2>1 41..8005 inferred\n2>1 42..8006 inferred",
	}, {
		name: "asks, and takes what may be the answer", events: asks + `
			20 send 3>1 4
			36 send 2>1 4` + takes,
		want: "0>1 0..41 ambiguous\n1>2 30..35 inferred",
	}, {
		name: "asks, and takes what may be the answer to its alias", events: asks + `
			20 send 2>1 4
			36 send 2>1 alias` + takes,
		want: "0>1 0..41 ambiguous\n1>2 30..35 inferred",
	}, {
		name: "asks, and takes what comes from there in its order", events: asks + `
			20 send 2>1 4
			36 send 2>1 4` + takes,
		want: "2>1 20..41 inferred\n1>2 30..35 inferred",
	}, {
		// It had no choice, so that does not count as a habit.
		name: "asks after it took some in turn", events: backlog + `
			20 send 3>1 9
			21 send 3>1 9
			100000 in 1
			100000 queued 1 4 #7
			100000 queued 1 4 #7
			100000 queued 1 4 #7
			100000 queued 1 4 #7
			100000 queued 1 4 #7
			100000 queued 1 9 #7
			100000 queued 1 9 #7
			100001 receive 1 4 #7
			100002 receive 1 4 #6
			100003 receive 1 4 #5
			100004 receive 1 4 #4
			100005 receive 1 4 #3
			300010 send 1>2 4
			330000 send 2>1 9
			340000 queued 1 9 #3
			340001 receive 1 9 #3`,
		want: "3>1 10..100001 inferred\n3>1 11..100002 inferred\n3>1 12..100003 inferred\n3>1 13..100004 inferred\n" +
			"3>1 14..100005 inferred\n0>1 0..340001 ambiguous",
	}, {
		// The messages sent meanwhile have other sizes, so it takes them in turn by choice.
		name: "asks, and was seen to take in turn", events: backlog + `
			20 send 3>1 9
			100000 in 1
			100000 queued 1 4 #6
			100000 queued 1 4 #6
			100000 queued 1 4 #6
			100000 queued 1 4 #6
			100000 queued 1 4 #6
			100000 queued 1 9 #6
			100001 send 1>2 4
			110000 send 2>1 8
			120000 queued 1 8 #7
			120001 receive 1 4 #7
			120002 send 1>2 4
			130000 send 2>1 8
			140000 queued 1 8 #7
			140001 receive 1 4 #7
			140002 send 1>2 4
			150000 send 2>1 8
			160000 queued 1 8 #7
			160001 receive 1 4 #7
			160002 send 1>2 4
			170000 send 2>1 8
			180000 queued 1 8 #7
			180001 receive 1 4 #7
			180003 receive 1 4 #6
			180004 send 1>2 4
			190000 send 2>1 9
			200000 queued 1 9 #6
			200001 receive 1 9 #6`,
		want: "3>1 10..120001 inferred\n3>1 11..140001 inferred\n3>1 12..160001 inferred\n3>1 13..180001 inferred\n" +
			"3>1 14..180003 inferred\n3>1 20..200001 inferred",
	}} {
		t.Run(test.name, func(t *testing.T) {
			var l Log
			l.Add(script(t, test.events), bpf.Loss{})
			if got := strings.Join(edges(&l), "\n"); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// edges returns the edges of a log as text.
func edges(l *Log) []string {
	var got []string
	for e := range l.Edges(vmPID) {
		got = append(got, fmt.Sprintf("%d>%d %d..%d %s", e.From, e.To, e.Sent, e.Received, markNames[e.Mark]))
	}
	return got
}
