package session_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/recording"
)

// A viewer records the numbers of the windows that a player shows, and runs a step after each.
type viewer struct {
	numbers []uint64
	shown   func(number uint64)
}

// Configured implements [scope.Observer].
func (v *viewer) Configured(*scope.System, outcome.Plan) error { return nil }

// Noticed implements [scope.Observer].
func (v *viewer) Noticed(outcome.Notice) error { return nil }

// Framed implements [scope.Observer].
func (v *viewer) Framed(_ *outcome.Batch, f *scope.Frame) error {
	v.numbers = append(v.numbers, f.Number)
	v.shown(f.Number)
	return nil
}

// A paused player shows the same window again after another configuration is applied. This also
// holds if a further one is applied before it gets there, and for the last window.
func TestPlayerKeepsPosition(t *testing.T) {
	v := &viewer{}
	open := func() (session.Input, error) { return recording.Open(t.Context(), "../../../cmd/beamscope/mm1k.bsr") }
	p, err := session.NewPlayer(session.Replay{Observers: []scope.Observer{v}}, open)
	if err != nil {
		t.Fatal(err)
	}
	apply := func() {
		if err := p.ApplyFrom(t.Context(), p.Config(), p.Config()); err != nil {
			t.Error(err)
		}
	}
	step := 0
	v.shown = func(number uint64) {
		switch step++; {
		case step == 10: // window 9
			p.Pause(true)
			apply()
		case step == 10+4: // on its way to window 9
			apply()
		case step == 10+4+10:
			p.Pause(false)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ends := 0
	p.Play(ctx, func(err error) {
		if err != nil {
			t.Error(err)
		}
		switch ends++; ends {
		case 1:
			p.Pause(true)
			apply()
		case 2:
			cancel()
		}
	})
	last := v.numbers[len(v.numbers)-1]
	var want []uint64
	for _, n := range []uint64{9, 3, last, last} {
		for i := range n + 1 {
			want = append(want, i)
		}
	}
	if !slices.Equal(v.numbers, want) {
		t.Errorf("windows %v, want %v", v.numbers, want)
	}
}

// Data that was recorded in groups stays in these groups.
func TestPlayerKeepsGroups(t *testing.T) {
	const scopeFile = "outcomes: {gc: {vm: gc, group: pid}}"
	c, err := config.Parse("scope.yaml", []byte(scopeFile))
	if err != nil {
		t.Fatal(err)
	}
	system, err := c.System()
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w, err := recording.NewWriter(&file, recording.Header{})
	if err != nil {
		t.Fatal(err)
	}
	entry := recording.Config{Files: []recording.File{{Name: "scope.yaml", Text: []byte(scopeFile)}}, Plan: system.Plan(0)}
	if err := errors.Join(w.Config(&entry), w.Close()); err != nil {
		t.Fatal(err)
	}
	p, err := session.NewPlayer(session.Replay{}, func() (session.Input, error) {
		return recording.NewReader(bytes.NewReader(file.Bytes()))
	})
	if err != nil {
		t.Fatal(err)
	}
	base := p.Config()
	edited := base.Clone()
	edited.Outcomes[0].Group = "mfa"
	const want = "gc: its groups as recorded cannot be changed"
	if err := p.ApplyFrom(t.Context(), base, edited); !errors.Is(err, session.ErrFixed) || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// The way of observation stays as recorded. Its evaluation may change.
func TestPlayerRefuses(t *testing.T) {
	open := func() (session.Input, error) { return recording.Open(t.Context(), "../../../cmd/beamscope/mm1k.bsr") }
	p, err := session.NewPlayer(session.Replay{}, open)
	if err != nil {
		t.Fatal(err)
	}
	base := p.Config()
	worker := slices.IndexFunc(base.Outcomes, func(o config.Outcome) bool { return o.Name == "worker_2" })
	for _, tt := range []struct {
		want string // "" if allowed
		edit func(*config.Config)
	}{
		{"worker_2: dMax and bins as recorded cannot be changed", func(c *config.Config) { c.Outcomes[worker].Scale.Bins *= 2 }},
		{"worker_2: dMax and bins as recorded cannot be changed", func(c *config.Config) {
			c.Outcomes[worker].Scale = config.Scale{DMax: 40 * time.Millisecond, Bins: 100}
		}},
		{"worker_2: its spans as recorded cannot be changed", func(c *config.Config) { c.Outcomes[worker].Span = "another" }},
		{"worker_2: its events as recorded cannot be changed", func(c *config.Config) {
			c.Outcomes[worker].Span, c.Outcomes[worker].VM = "", outcome.Events{Builtin: "gc"}
		}},
		{"the polling window as recorded cannot be changed", func(c *config.Config) { c.Window *= 2 }},
		{"", func(c *config.Config) { c.History = 5 }},
		{"", func(c *config.Config) { c.Outcomes[worker].QTA, c.Outcomes[worker].Triggers = nil, nil }},
		{"", func(c *config.Config) { c.Diagram = "probe = worker_1 -> worker_2 -> worker_3;" }},
	} {
		c := base
		c.Outcomes = slices.Clone(base.Outcomes)
		tt.edit(&c)
		err := p.ApplyFrom(t.Context(), base, c)
		switch {
		case tt.want == "" && err != nil:
			t.Error(err)
		case tt.want != "" && (!errors.Is(err, session.ErrFixed) || err.Error() != tt.want):
			t.Errorf("%v, want %q", err, tt.want)
		case tt.want != "" && p.Config().Window != base.Window:
			t.Error("the refused configuration is in force")
		}
	}
}
