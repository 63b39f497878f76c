package pairing_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/sources/pairing"
)

// anyConfig draws a random configuration.
func anyConfig(t *rapid.T) pairing.Config {
	c := pairing.Config{
		Pairing:  rapid.SampledFrom([]dtrace.Pairing{dtrace.First, dtrace.Last, dtrace.FIFO}).Draw(t, "pairing"),
		DMax:     dMax,
		Arm:      rapid.Bool().Draw(t, "arm"),
		Loose:    rapid.Bool().Draw(t, "loose"),
		Remember: rapid.SampledFrom([]time.Duration{0, dMax / 3, 3 * dMax}).Draw(t, "remember"),
	}
	if most := rapid.SampledFrom([]int{0, 0, 1, 3, 10}).Draw(t, "most"); most > 0 {
		c.Room = pairing.NewRoom(most)
	}
	if c.Pairing == dtrace.FIFO {
		c.Via = rapid.Bool().Draw(t, "via")
		c.Synced = rapid.Bool().Draw(t, "synced")
	}
	return c
}

// anyEvents draws events with few different keys, tokens and texts, close enough in time to
// interact. No two have the same time.
func anyEvents(t *rapid.T) []pairing.Event {
	return rapid.Custom(func(t *rapid.T) []pairing.Event {
		var events []pairing.Event
		now := int64(0)
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			now += rapid.OneOf(rapid.Int64Range(1, 50*us), rapid.Int64Range(1, 2*int64(dMax))).Draw(t, "pause")
			events = append(events, pairing.Event{
				Kind:   rapid.SampledFrom([]pairing.Kind{start, start, via, arm, end, end, sync}).Draw(t, "kind"),
				Key:    rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"),
				Time:   now,
				Token:  pairing.Token{Cur: rapid.SampledFrom([]int64{0, 0, 0, 1, 2}).Draw(t, "cur")},
				Text:   rapid.SampledFrom([]string{"", "x"}).Draw(t, "text"),
				Amount: rapid.Uint64Range(0, 9).Draw(t, "amount"),
			})
		}
		return events
	}).Draw(t, "trace")
}

func count(facts []pairing.Fact, what pairing.What) (n int) {
	for _, f := range facts {
		if f.What == what {
			n++
		}
	}
	return n
}

// Each start joins another one, finds no room, stays open, or ends in exactly one way. Each end
// belongs to an instance, is late, or is an orphan. Dropped events are neither starts nor ends.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, events := anyConfig(t), anyEvents(t)
		e := pairing.New(cfg)
		var facts []pairing.Fact
		var starts, ends, joined, viasWithoutRoom, armsWithoutRoom int
		for _, ev := range events {
			open := e.Open()
			before := len(facts)
			facts = e.Add(facts, ev)
			now := facts[before:]
			open -= count(now, pairing.TimedOut) + count(now, pairing.Unpaired)
			switch ev.Kind {
			case start:
				starts++
				if count(now, pairing.Started) == 1 && count(now, pairing.NoRoom) == 0 && e.Open() == open {
					joined++
				}
			case end:
				ends++
			case via:
				viasWithoutRoom += count(now, pairing.NoRoom)
			case arm:
				armsWithoutRoom += count(now, pairing.NoRoom)
			}
		}
		if joined > 0 && cfg.Pairing != dtrace.First {
			t.Errorf("%d starts joined others", joined)
		}
		noRoom := count(facts, pairing.NoRoom) - viasWithoutRoom - armsWithoutRoom
		started := count(facts, pairing.Started)
		if sum := joined + noRoom + e.Open() + count(facts, pairing.Succeeded) + count(facts, pairing.TimedOut) +
			count(facts, pairing.Unpaired); started != sum {
			t.Errorf("%d starts, but %d results of starts", started, sum)
		}
		ended := count(facts, pairing.Ended)
		if sum := count(facts, pairing.Succeeded) + count(facts, pairing.Late) + count(facts, pairing.Orphaned); ended != sum {
			t.Errorf("%d ends, but %d results of ends", ended, sum)
		}
		if got := started + ended + count(facts, pairing.Dropped); got != starts+ends {
			t.Errorf("%d events, but %d results", starts+ends, got)
		}
	})
}

// An instance ends once, at most dMax after its start, and exactly dMax after it if it times out.
// An instance that was given up does not time out later.
func TestInstancesEndOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, events := anyConfig(t), anyEvents(t)
		room := 0
		if cfg.Room != nil {
			room = cfg.Room.Left()
		}
		e := pairing.New(cfg)
		var facts []pairing.Fact
		for i, ev := range events {
			facts = e.Add(facts, ev)
			switch rapid.IntRange(0, 20).Draw(t, "lost") {
			case 0:
				facts = e.Cut(facts, events[i].Time)
			case 1:
				facts = e.Lose(facts, ev.Key, ev.Token)
			}
		}
		facts = e.Advance(facts, 1<<60)
		ended := make(map[int64]bool) // by start
		for _, f := range facts {
			switch f.What {
			case pairing.Succeeded, pairing.TimedOut, pairing.Unpaired, pairing.Cut:
				if ended[f.Start] {
					t.Errorf("%+v has ended before", f)
				}
				ended[f.Start] = true
				if took := f.Time - f.Start; took < 0 || took > int64(dMax) || f.What == pairing.TimedOut && took != int64(dMax) {
					t.Errorf("%+v takes %d ns", f, took)
				}
			}
		}
		if e.Open() != 0 {
			t.Errorf("%d are open", e.Open())
		}
		if e.Cut(nil, 1<<60); !e.Idle() || cfg.Room != nil && cfg.Room.Left() != room {
			t.Error("the engine still keeps data")
		}
	})
}

// The results do not depend on when Advance is called between events.
func TestWindowsDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, events := anyConfig(t), anyEvents(t)
		once := pairing.New(cfg)
		if cfg.Room != nil {
			cfg.Room = pairing.NewRoom(cfg.Room.Left())
		}
		often := pairing.New(cfg)
		var want, got []pairing.Fact
		last := int64(0)
		for _, ev := range events {
			want = once.Add(want, ev)
			for range rapid.IntRange(0, 2).Draw(t, "windows") {
				got = often.Advance(got, rapid.Int64Range(last, ev.Time).Draw(t, "to"))
			}
			got = often.Add(got, ev)
			last = ev.Time
		}
		want, got = once.Advance(want, 1<<60), often.Advance(got, 1<<60)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-once +often:\n%s", diff)
		}
	})
}

// Messages to one process are taken in the order in which they were sent. They are paired in that
// order, even if some have a token and some time out.
func TestPairsInOrderOfSending(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := pairing.New(pairing.Config{Pairing: dtrace.FIFO, DMax: dMax, Synced: rapid.Bool().Draw(t, "synced")})
		var facts []pairing.Fact
		var want []int64 // times of sending, in the order of the ends
		now, cur := int64(0), int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "batches") {
			var waiting []pairing.Event
			for range rapid.IntRange(0, 5).Draw(t, "messages") {
				now += rapid.Int64Range(1, 600*us).Draw(t, "pause")
				m := pairing.Event{Kind: start, Key: "k", Time: now}
				if rapid.Bool().Draw(t, "token") {
					cur++
					m.Token.Cur = cur
				}
				facts = e.Add(facts, m)
				waiting = append(waiting, m)
			}
			now += rapid.Int64Range(200*us, 300*us).Draw(t, "pause")
			for _, m := range waiting {
				now += rapid.Int64Range(1, us).Draw(t, "pause")
				if now-m.Time <= int64(dMax) {
					want = append(want, m.Time)
				}
				m.Kind, m.Time = end, now
				facts = e.Add(facts, m)
			}
			if rapid.Bool().Draw(t, "sync") {
				facts = e.Add(facts, pairing.Event{Kind: sync, Key: "k", Time: now})
			}
		}
		var got []int64
		for _, f := range facts {
			if f.What == pairing.Succeeded {
				got = append(got, f.Start)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || count(facts, pairing.Orphaned)+count(facts, pairing.Unpaired) > 0 {
			t.Errorf("%v\nstarts of successes (-want +got):\n%s", formatFacts(facts), diff)
		}
	})
}

// Even if starts and ends are lost, messages are paired correctly again from the second fetch
// after the loss on. This holds however often the receiver loses its processor while it fetches,
// and even if messages are sent meanwhile.
func TestPairingRecoversFromLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := receiver{t: t, e: pairing.New(pairing.Config{Pairing: dtrace.FIFO, DMax: time.Second, Synced: true})}
		for range rapid.IntRange(1, 20).Draw(t, "fetches") {
			r.lossy = len(r.sent) == 0 && rapid.Bool().Draw(t, "lossy")
			r.pass(0)
			r.send(rapid.IntRange(1, 5).Draw(t, "messages"))
			r.pass(int64(pairing.Grace))
			want := r.sent
			got := r.fetch()
			if !r.lossy {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("starts of successes (-want +got):\n%s", diff)
				}
				continue
			}
			// If all ends of a fetch are lost, its time is unknown.
			r.lossy = false
			r.send(1)
			r.pass(int64(pairing.Grace))
			r.fetch()
		}
	})
}

// A receiver is a process that receives messages, some of them while it fetches.
type receiver struct {
	t     *rapid.T
	e     *pairing.Engine
	now   int64
	sent  []int64 // times of the messages that are not fetched yet
	lossy bool    // events are lost, and no messages are sent meanwhile
}

// pass lets more than this time pass.
func (r *receiver) pass(least int64) { r.now += least + rapid.Int64Range(1, 300*us).Draw(r.t, "pause") }

func (r *receiver) send(n int) {
	for range n {
		r.pass(0)
		r.sent = append(r.sent, r.now)
		r.addEvent(start)
	}
}

// fetch fetches the sent messages and reports a sync afterwards. It returns the times of sending
// of the messages that ended.
func (r *receiver) fetch() (ended []int64) {
	n := len(r.sent)
	for range n {
		r.pass(0)
		for _, f := range r.addEvent(end) {
			if f.What == pairing.Succeeded {
				ended = append(ended, f.Start)
			}
		}
		if !r.lossy && rapid.Bool().Draw(r.t, "meanwhile") {
			r.send(1)
		}
	}
	r.sent = r.sent[n:]
	r.e.Add(nil, pairing.Event{Kind: sync, Key: "k", Time: r.now})
	return ended
}

// addEvent adds an event, unless it is lost.
func (r *receiver) addEvent(kind pairing.Kind) []pairing.Fact {
	if r.lossy && rapid.IntRange(0, 2).Draw(r.t, "lost") == 0 {
		return nil
	}
	return r.e.Add(nil, pairing.Event{Kind: kind, Key: "k", Time: r.now})
}
