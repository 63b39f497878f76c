package plot_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// observed returns an observed ΔQ with these counts in bins of 10 ms, and with timeouts.
func observed(t testing.TB, timeouts uint64, counts ...uint64) *dq.Observed {
	t.Helper()
	g, err := dq.NewGrid(10*ms, len(counts))
	if err != nil {
		t.Fatal(err)
	}
	o, err := dq.FromCounts(g, counts, 0, timeouts)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func deltaQ(t testing.TB, o *dq.Observed) *dq.DeltaQ {
	t.Helper()
	d, err := o.DeltaQ()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// example returns an outcome with 10 instances: 2, 4, 0 and 3 in bins of 10 ms, and a timeout.
func example(t testing.TB) *scope.Outcome {
	t.Helper()
	p := &scope.Outcome{Name: "p", Spec: outcome.Spec{BinWidth: 10 * ms, Bins: 4}}
	p.Observed = observed(t, 1, 2, 4, 0, 3)
	p.Counts = outcome.Counts{Successes: 9, Timeouts: 1, Loss: outcome.Loss{NoRoom: 3}}
	p.Calculated = deltaQ(t, p.Observed)
	p.Mean = scope.Mean{Width: 10 * ms, Windows: 2, Band: dq.Band{
		Mean: []float64{0, 0.3, 0.5, 0.6, 0.8},
		Lo:   []float64{0, 0.2, 0.4, 0.5, 0.7},
		Hi:   []float64{0, 0.4, 0.6, 0.7, 0.9},
	}}
	p.CalculatedMean = p.Mean
	return p
}

func TestOf(t *testing.T) {
	s := plot.Of(example(t), nil, example(t), "")
	var roles []plot.Role
	for _, c := range s.Curves {
		roles = append(roles, c.Role)
	}
	if diff := cmp.Diff(plot.Roles(), roles); diff != "" {
		t.Errorf("roles, -want +got:\n%s", diff)
	}
	if s.Name != "p" || s.DMax != 40*ms || s.Instances != 10 || s.Lost != 3 || s.Judged {
		t.Errorf("%+v", s)
	}
	if !s.HasFailed || s.Failed != 0.1 {
		t.Errorf("failed %v, %v, want 0.1", s.Failed, s.HasFailed)
	}
}

func TestOfWithoutInstances(t *testing.T) {
	p := &scope.Outcome{Name: "p", Observed: observed(t, 0, 0, 0), Calculated: new(dq.DeltaQ), Insufficient: "no instances"}
	s := plot.Of(p, nil, p, "")
	if len(s.Curves) > 0 || s.HasFailed || s.Caveat != "no instances" {
		t.Errorf("%+v", s)
	}
	if s.Curve(plot.Observed) != nil || s.Requirement() != nil {
		t.Error("there is a curve or a requirement without instances")
	}
}

// A ΔQ that is calculated from nothing but one observed ΔQ equals it, and its curve has the same
// values.
func TestCurves(t *testing.T) {
	s := plot.Of(example(t), nil, nil, "")
	ecdf := []float64{0, 0.2, 0.6, 0.6, 0.9}
	more := append(slices.Clone(ecdf), 0.9) // one more edge after the last, where the value stays the same
	want := map[plot.Role][3][]float64{
		plot.Observed:       {ecdf},
		plot.Calculated:     {more, more, more},
		plot.Mean:           {{0, 0.3, 0.5, 0.6, 0.8}, {0, 0.2, 0.4, 0.5, 0.7}, {0, 0.4, 0.6, 0.7, 0.9}},
		plot.CalculatedMean: {{0, 0.3, 0.5, 0.6, 0.8}, {0, 0.2, 0.4, 0.5, 0.7}, {0, 0.4, 0.6, 0.7, 0.9}},
	}
	for role, want := range want {
		c := s.Curve(role)
		got := [3][]float64{c.Y, c.Lo, c.Hi}
		if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" || c.Width != 10*ms {
			t.Errorf("%v, width %v, -want +got:\n%s", role, c.Width, diff)
		}
	}
}

// A sequence of two steps of 10 to 20 ms each takes 20 to 40 ms.
func TestCurveOfTwoSteps(t *testing.T) {
	leaf := deltaQ(t, observed(t, 0, 0, 1))
	both, err := dq.Sequential(leaf, leaf)
	if err != nil {
		t.Fatal(err)
	}
	p := &scope.Outcome{Calculated: both}
	s := plot.Of(p, nil, nil, "")
	c := s.Curve(plot.Calculated)
	want := [3][]float64{{0, 0, 0, 0.5, 1, 1}, {0, 0, 0, 0, 1, 1}, {0, 0, 0, 1, 1, 1}}
	if diff := cmp.Diff(want, [3][]float64{c.Y, c.Lo, c.Hi}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWithin(t *testing.T) {
	s := plot.Of(example(t), nil, nil, "")
	tests := []struct {
		role plot.Role
		t    time.Duration
		want dq.Bounds
	}{
		{plot.Observed, 15 * ms, dq.Bounds{Lo: 0.2, Hi: 0.6}},
		{plot.Observed, 25 * ms, dq.Bounds{Lo: 0.6, Hi: 0.6}},
		{plot.Observed, 40 * ms, dq.Bounds{Lo: 0.9, Hi: 0.9}},
		{plot.Observed, time.Hour, dq.Bounds{Lo: 0.9, Hi: 0.9}},
		{plot.Calculated, 15 * ms, dq.Bounds{Lo: 0.2, Hi: 0.6}},
		{plot.Calculated, time.Hour, dq.Bounds{Lo: 0.9, Hi: 0.9}},
		{plot.Mean, 0, dq.Bounds{}},
		{plot.Mean, 10 * ms, dq.Bounds{Lo: 0.2, Hi: 0.4}},
		{plot.Mean, 15 * ms, dq.Bounds{Lo: 0.2, Hi: 0.6}},
		{plot.Mean, 40 * ms, dq.Bounds{Lo: 0.7, Hi: 0.9}},
		{plot.Mean, time.Hour, dq.Bounds{Lo: 0.7, Hi: 0.9}},
	}
	for _, tt := range tests {
		got, ok := s.Curve(tt.role).Within(tt.t)
		if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" || !ok {
			t.Errorf("%v within %v: %+v, %v, want %+v", tt.role, tt.t, got, ok, tt.want)
		}
	}
	if b, ok := s.Curve(plot.Mean).Within(-1); ok {
		t.Errorf("mean within less than nothing: %+v", b)
	}
}

// At an edge, Read returns the drawn value of the curve. That value is exact if the curve is.
func TestRead(t *testing.T) {
	s := plot.Of(example(t), nil, nil, "")
	for _, tt := range []struct {
		role plot.Role
		t    time.Duration
		want dq.Bounds
	}{
		{plot.Observed, 10 * ms, dq.Bounds{Lo: 0.2, Hi: 0.2}},
		{plot.Observed, 15 * ms, dq.Bounds{Lo: 0.2, Hi: 0.6}},
		{plot.Observed, time.Second, dq.Bounds{Lo: 0.9, Hi: 0.9}},
		{plot.Calculated, 10 * ms, dq.Bounds{Lo: 0.2, Hi: 0.2}},
		{plot.Mean, 10 * ms, dq.Bounds{Lo: 0.2, Hi: 0.4}},
	} {
		got, ok := s.Curve(tt.role).Read(tt.t)
		if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" || !ok {
			t.Errorf("%v at %v: %+v, %v, want %+v", tt.role, tt.t, got, ok, tt.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	s := plot.Of(example(t), nil, nil, "")
	tests := []struct {
		role plot.Role
		p    float64
		want dq.Interval
	}{
		{plot.Observed, 0, dq.Interval{}},
		{plot.Observed, 0.2, dq.Interval{Lo: 0, Hi: 10 * ms}},
		{plot.Observed, 0.5, dq.Interval{Lo: 10 * ms, Hi: 20 * ms}},
		{plot.Observed, 0.9, dq.Interval{Lo: 30 * ms, Hi: 40 * ms}},
		{plot.Calculated, 0.5, dq.Interval{Lo: 10 * ms, Hi: 20 * ms}},
		{plot.Mean, 0, dq.Interval{}},
		{plot.Mean, 0.3, dq.Interval{Lo: 10 * ms, Hi: 20 * ms}},
		{plot.Mean, 0.55, dq.Interval{Lo: 20 * ms, Hi: 40 * ms}},
		{plot.Mean, 0.75, dq.Interval{Lo: 40 * ms, Hi: dq.Unreached}},
	}
	for _, tt := range tests {
		if got, ok := s.Curve(tt.role).Quantile(tt.p); !ok || got != tt.want {
			t.Errorf("%v of %v: %+v, %v, want %+v", tt.p, tt.role, got, ok, tt.want)
		}
	}
	for _, role := range []plot.Role{plot.Observed, plot.Calculated, plot.Mean} {
		for _, p := range []float64{0.95, 1.1, -0.1, math.NaN()} {
			if got, ok := s.Curve(role).Quantile(p); ok {
				t.Errorf("%v of %v: %+v, want none", p, role, got)
			}
		}
	}
}

// The mean of a single window has no bounds, because it does not show how much windows differ.
func TestMeanOfOneWindow(t *testing.T) {
	p := example(t)
	p.Mean.Windows = 1
	s := plot.Of(p, nil, nil, "")
	c := s.Curve(plot.Mean)
	if c.Lo != nil || c.Hi != nil {
		t.Errorf("bounds %v, %v", c.Lo, c.Hi)
	}
	if q, ok := c.Quantile(0.55); !ok || q != (dq.Interval{Lo: 30 * ms, Hi: 30 * ms}) {
		t.Errorf("quantile %v, %v", q, ok)
	}
	if b, ok := c.Within(15 * ms); !ok || b != (dq.Bounds{Lo: 0.3, Hi: 0.5}) {
		t.Errorf("within: %v, %v", b, ok)
	}
}

// On a mean, the cursor is where the mean itself reaches the share, not where its bounds do. On an
// observed or calculated curve, it is at the end of the bin.
func TestReaches(t *testing.T) {
	s := plot.Of(example(t), nil, nil, "")
	for role, want := range map[plot.Role]time.Duration{plot.Mean: 20 * ms, plot.Observed: 20 * ms, plot.Calculated: 20 * ms} {
		if at, ok := s.Curve(role).Reaches(0.5); !ok || at != want {
			t.Errorf("%v: %v, %v, want %v", role, at, ok, want)
		}
	}
	if at, ok := s.Curve(plot.Mean).Reaches(0.85); ok {
		t.Errorf("the mean ends at 0.8, but reaches 0.85 at %v", at)
	}
}

// A curve of an earlier window has the label of that window as its name, if there is one.
func TestName(t *testing.T) {
	named, nameless := plot.Of(example(t), nil, example(t), "window 12"), plot.Of(example(t), nil, example(t), "")
	for want, c := range map[string]*plot.Curve{
		"window 12": named.Curve(plot.Earlier), "earlier": nameless.Curve(plot.Earlier), "observed": named.Curve(plot.Observed),
	} {
		if c.Name() != want {
			t.Errorf("%v is named %q, want %q", c.Role, c.Name(), want)
		}
	}
	if named.TimedOut != 0.1 {
		t.Errorf("%v timed out, want 0.1", named.TimedOut)
	}
}

func TestRoles(t *testing.T) {
	want := []string{"earlier", "mean", "calculated mean", "calculated", "observed"}
	for i, r := range plot.Roles() {
		if r.String() != want[i] {
			t.Errorf("%d is called %v, want %s", i, r, want[i])
		}
	}
}
