package session

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// A notice reports once that the windows of an outcome have too few instances for its triggers. Windows
// without instances, with loss or with enough instances, and triggers that need no verdict, have none.
func TestTooFewInstancesForTriggers(t *testing.T) {
	trigger := func(kind, setting string) scope.Trigger {
		parsed, err := scope.ParseTrigger(kind, setting)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	s := newSparse()
	spec := func(name string) outcome.Spec {
		return outcome.Spec{Name: name, BinWidth: time.Millisecond, Bins: 50}
	}
	system := &scope.System{Window: time.Second, Samples: 50, Outcomes: []scope.OutcomeSystem{
		{Spec: spec("shop"), Triggers: []scope.Trigger{trigger("silence", "10s"), trigger("qta", "true"), trigger("failure", "0.1")}},
		{Spec: spec("quiet"), Triggers: []scope.Trigger{trigger("silence", "10s"), trigger("load", "100")}},
		{Spec: spec("none")},
	}}
	if err := s.Configured(system, outcome.Plan{}); err != nil {
		t.Fatal(err)
	}
	row := func(name string, n, lost uint64, why string) scope.Outcome {
		p := scope.Outcome{Name: name, Spec: spec(name), Judgement: &dq.Judgement{}, Insufficient: why, Counts: outcome.Counts{Outcome: name, Successes: n}}
		p.Counts.Loss.Unpaired = lost
		return p
	}
	frames := func(windows int, rows ...scope.Outcome) (texts []string) {
		for range windows {
			if err := s.Framed(nil, &scope.Frame{Outcomes: rows}); err != nil {
				t.Fatal(err)
			}
			for _, n := range s.take() {
				texts = append(texts, n.Text)
			}
		}
		return texts
	}
	few := row("shop", 40, 0, "too few instances")
	for what, windows := range map[string][]string{
		"others":       frames(20, row("quiet", 40, 0, "too few instances"), row("none", 40, 0, "too few instances")),
		"no instances": frames(20, row("shop", 0, 0, "no instances")),
		"loss":         frames(20, row("shop", 40, 1, "loss")),
		"enough":       frames(20, row("shop", 50, 0, "")),
		"four":         frames(sparseAfter-1, few),
		"one again":    append(frames(1, row("shop", 50, 0, "")), frames(sparseAfter-1, few)...),
	} {
		if len(windows) > 0 {
			t.Errorf("%s: %q", what, windows)
		}
	}
	want := []string{"shop: windows of 1s have fewer than 50 instances, the last one 40: no trigger of kind qta, failure fires. Choose a longer window, or fewer samples"}
	if diff := cmp.Diff(want, frames(20, few)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
