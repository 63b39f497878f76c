package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/recording"
)

// An Input is an open recording.
type Input interface {
	Entries
	io.Closer
}

// A Player plays a recording for a viewer: it can pause, play faster, and use another
// configuration. Any goroutine may call its methods while Play runs.
type Player struct {
	replay Replay
	open   func() (Input, error)

	mu      sync.Mutex
	config  config.Config // configuration in force
	speed   float64
	paused  bool
	next    uint64        // number of the window after the last shown one
	until   uint64        // windows below this number are played as fast as possible
	again   bool          // the recording must be played again from its beginning
	changed chan struct{} // closed and replaced when any of these fields changes
}

// NewPlayer returns a player of a recording. It calls open now and each time it plays, to open
// the recording at its beginning. The replay gives the initial configuration and speed.
func NewPlayer(r Replay, open func() (Input, error)) (*Player, error) {
	p := &Player{replay: r, open: open, speed: r.Speed, changed: make(chan struct{})}
	entry, err := p.first()
	switch {
	case err != nil:
		return nil, err
	case r.Config != nil:
		p.config = *r.Config
	default:
		p.config, err = recordedConfig(entry)
	}
	return p, err
}

// first returns the configuration with which the recording begins.
func (p *Player) first() (*recording.Config, error) {
	in, err := p.open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	for {
		entry, err := in.Next()
		if err != nil {
			return nil, fmt.Errorf("%w: it is missing", ErrConfig)
		}
		if c, ok := entry.(*recording.Config); ok {
			return c, nil
		}
	}
}

// Play plays the recording until the context is done, and again each time another configuration
// is applied. If the recording is damaged, it plays everything before the damage. Afterwards it
// calls ended, unless that is nil, with the error of a damaged recording or with nil.
func (p *Player) Play(ctx context.Context, ended func(error)) {
	r := p.replay
	r.Observers = append([]scope.Observer{position{p}}, r.Observers...)
	for ctx.Err() == nil {
		err := p.once(ctx, r)
		if !errors.Is(err, errAgain) && ended != nil && ctx.Err() == nil {
			ended(err)
		}
		if !p.asked(ctx) {
			return
		}
		c := p.Config()
		r.Config = &c
	}
}

func (p *Player) once(ctx context.Context, r Replay) error {
	in, err := p.open()
	if err != nil {
		return err
	}
	defer in.Close()
	return r.play(ctx, in, p)
}

// asked waits until the recording must be played again. It returns false if the context is done
// first.
func (p *Player) asked(ctx context.Context) bool {
	for {
		p.mu.Lock()
		again, changed := p.again, p.changed
		p.again = false
		p.mu.Unlock()
		if again {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// errAgain ends a run because another one follows.
var errAgain = errors.New("played again")

// wait implements pacer.
func (p *Player) wait(ctx context.Context, number uint64, since time.Duration) error {
	begin := time.Now()
	for {
		p.mu.Lock()
		again, paused, speed, changed, fast := p.again, p.paused, p.speed, p.changed, number < p.until
		p.mu.Unlock()
		var due <-chan time.Time // never becomes ready while paused
		switch {
		case again:
			return errAgain
		case fast || !paused && speed == 0:
			return ctx.Err()
		case !paused:
			due = time.After(time.Until(begin.Add(time.Duration(float64(since) / speed))))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-due:
			return nil
		case <-changed:
		}
	}
}

// A position is an observer that records the position of a player. It comes before the other
// observers, so that the player has already advanced when they get a window.
type position struct{ *Player }

// Configured implements [scope.Observer].
func (position) Configured(*scope.System, outcome.Plan) error { return nil }

// Noticed implements [scope.Observer].
func (position) Noticed(outcome.Notice) error { return nil }

// Framed implements [scope.Observer].
func (p position) Framed(_ *outcome.Batch, f *scope.Frame) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = f.Number + 1
	return nil
}

// change changes fields of the player and wakes it.
func (p *Player) change(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
	close(p.changed)
	p.changed = make(chan struct{})
}

// Config returns the configuration in force.
func (p *Player) Config() config.Config {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.config
}

// ApplyFrom plays the recording again with another configuration, as fast as possible to the
// present place, and goes on from there. If the configuration contradicts the recording, that is an
// error, and nothing changes. The error wraps [ErrFixed] if windows, or the observation of a
// recorded outcome, differ from base.
func (p *Player) ApplyFrom(ctx context.Context, base, c config.Config) error {
	entry, err := p.first()
	if err != nil {
		return err
	}
	if err := recordedOtherwise(entry.Plan, base, c); err != nil {
		return err
	}
	try := player{Replay: Replay{Config: &c}}
	if _, err := try.system(ctx, entry); err != nil {
		return err
	}
	p.change(func() { p.config, p.again, p.until = c, true, max(p.until, p.next) }) // the player may be on its way to a later place
	return nil
}

// A fixedError names a recorded property that cannot be changed.
type fixedError string

func (e fixedError) Error() string { return string(e) + " as recorded cannot be changed" }

func (fixedError) Unwrap() error { return ErrFixed }

// recordedOtherwise returns an error if c differs from base in something that a replay cannot
// change.
func recordedOtherwise(plan outcome.Plan, base, c config.Config) error {
	if c.Window != base.Window {
		return fixedError("the polling window")
	}
	was, err := base.System()
	if err != nil {
		return err
	}
	now, err := c.System()
	if err != nil {
		return err
	}
	specs := make(map[string]outcome.Spec)
	for _, s := range plan.Specs {
		specs[s.Name] = s
	}
	for _, x := range was.Outcomes {
		_, there := specs[x.Spec.Name]
		at := slices.IndexFunc(now.Outcomes, func(y scope.OutcomeSystem) bool { return y.Spec.Name == x.Spec.Name })
		if !there || at < 0 {
			continue
		}
		before, after := x.Spec, now.Outcomes[at].Spec
		before.Detail, before.Explain = after.Detail, after.Explain
		switch {
		case before.Bins != after.Bins || before.BinWidth != after.BinWidth:
			return fixedError(x.Spec.Name + ": dMax and bins")
		case before.VM != after.VM:
			return fixedError(x.Spec.Name + ": its events")
		case before.Group != after.Group:
			return fixedError(x.Spec.Name + ": its groups")
		case before != after:
			return fixedError(x.Spec.Name + ": its spans")
		}
	}
	return nil
}

// Pause makes the player pause or continue.
func (p *Player) Pause(wait bool) { p.change(func() { p.paused = wait }) }

// Speed returns the speed relative to the original; 0 is as fast as possible.
func (p *Player) Speed() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.speed
}

// SetSpeed changes the speed.
func (p *Player) SetSpeed(speed float64) { p.change(func() { p.speed = speed }) }
