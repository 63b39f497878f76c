package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/recording"
	"github.com/beamscope/beamscope/internal/scope"
)

// An Input is a recording that is open.
type Input interface {
	Entries
	io.Closer
}

// A Player plays a recording for somebody who looks on: it can be paused, made faster,
// and be looked at with another configuration. Its methods may be called from any
// goroutine while Play runs in one.
type Player struct {
	replay Replay
	open   func() (Input, error)

	mu      sync.Mutex
	config  config.Config // in force
	speed   float64
	paused  bool
	next    uint64        // number of the window after the one that was shown last
	until   uint64        // number of the first window that is waited for
	again   bool          // the recording is to be played from its beginning
	changed chan struct{} // closed, and made anew, when any of this changes
}

// NewPlayer returns a player of a recording, which open opens at its beginning: once
// now, and once each time it is played. The replay says with which configuration to
// begin, and at what speed.
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

// Play plays the recording, and again whenever another configuration is applied, until
// the context is done. Where the recording is damaged, what comes before has been
// played; Ended is told so, with nil for one that is whole, and may be nil itself.
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

// asked waits until the recording is to be played again; false where the context is
// done first.
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

// errAgain ends a run that gives way to another.
var errAgain = errors.New("played again")

// wait implements pacer.
func (p *Player) wait(ctx context.Context, number uint64, since time.Duration) error {
	begin := time.Now()
	for {
		p.mu.Lock()
		again, paused, speed, changed, fast := p.again, p.paused, p.speed, p.changed, number < p.until
		p.mu.Unlock()
		var due <-chan time.Time // never, while it is paused
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

// A position is an observer that notes where a player is. It is told before the others,
// so that who sees a window finds the player behind it.
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

// change changes what is asked of the player.
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

// ApplyFrom plays the recording again with another configuration, as fast as possible
// to where it was, and goes on from there. What cannot be, because it was recorded
// otherwise, is an error, and changes nothing; one about windows, or how a recorded
// outcome is observed, that are not what they are in base wraps [ErrFixed].
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
	p.change(func() { p.config, p.again, p.until = c, true, max(p.until, p.next) }) // it may be on its way there
	return nil
}

// A fixedError is about what was recorded, and therefore stays.
type fixedError string

func (e fixedError) Error() string { return string(e) + " as recorded cannot be changed" }

func (fixedError) Unwrap() error { return ErrFixed }

// recordedOtherwise refuses what a replay cannot do otherwise than it was recorded, where
// it is not what it was.
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
	for _, x := range was.Probes {
		_, there := specs[x.Spec.Name]
		at := slices.IndexFunc(now.Probes, func(y scope.ProbeSystem) bool { return y.Spec.Name == x.Spec.Name })
		if !there || at < 0 {
			continue
		}
		before, after := x.Spec, now.Probes[at].Spec
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

// Paused tells whether the player waits.
func (p *Player) Paused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

// Pause has the player wait, or go on.
func (p *Player) Pause(wait bool) { p.change(func() { p.paused = wait }) }

// Speed returns how much faster the player goes than it was; 0 is as fast as possible.
func (p *Player) Speed() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.speed
}

// SetSpeed changes the speed.
func (p *Player) SetSpeed(speed float64) { p.change(func() { p.speed = speed }) }
