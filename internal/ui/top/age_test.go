package top

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
)

// A modelQueue models the queue of a process in a VM. It contains the arrival times of waiting
// messages, both fetched and not fetched.
type modelQueue struct {
	inner, outer []int64
	fetched      uint64 // fetched in the present window
}

func (q *modelQueue) fetch() {
	q.fetched += uint64(len(q.outer))
	q.inner, q.outer = append(q.inner, q.outer...), nil
}

// The age is never more than that of the message that has waited longest, in whatever order
// messages are taken.
func TestAges(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := NewModel(outcome.GroupPID, price.Limit{Share: price.DefaultShare})
		p := plan(Everything, outcome.GroupPID)
		m.Configure(p)
		id := ID{shop, "<0.44.0>"}
		var q modelQueue
		for range rapid.IntRange(0, 20).Draw(r, "before") {
			q.inner = append(q.inner, p.At(0).From-1)
		}
		takes := rapid.Bool().Draw(r, "takes")
		for n := range rapid.IntRange(1, 90).Draw(r, "windows") {
			w := p.At(uint64(n))
			steps := rapid.IntRange(1, 6).Draw(r, "steps")
			surveyed := rapid.IntRange(-1, steps-1).Draw(r, "surveyed")
			q.fetched = 0
			oldest, waits := int64(0), false
			for step := range steps {
				now := w.From + int64(step)*int64(w.Duration())/int64(steps)
				for range rapid.IntRange(0, 3).Draw(r, "sent") {
					q.outer = append(q.outer, now)
				}
				if rapid.Bool().Draw(r, "fetches") {
					q.fetch()
				}
				for range rapid.IntRange(0, 4).Draw(r, "taken") {
					if takes && len(q.inner) > 0 {
						at := rapid.IntRange(0, len(q.inner)-1).Draw(r, "which")
						q.inner = slices.Delete(q.inner, at, at+1)
					}
				}
				if step == surveyed {
					s := &Survey{From: now, To: now, By: p.Specs[0].Group, Rows: make(map[ID]Seen)}
					waiting := int64(len(q.inner) + len(q.outer))
					s.Rows[id] = Seen{Known: true, Waiting: waiting, Unfetched: int64(len(q.outer)), Settled: true, Messages: true}
					m.Survey(s)
					if waits = waiting > 0; waits {
						oldest = now - slices.Min(slices.Concat(q.inner, q.outer))
					}
				}
			}
			g := outcome.Group{Key: id.Key, Process: 44, Starts: q.fetched}
			b := batch(p, n)
			for _, k := range []Kind{GC, Mailbox, Run} {
				c := outcome.Counts{Outcome: k.String(), VM: shop}
				if k == Mailbox && q.fetched > 0 {
					c.Groups, c.Starts = []outcome.Group{g}, q.fetched
				}
				b.Counts = append(b.Counts, c)
			}
			if _, err := m.Add(b); err != nil {
				r.Fatal(err)
			}
			if surveyed < 0 {
				continue
			}
			seen := m.live.survey.Rows[id]
			if seen.Aged && (!waits || int64(seen.Oldest) > oldest) {
				r.Fatalf("window %d: %v, where the oldest is %v", n, seen.Oldest, time.Duration(oldest))
			}
		}
	})
}

// If a process takes no messages, the age is not much less than that of its first message, even
// for longer than the history.
func TestAgeOfSteadyGrowth(t *testing.T) {
	m := NewModel(outcome.GroupPID, price.Limit{Share: price.DefaultShare})
	p := plan(Everything, outcome.GroupPID)
	m.Configure(p)
	for n := 1; n < 3*maxWindows; n++ {
		l := []load{{key: "<0.44.0>", pid: 44, waiting: 100, more: 20}} // 20 messages came before the first window
		b := batch(p, n)
		for k := range kinds {
			c := outcome.Counts{Outcome: k.String(), VM: shop}
			if k == Mailbox {
				c.Groups, c.Starts = []outcome.Group{{Key: "<0.44.0>", Process: 44, Starts: 20}}, 20
			}
			b.Counts = append(b.Counts, c)
		}
		m.Survey(surveyAt(p, n, l, shop))
		if _, err := m.Add(b); err != nil {
			t.Fatal(err)
		}
		if seen := m.live.survey.Rows[ID{shop, "<0.44.0>"}]; !seen.Aged || !seen.Before || seen.Oldest != time.Duration(n-1)*p.Window {
			t.Fatalf("window %d: %+v", n, seen)
		}
		if !m.live.survey.Total.Before { // so that the total of messages taken is a lower bound
			t.Fatalf("window %d: the total has no messages from before the observation", n)
		}
	}
}

// Ages are unknown if fetched messages are lost, or if they may belong to processes without room.
func TestAgesUnknown(t *testing.T) {
	for name, change := range map[string]func(*outcome.Counts){
		"unobserved": func(c *outcome.Counts) { c.Unobserved = true },
		"unreadable": func(c *outcome.Counts) { c.Loss.Unreadable = 1 },
		"no room":    func(c *outcome.Counts) { c.Groups, c.Starts = []outcome.Group{{Starts: 3}}, 3 },
	} {
		m := NewModel(outcome.GroupPID, price.Limit{Share: price.DefaultShare})
		p := plan(Everything, outcome.GroupPID)
		m.Configure(p)
		still := []load{{key: "<0.44.0>", pid: 44, waiting: 500}}
		aged := func(n int) bool {
			b := batch(p, n)
			for k := range kinds {
				c := outcome.Counts{Outcome: k.String(), VM: shop}
				if k == Mailbox && n == 4 {
					change(&c)
				}
				b.Counts = append(b.Counts, c)
			}
			m.Survey(surveyAt(p, n, still, shop))
			if _, err := m.Add(b); err != nil {
				t.Fatal(err)
			}
			return m.live.survey.Rows[ID{shop, "<0.44.0>"}].Aged
		}
		for n, want := range []bool{true, true, true, false, true} {
			if got := aged(n + 1); got != want {
				t.Errorf("%s: window %d: age known: %v", name, n, got)
			}
		}
	}
}

// A table is sorted by waiting messages from when a queue grows until none is long. A long queue
// that does not grow has no effect. A sort order that the user chose stays.
func TestSortedByGrowingQueues(t *testing.T) {
	m := NewModel(outcome.GroupPID, price.Limit{Share: price.DefaultShare})
	p := plan(Everything, outcome.GroupPID)
	m.Configure(p)
	for n, test := range []struct {
		waiting int64
		want    Column
		growing bool
	}{
		{5000, ByCPU, false}, {5000, ByCPU, false}, {5010, ByCPU, false},
		{9000, ByWaiting, true}, {14000, ByWaiting, true}, {14000, ByWaiting, true},
		{9000, ByWaiting, false}, {50, ByCPU, false}, {99, ByCPU, false},
	} {
		if err := see(m, p, n, []load{{key: "<0.44.0>", pid: 44, waiting: test.waiting}}, shop); err != nil {
			t.Fatal(err)
		}
		table := m.Table()
		if row := rowOf(t, table, "<0.44.0>"); table.Sort != test.want || !table.Auto || row.Seen.Growing != test.growing || row.Seen.Waiting != test.waiting {
			t.Errorf("window %d: sorted by %v, %+v", n, table.Sort, row.Seen)
		}
		if test.want == ByWaiting && table.Rows[0].Key != "<0.44.0>" {
			t.Errorf("window %d: %s comes first", n, table.Rows[0].Key)
		}
		m.SortBy(ByGC)
		if table := m.Table(); table.Sort != ByGC || table.Auto {
			t.Errorf("sorted by %v", table.Sort)
		}
		m.SortBy(Automatic)
	}
}

// A long queue grows even if it grows slowly, once it has grown at each of several readings. A
// queue that goes up and down does not grow.
func TestSlowGrowth(t *testing.T) {
	for _, test := range []struct {
		waiting []int64
		want    int // index of the first reading at which it grows
	}{
		{[]int64{100_000, 100_300, 100_600, 100_900, 101_200, 101_500, 101_800}, 5},
		{[]int64{200, 201, 202, 203, 204, 205, 206}, 5},
		{[]int64{100_000, 100_300, 100_000, 100_300, 100_600, 100_900, 101_200, 101_500}, 7},
		{[]int64{100_000, 100_300, 100_200, 100_300, 100_400, 100_400, 100_500}, 7},
		{[]int64{90, 91, 92, 93, 94, 95, 96}, 7},
	} {
		var g growth
		id := ID{Key: "<0.44.0>"}
		for n, waiting := range test.waiting {
			s := Survey{Rows: map[ID]Seen{id: {Waiting: waiting}}}
			g.add(&s)
			if want := n >= test.want; s.Rows[id].Growing != want || g.some != want {
				t.Errorf("%v: reading %d: grows is %v", test.waiting, n, s.Rows[id].Growing)
			}
		}
	}
}

// A process has a row even if only its queue is known. A survey of a different kind of rows is not
// shown.
func TestRowWithQueueOnly(t *testing.T) {
	m := fed(t, 2, shop)
	p := plan(Everything, outcome.GroupPID)
	stuck := load{key: "<0.999.0>", pid: 999, name: "stuck", waiting: 3000}
	m.Survey(surveyAt(p, 2, append(loads(2), stuck), shop))
	other := surveyAt(p, 2, nil, shop)
	other.By = outcome.GroupMFA
	m.Survey(other)
	if _, err := m.Add(batch(p, 2, shop)); err != nil {
		t.Fatal(err)
	}
	if row := rowOf(t, m.Table(), "<0.999.0>"); row.Seen.Waiting != 3000 || row.Name != "stuck" || row.Process != 999 {
		t.Errorf("%+v", row)
	}
}

// A survey that was made after the end of a window belongs to the next one.
func TestSurveyOfNextWindow(t *testing.T) {
	m := fed(t, 1, shop)
	p := plan(Everything, outcome.GroupPID)
	m.Survey(surveyAt(p, 2, []load{{key: "<0.44.0>", pid: 44, waiting: 7777}}, shop))
	for n := 1; n <= 2; n++ {
		if _, err := m.Add(batch(p, n, shop)); err != nil {
			t.Fatal(err)
		}
		if got, want := rowOf(t, m.Table(), "<0.44.0>").Seen.Waiting, []int64{0, 40, 7777}[n]; got != want {
			t.Errorf("window %d: %d waiting, want %d", n, got, want)
		}
	}
}
