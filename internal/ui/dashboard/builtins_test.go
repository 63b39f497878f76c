package dashboard

import (
	"slices"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/config"
)

// beyond is the control of a session in which one span has no outcome.
type beyond struct {
	*control
	spans []string
}

func (b beyond) Status() session.Status { return session.Status{Beyond: b.spans} }
func (b beyond) StartWrappers()         {}
func (b beyond) StopWrappers()          {}

// lookingAt shows a session without spans that observes collections.
func lookingAt(t *testing.T, control Control, c config.Config) *harness {
	t.Helper()
	screen := tcell.NewSimulationScreen("UTF-8")
	h := &harness{t: t, screen: screen, d: New(Options{Title: "live", Overview: true, Discovers: true, Screen: screen})}
	system, err := c.System()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := scope.NewEngine(system)
	if err != nil {
		t.Fatal(err)
	}
	frame, err := engine.Step(&outcome.Batch{Window: outcome.Window{To: 1e9}, Counts: []outcome.Counts{{Outcome: "gc", VM: outcome.VM{PID: 7}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.d.Configured(system, system.Plan(0)); err != nil {
		t.Fatal(err)
	}
	if err := h.d.Framed(nil, frame); err != nil {
		t.Fatal(err)
	}
	screen.SetSize(80, 24)
	h.runOn(control, 80, 24)
	return h
}

func withGC(t *testing.T) config.Config {
	t.Helper()
	scale, _ := config.BuiltinScale("gc")
	c, err := config.Default().WithBuiltin("gc", scale)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The dashboard adds and removes outcomes of the VM. It also adds spans that exceeded the limit
// on discovered outcomes. It describes how to add spans.
func TestAddOutcomes(t *testing.T) {
	b := beyond{&control{config: withGC(t)}, []string{"s-201"}}
	h := lookingAt(t, b, b.config)
	if text := h.text(); !strings.Contains(text, `no spans yet: beamscope:with_span(<<"name">>, Fun) marks them; A adds outcomes`) {
		t.Errorf("no text describes how to add spans:\n%s", text)
	}
	h.keys("A")
	if text := h.text(); !strings.Contains(text, "✓ gc ") || !strings.Contains(text, "run  ") || !strings.Contains(text, "span «s-201»") {
		t.Fatalf("the outcomes are not listed:\n%s", text)
	}
	h.keys(" ") // gc, the first
	for range 30 {
		h.key(tcell.KeyDown)
	}
	h.keys(" ") // the span, the last
	h.key(tcell.KeyEnter)
	names := func() []string {
		var all []string
		for _, o := range b.Config().Outcomes {
			all = append(all, o.Name+" "+o.Span+o.VM.Builtin)
		}
		return all
	}
	if diff := cmp.Diff([]string{"s_201 s-201"}, names()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	h.keys("A")
	h.key(tcell.KeyDown)
	h.keys(" ")
	h.key(tcell.KeyEnter)
	if diff := cmp.Diff([]string{"s_201 s-201", "gc_minor gc-minor"}, names()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if text := h.text(); !strings.Contains(text, "from the next window on: also gc-minor") {
		t.Errorf("no message describes what was added:\n%s", text)
	}
	if len(b.applied) != 2 || !slices.ContainsFunc(h.d.keys, func(b binding) bool { return b.show == "A" && b.help == addHelp }) {
		t.Errorf("applied %d times", len(b.applied))
	}
}

// No outcomes can be added to a recording.
func TestAddOutcomesToRecording(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	p := recordingControl{h.control}
	h.do(func() { h.d.control = p })
	h.keys("A")
	if text := h.text(); !strings.Contains(text, errRecordedOnly.Error()) {
		t.Errorf("no message gives the reason:\n%s", text)
	}
}

// recordingControl is a player that plays nothing.
type recordingControl struct{ *control }

func (recordingControl) Pause(bool)       {}
func (recordingControl) Speed() float64   { return 1 }
func (recordingControl) SetSpeed(float64) {}
