package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/bpf"
)

// When any message is taken, the others stay in their order.
func TestTake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b mailbox
		var want []uint32
		next := uint32(0)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			if len(want) == 0 || rapid.Bool().Draw(t, "fetch") {
				next++
				b.private = append(b.private, queued{size: next})
				want = append(want, next)
			} else {
				i := rapid.IntRange(0, len(want)-1).Draw(t, "taken")
				b.take(i)
				want = slices.Delete(want, i, i+1)
			}
			var got []uint32
			for _, q := range b.private {
				got = append(got, q.size)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("left are %v, want %v", got, want)
			}
		}
	})
}

// The kept part of a mailbox is limited, however long the mailbox is, and it is right.
func TestForgetMailbox(t *testing.T) {
	var l Log
	l.Add(script(t, `
		0 watch 1
		0 watch 2
		0 watch 3
		1 in 1
		10 send 2>1 4
		20 send 3>1 4
		30 queued 1 4 #2
		30 queued 1 4 #2
		40 gc+ 1
		45 gc- 1
		50 send 2>1 4
		55 out 2 wait
		60 send 3>1 4
		70 out 3 wait
		100000 send 2>1 4`), bpf.Loss{})
	l.Forget(60)
	b := &l.vms[vmPID].processes[1].box
	if len(b.private) != 0 || b.front != 2 || len(b.pending) != 2 {
		t.Errorf("kept are %d messages, %d older ones, and %d not fetched", len(b.private), b.front, len(b.pending))
	}
	l.Add(script(t, `
		100010 receive 1 4 #2
		100020 receive 1 4 #1
		100030 queued 1 4 #3
		100030 queued 1 4 #3
		100030 queued 1 4 #3
		100040 receive 1 4 #3
		100050 receive 1 4 #2
		100060 receive 1 4 #1`), bpf.Loss{})
	want := []string{"3>1 60..100050 inferred", "2>1 100000..100060 inferred"}
	if got := edges(&l); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An unwanted message stays at the head of many: the cost of a message does not grow with their
// number.
func BenchmarkUnwantedHead(b *testing.B) {
	for _, senders := range []int{1, 2} {
		for _, n := range []int{1000, 10_000, 40_000} {
			b.Run(fmt.Sprintf("%d senders, %d messages", senders, n), func(b *testing.B) {
				events := script(b, unwantedHead(n, senders))
				for b.Loop() {
					var l Log
					l.Add(events, bpf.Loss{})
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/message")
			})
		}
	}
}

// unwantedHead returns the script of a process that takes n messages of some senders, all fetched
// at once after an unwanted one.
func unwantedHead(n, senders int) string {
	var s strings.Builder
	s.WriteString("0 watch 1\n0 watch 2\n0 watch 3\n0 in 1\n0 out 1 wait\n1 send 2>1 9\n")
	for i := range n {
		fmt.Fprintf(&s, "%d send %d>1 4\n", 2+i, 2+i%senders)
	}
	at := 10_000 + n
	fmt.Fprintf(&s, "%d in 1\n%d queued 1 9 #%d\n", at, at, n+1)
	for range n {
		fmt.Fprintf(&s, "%d queued 1 4 #%d\n", at, n+1)
	}
	for i := range n {
		fmt.Fprintf(&s, "%d receive 1 4 #%d\n", at+1+i, n+1-i)
	}
	return s.String()
}
