package explain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/bpf"
)

// asks is that a process asks another one something, and takes is that it takes one of two
// messages.
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
		// Only one of the two ways to tell them apart is possible.
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
		// What had been sent before the question was, or before it was received, is no answer.
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
		// The collection fetches the first two, which are handed out afterwards.
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
	}} {
		t.Run(test.name, func(t *testing.T) {
			var l Log
			l.Add(script(t, test.events), bpf.Loss{})
			var got []string
			for e := range l.Edges(vmPID) {
				got = append(got, fmt.Sprintf("%d>%d %d..%d %s", e.From, e.To, e.Sent, e.Received, markNames[e.Mark]))
			}
			if got := strings.Join(got, "\n"); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}
