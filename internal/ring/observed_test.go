package ring

import (
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/intake"
	"github.com/beamscope/beamscope/internal/ledger"
	"github.com/beamscope/beamscope/internal/outcome"
)

const ms = int64(time.Millisecond)

// A world is a ring with an observer, and windows of 100 ms that are collected in turn.
type world struct {
	*fakeRing
	o    *observed
	t    testing.TB
	s    ledger.Schedule
	next uint64
	at   int64 // the present
}

type closer struct{}

func (closer) Close() error { return nil }

// texts that a world's ring has, by number.
var texts = []string{1: "a", 2: "b", 3: "oops"}

func newWorld(t testing.TB, specs ...outcome.Spec) *world {
	t.Helper()
	w := &world{fakeRing: newFakeRing(2, minLogSlots), t: t}
	for number, text := range texts {
		w.text(uint16(number), text)
	}
	r, err := open(w.fakeRing, w.address, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if w.s, err = ledger.Schedule(nil).With(outcome.Plan{Window: 100 * time.Millisecond, Specs: specs}, 0, nameOf); err != nil {
		t.Fatal(err)
	}
	w.o = newObserved(outcome.VM{PID: 7}, 0, r, closer{})
	w.o.open(ledger.NewBook(w.o.id, 0, intake.NewBudget(intake.MaxKept)))
	w.o.plan(w.s, control{sample: 0xffff})
	if err := w.o.begin(0); err != nil {
		t.Fatal(err)
	}
	return w
}

// text writes a text into the table.
func (r *fakeRing) text(number uint16, text string) {
	at := r.header.texts + uint64(number)*textWords
	for i := 0; i < len(text); i += 7 {
		var word uint64
		for k := range 7 {
			word <<= 8
			if i+k < len(text) {
				word |= uint64(text[i+k])
			}
		}
		r.words[at+1+uint64(i/7)] = word
	}
	r.words[at] = textReady | uint64(len(text))
}

// poll reads the ring at a time, in ms.
func (w *world) poll(at int64) {
	w.at = at * ms
	w.o.poll(w.at)
}

// collect collects the next window, one window after its end.
func (w *world) collect() []outcome.Counts {
	window := w.s[0].Plan.At(w.next)
	w.next++
	if due := window.To + int64(window.Duration()); w.at < due {
		w.poll(due / ms)
	}
	var counts []outcome.Counts
	for _, c := range w.o.collect(&w.s[0], window) {
		c.Counts.Bins = nil
		counts = append(counts, c.Counts)
	}
	return counts
}

// want compares the counts of the first outcome in the next window.
func (w *world) want(want outcome.Counts) {
	w.t.Helper()
	want.Outcome, want.VM = "a", outcome.VM{PID: 7}
	if diff := cmp.Diff(want, w.collect()[0]); diff != "" {
		w.t.Errorf("window %d, -want +got:\n%s", w.next-1, diff)
	}
}

func (w *world) fail(ring int, s SpanID, class, name uint16, at int64) {
	slot := w.take(ring)
	w.put(ring, slot, 0, uint64(class)<<textShift|uint64(at)&timeMask)
	w.put(ring, slot, 1, uint64(failure)<<kindShift|uint64(s))
	w.put(ring, slot, 2, uint64(name))
}

// A span ends once, in the window of its end, and a second end is late.
func TestSpansEnd(t *testing.T) {
	w := newWorld(t, spec("a", 20*time.Millisecond))
	w.poll(1)
	good, bad, twice := w.start(0, 1, 10*ms), w.start(1, 1, 11*ms), w.start(0, 1, 12*ms)
	w.end(1, good, 1, 20*ms)
	w.fail(0, bad, 3, 1, 21*ms)
	w.end(0, twice, 1, 22*ms)
	w.end(1, twice, 1, 23*ms)
	across := w.start(0, 1, 95*ms)
	w.end(0, across, 1, 100*ms)
	w.start(0, 2, 13*ms) // of no outcome
	w.want(outcome.Counts{Starts: 4, Ends: 4, Successes: 2, Failures: 1, Lates: 1})
	w.want(outcome.Counts{Ends: 1, Successes: 1})
}

// A span that reaches its dMax has timed out then, whenever it ends.
func TestSpansTimeOut(t *testing.T) {
	w := newWorld(t, spec("a", 20*time.Millisecond))
	w.poll(1)
	never, late, at, soon := w.start(0, 1, 10*ms), w.start(0, 1, 10*ms), w.start(0, 1, 10*ms), w.start(0, 1, 10*ms)
	_ = never
	w.end(1, at, 1, 30*ms)
	w.end(1, soon, 1, 30*ms+1)
	w.start(0, 1, 90*ms)
	w.want(outcome.Counts{Starts: 5, Ends: 2, Lates: 1, Successes: 1, Timeouts: 3})
	w.end(1, late, 1, 150*ms)
	w.want(outcome.Counts{Ends: 1, Lates: 1, Timeouts: 1})
}

// A span that started before the ring was found is an orphan when it ends.
func TestOrphans(t *testing.T) {
	w := newWorld(t, spec("a", 20*time.Millisecond))
	w.end(0, SpanID(5<<classShift|200), 1, 10*ms)
	w.fail(0, SpanID(5<<classShift|100), 3, 1, 11*ms)
	w.want(outcome.Counts{Ends: 2, Orphans: 2})
}

// Records that are overwritten before they are read never become timeouts. Spans that lost one
// or both of their records count as missed.
func TestOverrunIsNoTimeout(t *testing.T) {
	const n = 2 << minLogSlots
	w := newWorld(t, spec("a", 20*time.Millisecond))
	w.poll(1)
	before := w.start(0, 1, 2*ms)
	w.poll(3)
	w.end(0, before, 1, 4*ms) // which is overwritten
	for i := range int64(n) {
		s := w.start(0, 1, 5*ms+i)
		w.end(0, s, 1, 6*ms+i)
	}
	sum := outcome.Counts{}
	for range 6 {
		sum = sum.Add(w.collect()[0])
	}
	if sum.Timeouts != 0 || sum.Orphans != 0 || sum.Instances()+sum.Loss.Missed != n+1 {
		t.Errorf("%+v of %d", sum, n+1)
	}
}

// A record that takes a while to be written holds up the time-out of spans, which it may be
// the end of, and no window. What it ends then came too late for its window.
func TestHeldUpWriter(t *testing.T) {
	w := newWorld(t, spec("a", 20*time.Millisecond))
	w.poll(1)
	s := w.start(0, 1, 10*ms)
	slot := w.take(1)
	w.want(outcome.Counts{Starts: 1})
	w.want(outcome.Counts{})
	w.put(1, slot, 0, 1<<textShift|uint64(15*ms))
	w.put(1, slot, 1, uint64(success)<<kindShift|uint64(s))
	w.want(outcome.Counts{Loss: outcome.Loss{Missed: 1}, Ends: 1})
}

// A writer that was killed within a record never ends it.
func TestKilledWriter(t *testing.T) {
	w := newWorld(t, spec("a", 20*time.Millisecond))
	w.poll(1)
	w.start(0, 1, 10*ms)
	w.take(1)
	sum := outcome.Counts{}
	for range 110 {
		sum = sum.Add(w.collect()[0])
	}
	if sum.Timeouts != 0 || sum.Loss.Missed != 1 {
		t.Errorf("%+v", sum)
	}
	w.poll(int64(w.next+1) * 100)
	at := int64(w.next) * 100 * ms
	w.start(0, 1, at+10*ms)
	for range 2 {
		sum = sum.Add(w.collect()[0])
	}
	if sum.Timeouts != 1 {
		t.Errorf("after the record was given up: %+v", sum)
	}
}

// While the lease was not kept up, spans were not recorded.
func TestSilenceIsNotObserved(t *testing.T) {
	w := newWorld(t, spec("a", 20*time.Millisecond))
	w.want(outcome.Counts{})
	for range 3 {
		w.collect()
	}
	w.poll(5000)
	for blind := false; w.next < 50; {
		c := w.collect()[0]
		from := int64(w.next-1) * 100
		switch silent := from+100 > 1400 && from < 5000; {
		case c.Unobserved == silent:
		case c.Unobserved && from >= 300: // the lease was last written then
		default:
			t.Errorf("window at %d ms: unobserved %v", from, c.Unobserved)
		}
		blind = blind || c.Unobserved
	}
}

// While another collector has spans fire the VM's probes, nobody here sees them.
func TestOtherExplains(t *testing.T) {
	for _, kernel := range []bool{false, true} {
		w := newWorld(t, spec("a", 20*time.Millisecond))
		w.o.kernel = kernel
		other, err := open(w.fakeRing, w.address, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		var theirs lease
		for at := int64(0); at < 600; at += 50 {
			if at >= 300 {
				if _, err := other.renew(&theirs, control{sample: 0xffff, explain: 0xffff}, at*ms); err != nil {
					t.Fatal(err)
				}
			}
			w.poll(at)
		}
		var blind []bool
		for range 4 {
			blind = append(blind, w.collect()[0].Unobserved)
		}
		if blind[0] || blind[3] == kernel {
			t.Errorf("programs in the kernel %v: not observed %v", kernel, blind)
		}
	}
}

// Memory that is gone ends it: open spans are lost, and windows from then on not observed.
func TestMemoryGone(t *testing.T) {
	w := newWorld(t, spec("a", time.Second))
	w.poll(1)
	w.start(0, 1, 10*ms)
	w.poll(50)
	w.o.reader.memory = nothing{}
	w.poll(60)
	if w.o.err == nil {
		t.Fatal("no error")
	}
	sum := outcome.Counts{}
	for range 12 {
		sum = sum.Add(w.collect()[0])
	}
	if !sum.Unobserved || sum.Timeouts != 0 || sum.Loss.Missed != 1 {
		t.Errorf("%+v", sum)
	}
}

type nothing struct{}

func (nothing) ReadAt([]byte, int64) (int, error)  { return 0, io.ErrUnexpectedEOF }
func (nothing) WriteAt([]byte, int64) (int, error) { return 0, io.ErrUnexpectedEOF }

// A change of dMax cuts what is open; an outcome that joins has the spans that are open.
func TestPlanChanges(t *testing.T) {
	w := newWorld(t, spec("a", 50*time.Millisecond))
	w.poll(1)
	cut, other := w.start(0, 1, 80*ms), w.start(0, 2, 80*ms)
	w.poll(85)
	next, err := w.s.With(outcome.Plan{From: 100 * ms, Window: 100 * time.Millisecond, Specs: []outcome.Spec{spec("a", 40*time.Millisecond), spec("b", 50*time.Millisecond)}}, 0, nameOf)
	if err != nil {
		t.Fatal(err)
	}
	w.o.book.Replan(next, 100*ms)
	w.o.plan(next, control{sample: 0xffff})
	w.end(1, cut, 1, 110*ms)
	w.end(1, other, 2, 111*ms)
	w.poll(300)
	first := w.o.collect(&next[0], next[0].Plan.At(0))
	second := w.o.collect(&next[1], next[1].Plan.At(0))
	if got := first[0].Counts; got.Starts != 1 || got.Instances() != 0 {
		t.Errorf("before: %+v", got)
	}
	if got := second[0].Counts; got.Loss.Cut != 1 || got.Instances() != 0 {
		t.Errorf("changed: %+v", got)
	}
	if got := second[1].Counts; got.Successes != 1 {
		t.Errorf("joined: %+v", got)
	}
}

// Whatever the order, each span is counted once, as what it was. Where records are lost,
// nothing is counted as what it was not.
func TestEverySpanIsCountedOnce(t *testing.T) {
	const dMax = 20 * ms
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, spec("a", time.Duration(dMax)))
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		burst := rapid.SampledFrom([]int{5, 50, 400}).Draw(rt, "burst")
		type running struct {
			id SpanID
			at int64
		}
		var open []running
		var truth, sum outcome.Counts
		now := ms
		w.poll(1)
		for range 200 {
			for range random.IntN(burst) {
				now += random.Int64N(20_000)
				if len(open) == 0 || random.IntN(2) == 0 {
					open = append(open, running{w.fakeRing.start(random.IntN(2), 1, now), now})
					truth.Starts++
					continue
				}
				i := random.IntN(len(open))
				fails := random.IntN(4) == 0
				switch {
				case now-open[i].at > dMax:
					truth.Timeouts++
				case fails:
					truth.Failures++
				default:
					truth.Successes++
				}
				if fails {
					w.fail(random.IntN(2), open[i].id, 3, 1, now)
				} else {
					w.end(random.IntN(2), open[i].id, 1, now)
				}
				open = append(open[:i], open[i+1:]...)
			}
			now += random.Int64N(3 * ms)
			if random.IntN(3) > 0 {
				w.at = now
				w.o.poll(now)
			}
			for w.s[0].Plan.At(w.next).To+100*ms < now {
				sum = sum.Add(w.collect()[0])
			}
		}
		truth.Timeouts += uint64(len(open))
		for range 10 {
			w.at = now
			sum = sum.Add(w.collect()[0])
			now += 100 * ms
		}
		lost := sum.Loss.Missed > 0
		if sum.Successes > truth.Successes || sum.Failures > truth.Failures || sum.Timeouts > truth.Timeouts || sum.Orphans != 0 ||
			!lost && sum.Instances() != truth.Starts {
			rt.Fatalf("%+v, and the truth is %+v", sum, truth)
		}
	})
}

// A hostile VM may write anything: reading it ends with an error or some counts.
func FuzzHostileRecords(f *testing.F) {
	f.Add([]byte("a seed"), uint64(300))
	f.Fuzz(func(t *testing.T, data []byte, head uint64) {
		w := newWorld(t, spec("a", 20*time.Millisecond))
		at := w.header.slots
		for i := 0; i+8 <= len(data) && at < uint64(len(w.words)); i += 8 {
			for k := range 8 {
				w.words[at] = w.words[at]<<8 | uint64(data[i+k])
			}
			at++
		}
		w.words[wordHeads] = head
		w.poll(10)
		w.collect()
		if w.o.err != nil && !errors.Is(w.o.err, ErrBroken) {
			t.Errorf("error %v", w.o.err)
		}
	})
}
