package explain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// edgesOf returns the links of the taken messages, one a line, in the order of processes.
func edgesOf(t *testing.T, events string) string {
	t.Helper()
	var l Log
	l.Add(script(t, events), bpf.Loss{})
	var b strings.Builder
	for e := range l.Edges(vmPID) {
		if e.Mark == trace.Ambiguous {
			fmt.Fprintf(&b, "?>%d %d\n", e.To, e.Received)
			continue
		}
		fmt.Fprintf(&b, "%d>%d %d..%d %s\n", e.From, e.To, e.Sent, e.Received, markNames[e.Mark])
	}
	return b.String()
}

// In a VM that does not report when processes fetch messages, the address of a message identifies it.
func TestClaims(t *testing.T) {
	const watched = `
		0 watch 1
		0 watch 2
		0 watch 3
		1 in 1 @1
		2 in 2 @2
	`
	for _, s := range []struct{ name, events, want string }{{
		name: "out of turn",
		events: watched + `
			10 send 1>2 direct !100
			11 send 1>2 direct !200
			12 send 3>2 direct !300
			20 receive 2 direct !300 from=3
			21 receive 2 direct !200 from=1
			22 receive 2 direct !100 from=1`,
		want: "3>2 12..20 inferred\n1>2 11..21 inferred\n1>2 10..22 inferred\n",
	}, {
		name: "left in the mailbox while it waits",
		events: watched + `
			10 send 1>2 direct !100
			11 out 2 wait @2
			12 send 3>2 direct !200
			20 in 2 @2
			21 receive 2 direct !200 from=3
			30 out 2 wait @2
			40 in 2 @2
			41 receive 2 direct !100 from=1`,
		want: "3>2 12..21 inferred\n1>2 10..41 inferred\n",
	}, {
		name: "the address is used again",
		events: watched + `
			10 send 1>2 direct !100
			20 receive 2 direct !100 from=1
			30 send 3>2 direct !100
			40 receive 2 direct !100 from=3`,
		want: "1>2 10..20 inferred\n3>2 30..40 inferred\n",
	}, {
		name: "another message is at the address, which was not seen to be sent",
		events: watched + `
			10 send 1>2 direct !100
			40 receive 2 direct !100 from=3
			50 receive 2 direct !100 from=1`,
		want: "",
	}, {
		name: "a timer's message is at the address",
		events: watched + `
			10 send 1>2 direct !100
			40 receive 2 direct !100 atom=5`,
		want: "",
	}, {
		name: "an answer to an alias",
		events: watched + `
			10 send 1>2 0 alias direct
			40 receive 2 direct !100 from=1`,
		want: "1>2 10..40 inferred\n",
	}, {
		name: "one of two answers to aliases",
		events: watched + `
			10 send 1>2 0 alias direct
			20 send 1>2 0 alias direct
			40 receive 2 direct !100 from=1
			50 send 1>2 0 alias direct
			60 receive 2 direct !100 from=1`,
		want: "?>2 40\n1>2 50..60 inferred\n",
	}, {
		name: "the answer of another process",
		events: watched + `
			10 send 1>2 0 alias direct
			40 receive 2 direct !100 from=3`,
		want: "",
	}, {
		name: "garbage was collected, and an older message of the same sender was not seen to be sent",
		events: watched + `
			10 send 1>2 direct !100
			11 send 1>2 direct !200
			15 gc+ 2
			18 gc- 2
			20 receive 2 direct !700 from=1
			21 receive 2 direct !200 from=1
			22 receive 2 direct !100 from=1`,
		want: "1>2 11..21 inferred\n1>2 10..22 inferred\n",
	}, {
		name: "the VM does not tell who sent it, and its address is not known",
		events: watched + `
			10 send 1>2 0 alias direct
			40 receive 2 direct !100`,
		want: "?>2 40\n",
	}} {
		t.Run(s.name, func(t *testing.T) {
			if got := edgesOf(t, s.events); got != s.want {
				t.Errorf("got\n%swant\n%s", got, s.want)
			}
		})
	}
}

// A process that waits for a message in such a VM waits for its sender.
func TestWaitInVMWithoutFetches(t *testing.T) {
	for _, s := range []scenario{{
		name: "a call",
		events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			2 out 2 wait @2
			5 in 1
			10 start 1 7
			15 send 1>2 direct !100
			20 out 1 wait
			25 in 2 @2
			27 receive 2 direct !100 from=1
			60 send 2>1 direct !200
			61 able 1
			62 out 2 wait @2
			70 in 1
			71 receive 1 direct !200 from=2
			80 end 1 7`,
		start: 10, end: 80, owner: 1,
		want: `
			10-20 running 1
			20-60 waiting 2 inferred by 2>1 60..71
				20-25 ready 2 inferred
				25-60 running 2 inferred
			60-70 ready 1 inferred
			70-80 running 1`,
	}, {
		name: "in a mailbox, behind others",
		events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 in 2 @2
			5 in 1
			10 start 1 7
			11 send 3>2 direct !50 unwatched
			15 send 1>2 direct !100
			20 out 1 wait
			30 receive 2 direct !50 from=3
			40 receive 2 direct !60 from=4
			50 receive 2 direct !100 from=1
			60 send 2>1 direct !200
			62 out 2 wait @2
			70 in 1
			71 receive 1 direct !200 from=2
			80 end 1 7`,
		start: 10, end: 80, owner: 1,
		want: `
			10-20 running 1
			20-60 waiting 2 inferred by 2>1 60..71
				20-50 mailbox 2 inferred behind 2 by 1>2 15..50
				50-60 running 2 inferred
			60-70 ready 1 inferred
			70-80 running 1`,
	}} {
		t.Run(s.name, s.run)
	}
}
