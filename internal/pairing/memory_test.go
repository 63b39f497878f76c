package pairing

import (
	"fmt"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dtrace"
)

// What is over, taken back or not the last of its key leaves the queues, so that these
// hold no more than twice what is kept and a few besides. The time never comes at which
// it would leave them by itself.
func TestQueuesHoldWhatIsKept(t *testing.T) {
	const keys, rounds = 100, 100
	for name, test := range map[string]struct {
		cfg   Config
		kinds []Kind
	}{
		"instances that end":     {Config{}, []Kind{Start, End}},
		"instances in order":     {Config{Pairing: dtrace.FIFO}, []Kind{Start, End}},
		"notes that stay":        {Config{Arm: true}, []Kind{Arm, Start, End}},
		"notes that are used":    {Config{Arm: true, Remember: time.Hour}, []Kind{Arm, Start, End}},
		"notes that come again":  {Config{Arm: true, Remember: time.Hour}, []Kind{Arm, Arm, Start, End}},
		"fetches":                {Config{Pairing: dtrace.FIFO, Synced: true, Remember: time.Hour}, []Kind{Start, End, Sync}},
		"fetches that are never": {Config{Pairing: dtrace.FIFO, Synced: true}, []Kind{Start, End, Sync}},
		"ends that overtake":     {Config{Overtaken: true, Remember: time.Hour}, []Kind{End, Start}},
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
				t.Errorf("%d uses and notes are held and never forgotten", n)
			}
			if kept := len(e.fetch); e.kept != kept || len(e.lines) != 0 || len(e.exact) != 0 {
				t.Errorf("%d are kept, of them %d fetches, with %d lines and %d tickets", e.kept, kept, len(e.lines), len(e.exact))
			}
		})
	}
}

// Queues drop instances that are over, also behind one that is open. The open one stays.
func TestQueuesHoldNothingBehindWhatIsOpen(t *testing.T) {
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

// After a burst, queues drop the instances that are over behind one that stays, even if no
// new instance comes.
func TestQueuesAfterABurst(t *testing.T) {
	const burst = 3 * few
	for name, test := range map[string]struct {
		cfg   Config
		begin []Kind // of each of a burst of keys
		end   []Kind // likewise, when all have begun
	}{
		"instances":          {Config{DMax: time.Hour}, []Kind{Start}, []Kind{End}},
		"instances in order": {Config{DMax: time.Hour, Pairing: dtrace.FIFO}, []Kind{Start, Start}, []Kind{End, End}},
		"timeouts":           {Config{DMax: 1, Remember: time.Hour}, []Kind{Start}, []Kind{End}},
		"timeouts in order":  {Config{DMax: 1, Remember: time.Hour, Pairing: dtrace.FIFO}, []Kind{Start}, []Kind{End}},
		"ends that overtake": {Config{DMax: time.Hour, Remember: time.Hour, Overtaken: true}, []Kind{End}, []Kind{Start}},
		"what stays":         {Config{DMax: time.Hour, Pairing: dtrace.FIFO}, []Kind{Start}, nil},
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

// A key that is armed over and over has one note.
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
			t.Errorf("%d are kept at %d, want %d", e.kept, test.at, test.kept)
		}
	}
}

// A key is forgotten when all is that was remembered of it.
func TestKeysAreForgotten(t *testing.T) {
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

// Uses at one time are one, however many there are.
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

// A key of which events were lost leaves nothing behind, and no other key does.
func TestLoseLeavesNothing(t *testing.T) {
	late := New(Config{DMax: 1})
	late.Add(nil, Event{Kind: Start, Key: "a", Time: 1})
	late.Advance(nil, 3)
	if late.Lose(nil, "a", Token{}); len(late.lines) != 0 || !late.Idle() {
		t.Errorf("%d lines and %d instances are left of what had timed out", len(late.lines), late.kept)
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
			t.Fatalf("%s holds %d, of %d that are kept", name, n, e.kept)
		}
	}
	if n := e.uses.len(); n > 2*len(e.fetch)+few+1 {
		t.Fatalf("uses holds %d, of %d that are kept", n, len(e.fetch))
	}
}

// A queue is first in, first out, and gives back the memory of what has left it.
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
			t.Fatalf("%d of %d places are of what is gone", q.gone, len(q.items))
		}
		for _, gone := range [][]*int{q.items[:q.gone], q.items[len(q.items):cap(q.items)]} {
			for _, item := range gone {
				if item != nil {
					t.Fatalf("%d is kept, and gone", *item)
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
		t.Fatalf("%d places are of what is gone, want 1", q.gone)
	}
	q.filter(func(x *int) bool { return *x%2 == 0 })
	for x := range q.all() {
		if want += want % 2; *x != want {
			t.Fatalf("%d is left, want %d", *x, want)
		}
		want += 2
	}
}
