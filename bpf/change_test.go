package bpf_test

import (
	"errors"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// change changes the collector at the beginning of a window soon, and returns the time of that
// beginning.
func change(t *testing.T, c *vmtest.Collector, window time.Duration, outcomes ...bpf.Outcome) int64 {
	t.Helper()
	const soon = int64(200 * time.Millisecond) // attaching takes some time
	from, _ := c.Window(uint64(c.Number(monotonic.Now()+soon) + 1))
	missing, err := c.Change(t.Context(), from, int64(window), outcomes)
	if missing != nil || err != nil {
		t.Fatal(missing, err)
	}
	return from
}

// settle reads windows until the last change is complete.
func settle(c *vmtest.Collector, from int64) { c.ReadTo(from) }

// The length of windows changes while spans flow, to shorter ones and to longer
// ones: windows follow each other without a gap, no instance is lost, none counted
// twice, and each is in the window of its end.
func TestWindowsChange(t *testing.T) {
	const n = 300_000
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	o := streamed(load(endless))
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{o}, RingBytes: 64 << 20})
	c.Observe(vm)
	stop := c.Streamed()
	done := make(chan error, 1)
	go func() {
		_, err := vm.Call(t.Context(), "span_load", "run", spans(2, n))
		done <- err
	}()

	for _, window := range []time.Duration{150 * time.Millisecond, 600 * time.Millisecond, 200 * time.Millisecond} {
		settle(c, change(t, c, window, o))
	}
	c.While(func() error { return <-done })
	c.ReadAll()

	checkTotal(t, c, 0, vm.PID(), succeeded(n))
	inWindow := make(map[int]uint64)
	for _, i := range stop() {
		inWindow[c.Number(i.End)]++
	}
	lengths := make(map[int64]bool)
	for k, w := range c.Windows {
		if got := c.In(k, 0, vm.PID()).Successes; got != inWindow[k] {
			t.Errorf("window %d: %d successes, streamed %d", k, got, inWindow[k])
		}
		if k > 0 && w.From != c.Windows[k-1].To {
			t.Errorf("window %d begins %d ns after the one before", k, w.From-c.Windows[k-1].To)
		}
		lengths[w.To-w.From] = true
	}
	if len(lengths) != 4 {
		t.Errorf("windows of the lengths %v", lengths)
	}
}

// A grid changes while spans flow and while some are open. Spans that began before and end later
// are cut, even if they time out. All others are on the grid of their window, and another outcome
// is unaffected.
func TestGridChanges(t *testing.T) {
	const n, kept, left = 200_000, 300, 50
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	other, before, after := named("other", 2*time.Second), named("load", 2*time.Second), named("load", time.Second)
	after.Bins, after.BinWidth = 37, 50_000_000
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{other, before}})
	c.Observe(vm)
	keep(t, vm, "load", kept)
	vmtest.Call(t, vm, "span_load", "open", load1("load", left))
	vmtest.Call(t, vm, "span_load", "open", load1("other", left))
	done := make(chan error, 1)
	go func() {
		if _, err := vm.Call(t.Context(), "span_load", "run", load1("other", 1000)); err != nil {
			done <- err
			return
		}
		_, err := vm.Call(t.Context(), "span_load", "run", load1("load", n))
		done <- err
	}()

	from := change(t, c, 250*time.Millisecond, after, other)
	vmtest.WaitUntil(from)
	endKept(t, vm)
	c.While(func() error { return <-done })
	c.ReadAll()

	got := c.Total(1, vm.PID())
	if got.Starts != n+kept+left || got.Ends != n+kept || got.Successes+got.Cut != n+kept+left || got.Timeouts != 0 || got.Binned != got.Successes {
		t.Errorf("%+v", got)
	}
	if got.Cut < kept+left || got.Cut > kept+left+4 { // the open span of each process
		t.Errorf("%d were cut, want %d and what flowed", got.Cut, kept+left)
	}
	undisturbed := succeeded(1000)
	undisturbed.Starts, undisturbed.Timeouts = 1000+left, left
	checkTotal(t, c, 0, vm.PID(), undisturbed)
	for k, w := range c.Windows {
		bins := 100
		if w.From >= from {
			bins = 37
		}
		for _, counts := range w.Counts {
			if counts.Outcome == 1 && len(counts.Bins) != bins {
				t.Errorf("window %d has %d bins", k, len(counts.Bins))
			}
			if counts.Cut > 0 && w.From < from {
				t.Errorf("window %d, before the change, has %d cut", k, counts.Cut)
			}
		}
	}
}

// Spans that wait for their end in the hash map are found under the entry that their outcome had
// when they started, and counted once.
func TestGridChangesWithManyOpen(t *testing.T) {
	const n = 40_000 // more than the table of recent spans has
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}, Window: int64(time.Second)})
	c.Observe(vm)
	emit(t, vm, "load", "start", 1, n)

	c.ReadTo(change(t, c, 2*time.Second, named("load", time.Minute)))
	emit(t, vm, "load", "end", 1, n)
	emit(t, vm, "load", "start", n+1, n)
	emit(t, vm, "load", "end", n+1, n)
	c.ReadTo(monotonic.Now())

	want := succeeded(n)
	want.Starts, want.Ends, want.Cut = 2*n, 2*n, n
	checkTotal(t, c, 0, vm.PID(), want)
}

// Outcomes are added and removed while others continue to be counted. A removed outcome costs the
// VM nothing once its windows are read. When it is added again, it is counted again.
func TestOutcomesComeAndGo(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	a, b := named("a", time.Second), named("b", time.Second)
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{a}, Window: int64(150 * time.Millisecond)})
	c.Observe(vm)
	run := func() {
		c.Call(vm, "span_load", "run", load1("a", 100))
		c.Call(vm, "span_load", "run", load1("b", 10))
	}
	check := func(wantA, wantB uint64, semaphores [2]uint16) {
		t.Helper()
		checkTotal(t, c, 0, vm.PID(), succeeded(wantA))
		checkTotal(t, c, 1, vm.PID(), succeeded(wantB))
		if got := [2]uint16{semaphore(t, vm, "a"), semaphore(t, vm, "b")}; got != semaphores {
			t.Errorf("the semaphores are %v, want %v", got, semaphores)
		}
	}
	to := func(outcomes ...bpf.Outcome) { settle(c, change(t, c, 150*time.Millisecond, outcomes...)) }

	run()
	check(100, 0, [2]uint16{1, 0})
	to(a, b)
	run()
	check(200, 10, [2]uint16{1, 1})
	to(b)
	run()
	check(200, 20, [2]uint16{0, 1})
	to()
	run()
	check(200, 20, [2]uint16{0, 0})
	to(b, a)
	run()
	check(300, 30, [2]uint16{1, 1})
}

// Names that share a label are added and removed without loss of the others.
func TestChangesOnOneLabel(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	var outcomes []bpf.Outcome
	for _, name := range sameLabel(8) {
		outcomes = append(outcomes, named(name, 100*time.Millisecond))
	}
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: outcomes, Window: int64(150 * time.Millisecond)})
	c.Observe(vm)
	want := make([]uint64, len(outcomes))
	for _, set := range [][]int{{0, 1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 4, 5, 6, 7}, {2, 4, 6}, {6, 0, 4}, {7, 6, 5, 4, 3, 2, 1, 0}} {
		var plan []bpf.Outcome
		for _, i := range set {
			o := outcomes[i]
			o.Bins = 10 + len(set) // all change
			plan = append(plan, o)
			want[i] += uint64(i + 1)
		}
		settle(c, change(t, c, 150*time.Millisecond, plan...))
		for i, o := range outcomes {
			c.Call(vm, "span_load", "run", load1(o.Name, i+1))
		}
	}
	for i := range outcomes {
		checkTotal(t, c, i, vm.PID(), succeeded(want[i]))
	}
}

// Entries and cells of removed outcomes are reused, and their earlier counts do not show.
func TestRoomIsUsedAgain(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	with := func(bins int) bpf.Outcome {
		return bpf.Outcome{Name: "load", DMax: int64(50 * time.Millisecond), BinWidth: int64(time.Millisecond), Bins: bins}
	}
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{with(500)}})
	c.Observe(vm)
	const changes = 8 // there are cells for four outcomes
	total := uint64(0)
	for i := range uint64(changes) {
		c.Call(vm, "span_load", "run", spans(1, 50))
		total += 50
		settle(c, change(t, c, 250*time.Millisecond, with(500+int(i)%7)))
	}
	checkTotal(t, c, 0, vm.PID(), succeeded(total))
}

// An impossible change returns the reason, and leaves everything as it was.
func TestChangeRefused(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	o := load(endless)
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{o}})
	c.Observe(vm)
	large := named("large", endless)
	large.Bins = 1 << 20
	vmtest.WaitUntil(c.Opts.Start + c.Opts.Window)
	from, to := c.Window(uint64(c.Number(monotonic.Now()) + 8))
	for _, test := range []struct {
		from, window int64
		outcomes     []bpf.Outcome
		want         error
	}{
		{from, 1, []bpf.Outcome{o, o}, bpf.ErrOptions},
		{from, 0, []bpf.Outcome{o}, bpf.ErrOptions},
		{from + 1, 1, []bpf.Outcome{o}, bpf.ErrOptions},
		{c.Opts.Start, 1, []bpf.Outcome{o}, bpf.ErrOptions},
		{c.Opts.Start + c.Opts.Window, 1, []bpf.Outcome{named("b", endless)}, bpf.ErrLate},
		{from, 1e9, []bpf.Outcome{named("b", endless), large}, bpf.ErrNoRoom},
		{from, c.Opts.Window, []bpf.Outcome{o}, nil},
		{to, c.Opts.Window, []bpf.Outcome{o}, bpf.ErrPending},
	} {
		if missing, err := c.Change(t.Context(), test.from, test.window, test.outcomes); missing != nil || !errors.Is(err, test.want) {
			t.Errorf("change at %d: %v, %v, want %v", test.from, missing, err, test.want)
		}
	}
	if got := semaphore(t, vm, "b"); got != 0 {
		t.Errorf("the semaphore of what was refused is %d", got)
	}
	c.Call(vm, "span_load", "run", spans(1, 1000))
	checkTotal(t, c, 0, vm.PID(), succeeded(1000))
}

// When exits become failures of an outcome, programs are attached to exits.
func TestExitFailsFromNowOn(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(time.Minute)}})
	c.Observe(vm)
	settle(c, change(t, c, 250*time.Millisecond, exitFails(load(time.Minute))))
	c.Call(vm, "span_load", "dying", spans(2, 100))
	checkTotal(t, c, 0, vm.PID(), vmtest.Total{Counters: bpf.Counters{Starts: 100, Failures: 100}})
}

// A target that lacks what a new outcome needs is named, and the others are
// observed all the same.
func TestChangeWhereProbeIsMissing(t *testing.T) {
	a, b := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes}), vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{named("a", endless)}})
	target := vmtest.Target(t, a)
	for i := range target.Probes {
		if target.Probes[i].Name == probeOf("b") {
			target.Probes[i].Name = "gone"
		}
	}
	if _, err := c.Attach(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	c.Observe(b)
	from, _ := c.Window(uint64(c.Number(monotonic.Now()) + 3))
	missing, err := c.Change(t.Context(), from, c.Opts.Window, []bpf.Outcome{named("a", endless), named("b", endless)})
	if !errors.Is(missing, bpf.ErrNoProbe) || err != nil {
		t.Fatalf("%v, %v", missing, err)
	}
	settle(c, from)
	for _, vm := range []*erlang.VM{a, b} {
		c.Call(vm, "span_load", "run", load1("a", 10))
		c.Call(vm, "span_load", "run", load1("b", 20))
		checkTotal(t, c, 0, vm.PID(), succeeded(10))
	}
	checkTotal(t, c, 1, a.PID(), vmtest.Total{})
	checkTotal(t, c, 1, b.PID(), succeeded(20))
}

// With StreamWorst, the worst instances of each window are streamed, and hardly more of a flood.
// They really are the worst.
func TestStreamWorst(t *testing.T) {
	const n, timeouts = 100_000, 1000
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	worst := named("load", 100*time.Millisecond)
	worst.Stream = bpf.StreamWorst
	short := named("short", 100*time.Millisecond)
	short.Stream = bpf.StreamWorst
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{worst, short}, Window: int64(2 * time.Second)})
	c.Observe(vm)
	stop := c.Streamed()

	c.Middle()
	c.Call(vm, "span_load", "run", spans(2, n))
	c.Call(vm, "span_load", "open", load1("short", timeouts))
	c.ReadTo(monotonic.Now() + int64(time.Second))

	inWindow := make(map[int][]bpf.Instance)
	streamedShort := 0
	for _, i := range stop() {
		switch i.Outcome {
		case 0:
			inWindow[c.Number(i.End)] = append(inWindow[c.Number(i.End)], i)
		case 1:
			streamedShort++
		}
	}
	total := 0
	for k, instances := range inWindow {
		counted := c.In(k, 0, vm.PID())
		if counted.Successes >= uint64(bpf.MaxWorst) && len(instances) < bpf.MaxWorst {
			t.Errorf("window %d: %d of %d streamed", k, len(instances), counted.Successes)
		}
		checkSlowest(t, instances, countsIn(c.Windows[k], 0), worst)
		total += len(instances)
	}
	t.Logf("%d of %d streamed, %d of %d timeouts", total, n, streamedShort, timeouts)
	if total > n/20 {
		t.Errorf("%d of %d were streamed", total, n)
	}
	if streamedShort < bpf.MaxWorst || streamedShort > 4*bpf.MaxWorst {
		t.Errorf("%d of %d timeouts were streamed", streamedShort, timeouts)
	}
	if got := c.Total(0, vm.PID()); got.Successes != n || got.RingFull != 0 {
		t.Errorf("%+v", got)
	}
}

func countsIn(w vmtest.Window, outcome int) bpf.Counts {
	for _, c := range w.Counts {
		if c.Outcome == outcome {
			return c
		}
	}
	return bpf.Counts{}
}

// checkSlowest checks that the slowest MaxWorst of a window, by its bins, are among
// the instances.
func checkSlowest(t *testing.T, instances []bpf.Instance, counts bpf.Counts, o bpf.Outcome) {
	t.Helper()
	got := make([]uint64, o.Bins)
	for _, i := range instances {
		got[min(int((i.End-i.Start)/o.BinWidth), o.Bins-1)]++
	}
	left := uint64(bpf.MaxWorst)
	for bin := o.Bins - 1; bin >= 0 && left > 0; bin-- {
		want := min(left, counts.Bins[bin])
		if got[bin] < want {
			t.Errorf("%d of the slowest in bin %d were streamed, want %d", got[bin], bin, want)
		}
		left -= want
	}
}
