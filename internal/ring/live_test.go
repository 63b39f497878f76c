package ring

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/internal/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// A run is a source whose windows the test collects, and what it has counted.
type run struct {
	*Source
	t       *testing.T
	plan    outcome.Plan
	number  uint64
	total   map[string]outcome.Counts
	single  []outcome.Instance
	notices []outcome.Notice
}

const window = 100 * time.Millisecond

// observe begins to observe a VM, with outcomes of the spans of these names.
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

// collectTo collects the windows up to a time, each when it has been over for as long as it was.
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
		for _, c := range b.Counts {
			sum := r.total[c.Outcome].Add(c)
			sum.Outcome = c.Outcome
			sum.Bins = append(sum.Bins, r.total[c.Outcome].Bins...)
			r.total[c.Outcome] = sum
		}
		r.single = append(r.single, b.Instances...)
		r.notices = append(r.notices, r.Watch(r.t.Context())...)
	}
}

func TestSpansAreExact(t *testing.T) {
	beam := vmtest.Start(t, erlang.Options{Ring: true, Args: []string{"+S", "2:2"}})
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

// find looks for the ring of a VM.
func find(t *testing.T, beam *erlang.VM, thorough bool) (*reader, error) {
	t.Helper()
	p, err := usdt.OpenProcess(beam.PID())
	if err != nil {
		t.Fatal(err)
	}
	pid, err := p.InnerPID()
	if err != nil {
		t.Fatal(err)
	}
	memory, err := p.WritableMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	s, err := newScanner(p, memory)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	address, _, err := s.find(t.Context(), pid, nil, thorough)
	if err != nil {
		return nil, err
	}
	return open(memory, address, 0, monotonic.Now())
}

// The ring is found with any settings of the VM's allocators: at the likely places as a rule,
// otherwise by a search of all memory.
func TestFoundWithAnyAllocator(t *testing.T) {
	for _, test := range []struct {
		name  string
		flags []string
		rare  bool // only a thorough search finds it
	}{
		{"default", nil, false},
		{"one scheduler", []string{"+S", "1:1"}, false},
		{"other strategy", []string{"+MBas", "gf"}, false},
		{"large blocks share carriers", []string{"+MBsbct", "65536", "+MBlmbcs", "65536"}, true},
		{"malloc", []string{"+Meamin"}, true},
		{"super carrier", []string{"+MMscs", "256"}, true},
		{"no segments", []string{"+MMmcs", "0"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			beam := vmtest.Start(t, erlang.Options{Ring: true, Args: test.flags})
			r, err := find(t, beam, false)
			if err != nil && test.rare && errors.Is(err, ErrNone) {
				r, err = find(t, beam, true)
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.header.pid != beam.PID() && os.Getpid() > 2 {
				t.Logf("it says that it is of process %d", r.header.pid)
			}
		})
	}
}

// A VM without spans has no ring, also not where all of a large memory is searched.
func TestNoRing(t *testing.T) {
	beam := vmtest.Start(t, erlang.Options{}) // its spans fire probes
	vmtest.Eval(t, beam, `persistent_term:put(ballast, binary:copy(<<"x">>, 200000000)), ok`)
	for _, thorough := range []bool{false, true} {
		if _, err := find(t, beam, thorough); !errors.Is(err, ErrNone) {
			t.Errorf("thorough %v: error %v, want %v", thorough, err, ErrNone)
		}
	}
}

// Two collectors at once count the same.
func TestTwoCollectors(t *testing.T) {
	beam := vmtest.Start(t, erlang.Options{Ring: true})
	one, two := observe(t, beam, spec("a", time.Second)), observe(t, beam, spec("a", time.Second))
	vmtest.WaitUntil(two.plan.From)
	vmtest.Call(t, beam, "span_load", "run", `[#{procs => 2, spans => 5000, name => <<"a">>}]`)
	at := monotonic.Now() + int64(window)
	one.collectTo(at)
	two.collectTo(at)
	for _, r := range []*run{one, two} {
		if n := r.total["a"]; n.Successes != 5000 || n.Loss.Total() != 0 || n.Unobserved {
			t.Errorf("%+v", n)
		}
	}
}

// When a collector is gone, spans fall silent.
func TestSilentAfterClose(t *testing.T) {
	beam := vmtest.Start(t, erlang.Options{Ring: true})
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

// Writers that are suspended, killed within a record, and killed with their VM lose what they
// have not written, and nothing counts as a timeout that is none.
func TestKilledWriters(t *testing.T) {
	beam := vmtest.Start(t, erlang.Options{Ring: true, Args: []string{"+S", "2:2"}})
	r := observe(t, beam, spec("a", 30*time.Second))
	vmtest.WaitUntil(r.plan.From)
	vmtest.Eval(t, beam, `
		Loop = fun Loop() -> {C, S} = beamscope:start_span(<<"a">>), beamscope:end_span(C, S), Loop() end,
		[begin
			P = spawn(Loop),
			erlang:yield(),
			case I rem 3 of
				0 -> erlang:suspend_process(P), erlang:yield(), erlang:resume_process(P);
				_ -> ok
			end,
			timer:sleep(1),
			exit(P, kill)
		 end || I <- lists:seq(1, 200)], ok`)
	r.collectTo(monotonic.Now() + int64(window))
	n := r.total["a"]
	if n.Successes == 0 || n.Timeouts != 0 || n.Starts < n.Successes || n.Starts-n.Successes > 200+n.Loss.Total() {
		t.Errorf("%+v", n)
	}
	t.Logf("%d started, %d ended, %d records lost", n.Starts, n.Successes, n.Loss.Total())
}

// A VM that is killed takes open spans with it: how they would have ended is not known.
func TestKilledVM(t *testing.T) {
	otp := vmtest.Private(t)
	beam, other := vmtest.StartOn(t, otp, erlang.Options{Ring: true}), vmtest.StartOn(t, otp, erlang.Options{Ring: true})
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
	r.collectTo(monotonic.Now() + int64(2*time.Second))
	if n := r.total["a"]; n.Starts != 3 || n.Timeouts != 0 || n.Loss.Missed != 3 {
		t.Errorf("%+v", n)
	}
	vmtest.Call(t, other, "span_load", "run", `[#{procs => 1, spans => 10, name => <<"a">>}]`)
	r.collectTo(monotonic.Now() + int64(window))
	if n := r.total["a"]; n.Successes != 10 {
		t.Errorf("another VM: %+v", n)
	}
}

// A failure has its class, an instance its process and its parent.
func TestInstances(t *testing.T) {
	beam := vmtest.Start(t, erlang.Options{Ring: true})
	outer, inner := spec("outer", time.Second), spec("inner", time.Second)
	outer.Detail, inner.Detail = outcome.Everything, outcome.Worst
	r := observe(t, beam, outer, inner)
	vmtest.WaitUntil(r.plan.From)
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
