package ring

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/ledger"
	"github.com/beamscope/beamscope/usdt"
)

// collect returns the new records, and the number of lost records.
func collect(t testing.TB, r *reader, now int64) ([]record, uint64) {
	t.Helper()
	var all []record
	lost, err := r.records(now, math.MaxUint64, func(*batch) {}, func(rec *record) { all = append(all, *rec) })
	if err != nil {
		t.Fatal(err)
	}
	return all, lost
}

// holding reports whether there are incomplete slots.
func holding(r *reader) bool {
	for _, p := range r.parts {
		if len(p.holes) > 0 {
			return true
		}
	}
	return false
}

func TestRecords(t *testing.T) {
	ring := newFakeRing(2, minLogSlots)
	r := ring.open(t)
	a := ring.startOf(0, 3, 100, 42)
	b := ring.start(1, 4, 150)
	ring.end(1, a, 3, 200)
	ring.fail(1, b, 9, 4, 201)
	ring.fail(1, b, 0, 4, 202)
	got, lost := collect(t, r, 1000)
	want := []record{
		{kind: start, name: 3, time: 100, span: a, process: 42},
		{kind: start, name: 4, time: 150, span: b},
		{kind: success, name: 3, time: 200, span: a},
		{kind: failure, name: 4, time: 201, span: b, class: 9},
		{kind: failure, name: 4, time: 202, span: b},
	}
	if lost != 0 || len(got) != len(want) {
		t.Fatalf("%+v, lost %d", got, lost)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("record %d: %+v, want %+v", i, got[i], want[i])
		}
	}
	if a.Class() != 5 || a.ring() != 0 || b.ring() != 1 {
		t.Errorf("spans %x, %x", a, b)
	}
}

// A reader skips the records from before it opened the ring.
func TestAttachedLater(t *testing.T) {
	ring := newFakeRing(1, minLogSlots)
	ring.start(0, 1, 1)
	r := ring.open(t)
	s := ring.start(0, 2, 2)
	if got, lost := collect(t, r, 10); len(got) != 1 || got[0].span != s || lost != 0 {
		t.Errorf("%+v, lost %d", got, lost)
	}
}

// A record is read when it is complete, in whatever order its words are written.
func TestUnfinishedRecord(t *testing.T) {
	for _, order := range [][]int{{0, 1, extension}, {extension, 1, 0}, {1, 0, extension}} {
		ring := newFakeRing(1, minLogSlots)
		r := ring.open(t)
		slot := ring.take(0)
		values := []uint64{1<<textShift | 5, uint64(start)<<kindShift | extended | noRing<<ringShift, 9}
		for i, word := range order {
			if got, lost := collect(t, r, 10); len(got) != 0 || lost != 0 || i > 0 && !holding(r) {
				t.Errorf("%v, before word %d: %+v, lost %d", order, i, got, lost)
			}
			if r.fate(SpanID(slot)) != toCome {
				t.Errorf("%v: the incomplete start is not held", order)
			}
			ring.put(0, slot, word, values[word])
		}
		got, lost := collect(t, r, 10)
		if len(got) != 1 || lost != 0 || holding(r) || r.fate(SpanID(slot)) != seen {
			t.Errorf("%v: %+v, lost %d", order, got, lost)
		}
	}
}

// A writer that is suspended within a record and continues one lap later corrupts the slot of
// another record. That record is lost and counted. No record has words from both.
func TestWriterALapLate(t *testing.T) {
	ring := newFakeRing(1, minLogSlots)
	r := ring.open(t)
	slow := ring.take(0)
	ring.put(0, slow, 0, 1<<textShift|5)
	var seen, lost uint64
	step := func() {
		got, gone := collect(t, r, 10)
		for _, rec := range got {
			if rec.name != 2 {
				t.Errorf("%+v", rec)
			}
		}
		seen, lost = seen+uint64(len(got)), lost+gone
	}
	step()
	for range 1 << minLogSlots {
		ring.start(0, 2, 6)
		step()
	}
	ring.put(0, slow, 1, uint64(start)<<kindShift|noRing<<ringShift)
	step()
	if seen != 1<<minLogSlots || lost != 1 {
		t.Errorf("seen %d, lost %d", seen, lost)
	}
}

// Whatever writers do, the seen and the lost records together are all records.
func TestSeenAndLostAreAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ring := newFakeRing(rapid.IntRange(1, 3).Draw(t, "rings"), minLogSlots)
		r, err := open(ring, ring.address, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		type writing struct {
			ring int
			slot uint64
			word int
		}
		var under []writing
		fired, seen, lost := uint64(0), uint64(0), uint64(0)
		read := func() {
			gone, err := r.records(1<<39, math.MaxUint64, func(*batch) {}, func(rec *record) {
				seen++
				if slot := rec.span.slot(); rec.time != int64(slot) || slot%2 == 1 && rec.process != 0 || slot%2 == 0 && rec.process != slot {
					t.Fatalf("words of two records: %+v", rec)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			lost += gone
		}
		advance := func(w *writing) bool {
			const kind = uint64(start)<<kindShift | noRing<<ringShift
			values := map[int]uint64{0: 1<<textShift | w.slot, 1: kind | extended, extension: w.slot}
			if w.slot%2 == 1 { // without an extension
				values[1] = kind
				delete(values, extension)
			}
			w.word++
			order := []int{extension, 0, 1}[3-len(values):]
			ring.put(w.ring, w.slot, order[w.word-1], values[order[w.word-1]])
			return w.word == len(order)
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				n := rapid.IntRange(0, ring.header.rings-1).Draw(t, "ring")
				under = append(under, writing{ring: n, slot: ring.take(n)})
				fired++
			case 1:
				if len(under) > 0 {
					i := rapid.IntRange(0, len(under)-1).Draw(t, "writer")
					if advance(&under[i]) {
						under = append(under[:i], under[i+1:]...)
					}
				}
			case 2:
				for range rapid.IntRange(1, 300).Draw(t, "burst") {
					w := writing{ring: 0, slot: ring.take(0)}
					for !advance(&w) {
					}
					fired++
				}
			default:
				read()
			}
		}
		for i := range under {
			for !advance(&under[i]) {
			}
		}
		read()
		// The reader detects that a late writer has overwritten a record only when the slot is
		// reused in the next lap.
		for n := range ring.header.rings {
			for range 2 << minLogSlots {
				w := writing{ring: n, slot: ring.take(n)}
				for !advance(&w) {
				}
				fired++
				read()
			}
		}
		if seen+lost != fired || holding(r) {
			t.Fatalf("seen %d and lost %d of %d", seen, lost, fired)
		}
	})
}

// Several writers and an occasional reader run concurrently.
func TestConcurrentWriters(t *testing.T) {
	const each = 20000
	ring := newFakeRing(2, 10)
	r := ring.open(t)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for range each {
				s := ring.start(w%2, 1, 1)
				ring.end((w+1)%2, s, 1, 2)
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	var seen, lost uint64
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		got, gone := collect(t, r, 10)
		seen, lost = seen+uint64(len(got)), lost+gone
	}
	if got, gone := collect(t, r, 10); seen+lost+uint64(len(got))+gone != 4*each*2 {
		t.Errorf("seen %d, lost %d of %d", seen, lost, 4*each*2)
	}
	t.Logf("seen %d, lost %d", seen, lost)
}

func TestHostileRing(t *testing.T) {
	for _, test := range []struct {
		what   string
		change func(*fakeRing)
	}{
		{"another version", func(r *fakeRing) { r.words[wordVersion] = 9 }},
		{"not ready", func(r *fakeRing) { r.words[wordReady] = 0 }},
		{"no rings", func(r *fakeRing) { r.words[wordRings] = 0 }},
		{"256 rings", func(r *fakeRing) { r.words[wordRings] = 256 }},
		{"2^60 slots", func(r *fakeRing) { r.words[wordLogSlots] = 60 }},
		{"slots elsewhere", func(r *fakeRing) { r.words[wordSlots] += 1 << 40 }},
		{"texts elsewhere", func(r *fakeRing) { r.words[wordTexts] -= 64 }},
		{"other length", func(r *fakeRing) { r.words[wordWords]++ }},
		{"extensions elsewhere", func(r *fakeRing) { r.words[wordExtensions]-- }},
		{"another version", func(r *fakeRing) { r.words[1]--; r.words[wordVersion]-- }},
		{"half another version", func(r *fakeRing) { r.words[1]-- }},
		{"another clock", func(r *fakeRing) { r.words[wordUnit] = 1000 }},
		{"process 0", func(r *fakeRing) { r.words[wordPID] = 0 }},
		{"a head before its beginning", func(r *fakeRing) { r.words[wordHeads] = 3 }},
		{"a head of 2^63", func(r *fakeRing) { r.words[wordHeads] = 1 << 63 }},
	} {
		ring := newFakeRing(1, minLogSlots)
		test.change(ring)
		if _, err := open(ring, ring.address, 0, 0); !errors.Is(err, ErrLayout) {
			t.Errorf("%s: error %v", test.what, err)
		}
	}
	for _, test := range []struct {
		what   string
		change func(*fakeRing)
	}{
		{"a head that goes back", func(r *fakeRing) { r.words[wordHeads] -= 10 }},
		{"a head of 2^60", func(r *fakeRing) { r.words[wordHeads] = 1 << 60 }},
		{"another beginning", func(r *fakeRing) { r.words[0] = 0 }},
	} {
		ring := newFakeRing(1, minLogSlots)
		r := ring.open(t)
		test.change(ring)
		if _, err := r.records(1, math.MaxUint64, func(*batch) {}, func(*record) {}); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: error %v", test.what, err)
		}
	}
}

// A ring with slots that are taken and never written takes bounded time and memory.
func TestSlotsThatAreNeverWritten(t *testing.T) {
	ring := newFakeRing(1, minLogSlots+4)
	r := ring.open(t)
	for _, n := range []uint64{10 << 20, 10<<20 + 1<<(minLogSlots+4)} { // in the second case, empty slots do not seem to be of the current lap
		ring.words[wordHeads] += n
		if got, lost := collect(t, r, 1); len(got) != 0 || lost+uint64(len(r.parts[0].holes)) != n || len(r.parts[0].holes) > maxHoles {
			t.Errorf("%d records, lost %d, %d holes", len(got), lost, len(r.parts[0].holes))
		}
	}
}

// A ring in which only the heads move is refused: no program leaves that many incomplete records.
func TestOnlyHeadsMove(t *testing.T) {
	ring := newFakeRing(1, 16)
	r := ring.open(t)
	ring.words[wordHeads] += 1 << 16
	if _, err := r.records(1, math.MaxUint64, func(*batch) {}, func(*record) {}); !errors.Is(err, ErrBroken) || cap(r.parts[0].holes) > 2*maxTorn {
		t.Errorf("%v, room for %d", err, cap(r.parts[0].holes))
	}
}

// Nothing is written at a place that contains no control word.
func TestNoControlWord(t *testing.T) {
	ring := newFakeRing(1, minLogSlots)
	r := ring.open(t)
	path := binary.LittleEndian.Uint64([]byte("@CONV_PA"))
	ring.words[wordControl(0)] = path
	if _, err := r.renew(&lease{}, control{sample: 0xffff}, 1); !errors.Is(err, ErrBroken) || ring.words[wordControl(0)] != path {
		t.Errorf("%v; %#x was %#x", err, ring.words[wordControl(0)], path)
	}
}

func TestContain(t *testing.T) {
	ranges := []usdt.Range{{Start: 10, End: 20}, {Start: 20, End: 30}, {Start: 31, End: 40}}
	for _, test := range []struct {
		address, size uint64
		want          bool
	}{{10, 20, true}, {12, 18, true}, {12, 19, false}, {9, 1, false}, {30, 1, false}, {31, 9, true}, {31, 10, false}, {39, math.MaxUint64, false}} {
		if got := contain(ranges, test.address, test.size); got != test.want {
			t.Errorf("%d bytes from %d on: %v", test.size, test.address, got)
		}
	}
}

func TestWiden(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.Int64Range(1<<41, 1<<58).Draw(t, "now")
		at := now + rapid.Int64Range(-1<<39+1, 1<<39).Draw(t, "at")
		if got := widen(at&timeMask, now); got != at {
			t.Fatalf("widen(%d, %d) = %d, want %d", at&timeMask, now, got, at)
		}
	})
}

// A ring of an older application is refused, and the error says so.
func TestAnotherVersion(t *testing.T) {
	ring := newFakeRing(1, minLogSlots)
	ring.words[1]-- // "ring-02"
	ring.words[wordVersion] = 2
	const want = "it is of version 2, and this beamscope reads version 5"
	if _, err := open(ring, ring.address, 0, 0); !errors.Is(err, ErrLayout) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// The processes of spans are requested only for single instances.
func TestNeedsProcess(t *testing.T) {
	for detail, want := range map[outcome.Detail]bool{outcome.CountsOnly: false, outcome.Worst: true, outcome.Everything: true} {
		s := Source{schedule: ledger.Schedule{{Plan: outcome.Plan{Specs: []outcome.Spec{{Span: "a"}, {Span: "b", Detail: detail}}}}}}
		if got := s.control(); got.process != want {
			t.Errorf("detail %v: %+v", detail, got)
		}
	}
}

func TestLease(t *testing.T) {
	ring := newFakeRing(1, minLogSlots)
	r, other := ring.open(t), ring.open(t)
	var mine, theirs lease
	const second = int64(1e9)
	renew := func(r *reader, l *lease, c control, now int64, want bool) {
		t.Helper()
		since, err := r.renew(l, c, now)
		if err != nil || since != want {
			t.Fatalf("%v, error %v; want %v", since, err, want)
		}
	}
	word := func() control {
		w := ring.words[wordControl(0)]
		return control{sample: uint16(w >> sampleShift), explain: uint16(w >> explainShift), process: w&withProcess != 0}
	}
	renew(r, &mine, control{sample: 0xff}, 10*second, false)
	if got := word(); got != (control{sample: 0xff}) {
		t.Errorf("%+v", got)
	}
	// Another collector's requests are kept, and end with its lease.
	renew(other, &theirs, control{sample: 0xff00, explain: 1, process: true}, 10*second+1, false)
	renew(r, &mine, control{sample: 0xff}, 10*second+second/4, false)
	if got := word(); got != (control{sample: 0xffff, explain: 1, process: true}) {
		t.Errorf("%+v", got)
	}
	renew(r, &mine, control{sample: 0xff}, 10*second+second/2, false)
	renew(r, &mine, control{sample: 0xff}, 10*second+3*second/4, false)
	if got := word(); got != (control{sample: 0xff}) {
		t.Errorf("after the other one has gone: %+v", got)
	}
	// A collector does not shorten the lease with which a ring was made.
	r.header.birth = 11 * second
	first := control{sample: 0xffff, process: true}.word(11*second+firstLease) - leaseUnits
	ring.words[wordControl(0)] = first
	renew(r, &mine, control{sample: 0xff}, 11*second, false)
	if got := ring.words[wordControl(0)] & leaseMask; got != first&leaseMask+1 { // one more, because this is not its word
		t.Errorf("the lease ends at %d, first at %d", got, first&leaseMask)
	}
	r.header.birth = 1
	ring.words[wordControl(0)] = mine.written[0]&^leaseMask | control{}.word(11*second)
	mine = lease{written: []uint64{ring.words[wordControl(0)]}, until: 12 * second}
	// Spans may not have been recorded if a lease has expired or was revoked.
	renew(r, &mine, control{sample: 0xff}, 13*second, true)
	ring.words[wordControl(0)] = 0
	renew(r, &mine, control{sample: 0xff}, 13*second+1, true)
}

// A requester is a collector that renews its lease, and what it requests.
type requester struct {
	r *reader
	l lease
	c control
}

func (q *requester) renew(t *testing.T, now int64) {
	t.Helper()
	if _, err := q.r.renew(&q.l, q.c, now); err != nil {
		t.Fatal(err)
	}
}

// However close in time several collectors renew their leases, the requests of all stay in force. A
// withdrawn request ends soon, and so do those of a collector that has ended.
func TestRequestsOfSeveralCollectors(t *testing.T) {
	const second = int64(1e9)
	for _, apart := range []int64{1, 1e6, 60e6, 125e6, 249e6} {
		ring := newFakeRing(1, minLogSlots)
		explains := func() bool { return uint16(ring.words[wordControl(0)]>>explainShift) != 0 }
		one, two, three := &requester{r: ring.open(t)}, &requester{r: ring.open(t)}, &requester{r: ring.open(t)}
		one.c, two.c, three.c = control{sample: 0xffff, explain: 0xffff}, control{sample: 0xffff, explain: 0xffff}, control{sample: 0xffff}
		now := 10 * second
		round := func(times int, all ...*requester) (explained int) {
			for range times {
				for i, q := range all {
					q.renew(t, now+int64(i)*apart/int64(len(all)))
					if explains() {
						explained++
					}
				}
				now += renewal
			}
			return explained
		}
		if n := round(100, one, three); n != 200 {
			t.Errorf("%d ns apart: explained after %d of 200 renewals, though one requests that", apart, n)
		}
		round(1, one, two)
		two.c.explain = 0 // one still explains
		if n := round(100, one, two); n < 190 {
			t.Errorf("%d ns apart: explained after %d of 200 renewals, though one still requests that", apart, n)
		}
		one.c.explain = 0
		round(3, one, two)
		if n := round(100, one, two); n != 0 {
			t.Errorf("%d ns apart: explained after %d renewals, though nobody requests that any more", apart, n)
		}
		one.c.explain = 0xffff
		round(10, one, two, three)
		round(reviewPeriod/int(renewal)+2, two, three) // the first one has ended
		if n := round(100, two, three); n != 0 {
			t.Errorf("%d ns apart: explained after %d renewals, though the collector that requested that has ended", apart, n)
		}
	}
}

// However many collectors renew their leases, and whenever they attach, recording stops soon after
// all of them have ended. The first lease of a ring is not shortened meanwhile.
func TestLeaseOfSeveralCollectors(t *testing.T) {
	const second = int64(1e9)
	for n := 1; n <= 4; n++ {
		for _, apart := range []int64{1, 1e6, 60e6, 125e6, 249e6} {
			for _, begin := range []int64{1, second, 4 * second, 10 * second} { // age of the ring
				ring := newFakeRing(1, minLogSlots)
				born := ring.open(t).born()
				first := uint64(born+firstLease) >> leaseShift
				ring.words[wordControl(0)] = 0xffff<<sampleShift | first&leaseMask
				all := make([]*requester, n)
				for i := range all {
					all[i] = &requester{r: ring.open(t), c: control{sample: 0xffff}}
				}
				for now := born + begin; now < born+begin+100*second; now += renewal {
					for i, q := range all {
						at := now + int64(i)*apart/int64(n)
						q.renew(t, at)
						end := int64(ring.words[wordControl(0)]&leaseMask) << leaseShift
						longest := max(at+(leaseUnits+spread)<<leaseShift, int64(first+spread)<<leaseShift)
						counted := slices.ContainsFunc(all, func(q *requester) bool { return end < q.l.until })
						if end > longest || counted || begin < firstLease && end < int64(first)<<leaseShift {
							t.Fatalf("%d collectors, %d ns apart, from %d on: at %d the lease ends at %d, at most %d; too early for a collector: %v", n, apart, begin, at, end, longest, counted)
						}
					}
				}
			}
		}
	}
}

// Each ring has its own control word. If spans of one ring were not recorded, that counts for the
// VM.
func TestLeaseOfEachRing(t *testing.T) {
	const second = int64(1e9)
	wish := control{sample: 0xff}
	for _, test := range []struct {
		what   string
		change func(r *fakeRing)
		want   bool
	}{
		{"nothing happened", func(*fakeRing) {}, false},
		{"one lease was taken back", func(r *fakeRing) { r.words[wordControl(1)] = 0 }, true},
		{"one ring has another collector's wish", func(r *fakeRing) { r.words[wordControl(2)] |= 1 << explainShift }, false},
		{"both", func(r *fakeRing) { r.words[wordControl(1)] = 0; r.words[wordControl(2)] |= 1 << explainShift }, true},
	} {
		ring := newFakeRing(3, minLogSlots)
		r := ring.open(t)
		var l lease
		if _, err := r.renew(&l, wish, 10*second); err != nil {
			t.Fatal(err)
		}
		test.change(ring)
		if got, err := r.renew(&l, wish, 10*second+second/4); got != test.want || err != nil {
			t.Errorf("%s: %v, error %v; want %v", test.what, got, err, test.want)
		}
		for i := range 3 {
			w := ring.words[wordControl(i)]
			if uint16(w>>sampleShift) != wish.sample || w&leaseMask != wish.word(10*second+second/4)&leaseMask {
				t.Errorf("%s: ring %d has %#x", test.what, i, w)
			}
		}
	}
	ring := newFakeRing(3, minLogSlots)
	ring.words[wordControl(2)] = 1 << controlBits
	if _, err := ring.open(t).renew(&lease{}, wish, second); !errors.Is(err, ErrBroken) {
		t.Errorf("error %v", err)
	}
}

// A countingMemory counts the bytes and reads of a ring.
type countingMemory struct {
	*fakeRing
	reads, bytes int
}

func (m *countingMemory) ReadAt(data []byte, address int64) (int, error) {
	m.reads++
	m.bytes += len(data)
	return m.fakeRing.ReadAt(data, address)
}

// Slots that are taken and never written cost no more than others, and are lost in the end. apart
// is the distance between two such slots, with records between them.
func TestHolesCostNoMoreThanRecords(t *testing.T) {
	for _, apart := range []uint64{1, 2, 64, 512} {
		w := newWorld(t, spec("a", 20*time.Millisecond))
		ring := newFakeRing(maxRings, 10)
		memory := &countingMemory{fakeRing: ring}
		r, err := open(memory, ring.address, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		w.o.reader = r
		w.o.rate, w.o.credit = 100_000, 200_000
		memory.reads, memory.bytes = 0, 0
		const polls = 100
		for n := range int64(polls) {
			if n == 0 {
				for i := range maxRings {
					for k := range uint64(1000) {
						if slot := ring.take(i); k%apart != 0 {
							ring.put(i, slot, 0, 0)
							ring.put(i, slot, 1, uint64(success)<<kindShift)
						}
					}
				}
			}
			w.o.poll(10 * n * ms)
		}
		// 200,000 at first, and 100,000 per second. The heads are read at each poll.
		heads := polls * len(r.heads)
		if most := 300_000; (memory.reads-3*polls)*readCost > most || memory.bytes-heads > 2*most*recordSize {
			t.Errorf("%d apart: %d reads of %d bytes", apart, memory.reads, memory.bytes-heads)
		}
		w.o.poll(10*polls*ms + holePatience)
		if holding(r) {
			t.Errorf("%d apart: there are holes after %d s", apart, holePatience/1e9)
		}
		if w.o.records+w.o.overrun.records != 1000*maxRings {
			t.Errorf("%d apart: %d were read and %d lost of %d", apart, w.o.records, w.o.overrun.records, 1000*maxRings)
		}
	}
}
