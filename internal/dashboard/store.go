package dashboard

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// Bounds of what is kept to be looked at again.
const (
	maxFrames = 600
	maxBytes  = 64 << 20
	maxEvents = 500
	maxTrail  = 240 // windows
)

// A probeKey names a probe of a VM.
type probeKey struct {
	name string
	vm   outcome.VM
}

func keyOf(p *scope.Probe) probeKey { return probeKey{p.Name, p.VM} }

// A point is what the trail of a probe keeps of a window. What is not known is NaN, and
// a quantile in the intangible mass infinite.
type point struct {
	number         uint64
	rate, p50, p99 float64 // instances a second, seconds
}

// An event is something that was said, or that fired.
type event struct {
	notice outcome.Notice // without a text where something fired
	fired  scope.Firing
	frame  uint64 // number of the window
	clock  int64  // of it: nanoseconds of wall time since 1970, 0 where it is the notice's
}

// A store keeps the last frames of a scope. It is filled from the goroutine of the
// scope, which it never holds up, and read from that of the terminal. The frames are
// copies that nobody changes.
type store struct {
	changed chan struct{} // has room for one: something is new
	most    int           // frames that are kept

	mu       sync.Mutex
	system   *scope.System
	plan     outcome.Plan // what is observed, or was when it was recorded
	explains bool         // that plan, or one before, has instances explained
	kept     []kept       // the oldest first
	total    int          // bytes of all
	trails   map[probeKey][]point
	events   []event
	added    uint64 // events, ever
	sum      tally  // of all windows
}

// A kept frame is one of a store, with what it was made of.
type kept struct {
	frame  *scope.Frame
	system *scope.System
	bytes  int
}

func newStore() *store {
	return &store{changed: make(chan struct{}, 1), most: maxFrames, trails: make(map[probeKey][]point)}
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
		s.kept, s.total, s.events = nil, 0, nil // a recording that is played again
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
		s.add(event{notice: outcome.Notice{Text: n}, frame: c.Number, clock: c.Time.UnixNano()})
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

// follow adds a frame to the trails of its probes, and forgets those that have had
// none for long.
func (s *store) follow(f *scope.Frame) {
	for i := range f.Probes {
		p := &f.Probes[i]
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

func pointOf(p *scope.Probe, number uint64) point {
	x := point{number: number, rate: math.NaN(), p50: math.NaN(), p99: math.NaN()}
	if p.Counts.Unobserved {
		return x
	}
	x.rate = p.Rate()
	x.p50, x.p99 = seconds(p, 0.5), seconds(p, 0.99)
	return x
}

func seconds(p *scope.Probe, quantile float64) float64 {
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
	for i := range f.Probes {
		p := &f.Probes[i]
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

// System returns what the scope does now; nil before it has begun.
func (s *store) System() *scope.System {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.system
}

// Explains tells whether instances of an outcome are explained, or were when it was
// recorded.
func (s *store) Explains(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.plan.Specs, func(spec outcome.Spec) bool { return spec.Name == name && spec.Explain })
}

// Explaining tells whether instances of any outcome are explained, or were before.
func (s *store) Explaining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.explains
}

// Last returns the newest frame, nil where there is none.
func (s *store) Last() *scope.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.numbered(math.MaxUint64).frame
}

// Frame returns the frame of a number; the oldest where that has gone, and the newest
// where it has not come. It is nil where there is none.
func (s *store) Frame(number uint64) *scope.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.numbered(number).frame
}

// SystemOf returns the system that the frame of a number was made of.
func (s *store) SystemOf(number uint64) *scope.System {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.numbered(number).system
}

// numbered returns what is kept of a number, or else the oldest or the newest; under the
// lock.
func (s *store) numbered(number uint64) kept {
	if len(s.kept) == 0 {
		return kept{}
	}
	i, _ := slices.BinarySearchFunc(s.kept, number, func(k kept, n uint64) int { return cmp.Compare(k.frame.Number, n) })
	return s.kept[min(i, len(s.kept)-1)]
}

// Range returns the numbers of the oldest and the newest frame; false where there is
// none.
func (s *store) Range() (first, last uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) == 0 {
		return 0, 0, false
	}
	return s.kept[0].frame.Number, s.kept[len(s.kept)-1].frame.Number, true
}

// Trail returns what is kept of a probe up to a window, the oldest first.
func (s *store) Trail(key probeKey, to uint64) []point {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.trails[key]
	for len(t) > 0 && t[len(t)-1].number > to {
		t = t[:len(t)-1]
	}
	return slices.Clone(t)
}

// EventsSince returns those events that were added after the first so many, as far as
// they are still there, and how many there were ever.
func (s *store) EventsSince(n uint64) ([]event, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := min(s.added-n, uint64(len(s.events)))
	return slices.Clone(s.events[uint64(len(s.events))-fresh:]), s.added
}

// Events returns what was said and what fired, the oldest first.
func (s *store) Events() []event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// Sum returns what all windows cost, and what was lost in them.
func (s *store) Sum() tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum
}

// probeOf returns a probe of a frame, nil where it has none.
func probeOf(f *scope.Frame, key probeKey) *scope.Probe {
	if f == nil {
		return nil
	}
	for i := range f.Probes {
		if keyOf(&f.Probes[i]) == key {
			return &f.Probes[i]
		}
	}
	return nil
}
