package procname

import (
	"strconv"
	"syscall"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// busy is the number of processes with names and initial calls in the benchmarks.
const busy = 50

// startBusy starts a VM with that many processes, and returns their pids.
func startBusy(b *testing.B) (*erlang.VM, []Process) {
	b.Helper()
	vm := vmtest.Start(b, erlang.Options{Carrier: erlang.Probes})
	vmtest.Eval(b, vm, `
		[register(list_to_atom("worker_" ++ integer_to_list(N)), proc_lib:spawn(timer, sleep, [infinity]))
			|| N <- lists:seq(1, `+strconv.Itoa(busy)+`)]`)
	all, err := open(b, vm).All()
	if err != nil {
		b.Fatal(err)
	}
	var workers []Process
	for _, p := range all {
		if p.Name.Registered != "" && p.Name.Initial == "timer:sleep/1" {
			workers = append(workers, p)
		}
	}
	if len(workers) != busy {
		b.Fatalf("%d workers of %d", len(workers), len(all))
	}
	return vm, workers
}

// reportCPU reports processor time, which depends less on the load of the machine than elapsed
// time.
func reportCPU(b *testing.B) (end func()) {
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

// The names of a window's groups, all read again.
func BenchmarkLookup50(b *testing.B) {
	vm, workers := startBusy(b)
	r := open(b, vm)
	defer reportCPU(b)()
	for b.Loop() {
		for _, p := range workers {
			if _, err := r.Lookup(p.Number, p.Serial); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// The names of a window's groups, once a second: each is read every fifth time.
func BenchmarkWindow50(b *testing.B) {
	vm, workers := startBusy(b)
	n := NewNamer(new(Layouts), vm.PID())
	b.Cleanup(func() { n.Close() })
	<-n.opened
	now := int64(0)
	n.now = func() int64 { return now }
	defer reportCPU(b)()
	for b.Loop() {
		for _, p := range workers {
			if _, ok := n.Name(p.Number, p.Serial); !ok {
				b.Fatal("no name")
			}
		}
		now += 1e9
	}
}

// The figures of all processes of a small VM, as they are read in each window.
func BenchmarkSurvey50(b *testing.B) {
	vm, _ := startBusy(b)
	n := NewNamer(new(Layouts), vm.PID())
	b.Cleanup(func() { n.Close() })
	<-n.opened
	defer reportCPU(b)()
	for b.Loop() {
		found := 0
		for from := uint32(0); ; {
			some, next, err := n.Survey(from, surveyMost)
			if err != nil {
				b.Fatal(err)
			}
			found += len(some)
			if from = next; next == 0 {
				break
			}
		}
		if found < busy {
			b.Fatalf("%d processes", found)
		}
	}
}

// The first VM of an executable.
func BenchmarkOpenFirst(b *testing.B) {
	vm := vmtest.Start(b, erlang.Options{Carrier: erlang.Probes})
	for b.Loop() {
		r, err := new(Layouts).Open(b.Context(), vm.PID())
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}

// Another VM of an executable.
func BenchmarkOpenNext(b *testing.B) {
	vm := vmtest.Start(b, erlang.Options{Carrier: erlang.Probes})
	var layouts Layouts
	for b.Loop() {
		r, err := layouts.Open(b.Context(), vm.PID())
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}

// The cost of reading an executable's debugging information.
func BenchmarkReadLayout(b *testing.B) {
	vm := vmtest.Start(b, erlang.Options{Carrier: erlang.Probes})
	p, err := usdt.OpenProcess(vm.PID())
	if err != nil {
		b.Fatal(err)
	}
	exe, err := p.Executable()
	if err != nil {
		b.Fatal(err)
	}
	f, err := exe.Open()
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readLayout(b.Context(), f); err != nil {
			b.Fatal(err)
		}
	}
}
