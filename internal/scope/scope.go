package scope

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/spent"
)

// An Observer is told everything that a scope does, in order and from one
// goroutine. An error ends the run. What it is given holds until it returns.
type Observer interface {
	// Configured is called before the first batch of a system. The plan is the one
	// that holds from then on; its From may be earlier.
	Configured(s *System, p outcome.Plan) error

	// Framed is called for each window, with the batch and the frame made of it.
	Framed(b *outcome.Batch, f *Frame) error

	// Noticed is called with what the source says about itself.
	Noticed(n outcome.Notice) error
}

// A Scope runs an engine on a source, as time goes by.
type Scope struct {
	source    outcome.Source
	engine    *Engine
	observers []Observer

	plan     outcome.Plan  // of the windows that are collected
	next     *System       // to take the place of the engine's, nil: none
	nextPlan outcome.Plan  // then
	changes  chan change   // asked for by Apply
	ended    chan struct{} // closed when Run returns
	begun    bool          // a window was observed
	used     spent.Total   // processor time of this process, in nanoseconds
	renewAt  int64         // when the plan is to begin again, as the source wants; 0: it does not
}

type change struct {
	system *System
	done   chan<- error
}

// New returns a scope for a system on a source, which was made for this plan of
// it.
func New(source outcome.Source, system *System, plan outcome.Plan, observers ...Observer) (*Scope, error) {
	engine, err := NewEngine(system)
	if err != nil {
		return nil, err
	}
	return &Scope{source: source, engine: engine, observers: observers, plan: plan, changes: make(chan change), ended: make(chan struct{})}, nil
}

// Apply has the scope go on with another system, from the beginning of a window
// on. It returns when that is settled, in a few windows at most, and may be called
// while Run runs, from any goroutine but that one. On an error everything stays as it was.
func (s *Scope) Apply(ctx context.Context, system *System) error {
	done := make(chan error, 1)
	select {
	case s.changes <- change{system, done}:
		return <-done
	case <-s.ended:
		return outcome.ErrEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run makes the frame of each window, one window behind the present, until the
// context is done, the source ends, or an observer fails. Where limit is not 0, it
// does so for that long, in whole windows, from the beginning of the first window that
// was observed: windows that were over before the source was attached do not count.
//
// When the context is done, the windows that are over by then still get their
// frames. Run is called once.
func (s *Scope) Run(ctx context.Context, limit time.Duration) error {
	defer close(s.ended)
	s.used.Read(monotonic.Now(), float64(processorTime()))
	if err := s.tell(func(o Observer) error { return o.Configured(s.engine.System(), s.plan) }); err != nil {
		return err
	}
	var end int64      // where the limit is, once it is known
	var canceled int64 // when the context was seen to be done; 0 before
	for w := s.plan.At(0); limit == 0 || !s.begun || w.From < end; w = s.after(w) {
		err := s.wait(ctx, w)
		if ctx.Err() != nil && canceled == 0 {
			canceled = monotonic.Now()
		}
		if err != nil || canceled != 0 && w.To > canceled {
			return err
		}
		before := s.begun
		ended, err := s.step(ctx, w)
		if err != nil || ended {
			return errors.Join(err, s.watch(ctx))
		}
		if s.begun && !before {
			end = w.From + int64(limit)
		}
	}
	return s.watch(ctx)
}

// after returns the window that follows w.
func (s *Scope) after(w outcome.Window) outcome.Window {
	if s.next != nil && w.To >= s.nextPlan.From {
		return s.nextPlan.At(0)
	}
	return s.plan.At(s.plan.Number(w.To))
}

// step makes the frame of a window.
func (s *Scope) step(ctx context.Context, w outcome.Window) (ended bool, err error) {
	if s.next != nil && w.From >= s.nextPlan.From {
		if err := s.configure(s.next, s.nextPlan); err != nil {
			return false, err
		}
		s.next = nil
	}
	batch, err := s.source.Collect(context.WithoutCancel(ctx), w)
	ended = errors.Is(err, outcome.ErrEnded)
	if err != nil && !ended {
		return false, fmt.Errorf("window from %v on: %w", monotonic.Wall(w.From).Format("15:04:05.000"), err)
	}
	if ended && len(batch.Counts) == 0 {
		return true, nil
	}
	s.begun = s.begun || isObserved(&batch)
	if !batch.Renew {
		s.renewAt = 0
	} else if s.renewAt == 0 {
		s.renewAt = monotonic.Now()
	}
	s.used.Read(monotonic.Now(), float64(processorTime()))
	batch.Cost.Collector = time.Duration(s.used.Within(w.From, w.To))
	s.used.Forget(w.To)
	frame, err := s.engine.Step(&batch)
	if err != nil {
		return false, err
	}
	return ended, s.tell(func(o Observer) error { return o.Framed(&batch, frame) })
}

// isObserved reports whether a window was observed, as a whole or of some outcome. Where
// there is no outcome yet, it was.
func isObserved(b *outcome.Batch) bool {
	return len(b.Counts) == 0 || slices.ContainsFunc(b.Counts, func(c outcome.Counts) bool { return !c.Unobserved })
}

func (s *Scope) configure(system *System, plan outcome.Plan) error {
	if err := s.engine.Configure(system); err != nil {
		return err
	}
	s.plan = plan
	return s.tell(func(o Observer) error { return o.Configured(system, plan) })
}

func (s *Scope) tell(do func(Observer) error) error {
	for _, o := range s.observers {
		if err := do(o); err != nil {
			return err
		}
	}
	return nil
}

// watchPeriod is how often the source is asked to look after what it observes.
const watchPeriod = time.Second

// wait waits until a window is due or the context is done, and meanwhile has the source
// watched and changes made.
func (s *Scope) wait(ctx context.Context, w outcome.Window) error {
	for {
		if err := s.watch(ctx); err != nil {
			return err
		}
		if err := s.renew(ctx); err != nil {
			return err
		}
		next := monotonic.Now() + int64(watchPeriod)
		at := min(s.due(w), next)
		changes := s.changes
		if s.next != nil {
			changes = nil // one after the other
		}
		timer := time.NewTimer(time.Duration(at - monotonic.Now()))
		select {
		case <-timer.C:
			if at < next {
				return nil
			}
		case c := <-changes:
			timer.Stop()
			err := s.change(ctx, c.system)
			c.done <- err
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// renewAgain is how long it takes until the plan is to begin again after that has failed.
const renewAgain = 30 * time.Second

// renew has the plan begin again where the source wants that, unless another one is about to
// begin.
func (s *Scope) renew(ctx context.Context) error {
	if s.renewAt == 0 || s.next != nil || monotonic.Now() < s.renewAt || ctx.Err() != nil {
		return nil
	}
	s.renewAt = monotonic.Now() + int64(renewAgain)
	err := s.change(ctx, s.engine.System())
	if err == nil || ctx.Err() != nil || errors.Is(err, outcome.ErrEnded) {
		return nil
	}
	n := outcome.Notice{Time: monotonic.Now(), Text: fmt.Sprintf("observing goes on as it was: %v", err)}
	return s.tell(func(o Observer) error { return o.Noticed(n) })
}

// due returns when a window is to be collected: when it has been over for as long
// as it was, or as the windows that come after it will be.
func (s *Scope) due(w outcome.Window) int64 {
	after := w.Duration()
	if s.next != nil {
		after = min(after, s.nextPlan.Window)
	}
	return w.To + int64(after)
}

// What a source gets to prepare for a plan, at first and at most.
const (
	lead     = 250 * time.Millisecond
	mostLead = 4 * time.Second
)

// change prepares for another system. It begins with the next window that begins
// late enough for the source.
func (s *Scope) change(ctx context.Context, system *System) error {
	if _, err := NewEngine(system); err != nil {
		return err
	}
	for lead := lead; ; lead *= 2 {
		plan := system.Plan(s.plan.At(s.plan.Number(max(monotonic.Now()+int64(lead), s.plan.From)) + 1).From)
		err := s.source.Plan(ctx, plan)
		if err == nil {
			s.next, s.nextPlan = system, plan
			return nil
		}
		if !errors.Is(err, outcome.ErrLate) || lead >= mostLead {
			return err
		}
	}
}

// watch has the source looked after, and passes on what it says.
func (s *Scope) watch(ctx context.Context) error {
	for _, n := range s.source.Watch(ctx) {
		if err := s.tell(func(o Observer) error { return o.Noticed(n) }); err != nil {
			return err
		}
	}
	return nil
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
