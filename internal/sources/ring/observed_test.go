package ring

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
	"github.com/beamscope/beamscope/internal/sources/ledger"
)

const ms = int64(time.Millisecond)

// A world is an observed ring with windows of 100 ms that the test collects one after the other.
type world struct {
	*fakeRing
	o    *observed
	t    testing.TB
	s    ledger.Schedule
	next uint64
	at   int64 // the present time

	kernel int64 // since when programs in the kernel count explained spans, or 0
}

type closer struct{}

func (closer) Close() error { return nil }

// texts are the texts in a world's ring, by number.
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
	if w.s, err = ledger.Schedule(nil).With(outcome.Plan{Window: 100 * time.Millisecond, Specs: specs}, 0, 0, nameOf); err != nil {
		t.Fatal(err)
	}
	w.o = newObserved(outcome.VM{PID: 7}, 0, r, closer{})
	w.o.kernel.sight = func() int64 { return w.kernel }
	w.o.open(ledger.NewBook(w.o.id, 0, intake.NewBudget(intake.MaxKept)))
	w.o.plan(w.s, control{sample: 0xffff})
	if err := w.o.begin(func() int64 { return 0 }); err != nil {
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

// poll reads the ring at a time in ms.
func (w *world) poll(at int64) {
	w.at = at * ms
	w.o.poll(w.at)
}

// countInKernel makes programs in the kernel count explained spans, and have done so for long.
func (w *world) countInKernel(on bool) {
	if on {
		w.kernel, w.o.kernel.since = longAgo, longAgo
	}
}

// collect collects the next window. It does so one window length after the window's end.
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

// want compares the counts of the first outcome in the next window with want.
func (w *world) want(want outcome.Counts) {
	w.t.Helper()
	want.Outcome, want.VM = "a", outcome.VM{PID: 7}
	if diff := cmp.Diff(want, w.collect()[0]); diff != "" {
		w.t.Errorf("window %d, -want +got:\n%s", w.next-1, diff)
	}
}

// A span ends once, in the window of its end. A second end is late.
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
	w.start(0, 2, 13*ms) // without an outcome
	w.want(outcome.Counts{Starts: 4, Ends: 4, Successes: 2, Failures: 1, Lates: 1})
	w.want(outcome.Counts{Ends: 1, Successes: 1})
}

// A span that reaches its dMax has timed out at that time, whenever it ends.
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

// If the table had no room for a span's name, the span may be an instance of any outcome whose name
// is not known. Windows in which it may be are not observed.
func TestSpansWithoutName(t *testing.T) {
	const none = maxTexts - 1
	unobserved := outcome.Counts{Unobserved: true}
	t.Run("name not known", func(t *testing.T) {
		w := newWorld(t, spec("a", 20*time.Millisecond))
		w.poll(1)
		w.start(0, 2, 10*ms) // without an outcome
		w.want(outcome.Counts{})
		s := w.start(0, none, 110*ms)
		w.end(0, s, none, 111*ms)
		w.want(unobserved)
		w.want(outcome.Counts{})
		w.start(0, none, 390*ms) // it times out in the next window
		w.want(unobserved)
		w.want(unobserved)
		w.want(outcome.Counts{})
		w.end(0, SpanID(5<<classShift|200), none, 650*ms) // it started before the ring was found
		w.want(unobserved)
		w.want(outcome.Counts{})
		if n := w.o.nameless.take(); n != 3 {
			t.Errorf("%d spans without a name", n)
		}
	})
	t.Run("name known", func(t *testing.T) {
		w := newWorld(t, spec("a", 20*time.Millisecond), spec("b", 20*time.Millisecond))
		w.poll(1)
		w.end(0, w.start(0, 1, 2*ms), 1, 3*ms)
		w.poll(10)
		w.poll(11) // names read before are in the table by then
		w.end(0, w.start(0, none, 12*ms), none, 13*ms)
		counts := w.collect()
		if a, b := counts[0], counts[1]; a.Unobserved || a.Successes != 1 || !b.Unobserved {
			t.Errorf("%+v", counts)
		}
		w.end(0, w.start(0, 2, 250*ms), 2, 251*ms)
		w.collect()
		w.end(0, w.start(0, none, 252*ms), none, 253*ms) // read together with it: b may not have been in the table yet
		if counts := w.collect(); counts[0].Unobserved || !counts[1].Unobserved {
			t.Errorf("%+v", counts)
		}
	})
	t.Run("read late", func(t *testing.T) {
		w := newWorld(t, spec("a", 20*time.Millisecond))
		w.poll(1)
		torn := w.take(0)
		w.put(0, torn, 1, uint64(start)<<kindShift|5<<classShift|noRing<<ringShift)
		w.want(outcome.Counts{})
		w.put(0, torn, 0, none<<textShift|uint64(10*ms))
		w.want(unobserved)
		w.want(outcome.Counts{})
	})
}

// A span that started before the ring was found is an orphan when it ends.
func TestOrphans(t *testing.T) {
	w := newWorld(t, spec("a", 20*time.Millisecond))
	w.end(0, SpanID(5<<classShift|200), 1, 10*ms)
	w.fail(0, SpanID(5<<classShift|100), 3, 1, 11*ms)
	w.want(outcome.Counts{Ends: 2, Orphans: 2})
}

// No span has the ID 0. An end with this ID is an orphan, whichever span has just ended.
func TestEndOfNoSpan(t *testing.T) {
	w := newWorld(t, spec("a", 20*time.Millisecond))
	w.poll(1)
	w.end(0, w.start(0, 1, 2*ms), 1, 3*ms)
	w.end(0, 0, 1, 4*ms)
	w.fail(0, 0, 3, 1, 5*ms)
	w.want(outcome.Counts{Starts: 1, Ends: 3, Successes: 1, Orphans: 2})
}

// A program that records faster than beamscope may read its ring loses records. It does not
// increase beamscope's processor time.
func TestRate(t *testing.T) {
	w := newWorld(t, spec("a", 20*time.Millisecond))
	w.o.rate, w.o.credit = 1000*(readCost+1), 100
	for at := int64(1); at <= 100; at++ { // 20 slots per millisecond, one of which may be read
		for range 10 {
			w.end(0, w.start(0, 1, at*ms), 1, at*ms)
		}
		w.poll(at)
	}
	if n := w.o.records; n != 200 || w.o.overrun.records != 2000-n {
		t.Errorf("%d of 2000 were read, %d lost", n, w.o.overrun.records)
	}
}

// Records that are overwritten before they are read never become timeouts. Spans that lost one
// or both of their records count as missed.
func TestOverrunIsNoTimeout(t *testing.T) {
	const n = 2 << minLogSlots
	w := newWorld(t, spec("a", 20*time.Millisecond))
	w.poll(1)
	before := w.start(0, 1, 2*ms)
	w.poll(3)
	w.end(0, before, 1, 4*ms) // this record is overwritten
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

// Windows in which records may have been lost are not observed, and count the loss. Windows before
// and after them lose nothing.
func TestOverrunIsMarked(t *testing.T) {
	const n = 2 << minLogSlots
	w := newWorld(t, spec("a", 20*time.Millisecond))
	w.poll(1)
	w.end(0, w.start(0, 1, 2*ms), 1, 3*ms)
	w.poll(150)
	for i := range int64(n) { // in two windows
		w.end(0, w.start(0, 1, 160*ms+i*100_000), 1, 160*ms+i*100_000+1)
	}
	w.poll(212)
	for range 10 {
		w.end(0, w.start(0, 1, 310*ms), 1, 320*ms)
	}
	w.want(outcome.Counts{Starts: 1, Ends: 1, Successes: 1})
	lost := uint64(0)
	for range 2 {
		c := w.collect()[0]
		if !c.Unobserved || c.Instances() > 0 {
			t.Errorf("window %d: %+v", w.next-1, c)
		}
		lost += c.Loss.Missed
	}
	if lost != n {
		t.Errorf("%d of %d are lost", lost, n)
	}
	if w.o.lost() == 0 {
		t.Error("no notice counts the records that were lost")
	}
	w.want(outcome.Counts{Starts: 10, Ends: 10, Successes: 10})
	w.want(outcome.Counts{})
}

// Spans that ended before the ring was found, in windows that were already collected, count as loss
// of a window that is not observed.
func TestEarlySpans(t *testing.T) {
	for _, test := range []struct {
		what        string
		early       int64
		first, then outcome.Counts
	}{
		{"some", 100, outcome.Counts{Starts: 105, Ends: 105, Loss: outcome.Loss{Missed: 105}, Unobserved: true}, outcome.Counts{Starts: 7, Ends: 7, Successes: 7}},
		{"none", 0, outcome.Counts{Starts: 5, Ends: 5, Successes: 5}, outcome.Counts{Starts: 7, Ends: 7, Successes: 7}},
	} {
		w := newWorld(t, spec("a", 20*time.Millisecond))
		for i := range w.header.rings {
			w.words[wordControl(i)] = control{sample: 0xffff, process: true}.word(firstLease - leaseUnits<<leaseShift + 1)
		}
		for i := range test.early {
			w.end(0, w.start(0, 1, 10*ms+2*i*ms), 1, 11*ms+2*i*ms)
		}
		for range 5 {
			w.end(0, w.start(0, 1, 310*ms), 1, 320*ms)
		}
		for range 7 {
			w.end(0, w.start(0, 1, 410*ms), 1, 420*ms)
		}
		r, err := open(w.fakeRing, w.address, 0, 450*ms)
		if err != nil {
			t.Fatal(err)
		}
		w.o = newObserved(outcome.VM{PID: 7}, 0, r, closer{})
		w.o.kernel.sight = func() int64 { return w.kernel }
		if err := w.o.begin(func() int64 { return 450 * ms }); err != nil {
			t.Fatal(err)
		}
		w.o.open(ledger.NewBook(w.o.id, 300*ms, intake.NewBudget(intake.MaxKept)))
		w.o.plan(w.s, control{sample: 0xffff})
		w.next = 3
		t.Log(test.what)
		w.want(test.first)
		w.want(test.then)
		w.want(outcome.Counts{})
	}
}

// A record that takes long to write delays the timeouts of spans, because it may be an end. It does
// not delay windows. The end that it contains comes too late for its window.
func TestSlowWriter(t *testing.T) {
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

// A writer that was killed within a record never completes it.
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

// Spans were not recorded while the lease was not renewed.
func TestSilenceIsNotObserved(t *testing.T) {
	w := newWorld(t, spec("a", 20*time.Millisecond))
	w.o.reader.header.birth = -firstLease // the lease with which the ring was made has ended
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
		case c.Unobserved && from >= 300: // the lease was last written at 300 ms
		default:
			t.Errorf("window at %d ms: unobserved %v", from, c.Unobserved)
		}
		blind = blind || c.Unobserved
	}
}

// Explained spans count here, unless programs in the kernel count them.
func TestExplainedSpansCountOnce(t *testing.T) {
	for kernel, want := range map[bool]outcome.Counts{
		false: {Starts: 3, Ends: 4, Lates: 2, Successes: 2, Timeouts: 1},
		true:  {Starts: 1, Ends: 2, Lates: 1, Successes: 1},
	} {
		w := newWorld(t, spec("a", 20*time.Millisecond))
		w.countInKernel(kernel)
		both := w.startExplained(0, 1, 10*ms)
		open := w.startExplained(0, 1, 11*ms)
		plain := w.start(1, 1, 12*ms)
		w.end(1, plain, 1, 13*ms)
		w.end(1, plain, 1, 14*ms) // counts as late in any case
		w.endExplained(1, both, 1, 15*ms)
		w.poll(20)
		w.endExplained(1, open, 1, 40*ms) // after its timeout
		got := w.collect()[0]
		want.Outcome, want.VM, got.Bins = got.Outcome, got.VM, nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("programs in the kernel %v, -want +got:\n%s", kernel, diff)
		}
	}
}

// If the start of an explained span was overwritten, its end shows which record was lost. Programs in
// the kernel have counted the span.
func TestLostStartOfExplainedSpan(t *testing.T) {
	for kernel, want := range map[bool]uint64{false: 129, true: 128} { // the others may have lost both records
		w := newWorld(t, spec("a", time.Second))
		w.countInKernel(kernel)
		first := w.startExplained(0, 1, 5*ms)
		for i := range int64(1 << minLogSlots / 2) {
			w.end(0, w.start(0, 1, 10*ms+2*i), 1, 10*ms+2*i+1)
		}
		w.endExplained(1, first, 1, 15*ms)
		w.poll(20)
		if missed := w.collect()[0].Loss.Missed; missed != want {
			t.Errorf("programs in the kernel %v: %d missed, want %d", kernel, missed, want)
		}
	}
}

// If programs in the kernel count all spans, a ring that overflows loses none of them.
func TestOverrunOfExplainedSpans(t *testing.T) {
	for _, all := range []bool{true, false} {
		w := newWorld(t, spec("a", time.Second))
		w.countInKernel(true)
		c := control{sample: 0xffff}
		if all {
			c.explain = 0xffff
		}
		w.o.plan(w.s, c)
		for range 6 { // the request is found in the second half of this time
			w.collect()
		}
		at := int64(w.next+1) * 100
		for range 1 << minLogSlots {
			w.endExplained(0, w.startExplained(0, 1, at*ms), 1, (at+1)*ms)
		}
		w.poll(at + 10)
		blind := false
		for range 3 {
			got := w.collect()[0]
			blind = blind || got.Unobserved
			if all && (got.Loss.Total() != 0 || got.Starts+got.Ends != 0) {
				t.Errorf("all are explained: %+v", got)
			}
		}
		if blind == all {
			t.Errorf("all are explained %v: not observed %v", all, blind)
		}
		if w.o.lost() == 0 {
			t.Error("no record was lost")
		}
	}
}

// If the ring is new, spans are counted from the first one on. A window in which records were
// overwritten before they were read is not observed, and neither is one before the ring was found if
// spans are explained.
func TestNewRing(t *testing.T) {
	for _, test := range []struct {
		what    string
		spans   int
		found   int64 // ms between the creation of the ring and its discovery
		explain uint16
		want    outcome.Counts
	}{
		{"lease taken back", 100, 150, 0, outcome.Counts{}},
		{"new", 100, 150, 0, outcome.Counts{Starts: 100, Ends: 100, Successes: 100}},
		{"two laps", 1 << minLogSlots, 150, 0, outcome.Counts{Starts: 128, Ends: 128, Loss: outcome.Loss{Missed: 256}, Unobserved: true}},
		{"old", 100, firstLease/ms + 1, 0, outcome.Counts{}},
		{"another collector explains", 100, 150, 0, outcome.Counts{Starts: 100, Ends: 100, Loss: outcome.Loss{Missed: 100}, Unobserved: true}},
		{"spans should have been explained", 100, 150, 0xffff, outcome.Counts{Starts: 100, Ends: 100, Loss: outcome.Loss{Missed: 100}, Unobserved: true}},
	} {
		ring := newFakeRing(1, minLogSlots)
		ring.text(1, "a")
		ring.words[wordControl(0)] = control{sample: 0xffff, process: true}.word(firstLease - leaseUnits<<leaseShift + 1)
		switch test.what {
		case "lease taken back":
			ring.words[wordControl(0)] = 0
		case "another collector explains":
			ring.words[wordControl(0)] |= 1 << explainShift
		}
		for i := range int64(test.spans) {
			s := ring.start(0, 1, 10*ms+2*i)
			ring.end(0, s, 1, 10*ms+2*i+1)
		}
		now := test.found * ms
		r, err := open(ring, ring.address, 0, now)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ledger.Schedule(nil).With(outcome.Plan{Window: 100 * time.Millisecond, Specs: []outcome.Spec{spec("a", time.Second)}}, 0, 0, nameOf)
		if err != nil {
			t.Fatal(err)
		}
		o := newObserved(outcome.VM{PID: 7}, 0, r, closer{})
		o.open(ledger.NewBook(o.id, 0, intake.NewBudget(intake.MaxKept)))
		o.plan(s, control{sample: 0xffff, explain: test.explain})
		if err := o.begin(func() int64 { return now }); err != nil {
			t.Fatal(err)
		}
		o.poll(now)
		lost := o.lost()
		got := o.collect(&s[0], s[0].Plan.At(0))[0].Counts
		isNew := test.want.Starts > 0
		if got.Bins = nil; !isNew {
			test.want.Unobserved = true
		}
		test.want.Outcome, test.want.VM = "a", o.id
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s, -want +got:\n%s", test.what, diff)
		}
		if isNew && lost+got.Ends+got.Starts != uint64(2*test.spans) {
			t.Errorf("%s: %d records lost", test.what, lost)
		}
	}
}

// If the memory is gone, reading ends: open spans are lost, and later windows are not observed.
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

// If the process has ended, its open spans are cut at once. The windows since the last read are not
// observed, and nothing follows them. Spans that had timed out before have timed out.
func TestEndedProcess(t *testing.T) {
	w := newWorld(t, spec("a", 100*time.Millisecond))
	w.start(0, 1, 10*ms)
	w.start(0, 1, 70*ms)
	w.poll(80)
	w.start(0, 1, 190*ms)
	w.poll(195)
	w.o.reader.memory = noProcess{}
	w.poll(205)
	w.want(outcome.Counts{Starts: 2})
	if w.o.stopped() {
		t.Error("stopped before its end")
	}
	w.want(outcome.Counts{Starts: 1, Loss: outcome.Loss{Missed: 2, Cut: 1}, Unobserved: true})
	w.want(outcome.Counts{Unobserved: true})
	if !w.o.stopped() {
		t.Error("not stopped")
	}
}

type noProcess struct{ nothing }

func (noProcess) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// If spans of a new ring are explained, those that started before the first lease count too: they end, or
// time out. If this collector has them explained, one that would time out is lost, because programs in
// the kernel may know another end. If the ring is not new, windows are not observed until dMax.
func TestSpansBeforeFirstLease(t *testing.T) {
	const found = 150
	for _, test := range []struct {
		what       string
		own, other bool // has spans explained
		late       bool // the first lease has expired
		seen       bool // by programs in the kernel
		want       []outcome.Counts
	}{
		{what: "another collector explains", other: true, want: []outcome.Counts{
			{Starts: 3, Ends: 1, Loss: outcome.Loss{Missed: 1}, Unobserved: true}, {Ends: 1, Unobserved: true, Loss: outcome.Loss{Missed: 1}}, {Timeouts: 1}, {}, {},
		}},
		{what: "another collector explains, and programs may have seen it", other: true, seen: true, want: []outcome.Counts{
			{Starts: 3, Ends: 1, Loss: outcome.Loss{Missed: 1}, Unobserved: true}, {Ends: 1, Unobserved: true, Loss: outcome.Loss{Missed: 1}}, {Loss: outcome.Loss{Missed: 1}, Unobserved: true}, {Unobserved: true}, {},
		}},
		{what: "this one explains", own: true, want: []outcome.Counts{
			{Starts: 3, Ends: 1, Loss: outcome.Loss{Missed: 1}, Unobserved: true}, {Ends: 1, Unobserved: true, Loss: outcome.Loss{Missed: 1}}, {Loss: outcome.Loss{Missed: 1}}, {}, {},
		}},
		{what: "late", late: true, want: []outcome.Counts{
			{Unobserved: true}, {Ends: 1, Orphans: 1, Unobserved: true}, {Unobserved: true}, {Unobserved: true}, {},
		}},
	} {
		w := newWorld(t, spec("a", 200*time.Millisecond))
		w.words[wordControl(0)] = control{sample: 0xffff}.word(firstLease - leaseUnits<<leaseShift + 1)
		w.words[wordControl(1)] = w.words[wordControl(0)]
		if test.other {
			w.words[wordControl(0)] |= 1 << explainShift
		}
		if test.late {
			w.words[wordControl(0)] = 0
		}
		w.end(0, w.start(0, 1, 10*ms), 1, 20*ms)
		s := w.start(0, 1, 30*ms)
		w.start(0, 1, 40*ms)
		if test.seen {
			w.countInKernel(true)
			w.startExplained(0, 1, 50*ms)
		}
		r, err := open(w.fakeRing, w.address, 0, found*ms)
		if err != nil {
			t.Fatal(err)
		}
		o := newObserved(w.o.id, 0, r, closer{})
		o.kernel = w.o.kernel
		o.control = control{sample: 0xffff}
		if test.own {
			o.control.explain = 0xffff
		}
		if err := o.begin(func() int64 { return found * ms }); err != nil {
			t.Fatal(err)
		}
		o.open(ledger.NewBook(o.id, 0, intake.NewBudget(intake.MaxKept)))
		o.plan(w.s, o.control)
		o.miss()
		w.o = o
		w.poll(found + 1)
		w.end(0, s, 1, 160*ms)
		w.poll(found + 20)
		t.Log(test.what)
		for _, want := range test.want {
			w.want(want)
		}
	}
}

type nothing struct{}

func (nothing) ReadAt([]byte, int64) (int, error)  { return 0, io.ErrUnexpectedEOF }
func (nothing) WriteAt([]byte, int64) (int, error) { return 0, io.ErrUnexpectedEOF }

// A change of dMax truncates open spans. An added outcome includes spans that are already open.
func TestPlanChanges(t *testing.T) {
	w := newWorld(t, spec("a", 50*time.Millisecond))
	w.poll(1)
	cut, other := w.start(0, 1, 80*ms), w.start(0, 2, 80*ms)
	w.poll(85)
	next, err := w.s.With(outcome.Plan{From: 100 * ms, Window: 100 * time.Millisecond, Specs: []outcome.Spec{spec("a", 40*time.Millisecond), spec("b", 50*time.Millisecond)}}, 0, 0, nameOf)
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

// In any order of records, each span is counted once and correctly. If records are lost, nothing is
// counted wrongly, and the counts and the loss together include every span. Spans that never end
// are an exception: each looks as if it had lost its end, which counts as half a span.
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
			!lost && sum.Instances() != truth.Starts || sum.Instances()+sum.Loss.Total()+uint64(len(open)+1)/2 < truth.Starts {
			rt.Fatalf("%+v, and the truth is %+v", sum, truth)
		}
	})
}

// Quick counting of usual instances gives the same counts in each window and leaves the same spans open,
// even if the plan changes, windows are collected late, spans end twice, or records are lost.
func TestQuickCountsAreTheSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ring := newFakeRing(2, minLogSlots)
		for number, text := range texts {
			ring.text(uint16(number), text)
		}
		quick, slow := observing(t, ring, outcome.CountsOnly), observing(t, ring, outcome.Worst)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		change := rapid.Int64Range(0, 10).Draw(rt, "window in which dMax changes")
		burst := rapid.SampledFrom([]int{5, 50, 400}).Draw(rt, "burst")
		var open []SpanID
		now := ms
		for next := uint64(0); next < 12; {
			for range random.IntN(burst) {
				now += random.Int64N(100_000)
				text := uint16(1 + random.IntN(2))
				if len(open) == 0 || random.IntN(2) == 0 {
					var id SpanID
					switch n := len(open); random.IntN(4) {
					case 0:
						id = ring.startOf(random.IntN(2), text, now, uint64(now))
					case min(1, n):
						id = ring.child(random.IntN(2), open[n-1], text, now)
					default:
						id = ring.start(random.IntN(2), text, now)
					}
					open = append(open, id)
					continue
				}
				if random.IntN(40) == 0 {
					ring.end(random.IntN(2), 0, text, now) // of no span
				}
				i := len(open) - 1 - random.IntN(min(4, len(open)))
				if random.IntN(8) == 0 {
					ring.fail(random.IntN(2), open[i], 3, text, now)
				} else {
					ring.end(random.IntN(2), open[i], text, now-random.Int64N(ms)) // some of them before their start
				}
				if random.IntN(20) != 0 { // the others may end again
					open = append(open[:i], open[i+1:]...)
				}
			}
			now += random.Int64N(10 * ms)
			for _, o := range []*planned{quick, slow} {
				o.o.poll(now)
				if o.o.book.Next() == change*100*ms {
					o.change(t, change*100*ms+200*ms)
				}
			}
			if got, want := quick.o.pairer.open(), slow.o.pairer.open(); !cmp.Equal(got, want, cmp.AllowUnexported(span{})) {
				rt.Fatalf("open spans at %d ms: -slow +quick:\n%s", now/ms, cmp.Diff(want, got, cmp.AllowUnexported(span{})))
			}
			for ; (int64(next)+2)*100*ms < now; next++ {
				if got, want := quick.collect(next), slow.collect(next); !cmp.Equal(got, want) {
					rt.Fatalf("window %d: -slow +quick:\n%s", next, cmp.Diff(want, got))
				}
			}
		}
	})
}

// A quickly counted record is complete, and belongs to a span that is open.
func TestQuickNeedsWholeRecords(t *testing.T) {
	w := newWorld(t, spec("a", 50*time.Millisecond))
	for range 1 << (minLogSlots - 1) { // the next records have the slots of these
		w.end(0, w.start(0, 1, ms), 1, ms)
	}
	w.poll(1)
	w.start(0, 1, ms)
	w.poll(1) // a place in the table, and the row counts quickly
	words := []uint64{1<<textShift | uint64(2*ms), uint64(start)<<kindShift | 5<<classShift | noRing<<ringShift}
	for i, order := range [][]int{{0, 1}, {1, 0}} {
		slot := w.take(0)
		w.put(0, slot, order[0], words[order[0]])
		w.poll(3)
		if open := w.o.pairer.open(); len(open) != i+1 {
			t.Errorf("words in the order %v: after the first, %v are open", order, open)
		}
		w.put(0, slot, order[1], words[order[1]])
		w.poll(4)
		if s := w.o.pairer.open()[SpanID(5<<classShift|slot)]; s.start != 2*ms {
			t.Errorf("words in the order %v: the span started at %d", order, s.start)
		}
	}
	for _, ring := range []uint64{2, 254} {
		w.end(0, SpanID(5<<classShift|ring<<ringShift|300), 1, 5*ms)
	}
	w.poll(5)
	const pairs = 1 << (minLogSlots - 1)
	w.want(outcome.Counts{Starts: pairs + 3, Ends: pairs + 2, Successes: pairs, Orphans: 2, Timeouts: 3})
}

// A quickly counted span times out before older ones that may last longer.
func TestQuickSpanTimesOut(t *testing.T) {
	w := newWorld(t, spec("a", 20*time.Millisecond), spec("b", 10*time.Second))
	w.start(1, 2, ms)
	w.poll(10)
	w.want(outcome.Counts{})
	w.end(0, w.start(0, 1, 310*ms), 1, 311*ms) // from now on the row counts quickly
	w.start(1, 1, 312*ms)
	w.poll(315)
	w.want(outcome.Counts{})
	w.want(outcome.Counts{})
	w.want(outcome.Counts{Starts: 2, Ends: 1, Successes: 1, Timeouts: 1})
}

// open returns the open spans.
func (p *pairer) open() map[SpanID]span {
	open := maps.Clone(p.old)
	for _, t := range p.recent {
		for _, s := range t.places {
			if s.id != 0 {
				open[s.id] = s
			}
		}
	}
	return open
}

// A planned observes a ring with a plan that can change.
type planned struct {
	o      *observed
	s      ledger.Schedule
	detail outcome.Detail
}

func observing(t testing.TB, ring *fakeRing, detail outcome.Detail) *planned {
	t.Helper()
	p := &planned{o: newObserved(outcome.VM{PID: 7}, 0, ring.open(t), closer{}), detail: detail}
	p.o.open(ledger.NewBook(p.o.id, 0, intake.NewBudget(intake.MaxKept)))
	p.plan(t, 0, 20*time.Millisecond)
	return p
}

// change changes dMax at a time.
func (p *planned) change(t testing.TB, from int64) {
	t.Helper()
	if len(p.s) == 1 {
		p.plan(t, from, 30*time.Millisecond)
	}
}

func (p *planned) plan(t testing.TB, from int64, dMax time.Duration) {
	t.Helper()
	a, b := spec("a", dMax), spec("b", 40*time.Millisecond)
	a.Detail, b.Detail = p.detail, p.detail
	s, err := p.s.With(outcome.Plan{From: from, Window: 100 * time.Millisecond, Specs: []outcome.Spec{a, b}}, 0, 0, nameOf)
	if err != nil {
		t.Fatal(err)
	}
	p.o.book.Replan(s, from)
	p.o.plan(s, control{sample: 0xffff})
	p.s = s
}

func (p *planned) collect(window uint64) []outcome.Counts {
	from := int64(window) * 100 * ms
	e := &p.s.Since(from)[0]
	var counts []outcome.Counts
	for _, c := range p.o.collect(e, e.Plan.At(e.Plan.Number(from))) {
		counts = append(counts, c.Counts)
	}
	return counts
}

// A hostile VM may write anything. Reading it returns an error or some counts.
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

// If the table had no room for a failure's class, the instance says so.
func TestFailuresWithoutRoomForTheirClass(t *testing.T) {
	const none = maxTexts - 1
	a := spec("a", 20*time.Millisecond)
	a.Detail = outcome.Everything
	w := newWorld(t, a)
	w.poll(1)
	for i, class := range []uint16{0, 3, none, none} {
		at := int64(i+2) * ms
		w.fail(0, w.start(0, 1, at), class, 1, at+ms)
	}
	w.poll(200)
	cells := w.o.collect(&w.s[0], w.s[0].Plan.At(0))
	var classes []string
	for _, i := range cells[0].Kept {
		classes = append(classes, i.Class)
	}
	if diff := cmp.Diff([]string{"", "oops", noClass, noClass}, classes); diff != "" {
		t.Errorf("classes, -want +got:\n%s", diff)
	}
	for _, want := range []uint64{2, 0} {
		if n := w.o.takeUnclassed(); n != want {
			t.Errorf("%d failures without room for their class, want %d", n, want)
		}
	}
}
