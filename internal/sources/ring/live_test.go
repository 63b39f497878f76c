package ring

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// A run is a source whose windows the test collects, and the resulting counts.
type run struct {
	*Source
	t       *testing.T
	plan    outcome.Plan
	number  uint64
	total   map[string]outcome.Counts
	single  []outcome.Instance
	notices []outcome.Notice

	lastObserved bool // the last window that was collected has counts of a VM, and was observed
}

const window = 100 * time.Millisecond

// observe begins to observe a VM, with outcomes for spans of these names.
func observe(t *testing.T, beam *erlang.VM, specs ...outcome.Spec) *run {
	t.Helper()
	p := outcome.Plan{From: monotonic.Now() + int64(window), Window: window, Specs: specs}
	s, err := New(t.Context(), Config{Target: vm.Target{PID: beam.PID()}, Plan: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &run{Source: s, t: t, plan: p, total: make(map[string]outcome.Counts)}
}

func spec(name string, dMax time.Duration) outcome.Spec {
	const bins = 100
	return outcome.Spec{Name: name, Span: name, BinWidth: dMax / bins, Bins: bins}
}

// collectTo collects all windows up to a time. It collects each window one window length after its
// end.
func (r *run) collectTo(at int64) {
	r.t.Helper()
	for {
		w := r.plan.At(r.number)
		if w.From > at {
			return
		}
		r.number++
		vmtest.WaitUntil(w.To + int64(window))
		b, err := r.Collect(r.t.Context(), w)
		if err != nil {
			r.t.Fatal(err)
		}
		r.lastObserved = len(b.Counts) > 0
		for _, c := range b.Counts {
			r.lastObserved = r.lastObserved && !c.Unobserved && c.VM.PID != 0
			sum := r.total[c.Outcome].Add(c)
			sum.Outcome = c.Outcome
			sum.Bins = append(sum.Bins, r.total[c.Outcome].Bins...)
			r.total[c.Outcome] = sum
		}
		r.single = append(r.single, b.Instances...)
		r.notices = append(r.notices, r.Watch(r.t.Context())...)
	}
}

// A VM has a ring, unless its spans fire probes or the VM has ended.
func TestRecorded(t *testing.T) {
	for _, carrier := range []erlang.Carrier{erlang.Probes, erlang.Ring, "auto", ""} {
		beam := vmtest.Start(t, erlang.Options{Carrier: carrier})
		vmtest.Eval(t, beam, `beamscope:with_span(<<"a">>, fun() -> ok end)`)
		found, _, err := vm.Find(t.Context(), vm.Target{PID: beam.PID()})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Recorded(t.Context(), found[0]); got != (carrier != erlang.Probes) || err != nil {
			t.Errorf("carrier %q: got %v, %v", carrier, got, err)
		}
		if err := beam.Stop(); err != nil {
			t.Fatal(err)
		}
		if _, err := Recorded(t.Context(), found[0]); !errors.Is(err, usdt.ErrProcessGone) {
			t.Errorf("after the end of the VM: %v", err)
		}
	}
}

func TestSpansAreExact(t *testing.T) { onBoth(t, spansAreExactOn) }

func spansAreExactOn(t *testing.T, otp erlang.OTP) {
	beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring, Args: []string{"+S", "2:2"}})
	r := observe(t, beam, spec("a", time.Second))
	vmtest.WaitUntil(r.plan.From)
	out := vmtest.Call(t, beam, "span_load", "run", `[#{procs => 4, spans => 100000, name => <<"a">>}]`)
	t.Log(out)
	r.collectTo(monotonic.Now() + int64(window))
	t.Log(r.notices)
	n := r.total["a"]
	if n.Successes != 100_000 || n.Starts != 100_000 || n.Ends != 100_000 || n.Instances() != n.Successes || n.Loss.Total() != 0 || n.Unobserved {
		t.Errorf("%+v", n)
	}
}

// findIn searches for the ring of a VM.
func findIn(t testing.TB, beam *erlang.VM) (*reader, error) {
	t.Helper()
	p, err := usdt.OpenProcess(beam.PID())
	if err != nil {
		t.Fatal(err)
	}
	pid, err := p.InnerPID()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := p.Executable()
	if err != nil {
		t.Fatal(err)
	}
	memory, err := p.WritableMemory(exe, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	s, err := newScanner(p, memory, area{most: maxScan})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	address, _, err := s.find(t.Context(), pid)
	if err != nil {
		return nil, err
	}
	return open(memory, address, 0, monotonic.Now())
}

// The ring is found with any settings of the VM's allocators, and of any size.
func TestFoundWithAnyAllocator(t *testing.T) { onBoth(t, foundWithAnyAllocatorOn) }

func foundWithAnyAllocatorOn(t *testing.T, otp erlang.OTP) {
	for _, test := range []struct {
		name  string
		flags []string
	}{
		{"default", nil},
		{"one scheduler", []string{"+S", "1:1"}},
		{"other strategy", []string{"+MBas", "gf"}},
		{"large blocks share carriers", []string{"+MBsbct", "65536", "+MBlmbcs", "65536"}},
		{"malloc", []string{"+Meamin"}},
		{"super carrier", []string{"+MMscs", "256"}},
		{"large super carrier", []string{"+MMscs", "20000"}},
		{"no segments", []string{"+MMmcs", "0"}},
		{"small ring", []string{"-beamscope", "ring_slots", "256"}},
		{"small ring and malloc", []string{"+Meamin", "-beamscope", "ring_slots", "256"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring, Args: test.flags})
			vmtest.Eval(t, beam, `beamscope:start_span(<<"a">>), ok`)
			r, err := findIn(t, beam)
			if err != nil {
				t.Fatal(err)
			}
			if r.header.pid != beam.PID() && os.Getpid() > 2 {
				t.Logf("it says that it is of process %d", r.header.pid)
			}
		})
	}
}

// The ring is found in a VM with a process whose heap is large, whichever of them was there first.
func TestFoundBesideHugeHeap(t *testing.T) { onBoth(t, foundBesideHugeHeapOn) }

func foundBesideHugeHeapOn(t *testing.T, otp erlang.OTP) {
	const (
		elements = 20_000_000  // of two words each
		empty    = 600_000_000 // words
	)
	heap := fmt.Sprintf(`Self = self(),
		spawn_opt(fun() -> List = lists:seq(1, %d), Self ! full, receive {sum, From} -> From ! lists:sum(List) end end, [{min_heap_size, %d}]),
		receive full -> ok end`, elements, 2*elements+empty)
	for _, first := range []string{"heap", "ring"} {
		t.Run(first+" first", func(t *testing.T) {
			beam, err := erlang.StartVM(t.Context(), otp, erlang.Options{Carrier: erlang.Ring, Args: []string{"+S", "2:2"}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = beam.Stop() })
			steps := []string{heap, `beamscope:with_span(<<"a">>, fun() -> ok end)`}
			if first == "ring" {
				slices.Reverse(steps)
			}
			for _, step := range steps {
				vmtest.Eval(t, beam, step)
			}
			t.Logf("the VM has %s bytes for processes", vmtest.Eval(t, beam, "erlang:memory(processes)"))
			if _, err := findIn(t, beam); err != nil {
				t.Error(err)
			}
			r := observe(t, beam, spec("a", time.Minute))
			r.awaitObserved()
			want := recordedSpans(t, beam, 10)
			r.collectTo(monotonic.Now())
			r.mustCount(want)
		})
	}
}

// If a VM has too much memory to search, a notice says so, even if programs in the kernel also
// observe the VM: VMs with probes may have rings too.
func TestTooLarge(t *testing.T) {
	beam := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	for _, kernel := range []Kernel{nil, func(vm.VM) (int64, bool) { return 1, false }} {
		p := outcome.Plan{From: monotonic.Now(), Window: window, Specs: []outcome.Spec{spec("a", time.Second)}}
		s, err := New(t.Context(), Config{Target: vm.Target{PID: beam.PID()}, Plan: p, Kernel: kernel, maxScan: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		for said := false; !said; {
			vmtest.WaitUntil(monotonic.Now() + int64(window))
			said = slices.ContainsFunc(s.Watch(t.Context()), func(n outcome.Notice) bool { return strings.Contains(n.Text, ErrTooLarge.Error()) })
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// No ring is found in a VM without spans, even by a search of a large memory.
func TestNoRing(t *testing.T) {
	beam := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes}) // its spans fire probes
	vmtest.Eval(t, beam, `persistent_term:put(ballast, binary:copy(<<"x">>, 200000000)), ok`)
	if _, err := findIn(t, beam); !errors.Is(err, ErrNone) {
		t.Errorf("error %v, want %v", err, ErrNone)
	}
}

// BenchmarkSearch measures the search of the memory of a VM without a ring, for each MiB of it.
func BenchmarkSearch(b *testing.B) {
	beam := vmtest.Start(b, erlang.Options{Carrier: erlang.Probes})
	vmtest.Eval(b, beam, `persistent_term:put(ballast, binary:copy(<<"x">>, 2000000000)), ok`)
	p, err := usdt.OpenProcess(beam.PID())
	if err != nil {
		b.Fatal(err)
	}
	all, err := p.Anonymous()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := findIn(b, beam); !errors.Is(err, ErrNone) {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(sizeOf(all)>>20), "ns/MiB")
}

// A detector recognizes when a VM begins to record spans.
func TestDetector(t *testing.T) { onBoth(t, detectorOn) }

func detectorOn(t *testing.T, otp erlang.OTP) {
	for name, args := range map[string][]string{"likely place": nil, "unlikely place": {"+Meamin"}} {
		t.Run(name, func(t *testing.T) { detects(t, otp, args) })
	}
}

func detects(t *testing.T, otp erlang.OTP, args []string) {
	beam, err := erlang.StartVM(t.Context(), otp, erlang.Options{Carrier: erlang.Ring, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = beam.Stop() })
	vms, _, err := vm.Find(t.Context(), vm.Target{PID: beam.PID()})
	if err != nil {
		t.Fatal(err)
	}
	var before, after Detector
	if before.Records(t.Context(), vms[0]) {
		t.Error("found before the first span has started")
	}
	vmtest.Eval(t, beam, `beamscope:start_span(<<"a">>), ok`)
	if !after.Records(t.Context(), vms[0]) {
		t.Error("not found")
	}
	if after.Records(t.Context(), vms[0]) {
		t.Error("searched again at once")
	}
}

// Two concurrent collectors count the same. When one of them leaves, spans go on being recorded for
// the other.
func TestTwoCollectors(t *testing.T) { onBoth(t, twoCollectorsOn) }

func twoCollectorsOn(t *testing.T, otp erlang.OTP) {
	beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring, Args: []string{"+S", "2:2"}})
	one, two := observe(t, beam, spec("a", time.Minute)), observe(t, beam, spec("a", time.Minute))
	one.awaitObserved()
	two.awaitObserved()
	both := recordedSpans(t, beam, 2500)
	at := monotonic.Now()
	one.collectTo(at)
	two.collectTo(at)
	one.mustCount(both)
	two.mustCount(both)
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	two.collectTo(monotonic.Now() + 2*leaseUnits<<leaseShift)
	for spans := uint64(0); spans == 0; {
		two.awaitObserved()
		spans = recordedSpans(t, beam, 50)
		two.collectTo(monotonic.Now())
		two.mustCount(spans)
	}
}

// Spans stop recording after the collector has gone.
func TestSilentAfterClose(t *testing.T) { onBoth(t, silentAfterCloseOn) }

func silentAfterCloseOn(t *testing.T, otp erlang.OTP) {
	beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring})
	r := observe(t, beam, spec("a", time.Second))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if vmtest.Eval(t, beam, `element(2, beamscope:start_span(<<"a">>))`) == "ignore" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("spans are recorded a minute after the collector has gone")
		}
	}
}

// If a VM is killed, its open spans are cut, and the windows since the last read are not observed.
func TestKilledVM(t *testing.T) { onBoth(t, killedVMOn) }

func killedVMOn(t *testing.T, otp erlang.OTP) {
	beam, other := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring}), vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring})
	p := outcome.Plan{From: monotonic.Now() + int64(window), Window: window, Specs: []outcome.Spec{spec("a", time.Second)}}
	s, err := New(t.Context(), Config{Target: vm.Target{Exe: otp.Emulator()}, Plan: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	r := &run{Source: s, t: t, plan: p, total: make(map[string]outcome.Counts)}
	vmtest.WaitUntil(r.plan.From)
	vmtest.Eval(t, beam, `[beamscope:start_span(<<"a">>) || _ <- [1,2,3]], ok`)
	r.collectTo(monotonic.Now())
	if err := syscall.Kill(beam.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-beam.Done()
	r.collectTo(monotonic.Now() + int64(window))
	if n := r.total["a"]; n.Starts != 3 || n.Timeouts != 0 || n.Loss != (outcome.Loss{Cut: 3}) || !n.Unobserved {
		t.Errorf("%+v", n)
	}
	vmtest.Call(t, other, "span_load", "run", `[#{procs => 1, spans => 10, name => <<"a">>}]`)
	r.collectTo(monotonic.Now() + int64(window))
	if n := r.total["a"]; n.Successes != 10 {
		t.Errorf("another VM: %+v", n)
	}
}

// If a VM starts while it is observed, its spans are counted from the first one on.
func TestFirstSpans(t *testing.T) { onBoth(t, firstSpansOn) }

func firstSpansOn(t *testing.T, otp erlang.OTP) {
	vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring}) // keeps the source running until the other VM starts
	p := outcome.Plan{From: monotonic.Now() + int64(window), Window: 4 * time.Second, Specs: []outcome.Spec{spec("first", time.Second), spec("a", time.Second)}}
	s, err := New(t.Context(), Config{Target: vm.Target{Exe: otp.Emulator()}, Plan: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	vmtest.WaitUntil(p.From)
	beam, err := erlang.StartVM(t.Context(), otp, erlang.Options{Carrier: erlang.Ring})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = beam.Stop() })
	vmtest.Call(t, beam, "span_load", "run", `[#{procs => 1, spans => 1, name => <<"first">>}]`)
	started := monotonic.Now()
	vmtest.Call(t, beam, "span_load", "run", `[#{procs => 2, spans => 2000, name => <<"a">>}]`)
	r := &run{Source: s, t: t, plan: p, total: make(map[string]outcome.Counts)}
	r.collectTo(p.From)
	if n := r.total["a"]; n.Successes != 2000 || n.Starts != 2000 || n.Loss.Total() != 0 || n.Unobserved {
		t.Errorf("%+v", n)
	}
	if n := r.total["first"]; n.Successes != 1 {
		t.Errorf("%+v", n)
	}
	for _, st := range s.Status() {
		t.Logf("%v: read since %d ms after its first span", st.VM, (st.Since-started)/1e6)
	}
}

// While a VM is stopped, longer than a lease lasts, its windows are observed, and a notice says that it is
// stopped. Spans that were open before end when it continues.
func TestStoppedVM(t *testing.T) { onBoth(t, stoppedVMOn) }

func stoppedVMOn(t *testing.T, otp erlang.OTP) {
	beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring})
	recordedSpans(t, beam, 1) // makes the ring
	r := observe(t, beam, spec("a", time.Minute))
	r.awaitObserved()
	vmtest.Eval(t, beam, `Test = self(), register(holder, spawn(fun() ->
		Open = [beamscope:start_span(<<"a">>) || _ <- lists:seq(1, 10)],
		Test ! started,
		receive {go_on, From} -> [beamscope:end_span(Ctx, S) || {Ctx, S} <- Open], From ! ended end
	end)), receive started -> ok end`)
	r.collectTo(monotonic.Now())
	before := r.total["a"]
	for _, signal := range []unix.Signal{unix.SIGSTOP, unix.SIGCONT} {
		if err := unix.Kill(beam.PID(), signal); err != nil {
			t.Fatal(err)
		}
		r.collectTo(monotonic.Now() + 2*firstLease/5)
	}
	vmtest.Eval(t, beam, `holder ! {go_on, self()}, receive ended -> ok end`)
	r.collectTo(monotonic.Now())
	n := r.total["a"]
	if n.Successes != before.Successes+10 || n.Loss != before.Loss || n.Unobserved != before.Unobserved {
		t.Errorf("%+v, before %+v", n, before)
	}
	for _, want := range []string{"is stopped", "runs again"} {
		if !slices.ContainsFunc(r.notices, func(n outcome.Notice) bool { return strings.Contains(n.Text, want) }) {
			t.Errorf("no notice %q in %v", want, r.notices)
		}
	}
}

// A failure has its class; an instance has its process and its parent.
func TestInstances(t *testing.T) { onBoth(t, instancesOn) }

func instancesOn(t *testing.T, otp erlang.OTP) {
	beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring})
	outer, inner := spec("outer", time.Second), spec("inner", time.Second)
	outer.Detail, inner.Detail = outcome.Everything, outcome.Worst
	r := observe(t, beam, outer, inner)
	r.awaitObserved()
	vmtest.Eval(t, beam, `catch beamscope:with_span(<<"outer">>, fun() -> catch beamscope:with_span(<<"inner">>, fun() -> throw(oops) end), ok end), ok`)
	r.collectTo(monotonic.Now() + int64(window))
	if len(r.single) != 2 {
		t.Fatalf("%+v", r.single)
	}
	in, out := r.single[0], r.single[1]
	if in.Outcome != "inner" || in.Status != outcome.Failure || in.Class != "throw:oops" || in.Parent != out.ID || in.Process != out.Process || in.Process == 0 ||
		out.Status != outcome.Success || out.Parent != 0 || out.Start > in.Start || in.End > out.End {
		t.Errorf("%+v", r.single)
	}
}

// In a VM with a large table that has had more than 2^20 processes, each instance has the process that
// the VM itself prints.
func TestLargePIDs(t *testing.T) {
	vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
		const processes = 1000
		a := spec("a", longDMax)
		a.Detail = outcome.Everything
		beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring, Args: []string{"+S", "1:1", "+P", "4000000"}})
		vmtest.SpawnMany(t, beam)
		h := handOf(t, beam, a)
		want := h.eval(`[begin
			{P, M} = spawn_monitor(fun() -> beamscope:with_span(<<"a">>, fun() -> ok end) end),
			receive {'DOWN', M, process, P, normal} -> P end
		end || _ <- lists:seq(1, %d)]`, processes)
		if n := h.sum(afterAll); n.Successes != processes || len(h.instances) != processes {
			t.Fatalf("%d instances: %+v", len(h.instances), n)
		}
		var got []string
		for _, i := range h.instances {
			got = append(got, i.Process.String())
		}
		if diff := cmp.Diff(want, "["+strings.Join(got, ",")+"]"); diff != "" {
			t.Errorf("-VM +ring:\n%s", diff)
		}
	})
}
