package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/snapshot"
)

// loadScope is a scope file that triggers a snapshot at once. The snapshot takes ten minutes.
const loadScope = `
window: 200ms
snapshots: {after: 10m}
outcomes:
  probe: {dmax: 100ms, bins: 100, triggers: {load: 0}}
`

// Apply refuses changes of what is fixed during a run, and configurations that are invalid in a
// scope file. Everything continues unchanged.
func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	r := start(t, []string{"ftf"}, loadScope, session.Options{})
	for name, test := range map[string]struct {
		edit  func(*config.Config)
		fixed bool
	}{
		"target":    {func(c *config.Config) { c.Target = vm.Target{Exe: "beam.smp"} }, true},
		"wrapper":   {func(c *config.Config) { c.Wrapper.Listen = config.DefaultListen }, true},
		"snapshots": {func(c *config.Config) { c.Snapshots.Dir = "elsewhere" }, true},
		"window":    {func(c *config.Config) { c.Window = time.Millisecond }, false},
		"bins":      {func(c *config.Config) { c.Outcomes = []config.Outcome{{Name: "probe", Span: "probe"}} }, false},
		"diagram":   {func(c *config.Config) { c.Diagram = "probe = ;" }, false},
	} {
		c := r.config
		test.edit(&c)
		if err := r.Apply(t.Context(), c); err == nil || errors.Is(err, session.ErrFixed) != test.fixed {
			t.Errorf("%s: error %v, want one that wraps ErrFixed: %v", name, err, test.fixed)
		}
	}

	after := r.next(3)
	histories(t, r.allFrames(), "probe", 0)
	for _, f := range after {
		if f.Window.Duration() != r.config.Window || len(f.Notices) > 0 {
			t.Errorf("frame %d of %v: %q", f.Number, f.Window.Duration(), f.NoticeTexts())
		}
	}

	r.stop()
	if err := r.Apply(t.Context(), r.config); !errors.Is(err, outcome.ErrEnded) {
		t.Errorf("after the end: error %v, want one that wraps ErrEnded", err)
	}
}

// If the session is closed during a snapshot, the snapshot is kept and marked as incomplete.
func TestCloseWithinSnapshot(t *testing.T) {
	t.Parallel()
	r := start(t, []string{"ftf"}, loadScope, session.Options{})
	fired := r.fires("load")
	r.await(t, "another frame", func() bool { return len(r.allFrames()) > int(fired.Number)+1 })
	r.stop()
	infos, err := snapshot.List(r.folder())
	if err != nil {
		t.Fatal(err)
	}
	if len(infos) != 1 || infos[0].Err != nil || infos[0].Complete {
		t.Fatalf("%+v, want one snapshot that is not complete", infos)
	}
	all := r.allFrames()
	if after := uint64(len(all)) - fired.Number - 1; infos[0].After != after {
		t.Errorf("%d windows after the one that fired, want %d", infos[0].After, after)
	}
	sameFrames(t, "snapshot", all, replaySnapshot(t, infos[0].Path))
}

// Open fails if the target does not exist.
func TestOpenFails(t *testing.T) {
	c := parse(t, "target: {pid: 2147483647}"+loadScope)
	c.Dir = t.TempDir()
	if s, err := session.Open(t.Context(), c, session.Options{}); err == nil {
		s.Close()
		t.Error("a process that does not exist was opened")
	}
	c.Snapshots.Keep = -1
	if _, err := session.Open(t.Context(), c, session.Options{}); err == nil {
		t.Error("a folder of -1 snapshots was opened")
	}
}
