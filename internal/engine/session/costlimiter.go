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

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// ErrPrice means that observing costs too much, and that nothing is left to give up.
var ErrPrice = errors.New("observing costs too much")

const (
	// lookAfter is the number of windows between additions of outcomes of the VM.
	lookAfter = 2

	// lookPart limits the additions: an outcome of the VM is added only while the cost is at most
	// the limit divided by lookPart. It may cost several times as much as the previous ones.
	lookPart = 3

	// unobservedMost is the number of windows after a change in which an outcome that is not observed
	// means that the change is not complete. Later it means that a VM has no place.
	unobservedMost = 5
)

// A costLimiter keeps the cost of observing below a limit by giving up the most expensive outcomes. It
// also adds outcomes of the VM by itself while no spans are seen, the cheapest first.
// It reads frames in the goroutine of the run, and changes the configuration from its own
// goroutine, so that the run never waits.
type costLimiter struct {
	session *Session
	leaver  outcome.Leaver // leaves out VMs; nil if no source can
	wake    chan struct{}  // signals work to do; has a buffer of one

	// Only the goroutine of the run uses these.
	guard price.Guard
	look  []string // built-in outcomes that are still to be added
	calm  int      // number of windows since the last change
	blind int      // number of windows since the last change in which an outcome was not observed
	since int64    // windows that begin earlier do not show what was left out last, nanoseconds of CLOCK_MONOTONIC

	mu      sync.Mutex
	wish    *wish // the wanted change, or nil
	epoch   int   // number of configurations that have come into force
	due     int   // first epoch whose windows show the last change
	notices []outcome.Notice
}

// A wish is a wanted change of what is observed.
type wish struct {
	leave   bool   // leave out a VM from the next plan on
	drop    string // name of the outcome to drop
	explain bool   // drop all explanations
	add     string // built-in outcome to add
	why     string // the reason for dropping
}

func newCostLimiter(s *Session, limit price.Limit, look []string) *costLimiter {
	return &costLimiter{
		session: s, wake: make(chan struct{}, 1), look: slices.Clone(look),
		guard: price.Guard{Limit: limit, Patience: price.Patience},
	}
}

// Configured implements [scope.Observer]: windows before the change no longer count.
func (t *costLimiter) Configured(*scope.System, outcome.Plan) error {
	t.guard.Forget()
	t.calm, t.blind = 0, 0
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch++
	return nil
}

// Noticed implements [scope.Observer].
func (t *costLimiter) Noticed(outcome.Notice) error { return nil }

// Framed implements [scope.Observer]. The error wraps [ErrPrice] if observing costs too much and
// nothing is left to give up.
func (t *costLimiter) Framed(b *outcome.Batch, f *scope.Frame) error {
	t.mu.Lock()
	waiting := t.wish != nil || t.epoch < t.due
	t.mu.Unlock()
	if waiting || !isObserved(f) || f.Window.From < t.since {
		return nil
	}
	t.guard.IncludeUnobserved(b.Strangers)
	if why, exclude := t.guard.Judge(f.Cost, b.Loads, b.Users, f.Window.Duration()); why != "" {
		if t.leaveOut(exclude, why) || b.Strangers {
			return nil
		}
		t.look = nil
		w := t.mostExpensive(f)
		if w == nil {
			return fmt.Errorf("%w: %s. --limit allows more, and a scope file with fewer outcomes costs less", ErrPrice, why)
		}
		w.why = why
		t.want(w)
		return nil
	}
	if b.Strangers {
		return nil
	}
	if slices.ContainsFunc(f.Outcomes, isUnobserved) && t.blind < unobservedMost {
		t.blind++
		return nil
	}
	t.calm++
	if len(t.look) > 0 && t.calm >= lookAfter {
		t.addNext(f)
	}
	return nil
}

func isUnobserved(p scope.Outcome) bool { return p.Counts.Unobserved }

// isObserved reports whether any probe was observed in a window. VMs without a place are not
// observed, but their cost is judged nevertheless.
func isObserved(f *scope.Frame) bool {
	return len(f.Outcomes) == 0 || slices.ContainsFunc(f.Outcomes, func(p scope.Outcome) bool { return !isUnobserved(p) })
}

// leaveOut leaves out what costs too much, and reports whether it did. It does nothing if exclude is
// nil.
func (t *costLimiter) leaveOut(exclude *price.Exclusion, why string) bool {
	if exclude == nil || t.leaver == nil {
		return false
	}
	length, next, err := exclude.LeaveOrSuccessors(t.leaver)
	if errors.Is(err, outcome.ErrNotLeft) {
		return false
	}
	t.since = monotonic.Now() // windows may be collected late, and several at once
	t.say("%s", exclude.Left(why, length))
	if err != nil {
		t.say("%v", err)
	}
	t.calm = 0
	if next {
		t.want(&wish{leave: true})
	}
	return true
}

// addNext adds the next outcome of the VM. It stops adding if spans were seen or the outcome may
// cost too much.
func (t *costLimiter) addNext(f *scope.Frame) {
	share, _ := price.Share(f.Cost, f.Window.Duration())
	switch limit := t.guard.Limit.Share; {
	case t.session.SawSpans():
		t.look = nil
	case limit > 0 && share > limit/lookPart:
		t.say("%s", notAdded(t.look))
		t.look = nil
	default:
		t.want(&wish{add: t.look[0]})
		t.look = t.look[1:]
	}
}

// notAdded says that outcomes are not added because of their cost.
func notAdded(names []string) string {
	text, they, them := names[0], "it", "it"
	if last := len(names) - 1; last > 0 {
		text, they, them = strings.Join(names[:last], ", ")+" and "+names[last], "they", "them"
	}
	return fmt.Sprintf("beamscope does not add %s here, because %s may cost too much: add %s on the dashboard with A, or name %s in a scope file", text, they, them, them)
}

// want requests a change.
func (t *costLimiter) want(w *wish) {
	t.mu.Lock()
	t.wish = w
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// mostExpensive returns what to give up: explanations if they cost more than all outcomes together,
// and otherwise the outcome with the most events. It returns nil if nothing can be given up.
// Outcomes in the diagram are kept. Discovered spans are kept too, because they would cost as much
// without an outcome.
func (t *costLimiter) mostExpensive(f *scope.Frame) *wish {
	t.session.mu.Lock()
	c := t.session.config
	t.session.mu.Unlock()
	events := make(map[string]uint64)
	var all uint64
	explains := false
	for i := range f.Outcomes {
		p := &f.Outcomes[i]
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
	if len(names) == 0 || len(events) == 1 { // the user wants to see the only outcome
		return nil
	}
	return &wish{drop: slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(events[a], events[b]) })}
}

// begin starts to make changes, until end is called.
func (t *costLimiter) begin(ctx context.Context) (end func()) {
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

// work makes the wanted change.
func (t *costLimiter) work(ctx context.Context) {
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
		t.say("observation continues unchanged: %v", err)
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

// String describes the change.
func (w *wish) String() string {
	switch {
	case w.add != "":
		return "also observed, while there are no spans: " + w.add
	case w.explain:
		return fmt.Sprintf("beamscope does not explain spans any more: %s. A higher --limit keeps explanations", w.why)
	}
	return fmt.Sprintf("%s is not observed any more: %s. A higher --limit keeps it; on the dashboard, A adds it again", w.drop, w.why)
}

func (t *costLimiter) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notices = append(t.notices, outcome.Notice{Time: monotonic.Now(), Text: fmt.Sprintf(format, args...)})
}

// take returns and removes the waiting notices.
func (t *costLimiter) take() []outcome.Notice {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := t.notices
	t.notices = nil
	return said
}

// A limitedSource is a source that adds the notices of a cost limiter.
type limitedSource struct {
	outcome.Source
	limiter *costLimiter
}

// Watch implements [outcome.Source].
func (s *limitedSource) Watch(ctx context.Context) []outcome.Notice {
	return append(s.Source.Watch(ctx), s.limiter.take()...)
}
