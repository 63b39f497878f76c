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
	}
}

// What keeps a process from going on is found, with seq_trace and without, and while
// others in the VM work.
func TestCausesOfVM(t *testing.T) {
	beam := vmtest.Start(t, erlang.Options{Args: []string{"+S", "3:3"}})
	s := newSourceEvery(t, vm.Target{PID: beam.PID()}, 500*time.Millisecond, []outcome.Spec{{
		Name: "slow", Span: "slow", BinWidth: 10 * time.Millisecond, Bins: 1000, Detail: outcome.Worst, Explain: true,
	}})
	vmtest.Favour(t, beam)
	for _, seqTrace := range []bool{false, true} {
		for _, c := range causesOfVM() {
			t.Run(fmt.Sprintf("%s, seq_trace %v", c.scenario, seqTrace), func(t *testing.T) {
				s.t = t
				runCause(t, s, beam, c, seqTrace)
			})
		}
	}
}

// runCause carries out a scenario and judges what was found.
func runCause(t *testing.T, s *source, beam *erlang.VM, c cause, seqTrace bool) {
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
	judge(t, c, each, found, s.notices())
}
