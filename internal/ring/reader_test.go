package ring

import (
	"errors"
	"math"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// collect returns what is new, and how much was lost.
func collect(t testing.TB, r *reader, now int64) ([]record, uint64) {
	t.Helper()
	var all []record
	lost, err := r.records(now, math.MaxUint64, func(rec *record) { all = append(all, *rec) })
	if err != nil {
		t.Fatal(err)
	}
	return all, lost
}

// holding reports whether there are slots that were taken and have no whole record.
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
	a := ring.start(0, 3, 100)
	b := ring.start(1, 4, 150)
	ring.end(1, a, 3, 200)
	got, lost := collect(t, r, 1000)
	want := []record{
		{kind: start, text: 3, time: 100, span: a, process: 42},
		{kind: start, text: 4, time: 150, span: b, process: 42},
		{kind: success, text: 3, name: 3, time: 200, span: a},
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

// A record that is being written is read when it is whole, in whatever order its words come.
func TestUnfinishedRecord(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		ring := newFakeRing(1, minLogSlots)
		r := ring.open(t)
		slot := ring.take(0)
		values := []uint64{1<<textShift | 5, uint64(start)<<kindShift | noRing<<ringShift, 9}
		for i, word := range order {
			if got, lost := collect(t, r, 10); len(got) != 0 || lost != 0 || i > 0 && !holding(r) {
				t.Errorf("%v, before word %d: %+v, lost %d", order, i, got, lost)
			}
			if r.fate(SpanID(slot)) != toCome {
				t.Errorf("%v: the start is not waited for", order)
			}
			ring.put(0, slot, word, values[word])
		}
		got, lost := collect(t, r, 10)
		if len(got) != 1 || lost != 0 || holding(r) || r.fate(SpanID(slot)) != seen {
			t.Errorf("%v: %+v, lost %d", order, got, lost)
		}
	}
}

// A writer that is suspended within a record and goes on a lap later spoils the slot of
// another one: that one is lost, and counted, and no record has words of two.
func TestWriterALapLate(t *testing.T) {
	ring := newFakeRing(1, minLogSlots)
	r := ring.open(t)
	slow := ring.take(0)
	ring.put(0, slow, 0, 1<<textShift|5)
	var seen, lost uint64
	step := func() {
		got, gone := collect(t, r, 10)
		for _, rec := range got {
			if rec.text != 2 {
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
	ring.put(0, slow, 2, 9)
	step()
	if seen != 1<<minLogSlots || lost != 1 {
		t.Errorf("seen %d, lost %d", seen, lost)
	}
}

// Whatever writers do, what is seen and what is lost are together what was written.
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
			gone, err := r.records(1<<39, math.MaxUint64, func(rec *record) {
				seen++
				if rec.time != int64(rec.process) {
					t.Fatalf("words of two records: %+v", rec)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			lost += gone
		}
		advance := func(w *writing) bool {
			values := []uint64{1<<textShift | w.slot, uint64(start)<<kindShift | noRing<<ringShift, w.slot}
			ring.put(w.ring, w.slot, w.word, values[w.word])
			w.word++
			return w.word == recordWords
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
		// A record that was overwritten by a writer a lap behind is found out when its slot
		// is lapped again.
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

// Several writers, a reader that comes now and then, and all at once.
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
		if _, err := r.records(1, math.MaxUint64, func(*record) {}); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: error %v", test.what, err)
		}
	}
}

// A ring that claims slots without end, and never writes any, takes bounded time and memory.
func TestSlotsThatAreNeverWritten(t *testing.T) {
	ring := newFakeRing(1, minLogSlots+6)
	r := ring.open(t)
	for _, n := range []uint64{10 << 20, 10<<20 + 1<<(minLogSlots+6)} { // empty slots are of lap 0 then, and not
		ring.words[wordHeads] += n
		if got, lost := collect(t, r, 1); len(got) != 0 || lost+uint64(len(r.parts[0].holes)) != n || len(r.parts[0].holes) > maxHoles {
			t.Errorf("%d records, lost %d, %d holes", len(got), lost, len(r.parts[0].holes))
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

func TestLease(t *testing.T) {
	ring := newFakeRing(1, minLogSlots)
	r, other := ring.open(t), ring.open(t)
	var mine, theirs lease
	const second = int64(1e9)
	renew := func(r *reader, l *lease, c control, now int64, want hindrance) {
		t.Helper()
		since, err := r.renew(l, c, now)
		if err != nil || since != want {
			t.Fatalf("%v, error %v; want %v", since, err, want)
		}
	}
	word := func() control {
		w := ring.words[wordControl]
		return control{sample: uint16(w >> sampleShift), explain: uint16(w >> explainShift)}
	}
	renew(r, &mine, control{sample: 0xff}, 10*second, none)
	if got := word(); got != (control{sample: 0xff}) {
		t.Errorf("%+v", got)
	}
	// Another collector's wishes are kept, and go with it.
	renew(other, &theirs, control{sample: 0xff00, explain: 1}, 10*second+1, none)
	renew(r, &mine, control{sample: 0xff}, 10*second+second/4, probes)
	if got := word(); got != (control{sample: 0xffff, explain: 1}) {
		t.Errorf("%+v", got)
	}
	renew(r, &mine, control{sample: 0xff}, 10*second+second/2, probes)
	renew(r, &mine, control{sample: 0xff}, 10*second+3*second/4, none)
	if got := word(); got != (control{sample: 0xff}) {
		t.Errorf("after the other one has gone: %+v", got)
	}
	// A lease that ran out, or was taken back, was silent.
	renew(r, &mine, control{sample: 0xff}, 13*second, silence)
	ring.words[wordControl] = 0
	renew(r, &mine, control{sample: 0xff}, 13*second+1, silence)
}
