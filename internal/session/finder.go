package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/autorange"
	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// MaxFound is how many outcomes a session adds by itself of the spans of each user's VMs, and
// MaxFoundOfAll of all of them. Of these 200 are of the first users who have so many.
const (
	MaxFound      = 200
	MaxFoundOfAll = 480
)

// foundOnLabel is how many outcomes a session adds by itself of each user with names on the
// same [bpf.Label]: so nobody takes all of the room there for names of others.
const foundOnLabel = bpf.NamesPerLabel / 2

// A finder makes outcomes of what a session discovers, and fits their scales. It is
// told of names and frames by the goroutine of the run, and changes the configuration
// from one of its own, so that the run waits for nothing.
type finder struct {
	session *Session
	wake    chan struct{} // has room for one: there is something to do

	spans atomic.Bool // names of spans were discovered

	mu      sync.Mutex
	names   []outcome.Discovery // that are to become outcomes
	notices []outcome.Notice

	// These are under the lock of the session.
	found     map[origin]*found // that were made outcomes
	dismissed map[origin]bool   // that are no outcomes because somebody removed them
	beyond    []string          // names of spans that are no outcomes because there were MaxFound
}

// newFinder returns a finder. Outcomes of the configuration that are built into the VM,
// and have no scale of their own, are fitted as those that are found.
func newFinder(s *Session, c config.Config) *finder {
	f := &finder{session: s, wake: make(chan struct{}, 1), found: make(map[origin]*found), dismissed: make(map[origin]bool)}
	f.applied(config.Config{}, c)
	return f
}

// A findingSource is a source whose discoveries a finder is told of.
type findingSource struct {
	*outcome.Joint
	finder *finder
}

// Watch implements [outcome.Source].
func (s *findingSource) Watch(ctx context.Context) []outcome.Notice {
	notices := s.Joint.Watch(ctx)
	return append(notices, s.finder.add(s.Discovered())...)
}

// add notes names that are to become outcomes, and returns what there is to say.
func (f *finder) add(names []outcome.Discovery) []outcome.Notice {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names = append(f.names, names...)
	if len(f.names) > 0 {
		f.spans.Store(true)
		f.awake()
	}
	notices := f.notices
	f.notices = nil
	return notices
}

// awake has the finder look for something to do.
func (f *finder) awake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *finder) say(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notices = append(f.notices, outcome.Notice{Time: monotonic.Now(), Text: fmt.Sprintf(format, args...)})
}

// begin begins to make outcomes, until end is called.
func (f *finder) begin(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-f.wake:
			}
			for f.work(ctx) {
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// work applies what there is to change, and reports whether there may be more.
func (f *finder) work(ctx context.Context) (more bool) {
	var e *edit
	err := f.session.change(ctx, func(now config.Config) (config.Config, func(), error) {
		e = f.edit(now)
		if len(e.names)+len(e.fitted) == 0 {
			return now, nil, errUnchanged
		}
		return e.config, func() { f.settle(e) }, nil
	})
	switch {
	case err == nil:
		return true
	case errors.Is(err, errUnchanged), errors.Is(err, outcome.ErrEnded), ctx.Err() != nil:
		return false
	case errors.Is(err, outcome.ErrLate): // another time
		f.mu.Lock()
		defer f.mu.Unlock()
		f.names = append(f.names, e.names...)
		return false
	}
	f.session.mu.Lock()
	defer f.session.mu.Unlock()
	f.giveUp(e, err)
	return true
}

// An edit is what a finder does to a configuration.
type edit struct {
	config config.Config
	names  []outcome.Discovery // of spans that become outcomes
	fitted []*fit
}

// edit adds outcomes for the names that wait, and fits scales.
func (f *finder) edit(now config.Config) *edit {
	e := &edit{config: now}
	f.mu.Lock()
	names := f.names
	f.names = nil
	f.mu.Unlock()
	var beyond []outcome.Discovery
	room := f.room()
	for _, d := range names {
		at := origin{span: d.Name}
		if f.dismissed[at] {
			continue
		}
		if !room.has(d) {
			beyond = append(beyond, d)
			continue
		}
		with, err := at.with(e.config, autorange.Start(now.Base))
		if errors.Is(err, config.ErrObserved) {
			continue
		}
		if err != nil {
			f.say("discovered: %v", err)
			continue
		}
		e.config = with
		e.names = append(e.names, d)
		room.take(d)
	}
	f.noteBeyond(beyond)
	f.fit(e)
	return e
}

// settle notes what an edit has done.
func (f *finder) settle(e *edit) {
	if len(e.names) > 0 {
		f.say("discovered: %s", listed(namesOf(e.names)))
	}
	for _, d := range e.names {
		f.found[origin{span: d.Name}] = &found{user: d.User}
	}
	for _, fit := range e.fitted {
		fit.settle()
		f.say("%v", fit)
	}
}

// giveUp notes what could not be done: it is not tried again.
func (f *finder) giveUp(e *edit, err error) {
	if len(e.names) > 0 {
		f.say("%s cannot be observed: %v", listed(namesOf(e.names)), err)
	}
	for _, fit := range e.fitted {
		fit.fixed = true
		f.say("%s keeps its scale: %v", fit.outcome, err)
	}
}

// listed lists the first of some names, for people.
func listed(names []string) string {
	const most = 10
	text := enumerated(names[:min(len(names), most)])
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

// enumerated lists all of some names, for people: of a long one its beginning and its end.
func enumerated(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", figures.ShortName(name))
	}
	return strings.Join(quoted, ", ")
}

// rebase returns c, which somebody made of base, with what was discovered and fitted
// since base was in force.
func (f *finder) rebase(base, c, now config.Config) config.Config {
	c.Outcomes = slices.Clone(c.Outcomes)
	for _, o := range now.Outcomes {
		at := originOf(o)
		if f.found[at] == nil {
			continue
		}
		was, mine := outcomeAt(base, at), outcomeAt(c, at)
		switch {
		case mine == nil && was == nil:
			c = withFound(c, o)
		case mine != nil && was != nil && mine.Scale == was.Scale && mine.QTA == nil && c.Base == now.Base:
			mine.Scale = o.Scale
		}
	}
	return c
}

// withFound returns the configuration with an outcome that was discovered, unless it
// has one of this origin. It may have another one of this name.
func withFound(c config.Config, o config.Outcome) config.Config {
	with, err := originOf(o).with(c, o.Scale)
	if err != nil {
		return c
	}
	added := outcomeAt(with, originOf(o))
	if !slices.ContainsFunc(c.Outcomes, func(other config.Outcome) bool { return other.Name == o.Name }) {
		*added = o
	}
	return with
}

// applied notes what somebody has removed, and of which outcomes the scale is not that
// of before: these are left alone.
func (f *finder) applied(before, after config.Config) {
	for _, at := range origins(before) {
		f.dismissed[at] = true
	}
	for _, at := range origins(after) {
		delete(f.dismissed, at)
		f.beyond = slices.DeleteFunc(f.beyond, func(name string) bool { return name == at.span })
	}
	for at, found := range f.found {
		if f.dismissed[at] {
			delete(f.found, at)
			continue
		}
		was, is := outcomeAt(before, at), outcomeAt(after, at)
		if was == nil || is == nil || !sameGrid(*was, before, *is, after) {
			found.fixed = true
		}
	}
	for _, o := range after.Outcomes { // somebody has added it, and left its scale to us
		if at := originOf(o); at.builtin != "" && f.found[at] == nil && outcomeAt(before, at) == nil && unscaled(o) {
			f.found[at] = &found{}
		}
	}
}

// unscaled tells whether an outcome that is built into the VM has the scale that it has
// where none is given, and nothing is required of it.
func unscaled(o config.Outcome) bool {
	scale, ok := config.BuiltinScale(o.VM.Builtin)
	scale.Fitted = o.Scale.Fitted
	return ok && o.Scale == scale && o.QTA == nil
}

// sameGrid tells whether an outcome has the same grid in two configurations.
func sameGrid(a config.Outcome, inA config.Config, b config.Outcome, inB config.Config) bool {
	g, errA := a.Scale.Grid(inA.Base)
	h, errB := b.Scale.Grid(inB.Base)
	return errA == nil && errB == nil && g == h
}

// Configured implements [scope.Observer].
func (f *finder) Configured(*scope.System, outcome.Plan) error { return nil }

// Noticed implements [scope.Observer].
func (f *finder) Noticed(outcome.Notice) error { return nil }
