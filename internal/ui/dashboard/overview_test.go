package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// The screen shows that a filter hides rows, and which column determines the order.
func TestFilterAndSortAreVisible(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 20, 256)
	h.keys("o/")
	h.answer("orker_")
	h.shows("outcome /orker_", "worker_1", "worker_2", "Esc all names")
	h.hides("✓ met")
	h.key(tcell.KeyEscape)
	h.hides("/orker_", "Esc all names")
	h.do(func() {
		if n := len(h.d.overview.rows); n != 3 {
			t.Errorf("%d rows, want 3", n)
		}
	})
	h.keys("r")
	h.shows("per s▼")
	h.keys("r")
	h.shows("p99▼")
	h.keys("r")
	h.shows("ok▲")
}

// The screen shows the name of the spans if it differs from the outcome's.
func TestSpanIsVisible(t *testing.T) {
	h := dark(t, "mm1k", 20, 256)
	h.control.config.Outcomes[1].Span = "pay by card €"
	name := h.control.config.Outcomes[1].Name
	edited(t, h, func(f *scope.Frame) {
		for i := range f.Outcomes {
			if f.Outcomes[i].Name == name {
				f.Outcomes[i].Spec.Span = "pay by card €"
			}
		}
	})
	h.screen.SetSize(120, 40)
	h.run(120, 40)
	h.keys("o")
	h.shows(name + " «pay by card €»")
	h.keys("/")
	h.answer("by card")
	h.shows("outcome /by card", name)
	h.keys("m")
	h.shows("«pay by card €»")
}

// The dashboard does not claim that there are no spans once spans were discovered.
func TestDiscoveredSpansWithoutRows(t *testing.T) {
	h := dark(t, "mm1k", 20, 256, discovering)
	noSpans(t, h)
	h.screen.SetSize(120, 40)
	h.run(120, 40)
	h.shows("No spans have been seen yet")
	h.d.Notify(outcome.Notice{Kind: outcome.DiscoveredNotice, Text: "discovered: pay"})
	h.do(h.d.refresh)
	h.hides("No spans")
	h.shows("Spans are on their way")
}

// A VM has rows and curves only for outcomes that have ever had an instance there.
func TestRowsOfVMs(t *testing.T) {
	h := dark(t, "mm1k", 20, 256)
	one, two := outcome.VM{PID: 1, Node: "one@host"}, outcome.VM{PID: 2, Node: "two@host"}
	edited(t, h, func(f *scope.Frame) {
		probes := f.Outcomes
		f.Outcomes = nil
		for i, p := range probes {
			for _, vm := range []outcome.VM{one, two} {
				q := p
				q.VM, q.Counts.VM = vm, vm
				if i == 0 && vm == two || i == 2 {
					q.Counts, q.Calculated = outcome.Counts{VM: vm}, nil
					q.Observed = mustObserved(t, p.Observed.Grid())
				}
				f.Outcomes = append(f.Outcomes, q)
			}
		}
		f.Fired = nil
	})
	h.screen.SetSize(120, 40)
	h.run(120, 40)
	h.keys("o")
	h.do(func() {
		rows := h.d.overview.rows
		if len(rows) != 4 || rows[0].vm != one || rows[1].vm != one || rows[2].vm != two || rows[3].vm != one {
			t.Errorf("%v", rows)
		}
		p := h.d.grid.panel(rows[0].name)
		if n := len(h.d.grid.series(p, h.d.scene.systemShown(), h.d.frame())); n != 1 {
			t.Errorf("%d curves, want 1", n)
		}
		p.vm = two // as if the user chose it
		if n := len(h.d.grid.series(p, h.d.scene.systemShown(), h.d.frame())); n != 1 {
			t.Errorf("%d curves of the chosen VM, want 1", n)
		}
	})
}

// Terminals report buttons and not clicks: two clicks in quick succession are a double click.
func TestButtonsOfTerminal(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	twice := func(text string) {
		t.Helper()
		x, y := h.find(text)
		for range 2 {
			h.screen.InjectMouse(x, y, tcell.Button1, tcell.ModNone)
			h.screen.InjectMouse(x, y, tcell.ButtonNone, tcell.ModNone)
		}
	}
	twice("2 worker_1 ")
	h.await("the plot is not alone", func() bool { return h.d.grid.zoomed && h.d.grid.selected == 1 })
	twice("2 worker_1 ")
	h.await("the plots are not all there", func() bool { return !h.d.grid.zoomed })
	h.keys("o")
	twice("worker_2 ")
	h.await("the outcome is not plotted", func() bool {
		return h.d.showing("plots") && h.d.grid.zoomed && h.d.grid.current().outcomes[0] == "worker_2"
	})
	if !strings.Contains(h.text(), "worker_2") {
		t.Error(h.text())
	}
}

func mustObserved(t *testing.T, g dq.Grid) *dq.Observed {
	t.Helper()
	o, err := dq.NewObserved(g)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Figures that are only calculated are shown as such.
func TestCalculatedFigures(t *testing.T) {
	g, err := dq.DMaxGrid(10*time.Millisecond, 10)
	if err != nil {
		t.Fatal(err)
	}
	o, empty := mustObserved(t, g), mustObserved(t, g)
	for range 10 {
		if err := o.Add(7500 * time.Microsecond); err != nil {
			t.Fatal(err)
		}
	}
	d, err := o.DeltaQ()
	if err != nil {
		t.Fatal(err)
	}
	p := &scope.Outcome{Observed: empty, Calculated: d}
	if text, n := delayWithin(p, 0.5); text != "(≤8.00ms)" || n != dim {
		t.Errorf("%q in tone %d", text, n)
	}
	if text, n := successes(p); text != "(100%)" || n != dim {
		t.Errorf("%q in tone %d", text, n)
	}
	wide, err := dq.Choice([]float64{0.99986, 0.00014}, d, dq.Unknown())
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := successes(&scope.Outcome{Observed: empty, Calculated: wide}); text != "(≥99.98%)" {
		t.Errorf("a lower bound of 0.99986 is %q", text)
	}
}

// A distance is shown with the number of its windows, unless bins hide it.
func TestApart(t *testing.T) {
	for _, test := range []struct {
		lo, hi, certain float64
		want            string
	}{
		{0.04, 0.06, 0, "0.04! /16"},
		{0.04, 0.06, 1, "0.04 /16"},
		{0.048, 0.06, 1, "0.04 /16"}, // no more is certain
		{0, 0.01, 1, "0.00 /16"},
		{0, 0.9, 1, "? /16"},
	} {
		d := &dq.Divergence{Distance: dq.Bounds{Lo: test.lo, Hi: test.hi}, Chance: test.certain}
		if text, _ := apart(&scope.Outcome{Divergence: d, DivergenceWindows: 16}); text != test.want {
			t.Errorf("%+v: %q", test, text)
		}
	}
}

// An outcome is judged by its observed ΔQ. A verdict about the calculated ΔQ is marked.
func TestVerdict(t *testing.T) {
	yes, no := &dq.Judgement{Met: dq.Yes}, &dq.Judgement{Met: dq.No}
	second := outcome.Window{To: int64(time.Second)}
	for _, test := range []struct {
		probe scope.Outcome
		text  string
		tone  tone
	}{
		{scope.Outcome{}, "", dim},
		{scope.Outcome{Judgement: yes, CalculatedJudgement: no}, "met", good},
		{scope.Outcome{Judgement: no, CalculatedJudgement: yes}, "VIOLATED", bad},
		{scope.Outcome{Judgement: no, Insufficient: "few"}, "too few", doubtful},
		{scope.Outcome{Judgement: &dq.Judgement{Met: dq.CannotTell}}, "open", doubtful},
		{scope.Outcome{CalculatedJudgement: no, Insufficient: "no instances"}, "calculated: VIOLATED", bad},
		{scope.Outcome{CalculatedJudgement: yes, CalculatedInsufficient: "few"}, "calculated: too few", doubtful},
		{scope.Outcome{Window: second, Seen: true, Silent: 17 * time.Second}, "silent 17s", doubtful},
		{scope.Outcome{Window: second, Seen: true, Silent: 17 * time.Second, CalculatedJudgement: yes}, "silent 17s", doubtful},
		{scope.Outcome{Window: second, Seen: true, Silent: time.Second, CalculatedJudgement: yes}, "calculated: met", good},
		{scope.Outcome{Window: second, Silent: 17 * time.Second, CalculatedJudgement: yes}, "calculated: met", good}, // it never had an instance
	} {
		if text, n := verdict(&test.probe); text != test.text || n != test.tone {
			t.Errorf("%+v: %q in tone %d, want %q in %d", test.probe, text, n, test.text, test.tone)
		}
	}
}

// A silent outcome does not look healthy, whatever is calculated, and even if another VM has
// instances of it.
func TestStandingOfSilentOutcome(t *testing.T) {
	yes := &dq.Judgement{Met: dq.Yes, Slack: &dq.Margin{Probability: 0.1}}
	second := outcome.Window{To: int64(time.Second)}
	silent := scope.Outcome{Name: "p", Window: second, Seen: true, Silent: 17 * time.Second, CalculatedJudgement: yes}
	well := scope.Outcome{Name: "p", VM: outcome.VM{PID: 2}, Window: second, Seen: true, Judgement: yes}
	for _, probes := range [][]scope.Outcome{{silent}, {silent, well}, {well, silent}} {
		s, ok := worst(&scope.Frame{Outcomes: probes}, "p")
		if want := (standing{doubtful, "silent 17s", "calculated: slack 10.00%"}); !ok || s != want {
			t.Errorf("%d probes: %+v, want %+v", len(probes), s, want)
		}
	}
}

// Before the first whole window nothing on the screen looks like a figure.
func TestAttachingIsVisible(t *testing.T) {
	h := dark(t, "mm1k", 20, 256)
	r := replay(t, "mm1k")
	f := r.frames[0].Clone()
	f.Attaching = true
	for i := range f.Outcomes {
		f.Outcomes[i].VM = outcome.VM{PID: 7, Node: "shop[red]@host"}
		f.Outcomes[i].Counts.Unobserved, f.Outcomes[i].Counts.Loss.Missed = true, 153
	}
	h.feed(&replayed{system: r.system, frames: []*scope.Frame{f}})
	h.screen.SetSize(80, 24)
	h.run(80, 24)
	for _, page := range []string{"overview", "plots"} {
		h.do(func() { h.d.show(page) })
		h.shows("Nothing is known yet of shop[red]@host (pid 7): c has the notices.")
		h.shows("│ not observed yet │")
		h.hides("≥")
		h.hides("lost")
		h.hides("no instances")
	}
}
