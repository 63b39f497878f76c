package bpf_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// The outcomes of these tests.
const (
	runOutcome = iota
	waitOutcome
	osWaitOutcome
)

// The slices of all processes add up to the scheduler's active time, except the scheduler's own
// work between two slices, and the time that the operating system takes from it there.
func TestRunAgainstSchedulerWallTime(t *testing.T) {
	for _, test := range []struct {
		name  string
		cells int
		exact bool
	}{
		{"slices of milliseconds", 1000, true},
		{"slices of microseconds", 0, false}, // erts_schedule and our programs take a larger part
	} {
		t.Run(test.name, func(t *testing.T) {
			vm := vmtest.Start(t, oneClock("+S", "1:1"))
			c, streamed := collected(t, vm, builtin(t, "run", ""), builtin(t, "run-wait", ""), builtin(t, "os-wait", ""))
			a := vmLoad(t, c, vm, "busy", fmt.Sprintf("[#{procs=>3,for_ms=>1500,cells=>%d}]", test.cells))
			active, elapsed := a.number(), a.number()
			instances := streamed()
			nothingLost(t, c, runOutcome, vm)

			all := ofOutcome(instances, runOutcome)
			running := sum(lengths(all))
			waits := ofThread(instances, firstScheduler(t, vm.PID()))
			taken := overlap(gaps(all), waits)
			rest := active - running - taken
			t.Logf("active %d ns of %d, %d slices of %d ns together; between them %d ns taken by others, %d ns the rest: %.2f %%, %d ns a slice",
				active, elapsed, len(all), running, taken, rest, 100*float64(rest)/float64(active), rest/int64(len(all)))
			if test.exact && (rest > active/20 || rest < -active/20) {
				t.Errorf("%d ns of %d active are neither slices nor taken by the operating system", rest, active)
			}
		})
	}
}

// The slices of one process equal those of erlang:trace, each within the trace's slice, and one
// more that was before the trace. Its waits equal the trace's too, and each contains the trace's
// wait: the VM calls erts_schedule, reports that the process goes out, then that it comes in, and
// returns. With one scheduler, others have the processor meanwhile, or the operating system. A
// process that yields by erlang:yield, as this one does at the end, has no wait.
func TestTurnsAgainstTrace(t *testing.T) { onBoth(t, turnsAgainstTrace) }

func turnsAgainstTrace(t *testing.T, otp erlang.OTP) {
	vm := vmtest.StartOn(t, otp, oneClock("+S", "1:1"))
	c, streamed := collected(t, vm, builtin(t, "run", bpf.GroupByPID), builtin(t, "run-wait", bpf.GroupByPID), builtin(t, "os-wait", ""))
	a := vmLoad(t, c, vm, "turns", "[#{others=>3,rounds=>60000,cells=>1000}]")
	instances := streamed()
	process := a.process()
	turns := a.turns()
	nothingLost(t, c, runOutcome, vm)
	nothingLost(t, c, waitOutcome, vm)

	own := instancesOf(instances, runOutcome, process)
	if len(own) == 0 {
		t.Fatal("no slices")
	}
	shorter := within(t, own[1:], between(turns, true))
	t.Logf("%d slices, %d ns together; trace: median of the difference %d ns", len(own)-1, sum(lengths(own[1:])), median(shorter))

	waits, traced := instancesOf(instances, waitOutcome, process), between(turns, false)
	traced = traced[:len(traced)-1] // after erlang:yield, with reductions left
	if len(waits) != len(traced) || len(waits) < 5 {
		t.Fatalf("%d waits, %d in the trace", len(waits), len(traced))
	}
	longer := make([]int64, len(waits))
	for i, wait := range lengths(waits) {
		if longer[i] = wait - traced[i].length(); longer[i] < 0 {
			t.Errorf("wait %d takes %d ns, and %d ns in the trace, which is within it", i, wait, traced[i].length())
		}
	}

	first, last := waits[0].Start, waits[len(waits)-1].End
	all := slices.DeleteFunc(ofOutcome(instances, runOutcome), func(i bpf.Instance) bool { return i.End < first || i.Start > last })
	others := slices.DeleteFunc(slices.Clone(all), func(i bpf.Instance) bool { return i.Process == process })
	waited, running := sum(lengths(waits)), sum(lengths(others))
	taken := overlap(gaps(all), ofThread(instances, firstScheduler(t, vm.PID())))
	t.Logf("%d waits, %d ns together, median longer by %d ns than the trace's; others ran %d ns in %d slices, the operating system took %d ns between slices",
		len(waits), waited, median(longer), running, len(others), taken)
	if rest := waited - running - taken; rest < 0 && -rest > taken || rest > waited/20 {
		t.Errorf("of %d ns of waits %d ns are neither slices of others nor taken by the operating system", waited, rest)
	}
}

// A process that calls a function on a dirty scheduler leaves its own as if it had used up its reductions:
// between two functions it waits at most once, within the time of the program's call and before the function.
// So the way to the dirty scheduler is a wait, and the way back is none. As in other cases, few waits may have
// no instance, because the process began with fewer reductions.
func TestTurnsOnDirtySchedulers(t *testing.T) { onBoth(t, turnsOnDirtySchedulers) }

func turnsOnDirtySchedulers(t *testing.T, otp erlang.OTP) {
	const n, dirtyOutcome = 300, 0
	vm := vmtest.StartOn(t, otp, oneClock())
	c, streamed := collected(t, vm, builtin(t, "dirty-nif", ""), builtin(t, "run-wait", bpf.GroupByPID))
	a := vmLoad(t, c, vm, "reads", fmt.Sprintf("[%q,%d]", filepath.ToSlash(t.TempDir()), n))
	instances := streamed()
	process := a.process()
	nothingLost(t, c, waitOutcome, vm)
	waits, functions := instancesOf(instances, waitOutcome, process), instancesOf(instances, dirtyOutcome, process)
	if len(functions) != n || len(waits) < n-n/20 {
		t.Fatalf("%d functions and %d waits, want %d", len(functions), len(waits), n)
	}
	calls := a.intervals(n)
	for i, function := range functions {
		var before int64
		if i > 0 {
			before = functions[i-1].End
		}
		own := chosen(waits, func(w bpf.Instance) bool { return w.Start >= before && w.End <= function.Start })
		for _, w := range own {
			waits = slices.DeleteFunc(waits, func(other bpf.Instance) bool { return other == w })
		}
		if len(own) > 1 || len(own) == 1 && own[0].End-own[0].Start+function.End-function.Start > calls[i].length() {
			t.Errorf("before function %d, in a call of %d ns, there are the waits %+v", i, calls[i].length(), own)
		}
	}
	if len(waits) > 0 {
		t.Errorf("these waits are not before a function: %+v", waits)
	}
}

// A turn is an event of erlang:trace(running).
type turn struct {
	in bool
	at int64
}

// turns takes all remaining ones.
func (a *answer) turns() []turn {
	var all []turn
	for len(a.left) > 0 {
		in := a.number() == 1
		all = append(all, turn{in, a.number()})
	}
	return all
}

// between returns the intervals from each turn of one kind to the next one, of the other.
func between(turns []turn, in bool) []interval {
	var all []interval
	for i, from := range turns[:len(turns)-1] {
		if from.in == in && turns[i+1].in != in {
			all = append(all, interval{from.at, turns[i+1].at})
		}
	}
	return all
}

// ofOutcome returns the instances of an outcome in the order of their starts.
func ofOutcome(all []bpf.Instance, outcome int) []bpf.Instance {
	return chosen(all, func(i bpf.Instance) bool { return i.Outcome == outcome })
}

// ofThread returns the intervals in which a thread waited for a processor.
func ofThread(all []bpf.Instance, tid uint64) []interval {
	var waits []interval
	for _, i := range chosen(all, func(i bpf.Instance) bool { return i.Outcome == osWaitOutcome && i.ID == tid }) {
		waits = append(waits, interval{i.Start, i.End})
	}
	return waits
}

// gaps returns the times between instances that follow each other.
func gaps(instances []bpf.Instance) []interval {
	var all []interval
	for i, x := range instances[:len(instances)-1] {
		all = append(all, interval{x.End, instances[i+1].Start})
	}
	return all
}

// overlap returns the length of the intersection of two sets of intervals. The intervals of each
// set are disjoint and in order.
func overlap(a, b []interval) (total int64) {
	for len(a) > 0 && len(b) > 0 {
		total += max(0, min(a[0].to, b[0].to)-max(a[0].from, b[0].from))
		if a[0].to < b[0].to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return total
}

// firstScheduler returns the id of a VM's first scheduler thread, which has another name in OTP 27
// than in OTP 25.
func firstScheduler(t *testing.T, pid int) uint64 {
	t.Helper()
	for tid, comm := range tasks(t, pid) {
		if comm == "1_scheduler" || comm == "erts_sched_1" {
			return uint64(tid)
		}
	}
	t.Fatalf("%d has no first scheduler", pid)
	return 0
}
