package dashboard

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// Limits of what a store keeps.
const (
	maxFrames = 600
	maxBytes  = 64 << 20
	maxEvents = 500
	maxTrail  = 240 // windows
)

// An outcomeKey identifies an outcome in a VM.
type outcomeKey struct {
	name string
	vm   outcome.VM
}

func keyOf(p *scope.Outcome) outcomeKey { return outcomeKey{p.Name, p.VM} }

// A point is the entry of a window in the trail of an outcome. Unknown values are NaN. A quantile in
// the intangible mass is infinite.
type point struct {
	number         uint64
	rate, p50, p99 float64 // instances a second, seconds
}

// An event is a notice, or a trigger that fired.
type event struct {
	notice outcome.Notice // has no text if a trigger fired
	fired  scope.Firing
	frame  uint64 // number of the window
	clock  int64  // end of the window in nanoseconds of wall time since 1970; 0 for a notice, which has its own time
}

// A store keeps the last frames of a scope. The goroutine of the scope fills it and never waits.
// The goroutine of the terminal reads it. The frames are copies that nothing modifies.
type store struct {
	changed chan struct{} // signals news; has a buffer of one
	most    int           // limit on the number of frames

	mu       sync.Mutex
	system   *scope.System
	plan     outcome.Plan // the current plan, or the one in force when this was recorded
	explains bool         // this plan or an earlier one explains instances
	kept     []kept       // the oldest first
	total    int          // bytes of all frames
	trails   map[outcomeKey][]point
	events   []event
	added    uint64 // number of events ever added
	sum      tally  // over all windows
}

// A kept is a stored frame with the system from which it was made.
type kept struct {
	frame  *scope.Frame
	system *scope.System
	bytes  int
}

func newStore() *store {
	return &store{changed: make(chan struct{}, 1), most: maxFrames, trails: make(map[outcomeKey][]point)}
}

// Configured implements [scope.Observer].
func (s *store) Configured(system *scope.System, plan outcome.Plan) error {
	s.mu.Lock()
	s.system, s.plan = system, plan
	s.explains = s.explains || slices.ContainsFunc(plan.Specs, func(spec outcome.Spec) bool { return spec.Explain })
	s.mu.Unlock()
	s.signal()
	return nil
}

// Framed implements [scope.Observer].
func (s *store) Framed(_ *outcome.Batch, f *scope.Frame) error {
	c, size := f.Clone(), sizeOf(f)
	s.mu.Lock()
	if n := len(s.kept); n > 0 && c.Number <= s.kept[n-1].frame.Number {
		s.kept, s.total, s.events = nil, 0, nil // a recording is played again
		clear(s.trails)
		s.sum = tally{}
	}
	s.kept, s.total = append(s.kept, kept{c, s.system, size}), s.total+size
	for len(s.kept) > 1 && (len(s.kept) > s.most || s.total > maxBytes) {
		s.total -= s.kept[0].bytes
		s.kept = slices.Delete(s.kept, 0, 1)
	}
	s.sum.add(c)
	s.follow(c)
	for _, x := range c.Fired {
		s.add(event{fired: x, frame: c.Number, clock: c.Time.UnixNano()})
	}
	for _, n := range c.Notices {
		s.add(event{notice: n, frame: c.Number, clock: c.Time.UnixNano()})
	}
	s.mu.Unlock()
	s.signal()
	return nil
}

// Noticed implements [scope.Observer].
func (s *store) Noticed(n outcome.Notice) error {
	s.mu.Lock()
	s.add(event{notice: n})
	s.mu.Unlock()
	s.signal()
	return nil
}

func (s *store) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *store) add(e event) {
	s.events = append(s.events, e)
	s.added++
	if n := len(s.events) - maxEvents; n > 0 {
		s.events = slices.Delete(s.events, 0, n)
	}
}

// follow adds a frame to the trails of its outcomes, and drops trails that have had no frame for
// long.
func (s *store) follow(f *scope.Frame) {
	for i := range f.Outcomes {
		p := &f.Outcomes[i]
		t := append(s.trails[keyOf(p)], pointOf(p, f.Number))
		if n := len(t) - maxTrail; n > 0 {
			t = slices.Delete(t, 0, n)
		}
		s.trails[keyOf(p)] = t
	}
	for key, t := range s.trails {
		if f.Number-t[len(t)-1].number > maxTrail {
			delete(s.trails, key)
		}
	}
}

func pointOf(p *scope.Outcome, number uint64) point {
	x := point{number: number, rate: math.NaN(), p50: math.NaN(), p99: math.NaN()}
	if p.Counts.Unobserved {
		return x
	}
	x.rate = p.Rate()
	x.p50, x.p99 = seconds(p, 0.5), seconds(p, 0.99)
	return x
}

func seconds(p *scope.Outcome, quantile float64) float64 {
	d, ok := p.Observed.QuantileFigure(quantile)
	switch {
	case p.Observed.Empty():
		return math.NaN()
	case !ok:
		return math.Inf(1)
	}
	return d.Seconds()
}

// sizeOf estimates the bytes that a copy of a frame takes.
func sizeOf(f *scope.Frame) int {
	n := 1024
	for i := range f.Outcomes {
		p := &f.Outcomes[i]
		curves := len(p.Mean.Band.Mean) + len(p.CalculatedMean.Band.Mean)
		n += 1024 + 8*(2*p.Spec.Bins+3*curves) + 128*len(p.Instances)
		for j := range p.Instances {
			if t := p.Instances[j].Trace; t != nil {
				n += 256 * len(t.Spans)
			}
		}
		for j := range p.Counts.Groups {
			n += 128 + 4*len(p.Counts.Groups[j].Delays)
		}
		if p.Calculated != nil {
			n += 16 * p.Calculated.Bins()
		}
	}
	return n
}

// System returns the current system of the scope; nil before it has begun.
func (s *store) System() *scope.System {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.system
}

// Explains reports whether instances of an outcome are explained, or were explained in the
// recording.
func (s *store) Explains(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.plan.Specs, func(spec outcome.Spec) bool { return spec.Name == name && spec.Explain })
}

// Explaining reports whether instances of any outcome are explained, or were explained before.
func (s *store) Explaining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.explains
}

// Last returns the newest frame, nil if there is none.
func (s *store) Last() *scope.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.numbered(math.MaxUint64).frame
}

// Frame returns the frame with a number, the oldest one if that has gone, and the newest one if it
// has not come. It is nil if there is no frame.
func (s *store) Frame(number uint64) *scope.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.numbered(number).frame
}

// SystemOf returns the system of the frame with a number.
func (s *store) SystemOf(number uint64) *scope.System {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.numbered(number).system
}

// numbered returns the stored frame with a number, or else the oldest or the newest one. The
// caller holds the lock.
func (s *store) numbered(number uint64) kept {
	if len(s.kept) == 0 {
		return kept{}
	}
	i, _ := slices.BinarySearchFunc(s.kept, number, func(k kept, n uint64) int { return cmp.Compare(k.frame.Number, n) })
	return s.kept[min(i, len(s.kept)-1)]
}

// Range returns the numbers of the oldest and the newest frame; false if there is none.
func (s *store) Range() (first, last uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) == 0 {
		return 0, 0, false
	}
	return s.kept[0].frame.Number, s.kept[len(s.kept)-1].frame.Number, true
}

// Trail returns the kept values of an outcome up to a window, the oldest first.
func (s *store) Trail(key outcomeKey, to uint64) []point {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.trails[key]
	for len(t) > 0 && t[len(t)-1].number > to {
		t = t[:len(t)-1]
	}
	return slices.Clone(t)
}

// EventsSince returns the events after the first n, as far as they are still kept, and the number
// of all events so far.
func (s *store) EventsSince(n uint64) ([]event, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := min(s.added-n, uint64(len(s.events)))
	return slices.Clone(s.events[uint64(len(s.events))-fresh:]), s.added
}

// Events returns messages and firings, the oldest first.
func (s *store) Events() []event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// Sum returns the cost and the loss of all windows.
func (s *store) Sum() tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum
}

// outcomeOf returns an outcome of a frame, or nil.
func outcomeOf(f *scope.Frame, key outcomeKey) *scope.Outcome {
	if f == nil {
		return nil
	}
	for i := range f.Outcomes {
		if keyOf(&f.Outcomes[i]) == key {
			return &f.Outcomes[i]
		}
	}
	return nil
}
