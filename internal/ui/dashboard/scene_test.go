package dashboard

import "testing"

// Each window is shown with the requirement of its own time, even after the requirement has
// changed.
func TestSceneUsesSystemOfItsWindow(t *testing.T) {
	before, batches, frames := sixFrames(t, 4)
	after := *before
	d := New(Options{Title: "changed"})
	if s := d.scene.systemShown(); s != nil {
		t.Errorf("before all: %p", s)
	}
	for i, f := range frames {
		switch i {
		case 0:
			_ = d.Configured(before, before.Plan(0))
		case 2:
			_ = d.Configured(&after, after.Plan(0))
		}
		if err := d.Framed(batches[i], f); err != nil {
			t.Fatal(err)
		}
	}
	_ = d.Configured(before, before.Plan(0)) // for the next window
	if s := d.scene.systemShown(); s != &after {
		t.Error("the last window does not have its own system")
	}
	d.scene.step(-2)
	if s := d.scene.systemShown(); d.scene.frame().Number != 1 || s != before {
		t.Error("window 1 does not have its own system")
	}
	d.most = 1
	last := *frames[3]
	last.Number = 4
	if err := d.Framed(batches[3], &last); err != nil {
		t.Fatal(err)
	}
	if s := d.scene.systemShown(); s != before {
		t.Error("window 4 does not have its own system")
	}
}

// Hidden pages take no time. A page that becomes visible shows the current window.
func TestHiddenPagesAreNotUpdated(t *testing.T) {
	h := start(t, "mm1k", 20, 160, 40, 256)
	h.do(func() {
		if n := len(h.d.overview.rows); n > 0 {
			t.Errorf("the hidden overview has %d rows", n)
		}
	})
	h.keys("o,,,")
	h.do(func() {
		if of := h.d.grid.panels[0].view.series[0].Instances; of != h.d.live.Frame(20).Outcomes[2].Counts.Instances() {
			t.Errorf("the hidden first plot has %d instances", of)
		}
	})
	h.keys("o")
	h.do(func() {
		if of := h.d.grid.panels[0].view.series[0].Instances; of != h.d.live.Frame(17).Outcomes[2].Counts.Instances() {
			t.Errorf("the first plot has %d instances", of)
		}
	})
}
