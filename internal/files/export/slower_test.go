package export

import (
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// Instances that took longer than a dMax that beamscope chose are shown neither as timeouts of
// the application nor as failures.
func TestSlowerThanFitted(t *testing.T) {
	grid, err := dq.NewGrid(46*time.Millisecond, 2)
	if err != nil {
		t.Fatal(err)
	}
	frame := func(fitted bool) *scope.Frame {
		p := scope.Outcome{
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
		return &scope.Frame{Window: p.Window, Outcomes: []scope.Outcome{p}}
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
		"buy: 87.27% took longer than 92ms, a limit that beamscope chose: how they ended is not known. Set dmax in a scope file",
		" >92ms >92ms ≥12.72% ≥0 >92ms: 48 ",
		" ≥7 ≥0 48 ", // the row of totals
		"timeouts of buy: slower than a limit that beamscope chose; how they ended is not known",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	for _, want := range []string{`"fitted_dmax_s":0.092,`, `"success":0.1272727272727272`, `"success_is_at_least":true`, `"failed_is_at_least":true`} {
		if !strings.Contains(object, want) {
			t.Errorf("no %q in %s", want, object)
		}
	}
	text, object = written(frame(false))
	if strings.Contains(text, "beamscope") || strings.Contains(text, ">92ms") || !strings.Contains(text, " ∞ ∞ 12.73% 0 48 ") {
		t.Errorf("with a dMax from the user: %s", text)
	}
	if strings.Contains(object, "fitted") || strings.Contains(object, "at_least") {
		t.Errorf("with a dMax from the user: %s", object)
	}
}

// A quantile is slower than dMax only if it cannot be due to failures alone.
func TestQuantileSlower(t *testing.T) {
	p := scope.Outcome{Fitted: true, Counts: outcome.Counts{Successes: 50, Failures: 40, Timeouts: 10}}
	if !p.QuantileSlower(0.6) || p.QuantileSlower(0.99) {
		t.Errorf("%v, %v", p.QuantileSlower(0.6), p.QuantileSlower(0.99))
	}
}

// Groups and the legends of images do not show them as timeouts either.
func TestGroupsSlowerThanFitted(t *testing.T) {
	for _, fitted := range []bool{true, false} {
		p := &scope.Outcome{Fitted: fitted, Spec: outcome.Spec{BinWidth: 46 * time.Millisecond, Bins: 2}}
		g := &outcome.Group{Key: "a", Successes: 7, Timeouts: 48}
		var out strings.Builder
		columns{w: &out}.groupRow(p, "a", g)
		want := "a\t55\t>92ms\t>92ms\t>92ms\t>92ms\t≥12.72%\t≥0\t>92ms: 48\t"
		legend := "slower than a limit that beamscope chose"
		if !fitted {
			want, legend = "a\t55\t∞\t∞\t∞\t∞\t12.73%\t0\t48\t", "failed or timed out"
		}
		if got := out.String(); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if got := (&plot.Series{Fitted: fitted, Failed: 0.5, TimedOut: 0.5}).HowFailedInFull(); got != legend {
			t.Errorf("%q, want %q", got, legend)
		}
	}
}

// JSON shows that more instances of a group may have succeeded.
func TestGroupsSlowerInJSON(t *testing.T) {
	for _, fitted := range []bool{true, false} {
		p := &scope.Outcome{Fitted: fitted, Spec: outcome.Spec{BinWidth: 46 * time.Millisecond, Bins: 2}}
		if g := groupOf(p, &outcome.Group{Successes: 7, Timeouts: 48}); g.AtLeast != fitted || g.FailedAt != fitted {
			t.Errorf("fitted %v: %+v", fitted, g)
		}
		if g := groupOf(p, &outcome.Group{Successes: 7}); g.AtLeast || g.FailedAt {
			t.Errorf("without slow ones: %+v", g)
		}
	}
}
