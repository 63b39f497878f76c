package vmsource_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// causesOfVM returns the scenarios in which the VM stops a process from continuing. Scenarios
// that measure until the process runs again include the wait for a scheduler.
func causesOfVM() []cause {
	ofVM := func(detail string) func(trace.Share) bool {
		return func(s trace.Share) bool { return s.Kind == trace.VMWait && s.Own && s.Detail == detail }
	}
	suspended := func(s trace.Share) bool { return s.Kind == trace.Suspended && s.Own && s.OtherName == "suspender" }
	return []cause{
		{scenario: "persistent_term", of: ofVM("persistent terms"), also: ofKind(trace.Ready)},
		{scenario: "code", of: ofVM("code"), also: ofKind(trace.Ready)},
		{scenario: "suspended", of: suspended},
		{scenario: "suspended_running", of: suspended},
		{scenario: "suspended_ready", of: suspended},
		{scenario: "suspended_server", of: func(s trace.Share) bool {
			return s.Kind == trace.Suspended && s.Name == "slow_callee" && s.OtherName == "suspender"
		}},
		{scenario: "native_sleep", of: func(s trace.Share) bool {
			return s.Kind == trace.Blocked && s.Own && (s.Detail == "pselect6" || s.Detail == "clock_nanosleep")
		}},
	}
}

// causesAmong returns the scenarios whose cause begins after an unknown delay: until a program
// stops the VM, or until a thread that waits for a lock sleeps.
func causesAmong() []cause {
	stopped := func(s trace.Share) bool { return s.Kind == trace.Stopped && s.Own && s.Detail == "by a signal" }
	return []cause{
		{
			scenario: "table_lock",
			of:       func(s trace.Share) bool { return s.Kind == trace.Blocked && s.Own && s.Detail == "futex" },
			also:     func(s trace.Share) bool { return s.Kind == trace.OSWait && s.Own },
		},
		{scenario: "stopped", of: stopped, also: ofKind(trace.OSWait)},
		{scenario: "stopped_waiting", of: stopped, also: ofKind(trace.OSWait)},
	}
}

// Explanations show what keeps a process from continuing, with seq_trace and without, and while
// other processes in the VM work. This holds on every release.
func TestCausesOfVM(t *testing.T) {
	vmtest.OnEach(t, causesOfVMOn)
}

func causesOfVMOn(t *testing.T, otp erlang.OTP) {
	beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes, Args: []string{"+S", "3:3"}})
	s := newSourceEvery(t, vm.Target{PID: beam.PID()}, 500*time.Millisecond, []outcome.Spec{{
		Name: "slow", Span: "slow", BinWidth: 10 * time.Millisecond, Bins: 1000, Detail: outcome.Worst, Explain: true,
	}})
	vmtest.Favour(t, beam)
	for _, seqTrace := range seqTraces(otp) {
		for _, c := range causesOfVM() {
			t.Run(fmt.Sprintf("%s, seq_trace %v", c.scenario, seqTrace), func(t *testing.T) {
				s.t = t
				each, found := runCause(t, s, beam, c, seqTrace, 5)
				judge(t, c, each, found, s.notices())
			})
		}
		for _, c := range causesAmong() {
			t.Run(fmt.Sprintf("%s, seq_trace %v", c.scenario, seqTrace), func(t *testing.T) {
				s.t = t
				each, found := runCause(t, s, beam, c, seqTrace, 5)
				for range 2 {
					if happened(each) {
						break
					}
					each, found = runCause(t, s, beam, c, seqTrace, 5)
				}
				judgeSums(t, c, each, found)
			})
		}
	}
}

// runCause runs a scenario, and returns its measurements and the explanations.
func runCause(t *testing.T, s *source, beam *erlang.VM, c cause, seqTrace bool, spans int) (map[uint64]span, map[uint64][]trace.Share) {
	t.Helper()
	s.batches = nil
	each := eachOf(t, s.collectWhile(func() (string, error) {
		return beam.Call(t.Context(), "causes", "run", fmt.Sprintf("[%s, #{spans => %d, work => 2, cause => 100, seq_trace => %v}]", c.scenario, spans, seqTrace))
	}))
	found := make(map[uint64][]trace.Share)
	for _, b := range s.batches {
		for _, i := range b.Instances {
			found[i.ID] = sharesOf(t, i)
		}
	}
	return each, found
}

// leastHeld is the least duration, in ns, of a cause that happened. Locks within the VM and its threads'
// waits take tenths of it in any span.
const leastHeld = int64(time.Millisecond)

// happened reports whether the cause happened in any span. The operating system may let the other thread of
// a scenario run before or after the moment that matters.
func happened(each map[uint64]span) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(each)), func(s span) bool { return s.cause >= leastHeld })
}

// judgeSums compares the measurements of the scenario with all shares of its cause, which need
// not be the largest. In a span in which the cause did not happen these shares are small.
func judgeSums(t *testing.T, c cause, each map[uint64]span, found map[uint64][]trace.Share) {
	t.Helper()
	var share, cause int64
	missed := 0
	for id, own := range each {
		logShares(t, id, found[id])
		shared := int64(0)
		for _, s := range found[id] {
			if c.of(s) || c.also(s) {
				shared += s.Duration
			}
		}
		if own.cause < leastHeld {
			if shared > own.cause+leastHeld {
				t.Errorf("#%d: explained %d ns of a cause that took %d ns", id, shared, own.cause)
			}
			continue
		}
		if 10*unseen(found[id]) > own.cause {
			missed++
			continue
		}
		share += shared
		cause += own.cause
	}
	checkMissed(t, missed, len(each))
	if 10*share < 9*cause || 10*share > 11*cause {
		t.Errorf("explained %d ns of the cause, measured %d", share, cause)
	}
}
