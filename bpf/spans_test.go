package bpf_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// checkTotal compares the counts of an outcome of a VM with the expected ones.
func checkTotal(t *testing.T, c *vmtest.Collector, outcome, pid int, want vmtest.Total) {
	t.Helper()
	if diff := cmp.Diff(want, c.Total(outcome, pid)); diff != "" {
		t.Errorf("outcome %d of pid %d, -want +got:\n%s", outcome, pid, diff)
	}
}

// succeeded returns the counts of n spans that start and end in time.
func succeeded(n uint64) vmtest.Total {
	return vmtest.Total{Counters: bpf.Counters{Starts: n, Ends: n, Successes: n}, Binned: n}
}

func timedOut(n uint64) vmtest.Total {
	return vmtest.Total{Counters: bpf.Counters{Starts: n, Timeouts: n}}
}

func failed(n uint64) vmtest.Total {
	return vmtest.Total{Counters: bpf.Counters{Starts: n, Ends: n, Failures: n}}
}

func checkNoOthers(t *testing.T, c *vmtest.Collector) {
	t.Helper()
	if n := c.Others().Foreign; n != 0 {
		t.Errorf("%d foreign events", n)
	}
}

// A million spans of four processes at full speed are each counted once, and nothing else is.
func TestMillionSpans(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}, Window: int64(time.Second)})
	c.Observe(vm)

	c.Call(vm, "span_load", "run", spans(4, 1_000_000))

	checkTotal(t, c, 0, vm.PID(), succeeded(1_000_000))
	if hits := c.Others().Hits.All; hits != 2_000_000 {
		t.Errorf("%d hits, want 2000000", hits)
	}
	checkNoOthers(t, c)
}

// The hits of each VM are counted, including those without an outcome.
func TestHitsOfVMs(t *testing.T) {
	otp := vmtest.Private(t)
	a, b := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes}), vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}, Window: int64(time.Second), Discover: true})
	c.Observe(a, b)

	c.Call(a, "span_load", "run", spans(1, 1000))
	c.Call(b, "span_load", "run", spans(1, 300))
	vmtest.Eval(t, b, `[beamscope:with_span(<<"other">>, fun() -> ok end) || _ <- lists:seq(1, 50)]`)
	c.ReadAll()

	if diff := cmp.Diff(map[int]uint64{a.PID(): 2000, b.PID(): 700}, c.VMHits()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if hits := c.Others().Hits.All; hits != 2700 {
		t.Errorf("%d hits, want 2700", hits)
	}
	if again := c.VMHits(); len(again) != 0 {
		t.Errorf("again: %v", again)
	}
}

// Spans that never end: each is a timeout, in the window that contains its start
// and dMax. The VM measures the starts itself.
func TestTimeoutsInTheirWindows(t *testing.T) {
	const window = 400 * time.Millisecond
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	clock := vmtest.NewClock(t, vm)
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(window)}, Window: int64(window)})
	c.Observe(vm)

	want := make(map[int]uint64)
	for _, n := range []int{100, 2000, 300} {
		c.Middle()
		first, last := timedCall(t, vm, clock, "span_load:open(#{spans => "+fmt.Sprint(n)+"})")
		expected := c.Number(first + int64(window))
		if c.Number(last+int64(window)) != expected {
			t.Fatalf("the burst took %v, longer than it may for one window", time.Duration(last-first))
		}
		want[expected] += uint64(n)
	}
	c.ReadAll()

	got := make(map[int]uint64)
	for n := range c.Windows {
		if k := c.In(n, 0, vm.PID()).Timeouts; k > 0 {
			got[n] = k
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("timeouts by window, -want +got:\n%s", diff)
	}
	checkTotal(t, c, 0, vm.PID(), timedOut(2400))
	checkNoOthers(t, c)
}

// timedCall evaluates an Erlang expression and returns the times of its beginning and end by the
// VM's clock, with the uncertainty of that clock.
func timedCall(t *testing.T, vm *erlang.VM, clock vmtest.Clock, expression string) (first, last int64) {
	t.Helper()
	times := vmtest.Integers(t, vmtest.Eval(t, vm, `
		First = erlang:monotonic_time(nanosecond), `+expression+`,
		{First, erlang:monotonic_time(nanosecond)}`))
	return clock.Map(times[0]) - clock.Error, clock.Map(times[1]) + clock.Error
}

// fail_span, and an exception in with_span: failures, with their class.
func TestFailures(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	for _, test := range []struct{ function, class string }{
		{"failing", "load"},
		{"raising", "error:load"},
	} {
		t.Run(test.function, func(t *testing.T) {
			c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{streamed(load(endless))}})
			c.Observe(vm)
			streamed := c.Streamed()

			c.Call(vm, "span_load", test.function, spans(2, 500))

			checkTotal(t, c, 0, vm.PID(), failed(500))
			classes := make(map[string]int)
			for _, i := range streamed() {
				if i.Status != bpf.Failure {
					t.Errorf("streamed %+v, want a failure", i)
				}
				classes[i.Class]++
			}
			if diff := cmp.Diff(map[string]int{test.class: 500}, classes); diff != "" {
				t.Errorf("classes, -want +got:\n%s", diff)
			}
		})
	}
}

// An instance ends once. Each later end counts as late.
func TestLateEnds(t *testing.T) {
	const n = 200
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	for _, test := range []struct {
		name, ends string
		want       bpf.Counters
	}{
		{"end after fail", "beamscope:fail_span(S), beamscope:end_span(C, S)",
			bpf.Counters{Starts: n, Ends: 2 * n, Failures: n, Lates: n}},
		{"end twice", "beamscope:end_span(C, S), beamscope:end_span(C, S)",
			bpf.Counters{Starts: n, Ends: 2 * n, Successes: n, Lates: n}},
		{"fail after end", "beamscope:end_span(C, S), beamscope:fail_span(S, late)",
			bpf.Counters{Starts: n, Ends: 2 * n, Successes: n, Lates: n}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}})
			c.Observe(vm)

			vmtest.Eval(t, vm, fmt.Sprintf(`[begin
				{C, S} = beamscope:start_span(<<"load">>), %s end || _ <- lists:seq(1, %d)]`, test.ends, n))
			c.ReadAll()

			checkTotal(t, c, 0, vm.PID(), vmtest.Total{Counters: test.want, Binned: test.want.Successes})
		})
	}
}

// A span whose process dies times out, at start + dMax.
func TestDeathIsTimeout(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(300 * time.Millisecond)}})
	c.Observe(vm)

	c.Call(vm, "span_load", "dying", spans(2, 500))
	c.ReadAll()

	checkTotal(t, c, 0, vm.PID(), timedOut(500))
}

// If the outcome requests it, a span whose process dies fails at the moment of the exit, which lies
// between the last action of the process and its monitor's message. It belongs to the window of
// that moment.
func TestDeathIsFailure(t *testing.T) {
	const n = 20
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	clock := vmtest.NewClock(t, vm)
	c := vmtest.NewCollector(t, bpf.Options{
		Outcomes: []bpf.Outcome{streamed(exitFails(load(10 * time.Second)))},
		Window:   int64(100 * time.Millisecond),
	})
	c.Observe(vm)
	streamed := c.Streamed()

	times := vmtest.Integers(t, c.Call(vm, "erlang", "apply", vmtest.Fun(fmt.Sprintf(`
		Die = fun(Parent) ->
			{_, {Id, _, _}} = beamscope:start_span(<<"load">>),
			receive after 30 -> Parent ! {dies, Id, erlang:monotonic_time(nanosecond)} end
		end,
		[begin
			Self = self(),
			{_, Monitor} = spawn_monitor(fun() -> Die(Self) end),
			receive {dies, Id, Before} -> ok end,
			receive {'DOWN', Monitor, process, _, _} -> {Id, Before, erlang:monotonic_time(nanosecond)} end
		end || _ <- lists:seq(1, %d)]`, n))))
	c.ReadAll()

	checkTotal(t, c, 0, vm.PID(), vmtest.Total{Counters: bpf.Counters{Starts: n, Failures: n}})
	checkNoOthers(t, c)
	instances := byID(t, streamed())
	inWindow := make(map[int]uint64)
	for i := 0; i < len(times); i += 3 {
		got := instances[uint64(times[i])]
		before, after := clock.Map(times[i+1])-clock.Error, clock.Map(times[i+2])+clock.Error
		if got.Status != bpf.Failure || got.End < before || got.End > after {
			t.Errorf("got %+v, want a failure between %d and %d", got, before, after)
		}
		inWindow[c.Number(got.End)]++
	}
	for w := range c.Windows {
		if got := c.In(w, 0, vm.PID()).Failures; got != inWindow[w] {
			t.Errorf("window %d: %d failures, want %d", w, got, inWindow[w])
		}
	}
}

// Sweeping in the middle of a window makes room for exits and changes nothing else.
func TestSweepWithinWindow(t *testing.T) {
	const n = 200
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{
		Outcomes: []bpf.Outcome{exitFails(load(endless))},
		Window:   int64(3 * time.Second),
		Exits:    2 * n, // for what the test itself does in the VM, too
	})
	c.Observe(vm)

	for range 4 {
		vmtest.Call(t, vm, "span_load", "dying", spans(2, n))
		if _, err := c.Sweep(monotonic.Now()); err != nil {
			t.Fatal(err)
		}
	}
	c.ReadAll()

	checkTotal(t, c, 0, vm.PID(), vmtest.Total{Counters: bpf.Counters{Starts: 4 * n, Failures: 4 * n}})
}

// byID returns instances by id. Each id may occur once.
func byID(t *testing.T, instances []bpf.Instance) map[uint64]bpf.Instance {
	t.Helper()
	ids := make(map[uint64]bpf.Instance)
	for _, i := range instances {
		if other, twice := ids[i.ID]; twice {
			t.Errorf("two instances of one id: %+v and %+v", other, i)
		}
		ids[i.ID] = i
	}
	return ids
}

// keep makes the VM start n spans and keep them open; endKept ends them.
func keep(t *testing.T, vm *erlang.VM, name string, n int) {
	t.Helper()
	vmtest.Eval(t, vm, fmt.Sprintf(`persistent_term:put(kept,
		[beamscope:start_span(<<"%s">>) || _ <- lists:seq(1, %d)])`, name, n))
}

func endKept(t *testing.T, vm *erlang.VM) {
	t.Helper()
	vmtest.Eval(t, vm, "[beamscope:end_span(C, S) || {C, S} <- persistent_term:get(kept)]")
}

// A collector that attaches during running spans counts their ends as orphans and makes no
// instances of them. A collector that saw their starts does.
func TestAttachInTheMiddle(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	opts := bpf.Options{Outcomes: []bpf.Outcome{load(endless)}}
	first := vmtest.NewCollector(t, opts)
	first.Observe(vm)

	keep(t, vm, "load", 500)
	second := vmtest.NewCollector(t, opts)
	second.Observe(vm)
	vmtest.Call(t, vm, "span_load", "run", spans(2, 1000))
	endKept(t, vm)
	first.ReadAll()
	second.ReadAll()

	checkTotal(t, first, 0, vm.PID(), succeeded(1500))
	want := succeeded(1000)
	want.Ends, want.Orphans = 1500, 500
	checkTotal(t, second, 0, vm.PID(), want)
}

// An end event after dMax gives one timeout in the window of start + dMax, and one late event in
// its own window, whether the window of the timeout is read before or after the end event.
func TestEndAfterDMax(t *testing.T) {
	const (
		n      = 50
		window = 200 * time.Millisecond
		dMax   = 2 * window
	)
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	for _, test := range []struct {
		name      string
		readFirst bool
	}{{"read after the end", false}, {"read before the end", true}} {
		t.Run(test.name, func(t *testing.T) {
			c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{streamed(load(dMax))}, Window: int64(window)})
			c.Observe(vm)
			streamed := c.Streamed()

			keep(t, vm, "load", n)
			late := monotonic.Now() + int64(dMax+window)
			if test.readFirst {
				c.ReadTo(late)
			} else {
				vmtest.WaitUntil(late)
			}
			endKept(t, vm)
			c.ReadAll()

			want := timedOut(n)
			want.Ends, want.Lates = n, n
			checkTotal(t, c, 0, vm.PID(), want)
			instances := streamed()
			if len(instances) != n {
				t.Fatalf("%d instances streamed, want %d", len(instances), n)
			}
			inWindow := make(map[int]uint64)
			for _, i := range instances {
				if i.Status != bpf.Timeout || i.End != i.Start+int64(dMax) {
					t.Errorf("streamed %+v, want a timeout after %v", i, dMax)
				}
				inWindow[c.Number(i.End)]++
			}
			for w := range c.Windows {
				if got := c.In(w, 0, vm.PID()).Timeouts; got != inWindow[w] {
					t.Errorf("window %d: %d timeouts, want %d", w, got, inWindow[w])
				}
			}
		})
	}
}

// An end event within dMax is a success in the bin of its delay, even if many windows have begun
// since the start.
func TestEndWithinDMax(t *testing.T) {
	const dMax = 10 * time.Second
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{
		Outcomes: []bpf.Outcome{streamed(load(dMax))},
		Window:   int64(200 * time.Millisecond), // so long that attaching ends before the windows run out
	})
	c.Observe(vm)
	streamed := c.Streamed()

	keep(t, vm, "load", 50)
	c.ReadTo(monotonic.Now() + int64(500*time.Millisecond))
	endKept(t, vm)
	c.ReadAll()

	checkTotal(t, c, 0, vm.PID(), succeeded(50))
	for _, i := range streamed() {
		n := c.Windows[c.Number(i.End)].Counts[0]
		if bin := (i.End - i.Start) / c.Opts.Outcomes[0].BinWidth; n.Bins[bin] == 0 {
			t.Errorf("a delay of %v is not in bin %d: %v", time.Duration(i.End-i.Start), bin, n.Bins)
		}
	}
}

// A file without the probe of an outcome is refused, with the outcome's name.
func TestAttachWithoutProbe(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}})
	target := vmtest.Target(t, vm)
	target.Probes = nil
	_, err := c.Attach(t.Context(), target)
	if !errors.Is(err, bpf.ErrNoProbe) {
		t.Errorf("error %v, want %v", err, bpf.ErrNoProbe)
	}
}

// Windows that a reader gives up leave nothing in the later windows that reuse their rows: the bins
// contain exactly the successes.
func TestSkippedWindowsLeaveNothing(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}, Window: int64(300 * time.Millisecond)})
	c.Observe(vm)
	vmtest.Call(t, vm, "span_load", "run", spans(1, 1000))
	n := c.Collector.Number(monotonic.Now()) + 1
	if _, err := c.Skip(n); err != nil {
		t.Fatal(err)
	}
	from, _ := c.Window(n)
	vmtest.WaitUntil(from)
	vmtest.Call(t, vm, "span_load", "run", spans(1, 500))
	var successes, binned uint64
	for last := c.Collector.Number(monotonic.Now()) + bpf.Windows; n <= last; n++ {
		_, to := c.Window(n)
		vmtest.WaitUntil(to)
		counts, _, err := c.Read(n)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range counts {
			successes += k.Successes + k.Stray.Successes
			for _, b := range k.Bins {
				binned += b
			}
		}
	}
	if successes != 500 || binned != successes {
		t.Errorf("%d successes and %d in bins, want 500", successes, binned)
	}
}
