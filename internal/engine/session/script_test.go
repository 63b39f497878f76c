package session_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/sources/script"
)

// scriptScope has outcomes of the VM, and one that the diagram calculates.
const scriptScope = `
window: 100ms
diagram: both = gc -> lifetime;
outcomes:
  gc: {vm: gc}
  lifetime: {vm: lifetime, dmax: 50ms, bins: 50}
`

// scriptText has one instance of each.
const scriptText = `beamscope events 1
t 9000000000000
s gc 7 4711 9000010000000
e gc 7 4711 9000010020000 =130
s lifetime 7 <0.88.0> 9000012000000
e lifetime 7 <0.88.0> 9000013700000
t 9000700000000
`

func parsed(t *testing.T, text string) config.Config {
	t.Helper()
	c, err := config.Parse("scope.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The output of a script is observed to its end, and composed according to the diagram.
func TestScript(t *testing.T) {
	seen := newObserverLog()
	s, err := session.Open(t.Context(), parsed(t, scriptScope), session.Options{
		Observers: []scope.Observer{seen},
		Script:    &session.Script{Text: io.NopCloser(strings.NewReader(scriptText)), Recorded: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Run(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	frames := seen.frames
	if len(frames) != 8 {
		t.Fatalf("%d frames of 700 ms, which end within the eighth", len(frames))
	}
	if gc, both := outcomeOf(frames[0], "gc"), outcomeOf(frames[0], "both"); gc.Counts.Amount != 130 || both.CalculatedFrom != 1 || both.Counts.Instances() != 0 {
		t.Errorf("%d words, calculated from %d instances, %d observed", gc.Counts.Amount, both.CalculatedFrom, both.Counts.Instances())
	}
}

// Outcomes that a script does not provide are refused, at the start and during the run.
func TestScriptRefuses(t *testing.T) {
	refused := map[string]string{
		"spans":              "outcomes: {a: {}}",
		"spans of a diagram": "{diagram: both = a -> gc, outcomes: {gc: {vm: gc}}}",
		"over TCP":           "{wrapper: {listen: \"127.0.0.1:8080\"}, outcomes: {gc: {vm: gc}}}",
		"groups":             "outcomes: {gc: {vm: gc, group: pid}}",
		"scheduler threads":  "outcomes: {wait: {vm: os-wait}}",
	}
	r, w := io.Pipe()
	defer w.Close()
	s, err := session.Open(t.Context(), parsed(t, scriptScope), session.Options{Script: &session.Script{Text: r}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for what, text := range refused {
		c := parsed(t, text)
		closed := new(closing)
		if _, err := session.Open(t.Context(), c, session.Options{Script: &session.Script{Text: closed}}); !errors.Is(err, script.ErrPlan) || !closed.done {
			t.Errorf("%s: error %v, want %v; the text is closed: %v", what, err, script.ErrPlan, closed.done)
		}
		if what == "over TCP" {
			continue // wrappers cannot be added to any session
		}
		if err := s.Apply(t.Context(), c); !errors.Is(err, script.ErrPlan) {
			t.Errorf("%s, later: error %v, want %v", what, err, script.ErrPlan)
		}
	}
}

// A closing is an empty text that records whether it was closed.
type closing struct {
	strings.Reader
	done bool
}

// Close implements [io.Closer].
func (c *closing) Close() error {
	c.done = true
	return nil
}
