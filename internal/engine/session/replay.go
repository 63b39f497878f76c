package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/recording"
)

// ErrConfig means that the configuration in a recording is invalid.
var ErrConfig = errors.New("the recording's configuration cannot be used: give one")

// Entries are the entries of a recording: a [recording.Reader] or a [snapshot.Reader].
type Entries interface {
	Next() (recording.Entry, error)
}

// Limited returns the entries up to a time after the first window; 0 means all of them.
func Limited(e Entries, d time.Duration) Entries {
	if d == 0 {
		return e
	}
	return &limited{Entries: e, length: int64(d)}
}

type limited struct {
	Entries
	length int64
	end    int64 // 0 before the first window
}

// Next implements Entries.
func (l *limited) Next() (recording.Entry, error) {
	entry, err := l.Entries.Next()
	b, ok := entry.(*outcome.Batch)
	if !ok || err != nil {
		return entry, err
	}
	if l.end == 0 {
		l.end = b.Window.From + l.length
	}
	if b.Window.From >= l.end {
		return nil, io.EOF
	}
	return entry, nil
}

// A Replay describes how to replay a recording.
type Replay struct {
	// Config, if not nil, replaces the recorded configuration: its diagram, QTAs, triggers, history
	// and so on. The observation itself cannot change: windows and grids stay as recorded.
	Config *config.Config

	// Speed is the speed relative to the original; 0 is as fast as possible.
	Speed float64

	First     uint64 // number of the first frame
	Observers []scope.Observer

	// Notify is called with notices for people about the replay itself.
	Notify func(outcome.Notice)
}

// Play makes the frames of a recording again, and passes them to the observers. If the recording
// is damaged, it plays everything before the damage.
func (r Replay) Play(ctx context.Context, entries Entries) error {
	return r.play(ctx, entries, &steady{speed: r.Speed})
}

// A pacer determines when to play a window.
type pacer interface {
	// wait waits until it is time for a window, which ended since after the previous one. An
	// error ends the replay.
	wait(ctx context.Context, number uint64, since time.Duration) error
}

// play plays a recording at a pacer's pace. It returns nil when the context is done.
func (r Replay) play(ctx context.Context, entries Entries, pace pacer) error {
	p := player{Replay: r, pace: pace, number: r.First}
	for {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.play(ctx, entry); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// steady is a pacer with a constant speed; 0 is as fast as possible.
type steady struct {
	speed  float64
	begin  time.Time     // when the replay of the first window began
	passed time.Duration // since then, in the recording's time
}

func (s *steady) wait(ctx context.Context, _ uint64, since time.Duration) error {
	if s.speed == 0 {
		return ctx.Err()
	}
	if s.begin.IsZero() {
		s.begin = time.Now()
	}
	s.passed += since
	timer := time.NewTimer(time.Until(s.begin.Add(time.Duration(float64(s.passed) / s.speed))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A player plays one entry after the other.
type player struct {
	Replay
	engine *scope.Engine
	said   []string // notices already given

	pace   pacer
	number uint64 // number of the next window
	last   int64  // end of the previous window; 0 before the first
}

func (p *player) play(ctx context.Context, entry recording.Entry) error {
	switch e := entry.(type) {
	case *recording.Config:
		return p.configure(ctx, e)
	case *outcome.Batch:
		return p.step(ctx, e)
	case *outcome.Notice:
		return p.tell(func(o scope.Observer) error { return o.Noticed(*e) })
	}
	return nil // snapshots and causes describe the recording itself
}

func (p *player) tell(do func(scope.Observer) error) error {
	for _, o := range p.Observers {
		if err := do(o); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) configure(ctx context.Context, c *recording.Config) error {
	system, err := p.system(ctx, c)
	if err != nil {
		return err
	}
	if p.engine == nil {
		if p.engine, err = scope.NewEngine(system); err == nil {
			p.engine.StartAt(p.First)
		}
	} else {
		err = p.engine.Configure(system)
	}
	if err != nil {
		return err
	}
	return p.tell(func(o scope.Observer) error { return o.Configured(system, c.Plan) })
}

// system returns the recorded system or its replacement, with the recorded grids.
func (p *player) system(ctx context.Context, c *recording.Config) (*scope.System, error) {
	var system *scope.System
	var err error
	if p.Config != nil {
		system, err = p.Config.System()
	} else {
		system, err = recorded(c)
	}
	if err != nil {
		return nil, err
	}
	if system.Window != c.Plan.Window {
		p.say("windows are of %v, as recorded", c.Plan.Window)
		system.Window = c.Plan.Window
	}
	for i := range system.Outcomes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		spec := &system.Outcomes[i].Spec
		at := slices.IndexFunc(c.Plan.Specs, func(s outcome.Spec) bool { return s.Name == spec.Name })
		if at < 0 {
			p.say("%s was not recorded", spec.Name)
			continue
		}
		was := c.Plan.Specs[at]
		if was.BinWidth != spec.BinWidth || was.Bins != spec.Bins {
			p.say("%s has %d bins of %v, as recorded", spec.Name, was.Bins, was.BinWidth)
		}
		if was.VM != spec.VM || was.Group != spec.Group {
			p.say("%s has the events and groups that were recorded", spec.Name)
		}
		was.Detail, was.Explain = spec.Detail, spec.Explain // a plan may request more than the system does
		*spec = was
		if err := known(system.Outcomes[i]); err != nil {
			return nil, err
		}
	}
	return system, nil
}

// known rejects a QTA about delays that were not recorded.
func known(p scope.OutcomeSystem) error {
	if p.QTA == nil {
		return nil
	}
	for _, s := range p.QTA.Steps() {
		if dMax := p.Spec.DMax(); s.T > dMax {
			return fmt.Errorf("%w: outcomes.%s.qta: %v is above the dMax of %v that was recorded: nothing is known beyond it",
				config.ErrInvalid, p.Spec.Name, s.T, dMax)
		}
	}
	return nil
}

func recorded(c *recording.Config) (*scope.System, error) {
	cfg, err := recordedConfig(c)
	if err != nil {
		return nil, err
	}
	return cfg.System()
}

// Fitted returns a set of the outcomes of a recorded configuration whose dMax beamscope chose. The set is
// empty if the configuration cannot be used.
func Fitted(c *recording.Config) map[string]bool {
	fitted := make(map[string]bool)
	if s, err := recorded(c); err == nil {
		for i := range s.Outcomes {
			fitted[s.Outcomes[i].Spec.Name] = s.Outcomes[i].Fitted
		}
	}
	return fitted
}

func recordedConfig(c *recording.Config) (config.Config, error) {
	if len(c.Files) == 0 {
		return config.Config{}, fmt.Errorf("%w: it is missing", ErrConfig)
	}
	cfg, err := config.Parse(c.Files[0].Name, c.Files[0].Text)
	if err != nil {
		return config.Config{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return cfg, nil
}

// say gives a notice, unless the same one was given before.
func (p *player) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if p.Notify == nil || slices.Contains(p.said, text) {
		return
	}
	p.said = append(p.said, text)
	p.Notify(outcome.Notice{Text: text})
}

func (p *player) step(ctx context.Context, b *outcome.Batch) error {
	if p.engine == nil {
		return fmt.Errorf("%w: it comes after the first window", ErrConfig)
	}
	since := time.Duration(0)
	if p.last != 0 {
		since = time.Duration(b.Window.To - p.last)
	}
	p.last = b.Window.To
	if err := p.pace.wait(ctx, p.number, since); err != nil {
		return err
	}
	p.number++
	frame, err := p.engine.Step(b)
	if err != nil {
		return err
	}
	return p.tell(func(o scope.Observer) error { return o.Framed(b, frame) })
}
