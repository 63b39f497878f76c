package bpf

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// grid has the beginning and the length of the windows of fake collectors.
const gridStart, gridWindow = 1_000, 100

// counted returns an outcome without probes. A fake collector only supports outcomes with rules,
// because the others are on labels in a map of the kernel.
func counted(name string, bins int) Outcome {
	return Outcome{Name: name, DMax: 50, BinWidth: 10, Bins: bins, Rule: new(dtrace.Rule)}
}

// fakeCollector returns a collector with ordinary memory instead of the kernel's maps: the test
// counts like the programs.
func fakeCollector(t rapid.TB, spare int, outcomes ...Outcome) *Collector {
	const vms, stripes = 2, 2
	l := layout{slots: vms + 1, stripes: stripes, stripeCells: others + vms + 1}
	for range spare + 1 {
		for _, o := range outcomes {
			l.stripeCells += l.size(o.Bins)
		}
	}
	entries := len(outcomes) * (spare + 1)
	c := &Collector{
		opts:     Options{Outcomes: outcomes, Start: gridStart, Window: gridWindow, VMs: vms},
		layout:   l,
		entries:  make([]entry, entries),
		arena:    newArena(l.ofOutcomes()),
		numbers:  make(map[string]int),
		programs: make(map[variant]loaded),
		vmHits:   make(map[int]uint64),
		userHits: make(map[int]uint64),
		since:    make(map[int]int64),

		discovered: make([]int, l.slots),
		memory: &mappings{
			cells:    make([]uint64, stripes*l.stripeCells),
			outcomes: make([]kernelOutcome, entries),
			clock:    new(kernelClock),
			slotPIDs: []uint64{101, 0},
			worsts:   make([]kernelWorst, entries*l.slots*windows),
		},
	}
	if err := c.begin(); err != nil {
		t.Fatal(err)
	}
	return c
}

// count adds to a column, or a bin behind the columns, in a row.
func (c *Collector) count(stripe, entry, slot, row, column int, n uint64) {
	first := c.layout.row(c.entries[entry].cells, c.entries[entry].outcome.Bins, slot, row)
	c.memory.cells[stripe*c.layout.stripeCells+first+column] += n
}

// fields are the counters in the order of the programs' columns.
func fields(c Counters) []uint64 {
	return []uint64{
		c.Starts, c.Ends, c.Successes, c.Failures, c.Timeouts, c.Orphans, c.Lates, c.ReadErrors,
		c.MapFull, c.RingFull, c.Cut, c.ExitsLost, c.Dropped, c.Inferred, c.Unpaired, c.Amount,
	}
}

// Every count in any stripe is read once: in its window, or as stray.
func TestCountsAreReadOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		outcomes := []Outcome{counted("a", 3), counted("b", 5)}
		c := fakeCollector(t, 0, outcomes...)
		type place struct{ entry, slot, row int }
		waiting := map[place][]uint64{} // unread counts: columns and then bins
		at := func(p place) []uint64 {
			if waiting[p] == nil {
				waiting[p] = make([]uint64, columns+outcomes[p.entry].Bins)
			}
			return waiting[p]
		}
		slots := 1
		for n := range uint64(20) {
			if rapid.IntRange(0, 5).Draw(t, "another VM") == 0 && slots == 1 {
				c.memory.slotPIDs[1], slots = 102, 3 // and VMs without a slot
			}
			for range rapid.IntRange(0, 10).Draw(t, "events") {
				p := place{rapid.IntRange(0, 1).Draw(t, "outcome"), rapid.IntRange(0, slots-1).Draw(t, "slot"), rapid.IntRange(0, windows).Draw(t, "row")}
				k := rapid.IntRange(0, columns+outcomes[p.entry].Bins-1).Draw(t, "column")
				amount := rapid.Uint64Range(1, 9).Draw(t, "amount")
				if k >= columns { // bins count successes
					c.count(0, p.entry, p.slot, p.row, int(kernelColumnSUCCESSES), amount)
					at(p)[kernelColumnSUCCESSES] += amount
				}
				c.count(rapid.IntRange(0, 1).Draw(t, "stripe"), p.entry, p.slot, p.row, k, amount)
				at(p)[k] += amount
			}
			if rapid.IntRange(0, 9).Draw(t, "stray") == 0 {
				stray, err := c.Stray()
				if err != nil || len(stray) != slots*len(outcomes) {
					t.Fatalf("%d counts, error %v", len(stray), err)
				}
				for i, got := range stray {
					p := place{i / slots, i % slots, windows}
					if diff := cmp.Diff(at(p)[:columns], fields(got.Stray)); diff != "" || got.Counters != (Counters{}) {
						t.Fatalf("stray of %+v: -want +got:\n%s", p, diff)
					}
					clear(at(p))
				}
			}
			for i := range c.memory.worsts {
				c.memory.worsts[i].Floor = 7
			}
			counts, _, err := c.Read(n)
			if err != nil || len(counts) != slots*len(outcomes) {
				t.Fatalf("%d counts, error %v", len(counts), err)
			}
			for i, got := range counts {
				in, stray := place{i / slots, i % slots, int(n % windows)}, place{i / slots, i % slots, windows}
				if got.Outcome != in.entry || got.PID != []int{101, 102, 0}[in.slot] {
					t.Fatalf("counts %d are of outcome %d and VM %d", i, got.Outcome, got.PID)
				}
				if diff := cmp.Diff(at(in), append(fields(got.Counters), got.Bins...)); diff != "" {
					t.Fatalf("window %d of %+v: -want +got:\n%s", n, in, diff)
				}
				if diff := cmp.Diff(at(stray)[:columns], fields(got.Stray)); diff != "" {
					t.Fatalf("stray of %+v: -want +got:\n%s", stray, diff)
				}
				clear(at(in))
				clear(at(stray))
			}
			for i, w := range c.memory.worsts {
				if read := i%windows == int(n%windows); read != (w.Floor == 0) {
					t.Fatalf("window %d: the worst at %d are %+v", n, i, w)
				}
			}
			if from, to := c.Window(n + 1); from != gridStart+gridWindow*(int64(n)+1) || to != from+gridWindow || c.memory.clock.Oldest != n+1 {
				t.Fatalf("after window %d the oldest is %d, from %d to %d", n, c.memory.clock.Oldest, from, to)
			}
		}
	})
}

// Counts without an outcome are read once too.
func TestOthersAreReadOnce(t *testing.T) {
	c := fakeCollector(t, 0, counted("a", 1))
	for i := range c.layout.ofOutcomes().first {
		c.memory.cells[i] = uint64(i + 1)
		c.memory.cells[c.layout.stripeCells+i] = 100
	}
	for n, want := range []Others{
		{Hits: Hits{108 + 109 + 110, 105, 106, 107}, Foreign: 101, Nameless: 102, Unnoted: 103, Unwatched: 104}, {},
	} {
		_, got, err := c.Read(uint64(n))
		if got != want || err != nil {
			t.Errorf("%+v, error %v, want %+v", got, err, want)
		}
	}
	for _, want := range []map[int]uint64{{101: 108}, {}} { // the other slots have no VM
		if got := c.VMHits(); !maps.Equal(got, want) {
			t.Errorf("hits of VMs %v, want %v", got, want)
		}
	}
}

// The counts of windows that are given up are loss. Those of later windows are not.
func TestSkip(t *testing.T) {
	for _, test := range []struct{ to, want uint64 }{{3, 1 + 2 + 4}, {8, 255}, {100, 255}, {0, 0}} {
		c := fakeCollector(t, 0, counted("a", 1))
		for row := range windows + 1 {
			c.count(row%2, 0, 0, row, int(kernelColumnSUCCESSES), 1<<row)
			c.count(row%2, 0, 0, row, columns, 1<<row)
		}
		for i := range c.memory.worsts {
			c.memory.worsts[i].Floor = 7
		}
		lost, err := c.Skip(test.to)
		if err != nil || len(lost) != 1 || lost[0].Stray.Successes != test.want || lost[0].Counters != (Counters{}) {
			t.Errorf("to %d: %+v, error %v, want %d lost", test.to, lost, err, test.want)
		}
		for i, w := range c.memory.worsts {
			if skipped := uint64(i%windows) < test.to; skipped != (w.Floor == 0) {
				t.Errorf("to %d: the worst at %d are %+v", test.to, i, w)
			}
		}
		counts, _, err := c.Read(test.to)
		want := uint64(0)
		if row := test.to % windows; test.to < windows {
			want = 1 << row
		}
		if err != nil || counts[0].Successes != want || counts[0].Bins[0] != want {
			t.Errorf("after a skip to %d: %+v, error %v, want %d", test.to, counts[0], err, want)
		}
	}
}

// Counters are added one by one. If they are given up, only their sum remains.
func TestCounters(t *testing.T) {
	var a, b [columns]uint64
	var sum []uint64
	for i := range a {
		a[i], b[i] = uint64(1)<<i, 3*uint64(1)<<i
		sum = append(sum, 4*uint64(1)<<i)
	}
	if diff := cmp.Diff(sum, fields(counters(&a).Add(counters(&b)))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	cut := counters(&a)
	want := cut
	want.Cut, want.Successes, want.Failures, want.Timeouts, want.RingFull, want.Inferred, want.Amount = 1<<10+1<<2+1<<3+1<<4, 0, 0, 0, 0, 0, 0
	if diff := cmp.Diff(want, cut.cut()); diff != "" {
		t.Errorf("given up: -want +got:\n%s", diff)
	}
	if got, want := (Hits{1, 2, 3, 4}).Add(Hits{10, 20, 30, 40}), (Hits{11, 22, 33, 44}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// later is a time for which no change of a test is too late.
const later = math.MaxInt64 / 2 / gridWindow * gridWindow

// A change holds from its window on, and the numbers of windows continue. Earlier windows are read
// unchanged, and given-up counts are marked as such.
func TestChangeOfPlans(t *testing.T) {
	a, b := counted("a", 3), counted("b", 2)
	c := fakeCollector(t, 2, a, b)
	const at = gridStart + later
	first := uint64(later / gridWindow)
	c.oldest = first - 2
	longer, third := a, counted("c", 1)
	longer.DMax = 80
	if missing, err := c.Change(t.Context(), at, 7, []Outcome{b, longer, third}); missing != nil || err != nil {
		t.Fatal(missing, err)
	}
	for _, test := range []struct {
		window   uint64
		from, to int64
	}{{first - 1, at - gridWindow, at}, {first, at, at + 7}, {first + 3, at + 21, at + 28}} {
		if from, to := c.Window(test.window); from != test.from || to != test.to {
			t.Errorf("window %d is from %d to %d, want %d to %d", test.window, from, to, test.from, test.to)
		}
		for time, want := range map[int64]uint64{test.from - 1: test.window - 1, test.from: test.window, test.to - 1: test.window, test.to: test.window + 1} {
			if got := c.Number(time); got != want {
				t.Errorf("%d is in window %d, want %d", time, got, want)
			}
		}
	}
	if got := c.Number(5); got != 0 {
		t.Errorf("what is before all windows is in window %d", got)
	}
	type era = struct{ from, window, first uint64 }
	for i, want := range []era{{gridStart, gridWindow, 0}, {at, 7, first}} {
		if e := c.memory.clock.Eras[i]; (era{e.FromNs, e.WindowNs, e.First}) != want {
			t.Errorf("era %d is %+v, want %+v", i, e, want)
		}
	}
	for id, want := range map[string]int{a.ID(): 0, b.ID(): 1, third.ID(): 2, "a": -1} {
		if got := c.Outcome(id); got != want || want >= 0 && c.ID(got) != id {
			t.Errorf("%q has number %d, want %d", id, got, want)
		}
	}
	if id := c.ID(3); id != "" {
		t.Errorf("number 3 is that of %q", id)
	}
	// Entries: the old a, b, the new a, c.
	for i, want := range []struct{ since, until uint64 }{{gridStart, at}, {gridStart, forever}, {at, forever}, {at, forever}} {
		if o := c.memory.outcomes[i]; o.SinceNs != want.since || o.UntilNs != want.until {
			t.Errorf("entry %d is from %d to %d, want %+v", i, o.SinceNs, o.UntilNs, want)
		}
	}
	if _, err := c.Change(t.Context(), at+7, 7, []Outcome{b}); !errors.Is(err, ErrPending) {
		t.Errorf("a change on another: %v", err)
	}
	read := func(n uint64) string {
		t.Helper()
		for i := range 4 {
			c.count(i%2, i, 0, int(n%windows), int(kernelColumnSUCCESSES), uint64(i+1))
			c.count(i%2, i, 0, int(n%windows), int(kernelColumnSTARTS), uint64(i+1))
		}
		counts, _, err := c.Read(n)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, k := range counts {
			text += fmt.Sprintf("%d: %d+%d/%d ", k.Outcome, k.Successes, k.Cut, k.Starts)
		}
		return text
	}
	if got, want := read(first-2), "0: 1+0/1 1: 2+0/2 "; got != want {
		t.Errorf("before the change: %s, want %s", got, want)
	}
	read(first - 1)
	// The first entry belongs to the old outcome: its ends are given up.
	if got, want := read(first), "1: 2+0/2 0: 3+1/4 2: 4+0/4 "; got != want {
		t.Errorf("after the change: %s, want %s", got, want)
	}
	if len(c.plans) != 1 || c.era != 1 {
		t.Errorf("%d plans, era %d", len(c.plans), c.era)
	}
}

// An entry is free again when none of its instances can be open in an unread window: dMax after its
// end, and not before.
func TestEntriesAreFreed(t *testing.T) {
	a, b := counted("a", 3), counted("b", 2)
	a.DMax = 3 * gridWindow
	c := fakeCollector(t, 1, a, b)
	room := slices.Clone(c.arena.free)
	const at = gridStart + later
	first := uint64(later / gridWindow)
	c.oldest = first - 1
	if _, err := c.Change(t.Context(), at, gridWindow, []Outcome{b}); err != nil {
		t.Fatal(err)
	}
	for n := first - 1; n < first+6; n++ {
		if _, _, err := c.Read(n); err != nil {
			t.Fatal(err)
		}
		// Instances that started before the end can end 3 windows later, at the first instant of
		// window first+3. The entry is free when that window is read.
		freed := n >= first+3
		o := c.memory.outcomes[0]
		if c.entries[0].used == freed || freed != (o.SinceNs == forever) || freed && (o.Label != noLabel || o.Flags != 0) {
			t.Errorf("after window first%+d: used %v, %+v", int64(n-first), c.entries[0].used, o)
		}
	}
	cells := region{c.layout.ofOutcomes().first, c.layout.size(a.Bins)}
	if len(c.arena.free) != 2 || c.arena.free[0] != cells || c.arena.free[1] != room[0] {
		t.Errorf("free are %+v, want %+v and %+v", c.arena.free, cells, room)
	}
	// Its cells are not empty, but their contents do not count.
	c.memory.cells[c.layout.ofOutcomes().first] = 5
	next := uint64(first + 6)
	if _, err := c.Change(t.Context(), at+7*gridWindow, gridWindow, []Outcome{a, b}); err != nil {
		t.Fatal(err)
	}
	c.Read(next)
	counts, _, err := c.Read(next + 1)
	if err != nil || len(counts) != 2 || counts[0].Starts != 0 || counts[0].Outcome != 0 {
		t.Errorf("%+v, error %v", counts, err)
	}
}

// Ends of a replaced outcome are given up, also if it is the first.
func TestFirstIsReplaced(t *testing.T) {
	a := counted("a", 3)
	c := fakeCollector(t, 1, a)
	c.oldest = later / gridWindow
	longer := a
	longer.DMax = 60
	if _, err := c.Change(t.Context(), gridStart+later, gridWindow, []Outcome{longer}); err != nil {
		t.Fatal(err)
	}
	for _, row := range []int{later / gridWindow % windows, windows} {
		c.count(0, 0, 0, row, int(kernelColumnTIMEOUTS), 5)
	}
	counts, _, err := c.Read(later / gridWindow)
	if err != nil || len(counts) != 1 || counts[0].Cut != 5 || counts[0].Stray.Cut != 5 {
		t.Errorf("%+v, error %v", counts, err)
	}
}

// Explains is true if explanations are possible, or if an outcome of a plan is explained.
func TestExplains(t *testing.T) {
	c := fakeCollector(t, 0, counted("a", 1))
	check := func(want bool, flags uint32) {
		t.Helper()
		if got := c.Explains(); got != want || c.memory.outcomes[0].Flags != flags {
			t.Errorf("explains: %v, flags %#x", got, c.memory.outcomes[0].Flags)
		}
	}
	check(false, 0)
	c.opts.Explain = true
	check(true, 0)
	c.opts.Explain = false
	next := c.plans[0]
	next.outcomes = slices.Clone(next.outcomes)
	next.outcomes[0].Explain = true
	c.plans = append(c.plans, next)
	if err := c.publish(next, nil); err != nil {
		t.Fatal(err)
	}
	check(true, flagExplain)
	next.outcomes = []Outcome{c.plans[0].outcomes[0]}
	if err := c.publish(next, nil); err != nil { // the earlier plan is still explained
		t.Fatal(err)
	}
	check(true, flagExplain)
}

// The texts of conditions can be as long as those that the programs read.
func TestGroupsHaveLongTexts(t *testing.T) {
	if textMost != dtrace.MaxText {
		t.Errorf("%d bytes, want %d", textMost, dtrace.MaxText)
	}
}

// Counting continues without a gap if a plan changes only the details of an outcome. Until the
// windows before the change are read, the programs deliver the details of both plans.
func TestDetailsChange(t *testing.T) {
	a := counted("a", 3)
	c := fakeCollector(t, 0, a)
	if c.Streams() {
		t.Error("something is streamed")
	}
	const at = gridStart + later
	c.oldest = later/gridWindow - 1
	all := a
	all.Stream = StreamAll
	if _, err := c.Change(t.Context(), at, gridWindow, []Outcome{all}); err != nil {
		t.Fatal(err)
	}
	if !c.Streams() || c.memory.outcomes[0].Flags != flagStream {
		t.Errorf("flags are %#x", c.memory.outcomes[0].Flags)
	}
	for n := range uint64(2) {
		if _, _, err := c.Read(later/gridWindow - 1 + n); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Change(t.Context(), at+3*gridWindow, gridWindow, []Outcome{a}); err != nil {
		t.Fatal(err)
	}
	for n, flags := range []uint32{flagStream, 0, 0} {
		if _, _, err := c.Read(later/gridWindow + 1 + uint64(n)); err != nil {
			t.Fatal(err)
		}
		if got := c.memory.outcomes[0].Flags; got != flags {
			t.Errorf("after window %d behind the change: flags are %#x, want %#x", n, got, flags)
		}
	}
}

// A change that is refused leaves everything as it was.
func TestRefusedChanges(t *testing.T) {
	a := counted("a", 3)
	large := counted("large", 100)
	spans := a
	spans.Rule, spans.Explain = nil, true
	const at = gridStart + later
	for name, test := range map[string]struct {
		from, window int64
		outcomes     []Outcome
		want         error
	}{
		"beside the grid":  {at + 1, gridWindow, []Outcome{a}, ErrOptions},
		"at the beginning": {gridStart, gridWindow, []Outcome{a}, ErrOptions},
		"before":           {gridStart - gridWindow, gridWindow, []Outcome{a}, ErrOptions},
		"no windows":       {at, 0, []Outcome{a}, ErrOptions},
		"too late":         {gridStart + gridWindow, gridWindow, []Outcome{a, counted("b", 1)}, ErrLate},
		"no room":          {at, gridWindow, []Outcome{counted("b", 1), large}, ErrNoRoom},
		"too many":         {at, gridWindow, []Outcome{a, counted("b", 1), counted("c", 1)}, ErrNoRoom},
		"no log":           {at, gridWindow, []Outcome{spans}, ErrNoRoom},
	} {
		c := fakeCollector(t, 1, a)
		plans, entries, arena, memory := slices.Clone(c.plans), slices.Clone(c.entries), slices.Clone(c.arena.free), slices.Clone(c.memory.outcomes)
		missing, err := c.Change(t.Context(), test.from, test.window, test.outcomes)
		if missing != nil || !errors.Is(err, test.want) {
			t.Errorf("%s: %v, %v, want %v", name, missing, err, test.want)
		}
		if !reflect.DeepEqual(plans, c.plans) || !reflect.DeepEqual(entries, c.entries) || !slices.Equal(arena, c.arena.free) ||
			!slices.Equal(memory, c.memory.outcomes) || c.memory.clock.Eras[1].FromNs != noEra {
			t.Errorf("%s: something is left", name)
		}
	}
}

// The first plan of a collector can be moved until it begins.
func TestBegin(t *testing.T) {
	const unknown = math.MaxInt64 / 2
	waiting := func() *Collector {
		c := fakeCollector(t, 0, counted("a", 1), counted("b", 1))
		c.plans[0].from = unknown
		c.writeEra(c.era, c.plans[0])
		return c
	}
	begins := func(c *Collector) []uint64 {
		return []uint64{c.memory.clock.Eras[0].FromNs, c.memory.outcomes[0].SinceNs, c.memory.outcomes[1].SinceNs, uint64(c.plans[0].from)}
	}
	for name, test := range map[string]struct {
		start  func() int64
		change func(*Collector)
		want   error
	}{
		"in time":       {func() int64 { return later }, func(*Collector) {}, nil},
		"past":          {func() int64 { return gridStart }, func(*Collector) {}, ErrLate},
		"almost there":  {func() int64 { return monotonic.Now() + margin - 1 }, func(*Collector) {}, ErrLate},
		"it has begun":  {func() int64 { return later }, func(c *Collector) { c.plans[0].from = gridStart }, ErrOptions},
		"it is changed": {func() int64 { return later }, func(c *Collector) { c.plans = append(c.plans, c.plans[0]) }, ErrOptions},
		"it is closed":  {func() int64 { return later }, func(c *Collector) { c.closed = true }, ErrClosed},
	} {
		c := waiting()
		test.change(c)
		before := begins(c)
		if err := c.Begin(test.start()); !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, want %v", name, err, test.want)
		}
		want := before
		if test.want == nil {
			want = []uint64{later, later, later, later}
		}
		if got := begins(c); !slices.Equal(got, want) {
			t.Errorf("%s: it begins at %v, want %v", name, got, want)
		}
	}
	c := waiting()
	if err := c.Begin(gridStart); !errors.Is(err, ErrLate) {
		t.Fatal(err)
	}
	if err := c.Begin(later); err != nil || c.plans[0].from != later {
		t.Errorf("a later time after one that was past: %v, from %d", err, c.plans[0].from)
	}
}

// A target that lacks something for a change is named, and the change takes effect nevertheless.
func TestChangeNamesWhatIsMissing(t *testing.T) {
	send, ok := dtrace.Lookup("message-send")
	if !ok {
		t.Fatal("no message-send")
	}
	b := counted("b", 1)
	b.Rule = &dtrace.Rule{Start: dtrace.Expr{{Probe: send}}, End: dtrace.Expr{{Probe: send}}, Key: dtrace.Key{Start: "receiver", End: "receiver"}}
	c := fakeCollector(t, 1, counted("a", 1))
	c.targets = []*Attachment{{c: c, target: Target{Path: "/a/vm", Release: 25}, links: make(map[tap][]link.Link)}}
	missing, err := c.Change(t.Context(), gridStart+later, gridWindow, []Outcome{b})
	if !errors.Is(missing, ErrNoProbe) || !strings.Contains(missing.Error(), "/a/vm") || err != nil || len(c.plans) != 2 {
		t.Errorf("%v, %v, with %d plans", missing, err, len(c.plans))
	}
}

// No instance starts after the end, and ended entries stay unchanged.
func TestEnd(t *testing.T) {
	c := fakeCollector(t, 0, counted("a", 1), counted("b", 1))
	for _, from := range []int64{5_000, 6_000} {
		if err := c.End(from); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			if c.entries[i].until != 5_000 || c.memory.outcomes[i].UntilNs != 5_000 {
				t.Errorf("entry %d ends at %d, for the programs at %d", i, c.entries[i].until, c.memory.outcomes[i].UntilNs)
			}
		}
	}
}

// The programs' entry of an outcome has the plan's settings.
func TestLink(t *testing.T) {
	a, b := counted("größe", 3), counted("b", 2)
	b.Stream, b.Group, b.ExitFails = StreamWorst, GroupByMFA, true
	c := fakeCollector(t, 0, a, b)
	first, size := c.layout.ofOutcomes().first, c.layout.size(3)
	want := []kernelOutcome{
		{SinceNs: gridStart, UntilNs: forever, DmaxNs: 50, BinNs: 10, Bins: 3, Cells: uint32(first), Label: noLabel, Rule: 1<<31 + 1, NameLen: 7},
		{SinceNs: gridStart, UntilNs: forever, DmaxNs: 50, BinNs: 10, Bins: 2, Cells: uint32(first + size), Label: noLabel, Number: 1, Rule: 1<<31 + 2, NameLen: 1,
			Flags: flagStream | flagWorst | flagGrouped | flagBySpawn | flagExitFails},
	}
	for i, name := range []string{"größe", "b"} {
		for j := range len(name) {
			want[i].Name[j] = int8(name[j])
		}
		if c.memory.outcomes[i] != want[i] {
			t.Errorf("%+v, want %+v", c.memory.outcomes[i], want[i])
		}
	}
}

// Flags equal those of count.bpf.h.
func TestFlags(t *testing.T) {
	event := func(name string) dtrace.Expr { return dtrace.Expr{{Probe: dtrace.Probe{Name: name}}} }
	receive := event("message__receive")
	for want, o := range map[uint32]Outcome{
		0:       {Rule: &dtrace.Rule{End: receive}},
		1:       {Stream: StreamAll},
		1 | 2:   {Stream: StreamWorst},
		4:       {ExitFails: true},
		8:       {Group: GroupByPID},
		8 | 16:  {Group: GroupByMFA},
		32:      {Explain: true},
		64:      {Rule: &dtrace.Rule{End: receive, Pairing: dtrace.FIFO}},
		128:     {Rule: &dtrace.Rule{Via: receive}},
		64 + 36: {Rule: &dtrace.Rule{End: receive, Pairing: dtrace.FIFO}, ExitFails: true, Explain: true},
	} {
		if got := o.flags(); got != want {
			t.Errorf("%+v: flags %#x, want %#x", o, got, want)
		}
	}
}

// A closed collector does nothing.
func TestNothingAfterClose(t *testing.T) {
	c := fakeCollector(t, 0, counted("a", 1))
	c.closed = true
	calls := map[string]func() error{
		"Read":        func() error { _, _, err := c.Read(0); return err },
		"Skip":        func() error { _, err := c.Skip(1); return err },
		"Stray":       func() error { _, err := c.Stray(); return err },
		"End":         func() error { return c.End(5) },
		"Change":      func() error { _, err := c.Change(t.Context(), gridStart+later, 5, nil); return err },
		"Forget":      func() error { return c.Forget(1) },
		"Sweep":       func() error { _, err := c.Sweep(5); return err },
		"SetFunction": func() error { return c.SetFunction(1, 2, "f") },
		"Born":        func() error { return c.Born(nil) },
		"OffCPU":      func() error { _, err := c.OffCPU(); return err },
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		if err := calls[name](); err != ErrClosed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Seen names are passed on once, up to one that is being written. Names without room are counted.
func TestDiscoveredNames(t *testing.T) {
	c := fakeCollector(t, 0)
	const slot = 1 // the names of each have their own place
	c.memory.seenNames, c.memory.namesSeen = make([]kernelSeenName, 3*maxNames), make([]uint64, 3)
	c.memory.slotPIDs[slot] = 100
	write := func(i int, name string) {
		n := &c.memory.seenNames[slot*maxNames+i]
		for j := range len(name) {
			n.Name[j] = int8(name[j])
		}
		n.Length, n.Pid = uint32(len(name)+1), uint32(100+i)
	}
	check := func(beyond uint64, want ...SpanName) {
		t.Helper()
		if got, more := c.Discovered(); !slices.Equal(got, want) || more[100] != beyond {
			t.Errorf("%+v and %v more, want %+v and %d", got, more, want, beyond)
		}
	}
	write(0, "a")
	c.memory.namesSeen[slot] = 3
	write(2, "größe")
	check(0)
	c.opts.Discover = true
	check(0, SpanName{"a", 100})
	check(0)
	write(1, "")
	check(0, SpanName{"größe", 102})
	for i := 3; i < maxNames; i++ {
		write(i, "x")
	}
	c.memory.namesSeen[slot] = maxNames
	if got, more := c.Discovered(); len(got) != maxNames-3 || len(more) != 0 {
		t.Errorf("%d names and %v more", len(got), more)
	}
	c.memory.namesSeen[slot] = maxNames + 1
	check(1)
	for probe, want := range map[string]uint32{
		"user_trace__n1": 1, "user_trace__n950": 950, "user_trace__n0": 0, "user_trace__n951": 0, "user_trace__n": 0, "user_trace__i4": 0,
		"user_trace__n99999999999": 0, "process__exit": 0, "": 0,
	} {
		if got, ok := labelOf(probe); ok != (want > 0) || ok && got != want || !strings.HasPrefix(probe, labelPrefix) && got != 0 {
			t.Errorf("%s: label %d, %v, want %d", probe, got, ok, want)
		}
	}
}

// A group is a process, a text, or the rest without room.
func TestGroups(t *testing.T) {
	c := fakeCollector(t, 0)
	c.functions = map[uint64]string{isText | 5: "lists:seq/2"}
	c.groups.texts.known = map[uint64]string{isText | 6: "a text", isText | 7: ""}
	g := kernelGroup{Counts: [3]uint64{1, 2, 3}, TotalNs: 4, Amount: 5, Starts: 6, CpuNs: 7, DirtyNs: 8}
	g.Delays[0], g.Delays[DelayBuckets-1] = 9, 10
	for _, test := range []struct {
		key  uint64
		rest bool
		want Group
	}{
		{77, false, Group{Process: 77}},
		{77, true, Group{Rest: true}},
		{0, false, Group{Rest: true}},
		{isText | 5, false, Group{Text: "lists:seq/2"}},
		{isText | 6, false, Group{Text: "a text"}},
		{isText | 7, false, Group{Rest: true}},
	} {
		want := test.want
		want.Successes, want.Failures, want.Timeouts, want.Total, want.Amount, want.Starts, want.Processor, want.Dirty = 1, 2, 3, 4, 5, 6, 7, 8
		want.Delays = g.Delays[:]
		if diff := cmp.Diff(want, c.group(kernelGroupKey{Group: test.key}, &g, test.rest)); diff != "" {
			t.Errorf("%#x: -want +got:\n%s", test.key, diff)
		}
	}
}
