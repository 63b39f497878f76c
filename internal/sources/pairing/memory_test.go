package pairing

import (
	"fmt"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dtrace"
)

// Queues drop entries that have ended, were taken back, or are not the last of their key. A queue
// contains at most twice the number of valid entries and a few more, even if the time at which
// entries expire never comes.
func TestQueuesDropStaleEntries(t *testing.T) {
	const keys, rounds = 100, 100
	for name, test := range map[string]struct {
		cfg   Config
		kinds []Kind
	}{
		"instances that end":            {Config{}, []Kind{Start, End}},
		"instances in order":            {Config{Pairing: dtrace.FIFO}, []Kind{Start, End}},
		"notes that are not remembered": {Config{Arm: true}, []Kind{Arm, Start, End}},
		"notes that are remembered":     {Config{Arm: true, Remember: time.Hour}, []Kind{Arm, Start, End}},
		"repeated notes":                {Config{Arm: true, Remember: time.Hour}, []Kind{Arm, Arm, Start, End}},
		"fetches":                       {Config{Pairing: dtrace.FIFO, Synced: true, Remember: time.Hour}, []Kind{Start, End, Sync}},
		"fetches that never expire":     {Config{Pairing: dtrace.FIFO, Synced: true}, []Kind{Start, End, Sync}},
		"ends that overtake":            {Config{Overtaken: true, Remember: time.Hour}, []Kind{End, Start}},
	} {
		t.Run(name, func(t *testing.T) {
			test.cfg.DMax = time.Hour
			e := New(test.cfg)
			now := int64(0)
			for i := range keys * rounds {
				for _, kind := range test.kinds {
					now++
					e.Add(nil, Event{Kind: kind, Key: fmt.Sprint(i % keys), Time: now})
					e.checkMemory(t)
				}
			}
			if n := e.uses.len() + e.notes.len(); test.cfg.Remember == 0 && n != 0 {
				t.Errorf("%d uses and notes are never dropped", n)
			}
			if kept := len(e.fetch); e.kept != kept || len(e.lines) != 0 || len(e.exact) != 0 {
				t.Errorf("%d items are kept, %d of them fetches, with %d lines and %d tickets", e.kept, kept, len(e.lines), len(e.exact))
			}
		})
	}
}

// Queues drop ended instances, even behind an open one. The open one stays.
func TestQueuesDropEndedBehindOpen(t *testing.T) {
	for _, pairing := range []dtrace.Pairing{dtrace.First, dtrace.Last, dtrace.FIFO} {
		e := New(Config{Pairing: pairing, DMax: time.Second})
		e.Add(nil, Event{Kind: Start, Key: "open", Time: 1})
		now := int64(1)
		for i := range 10_000 {
			now++
			e.Add(nil, Event{Kind: Start, Key: fmt.Sprint(i), Time: now})
			e.Add(nil, Event{Kind: End, Key: fmt.Sprint(i), Time: now})
			e.checkMemory(t)
		}
		if e.Open() != 1 {
			t.Errorf("%v: %d are open, want 1", pairing, e.Open())
		}
		facts := e.Advance(nil, 1+int64(2*time.Second))
		if len(facts) != 1 || facts[0].What != TimedOut || facts[0].Start != 1 {
			t.Errorf("%v: %+v, want a timeout of the first", pairing, facts)
		}
	}
}

// After a burst, queues drop the ended instances behind one that stays, even if no new instance
// comes.
func TestQueuesAfterABurst(t *testing.T) {
	const burst = 3 * few
	for name, test := range map[string]struct {
		cfg   Config
		begin []Kind // events for each of a burst of keys
		end   []Kind // the same, after all have begun
	}{
		"instances":          {Config{DMax: time.Hour}, []Kind{Start}, []Kind{End}},
		"instances in order": {Config{DMax: time.Hour, Pairing: dtrace.FIFO}, []Kind{Start, Start}, []Kind{End, End}},
		"timeouts":           {Config{DMax: 1, Remember: time.Hour}, []Kind{Start}, []Kind{End}},
		"timeouts in order":  {Config{DMax: 1, Remember: time.Hour, Pairing: dtrace.FIFO}, []Kind{Start}, []Kind{End}},
		"ends that overtake": {Config{DMax: time.Hour, Remember: time.Hour, Overtaken: true}, []Kind{End}, []Kind{Start}},
		"open instances":     {Config{DMax: time.Hour, Pairing: dtrace.FIFO}, []Kind{Start}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := New(test.cfg)
			now := int64(0)
			add := func(key string, kinds []Kind) {
				for _, kind := range kinds {
					now += 2
					e.Add(nil, Event{Kind: kind, Key: key, Time: now})
				}
			}
			add("stays", test.begin)
			for i := range burst {
				add(fmt.Sprint(i), test.begin)
			}
			for i := range burst {
				add(fmt.Sprint(i), test.end)
			}
			for i := range burst {
				add(fmt.Sprint("k", i), test.begin)
				add(fmt.Sprint("k", i), []Kind{End, Start, End})
				add(fmt.Sprint("l", i), test.begin)
				e.checkMemory(t)
				add(fmt.Sprint("l", i), test.end)
			}
		})
	}
}

// A key that is armed repeatedly has one note.
func TestNotesOfOneKey(t *testing.T) {
	e := New(Config{DMax: time.Hour, Arm: true, Remember: time.Hour})
	for now := range int64(10_000) {
		e.Add(nil, Event{Kind: Arm, Key: "k", Time: now})
		e.checkMemory(t)
	}
	for _, test := range []struct {
		at   int64
		kept int
	}{{9_999 + int64(time.Hour), 1}, {10_000 + int64(time.Hour), 0}} {
		if e.Advance(nil, test.at); e.kept != test.kept {
			t.Errorf("%d items are kept at %d, want %d", e.kept, test.at, test.kept)
		}
	}
}

// A key is dropped when everything that was remembered about it has been dropped.
func TestKeysAreDropped(t *testing.T) {
	for name, test := range map[string]struct {
		cfg   Config
		kinds []Kind
	}{
		"timeouts":          {Config{}, []Kind{Start}},
		"timeouts in order": {Config{Pairing: dtrace.FIFO}, []Kind{Start, Start}},
		"passed on":         {Config{Pairing: dtrace.FIFO, Via: true}, []Kind{Start, Via, Via}},
		"notes":             {Config{Arm: true}, []Kind{Arm}},
		"ends":              {Config{Overtaken: true}, []Kind{End}},
		"fetches":           {Config{Pairing: dtrace.FIFO, Synced: true}, []Kind{Start, End, Sync}},
	} {
		t.Run(name, func(t *testing.T) {
			test.cfg.DMax, test.cfg.Remember, test.cfg.Room = time.Second, time.Second, NewRoom(1000)
			e := New(test.cfg)
			now := int64(0)
			for round := range 3 {
				for i := range 100 {
					for _, kind := range test.kinds {
						now++
						e.Add(nil, Event{Kind: kind, Key: fmt.Sprint(i), Time: now})
					}
				}
				now += int64(2*time.Second) + 1
				e.Advance(nil, now)
				if len(e.lines) != 0 || len(e.fetch) != 0 || !e.Idle() || test.cfg.Room.Left() != 1000 {
					t.Fatalf("round %d: %d lines, %d fetches and %d in all are left, with room for %d of 1000 more",
						round, len(e.lines), len(e.fetch), e.kept, test.cfg.Room.Left())
				}
			}
		})
	}
}

// Several uses at the same time count as one.
func TestUsesAtOneTime(t *testing.T) {
	e := New(Config{Pairing: dtrace.FIFO, DMax: time.Hour, Synced: true, Remember: time.Hour})
	for range 10_000 {
		e.Add(nil, Event{Kind: Start, Key: "k", Time: 1})
		e.Add(nil, Event{Kind: End, Key: "k", Time: 1})
	}
	if n := e.uses.len(); n != 1 {
		t.Errorf("%d uses are noted, want 1", n)
	}
}

// A key with lost events leaves no data behind. Other keys are unaffected.
func TestLoseLeavesNothing(t *testing.T) {
	late := New(Config{DMax: 1})
	late.Add(nil, Event{Kind: Start, Key: "a", Time: 1})
	late.Advance(nil, 3)
	if late.Lose(nil, "a", Token{}); len(late.lines) != 0 || !late.Idle() {
		t.Errorf("%d lines and %d instances of timeouts are left", len(late.lines), late.kept)
	}
	e := New(Config{DMax: time.Hour, Arm: true})
	e.Add(nil, Event{Kind: Arm, Key: "a", Time: 1})
	e.Add(nil, Event{Kind: Start, Key: "a", Time: 2})
	e.Add(nil, Event{Kind: Arm, Key: "a", Time: 3})
	e.Add(nil, Event{Kind: Arm, Key: "b", Time: 4})
	if e.Lose(nil, "a", Token{}); len(e.lines) != 1 || e.kept != 1 {
		t.Errorf("%d lines and %d instances and notes are left, want the note of b", len(e.lines), e.kept)
	}
}

func (e *Engine) checkMemory(t *testing.T) {
	t.Helper()
	for name, n := range map[string]int{"due": e.due.len(), "past": e.past.len(), "notes": e.notes.len()} {
		if n > 2*e.kept+few+3 {
			t.Fatalf("%s has %d entries for %d kept items", name, n, e.kept)
		}
	}
	if n := e.uses.len(); n > 2*len(e.fetch)+few+1 {
		t.Fatalf("uses has %d entries for %d kept items", n, len(e.fetch))
	}
}

// A queue is first in, first out, and releases the memory of removed items.
func TestQueue(t *testing.T) {
	var q queue[*int]
	next, want := 0, 0
	for round := range 1000 {
		for range 1 + round%7 {
			x := next
			q.push(&x)
			next++
		}
		for range min(q.len(), round%9) {
			if head := *q.head(); head != want {
				t.Fatalf("head is %d, want %d", head, want)
			}
			if got := *q.pop(); got != want {
				t.Fatalf("popped %d, want %d", got, want)
			}
			want++
		}
		if q.len() != next-want {
			t.Fatalf("%d in the queue, want %d", q.len(), next-want)
		}
		if q.gone > len(q.items)/2 {
			t.Fatalf("%d of %d places belong to removed items", q.gone, len(q.items))
		}
		for _, gone := range [][]*int{q.items[:q.gone], q.items[len(q.items):cap(q.items)]} {
			for _, item := range gone {
				if item != nil {
					t.Fatalf("%d is kept although it was removed", *item)
				}
			}
		}
	}
	q = queue[*int]{}
	for x := range 9 {
		q.push(&x)
	}
	q.pop()
	if want = 1; q.gone != 1 {
		t.Fatalf("%d places belong to removed items, want 1", q.gone)
	}
	q.filter(func(x *int) bool { return *x%2 == 0 })
	for x := range q.all() {
		if want += want % 2; *x != want {
			t.Fatalf("%d is left, want %d", *x, want)
		}
		want += 2
	}
}
