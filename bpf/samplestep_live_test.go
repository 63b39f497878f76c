package bpf_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// clock reads a clock of the operating system.
func clock(id int32) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(id, &now); err != nil {
		panic(err) // the clocks of a process and a thread always exist
	}
	return time.Duration(now.Nano())
}

// A usage is the processor time that this process has used, at a time.
type usage struct {
	processor time.Duration
	at        int64 // nanoseconds of CLOCK_MONOTONIC
}

// workInStep works at the beginning of each period, like a process that waits for a timer. For each
// of the times it returns the used time at the next start of work.
func workInStep(period, work time.Duration, times ...int64) (all []usage) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for len(all) < len(times) {
		next := unix.NsecToTimespec((monotonic.Now()/int64(period) + 1) * int64(period))
		if unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &next, nil) != nil {
			continue // a signal interrupted it
		}
		if now := monotonic.Now(); now >= times[len(all)] {
			all = append(all, usage{clock(unix.CLOCK_PROCESS_CPUTIME_ID), now})
		}
		for end := clock(unix.CLOCK_THREAD_CPUTIME_ID) + work; clock(unix.CLOCK_THREAD_CPUTIME_ID) < end; {
		}
	}
	return all
}

// keepAwake keeps each processor busy when nothing else does, until the test ends. The timers of an
// idle virtual processor can be late together: then work would start exactly when a sample is
// taken.
func keepAwake(t *testing.T) {
	t.Helper()
	for range runtime.NumCPU() {
		cmd := exec.Command("chrt", "--idle", "0", "sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
}

// Work that starts on each millisecond, or on every second one, has its right share of the samples,
// even at rates that divide 1000. The share is that of the operating system, within five standard
// deviations. A machine that is virtual can lose samples while its host runs something else, so the
// share is of the samples that were taken.
func TestSamplesOfWorkInStep(t *testing.T) {
	vmtest.NeedEBPF(t)
	keepAwake(t)
	for _, period := range []time.Duration{time.Millisecond, 2 * time.Millisecond} {
		for _, rate := range []int{100, 500, 1000} {
			t.Run(fmt.Sprintf("%v at %d Hz", period, rate), func(t *testing.T) { testInStep(t, period, rate) })
		}
	}
}

func testInStep(t *testing.T, period time.Duration, rate int) {
	const window = 2 * time.Second
	stalls := vmtest.WatchStalls(t)
	s, start := samplesOf(t, os.Getpid(), bpf.SamplerOptions{Rate: rate, Window: int64(window)})
	used := workInStep(period, period/3, start, start+int64(window))
	settled(t)
	all, err := s.Read(0, monotonic.Now())
	if err != nil {
		t.Fatal(err)
	}
	var n uint64
	for _, sample := range all.Samples {
		n += sample.Count
	}
	from, to := used[0], used[1]
	share := float64(to.processor-from.processor) / float64(to.at-from.at) // of one processor
	p := share / float64(s.Processors())
	want := p * float64(all.Taken)
	off := float64(from.at-start+to.at-start-int64(window)) / 1e9 * float64(rate)       // was read at other times
	const interrupts = 0.05                                                             // at most, of the processor time: no sample can fall into the sampler's own interrupt
	stalled := float64(stalls.Within(start, start+int64(window))) / 1e9 * float64(rate) // the kernel counts it as processor time, and takes one sample
	tolerance := 5*math.Sqrt(want*(1-p)) + interrupts*want + off + stalled + 1
	t.Logf("%d samples, want %.1f ± %.1f, %.1f of it for stalls, %d of all", n, want, tolerance, stalled, all.Taken)
	if math.Abs(float64(n)-want) > tolerance {
		t.Errorf("%d samples, want %.1f ± %.1f", n, want, tolerance)
	}
}
