// Package session connects the parts of an oscilloscope: the sources of a configuration, the scope,
// recordings and snapshots. The command line and the dashboard start sessions.
package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/snapshot"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/ring"
	"github.com/beamscope/beamscope/internal/sources/wrapper"
	"github.com/beamscope/beamscope/usdt"
)

// ErrFixed is wrapped by errors of Apply about settings that cannot change during a run.
var ErrFixed = errors.New("cannot change while it runs")

// Options describe what a Session does in addition to observing.
type Options struct {
	// Observers get everything, in this order.
	Observers []scope.Observer

	// Record, if not nil, opens a recording of everything that is seen. The session calls it when
	// the observation begins, after everything that could fail.
	Record func() (*recording.Writer, error)

	// Discover makes outcomes from span names that have none, and fits their scales to their
	// delays. [Session.Config] includes these outcomes.
	Discover bool

	// Limit limits the cost for the VMs. Above it, the session gives up the most expensive
	// outcome, and then the next one. If nothing is left to give up, Run ends with [ErrPrice].
	Limit price.Limit

	// Spare are names of built-in outcomes of the VM in the configuration. The session leaves them
	// out if it cannot attach programs to the VMs, or if a VM does not have their events.
	Spare []string

	// Look lists outcomes built into the VM that the session adds by itself, one after the other,
	// while no spans are discovered and observing costs little.
	Look []string

	// Script, if not nil, is the source of the events, and the session attaches to nothing. It
	// closes the script's text.
	Script *Script

	// Note is a text for snapshots about where and how they were made.
	Note string

	// Notify is called with notices for people about recordings and snapshots, from the goroutine
	// of Run or Close.
	Notify func(outcome.Notice)

	// Progress, if not nil, is called while the session attaches to VMs, see [vmsource.Config].
	Progress func(vmsource.Progress)

	opening []outcome.Notice // notices about opening the session
}

// A Session is a running oscilloscope with its sources.
type Session struct {
	scope   *scope.Scope
	sources sources
	keeper  *keeper
	record  *recorder    // nil without a recording
	finder  *finder      // nil without discovery
	limiter *costLimiter // nil if the price is unlimited and no outcomes are added
	closed  bool

	applying chan struct{} // held while a configuration is applied; has a buffer of one

	mu     sync.Mutex
	config config.Config // configuration in force, or about to be
	known  config.Config // configuration that callers of Apply know
}

// Config returns the current configuration: the last one that was applied, or the first one, with
// later discoveries and fits. Save this one, and derive the next one for [Session.Apply] from it.
// Any goroutine may call it.
func (s *Session) Config() config.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = s.config
	return s.config
}

// added reports whether the session added an outcome by itself.
func (s *Session) added(spec outcome.Spec) bool {
	if s.finder == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finder.found[originOfSpec(spec)] != nil
}

// SawSpans reports whether spans have been discovered, also if they belong to no outcome yet.
func (s *Session) SawSpans() bool {
	return s.finder != nil && s.finder.spans.Load()
}

// attaching is the usual time for attaching. If it takes longer, the first windows are marked as
// not completely observed.
const attaching = 700 * time.Millisecond

// Open attaches to the VMs of a configuration. If the context ends before that is done, the error
// is its cause. The caller closes the session.
func Open(ctx context.Context, c config.Config, o Options) (*Session, error) {
	s, err := openSession(ctx, c, o)
	spare := func(out config.Outcome) bool { return slices.Contains(o.Spare, out.VM.Builtin) }
	if missing := unseen(err); err != nil && len(missing) > 0 {
		left := without(c, func(out config.Outcome) bool { return spare(out) && missing[out.Name] != nil })
		if len(left.Outcomes) == len(c.Outcomes)-len(missing) { // the user requested none of them
			for _, out := range c.Outcomes {
				if why := missing[out.Name]; why != nil {
					o.opening = append(o.opening, outcome.Notice{Time: monotonic.Now(), Text: notObserved(out.Name, why)})
				}
			}
			return openSession(ctx, left, o)
		}
	}
	if unattached(err) && len(o.Spare) > 0 {
		return openSession(ctx, without(c, spare), o)
	}
	return s, err
}

// without returns a configuration without the outcomes that which selects.
func without(c config.Config, which func(config.Outcome) bool) config.Config {
	c.Outcomes = slices.DeleteFunc(slices.Clone(c.Outcomes), which)
	return c
}

// unseen returns the outcomes whose events a VM does not have according to an error, each with
// that error.
func unseen(err error) map[string]error {
	found := make(map[string]error)
	var look func(error)
	look = func(err error) {
		if e, ok := err.(*bpf.UnseenError); ok {
			for _, name := range e.Outcomes {
				found[name] = e
			}
			return
		}
		switch err := err.(type) {
		case interface{ Unwrap() error }:
			look(err.Unwrap())
		case interface{ Unwrap() []error }:
			for _, e := range err.Unwrap() {
				look(e)
			}
		}
	}
	look(err)
	return found
}

// unattached reports whether an error means that programs cannot be attached to the VMs.
func unattached(err error) bool {
	return errors.Is(err, vm.ErrNoProbes) || errors.Is(err, usdt.ErrServed) || withoutEBPF(err)
}

// withoutEBPF reports whether an error means that eBPF cannot be used here.
func withoutEBPF(err error) bool {
	return errors.Is(err, bpf.ErrPermission) || errors.Is(err, bpf.ErrKernel)
}

// Attached reports whether programs are attached to VMs. Otherwise only spans are observed.
func (s *Session) Attached() bool { return s.sources.vms != nil }

// Lacks reports whether an outcome cannot be observed, because it needs eBPF and that cannot be used
// here. A notice has said why.
func (s *Session) Lacks(o outcome.Spec) bool { return s.sources.lacking != nil && needsEBPF(o) }

func openSession(ctx context.Context, c config.Config, o Options) (*Session, error) {
	system, err := c.System()
	if err != nil {
		return nil, err
	}
	if err := checkSnapshots(c); err != nil { // before attaching costs the VMs anything
		return nil, err
	}
	plan := system.Plan(monotonic.Now() + int64(attaching))
	opened, err := openSources(ctx, c, system, plan, o)
	if err != nil {
		return nil, err
	}
	s := &Session{sources: opened, applying: make(chan struct{}, 1), config: c, known: c}
	if s.keeper, err = newKeeper(c, o); err != nil {
		return nil, errors.Join(err, opened.all.Close())
	}
	source := outcome.Source(opened.all)
	// The keeper and the recorder come first, so that they have everything even if the terminal
	// fails.
	observers := []scope.Observer{s.keeper}
	if o.Record != nil {
		s.record = &recorder{create: o.Record}
		observers = append(observers, s.record)
	}
	observers = append(observers, o.Observers...)
	if o.Discover {
		s.finder = newFinder(s, c)
		source = &findingSource{opened.all, s.finder}
		observers = append(observers, s.finder)
	}
	if opened.vms == nil {
		o.Look = nil
	}
	if o.Limit != (price.Limit{}) || len(o.Look) > 0 {
		s.limiter = newCostLimiter(s, o.Limit, o.Look)
		if opened.vms != nil {
			s.limiter.leaver = opened.vms
		}
		source = &limitedSource{source, s.limiter}
		observers = append(observers, s.limiter)
	}
	missing := newMissing(s)
	missing.notices = append(o.opening, opened.notices...)
	unset, sparse := newUnset(s), newSparse()
	source = &noticingSource{source, missing, unset, sparse}
	observers = append(observers, missing, unset, sparse)
	if s.scope, err = scope.New(source, system, plan, observers...); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// sources are the sources of a session.
type sources struct {
	all      *outcome.Joint
	vms      *vmsource.Source // nil if not used
	rings    *ring.Source     // nil if not used
	lacking  *unavailable     // outcomes that need eBPF where it cannot be used; nil if it can
	wrappers *wrapper.Source  // nil if not used
	scripted bool             // the source is the output of a script
	notices  []outcome.Notice // notices about opening them
}

// errNothing means that there is nothing to observe.
var errNothing = errors.New("no outcomes to observe: name them in the scope file, or have them discovered")

// openSources opens the sources according to the options.
func openSources(ctx context.Context, c config.Config, system *scope.System, plan outcome.Plan, o Options) (sources, error) {
	if o.Script != nil {
		return openScript(c, system, plan, *o.Script)
	}
	return open(ctx, c, plan, o)
}

// open opens the sources that a plan needs. With discovery it also opens those of VMs.
func open(ctx context.Context, c config.Config, plan outcome.Plan, o Options) (s sources, err error) {
	overTCP := func(s outcome.Spec) bool { return s.Wrapper != "" }
	inKernel := func(s outcome.Spec) bool { return !overTCP(s) }
	var parts []outcome.Part
	closeAll := func(err error) (sources, error) {
		for _, p := range parts {
			err = errors.Join(err, p.Source.Close())
		}
		return sources{}, err
	}
	// The wrappers come first, because their source can return to an earlier plan.
	if w := c.Wrapper; w.Listen != "" || len(w.Connect) > 0 {
		s.wrappers, err = wrapper.New(wrapper.Config{Listen: w.Listen, Connect: w.Connect, Remote: w.Remote, Plan: plan.Only(overTCP)})
		if err != nil {
			return closeAll(err)
		}
		parts = append(parts, outcome.Part{Source: s.wrappers, Wants: overTCP})
	}
	if spans := plan.Only(inKernel); len(spans.Specs) > 0 || o.Discover {
		if err := s.openVMs(ctx, c, plan, spans, o); err != nil {
			return closeAll(err)
		}
		// The VMs' source comes last, because it may refuse a plan and cannot return to an
		// earlier one.
		parts = append(parts, outcome.Part{Source: s.rings, Wants: isSpan})
		switch {
		case s.vms != nil:
			parts = append(parts, outcome.Part{Source: s.vms, Wants: inKernel})
		case s.lacking != nil:
			parts = append(parts, outcome.Part{Source: s.lacking, Wants: needsEBPF})
		}
	}
	if len(parts) == 0 {
		return sources{}, errNothing
	}
	if s.all, err = outcome.Join(plan, parts...); err != nil {
		return closeAll(err)
	}
	return s, nil
}

func isSpan(s outcome.Spec) bool { return s.Span != "" }

// openVMs opens the sources of VMs. Attaching programs may be impossible, because the kernel or
// the user's rights do not allow it or no VM has probes. Then spans are read from the VMs'
// memory. If the plan needs more and the VMs lack it, that is an error. If eBPF cannot be used,
// the outcomes that need it are marked as not observed, provided that there are others.
func (s *sources) openVMs(ctx context.Context, c config.Config, plan, inKernel outcome.Plan, o Options) (err error) {
	s.vms, err = vmsource.New(ctx, vmsource.Config{
		Target: c.Target, Plan: inKernel, Discover: o.Discover, Explain: o.Discover && c.Explain, Progress: o.Progress,
	})
	why := err
	if why != nil {
		if err := s.doWithout(plan, why, o); err != nil {
			return err
		}
	}
	rings := ring.Config{Target: c.Target, Plan: plan.Only(isSpan), Discover: o.Discover, Explain: o.Discover && c.Explain}
	if s.vms != nil {
		rings.Kernel = s.vms.CountsSpans
	}
	s.rings, err = ring.New(ctx, rings)
	expected := o.Discover || slices.ContainsFunc(plan.Specs, isSpan)
	switch {
	case err != nil && s.vms != nil:
		return errors.Join(err, s.vms.Close())
	case err != nil:
		return err
	case why != nil && expected && !errors.Is(why, vm.ErrNoProbes) && !s.rings.Found():
		// Spans of VMs with probes may fire the probes, and would remain unseen.
		return errors.Join(withoutSpans(why, s.rings.Forbidden()), s.rings.Close())
	}
	return nil
}

// doWithout continues without programs in the kernel, which cannot be attached for the given
// reason. It returns that as an error if an outcome of the plan needs such a program.
func (s *sources) doWithout(plan outcome.Plan, why error, o Options) error {
	if !unattached(why) {
		return why
	}
	needing := plan.Only(needsEBPF)
	if n := len(needing.Specs); n > 0 && (!withoutEBPF(why) || n == len(plan.Specs)) {
		return why
	}
	if withoutEBPF(why) {
		s.lacking = newUnavailable(needing, why)
	}
	if !o.Discover && !slices.ContainsFunc(plan.Specs, isSpan) {
		return nil // no spans are expected
	}
	text := fmt.Sprintf("only spans of the application beamscope are observed: %v", why)
	if errors.Is(why, vm.ErrNoProbes) {
		text = fmt.Sprintf("no VM has probes: only spans of the application beamscope are observed (%v)", why)
	}
	s.notices = append(s.notices, outcome.Notice{Time: monotonic.Now(), Text: text})
	return nil
}

// withoutSpans returns the error for a session that can neither attach programs nor read spans.
// forbidden is why this user may not read the spans of a VM, or nil.
func withoutSpans(why, forbidden error) error {
	if forbidden != nil {
		return fmt.Errorf("%w; and not permitted to read the spans in a VM's memory, which needs no eBPF: %w. The VM's own user may read them, too", why, forbidden)
	}
	return fmt.Errorf("%w (and no VM has recorded spans that could be read without)", why)
}

// Run observes until the context is done, until the time limit (0: none), or until everything
// that it observes has ended.
func (s *Session) Run(ctx context.Context, limit time.Duration) error {
	if s.finder != nil {
		defer s.finder.begin(ctx)()
	}
	if s.limiter != nil {
		defer s.limiter.begin(ctx)()
	}
	return s.scope.Run(ctx, limit)
}

// Apply applies another configuration, see [scope.Scope.Apply]. The target, the wrappers'
// addresses and the folder of the snapshots cannot change. An error about them wraps [ErrFixed].
// Apply keeps discoveries and fits since the last call of [Session.Config] or Apply, because the
// caller does not know them. If another outcome is missing, the caller has removed it, and it is
// not discovered again.
func (s *Session) Apply(ctx context.Context, c config.Config) error {
	s.mu.Lock()
	base := s.known
	s.mu.Unlock()
	return s.ApplyFrom(ctx, base, c)
}

// ApplyFrom is like Apply, for a configuration that was derived from base, which [Session.Config]
// returned at some time.
func (s *Session) ApplyFrom(ctx context.Context, base, c config.Config) error {
	return s.change(ctx, func(now config.Config) (config.Config, func(), error) {
		if s.finder == nil {
			return c, func() { s.known = c }, nil
		}
		next := s.finder.rebase(base, c, now)
		return next, func() {
			s.known = c
			s.finder.applied(now, next)
		}, nil
	})
}

// errUnchanged means that there is nothing to apply.
var errUnchanged = errors.New("nothing to change")

// change applies the configuration that edit returns for the one in force. Calls are serialized.
// After the change it calls the function that edit returned, under the lock.
func (s *Session) change(ctx context.Context, edit func(now config.Config) (c config.Config, done func(), err error)) error {
	select {
	case s.applying <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.applying }()
	s.mu.Lock()
	now := s.config
	c, done, err := edit(now)
	s.mu.Unlock()
	if err != nil {
		return err
	}
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
	if s.sources.scripted {
		if err := checkScript(c, system); err != nil {
			return err
		}
	}
	if err := s.scope.Apply(ctx, system); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config = c
	done()
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
	return errors.Join(s.sources.all.Close(), s.record.close())
}

// snapshotOptions returns the options for the snapshots of a configuration.
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
