package session_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/session"
)

// A name that is wrong is said to be, once, and so is an outcome of the VM that does not
// happen; what is seen is not.
func TestMissing(t *testing.T) {
	const scopeFile = "window: 200ms\ndiagram: p = worker_1 -> wroker_2;\noutcomes: {gc: {vm: gc}, link: {vm: dist-busy}}\n"
	r := start(t, []string{"mm1k", "rate=200", "loops=0", "delay=1"}, scopeFile, session.Options{})
	want := []string{
		`no span named "wroker_2" has started yet: check the name, and that this VM runs the code`,
		`outcome "link" has no instances yet: the VM does not do it, or it lacks the probes, see beamscope probes`,
	}
	said := func() []string {
		r.mu.Lock()
		defer r.mu.Unlock()
		texts := slices.DeleteFunc(slices.Clone(r.notices), func(text string) bool { return !strings.Contains(text, " yet: ") })
		slices.Sort(texts)
		return texts
	}
	r.await(t, "what is missing", func() bool { return len(said()) >= len(want) })
	r.next(8)
	if diff := cmp.Diff(want, said()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
