package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/bpf"
)

// A message arrives before its sender's next action, and a fetched message came after the
// receiver's last action. Between these two bounds every order is possible.
func TestOnTheWay(t *testing.T) {
	for _, test := range []struct{ name, events, want string }{{
		// The event of the fetch comes later: the next two messages were sent in between.
		name: "sent between the fetch and its event", events: `
			0 watch 1
			0 watch 2
			1 out 1 wait
			20 send 2>1 4
			100 in 1
			7000 send 2>1 4
			12000 send 2>1 4
			13000 queued 1 4 #1
			13001 receive 1 4 #1
			13002 queued 1 4 #2
			13002 queued 1 4 #2
			13003 receive 1 4 #2
			13004 receive 1 4 #1
			13005 out 2 wait`,
		want: "2>1 20..13001 inferred\n2>1 7000..13003 inferred\n2>1 12000..13004 inferred",
	}, {
		// The sender of the first was delayed, so it came after the others, which are in order.
		name: "on its way for long", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 out 1 wait
			20 send 2>1 1
			30 send 3>1 4
			40 send 3>1 4
			90000 send 3>1 4
			90001 out 2 wait
			90002 out 3 wait
			90010 in 1
			90011 queued 1 5 #4
			90012 queued 1 5 #4
			90013 queued 1 5 #4
			90014 queued 1 2 #4
			90015 receive 1 5 #4
			90016 receive 1 5 #3
			90017 receive 1 5 #2
			90018 receive 1 2 #1`,
		want: "3>1 30..90015 inferred\n3>1 40..90016 inferred\n3>1 90000..90017 inferred\n2>1 20..90018 inferred",
	}, {
		// Messages that are smaller at the send fit in many places, but the large ones only in one.
		name: "on its way for long, and small", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 out 1 wait
			10 send 2>1 6
			20 send 3>1 6
			30 send 3>1 13
			40 out 3 wait
			90 send 2>1 13
			95 out 2 wait
			100 in 1
			101 queued 1 6 #4
			102 queued 1 13 #4
			103 queued 1 6 #4
			104 queued 1 13 #4
			105 receive 1 6 #4
			106 receive 1 13 #3
			107 receive 1 6 #2
			108 receive 1 13 #1`,
		want: "0>1 0..105 ambiguous\n3>1 30..106 inferred\n0>1 0..107 ambiguous\n2>1 90..108 inferred",
	}, {
		// The first had not come yet when the process fetched the others.
		name: "on its way while what was sent later is fetched", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 out 1 wait
			20 send 2>1 4
			30 send 3>1 4
			40 out 3 wait
			50 in 1
			60 queued 1 4 #1
			61 receive 1 4 #1
			70 out 2 wait
			80 queued 1 4 #1
			81 receive 1 4 #1`,
		want: "3>1 30..61 inferred\n2>1 20..81 inferred",
	}, {
		// The late small message does not change the order of the others.
		name: "on its way for long, and small, past two that are in order", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			0 watch 4
			1 out 1 wait
			10 send 2>1 6
			20 send 3>1 13
			21 out 3 wait
			30 send 4>1 13
			31 out 4 wait
			95 out 2 wait
			100 in 1
			101 queued 1 13 #3
			102 queued 1 13 #3
			103 queued 1 6 #3
			105 receive 1 13 #3
			106 receive 1 13 #2
			107 receive 1 6 #1`,
		want: "3>1 20..105 inferred\n4>1 30..106 inferred\n2>1 10..107 inferred",
	}, {
		// The first may have come first, or after any other one, and so may the others.
		name: "doubtful once, and the next are", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 in 1
			2 out 1 wait
			20 send 3>1 6
			30 send 2>1 6
			40 in 1
			45 queued 1 6 #1
			50 send 2>1 6
			55 receive 1 6 #1
			60 suspend 1 6
			65 queued 1 6 #1
			66 receive 1 6 #1
			67 suspend 1 6
			70 suspend 2 6
			80 queued 1 6 #1
			81 receive 1 6 #1
			90 suspend 3 6`,
		want: "0>1 0..55 ambiguous\n0>1 0..66 ambiguous\n0>1 0..81 ambiguous",
	}, {
		// The next action of the unwatched process is unknown.
		name: "sent by one that is not watched", events: `
			0 watch 1
			0 watch 3
			1 out 1 wait
			20 send 2>1 4 unwatched
			30 send 3>1 4
			40 out 3 wait
			90000 in 1
			90001 queued 1 4 #2
			90001 queued 1 4 #2
			90002 receive 1 4 #2
			90003 receive 1 4 #1`,
		want: "0>1 0..90002 ambiguous\n0>1 0..90003 ambiguous",
	}, {
		name: "sent long before another one, by one that is not watched", events: `
			0 watch 1
			0 watch 3
			1 out 1 wait
			20 send 2>1 4 unwatched
			200000000 send 3>1 4
			200000010 out 3 wait
			900000000 send 2>3 4 unwatched
			900000001 in 1
			900000002 queued 1 4 #2
			900000002 queued 1 4 #2
			900000003 receive 1 4 #2
			900000004 receive 1 4 #1`,
		want: "2>1 20..900000003 inferred\n3>1 200000000..900000004 inferred",
	}, {
		// A message to a process is not an action of that process.
		name: "watched while it sends", events: `
			0 watch 1
			0 watch 3
			1 out 1 wait
			20 send 2>1 4 unwatched
			25 watch 2
			30 send 3>1 4
			40 out 3 wait
			50 in 1
			51 queued 1 4 #2
			51 queued 1 4 #2
			52 receive 1 4 #2
			53 receive 1 4 #1`,
		want: "0>1 0..52 ambiguous\n0>1 0..53 ambiguous",
	}, {
		// The messages that the collection has fetched are handed out, and not later ones.
		name: "garbage collected before it fetches", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 in 1
			20 send 2>1 4
			21 out 2 wait
			30 gc+ 1
			40 gc- 1
			50 send 3>1 4
			60 out 3 wait
			70 suspend 1 6
			80 queued 1 4 #1
			81 receive 1 4 #1
			90 queued 1 4 #1
			91 receive 1 4 #1`,
		want: "2>1 20..81 inferred\n3>1 50..91 inferred",
	}, {
		// The second part was fetched with the first one, before the last was sent.
		name: "handed out in parts, with more on its way", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 out 1 wait
			2 send 2>1 4
			3 out 2 wait
			4 in 1
			5 queued 1 4 #1
			6 receive 1 4 #1
			7 out 1 wait
			20 send 2>1 4
			21 send 2>1 4
			22 out 2 wait
			30 in 1
			31 queued 1 4 #2
			32 receive 1 4 #2
			40 send 3>1 4
			41 out 3 wait
			50 suspend 1 6
			60 queued 1 4 #1
			61 receive 1 4 #1
			70 suspend 1 6
			80 queued 1 4 #1
			81 receive 1 4 #1`,
		want: "2>1 2..6 inferred\n2>1 20..32 inferred\n2>1 21..61 inferred\n3>1 40..81 inferred",
	}, {
		// When it waits, everything was handed out: later messages are not held back.
		name: "waits, though one seemed to be held back", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 out 1 wait
			2 send 2>1 4
			3 out 2 wait
			4 in 1
			5 queued 1 4 #1
			6 receive 1 4 #1
			10 send 2>1 4
			11 out 2 wait
			15 in 1
			16 queued 1 4 #2
			17 receive 1 4 #2
			27 out 1 wait
			100 send 2>1 4
			101 out 2 wait
			200 send 3>1 4
			201 out 3 wait
			300 in 1
			301 queued 1 4 #1
			302 receive 1 4 #1`,
		want: "2>1 2..6 inferred\n2>1 10..17 inferred\n0>1 0..302 ambiguous",
	}, {
		// The first message of a process does not come last.
		name: "small, and the first of its sender", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 out 1 wait
			10 send 2>1 6
			12 send 3>1 13
			20 send 2>1 9
			95 out 2 wait
			95 out 3 wait
			100 in 1
			101 queued 1 13 #3
			102 queued 1 9 #3
			103 queued 1 6 #3
			105 receive 1 13 #3
			106 receive 1 9 #2
			107 receive 1 6 #1`,
		want: "0>1 0..105 ambiguous\n0>1 0..106 ambiguous",
	}, {
		name: "small, and there before the other is sent", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 out 1 wait
			10 send 2>1 6
			11 out 2 wait
			12 send 3>1 13
			13 out 3 wait
			100 in 1
			101 queued 1 13 #2
			102 queued 1 6 #2
			105 receive 1 13 #2
			106 receive 1 6 #1`,
		want: "0>1 0..106 ambiguous",
	}, {
		// Both were there before it asked: neither is the answer.
		name: "either of two that are no answers", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			5 in 1
			10 send 3>1 9
			11 suspend 3 6
			20 gc+ 1
			21 gc- 1
			22 queued 1 9 #1
			25 suspend 1 6
			50 send 2>1 9
			51 send 3>1 9
			60 suspend 2 6
			60 suspend 3 6
			100 send 1>2 4
			200 queued 1 9 #3
			200 queued 1 9 #3
			201 receive 1 9 #3`,
		want: "3>1 10..201 inferred",
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

// A message that is on its way for long does not hide those that come before it, however many.
func TestManyOvertake(t *testing.T) {
	for _, n := range []int{1, crowd - 1, crowd, 10 * crowd} {
		var events, taken strings.Builder
		events.WriteString("0 watch 1\n0 watch 2\n0 watch 3\n1 out 1 wait\n20 send 2>1 9\n")
		var want []string
		for i := range n {
			fmt.Fprintf(&events, "%d send 3>1 4\n", 1000*(i+1))
		}
		events.WriteString("900000 out 2 wait\n900000 out 3 wait\n900001 in 1\n")
		for i := range n {
			fmt.Fprintf(&events, "900002 queued 1 4 #%d\n", n+1)
			fmt.Fprintf(&taken, "%d receive 1 4 #%d\n", 900003+i, n+1-i)
			want = append(want, fmt.Sprintf("3>1 %d..%d inferred", 1000*(i+1), 900003+i))
		}
		fmt.Fprintf(&events, "900002 queued 1 9 #%d\n%s", n+1, taken.String())
		fmt.Fprintf(&events, "999999 receive 1 9 #1\n")
		want = append(want, "2>1 20..999999 inferred")
		var l Log
		l.Add(script(t, events.String()), bpf.Loss{})
		if got := edges(&l); !slices.Equal(got, want) {
			t.Errorf("%d overtake: got %q, want %q", n, got, want)
		}
	}
}

// With many inactive aliases and as many messages, the cost of each does not grow with their
// number.
func BenchmarkDroppedAliases(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var s strings.Builder
			s.WriteString("0 watch 1\n0 watch 2\n0 watch 3\n1 out 1 wait\n")
			for i := range n {
				fmt.Fprintf(&s, "%d send 2>1 alias\n%d send 3>1 4\n", 10+2*i, 11+2*i)
			}
			at := 100 + 2*n
			fmt.Fprintf(&s, "%d out 2 wait\n%d out 3 wait\n%d in 1\n", at, at, at)
			for range n {
				fmt.Fprintf(&s, "%d queued 1 4 #%d\n", at+1, n)
			}
			fmt.Fprintf(&s, "%d receive 1 4 #%d\n", at+2, n)
			events := script(b, s.String())
			for b.Loop() {
				var l Log
				l.Add(events, bpf.Loss{})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/message")
		})
	}
}
