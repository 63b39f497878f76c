package scope_test

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A source delivers the worst instances of outcomes that have triggers or are explained, or more
// if the outcome requests more.
func TestPlan(t *testing.T) {
	const none, worst, all = outcome.CountsOnly, outcome.Worst, outcome.Everything
	for _, tt := range []struct {
		triggers, explain bool
		detail, want      outcome.Detail
	}{
		{false, false, none, none}, {true, false, none, worst}, {false, true, none, worst}, {true, true, none, worst},
		{false, false, worst, worst}, {false, false, all, all}, {true, false, all, all}, {false, true, all, all},
	} {
		s := system(t, "", spec("a", 4))
		s.Outcomes[0].Spec.Detail, s.Outcomes[0].Spec.Explain = tt.detail, tt.explain
		if tt.triggers {
			s.Outcomes[0].Triggers = triggers(t, "load", "5")
		}
		p := s.Plan(7)
		if p.From != 7 || p.Window != time.Second || len(p.Specs) != 1 || p.Specs[0].Name != "a" || p.Specs[0].Detail != tt.want {
			t.Errorf("%+v: %+v", tt, p)
		}
		if s.Outcomes[0].Spec.Detail != tt.detail {
			t.Errorf("%+v: the system has changed", tt)
		}
	}
}

// A start, an end, an instance or a loss marks an outcome as seen.
func TestSeen(t *testing.T) {
	for name, tt := range map[string]struct {
		counts outcome.Counts
		want   bool
	}{
		"nothing":                {outcome.Counts{}, false},
		"a start":                {outcome.Counts{Starts: 1}, true},
		"an end":                 {outcome.Counts{Ends: 1}, true},
		"a failure":              {outcome.Counts{Failures: 1}, true},
		"a timeout":              {outcome.Counts{Timeouts: 1}, true},
		"a loss":                 {losing(outcome.Counts{}, 1), true},
		"a start and an end":     {outcome.Counts{Starts: 1, Ends: 1}, true},
		"an end and a failure":   {outcome.Counts{Ends: 1, Failures: 1}, true},
		"a start and a timeout":  {outcome.Counts{Starts: 1, Timeouts: 1}, true},
		"a timeout and a loss":   {losing(outcome.Counts{Timeouts: 1}, 1), true},
		"a start and a loss":     {losing(outcome.Counts{Starts: 1}, 1), true},
		"a failure and two lost": {losing(outcome.Counts{Ends: 1, Failures: 1}, 2), true},
	} {
		c := tt.counts
		c.Outcome, c.VM, c.Bins = "a", beam, make([]uint64, 4)
		if a := outcomeOf(t, newPlay(t, system(t, "", spec("a", 4))).step(c), "a"); a.Seen != tt.want {
			t.Errorf("%s: seen: %v", name, a.Seen)
		}
	}
}
