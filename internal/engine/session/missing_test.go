package session_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A notice names each span that has not started, and each outcome of the VM that has not
// happened, once. For a definition of the diagram the notice explains that it is calculated only.
func TestMissing(t *testing.T) {
	vmtest.NeedEvents(t)
	const scopeFile = "window: 200ms\ndiagram: p = worker_1 -> wroker_2;\noutcomes: {p: {dmax: 1s, bins: 100}, gc: {vm: gc}, link: {vm: dist-busy}}\n"
	r := start(t, []string{"mm1k", "rate=200", "loops=0", "delay=1"}, scopeFile, session.Options{})
	want := []string{
		`no span named "p" has started yet: the diagram defines it, so it is calculated only`,
		`no span named "wroker_2" has started yet: check the name, and that this VM runs the code`,
		`outcome "link" has no instances yet: the VM does nothing of the kind, or lacks the probes, see beamscope probes`,
	}
	said := func() []string {
		r.mu.Lock()
		defer r.mu.Unlock()
		texts := slices.DeleteFunc(slices.Clone(r.notices), func(text string) bool { return !strings.Contains(text, " yet: ") })
		slices.Sort(texts)
		return texts
	}
	r.await(t, "the notices of missing outcomes", func() bool { return len(said()) >= len(want) })
	r.next(8)
	if diff := cmp.Diff(want, said()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
