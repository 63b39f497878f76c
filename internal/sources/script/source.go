package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/intake"
)

const (
	// reorder is how late a line may come, in the script's time.
	reorder = int64(500 * time.Millisecond)

	// foreign is the largest age of the first time for which the clock can be ours. A line takes
	// at most that long to arrive.
	foreign = int64(10 * time.Second)

	// maxAhead is how far an event may be ahead of the last time. It also applies to a time, unless
	// a second time confirms it.
	maxAhead = 10 * time.Second

	// patience is how long Collect waits for the script's time to advance.
	patience = 2 * time.Second

	// maxWaiting limits the number of records that wait to be sorted, and maxWaitingBytes the
	// length of their texts.
	maxWaiting      = 1 << 19
	maxWaitingBytes = 1 << 26
)

var errClosed = fmt.Errorf("closed: %w", outcome.ErrEnded)

// A Config describes a [Source].
type Config struct {
	// Text is the output of a script. The source closes it, which must end a blocked Read.
	Text io.ReadCloser

	// Recorded means that the text is from another time, for example from a file.
	Recorded bool

	// Plan is the first plan. Specs without VM never get events; those with VM must pass [Check].
	Plan outcome.Plan
}

// A Source pairs the events in the output of a script.
type Source struct {
	cfg     Config
	now     func() int64
	chunks  chan chunk
	quit    chan struct{}
	reading sync.WaitGroup
	closed  bool

	begun  bool
	first  int64 // the first time in the text
	offset int64 // difference between our clock and that of the script
	beat   int64 // the last time that the script reported
	latest int64 // the latest time of all lines
	leap   int64 // the last reported time if that was too far ahead, and 0 otherwise
	ended  error // nil while there is more to read

	waiting waiting
	done    int64 // everything before it is counted
	eras    []*era
	accounts
}

var _ outcome.Source = (*Source)(nil)

// New returns a source that reads a text. An error wraps [ErrPlan] if the plan contains something
// that a script cannot observe. After an error New does not close the text. Otherwise the caller
// closes the source.
func New(cfg Config) (*Source, error) { return newSource(cfg, monotonic.Now) }

func newSource(cfg Config, now func() int64) (*Source, error) {
	s := &Source{
		cfg:      cfg,
		now:      now,
		chunks:   make(chan chunk, maxChunks),
		quit:     make(chan struct{}),
		beat:     math.MinInt64,
		latest:   math.MinInt64,
		done:     math.MinInt64,
		accounts: newAccounts(cfg.Plan.From, now),
	}
	first, err := newEra(cfg.Plan, s.room)
	if err != nil {
		return nil, err
	}
	s.eras = []*era{first}
	r := &reader{now: now, lines: intake.NewSplitter(maxLine)}
	s.reading.Go(func() { r.read(cfg.Text, s.chunks, s.quit) })
	return s, nil
}

// Plan implements [outcome.Source]. The error wraps [ErrPlan].
func (s *Source) Plan(_ context.Context, p outcome.Plan) error {
	if s.closed {
		return errClosed
	}
	if p.From < max(s.done, s.next) {
		return fmt.Errorf("%w: events after its beginning are counted", outcome.ErrLate)
	}
	before := s.eras
	if n := len(before) - 1; n > 0 && before[n].From >= p.From { // that plan has not begun
		before = before[:n]
	}
	last := before[len(before)-1]
	if last.At(last.Number(p.From)).From != p.From {
		return fmt.Errorf("%w: it begins within a window", ErrPlan)
	}
	next, err := newEra(p, s.room)
	if err != nil {
		return err
	}
	was := s.eraAt(s.done)
	s.eras = append(slices.Clip(before), next)
	if s.eraAt(s.done) == next { // settle has already reached its beginning
		s.turn(was, next)
	}
	s.disown(next)
	return nil
}

// Collect implements [outcome.Source].
func (s *Source) Collect(ctx context.Context, w outcome.Window) (outcome.Batch, error) {
	if s.closed {
		return outcome.Batch{}, errClosed
	}
	e := s.eraAt(w.From)
	if w.From != s.next || e.At(e.Number(w.From)) != w {
		return outcome.Batch{}, fmt.Errorf("%+v is not the window that follows %d", w, s.next)
	}
	s.await(ctx, w)
	if s.ended != nil && !errors.Is(s.ended, outcome.ErrEnded) {
		return outcome.Batch{}, s.ended
	}
	// At the end of the text, open instances are given up just after the last time.
	over := s.ended != nil && s.latest+1 < w.To
	if over && s.latest+1 < w.From {
		return outcome.Batch{}, s.ended
	}
	unobserved := !s.begun || w.From < s.first || !over && s.done < w.To
	if unobserved && s.begun && w.From >= s.first {
		s.notices.Add("the script has printed no time for a while: is it still running?")
	}
	batch := outcome.Batch{Window: w, Time: monotonic.Wall(w.To), Rejected: s.rejected.Take()}
	s.collect(&batch, e, unobserved)
	s.trim()
	if over {
		return batch, s.ended
	}
	return batch, nil
}

// trim drops eras that are over for both windows and events. A silent script may be far behind
// the windows, and then settle has not turned from its era yet. Before the script has begun there
// are no events to consider.
func (s *Source) trim() {
	over := s.next
	if s.begun {
		over = min(over, s.done)
	}
	for len(s.eras) > 1 && s.eras[1].From <= over {
		s.eras = s.eras[1:]
	}
}

// await processes input until a window is over in the script's time too, or until a time limit.
// It does not wait for a live script that has not begun.
func (s *Source) await(ctx context.Context, w outcome.Window) {
	s.pump(w.To)
	limit := w.To + int64(w.Duration()) + int64(patience)
	timer := time.NewTimer(time.Duration(limit - s.now()))
	defer timer.Stop()
	for s.done < w.To && s.ended == nil && (s.begun || s.cfg.Recorded) {
		select {
		case c := <-s.chunks:
			s.take(c)
			s.pump(w.To)
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// pump processes the waiting input, up to the present or to the end of a window that is over.
// Later input stays unread, so that its writer waits too.
func (s *Source) pump(over int64) {
	horizon := max(s.now(), over)
	for s.ended == nil && s.beat < horizon+reorder {
		select {
		case c := <-s.chunks:
			s.take(c)
			continue
		default:
		}
		break
	}
	if !s.begun {
		return
	}
	if s.ended == nil {
		s.settle(min(s.beat-reorder, horizon))
		return
	}
	if s.settle(min(s.latest+1, horizon)); s.done > s.latest {
		s.giveUp(s.eraAt(s.done), s.done)
	}
}

// take processes a chunk.
func (s *Source) take(c chunk) {
	for _, r := range c.records {
		if !s.begun && (r.kind == beat || r.kind == event) {
			s.begin(r.event.Time, c.at)
		}
		s.enter(r)
	}
	if c.err != nil {
		s.ended = c.err
	}
}

// enter queues a record.
func (s *Source) enter(r record) {
	switch r.kind {
	case beat:
		s.enterBeat(r)
	case event:
		s.enterEvent(r)
	case lost:
		s.notices.Add("the tracer dropped %d lines for lack of space", r.count)
		s.doubt("", r)
	case rejected:
		s.reject(r.text, r.err)
		if r.outcome != "" {
			s.doubt(r.outcome, r)
		}
	}
}

// enterBeat processes a time. One bad line must not make all later lines late. So a time far
// ahead counts only if the previous time was also far ahead and is not later.
func (s *Source) enterBeat(r record) {
	at := s.ours(r.event.Time)
	if at > s.beat+int64(maxAhead) && (s.leap == 0 || at < s.leap) {
		s.leap = at
		s.enter(reject(r, fmt.Sprintf("t %d", r.event.Time), errLeap))
		return
	}
	s.leap = 0
	s.beat = max(s.beat, at)
	s.latest = max(s.latest, at)
}

func (s *Source) enterEvent(r record) {
	at := s.ours(r.event.Time)
	switch {
	case at > s.beat+int64(maxAhead):
		r = reject(r, fmt.Sprintf("%s %d", r.outcome, r.event.Time), errAhead)
		s.enter(r)
		return
	case at < s.done:
		s.late(s.eraAt(s.done), r, at)
		return
	}
	s.latest = max(s.latest, at)
	s.wait(at, r)
}

// wait queues a record. If there is no room for more, the first ones are processed early.
func (s *Source) wait(at int64, r record) {
	s.waiting.push(at, r)
	for s.waiting.len() > maxWaiting || s.waiting.bytes > maxWaitingBytes {
		s.settle(s.waiting.first() + 1)
	}
}

// doubt records that lines of an outcome are missing, or lines of any outcome if name is "". The
// ends of instances that started up to now may be among them.
func (s *Source) doubt(name string, r record) {
	for _, e := range s.eras {
		for _, c := range e.courses {
			if name == "" || c.spec.Name == name {
				c.doubt = max(c.doubt, s.latest)
			}
		}
	}
	s.wait(max(s.latest, s.done), r)
}

// begin sets the difference between the script's clock and ours from the script's first time,
// which was read at now.
func (s *Source) begin(t, now int64) {
	s.begun = true
	switch {
	case s.cfg.Recorded:
		s.offset = s.next - t
	case t < now-foreign || t > now:
		s.offset = max(now, s.next) - t
		s.notices.Add("the script's clock is not that of this machine: beamscope treats the script as if it began now")
	}
	s.first = s.ours(t)
	s.beat = s.first
}

// ours converts a time of the script to our clock.
func (s *Source) ours(t int64) int64 { return t + s.offset }

// settle processes everything before a time.
func (s *Source) settle(to int64) {
	for s.done < to {
		e := s.eraAt(s.done)
		until := to
		for _, other := range s.eras {
			if other.From > s.done {
				until = min(until, other.From)
			}
		}
		for s.waiting.len() > 0 && s.waiting.first() < until {
			s.account(e, s.waiting.pop())
		}
		s.advance(e, until)
		s.done = until
		if next := s.eraAt(until); next != e {
			s.turn(e, next)
		}
	}
}

// eraAt returns the era of a time, or the first era for earlier times.
func (s *Source) eraAt(t int64) *era {
	found := s.eras[0]
	for _, e := range s.eras {
		if e.From <= t {
			found = e
		}
	}
	return found
}

// Watch implements [outcome.Source].
func (s *Source) Watch(context.Context) []outcome.Notice {
	if !s.closed {
		s.pump(math.MinInt64)
	}
	return s.takeNotices()
}

// Close closes the text. It may be called again.
func (s *Source) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.quit)
	err := s.cfg.Text.Close()
	s.reading.Wait()
	return err
}
