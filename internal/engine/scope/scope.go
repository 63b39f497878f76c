package scope

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/spent"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// An Observer gets everything that a scope produces, in order and from one goroutine. An error
// ends the run. The arguments are valid until the method returns.
type Observer interface {
	// Configured is called before the first batch of a system. The plan is in force from then on.
	// Its From may be earlier.
	Configured(s *System, p outcome.Plan) error

	// Framed is called for each window, with its batch and its frame. The batch lacks what the frame leaves
	// out, see [Frame.Omitted].
	Framed(b *outcome.Batch, f *Frame) error

	// Noticed is called with a notice of the source.
	Noticed(n outcome.Notice) error
}

// A Scope runs an engine on a source in real time.
type Scope struct {
	source    outcome.Source
	engine    *Engine
	observers []Observer

	plan     outcome.Plan  // plan of the windows that are collected
	next     *System       // will replace the engine's system; nil if there is none
	nextPlan outcome.Plan  // the plan of next
	changes  chan change   // requests from Apply
	ended    chan struct{} // closed when Run returns
	used     spent.Total   // processor time of this process, in nanoseconds
	renewAt  int64         // time at which to begin the plan again, as the source wants; 0 if not wanted

	// Clocks, which tests replace.
	now       func() int64         // nanoseconds of CLOCK_MONOTONIC
	processor func() time.Duration // processor time of this process
}

type change struct {
	system *System
	done   chan<- error
}

// New returns a scope for a system. The source must have been made for this plan of the system.
func New(source outcome.Source, system *System, plan outcome.Plan, observers ...Observer) (*Scope, error) {
	engine, err := NewEngine(system)
	if err != nil {
		return nil, err
	}
	return &Scope{
		source: source, engine: engine, observers: observers, plan: plan,
		changes: make(chan change), ended: make(chan struct{}),
		now: monotonic.Now, processor: processorTime,
	}, nil
}

// Apply switches the scope to another system at the beginning of a window. It returns when that
// is settled, after a few windows at most. It may be called during Run, from any goroutine except
// that of Run. After an error everything stays unchanged.
func (s *Scope) Apply(ctx context.Context, system *System) error {
	done := make(chan error)
	select {
	case s.changes <- change{system, done}:
		return <-done
	case <-s.ended:
		return outcome.ErrEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run makes the frame of each window, one window behind the present, until the context is done,
// the source ends, or an observer fails. If limit is not 0, it also ends after that time, in
// whole windows, counted from the beginning of the first window in which an outcome was observed.
// Windows that were over before the source was attached do not count. If there are no outcomes, the
// limit counts from the call of Run.
// When the context is done, the windows that are already over still get their frames. Run must be
// called only once.
func (s *Scope) Run(ctx context.Context, limit time.Duration) error {
	defer close(s.ended)
	s.used.Read(s.now(), float64(s.processor()))
	if err := s.eachObserver(func(o Observer) error { return o.Configured(s.engine.System(), s.plan) }); err != nil {
		return err
	}
	left := countdown{limit: int64(limit), from: s.now()}
	var canceled int64 // when the context was found to be done; 0 before
	for w := s.plan.At(0); s.next != nil || !left.isOver(w); w = s.after(w) {
		err := s.wait(ctx, w)
		if ctx.Err() != nil && canceled == 0 {
			canceled = s.now()
		}
		if err != nil || canceled != 0 && w.To > canceled {
			return err
		}
		seen, err := s.step(ctx, w)
		if err != nil || seen.ended {
			return errors.Join(err, s.watch(ctx))
		}
		left.count(w, seen)
	}
	return s.watch(ctx)
}

// A progress is what a step saw of a window.
type progress struct {
	hasOutcomes bool // the system has outcomes
	observed    bool // and one of them was observed in this window
	ended       bool // the source has ended
}

// A countdown is the time that is left of a limit.
type countdown struct {
	limit int64 // nanoseconds; 0 means none
	from  int64 // windows that were over by then do not count, nanoseconds of CLOCK_MONOTONIC
	end   int64 // 0 if it is not known yet

	hadOutcomes, observed bool // in a window that was counted
}

// isOver reports whether a window begins after the limit.
func (c *countdown) isOver(w outcome.Window) bool {
	return c.limit != 0 && c.end != 0 && w.From >= c.end
}

// count sets the end of the limit. It begins again when the first outcomes are discovered, and when
// the first of them is observed.
func (c *countdown) count(w outcome.Window, seen progress) {
	switch {
	case c.observed:
	case seen.observed:
		c.observed, c.end = true, w.From+c.limit
	case seen.hasOutcomes && !c.hadOutcomes && c.end != 0:
		c.hadOutcomes, c.end = true, w.From+c.limit
	case !seen.hasOutcomes && c.end == 0 && w.To > c.from:
		c.end = w.From + c.limit
	}
}

// after returns the window that follows w.
func (s *Scope) after(w outcome.Window) outcome.Window {
	if s.next != nil && w.To >= s.nextPlan.From {
		return s.nextPlan.At(0)
	}
	return s.plan.At(s.plan.Number(w.To))
}

// step makes the frame of a window.
func (s *Scope) step(ctx context.Context, w outcome.Window) (seen progress, err error) {
	if s.next != nil && w.From >= s.nextPlan.From {
		if err := s.configure(s.next, s.nextPlan); err != nil {
			return seen, err
		}
		s.next = nil
	}
	batch, err := s.source.Collect(context.WithoutCancel(ctx), w)
	seen.ended = errors.Is(err, outcome.ErrEnded)
	if err != nil && !seen.ended {
		return seen, fmt.Errorf("window from %v on: %w", monotonic.Wall(w.From).Format("15:04:05.000"), err)
	}
	seen.hasOutcomes = len(batch.Counts) > 0
	if seen.ended && !seen.hasOutcomes {
		return seen, nil
	}
	if !batch.Renew {
		s.renewAt = 0
	} else if s.renewAt == 0 {
		s.renewAt = s.now()
	}
	s.used.Read(s.now(), float64(s.processor()))
	batch.Cost.Collector = time.Duration(s.used.Within(w.From, w.To))
	s.used.Forget(w.To)
	frame, err := s.engine.Step(&batch)
	if err != nil {
		return seen, err
	}
	seen.observed = seen.hasOutcomes && isObserved(&batch)
	s.engine.keepShown(&batch)
	return seen, s.eachObserver(func(o Observer) error { return o.Framed(&batch, frame) })
}

func (s *Scope) configure(system *System, plan outcome.Plan) error {
	if err := s.engine.Configure(system); err != nil {
		return err
	}
	s.plan = plan
	return s.eachObserver(func(o Observer) error { return o.Configured(system, plan) })
}

func (s *Scope) eachObserver(do func(Observer) error) error {
	for _, o := range s.observers {
		if err := do(o); err != nil {
			return err
		}
	}
	return nil
}

// watchPeriod is the interval between calls of the source's Watch.
const watchPeriod = time.Second

// wait waits until a window is due or the context is done. Meanwhile it watches the source and
// makes changes.
func (s *Scope) wait(ctx context.Context, w outcome.Window) error {
	for {
		if err := s.watch(ctx); err != nil {
			return err
		}
		if err := s.renew(ctx); err != nil {
			return err
		}
		next := s.now() + int64(watchPeriod)
		at := min(s.due(w), next)
		changes := s.changes
		if s.next != nil {
			changes = nil // one change after the other
		}
		timer := time.NewTimer(time.Duration(at - s.now()))
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

// renewAgain is the time until the plan is requested again after a failure.
const renewAgain = 30 * time.Second

// renew begins the plan again if the source wants that, unless another plan is about to begin.
func (s *Scope) renew(ctx context.Context) error {
	if s.renewAt == 0 || s.next != nil || s.now() < s.renewAt || ctx.Err() != nil {
		return nil
	}
	s.renewAt = s.now() + int64(renewAgain)
	err := s.change(ctx, s.engine.System())
	if err == nil || ctx.Err() != nil || errors.Is(err, outcome.ErrEnded) {
		return nil
	}
	n := outcome.Notice{Time: s.now(), Text: fmt.Sprintf("observation continues unchanged: %v", err)}
	return s.eachObserver(func(o Observer) error { return o.Noticed(n) })
}

// due returns when to collect a window: when it has been over for its own length, or for that of
// the following windows if that is shorter.
func (s *Scope) due(w outcome.Window) int64 {
	after := w.Duration()
	if s.next != nil {
		after = min(after, s.nextPlan.Window)
	}
	return w.To + int64(after)
}

// Time that a source gets to prepare for a plan: the first attempt, and the limit.
const (
	lead     = 250 * time.Millisecond
	mostLead = 4 * time.Second
)

// change prepares for another system. It begins with the next window that leaves the source
// enough time.
func (s *Scope) change(ctx context.Context, system *System) error {
	if _, err := NewEngine(system); err != nil {
		return err
	}
	for lead := lead; ; lead *= 2 {
		plan := system.Plan(s.plan.At(s.plan.Number(max(s.now()+int64(lead), s.plan.From)) + 1).From)
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

// watch calls the source's Watch, and passes on its notices in the order of time: parts of the source
// collect theirs separately.
func (s *Scope) watch(ctx context.Context) error {
	notices := s.source.Watch(ctx)
	slices.SortStableFunc(notices, func(a, b outcome.Notice) int { return cmp.Compare(a.Time, b.Time) })
	for _, n := range notices {
		if err := s.eachObserver(func(o Observer) error { return o.Noticed(n) }); err != nil {
			return err
		}
	}
	return nil
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // it never fails for the own process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
