package bpf_test

import (
	"errors"
	"math"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/internal/ui/top"
)

// until waits until the clock reaches a time. The clock alone ends a window of samples, so there
// is no other event to await.
func until(at int64) { time.Sleep(time.Duration(at - monotonic.Now())) }

// settled waits until the sampling programs that have begun have ended. It runs once on each
// processor, which is impossible while an interrupt is handled there.
func settled(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	var errs []error
	for left, cpu := all.Count(), 0; left > 0; cpu++ {
		if all.IsSet(cpu) {
			var one unix.CPUSet
			one.Set(cpu)
			errs = append(errs, unix.SchedSetaffinity(0, &one))
			left--
		}
	}
	if err := errors.Join(append(errs, unix.SchedSetaffinity(0, &all))...); err != nil {
		t.Fatal(err)
	}
}

// The VM's share of the samples equals its share of the processors' time according to the operating
// system, within the binomial error. The number of samples is the same with room for one kind of
// sample only.
func TestSamplesAgreeWithProcessorTime(t *testing.T) {
	vmtest.NeedEBPF(t)
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	vmtest.Eval(t, v, "spawn(fun() -> (fun F() -> lists:seq(1, 100), F() end)() end)")
	for name, rows := range map[string]int{"room for all": 0, "room for one kind": 1} {
		t.Run(name, func(t *testing.T) {
			const rate, window = 499, 2 * time.Second
			s, start := samplesOf(t, v.PID(), bpf.SamplerOptions{Rate: rate, Window: int64(window), Rows: rows})
			used := func() (time.Duration, int64) {
				used, _, err := top.ProcessorOf(v.PID())
				if err != nil {
					t.Fatal(err)
				}
				return used, monotonic.Now()
			}
			until(start)
			from, began := used()
			until(start + int64(window))
			to, ended := used()
			settled(t)
			all, err := s.Read(0, monotonic.Now())
			if err != nil {
				t.Fatal(err)
			}
			var n uint64
			for _, sample := range all.Samples {
				if sample.PID != v.PID() || sample.Count == 0 || sample.Address == 0 {
					t.Errorf("%+v", sample)
				}
				n += sample.Count
			}
			if rows == 1 && (len(all.Samples) > 1 || all.NoRoom[v.PID()] == 0) {
				t.Errorf("%d samples of different kinds, %d found no room", len(all.Samples), all.NoRoom[v.PID()])
			}
			n += all.NoRoom[v.PID()]
			p := float64(to-from) / float64(ended-began) / float64(s.Processors())
			due := rate * window.Seconds() * float64(s.Processors())
			want := p * due
			off := float64(began-start+ended-start-int64(window)) / 1e9 * rate // was read at other times
			if tolerance := 5*math.Sqrt(want*(1-p)) + off + 1; math.Abs(float64(n)-want) > tolerance {
				t.Errorf("%d of %.0f samples are of the VM, want %.1f ± %.1f", n, due, want, tolerance)
			}
			if most := (rate*window.Seconds() + 1) * float64(s.Processors()); float64(all.Taken) > most {
				t.Errorf("%d samples, at most %v can be", all.Taken, most)
			}
		})
	}
}

// samplesOf begins to take samples of a process, until the test ends. It returns when the first window
// starts.
func samplesOf(t *testing.T, pid int, o bpf.SamplerOptions) (s *bpf.Sampler, start int64) {
	t.Helper()
	s, err := bpf.NewSampler(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Add(pid, bpf.SchedulerData{}); err != nil {
		t.Fatal(err)
	}
	start = monotonic.Now() + int64(20*time.Millisecond)
	if err := s.Begin(start); err != nil {
		t.Fatal(err)
	}
	return s, start
}

// The sampler takes no samples of a VM that was removed. Reading a window too late is an error.
func TestSamplerLimits(t *testing.T) {
	vmtest.NeedEBPF(t)
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	vmtest.Eval(t, v, "spawn(fun() -> (fun F() -> lists:seq(1, 100), F() end)() end)")
	const window = 100 * time.Millisecond
	s, err := bpf.NewSampler(bpf.SamplerOptions{Rate: 499, Window: int64(window)})
	if err != nil {
		t.Fatal(err)
	}
	start := monotonic.Now()
	if err := s.Begin(start); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Add(v.PID(), bpf.SchedulerData{}), s.Remove(v.PID())); err != nil {
		t.Fatal(err)
	}
	removed := uint64(monotonic.Now()-start)/uint64(window) + 1
	until(start + int64(removed+1)*int64(window))
	settled(t)
	all, err := s.Read(removed, monotonic.Now())
	if err != nil || len(all.Samples) > 0 || all.Taken == 0 {
		t.Errorf("%+v %v", all, err)
	}
	if _, err := s.Read(removed+1, start+int64(removed+10)*int64(window)); !errors.Is(err, bpf.ErrStale) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(0, 0); !errors.Is(err, bpf.ErrClosed) {
		t.Error(err)
	}
}

// A sample costs more than nothing, and at most a millisecond.
func TestMeasureSample(t *testing.T) {
	vmtest.NeedEBPF(t)
	cost, err := bpf.MeasureSample()
	if err != nil || cost <= 0 || cost > time.Millisecond {
		t.Errorf("%v %v", cost, err)
	}
}

// The sampler draws the time between interrupts again and again, also while nobody reads a window.
func TestGapsAreDrawnAgain(t *testing.T) {
	vmtest.NeedEBPF(t)
	s, err := bpf.NewSampler(bpf.SamplerOptions{Rate: 1000, Window: int64(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Begin(0); err != nil {
		t.Fatal(err)
	}
	mean := time.Second / 1000 / 2
	for cpu := range uint32(s.Processors()) {
		drawn := make(map[uint64]bool)
		for deadline := time.Now().Add(10 * time.Second); len(drawn) < 5; {
			if time.Now().After(deadline) {
				t.Fatalf("processor %d: only %v", cpu, drawn)
			}
			var gap uint64
			if err := s.Gaps.Lookup(cpu, &gap); err != nil {
				t.Fatal(err)
			}
			if gap < uint64(mean)*2/3-1 || gap > uint64(mean)*4/3+1 {
				t.Fatalf("processor %d: %d ns", cpu, gap)
			}
			drawn[gap] = true
		}
	}
}
