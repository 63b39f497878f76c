package bpf_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// The delays that the VM measured itself and those that were streamed agree
// instance by instance: their median difference is at most 50 µs.
func TestDelaysAgree(t *testing.T) {
	const n = 5000
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{streamed(load(endless))}})
	c.Observe(vm)
	stop := c.Streamed()

	measured := vmtest.Integers(t, c.Call(vm, "span_load", "measured",
		fmt.Sprintf("[#{procs => 2, spans => %d, loops => 50000}]", n)))
	instances := byID(t, stop())

	if len(instances) != n || len(measured) != 2*n {
		t.Fatalf("%d instances streamed and %d measured, want %d", len(instances), len(measured)/2, n)
	}
	var differences []time.Duration
	for i := 0; i < len(measured); i += 2 {
		instance, ok := instances[uint64(measured[i])]
		if !ok {
			t.Fatalf("the span %d was not streamed", measured[i])
		}
		d := time.Duration(measured[i+1] - (instance.End - instance.Start)).Abs()
		differences = append(differences, d)
	}
	slices.Sort(differences)
	t.Logf("difference: median %v, p99 %v", differences[n/2], differences[n*99/100])
	if median := differences[n/2]; median > 50*time.Microsecond {
		t.Errorf("the median difference is %v", median)
	}
}

// A tally is the sum of the instances of one status in one window.
type tally struct {
	Successes, Failures, Timeouts uint64
	Bins                          []uint64
}

// The histograms and the stream of one run have the same numbers by window, status and bin.
func TestStreamIsHistogram(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	o := streamed(exitFails(load(40 * time.Millisecond)))
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{o}, Window: int64(100 * time.Millisecond)})
	c.Observe(vm)
	stop := c.Streamed()

	c.While(func() error {
		for _, call := range []struct{ function, options string }{
			{"run", "#{spans => 20000}"},
			{"run", "#{spans => 100, loops => 500000}"},
			{"failing", "#{spans => 700}"},
			{"dying", "#{spans => 300}"},
			{"open", "#{spans => 400}"},
			{"run", "#{spans => 20, loops => 30000000}"}, // beyond dMax
		} {
			if _, err := vm.Call(t.Context(), "span_load", call.function, "["+call.options+"]"); err != nil {
				return err
			}
		}
		return nil
	})
	c.ReadAll()
	instances := stop()

	want := make(map[int]tally)
	for n, w := range c.Windows {
		if k := c.In(n, 0, vm.PID()); k.Successes+k.Failures+k.Timeouts > 0 {
			want[n] = tally{k.Successes, k.Failures, k.Timeouts, countsOf(w, vm.PID()).Bins}
		}
	}
	got := make(map[int]tally)
	for _, i := range instances {
		n := c.Number(i.End)
		k := got[n]
		if k.Bins == nil {
			k.Bins = make([]uint64, o.Bins)
		}
		switch i.Status {
		case bpf.Success:
			k.Successes++
			k.Bins[min(int((i.End-i.Start)/o.BinWidth), o.Bins-1)]++
		case bpf.Failure:
			k.Failures++
		case bpf.Timeout:
			k.Timeouts++
		}
		got[n] = k
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("by window, -counted +streamed:\n%s", diff)
	}
	total := c.Total(0, vm.PID())
	if ended := total.Successes + total.Failures + total.Timeouts; ended != 21520 || total.Starts != 21520 {
		t.Errorf("%d spans ended of %d, want 21520", ended, total.Starts)
	}
	if total.Timeouts == 0 || total.Failures < 1000 {
		t.Errorf("the run was to have every status: %+v", total)
	}
}

// countsOf returns the counts of outcome 0 in a window.
func countsOf(w vmtest.Window, pid int) bpf.Counts {
	for _, c := range w.Counts {
		if c.PID == pid && c.Outcome == 0 {
			return c
		}
	}
	return bpf.Counts{}
}

// An instance carries the id of its parent and the process that started it.
func TestParentAndProcess(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{
		streamed(named("outer", endless)), streamed(named("inner", endless)),
	}})
	c.Observe(vm)
	stop := c.Streamed()

	self := vmtest.Eval(t, vm, `
		beamscope:with_span(<<"outer">>, fun() -> beamscope:with_span(<<"inner">>, fun() -> ok end) end),
		self()`)
	c.ReadAll()

	instances := stop()
	if len(instances) != 2 {
		t.Fatalf("streamed %+v, want two instances", instances)
	}
	inner, outer := instances[0], instances[1]
	if inner.Outcome != 1 || outer.Outcome != 0 || inner.Parent != outer.ID || outer.Parent != 0 {
		t.Errorf("streamed %+v and %+v, want the second to be the parent of the first", inner, outer)
	}
	p := vmtest.Integers(t, self) // <0.N.M>
	if want := uint64(p[1]) | uint64(p[2])<<32; inner.Process != want || outer.Process != want {
		t.Errorf("processes %#x and %#x, want %#x, which is %s", inner.Process, outer.Process, want, self)
	}
}

// fire makes the VM start and end spans on all its cores for a time, but at least one burst, and
// returns their number.
func fire(t *testing.T, c *vmtest.Collector, vm *erlang.VM, duration time.Duration) uint64 {
	t.Helper()
	const burst = 400_000
	fired := uint64(0)
	c.While(func() error {
		until := monotonic.Now() + int64(duration)
		for fired == 0 || monotonic.Now() < until {
			if _, err := vm.Call(t.Context(), "span_load", "run", spans(2, burst)); err != nil {
				return err
			}
			fired += burst
		}
		return nil
	})
	c.ReadAll()
	return fired
}

// long is the duration of the tests at full speed.
func long() time.Duration {
	if testing.Short() {
		return 3 * time.Second
	}
	return 30 * time.Second
}

// The histograms lose nothing of probes that fire on both cores at full speed.
func TestHistogramsAtFullSpeed(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}, Window: int64(time.Second)})
	c.Observe(vm)

	fired := fire(t, c, vm, long())

	t.Logf("%d spans", fired)
	checkTotal(t, c, 0, vm.PID(), succeeded(fired))
	checkNoOthers(t, c)
}

// With streaming, fired = seen + lost holds exactly, and the histograms still lose nothing. This
// holds with a ring buffer that is much too small. With one that has room for all instances,
// nothing may be lost.
func TestStreamAtFullSpeed(t *testing.T) {
	const recordBytes = 64
	for _, test := range []struct {
		name     string
		ring     int
		duration time.Duration
	}{
		{"small ring", 4096, long()},
		{"large ring", 128 << 20, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
			c := vmtest.NewCollector(t, bpf.Options{
				Outcomes:  []bpf.Outcome{streamed(load(endless))},
				Window:    int64(time.Second),
				RingBytes: test.ring,
			})
			c.Observe(vm)
			var seen atomic.Uint64
			stop := c.StreamTo(func(batch []bpf.Instance) { seen.Add(uint64(len(batch))) })

			fired := fire(t, c, vm, test.duration)
			stop()

			want := succeeded(fired)
			want.RingFull = fired - seen.Load()
			checkTotal(t, c, 0, vm.PID(), want)
			t.Logf("%d spans, %d streamed, %d lost", fired, seen.Load(), want.RingFull)
			fits := fired*recordBytes < uint64(test.ring)
			if lost := want.RingFull > 0; lost == fits {
				t.Errorf("%d of %d were lost with a ring buffer of %d bytes", want.RingFull, fired, test.ring)
			}
		})
	}
}
