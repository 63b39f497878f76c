package dashboard

import "testing"

// A window is shown with what was required of it, also when something else is by now.
func TestSceneHasTheSystemOfItsWindow(t *testing.T) {
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
	_ = d.Configured(before, before.Plan(0)) // of a window to come
	if s := d.scene.systemShown(); s != &after {
		t.Error("the last window does not have the system that it was made of")
	}
	d.scene.step(-2)
	if s := d.scene.systemShown(); d.scene.frame().Number != 1 || s != before {
		t.Error("window 1 does not have the system that it was made of")
	}
	d.most = 1
	last := *frames[3]
	last.Number = 4
	if err := d.Framed(batches[3], &last); err != nil {
		t.Fatal(err)
	}
	if s := d.scene.systemShown(); s != before {
		t.Error("window 4 does not have the system that it was made of")
	}
}
