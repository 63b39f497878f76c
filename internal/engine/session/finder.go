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
	"github.com/beamscope/beamscope/internal/engine/autorange"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// MaxFound is the largest number of outcomes that a session adds by itself for the spans of one
// user's VMs, and MaxFoundOfAll the largest number for all users together.
const (
	MaxFound      = 200
	MaxFoundOfAll = 480
)

// foundOnLabel is the largest number of outcomes that a session adds by itself for each user with
// names on the same [bpf.Label]. The limit prevents one user from taking all the room of a label.
const foundOnLabel = bpf.NamesPerLabel / 2

// A finder makes outcomes from the discoveries of a session, and fits their scales. The goroutine
// of the run passes it names and frames. The finder changes the configuration from a goroutine of
// its own, so that the run does not wait.
type finder struct {
	session *Session
	wake    chan struct{} // signals work to do; has a buffer of one

	spans atomic.Bool // names of spans have been discovered

	most int // names that become outcomes at once; 0: any number. Used by one goroutine

	mu      sync.Mutex
	names   []outcome.Discovery // names that will become outcomes
	notices []outcome.Notice

	// The lock of the session guards these.
	found     map[origin]*found // outcomes that were added
	dismissed map[origin]bool   // not added because the user removed them
	beyond    []string          // names of spans without outcomes for lack of room
}

// newFinder returns a finder. It also fits outcomes of the configuration that are built into the
// VM and have no scale of their own.
func newFinder(s *Session, c config.Config) *finder {
	f := &finder{session: s, wake: make(chan struct{}, 1), found: make(map[origin]*found), dismissed: make(map[origin]bool)}
	f.applied(config.Config{}, c)
	return f
}

// A findingSource is a source that passes its discoveries to a finder.
type findingSource struct {
	*outcome.Joint
	finder *finder
}

// Watch implements [outcome.Source].
func (s *findingSource) Watch(ctx context.Context) []outcome.Notice {
	notices := s.Joint.Watch(ctx)
	return append(notices, s.finder.add(s.Discovered())...)
}

// add queues names that will become outcomes, and returns the notices so far.
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

// awake wakes the finder.
func (f *finder) awake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *finder) say(format string, args ...any) {
	f.tell(outcome.Notice{Text: fmt.Sprintf(format, args...)})
}

// tell adds a notice, with the present time.
func (f *finder) tell(n outcome.Notice) {
	n.Time = monotonic.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notices = append(f.notices, n)
}

// begin starts to make outcomes, until end is called.
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

// work applies the pending changes, and reports whether there may be more.
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
	case errors.Is(err, outcome.ErrLate): // try again later
		f.mu.Lock()
		defer f.mu.Unlock()
		f.names = append(f.names, e.names...)
		return false
	case errors.Is(err, bpf.ErrNoRoom) && f.fewer(e):
		return true
	}
	f.session.mu.Lock()
	defer f.session.mu.Unlock()
	f.giveUp(e, err)
	return true
}

// fewer queues the names of an edit again, for which there is no room, and halves the number that become outcomes
// at once. It returns false if that was one: then there is no room for any of those that are queued.
func (f *finder) fewer(e *edit) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.most = len(e.names) / 2
	if f.most == 0 {
		e.names, f.names = append(e.names, f.names...), nil
		return false
	}
	f.names = append(e.names, f.names...)
	return true
}

// An edit is a change that a finder makes to a configuration.
type edit struct {
	config config.Config
	names  []outcome.Discovery // names of spans that become outcomes
	fitted []*fit
}

// next takes the names that become outcomes next out of the queue.
func (f *finder) next() []outcome.Discovery {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.names)
	if f.most > 0 {
		n = min(n, f.most)
	}
	names := f.names[:n:n]
	f.names = f.names[n:]
	return names
}

// edit adds outcomes for the queued names, and fits scales.
func (f *finder) edit(now config.Config) *edit {
	e := &edit{config: now}
	names := f.next()
	var beyond []outcome.Discovery
	room := f.room()
	for _, d := range names {
		at := origin{span: d.Name}
		if f.dismissed[at] {
			continue
		}
		with, err := at.with(e.config, autorange.Start(now.Base))
		if errors.Is(err, config.ErrObserved) {
			continue
		}
		if !room.has(d) {
			beyond = append(beyond, d)
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

// settle records that an edit is in force.
func (f *finder) settle(e *edit) {
	if len(e.names) > 0 {
		f.tell(outcome.Notice{Kind: outcome.DiscoveredNotice, Text: "discovered: " + listed(namesOf(e.names))})
	}
	for _, d := range e.names {
		f.found[origin{span: d.Name}] = &found{user: d.User}
	}
	for _, fit := range e.fitted {
		fit.settle()
		f.tell(outcome.Notice{Kind: outcome.FittedNotice, Outcome: fit.called(), Text: fit.String() + fit.outdated()})
	}
}

// giveUp records that an edit failed, so that it is not tried again.
func (f *finder) giveUp(e *edit, err error) {
	if len(e.names) > 0 {
		f.say("%s cannot be observed: %v", listed(namesOf(e.names)), err)
	}
	for _, fit := range e.fitted {
		fit.fixed = true
		f.say("%s keeps its scale: %v", fit.outcome, err)
	}
}

// listed lists the first few names for a notice, with long ones shortened.
func listed(names []string) string {
	const most = 10
	var quoted []string
	for _, name := range names[:min(len(names), most)] {
		quoted = append(quoted, fmt.Sprintf("%q", figures.ShortName(name)))
	}
	text := strings.Join(quoted, ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

// rebase returns c, which was derived from base, with what was discovered and fitted since base
// was in force.
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

// withFound returns the configuration with a discovered outcome, unless it has an outcome with
// this origin. It may have another outcome with the same name.
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

// applied records which outcomes a change removed, and whose scales it changed. The finder leaves
// these alone.
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
	for _, o := range after.Outcomes { // the user added it without choosing a scale
		if at := originOf(o); at.builtin != "" && f.found[at] == nil && outcomeAt(before, at) == nil && unscaled(o) {
			f.found[at] = &found{}
		}
	}
}

// unscaled reports whether an outcome that is built into the VM has the default scale and no
// requirement.
func unscaled(o config.Outcome) bool {
	scale, ok := config.BuiltinScale(o.VM.Builtin)
	scale.Fitted = o.Scale.Fitted
	return ok && o.Scale == scale && o.QTA == nil
}

// sameGrid reports whether an outcome has the same grid in two configurations.
func sameGrid(a config.Outcome, inA config.Config, b config.Outcome, inB config.Config) bool {
	g, errA := a.Scale.Grid(inA.Base)
	h, errB := b.Scale.Grid(inB.Base)
	return errA == nil && errB == nil && g == h
}

// Configured implements [scope.Observer].
func (f *finder) Configured(*scope.System, outcome.Plan) error { return nil }

// Noticed implements [scope.Observer].
func (f *finder) Noticed(outcome.Notice) error { return nil }
