package export

import (
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// Instances that took longer than a dMax that beamscope chose are not shown as timeouts of
// the application, nor as anything that failed.
func TestSlowerThanFitted(t *testing.T) {
	grid, err := dq.NewGrid(46*time.Millisecond, 2)
	if err != nil {
		t.Fatal(err)
	}
	frame := func(fitted bool) *scope.Frame {
		p := scope.Probe{
			Name: "buy", Fitted: fitted, VM: outcome.VM{PID: 3},
			Spec:   outcome.Spec{Name: "buy", Span: "buy", BinWidth: grid.Width(), Bins: grid.Bins()},
			Window: outcome.Window{To: 1e9},
			Counts: outcome.Counts{Outcome: "buy", VM: outcome.VM{PID: 3}, Successes: 7, Timeouts: 48},
		}
		if p.Observed, err = dq.NewObserved(grid); err != nil {
			t.Fatal(err)
		}
		if err := p.Observed.Set([]uint64{7, 0}, 0, 48); err != nil {
			t.Fatal(err)
		}
		return &scope.Frame{Window: p.Window, Probes: []scope.Probe{p}}
	}
	written := func(f *scope.Frame) (text, object string) {
		var a, b strings.Builder
		printer := NewText(&a)
		if err := printer.Frame(f); err != nil {
			t.Fatal(err)
		}
		if err := printer.Close(); err != nil {
			t.Fatal(err)
		}
		if err := NewJSON(&b).Frame(f); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(a.String()), " "), b.String()
	}
	text, object := written(frame(true))
	for _, want := range []string{
		"buy: 87.27% took longer than 92ms, a limit that beamscope chose; set dmax in a scope file",
		" >92ms >92ms ≥12.72% 0 >92ms: 48 ",
		"timeouts of buy took longer than beamscope allowed for, and may have succeeded",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	for _, want := range []string{`"fitted_dmax_s":0.092,`, `"success":0.1272727272727272`, `"success_is_at_least":true`} {
		if !strings.Contains(object, want) {
			t.Errorf("no %q in %s", want, object)
		}
	}
	text, object = written(frame(false))
	if strings.Contains(text, "beamscope") || strings.Contains(text, ">92ms") || !strings.Contains(text, " ∞ ∞ 12.73% 0 48 ") {
		t.Errorf("where somebody set dMax: %s", text)
	}
	if strings.Contains(object, "fitted") || strings.Contains(object, "at_least") {
		t.Errorf("where somebody set dMax: %s", object)
	}
}

// A quantile is only slower than dMax where the failures leave room for it.
func TestQuantileSlower(t *testing.T) {
	p := scope.Probe{Fitted: true, Counts: outcome.Counts{Successes: 50, Failures: 40, Timeouts: 10}}
	if !p.QuantileSlower(0.6) || p.QuantileSlower(0.99) {
		t.Errorf("%v, %v", p.QuantileSlower(0.6), p.QuantileSlower(0.99))
	}
}
