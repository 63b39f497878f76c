package dashboard

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// shop returns a frame of six outcomes whose scale beamscope chose. In the incident all calls
// take longer.
func shop(t *testing.T, incident bool) scope.Frame {
	t.Helper()
	grid, err := dq.NewGrid(time.Millisecond, 488)
	if err != nil {
		t.Fatal(err)
	}
	var f scope.Frame
	for _, name := range []string{"checkout", "basket", "db_query", "支付_pay_card_", "gc", "file_io"} {
		spec := outcome.Spec{Name: name, Span: name, BinWidth: grid.Width(), Bins: grid.Bins()}
		if strings.HasPrefix(name, "支付") {
			spec.Span = "支付 pay(card)"
		}
		counts := outcome.Counts{Outcome: name, VM: outcome.VM{PID: 3}, Starts: 100}
		observed, err := dq.NewObserved(grid)
		if err != nil {
			t.Fatal(err)
		}
		bins := make([]uint64, grid.Bins())
		if incident {
			counts.Timeouts, counts.Failures = 97, 3
		} else {
			bins[8], counts.Successes = 100, 100
		}
		if err := observed.Set(bins, counts.Failures, counts.Timeouts); err != nil {
			t.Fatal(err)
		}
		p := scope.Outcome{Name: name, Fitted: true, VM: counts.VM, Window: outcome.Window{To: 2e9}, Observed: observed, Seen: true, Spec: spec, Counts: counts}
		if incident && name == "basket" {
			p.Observed, p.Counts, p.Silent = mustObserved(t, grid), outcome.Counts{VM: counts.VM}, 4*time.Second
		}
		f.Outcomes = append(f.Outcomes, p)
	}
	return f
}

// During an incident an 80×24 screen still shows the histories and the plot. Below them a whole
// line reports instances that took longer than beamscope's dMax.
func TestIncidentAt80(t *testing.T) {
	var frames []scope.Frame
	for i := range 30 {
		frames = append(frames, shop(t, i > 26))
	}
	h := live(t, session.Status{}, 80, 24, frames...)
	h.do(func() { h.d.show("overview") })
	h.d.Notify(outcome.Notice{Kind: outcome.FittedNotice, Outcome: "checkout", Text: "checkout: fitted to 976 bins of 500µs, up to 488ms: 99 % took up to 61ms, the slowest 122ms"})
	h.do(h.d.refresh)
	h.shows("silent", "rate trend", "┌─ checkout", "fitted to", "checkout: 97.00% took >488ms; how they ended is not known: set dmax")
	h.hides("window by window")
	h.resize(140, 40)
	h.shows("rate, window by window", "checkout: 97.00% took longer than 488ms, a limit that beamscope chose: how they ended is not known. Set dmax in a scope file")
}

// The name is shortened before the text is.
func TestSlowerLineOfLongName(t *testing.T) {
	f := shop(t, true)
	f.Outcomes[0].Name = "a_checkout_with_a_name_that_takes_more_than_half_of_the_line"
	f.Outcomes[0].Spec.Name, f.Outcomes[0].Spec.Span = f.Outcomes[0].Name, f.Outcomes[0].Name
	h := live(t, session.Status{}, 80, 24, f)
	h.do(func() { h.d.show("overview") })
	h.shows("took >488ms; how they ended is not known: set dmax")
}

// An 80-column screen shows the cost, for recordings too.
func TestCostAt80(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.shows("cost 0.")
	h.hides("of a core")
	h.resize(120, 40)
	h.shows("of a core")
}

// A message of two lines does not rearrange the plots.
func TestLongMessageMovesNoPlot(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	tops := func() (tops []int) {
		h.do(func() {
			h.d.app.ForceDraw()
			for _, p := range h.d.grid.panels {
				x, y, _, _ := p.view.GetRect()
				tops = append(tops, x, min(y, 2)) // the column, and whether it is in the first row
			}
		})
		return tops
	}
	h.do(func() { h.d.say(plain, "short") })
	before := tops()
	h.do(func() { h.d.say(plain, strings.Repeat("a message that is long ", 5)) })
	if after := tops(); !slices.Equal(before, after) {
		t.Errorf("%v, before %v", after, before)
	}
}

// The help lists related keys in one line.
func TestHelpJoinsKeys(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.keys("?")
	h.shows("← → ↑ ↓", "+ = -", "Shift-← Shift-→", "PgUp PgDn", "1 … 9", "everywhere")
	h.hides("select plot")
}

// An outcome without a requirement has no insufficient data.
func TestInsufficientForVerdictOnly(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	for _, judged := range []bool{true, false} {
		said := h.d.theme.caveats(nil, []plot.Series{{Name: "a", Instances: 49, Caveat: "too few instances", Judged: judged}})
		if (len(said) > 0) != judged {
			t.Errorf("judged %v: %v", judged, said)
		}
	}
}

// In some windows all instances that ended had timed out before, for example after the scale was
// widened. The plot of such a window does not claim that nothing happened.
func TestOnlyLateEnds(t *testing.T) {
	f := shop(t, true)
	p := &f.Outcomes[slices.IndexFunc(f.Outcomes, func(p scope.Outcome) bool { return p.Name == "basket" })]
	for late, want := range map[uint64]string{0: "no instances for 4s", 41: "no instances but 41 that ended after their timeout"} {
		p.Counts.Lates = late
		v := plotView{series: []plot.Series{plot.Of(p, nil, nil, "")}}
		if got := v.nothing(); got != want {
			t.Errorf("%d late: %q, want %q", late, got, want)
		}
	}
}
