package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/price"
	"github.com/beamscope/beamscope/internal/scope"
)

// ErrPrice says that observing costs too much, and that nothing is left to give up.
var ErrPrice = errors.New("observing costs too much")

const (
	// lookAfter is how many windows pass before another outcome of the VM is added.
	lookAfter = 2

	// An outcome of the VM is added while observing costs this part of the limit at
	// most: it may cost several times as much as those before it.
	lookPart = 3
)

// A thrift keeps observing below a limit of its price: it takes off what costs most. And
// it adds outcomes of the VM by itself, while no spans are seen, the cheapest first.
//
// It reads frames in the goroutine of the run, and changes the configuration from one of
// its own, so that the run waits for nothing.
type thrift struct {
	session *Session
	leaver  outcome.Leaver // leaves out VMs, nil where nothing does
	wake    chan struct{}  // has room for one: there is something to do

	// These are used by the goroutine of the run alone.
	guard price.Guard
	look  []string // built-in outcomes that are yet to be added
	calm  int      // windows since the last change

	mu      sync.Mutex
	wish    *wish // what is to change, nil where nothing is
	epoch   int   // how many configurations have come into force
	due     int   // the epoch from which on windows show the last change
	notices []outcome.Notice
}

// A wish is a change of what is observed.
type wish struct {
	leave   bool   // a VM is left out from the next plan on
	drop    string // name of an outcome
	explain bool   // explanations are to be dropped
	add     string // built-in outcome
	why     string // something is to be dropped
}

func newThrift(s *Session, limit price.Limit, look []string) *thrift {
	return &thrift{
		session: s, wake: make(chan struct{}, 1), look: slices.Clone(look),
		guard: price.Guard{Limit: limit, Patience: price.Patience},
	}
}

// Configured implements [scope.Observer]: windows of before do not count any more.
func (t *thrift) Configured(*scope.System, outcome.Plan) error {
	t.guard.Forget()
	t.calm = 0
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch++
	return nil
}

// Noticed implements [scope.Observer].
func (t *thrift) Noticed(outcome.Notice) error { return nil }

// Framed implements [scope.Observer]. The error wraps [ErrPrice] where observing costs
// too much and nothing is left to give up.
func (t *thrift) Framed(b *outcome.Batch, f *scope.Frame) error {
	t.mu.Lock()
	waiting := t.wish != nil || t.epoch < t.due
	t.mu.Unlock()
	if waiting || b.Strangers || slices.ContainsFunc(f.Probes, func(p scope.Probe) bool { return p.Counts.Unobserved }) {
		return nil
	}
	if why, loud := t.guard.Judge(f.Cost, b.Loads, f.Window.Duration()); why != "" {
		if t.leaveOut(loud, why) {
			return nil
		}
		t.look = nil
		w := t.dearest(f)
		if w == nil {
			return fmt.Errorf("%w: %s. --limit allows more, and a scope file with fewer outcomes costs less", ErrPrice, why)
		}
		w.why = why
		t.want(w)
		return nil
	}
	t.calm++
	if len(t.look) > 0 && t.calm >= lookAfter {
		t.lookOn(f)
	}
	return nil
}

// leaveOut leaves out a VM that costs too much, and reports whether it does: not where there
// is none.
func (t *thrift) leaveOut(loud *price.Loud, why string) bool {
	if loud == nil || t.leaver == nil {
		return false
	}
	length, next, err := t.leaver.LeaveOut(loud.VM)
	if errors.Is(err, outcome.ErrNotLeft) {
		return false
	}
	t.say("%s", loud.Left(why, length))
	if err != nil {
		t.say("%v", err)
	}
	t.calm = 0
	if next {
		t.want(&wish{leave: true})
	}
	return true
}

// lookOn adds the next outcome of the VM, unless spans were seen or it may cost too much.
func (t *thrift) lookOn(f *scope.Frame) {
	share, _ := price.Share(f.Cost, f.Window.Duration())
	switch limit := t.guard.Limit.Share; {
	case t.session.SawSpans():
		t.look = nil
	case limit > 0 && share > limit/lookPart:
		t.say("%s cost too much here to be observed by themselves: add %s on the dashboard with A, or name them in a scope file",
			strings.Join(t.look, " and "), them(len(t.look)))
		t.look = nil
	default:
		t.want(&wish{add: t.look[0]})
		t.look = t.look[1:]
	}
}

func them(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

// want has a change made.
func (t *thrift) want(w *wish) {
	t.mu.Lock()
	t.wish = w
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// dearest returns what to give up: explanations where they cost more than all outcomes
// together, else the outcome with the most events. It is nil where nothing can be given
// up: what a diagram is made of stays, and so do spans that are discovered, as these cost
// as much without an outcome.
func (t *thrift) dearest(f *scope.Frame) *wish {
	t.session.mu.Lock()
	c := t.session.config
	t.session.mu.Unlock()
	events := make(map[string]uint64)
	var all uint64
	explains := false
	for i := range f.Probes {
		p := &f.Probes[i]
		n := p.Counts.Starts + p.Counts.Ends + p.Counts.Dropped
		events[p.Name] += n
		all += n
		explains = explains || p.Spec.Explain
	}
	if explains && f.Cost.Events > 2*all {
		return &wish{explain: true}
	}
	kept := make(map[string]bool)
	for _, o := range c.Outcomes {
		kept[o.Name] = t.session.finder != nil && o.OfSpans() || o.Wrapper != ""
	}
	for _, name := range c.DiagramNames() {
		kept[name] = true
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(events)) {
		if !kept[name] {
			names = append(names, name)
		}
	}
	if len(names) == 0 || len(events) == 1 { // the only outcome is what somebody wants to see
		return nil
	}
	return &wish{drop: slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(events[a], events[b]) })}
}

// begin begins to make changes, until end is called.
func (t *thrift) begin(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.wake:
				t.work(ctx)
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// work makes the change that is wanted.
func (t *thrift) work(ctx context.Context) {
	t.mu.Lock()
	w, due := t.wish, t.epoch+1
	t.mu.Unlock()
	if w == nil {
		return
	}
	err := t.session.change(ctx, func(now config.Config) (config.Config, func(), error) {
		c, err := w.apply(now)
		return c, func() {
			if t.session.finder != nil {
				t.session.finder.applied(now, c)
			}
		}, err
	})
	switch {
	case err == nil && !w.leave:
		t.say("%v", w)
	case err == nil:
	case ctx.Err() != nil, errors.Is(err, outcome.ErrEnded):
	case errors.Is(err, config.ErrObserved), errors.Is(err, errUnchanged):
	default:
		t.say("observing goes on as it was: %v", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wish = nil
	if err == nil {
		t.due = due
	}
}

// apply returns the configuration with the change.
func (w *wish) apply(c config.Config) (config.Config, error) {
	c = c.Clone()
	switch {
	case w.leave:
		return c, nil
	case w.add != "":
		scale, _ := config.BuiltinScale(w.add)
		scale.Fitted = true
		return c.WithBuiltin(w.add, scale)
	case w.explain && len(c.Explained()) == 0:
		return c, errUnchanged
	case w.explain:
		c.Explain = false
		for i := range c.Outcomes {
			c.Outcomes[i].Explain = config.AsAll
		}
		return c, nil
	}
	at := slices.IndexFunc(c.Outcomes, func(o config.Outcome) bool { return o.Name == w.drop })
	if at < 0 {
		return c, errUnchanged
	}
	c.Outcomes = slices.Delete(c.Outcomes, at, at+1)
	return c, nil
}

// String says what has changed.
func (w *wish) String() string {
	switch {
	case w.add != "":
		return "also observed, while there are no spans: " + w.add
	case w.explain:
		return fmt.Sprintf("nothing is explained any more: %s. A higher --limit keeps it", w.why)
	}
	return fmt.Sprintf("%s is not observed any more: %s. A higher --limit keeps it; on the dashboard, A adds it again", w.drop, w.why)
}

func (t *thrift) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notices = append(t.notices, outcome.Notice{Time: monotonic.Now(), Text: fmt.Sprintf(format, args...)})
}

// take returns what there is to say.
func (t *thrift) take() []outcome.Notice {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := t.notices
	t.notices = nil
	return said
}

// A thriftySource is a source with the notices of a thrift.
type thriftySource struct {
	outcome.Source
	thrift *thrift
}

// Watch implements [outcome.Source].
func (s *thriftySource) Watch(ctx context.Context) []outcome.Notice {
	return append(s.Source.Watch(ctx), s.thrift.take()...)
}
