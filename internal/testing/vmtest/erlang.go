package vmtest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/target"
	"github.com/beamscope/beamscope/usdt"
)

// Call applies an Erlang function to a list of arguments.
func Call(t testing.TB, vm *erlang.VM, module, function, args string) string {
	t.Helper()
	term, err := vm.Call(t.Context(), module, function, args)
	if err != nil {
		t.Fatal(err)
	}
	return term
}

// Eval evaluates Erlang expressions, in a process that then exits.
func Eval(t testing.TB, vm *erlang.VM, expressions string) string {
	t.Helper()
	return Call(t, vm, "erlang", "apply", Fun(expressions))
}

// Fun returns the arguments of erlang:apply/2 for Erlang expressions, which may have several
// lines.
func Fun(expressions string) string {
	return "[fun() -> " + strings.Join(strings.Fields(expressions), " ") + " end, []]"
}

// ManyPIDs is more processes than fit into 20 bits.
const ManyPIDs = 1<<20 + 1<<16

// SpawnMany makes a VM spawn [ManyPIDs] processes that exit at once. Later pids have large numbers, or,
// before OTP 26, large serials.
func SpawnMany(t testing.TB, vm *erlang.VM) {
	t.Helper()
	Eval(t, vm, fmt.Sprintf(`lists:foreach(fun erlang:spawn/1, lists:duplicate(%d, fun erlang:self/0))`, ManyPIDs))
	pid := Integers(t, Eval(t, vm, "pid_to_list(self())"))
	const numberBits = 15 // before OTP 26
	if number, serial := pid[1], pid[2]; number+serial<<numberBits < ManyPIDs {
		t.Fatalf("the VM has a process with the number %d and the serial %d", number, serial)
	}
}

var integer = regexp.MustCompile(`-?\d+`)

// Integers returns all integers in an Erlang term, in order.
func Integers(t testing.TB, term string) []int64 {
	t.Helper()
	var all []int64
	for _, text := range integer.FindAllString(term, -1) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// A Clock converts the time that a VM measures to CLOCK_MONOTONIC.
type Clock struct {
	offset int64
	Error  int64 // possible error of Map in nanoseconds, when it was made
}

// NewClock compares the VM's clock with ours. It reads the VM's clock between two readings of
// ours, until the result is certain to within a millisecond.
func NewClock(t testing.TB, vm *erlang.VM) Clock {
	t.Helper()
	const sure, tries = 500_000, 1000

	best := Clock{Error: 1 << 62}
	for range tries {
		before := monotonic.Now()
		theirs := Integers(t, Call(t, vm, "erlang", "monotonic_time", "[nanosecond]"))[0]
		after := monotonic.Now()
		if half := (after - before) / 2; half < best.Error {
			best = Clock{offset: before + half - theirs, Error: half}
		}
		if best.Error < sure {
			return best
		}
	}
	t.Fatalf("the VM takes more than %d ns to tell the time", best.Error)
	return Clock{}
}

// Map converts an erlang:monotonic_time(nanosecond) to CLOCK_MONOTONIC.
func (c Clock) Map(theirs int64) int64 { return theirs + c.offset }

// Probes returns the VM probes of a running VM, and the path of its executable.
func Probes(t testing.TB, pid int) (string, []usdt.Probe) {
	t.Helper()
	vms, _, err := vm.Find(t.Context(), vm.Target{PID: pid})
	if err != nil {
		t.Fatal(err)
	}
	probes, err := vms[0].Probes()
	if err != nil {
		t.Fatal(err)
	}
	return vms[0].Exe.Path, probes
}

// Target returns the target for observing this VM alone.
func Target(t testing.TB, v *erlang.VM) bpf.Target {
	t.Helper()
	vms, _, err := vm.Find(t.Context(), vm.Target{PID: v.PID()})
	if err != nil {
		t.Fatal(err)
	}
	image, err := vms[0].Image()
	if err != nil {
		t.Fatal(err)
	}
	at := target.Of(vms[0].Exe.Path, image)
	at.PID = v.PID()
	return at
}

// Semaphore returns the semaphore of a VM probe from the VM's memory.
func Semaphore(t testing.TB, pid int, probe string) uint16 {
	t.Helper()
	vms, _, err := vm.Find(t.Context(), vm.Target{PID: pid})
	if err != nil {
		t.Fatal(err)
	}
	_, probes := Probes(t, pid)
	for _, p := range probes {
		if p.Name != probe {
			continue
		}
		n, err := vms[0].Process.Semaphore(p.Sites[0], vms[0].Exe)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Fatalf("no probe %s", probe)
	return 0
}
