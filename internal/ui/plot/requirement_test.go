package plot_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// Of the instances, 20 % are done within 10 ms, 60 % within 20 ms, 90 % within 40 ms.
func TestRequirement(t *testing.T) {
	const end = dq.Unreached
	tests := []struct {
		name    string
		failure float64
		steps   []dq.Step
		want    []plot.Stretch
	}{
		{"nothing", 1, nil, nil},
		{"success alone", 0.1, nil, []plot.Stretch{{From: 40 * ms, To: end, P: 0.9}}},
		{"missed success", 0.05, nil, []plot.Stretch{{From: 40 * ms, To: end, P: 0.95, Missed: true}}},
		{"met", 0.5, []dq.Step{{T: 10 * ms, P: 0.2}, {T: 20 * ms, P: 0.5}},
			[]plot.Stretch{{From: 10 * ms, To: 20 * ms, P: 0.2}, {From: 20 * ms, To: 40 * ms, P: 0.5}, {From: 40 * ms, To: end, P: 0.5}}},
		{"missed until 30 to 40 ms", 0.5, []dq.Step{{T: 20 * ms, P: 0.8}},
			[]plot.Stretch{{From: 20 * ms, To: 30 * ms, P: 0.8, Missed: true}, {From: 30 * ms, To: 40 * ms, P: 0.8}, {From: 40 * ms, To: end, P: 0.8}}},
		{"never reached", 0, []dq.Step{{T: 20 * ms, P: 0.95}},
			[]plot.Stretch{{From: 20 * ms, To: 40 * ms, P: 0.95, Missed: true}, {From: 40 * ms, To: end, P: 1, Missed: true}}},
		{"uncertain within a bin", 1, []dq.Step{{T: 15 * ms, P: 0.4}},
			[]plot.Stretch{{From: 15 * ms, To: 40 * ms, P: 0.4}, {From: 40 * ms, To: end, P: 0.4}}},
		{"a step that requires less", 1, []dq.Step{{T: 20 * ms, P: 0.5}, {T: 30 * ms, P: 0.2}},
			[]plot.Stretch{{From: 20 * ms, To: 30 * ms, P: 0.5}, {From: 30 * ms, To: 40 * ms, P: 0.5}, {From: 40 * ms, To: end, P: 0.5}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q, err := dq.NewQTA(tt.failure, tt.steps...)
			if err != nil {
				t.Fatal(err)
			}
			s := plot.Of(example(t), &q, nil, "")
			if diff := cmp.Diff(tt.want, s.Requirement()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Without observed instances, nothing is missed.
func TestRequirementWithoutInstances(t *testing.T) {
	q, err := dq.NewQTA(0.1)
	if err != nil {
		t.Fatal(err)
	}
	s := plot.Of(&scope.Outcome{}, &q, nil, "")
	if diff := cmp.Diff([]plot.Stretch{{To: dq.Unreached, P: 0.9}}, s.Requirement()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRequiredWithin(t *testing.T) {
	q, err := dq.Quartiles(5*ms, 10*ms, 20*ms, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	with, without := plot.Of(example(t), &q, nil, ""), plot.Of(example(t), nil, nil, "")
	for at, want := range map[time.Duration]float64{0: 0, 5 * ms: 0.25, 10*ms - 1: 0.25, 10 * ms: 0.5, 39 * ms: 0.75, 40 * ms: 0.95, time.Hour: 0.95} {
		if got := with.RequiredWithin(at); got != want {
			t.Errorf("%v within %v, want %v", got, at, want)
		}
		if got := without.RequiredWithin(at); got != 0 {
			t.Errorf("without a QTA: %v within %v", got, at)
		}
	}
}
