package vmsource

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// VMs are opened for names before the first window is collected, if an outcome is explained, may
// be explained later, or is grouped. If a later plan explains an outcome, they are opened when
// that plan is made.
func TestNamesAreOpenedEarly(t *testing.T) {
	vmtest.NeedNames(t)
	beam := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	vmtest.NeedEBPF(t)
	plan := func(explain bool, group string) outcome.Plan {
		return outcome.Plan{From: monotonic.Now() + int64(time.Second), Window: time.Second, Specs: []outcome.Spec{{
			Name: "slow", Span: "slow", BinWidth: time.Millisecond, Bins: 10, Detail: outcome.Worst, Explain: explain, Group: group,
		}}}
	}
	for _, test := range []struct {
		name       string
		now, later bool // whether an outcome is explained
		may        bool
		group      string // grouping in the current plan
		want       bool
	}{
		{name: "explained", now: true, want: true},
		{name: "explained later", later: true, want: true},
		{name: "may be explained", may: true, want: true},
		{name: "grouped", group: outcome.GroupPID, want: true},
		{name: "never explained"},
	} {
		t.Run(test.name, func(t *testing.T) {
			first := plan(test.now, test.group)
			s, err := New(t.Context(), Config{Target: vm.Target{PID: beam.PID()}, Plan: first, Explain: test.may})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			if test.later {
				next := plan(true, "")
				next.From = first.At(first.Number(monotonic.Now()+int64(first.Window)) + 5).From
				if err := s.Plan(t.Context(), next); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.names.namers[beam.PID()] != nil; got != test.want {
				t.Errorf("names are opened: %v", got)
			}
			if _, _, err := s.Survey(beam.PID(), 0, 1); test.group != "" && err != nil {
				t.Errorf("survey before the first window: %v", err)
			}
		})
	}
}
