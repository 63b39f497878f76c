package bpf_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// emit makes the VM send n events of the wrapper, with our ids from first on instead of the VM's.
func emit(t testing.TB, vm *erlang.VM, name, event string, first, n int) {
	t.Helper()
	kinds := map[string]int{"start": 1, "end": 2, "fail": 3}
	vmtest.Eval(t, vm, fmt.Sprintf(`
		[true = dyntrace:pn(%d, Id, %d, 1, 0, <<"%s">>, <<>>) || Id <- lists:seq(%d, %d)], ok`,
		bpf.Label(name), kinds[event], name, first, first+n-1))
}

// If more spans are open than there is room for, the rest is counted as such. These spans never
// time out, and their ends are orphans.
func TestMapFull(t *testing.T) {
	const (
		recent = 1 << 14 // RECENT of open.bpf.h
		room   = 1000
		n      = 20_000
		lost   = n - recent - room
	)
	for _, test := range []struct {
		name string
		dMax time.Duration
		end  bool
		want bpf.Counters
	}{
		{"ended", endless, true, bpf.Counters{
			Starts: n, Ends: n, Successes: n - lost, Orphans: lost, MapFull: lost}},
		{"timed out", 10 * time.Millisecond, false, bpf.Counters{
			Starts: n, Timeouts: n - lost, MapFull: lost}},
	} {
		t.Run(test.name, func(t *testing.T) {
			vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
			c := vmtest.NewCollector(t, bpf.Options{
				Outcomes:  []bpf.Outcome{load(test.dMax)},
				Window:    int64(time.Second),
				OpenSpans: room,
			})
			c.Observe(vm)

			emit(t, vm, "load", "start", 1, n) // consecutive ids: no two share a recent place
			if test.end {
				emit(t, vm, "load", "end", 1, n)
			}
			c.ReadAll()

			checkTotal(t, c, 0, vm.PID(), vmtest.Total{Counters: test.want, Binned: test.want.Successes})
		})
	}
}

// If a reader is more than eight windows late, events without a window are counted as stray, and no
// window gets events of another one. Once the reader has caught up, nothing is stray.
func TestLateReader(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}, Window: int64(time.Second)})
	c.Observe(vm)
	burst := func(name string, n int) int {
		window := c.Middle()
		vmtest.Call(t, vm, "span_load", "run", spans(1, n))
		if now := c.Number(monotonic.Now()); now != window {
			t.Fatalf("the %s burst began in window %d and ended in %d", name, window, now)
		}
		return window
	}

	first := burst("first", 100)
	vmtest.WaitUntil(c.Opts.Start + 9*c.Opts.Window)
	stray := burst("stray", 30)
	c.ReadTo(monotonic.Now())
	last := burst("last", 7)
	c.ReadTo(monotonic.Now())

	for n := range c.Windows {
		want := vmtest.Total{}
		switch n {
		case 0:
			want.Stray = bpf.Counters{Starts: 30, Ends: 30, Successes: 30}
		case first:
			want = succeeded(100)
		case last:
			want = succeeded(7)
		}
		if first == 0 {
			t.Fatal("the first burst is in the window that is read first")
		}
		if diff := cmp.Diff(want, c.In(n, 0, vm.PID())); diff != "" {
			t.Errorf("window %d of %d, stray burst in %d, -want +got:\n%s", n, len(c.Windows), stray, diff)
		}
	}
}

// If there are more VMs than slots, the VM without a slot is counted separately, without a pid. It
// gets a slot when the other VM is dropped.
func TestMoreVMsThanSlots(t *testing.T) {
	a, b := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes}), vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}, VMs: 1})
	c.Observe(a, b)

	c.Call(a, "span_load", "run", spans(2, 1000))
	c.Call(b, "span_load", "run", spans(2, 300))
	c.Call(a, "span_load", "run", spans(2, 20))
	checkTotal(t, c, 0, a.PID(), succeeded(1020))
	checkTotal(t, c, 0, b.PID(), vmtest.Total{})
	checkTotal(t, c, 0, 0, succeeded(300))

	if err := c.Forget(a.PID()); err != nil {
		t.Fatal(err)
	}
	c.Call(b, "span_load", "run", spans(2, 4))
	checkTotal(t, c, 0, a.PID(), succeeded(1020))
	checkTotal(t, c, 0, b.PID(), succeeded(4))
	checkTotal(t, c, 0, 0, succeeded(300))
}

// Events of a VM without a slot are read in their window, even if another VM is dropped in between
// and frees its slot.
func TestCrowdedAndForgotten(t *testing.T) {
	a, b := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes}), vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}, VMs: 1})
	c.Observe(a, b)

	vmtest.Call(t, a, "span_load", "run", spans(2, 10))
	vmtest.Call(t, b, "span_load", "run", spans(2, 300))
	if err := c.Forget(a.PID()); err != nil {
		t.Fatal(err)
	}
	c.ReadAll()

	checkTotal(t, c, 0, 0, succeeded(300))
}

// Two VMs with the same ids are kept apart: the end of a span in one does not end the span with
// that id in the other.
func TestSameIDsInTwoVMs(t *testing.T) {
	a, b := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes}), vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(2 * time.Second)}})
	c.Observe(a, b)

	emit(t, a, "load", "start", 1, 500)
	emit(t, b, "load", "start", 1, 500)
	emit(t, b, "load", "end", 1, 500)
	emit(t, b, "load", "end", 501, 10)
	c.ReadAll()

	checkTotal(t, c, 0, a.PID(), timedOut(500))
	want := succeeded(500)
	want.Ends, want.Orphans = 510, 10
	checkTotal(t, c, 0, b.PID(), want)
}

// Events on our labels of another version of the wrapper, or of none, are
// ignored and counted as foreign.
func TestForeignEvents(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}})
	c.Observe(vm)

	vmtest.Eval(t, vm, fmt.Sprintf(`
		L = %d,
		true = dyntrace:pn(L, 1, 1, 2, 0, <<"load">>, <<>>),
		true = dyntrace:pn(L, 1, 4, 1, 0, <<"load">>, <<>>),
		true = dyntrace:pn(L, 1, 0, 1, 0, <<"load">>, <<>>),
		true = dyntrace:pn(L, 1, 1, 1, 0),
		true = dyntrace:pn(L)`, bpf.Label("load")))
	c.ReadAll()

	checkTotal(t, c, 0, vm.PID(), vmtest.Total{})
	if diff := cmp.Diff(bpf.Others{Hits: bpf.Hits{All: 5}, Foreign: 5}, c.Others()); diff != "" {
		t.Errorf("others, -want +got:\n%s", diff)
	}
}

// Names are compared whole, at every length that an outcome's name can have at
// the edges of the pieces in which they are compared.
func TestNamesAreComparedWhole(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	var outcomes []bpf.Outcome
	for _, n := range []int{1, 7, 8, 9, 62, 63, 64, 65, 127, 128, 129, 254, 255} {
		outcomes = append(outcomes, named(strings.Repeat("x", n), endless))
	}
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: outcomes})
	c.Observe(vm)

	for i, o := range outcomes {
		// One span more than the outcome's index, and the same number with a different last byte,
		// or with a longer name, on the same label.
		emit(t, vm, o.Name, "start", 1, i+1)
		emit(t, vm, o.Name, "end", 1, i+1)
		for _, other := range []string{o.Name[1:] + "y", o.Name + "x", o.Name[1:]} {
			vmtest.Eval(t, vm, fmt.Sprintf(`true = dyntrace:pn(%d, 1000, 1, 1, 0, <<"%s">>, <<>>)`, bpf.Label(o.Name), other))
		}
	}
	c.ReadAll()

	for i := range outcomes {
		checkTotal(t, c, i, vm.PID(), succeeded(uint64(i+1)))
	}
}
