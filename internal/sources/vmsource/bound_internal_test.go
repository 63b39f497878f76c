package vmsource

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// The price of an event is bounded by what each VM used, where that is known. The rest of the events
// has the measured price.
func TestBound(t *testing.T) {
	load := func(pid int, events uint64) outcome.Load {
		return outcome.Load{VM: outcome.VM{PID: pid}, Events: events}
	}
	const us, ms = time.Microsecond, time.Millisecond
	for _, test := range []struct {
		name   string
		price  time.Duration
		events uint64
		loads  []outcome.Load
		used   map[int]time.Duration
		want   time.Duration
		beyond []int
	}{
		{"nothing happens", 2 * us, 0, nil, nil, 2 * us, nil},
		{"no price", 0, 1000, []outcome.Load{load(1, 1000)}, map[int]time.Duration{1: ms}, 0, nil},
		{"enough", 2 * us, 100_000, []outcome.Load{load(1, 100_000)}, map[int]time.Duration{1: 300 * ms}, 2 * us, nil},
		{"too much", 20 * us, 100_000, []outcome.Load{load(1, 100_000)}, map[int]time.Duration{1: 300 * ms}, 3 * us, []int{1}},
		{"less than a tick too much", 2 * us, 1000, []outcome.Load{load(1, 1000)}, map[int]time.Duration{1: 0}, 2 * us, nil},
		{"nothing used", 20 * us, 1000, []outcome.Load{load(1, 1000)}, map[int]time.Duration{1: 0}, 1, []int{1}},
		{"not known", 20 * us, 100_000, []outcome.Load{load(1, 100_000)}, nil, 20 * us, nil},
		{"one of two", 20 * us, 20_000, []outcome.Load{load(1, 10_000), load(2, 10_000)}, map[int]time.Duration{1: 100 * ms, 2: 300 * ms}, 15 * us, []int{1}},
		{"and others", 20 * us, 40_000, []outcome.Load{load(1, 10_000), load(2, 10_000)}, map[int]time.Duration{1: 100 * ms, 2: 100 * ms}, 15 * us, []int{1, 2}},
	} {
		got, beyond := bound(test.price, test.events, test.loads, func(pid int) (time.Duration, bool) {
			used, known := test.used[pid]
			return used, known
		})
		var pids []int
		for _, vm := range beyond {
			pids = append(pids, vm.PID)
		}
		if got != test.want || !slices.Equal(pids, test.beyond) {
			t.Errorf("%s: %v %v, want %v %v", test.name, got, pids, test.want, test.beyond)
		}
	}
}

// The processor time of a VM is known for a window that lies between readings. A process with the
// pid of an earlier one is another one.
func TestUsage(t *testing.T) {
	vms := map[int]*observedVM{1: {}}
	times := map[int]time.Duration{1: 500}
	u := usage{of: func(pid int) (time.Duration, error) {
		if used, ok := times[pid]; ok {
			return used, nil
		}
		return 0, errors.New("no such process")
	}}
	read := func(at int64, used time.Duration) { times[1] = used; u.read(at, vms) }
	within := func(from, to int64, want time.Duration, wantKnown bool) {
		t.Helper()
		if got, known := u.within(1, outcome.Window{From: from, To: to}); got != want || known != wantKnown {
			t.Errorf("[%d, %d): %d %v, want %d %v", from, to, got, known, want, wantKnown)
		}
	}
	within(0, 10, 0, false)
	read(10, 500)
	read(20, 600)
	read(30, 600)
	within(10, 20, 100, true)
	within(15, 25, 50, true)
	within(5, 20, 0, false)
	within(20, 31, 0, false)
	u.forget(20)
	within(20, 30, 0, true)
	read(40, 7)
	within(20, 40, 0, false)
	read(50, 9)
	within(40, 50, 2, true)
	delete(times, 1)
	u.read(60, vms)
	within(40, 50, 0, false)
}

// A single measurement that is too high is the price of a program until there is another one.
func TestMedianOfMeasurements(t *testing.T) {
	var d durations
	for i, step := range []struct{ add, want time.Duration }{
		{900, 900}, {40, 40}, {41, 41}, {5000, 41}, {39, 41}, {42, 41}, {6000, 42}, {70, 70},
	} {
		if got := d.add(step.add); got != step.want {
			t.Errorf("%d: %d, want %d", i, got, step.want)
		}
	}
}
