package outcome_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/trace"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/internal/vmtest"
)

// causesOfVM are the scenarios in which the VM does not let a process go on. Those that
// measure how long a process was kept until it ran again count the wait for a scheduler too.
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

// causesAmong are the scenarios of which nobody knows how long it takes until the cause is
// there: until a program stops the VM, and until a thread that waits for a lock sleeps.
func causesAmong() []cause {
	stopped := func(s trace.Share) bool { return s.Kind == trace.Stopped && s.Own && s.Detail == "by a signal" }
	return []cause{
		{
			scenario: "table_lock",
			of:       func(s trace.Share) bool { return s.Kind == trace.Blocked && s.Own && s.Detail == "futex" },
			also:     ofKind(trace.OSWait),
		},
		{scenario: "stopped", of: stopped, also: ofKind(trace.OSWait)},
		{scenario: "stopped_waiting", of: stopped, also: ofKind(trace.OSWait)},
	}
}

// What keeps a process from going on is found, with seq_trace and without, and while
// others in the VM work.
func TestCausesOfVM(t *testing.T) {
	beam := vmtest.StartOn(t, knownOTP(t), erlang.Options{Args: []string{"+S", "3:3"}})
	s := newSourceEvery(t, vm.Target{PID: beam.PID()}, 500*time.Millisecond, []outcome.Spec{{
		Name: "slow", Span: "slow", BinWidth: 10 * time.Millisecond, Bins: 1000, Detail: outcome.Worst, Explain: true,
	}})
	vmtest.Favour(t, beam)
	for _, seqTrace := range []bool{false, true} {
		for _, c := range causesOfVM() {
			t.Run(fmt.Sprintf("%s, seq_trace %v", c.scenario, seqTrace), func(t *testing.T) {
				s.t = t
				each, found := runCause(t, s, beam, c, seqTrace)
				judge(t, c, each, found, s.notices())
			})
		}
		for _, c := range causesAmong() {
			t.Run(fmt.Sprintf("%s, seq_trace %v", c.scenario, seqTrace), func(t *testing.T) {
				s.t = t
				each, found := runCause(t, s, beam, c, seqTrace)
				judgeSums(t, c, each, found)
			})
		}
	}
}

// runCause carries out a scenario, and returns what it measured and what was found.
func runCause(t *testing.T, s *source, beam *erlang.VM, c cause, seqTrace bool) (map[uint64]span, map[uint64][]trace.Share) {
	t.Helper()
	s.batches = nil
	each := eachOf(t, s.collectWhile(func() (string, error) {
		return beam.Call(t.Context(), "causes", "run", fmt.Sprintf("[%s, #{spans => 5, work => 2, cause => 100, seq_trace => %v}]", c.scenario, seqTrace))
	}))
	found := make(map[uint64][]trace.Share)
	for _, b := range s.batches {
		for _, i := range b.Instances {
			found[i.ID] = sharesOf(t, i)
		}
	}
	return each, found
}

// judgeSums compares what the scenario measured with what was found of the cause, which need
// not be the largest share.
func judgeSums(t *testing.T, c cause, each map[uint64]span, found map[uint64][]trace.Share) {
	t.Helper()
	var share, cause int64
	for id, own := range each {
		logShares(t, id, found[id])
		for _, s := range found[id] {
			if c.of(s) || c.also(s) {
				share += s.Duration
			}
		}
		cause += own.cause
	}
	if 10*share < 9*cause || 10*share > 11*cause {
		t.Errorf("%d ns were found, and %d measured", share, cause)
	}
}
