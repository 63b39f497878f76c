package top

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
)

// fed returns a model with some windows of the shop.
func fed(t *testing.T, windows int, vms ...outcome.VM) *Model {
	t.Helper()
	m := NewModel(outcome.GroupPID, price.Limit{Share: price.DefaultShare})
	p := plan(Everything, outcome.GroupPID)
	m.Configure(p)
	for n := range windows {
		if err := see(m, p, n, loads(n), vms...); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func rowOf(t *testing.T, table *Table, key string) *Row {
	t.Helper()
	at := slices.IndexFunc(table.Rows, func(r Row) bool { return r.Key == key })
	if at < 0 {
		t.Fatalf("no row %s", key)
	}
	return &table.Rows[at]
}

// The figures of a row cover its instances in the windows of the average.
func TestFigures(t *testing.T) {
	m := fed(t, 3, shop)
	m.Average(2) // order_writer had 1400 and 2100 messages in windows 1 and 2
	table := m.Table()
	r := rowOf(t, table, "<0.44.0>")
	if r.Name != "order_writer" || r.Process != 44 || r.VM != shop {
		t.Errorf("row %+v", r)
	}
	mailbox := r.Kinds[Mailbox]
	if got := (Figures{Known: true, Instances: 3506, Timeouts: 6, PerSecond: 1753, Inferred: true}); !cmp.Equal(mailbox, got, cmpopts.IgnoreFields(Figures{}, "Share", "P50", "P99")) {
		t.Errorf("mailbox: %+v", mailbox)
	}
	// The waits are 0.45 to 1.35 s, so the median is at most the edge of its bucket above 0.9 s.
	if lo, hi := outcome.BucketBounds(outcome.Bucket(900 * time.Millisecond)); mailbox.P50.AtMost < lo || mailbox.P50.AtMost > hi || mailbox.P50.Beyond {
		t.Errorf("p50 %+v, want between %v and %v", mailbox.P50, lo, hi)
	}
	gc := r.Kinds[GC]
	if gc.Instances != 40 || gc.PerSecond != 20 || gc.Amount != 240_000 || gc.Inferred {
		t.Errorf("gc: %+v", gc)
	}
	_, total := spread(20, 300*time.Microsecond)
	if want := total.Seconds(); math.Abs(gc.Share-want) > 1e-12 {
		t.Errorf("share %v, want %v", gc.Share, want)
	}
}

// If more than one instance in a hundred took longer than the scale, the 99th percentile is
// beyond it.
func TestBeyondScale(t *testing.T) {
	delays, total := spread(98, time.Millisecond)
	tl := tallyOf(&outcome.Group{Successes: 98, Timeouts: 2, Delays: delays, Total: total})
	var all sum
	all.add(&tl)
	if q := all.quantile(0.99); !q.Some || !q.Beyond {
		t.Errorf("p99 %+v", q)
	}
	if q := all.quantile(0.98); !q.Some || q.Beyond {
		t.Errorf("p98 %+v", q)
	}
	if q := new(sum).quantile(0.5); q.Some {
		t.Errorf("without instances: %+v", q)
	}
}

// Quantiles of successes are those of [outcome.Delays].
func TestQuantileEqualsThatOfDelays(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		parts := rapid.SliceOfN(rapid.SliceOfN(rapid.Int64Range(0, int64(time.Hour)), 0, 20), 1, 4).Draw(r, "delays")
		p := rapid.Float64Range(0, 1).Draw(r, "p")
		var all outcome.Delays
		var sum sum
		for _, part := range parts {
			d := make(outcome.Delays, outcome.DelayBuckets)
			for _, x := range part {
				d[outcome.Bucket(time.Duration(x))]++
			}
			all.Add(d)
			tl := tallyOf(&outcome.Group{Successes: uint64(len(part)), Delays: d})
			sum.add(&tl)
		}
		_, hi, ok := all.Quantile(p, 0)
		if got := sum.quantile(p); got.Some != ok || got.Beyond || got.AtMost != hi {
			r.Errorf("quantile %v is %+v, want %v %v", p, got, hi, ok)
		}
	})
}

// anyBatch draws a possible batch of window n, with rows of several VMs, a rest, and kinds that
// were not observed.
func anyBatch(r *rapid.T, p outcome.Plan, n int) *outcome.Batch {
	b := &outcome.Batch{Window: p.At(uint64(n)), Time: time.Unix(int64(n), 0)}
	for _, s := range p.Specs {
		for _, vm := range []outcome.VM{shop, store} {
			c := outcome.Counts{Outcome: s.Name, VM: vm, Unobserved: rapid.IntRange(0, 9).Draw(r, "unobserved") == 0}
			for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"<0.1.0>", "<0.2.0>", "<0.3.0>", "<0.4.0>", ""}), 0, 5, rapid.ID).Draw(r, "keys") {
				g := outcome.Group{
					Key: key, Successes: rapid.Uint64Range(0, 5).Draw(r, "ok"), Failures: rapid.Uint64Range(0, 2).Draw(r, "failed"),
					Timeouts: rapid.Uint64Range(0, 2).Draw(r, "timeout"), Amount: rapid.Uint64Range(0, 9).Draw(r, "amount"),
				}
				g.Delays, g.Total = spread(int(g.Successes), time.Duration(rapid.IntRange(1, 1e9).Draw(r, "delay")))
				c.Groups = append(c.Groups, g)
				c.Successes, c.Failures, c.Timeouts = c.Successes+g.Successes, c.Failures+g.Failures, c.Timeouts+g.Timeouts
			}
			c.Successes += rapid.Uint64Range(0, 1).Draw(r, "ungrouped")
			b.Counts = append(b.Counts, c)
		}
	}
	return b
}

// anyLook draws a sort order and a filter for a model, and returns it.
func anyLook(r *rapid.T, m *Model) {
	m.SortBy(Column(rapid.IntRange(0, int(columns)-1).Draw(r, "sort")))
	if rapid.Bool().Draw(r, "reverse") {
		m.Reverse()
	}
	m.Filter(rapid.SampledFrom([]string{"", "1", "<0.2", "shop", "(", "nobody", "1|2"}).Draw(r, "filter"))
}

// Whatever is sorted and filtered, the total covers all instances. Without a filter, the rows and
// the rest add up to the total.
func TestTotalsAreConserved(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := NewModel(outcome.GroupPID, price.Limit{})
		p := plan(Everything, outcome.GroupPID)
		m.Configure(p)
		average := rapid.IntRange(1, 5).Draw(r, "average")
		m.Average(average)
		var instances [][kinds]uint64
		for n := range rapid.IntRange(1, 7).Draw(r, "windows") {
			b := anyBatch(r, p, n)
			var of [kinds]uint64
			for _, c := range b.Counts {
				if k, _ := kindOf(c.Outcome); !c.Unobserved && len(c.Groups) > 0 {
					of[k] += c.Instances()
				}
			}
			instances = append(instances, of)
			if _, err := m.Add(b); err != nil {
				r.Fatal(err)
			}
		}
		whole := m.Table()
		anyLook(r, m)
		looked := m.Table()
		if diff := cmp.Diff(whole.Total, looked.Total); diff != "" {
			r.Errorf("the total changes with what is shown:\n%s", diff)
		}
		for k := range kinds {
			want := uint64(0)
			for _, of := range instances[max(0, len(instances)-average):] {
				want += of[k]
			}
			sum := whole.Others.Kinds[k].Instances
			for i := range whole.Rows {
				sum += whole.Rows[i].Kinds[k].Instances
			}
			if total := whole.Total.Kinds[k].Instances; total != want || sum != want {
				r.Errorf("%v: %d in all, %d in rows and rest, want %d", k, total, sum, want)
			}
		}
		wantOrdered(r, looked)
		for _, row := range looked.Rows {
			if !slices.ContainsFunc(whole.Rows, func(w Row) bool { return cmp.Equal(w, row, cmpopts.EquateNaNs()) }) {
				r.Errorf("%v is another row than without the filter", row)
			}
		}
		if looked.All != len(whole.Rows) {
			r.Errorf("%d rows in all, want %d", looked.All, len(whole.Rows))
		}
	})
}

// wantOrdered reports rows that are not in sort order.
func wantOrdered(r *rapid.T, t *Table) {
	if t.Sort.isText() {
		return
	}
	last := math.NaN()
	for i := range t.Rows {
		x := t.Sort.value(&t.Rows[i].Cells)
		switch {
		case i == 0:
		case math.IsNaN(last) && !math.IsNaN(x):
			r.Errorf("row %d is known, but the one before is not", i)
		case !t.Reverse && x > last, t.Reverse && x < last:
			r.Errorf("row %d has %v after %v", i, x, last)
		}
		last = x
	}
}

// The order of groups in a batch does not matter.
func TestOrderOfGroups(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := plan(Everything, outcome.GroupPID)
		a, b := NewModel(outcome.GroupPID, price.Limit{}), NewModel(outcome.GroupPID, price.Limit{})
		a.Configure(p)
		b.Configure(p)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
		for n := range 3 {
			x := anyBatch(r, p, n)
			_, _ = a.Add(x)
			for i := range x.Counts {
				g := x.Counts[i].Groups
				random.Shuffle(len(g), func(i, j int) { g[i], g[j] = g[j], g[i] })
			}
			_, _ = b.Add(x)
		}
		if diff := cmp.Diff(a.Table().Rows, b.Table().Rows, cmpopts.EquateNaNs()); diff != "" {
			r.Errorf("rows depend on their order:\n%s", diff)
		}
	})
}

// A frozen table does not change whatever data is added, and all that data is there afterwards.
func TestFreeze(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := plan(Everything, outcome.GroupPID)
		m, free := NewModel(outcome.GroupPID, price.Limit{}), NewModel(outcome.GroupPID, price.Limit{})
		m.Configure(p)
		free.Configure(p)
		n := 0
		feed := func(windows int) {
			for range windows {
				b := anyBatch(r, p, n)
				_, _ = m.Add(b)
				_, _ = free.Add(b)
				n++
			}
		}
		feed(rapid.IntRange(1, 3).Draw(r, "before"))
		m.Average(3)
		free.Average(3)
		m.Freeze(true)
		frozen := m.Table()
		since := rapid.SampledFrom([]int{0, 1, 2, 3, 4, maxWindows + 1}).Draw(r, "since") // after the last number, all earlier windows are gone
		feed(since)
		m.Freeze(true) // a second call changes nothing
		same := cmp.Options{cmpopts.EquateNaNs(), cmpopts.IgnoreUnexported(Table{}), cmpopts.IgnoreFields(Table{}, "Since", "Frozen")}
		now := m.Table()
		if diff := cmp.Diff(frozen, now, same); diff != "" {
			r.Errorf("the frozen table changes:\n%s", diff)
		}
		if want := min(since, maxWindows); now.Since != want || !now.Frozen {
			r.Errorf("%d windows since, want %d", now.Since, want)
		}
		m.Freeze(false)
		if diff := cmp.Diff(free.Table(), m.Table(), same); diff != "" {
			r.Errorf("the table differs from one that was never frozen:\n%s", diff)
		}
	})
}

// If some instances had no room among the rows, a row without instances is unknown, not zero.
func TestCrowdedOut(t *testing.T) {
	p := plan(Everything, outcome.GroupPID)
	m := NewModel(outcome.GroupPID, price.Limit{})
	m.Configure(p)
	b := batch(p, 0, shop)
	for i := range b.Counts {
		if c := &b.Counts[i]; c.Outcome == GC.String() {
			c.Groups[0].Key = "" // order_writer
		}
	}
	_, _ = m.Add(b)
	table := m.Table()
	if f := rowOf(t, table, "<0.44.0>").Kinds[GC]; f.Known {
		t.Errorf("order_writer: %+v", f)
	}
	if f := rowOf(t, table, "<0.102.0>").Kinds[GC]; !f.Known || f.Instances != 400 {
		t.Errorf("cart: %+v", f)
	}
	if f := rowOf(t, table, "<0.103.0>").Kinds[Mailbox]; !f.Known || f.Instances != 0 {
		t.Errorf("nothing was crowded there: %+v", f)
	}
	if f := table.Others.Kinds[GC]; f.Instances != 20 {
		t.Errorf("others: %+v", f)
	}
}

// Nothing is known about instances that belong to no group.
func TestWithoutGroups(t *testing.T) {
	m := fed(t, 1, shop)
	b := batch(plan(Everything, outcome.GroupPID), 1, shop)
	for i := range b.Counts {
		if b.Counts[i].Outcome == Run.String() {
			b.Counts[i].Groups = nil
		}
	}
	if _, err := m.Add(b); err != nil {
		t.Fatal(err)
	}
	table := m.Table()
	if f := rowOf(t, table, "<0.44.0>").Kinds[Run]; f.Known || table.Total.Kinds[Run].Known || !table.Partial {
		t.Errorf("order_writer %+v, all %+v", f, table.Total.Kinds[Run])
	}
}

// Names stay with rows. Rows without recent activity stay as long as the history.
func TestRowsStay(t *testing.T) {
	m := fed(t, 1, shop)
	p := plan(Everything, outcome.GroupPID)
	quiet := func(n int) {
		b := batch(p, n, shop)
		for i := range b.Counts {
			b.Counts[i].Groups = nil
			b.Counts[i].Successes, b.Counts[i].Timeouts = 0, 0
		}
		_, _ = m.Add(b)
	}
	for n := 1; n < maxWindows; n++ {
		quiet(n)
	}
	if r := rowOf(t, m.Table(), "<0.44.0>"); r.Name != "order_writer" || !r.Kinds[Run].Known || r.Kinds[Run].Share != 0 {
		t.Errorf("row %+v", r)
	}
	quiet(maxWindows)
	if table := m.Table(); len(table.Rows) != 0 {
		t.Errorf("%d rows without activity for long", len(table.Rows))
	}
}

// A process that has ended has no row once its figures are out of the average. A live process
// keeps its row however little it does.
func TestRowsOfExitedProcessesDisappear(t *testing.T) {
	m := fed(t, 1, shop)
	p := plan(Everything, outcome.GroupPID)
	const dead, idle = "<0.44.0>", "<0.103.0>"
	rows := func() (keys []string) {
		for _, r := range m.Table().Rows {
			keys = append(keys, r.Key)
		}
		return keys
	}
	if keys := rows(); !slices.Contains(keys, dead) || !slices.Contains(keys, idle) {
		t.Fatalf("rows %q", keys)
	}
	for n := 1; n < maxWindows-1; n++ {
		survey := surveyAt(p, n, loads(n), shop)
		survey.From, survey.To = p.At(uint64(n)).To-2, p.At(uint64(n)).To-1
		delete(survey.Rows, ID{shop, dead})
		delete(survey.Names, ID{shop, dead})
		m.Survey(survey)
		b := batch(p, n, shop)
		for i := range b.Counts {
			b.Counts[i].Groups, b.Counts[i].Successes, b.Counts[i].Timeouts = nil, 0, 0
		}
		if _, err := m.Add(b); err != nil {
			t.Fatal(err)
		}
	}
	if keys := rows(); slices.Contains(keys, dead) || !slices.Contains(keys, idle) {
		t.Errorf("rows %q", keys)
	}
}

// The figures of a kind that was given up are unknown, even if the average includes windows in
// which it was observed.
func TestGivenUpKindIsUnknown(t *testing.T) {
	m := fed(t, 3, shop)
	m.Average(5)
	m.Configure(plan(2, outcome.GroupPID))
	if err := see(m, plan(2, outcome.GroupPID), 3, loads(3), shop); err != nil {
		t.Fatal(err)
	}
	table := m.Table()
	row := rowOf(t, table, "<0.44.0>")
	for name, cells := range map[string]Cells{"total": table.Total, "others": table.Others, "row": row.Cells} {
		if cells.Kinds[Run].Known || name != "others" && !cells.Kinds[Mailbox].Known {
			t.Errorf("%s: run %+v, mailbox %+v", name, cells.Kinds[Run], cells.Kinds[Mailbox])
		}
	}
}

// A new kind of rows starts anew. The same rows continue if less is observed.
func TestConfigure(t *testing.T) {
	m := fed(t, 3, shop)
	m.SortBy(BySlices)
	m.Configure(plan(1, outcome.GroupPID))
	table := m.Table()
	if table.Windows == 0 || table.Level != 1 || table.Sort != ByGC || table.DMax[Run] != dMax {
		t.Errorf("level %d, sorted by %v, %d windows, dMax %v", table.Level, table.Sort, table.Windows, table.DMax)
	}
	m.Configure(plan(Everything, outcome.GroupMFA))
	if table := m.Table(); table.Windows != 0 || table.By != outcome.GroupMFA {
		t.Errorf("%d windows by %s", table.Windows, table.By)
	}
}

// If the cost is too high for two seconds, the most expensive kind is given up.
func TestGivesUp(t *testing.T) {
	m := fed(t, 2, shop)
	n := 2
	add := func(events uint64, level Level) (string, error) {
		p := plan(level, outcome.GroupPID)
		b := batch(p, n, shop)
		b.Cost = outcome.Cost{Events: events, PerEvent: time.Microsecond}
		n++
		return m.Add(b)
	}
	const fine, much = 100_000, 100_001 // at 1 µs: a tenth of a core, and more
	for _, events := range []uint64{much, fine, much, fine} {
		if notice, err := add(events, 3); notice != "" || err != nil {
			t.Fatalf("one window above: %q, error %v", notice, err)
		}
	}
	for range 5 {
		b := batch(plan(3, outcome.GroupPID), n, shop)
		b.Cost, b.Strangers = outcome.Cost{Events: much, PerEvent: time.Microsecond}, true
		n++
		if notice, err := m.Add(b); notice != "" || err != nil {
			t.Fatalf("a cost that is not that of the VMs: %q, error %v", notice, err)
		}
	}
	_, _ = add(much, 3)
	if notice, err := add(much, 3); err != nil || !strings.HasPrefix(notice, "gave up run: 100k events/s = 10.0% of a core") {
		t.Fatalf("%q, error %v", notice, err)
	}
	for range 3 { // windows of the old plan are not judged
		if notice, err := add(much, 3); notice != "" || err != nil {
			t.Fatalf("before the other plan begins: %q, error %v", notice, err)
		}
	}
	m.Configure(plan(2, outcome.GroupPID))
	_, _ = add(much, 2) // programs that were given up may still have been attached
	_, _ = add(much, 2)
	if notice, _ := add(much, 2); !strings.HasPrefix(notice, "gave up mailbox: ") {
		t.Fatalf("%q", notice)
	}
	m.Configure(plan(1, outcome.GroupPID))
	_, _ = add(much, 1)
	_, _ = add(much, 1)
	table := m.Table()
	if text, why := table.givenUpText(); table.Level != 1 || text != "without mailbox and run" || why == "" || rowOf(t, table, "<0.44.0>").Kinds[Run].Known {
		t.Errorf("level %d, %q: %q", table.Level, text, why)
	}
	if _, err := add(much, 1); !errors.Is(err, ErrLimit) {
		t.Errorf("error %v", err)
	}
	m.Retry()
	if level, _ := m.Wanted(); level != Everything {
		t.Errorf("again: level %d", level)
	}
}

func TestFilter(t *testing.T) {
	m := fed(t, 1, shop, store)
	for filter, want := range map[string]int{"": 86, "ORDER_": 2, "cart|order": 4, "<0.44.0>": 2, "a[red": 2, "1802": 43, "nobody": 0, "myapp.worker:init": 2, "'Elixir.MyApp": 2, "(": 43, "^<0.2..?.0>": 80} {
		m.Filter(filter)
		if got := len(m.Table().Rows); got != want {
			t.Errorf("%q: %d rows, want %d", filter, got, want)
		}
	}
}

// The trend shows the column by which the table is sorted, with gaps for missing windows.
func TestTrend(t *testing.T) {
	m := fed(t, 3, shop)
	m.SortBy(ByMessages)
	table := m.Table()
	got := table.Trend(rowOf(t, table, "<0.44.0>"), 5)
	if diff := cmp.Diff([]float64{math.NaN(), math.NaN(), 700, 1400, 2100}, got, cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
}

// A lower bound of zero contains no information about the oldest message.
func TestOldestBoundOfZero(t *testing.T) {
	for oldest, want := range map[time.Duration]string{0: "-", 400 * time.Nanosecond: "-", time.Microsecond: "≥1.00µs+", time.Second: "≥1.00s+"} {
		if got := (&Seen{Aged: true, Before: true, Oldest: oldest}).oldestText(); got != want {
			t.Errorf("%v: %s, want %s", oldest, got, want)
		}
	}
}

// A VM in which messages are taken whose sending was not seen, such as the replies to most calls, does not
// tell which processes took them. Its figures are lower bounds, and those of other VMs are not.
func TestMessagesWithoutStart(t *testing.T) {
	w := &window{Window: outcome.Window{To: int64(time.Second)}, vms: make(map[outcome.VM]*[kinds]machine), rows: make(map[ID]*[kinds]tally), names: make(map[ID]name)}
	for vm, orphans := range map[outcome.VM]uint64{shop: 1, store: 0} {
		w.count(Mailbox, &outcome.Counts{VM: vm, Successes: 1, Orphans: orphans, Groups: []outcome.Group{{Key: "<0.44.0>", Successes: 1}}})
	}
	for vm, want := range map[outcome.VM]bool{shop: true, store: false} {
		for _, key := range []string{"<0.44.0>", "<0.45.0>"} {
			if f := figuresOf(ID{vm, key}, Mailbox, []*window{w}); !f.Known || f.AtLeast != want {
				t.Errorf("%v %s: %+v", vm, key, f)
			}
		}
	}
	if f := totalOf(Mailbox, []*window{w}); !f.AtLeast {
		t.Errorf("all: %+v", f)
	}
}

// Messages that time out were not taken. If messages may be taken without being counted, the
// figure is a lower bound, and it is left out if that is 0.
func TestMessagesTaken(t *testing.T) {
	for _, test := range []struct {
		of   Cells
		want string
	}{
		{Cells{Kinds: [kinds]Figures{Mailbox: {Known: true, Instances: 50, PerSecond: 50}}}, "50"},
		{Cells{Kinds: [kinds]Figures{Mailbox: {Known: true, Instances: 70, Timeouts: 70, PerSecond: 70}}}, "-"},
		{Cells{Kinds: [kinds]Figures{Mailbox: {Known: true, Instances: 100, Timeouts: 60, PerSecond: 50}}}, "≥20"},
		{Cells{Kinds: [kinds]Figures{Mailbox: {Known: true, Instances: 100, PerSecond: 50, AtLeast: true}}}, "≥50"},
		{Cells{Kinds: [kinds]Figures{Mailbox: {Known: true, AtLeast: true}}}, "-"},
		{Cells{Kinds: [kinds]Figures{Mailbox: {Known: true}}, Seen: Seen{Known: true, Before: true}}, "-"},
		{Cells{Seen: Seen{Known: true, Before: true}}, "-"},
	} {
		if got := ByMessages.cell(&test.of, new([kinds]time.Duration)); got != test.want {
			t.Errorf("%+v: %s, want %s", test.of.Kinds[Mailbox], got, test.want)
		}
	}
}
