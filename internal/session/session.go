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

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/price"
	"github.com/beamscope/beamscope/internal/recording"
	"github.com/beamscope/beamscope/internal/ring"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/snapshot"
	"github.com/beamscope/beamscope/internal/vm"
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

	// Discover has names of spans that no outcome has become outcomes by themselves,
	// and fits their scales to their delays. [Session.Config] has them as well.
	Discover bool

	// Limit bounds what observing costs the VMs. Above it, the outcome that costs most is
	// taken off, and then the next; where nothing is left to take off, Run ends with
	// [ErrPrice].
	Limit price.Limit

	// Spare are names of outcomes of the configuration, built into the VM, that are left out
	// where no programs can be attached to the VMs.
	Spare []string

	// Look are outcomes built into the VM that are added by themselves, one after the
	// other, while no spans are discovered and observing costs little.
	Look []string

	// Script, where it is not nil, is where the events come from that the
	// configuration names, and nothing is attached to. The session closes its text.
	Script *Script

	// Note says in snapshots where and how they were made.
	Note string

	// Notify is called with what a person should know of recordings and snapshots,
	// from the goroutine of Run or Close.
	Notify func(outcome.Notice)

	// Progress, where it is not nil, is called while the session attaches to VMs, see
	// [outcome.VMConfig].
	Progress func(outcome.Progress)
}

// A Session is an oscilloscope that is attached to something.
type Session struct {
	scope   *scope.Scope
	sources sources
	keeper  *keeper
	record  *recorder // nil where nothing is recorded
	finder  *finder   // nil where nothing is discovered
	thrift  *thrift   // nil where the price is not bounded, and nothing is added
	closed  bool

	applying chan struct{} // has room for one: who applies a configuration

	mu     sync.Mutex
	config config.Config // in force, or about to be
	known  config.Config // of which whoever applies another one knows
}

// Config returns the configuration in force: the one that was last applied, or that
// the session was opened with, with what was discovered and fitted since. It is what
// is to be saved, and what [Session.Apply] takes the next one to be made of. It may
// be called from any goroutine.
func (s *Session) Config() config.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = s.config
	return s.config
}

// added reports whether an outcome was added by the session itself.
func (s *Session) added(spec outcome.Spec) bool {
	if s.finder == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finder.found[originOfSpec(spec)] != nil
}

// SawSpans reports whether spans have been discovered, also where no outcome was made of
// them yet.
func (s *Session) SawSpans() bool {
	if s.finder == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.finder.found {
		if at.span != "" {
			return true
		}
	}
	return false
}

// attaching is how long it takes to attach, as a rule. Where it takes longer, the
// first windows are not observed as a whole, and say so.
const attaching = 700 * time.Millisecond

// Open attaches to what a configuration names. Where the context is done before that has
// been done, the error is its cause. The caller closes the session.
func Open(ctx context.Context, c config.Config, o Options) (*Session, error) {
	s, err := openSession(ctx, c, o)
	if unattached(err) && len(o.Spare) > 0 {
		c.Outcomes = slices.DeleteFunc(slices.Clone(c.Outcomes), func(out config.Outcome) bool { return slices.Contains(o.Spare, out.VM.Builtin) })
		o.Spare = nil
		return openSession(ctx, c, o)
	}
	return s, err
}

// unattached reports whether an error says that programs cannot be attached to the VMs.
func unattached(err error) bool {
	return errors.Is(err, vm.ErrNoProbes) || errors.Is(err, bpf.ErrPermission) || errors.Is(err, bpf.ErrKernel)
}

// Attached reports whether programs are attached to VMs. Otherwise only spans are observed.
func (s *Session) Attached() bool { return s.sources.vms != nil }

func openSession(ctx context.Context, c config.Config, o Options) (*Session, error) {
	system, err := c.System()
	if err != nil {
		return nil, err
	}
	if err := checkSnapshots(c); err != nil { // before the VMs pay for it
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
	// What is kept comes first: a terminal that goes away takes nothing with it.
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
		s.thrift = newThrift(s, o.Limit, o.Look)
		if opened.vms != nil {
			s.thrift.leaver = opened.vms
		}
		source = &thriftySource{source, s.thrift}
		observers = append(observers, s.thrift)
	}
	missing := newMissing(s)
	missing.notices = opened.notices
	source = &noticingSource{source, missing}
	observers = append(observers, missing)
	if s.scope, err = scope.New(source, system, plan, observers...); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// sources are what a session observes by.
type sources struct {
	all      *outcome.Joint
	vms      *outcome.VMSource // nil where there is none
	rings    *ring.Source      // likewise
	wrappers *wrapper.Source   // likewise
	scripted bool              // they are the output of a script
	notices  []outcome.Notice  // of opening them
}

// errNothing says that there is nothing to do.
var errNothing = errors.New("no outcomes to observe: name them in the scope file, or have them discovered")

// openSources opens what the options say.
func openSources(ctx context.Context, c config.Config, system *scope.System, plan outcome.Plan, o Options) (sources, error) {
	if o.Script != nil {
		return openScript(c, system, plan, *o.Script)
	}
	return open(ctx, c, plan, o)
}

// open opens the sources that a plan needs, and that of the VMs where their spans are
// to be discovered.
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
	// The wrappers first: theirs is a plan that can be taken back.
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
		// The VMs' source comes last: it may refuse a plan, and cannot take one back.
		parts = append(parts, outcome.Part{Source: s.rings, Wants: isSpan})
		if s.vms != nil {
			parts = append(parts, outcome.Part{Source: s.vms, Wants: inKernel})
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

// openVMs opens the sources of VMs. Where no programs can be attached, because the kernel or
// the user's rights do not allow it, or no VM has probes, spans are read from the VMs' memory
// alone, as long as nothing else is asked for.
func (s *sources) openVMs(ctx context.Context, c config.Config, plan, inKernel outcome.Plan, o Options) (err error) {
	s.vms, err = outcome.NewVMSource(ctx, outcome.VMConfig{
		Target: c.Target, Plan: inKernel, Discover: o.Discover, Explain: o.Discover && c.Explain, Progress: o.Progress,
	})
	onlySpans := !slices.ContainsFunc(inKernel.Specs, func(s outcome.Spec) bool { return !isSpan(s) })
	switch {
	case err == nil:
	case onlySpans && unattached(err):
		s.notices = append(s.notices, outcome.Notice{Time: monotonic.Now(), Text: fmt.Sprintf("only spans of the application beamscope are observed, from the memory of the VM: %v", err)})
	default:
		return err
	}
	why := err
	s.rings, err = ring.New(ctx, ring.Config{Target: c.Target, Plan: plan.Only(isSpan), Discover: o.Discover, Kernel: s.vms != nil})
	switch {
	case err != nil && s.vms != nil:
		return errors.Join(err, s.vms.Close())
	case err != nil:
		return err
	case why != nil && !errors.Is(why, vm.ErrNoProbes) && !s.rings.Found():
		// Spans of VMs with probes fire these as a rule, and nothing would be seen of them.
		return errors.Join(fmt.Errorf("%w (and no VM has recorded spans that could be read without)", why), s.rings.Close())
	}
	return nil
}

// Run observes until the context is done, for so long (0: without end), or until
// what is observed has ended.
func (s *Session) Run(ctx context.Context, limit time.Duration) error {
	if s.finder != nil {
		defer s.finder.begin(ctx)()
	}
	if s.thrift != nil {
		defer s.thrift.begin(ctx)()
	}
	return s.scope.Run(ctx, limit)
}

// Apply goes on with another configuration, see [scope.Scope.Apply]. What is
// observed, the wrappers' addresses and the folder of the snapshots stay as they
// are; an error about them wraps [ErrFixed].
//
// What was discovered and fitted since [Session.Config] was last called, or Apply,
// is kept: the caller does not know of it. An outcome that is missing otherwise was
// removed by the caller, and is not discovered again.
func (s *Session) Apply(ctx context.Context, c config.Config) error {
	s.mu.Lock()
	base := s.known
	s.mu.Unlock()
	return s.ApplyFrom(ctx, base, c)
}

// ApplyFrom is Apply of a configuration that was made of another one, base, which
// [Session.Config] has returned at some time.
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

// errUnchanged says that there is nothing to apply.
var errUnchanged = errors.New("nothing to change")

// change goes on with what edit makes of the configuration in force. One after the
// other does so. What edit returns besides is called when that is done, under the lock.
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
