package dashboard

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/files/config"
)

func (h *harness) parameters() *parametersTab { return h.d.tabs[2].(*parametersTab) }

// choose selects a parameter of the shown outcome or, if that has none with this key, of the
// system.
func (h *harness) choose(key string) {
	h.t.Helper()
	t := h.parameters()
	p := t.form().param(key)
	if p == nil {
		p = t.system.param(key)
	}
	for range 40 {
		h.key(tcell.KeyUp)
	}
	for range 40 {
		if t.selected == p {
			return
		}
		h.key(tcell.KeyDown)
	}
	h.t.Fatalf("%s cannot be chosen\n%s", key, h.text())
}

// enter writes a value into a field.
func (h *harness) enter(key, text string) {
	h.t.Helper()
	h.choose(key)
	h.key(tcell.KeyEnter, tcell.KeyCtrlU)
	h.keys(text)
	h.key(tcell.KeyEnter)
}

// worker_1 has bins of 250us up to 25ms. 1ms·2^-2 is the same width.
func TestParametersScale(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.keys("2m")
	h.see("◂ worker_1 ▸  1 of 3", "dMax      25ms", "250us a bin, dMax 25ms", "All of this is in force")
	h.choose(keyScale)
	h.key(tcell.KeyRight)
	h.see("1ms·2^-2 = 250us a bin, dMax 25ms")
	h.notSee("a new history") // the same scale, expressed differently
	h.choose("exponent")
	h.key(tcell.KeyRight, tcell.KeyRight, tcell.KeyRight)
	h.see("1ms·2^1 = 2ms a bin, dMax 200ms", "! a new history begins; about one open span is cut")
	h.enter("bins", "50")
	h.see("1ms·2^1 = 2ms a bin, dMax 100ms", "edited: worker_1. a applies")
	h.applied(0)
	h.keys("a")
	want := config.Scale{Exponent: 1, Bins: 50}
	if diff := cmp.Diff(want, h.applied(1).Outcome("worker_1").Scale); diff != "" {
		t.Error(diff)
	}
	h.see("from the next window on the new parameters hold; worker_1: a new history", "All of this is in force")
}

func TestParametersBounds(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.keys("2m")
	h.enter("bins", "7")
	h.see("✗ ", "dMax 25ms over 7 bins is not a whole number")
	h.keys("a")
	h.see("not applied: something is wrong with worker_1")
	h.applied(0)
	h.choose(keyScale)
	h.key(tcell.KeyRight)
	h.choose("exponent")
	for range 30 {
		h.key(tcell.KeyRight)
	}
	h.see("●┤ 10", "1ms·2^10 = 1.024s a bin, dMax 7.168s")
	for range 30 {
		h.key(tcell.KeyLeft)
	}
	h.see("├●─", "-10", "not a whole number of nanoseconds") // 1000000/1024
	h.key(tcell.KeyRight, tcell.KeyRight, tcell.KeyRight, tcell.KeyRight)
	h.see("1ms·2^-6 = 15.625us a bin")
	h.enter("exponent", "11")
	h.see(`✗ "11" is not a whole number from -10 to 10`)
	h.enter("bins", "")
	h.see("✗ empty: write a value")
	h.keys("a")
	h.applied(0)
	h.key(tcell.KeyEscape)
	h.see("undone", "250us a bin, dMax 25ms")
	h.key(tcell.KeyEscape)
	h.notSee("parameters ═")
}

// In window 20 half of the instances take up to 3.5ms, and 99 of 100 up to 12.3ms.
func TestParametersQTA(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.keys("m")
	h.see("◂ probe ▸  3 of 3", "p25       6.5ms", "failure   0.05", "✓ window 20: met, slack 4.50ms, 5.00%")
	h.enter("qta.p50", "2ms")
	h.see("✗ ", "less than the 6.5ms of p25")
	h.enter("qta.p25", "1ms")
	h.see("✗ window 20: would be violated, hazard", "1ms * in force 6.5ms")
	h.enter("qta.p50", "12ms")
	h.enter("qta.points", "p99=40ms, 1=45ms")
	h.enter("qta.p25", "6.5ms")
	h.see("✓ window 20: would be met, slack")
	h.keys("a")
	want := &config.QTA{Failure: 0.05, Points: []dq.Step{
		{P: 0.25, T: 6500 * time.Microsecond}, {P: 0.5, T: 12 * time.Millisecond}, {P: 0.75, T: 17 * time.Millisecond},
		{P: 0.99, T: 40 * time.Millisecond}, {P: 1, T: 45 * time.Millisecond},
	}}
	if diff := cmp.Diff(want, h.applied(1).Outcome("probe").QTA); diff != "" {
		t.Error(diff)
	}
	h.see("further   p99=40ms 1=45ms", "All of this is in force")

	h.enter("qta.points", "p99:40ms")
	h.see(`✗ "p99:40ms": write quantile=delay`)
	h.enter("qta.points", "p25=1ms")
	h.see("✗ p25 is there twice")
	h.enter("qta.points", "p99=60ms")
	h.see("above dMax, 50ms")
	h.enter("qta.points", "")
	h.enter("qta.failure", "0,05")
	h.see("did you mean 0.05?")
	h.enter("qta.failure", "five")
	h.see(`✗ "five" is not a number from 0 to 1`)
	h.enter("qta.failure", "5 %")
	h.notSee("is not a number")
	h.enter("qta.p75", "soon")
	h.see(`"soon" is not a duration`)
	h.keys("a")
	h.applied(1)
}

// Without a QTA there can be no trigger for one. The dashboard reports that and applies nothing.
func TestParametersOff(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.keys("m")
	h.choose(keyRequired)
	h.key(tcell.KeyRight)
	h.see("QTA        ◂ off ▸", "outcomes.probe.triggers.qta: nothing is required of probe")
	h.keys("a")
	h.applied(0)
	h.key(tcell.KeyRight)
	h.see("✓ window 20: met")

	h.keys("1")
	h.key(tcell.KeyEscape)
	h.keys("2m") // worker_1 has no QTA
	h.see("QTA        ◂ off ▸")
	h.choose(keyRequired)
	h.key(tcell.KeyRight)
	h.see("✗ nothing is required yet")
	h.key(tcell.KeyLeft)
	h.enter("qta.p75", "3ms") // turns the QTA on
	h.see("QTA        ◂ on ▸")
	h.keys("a")
	if q := h.applied(1).Outcome("worker_1").QTA; q == nil || len(q.Points) != 1 || q.Failure != 1 {
		t.Errorf("applied %+v", q)
	}
	h.choose(keyRequired)
	h.key(tcell.KeyRight)
	h.keys("a")
	if q := h.applied(2).Outcome("worker_1").QTA; q != nil {
		t.Errorf("applied %+v, want none", q)
	}
}

func TestParametersSystem(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.keys("m")
	h.enter("window", "20s")
	h.see(`✗ "20s" is out of range`, "from 100ms to 10s")
	h.enter("window", "500ms")
	h.see("500ms * in force 1s", "! every history begins anew")
	h.enter("confidence", "0.68")
	h.choose("samples")
	h.key(tcell.KeyRight)
	h.keys("a")
	c := h.applied(1)
	if c.Window != 500*time.Millisecond || c.Confidence != 0.68 || c.Samples != 60 || c.History != 30 {
		t.Errorf("applied %v, %v, %v, %v", c.Window, c.Confidence, c.Samples, c.History)
	}
}

// All edits are applied together, whatever outcome they belong to. A refusal stays visible, and no
// input is lost.
func TestParametersTogether(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.control.refuse = errors.New("the VM is gone")
	h.keys("2m")
	h.enter("dmax", "30ms")
	h.key(tcell.KeyEscape) // has no effect, see below
	h.see("undone")
	h.enter("dmax", "50ms")
	h.choose(keyScale)
	h.key(tcell.KeyUp, tcell.KeyRight, tcell.KeyRight) // the outcome
	h.see("◂ probe ▸")
	h.enter("dmax", "100ms")
	h.enter("history", "40")
	h.see("edited: worker_1, probe, system.")
	h.keys("a")
	h.applied(0)
	h.do(h.d.refresh)
	h.see("✗ refused: the VM is gone", "100ms * in force 50ms")
	h.control.refuse = nil
	h.keys("a")
	c := h.applied(1)
	if a, b := c.Outcome("worker_1").Scale.DMax, c.Outcome("probe").Scale.DMax; a != 50*time.Millisecond || b != 100*time.Millisecond || c.History != 40 {
		t.Errorf("applied %v, %v, %v", a, b, c.History)
	}
}

// Input stays when the tab is refreshed, when something changes elsewhere, and while the tab is
// closed.
func TestParametersKept(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.keys("2m")
	h.choose("dmax")
	h.key(tcell.KeyEnter, tcell.KeyCtrlU)
	h.keys("10")
	h.do(h.d.refresh)
	h.control.mu.Lock()
	h.control.config = h.control.config.Clone()
	h.control.config.Outcomes[0].Scale = config.Scale{DMax: 40 * time.Millisecond, Bins: 50}
	h.control.mu.Unlock()
	h.do(h.d.refresh)
	h.keys("0ms")
	h.key(tcell.KeyEnter)
	h.see("100ms * in force 40ms", "2ms a bin, dMax 100ms")
	h.keys("mm")
	h.see("100ms * in force 40ms")
	h.key(tcell.KeyTab)
	h.keys("1") // another plot
	h.see("◂ probe ▸  3 of 3", "edited: worker_1.")
}

func TestParametersMouse(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.keys("2m")
	h.choose(keyScale)
	h.key(tcell.KeyRight)
	h.click(1+valueColumn+1+15, 4) // the slider at 5
	h.see("1ms·2^5 = 32ms a bin, dMax 3.2s")
	h.click(1+valueColumn, 5)
	h.key(tcell.KeyCtrlU)
	h.keys("10")
	h.see("1ms·2^5 = 32ms a bin, dMax 320ms")
	h.click(1+valueColumn+4, 2)
	h.see("◂ worker_2 ▸")
	h.click(1+valueColumn, 2)
	h.see("◂ worker_1 ▸", "1ms·2^5 = 32ms a bin, dMax 320ms")
}

// click clicks a cell of the screen.
func (h *harness) click(x, y int) {
	h.do(func() {
		e := tcell.NewEventMouse(x, y, tcell.Button1, tcell.ModNone)
		h.d.root.MouseHandler()(tview.MouseLeftDown, e, func(p tview.Primitive) { h.d.app.SetFocus(p) })
	})
}

// FuzzTabs presses keys in the tabs of the diagram and of the parameters.
func FuzzTabs(f *testing.F) {
	keys := []tcell.Key{
		tcell.KeyEnter, tcell.KeyEscape, tcell.KeyUp, tcell.KeyDown, tcell.KeyLeft, tcell.KeyRight, tcell.KeyTab,
		tcell.KeyCtrlS, tcell.KeyCtrlN, tcell.KeyCtrlO, tcell.KeyCtrlR, tcell.KeyCtrlZ, tcell.KeyCtrlY, tcell.KeyCtrlU,
		tcell.KeyCtrlL, tcell.KeyCtrlK, tcell.KeyBackspace2, tcell.KeyDelete, tcell.KeyHome, tcell.KeyEnd, tcell.KeyPgDn,
	}
	runes := []rune("smsmaaaWlwvyn,.f12;=->:()[]0.5e_xworker_1µ ü世")
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, seed))
		data := make([]byte, 150)
		for i := range data {
			data[i] = byte(r.IntN(len(keys) + len(runes)))
		}
		f.Add(slices.Concat([]byte{byte(len(keys) + int(seed)%2)}, data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h := start(t, "mm1k", 20, 80, 24, 16)
		t.Chdir(t.TempDir())
		var pressed []*tcell.EventKey
		for _, b := range data[:min(len(data), 300)] {
			if i := int(b) % (len(keys) + len(runes)); i < len(keys) {
				pressed = append(pressed, tcell.NewEventKey(keys[i], 0, tcell.ModNone))
			} else {
				pressed = append(pressed, tcell.NewEventKey(tcell.KeyRune, runes[i-len(keys)], tcell.ModNone))
			}
		}
		h.pressAll(pressed)
		if h.control.invalid != nil {
			t.Errorf("an invalid configuration was applied: %v", h.control.invalid)
		}
	})
}
