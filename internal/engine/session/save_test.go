package session_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/config"
)

const savedScope = `
window: 200ms
diagram: |
  # as first drawn
  probe = worker_1 -> worker_2;
outcomes:
  worker_1: {dmax: 100ms, bins: 100}
  worker_2: {exponent: -1, bins: 200}
  probe: {dmax: 100ms, bins: 100, qta: {p50: 12ms, failure: 0.05}}
`

// A configuration that was changed during the run is saved and loaded again. It is identical, and
// applying it changes nothing: histories continue, without notices.
func TestSavedWhileRunning(t *testing.T) {
	t.Parallel()
	r := start(t, []string{"ftf"}, savedScope, session.Options{})
	r.next(2)
	r.apply(strings.NewReplacer("worker_1 -> worker_2", "f:probe(worker_1, worker_2)", "p50: 12ms", "p50: 20ms",
		"200}", "100}").Replace(savedScope))
	changed := r.Config()
	if strings.Contains(changed.Diagram, "->") {
		t.Errorf("the configuration in force is not the one that was applied:\n%s", changed.Format())
	}
	r.next(3)

	path := filepath.Join(r.config.Dir, "saved.yaml")
	if err := changed.Save(path); err != nil {
		t.Fatal(err)
	}
	loaded, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(changed, loaded); diff != "" {
		t.Errorf("saved and loaded, -want +got:\n%s", diff)
	}
	before := len(r.allFrames())
	if err := r.Apply(t.Context(), loaded); err != nil {
		t.Fatal(err)
	}
	r.next(3)
	for _, f := range r.allFrames()[before:] {
		if p := outcomeOf(f, "probe"); len(f.Notices) > 0 || p.Mean.Windows <= 3 {
			t.Errorf("frame %d: %q, the mean of %d windows", f.Number, f.NoticeTexts(), p.Mean.Windows)
		}
	}
}
