// Package session puts an oscilloscope together: the sources that a configuration
// asks for, the scope, recordings and snapshots. It is what the command line and
// the dashboard start.
package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/recording"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/snapshot"
	"github.com/beamscope/beamscope/internal/wrapper"
)

// ErrFixed is wrapped by errors of Apply about what cannot change while it runs.
var ErrFixed = errors.New("cannot change while it runs")

// Options say what a Session does besides observing.
type Options struct {
	// Observers are told everything, in this order.
	Observers []scope.Observer

	// Record, where it is not nil, makes a recording of everything that is seen. It
	// is called when that begins, and nothing could stop it any more.
	Record func() (*recording.Writer, error)

	// Note says in snapshots where and how they were made.
	Note string

	// Notify is called with what a person should know of recordings and snapshots,
	// from the goroutine of Run or Close.
	Notify func(outcome.Notice)
}

// A Session is an oscilloscope that is attached to something.
type Session struct {
	scope  *scope.Scope
	source outcome.Source
	keeper *keeper
	record *recorder // nil where nothing is recorded
	closed bool

	mu     sync.Mutex
	config config.Config // in force, or about to be
}

// Config returns the configuration that was last applied, or that the session was
// opened with: what is to be saved. It may be called from any goroutine.
func (s *Session) Config() config.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config
}

// attaching is how long it takes to attach, as a rule. Where it takes longer, the
// first windows are not observed as a whole, and say so.
const attaching = 700 * time.Millisecond

// Open attaches to what a configuration names. The caller closes the session.
func Open(c config.Config, o Options) (*Session, error) {
	system, err := c.System()
	if err != nil {
		return nil, err
	}
	plan := system.Plan(monotonic.Now() + int64(attaching))
	source, err := open(c, plan)
	if err != nil {
		return nil, err
	}
	s := &Session{config: c, source: source}
	if s.keeper, err = newKeeper(c, o); err != nil {
		return nil, errors.Join(err, source.Close())
	}
	// What is kept comes first: a terminal that goes away takes nothing with it.
	observers := []scope.Observer{s.keeper}
	if o.Record != nil {
		s.record = &recorder{create: o.Record}
		observers = append(observers, s.record)
	}
	observers = append(observers, o.Observers...)
	if s.scope, err = scope.New(source, system, plan, observers...); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// open opens the sources that a plan needs, as one.
func open(c config.Config, plan outcome.Plan) (outcome.Source, error) {
	overTCP := func(s outcome.Spec) bool { return s.Wrapper != "" }
	inKernel := func(s outcome.Spec) bool { return !overTCP(s) }
	var parts []outcome.Part
	closeAll := func(err error) error {
		for _, p := range parts {
			err = errors.Join(err, p.Source.Close())
		}
		return err
	}
	// The wrappers first: theirs is a plan that can be taken back.
	if w := c.Wrapper; w.Listen != "" || len(w.Connect) > 0 {
		tcp, err := wrapper.New(wrapper.Config{Listen: w.Listen, Connect: w.Connect, Remote: w.Remote, Plan: plan.Only(overTCP)})
		if err != nil {
			return nil, closeAll(err)
		}
		parts = append(parts, outcome.Part{Source: tcp, Wants: overTCP})
	}
	if spans := plan.Only(inKernel); len(spans.Specs) > 0 {
		vms, err := outcome.NewVMSource(outcome.VMConfig{Target: c.Target, Plan: spans})
		if err != nil {
			return nil, closeAll(err)
		}
		parts = append(parts, outcome.Part{Source: vms, Wants: inKernel})
	}
	source, err := outcome.Join(plan, parts...)
	if err != nil {
		return nil, closeAll(err)
	}
	return source, nil
}

// Run observes until the context is done, for so long (0: without end), or until
// what is observed has ended.
func (s *Session) Run(ctx context.Context, limit time.Duration) error { return s.scope.Run(ctx, limit) }

// Apply goes on with another configuration, see [scope.Scope.Apply]. What is
// observed, the wrappers' addresses and the folder of the snapshots stay as they
// are; an error about them wraps [ErrFixed].
func (s *Session) Apply(ctx context.Context, c config.Config) error {
	now := s.Config()
	switch {
	case c.Target != now.Target:
		return fmt.Errorf("target: %w", ErrFixed)
	case !sameWrapper(c.Wrapper, now.Wrapper):
		return fmt.Errorf("wrapper: %w", ErrFixed)
	case c.Snapshots != now.Snapshots:
		return fmt.Errorf("snapshots: %w", ErrFixed)
	}
	system, err := c.System()
	if err != nil {
		return err
	}
	if err := s.scope.Apply(ctx, system); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config = c
	return nil
}

// Close detaches, ends the recording, and waits for snapshots that are being written.
// It may be called again.
func (s *Session) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.keeper.close()
	return errors.Join(s.source.Close(), s.record.close())
}

// snapshotOptions returns how a configuration wants snapshots.
func snapshotOptions(c config.Config, note string) snapshot.Options {
	now := monotonic.Now()
	return snapshot.Options{
		Dir:      c.Path(c.Snapshots.Dir),
		Header:   recording.Header{Time: monotonic.Wall(now).UTC(), Monotonic: now, Note: note, Facts: recording.Host()},
		Before:   c.Snapshots.Before,
		Prelude:  c.History,
		After:    c.Snapshots.After,
		MaxFiles: c.Snapshots.Keep,
		MaxBytes: c.Snapshots.Size,
	}
}

func sameWrapper(a, b config.Wrapper) bool {
	return a.Listen == b.Listen && a.Remote == b.Remote && slices.Equal(a.Connect, b.Connect)
}
