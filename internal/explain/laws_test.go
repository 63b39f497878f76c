package explain

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// options returns the options of the tests' sims, by number.
func options(n uint64) simOptions {
	return simOptions{
		servers: 2 + int(n%4), clients: 1 + int(n/4%5), schedulers: 1 + int(n/20%3), spans: 12,
		watchAll: n%2 == 0, instant: n%3 == 0, tokens: n%5 == 0, oneSize: n%7 == 0, timeouts: n%11 == 0,
		stalls: n%13 == 0, origins: n%17 < 8, noSerials: n%3 == 0,
	}
}

// filled returns a log with the events of a sim, added in several portions.
func filled(s *sim, rnd *rand.Rand) *Log {
	l := new(Log)
	for rest := s.events; len(rest) > 0; {
		n := 1 + rnd.IntN(min(len(rest), 200))
		l.Add(rest[:n], bpf.Loss{})
		rest = rest[n:]
	}
	return l
}

// The leaves of each of 10 000 spans add up to its duration to the nanosecond, and none goes back
// in time.
func TestSharesAddUp(t *testing.T) {
	n := 0
	for seed := uint64(0); n < 10_000; seed++ {
		rnd := rand.New(rand.NewPCG(seed, 2))
		s := simulate(seed, options(seed))
		l := filled(s, rnd)
		if rnd.IntN(4) == 0 {
			l.Forget(s.now / 2)
		}
		for _, sp := range s.spans {
			if sp.end == 0 {
				continue
			}
			i := Instance{VM: vmPID, ID: sp.id, Start: sp.start, End: sp.end, Owner: sp.owner}
			tr := l.Explain(i)
			checked(t, tr, i)
			lawful(t, tr)
			n++

			// The same holds for any interval.
			i.Start += rnd.Int64N(2*(sp.end-sp.start)) - (sp.end - sp.start)
			i.End = i.Start + rnd.Int64N(200_000)
			i.Owner = trace.PID(rnd.IntN(len(s.procs) + 2))
			if rnd.IntN(2) == 0 {
				i.ID = 0
			}
			tr = l.Explain(i)
			checked(t, tr, i)
			lawful(t, tr)
			n++
		}
	}
}

// The explained activities of a span's own process equal its real ones, with their durations.
func TestOwnTime(t *testing.T) {
	own := map[state]trace.Kind{running: trace.Running, collects: trace.GC, native: trace.NIF, suspended: trace.Port}
	spans := 0
	for seed := range uint64(200) {
		o := options(2 * seed) // all are watched
		o.tokens = true
		s := simulate(seed, o)
		l := filled(s, rand.New(rand.NewPCG(seed, 2)))
		for _, sp := range s.spans {
			if sp.end == 0 || sp.handed {
				continue
			}
			tr := l.Explain(Instance{VM: vmPID, ID: sp.id, Start: sp.start, End: sp.end, Owner: sp.owner})
			var want, got [trace.Kinds]int64
			for _, part := range tr.Spans {
				if part.Parent == 0 && part.Process == sp.owner {
					got[part.Kind] += part.Duration()
				}
			}
			states := s.truth[sp.owner]
			for i, st := range states {
				to := sp.end
				if i+1 < len(states) {
					to = states[i+1].at
				}
				want[own[st.state]] += interval{st.at, to}.overlap(sp.start, sp.end)
			}
			for _, k := range own {
				if got[k] != want[k] {
					t.Fatalf("seed %d, span %d, %d to %d: %s for %d ns, want %d, in\n%s", seed, sp.id, sp.start, sp.end, kindNames[k], got[k], want[k], drawn(tr))
				}
			}
			spans++
		}
	}
	if spans < 1000 {
		t.Errorf("only %d spans", spans)
	}
}

// A wait is explained by the timer if that ended it, and by a message otherwise.
func TestWaitsEnd(t *testing.T) {
	const most = 400 // ns, from the send of a message to its arrival
	waits := 0
	for seed := range uint64(200) {
		o := options(2 * seed) // all are watched
		o.instant, o.stalls, o.timeouts, o.tokens = seed%5 < 3, seed%5 == 4, seed%3 == 0, seed%2 == 0
		o.inOrder = true
		s := simulate(seed, o)
		l := filled(s, rand.New(rand.NewPCG(seed, 2)))
		for _, sp := range s.spans {
			if sp.end == 0 || sp.handed {
				continue
			}
			tr := l.Explain(Instance{VM: vmPID, ID: sp.id, Start: sp.start, End: sp.end, Owner: sp.owner})
			var want, got [2]int64 // ended by messages, and by timers
			unclear := int64(0)    // ended by either, or for how long it waited is not certain
			for _, part := range tr.Spans[1:] {
				timer := part.Reason == reasonTimer || strings.HasPrefix(part.Reason, reasonTimeout)
				switch {
				case part.Parent != 0:
				case strings.HasPrefix(part.Reason, reasonEither), strings.HasPrefix(part.Reason, reasonCopied), part.Kind == trace.Ready && part.Mark != trace.Exact:
					unclear += part.Duration()
				case timer:
					got[1] += part.Duration()
				case part.Kind == trace.Waiting || part.Kind == trace.Unexplained:
					got[0] += part.Duration()
				}
			}
			n := int64(0)
			for _, w := range s.waits[sp.owner] {
				d := w.overlap(sp.start, sp.end)
				if d == 0 {
					continue
				}
				n++
				if w.timer {
					want[1] += d
				} else {
					want[0] += d
				}
			}
			for i := range want {
				if got[i] > want[i] || got[i]+unclear < want[i]-n*most {
					t.Fatalf("seed %d, span %d, %d to %d: for messages and timers it waited %d ns, want %d, in\n%s", seed, sp.id, sp.start, sp.end, got, want, drawn(tr))
				}
			}
			waits += int(n)
		}
	}
	if waits < 1000 {
		t.Errorf("only %d waits", waits)
	}
}

// An accuracy contains, for taken messages with a seen send, the number with an unambiguous edge
// and the number of right edges.
type accuracy struct {
	messages, exact, inferred, ambiguous int
	wrongExact, wrongInferred            int
}

func (a accuracy) String() string {
	return fmt.Sprintf("%d messages: %d exact (%d wrong), %d inferred (%d wrong), %d ambiguous: precision %.4f, recall %.4f",
		a.messages, a.exact, a.wrongExact, a.inferred, a.wrongInferred, a.ambiguous, a.precision(), a.recall())
}

func (a accuracy) precision() float64 {
	return 1 - float64(a.wrongExact+a.wrongInferred)/float64(max(1, a.exact+a.inferred))
}

func (a accuracy) recall() float64 {
	return float64(a.exact+a.inferred-a.wrongExact-a.wrongInferred) / float64(max(1, a.messages))
}

func (a *accuracy) add(s *sim, l *Log) {
	for _, m := range s.taken {
		if m.seen {
			a.messages++
		}
	}
	for e := range l.Edges(vmPID) {
		m := s.taken[taking{e.To, e.Received}]
		right := m.seen && m.from == e.From && m.at == e.Sent
		switch e.Mark {
		case trace.Exact:
			a.exact++
			if !right {
				a.wrongExact++
			}
		case trace.Inferred:
			a.inferred++
			if !right {
				a.wrongInferred++
			}
		default:
			a.ambiguous++
		}
	}
}

func measure(sims uint64, change func(*simOptions), ignore bool) accuracy {
	var a accuracy
	for seed := range sims {
		o := options(seed)
		o.oneSize, o.timeouts, o.stalls, o.origins = false, false, false, false
		change(&o)
		s := simulate(seed, o)
		l := &Log{IgnoreTokens: ignore}
		l.Add(s.events, bpf.Loss{})
		a.add(s, l)
	}
	return a
}

// With tokens, every message with a seen send has an exact edge, which is right.
func TestEdgesWithTokens(t *testing.T) {
	a := measure(200, func(o *simOptions) { o.tokens, o.noSerials = true, false }, false)
	t.Log(a)
	if a.inferred > 0 || a.wrongExact > 0 {
		t.Error("not all are exact and right")
	}
	if a.exact+a.ambiguous < a.messages || a.recall() < 0.99 {
		t.Error("too few")
	}
}

// If the serials of answers are unknown at the send, tokens do not reduce what is inferred without
// them.
func TestEdgesWithoutSerials(t *testing.T) {
	a := measure(200, func(o *simOptions) { o.tokens, o.noSerials = true, true }, false)
	without := measure(200, func(o *simOptions) { o.tokens = false }, false)
	t.Logf("%v; without tokens %v", a, without)
	if a.wrongExact > 0 || a.wrongInferred > without.wrongInferred {
		t.Error("more is wrong")
	}
	if a.recall() < without.recall() {
		t.Error("less is found")
	}
}

// Without tokens, hardly any inferred edge is wrong, however long messages are on their way, and
// nearly all edges are inferred.
func TestEdgesWithoutTokens(t *testing.T) {
	for _, c := range []struct {
		name              string
		change            func(*simOptions)
		precision, recall float64
	}{
		{"in order", func(o *simOptions) { o.watchAll, o.instant = true, true }, 1, 0.98},
		{"in order, all of one size", func(o *simOptions) { o.watchAll, o.instant, o.oneSize = true, true, true }, 1, 0.94},
		{"with delays", func(o *simOptions) { o.watchAll, o.instant = true, false }, 1, 0.98},
		{"with delays, all of one size", func(o *simOptions) { o.watchAll, o.instant, o.oneSize = true, false, true }, 1, 0.94},
		{"with stalls", func(o *simOptions) { o.watchAll, o.instant, o.stalls = true, false, true }, 1, 0.98},
		{"with stalls, all of one size", func(o *simOptions) { o.watchAll, o.instant, o.stalls, o.oneSize = true, false, true, true }, 1, 0.93},
		{"with timeouts", func(o *simOptions) { o.watchAll, o.instant, o.timeouts = true, true, true }, 1, 0.96},
		{"with timeouts, all of one size", func(o *simOptions) { o.watchAll, o.instant, o.timeouts, o.oneSize = true, true, true, true }, 1, 0.92},
		{"with origins, all of one size", func(o *simOptions) { o.watchAll, o.origins, o.oneSize, o.timeouts = true, true, true, true }, 1, 0.94},
		{"watched when needed", func(o *simOptions) { o.watchAll, o.instant = false, false }, 1, 0.97},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := measure(200, c.change, true)
			t.Log(a)
			if a.precision() < c.precision || a.recall() < c.recall {
				t.Errorf("want a precision of at least %g and a recall of %g", c.precision, c.recall)
			}
		})
	}
}

// Any sequence of events gives a trace.
func TestGarbage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Log
		for range rapid.IntRange(1, 4).Draw(t, "portions") {
			events := rapid.SliceOfN(rapid.Custom(garbage), 0, 60).Draw(t, "events")
			l.Add(events, garbageLoss(t))
			if rapid.IntRange(0, 5).Draw(t, "forget") == 0 {
				l.Forget(rapid.Int64Range(-10, 300).Draw(t, "before"))
			}
			i := Instance{
				VM: rapid.IntRange(1, 2).Draw(t, "vm"), ID: rapid.Uint64Range(0, 2).Draw(t, "id"),
				Start: rapid.Int64Range(-50, 200).Draw(t, "start"), Owner: trace.PID(rapid.Uint64Range(0, 4).Draw(t, "owner")),
			}
			i.End = i.Start + rapid.Int64Range(0, 300).Draw(t, "duration")
			tr := l.Explain(i)
			checked(t, tr, i)
			lawful(t, tr)
			for e := range l.Edges(i.VM) {
				if e.Mark == trace.Ambiguous != (e.From == 0) {
					t.Fatalf("edge %+v", e)
				}
			}
		}
	})
}

func garbageLoss(t *rapid.T) bpf.Loss {
	if rapid.Bool().Draw(t, "nothing is lost") {
		return bpf.Loss{}
	}
	from := rapid.Int64Range(-10, 200).Draw(t, "from")
	return bpf.Loss{Events: rapid.Uint64Range(0, 1).Draw(t, "lost"), From: from, To: from + rapid.Int64Range(0, 100).Draw(t, "of")}
}

// lawful fails if a message was received before it was sent, or a leg of a span that was
// handed over began with a message from before the span.
func lawful(t interface {
	Helper()
	Fatalf(string, ...any)
}, tr *trace.Trace) {
	t.Helper()
	for _, s := range tr.Spans {
		k := s.Link
		if k.Received != 0 && k.Received < k.Sent {
			t.Fatalf("received before it was sent: %+v in\n%s", k, drawn(tr))
		}
		// A leg begins with its message. An awaited process sends a message at its end.
		if k.Sent != 0 && k.Sent < tr.Spans[0].Start && s.Process == k.To && s.Kind == trace.Waiting && s.Parent == 0 && !strings.HasPrefix(s.Reason, "assumed") && !strings.HasPrefix(s.Reason, reasonTimeout) && !strings.HasPrefix(s.Reason, reasonEither) {
			t.Fatalf("handed over before it began: %+v in\n%s", s, drawn(tr))
		}
	}
}

func garbage(t *rapid.T) bpf.Event {
	small := func(name string, n int) int { return rapid.IntRange(0, n).Draw(t, name) }
	return bpf.Event{
		Time: int64(small("time", 200)), VM: 1 + small("vm", 1), Thread: small("thread", 2),
		Kind: bpf.EventKind(small("kind", int(bpf.EventMonitor)+1)), Process: uint64(small("process", 4)), Other: uint64(small("other", 4)),
		ID: uint64(small("id", 2)), Size: uint32(small("size", 2)), Inner: uint32(small("inner", 4)),
		Label: int32(small("label", 1)), Prev: int32(small("prev", 1)), Cur: int32(small("cur", 1)), Alias: small("alias", 1) == 1,
		Unwatched: small("unwatched", 1) == 1, Unseen: small("unseen", 1) == 1, Off: bpf.OffReason(small("off", 5)), Port: small("port", 1) == 1, State: uint8(small("state", 31)), Reductions: int32(small("reductions", 5000)),
		From: int64(small("from", 200)), To: int64(small("to", 200)),
	}
}

// FuzzAdd reads each event from some bytes.
func FuzzAdd(f *testing.F) {
	f.Add([]byte("0123456789abcdefghij"), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, data []byte, from, to int64) {
		var l Log
		for len(data) >= 10 {
			b := data[:10]
			l.Add([]bpf.Event{{
				Time: int64(int8(b[0])), VM: 1, Thread: int(b[1] % 3), Kind: bpf.EventKind(b[2] % (byte(bpf.EventMonitor) + 2)),
				Process: uint64(b[3] % 5), Other: uint64(b[4] % 5), ID: uint64(b[3] % 2), Size: uint32(b[5] % 3), Inner: uint32(b[6]),
				Label: int32(b[7] % 2), Prev: int32(b[7] / 2 % 2), Cur: int32(b[7] / 4 % 2), Alias: b[7]&8 != 0,
				Unwatched: b[7]&16 != 0, State: b[8], Reductions: int32(b[8]) * 30, From: int64(int8(b[9])), To: int64(int8(b[8])),
			}}, bpf.Loss{From: min(from, to), To: max(from, to)})
			if b[1] >= 250 {
				l.Forget(int64(int8(b[9])))
			}
			data = data[10:]
		}
		for owner := range trace.PID(5) {
			i := Instance{VM: 1, ID: uint64(owner) % 2, Start: -100, End: 100, Owner: owner}
			tr := l.Explain(i)
			checked(t, tr, i)
			lawful(t, tr)
		}
	})
}

func BenchmarkExplain(b *testing.B) {
	s := simulate(1, simOptions{servers: 5, clients: 20, schedulers: 4, spans: 700, watchAll: true})
	if len(s.events) < 200_000 {
		b.Fatalf("only %d events", len(s.events))
	}
	s.events = s.events[:200_000]
	b.Run("Add", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var l Log
			l.Add(s.events, bpf.Loss{})
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.events)), "ns/event")
	})
	var l Log
	l.Add(s.events, bpf.Loss{})
	last := s.events[len(s.events)-1].Time
	var spans []simSpan
	for _, sp := range s.spans {
		if sp.end != 0 && sp.end <= last {
			spans = append(spans, sp)
		}
	}
	b.Run("Explain", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			sp := spans[n%len(spans)]
			l.Explain(Instance{VM: vmPID, ID: sp.id, Start: sp.start, End: sp.end, Owner: sp.owner})
		}
	})
}
