package scope

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/outcome"
)

// An Engine turns batches into frames. It knows no clock and no source: the same
// systems and batches give the same frames, bit for bit. It is not safe for use by
// several goroutines at once.
type Engine struct {
	system   *System
	byName   map[string]int  // probes of the system
	composed map[string]part // what the diagram calculates
	series   map[seriesKey]*series
	programs map[outcome.VM]*diagram.Program

	number   uint64
	frame    Frame
	rows     map[seriesKey]int   // of the frame's probes
	vms      []outcome.VM        // of the calculation, see calculate
	counted  []outcome.VM        // that the batch has counts of
	known    map[outcome.VM]bool // the same, to look up
	countsOf map[string][]int    // indices of the batch's counts, by outcome
	rowsOf   map[string][]int    // indices of the frame's probes, by name
	omitted  int                 // rows that had no room in the last frame
	notices  []string            // for the next frame

	// What the diagram is evaluated for at the moment.
	vm     outcome.VM
	lookup func(name string) *dq.DeltaQ
}

// ErrWindow says that a window ends before it begins.
var ErrWindow = errors.New("not a window")

type seriesKey struct {
	name string
	vm   outcome.VM
}

// A part is something that the diagram calculates.
type part struct {
	behind []string      // the outcomes that it is calculated from
	shares []float64     // with which these take part
	uses   []diagram.Use // how
	width  time.Duration // of their widest bins
}

// NewEngine returns an engine for a system.
func NewEngine(s *System) (*Engine, error) {
	e := &Engine{
		series: make(map[seriesKey]*series),
		rows:   make(map[seriesKey]int),
		known:  make(map[outcome.VM]bool),
	}
	e.lookup = e.deltaQ
	if err := e.Configure(s); err != nil {
		return nil, err
	}
	e.notices = nil
	return e, nil
}

// StartAt has the next frame be of this number. It is for replaying windows that were
// not the first.
func (e *Engine) StartAt(number uint64) { e.number = number }

// System returns the system that the next batch is for.
func (e *Engine) System() *System { return e.system }

// Configure has the batches from now on be those of another system. What stays the
// same keeps its history; what does not begins a new one, and the next frame says
// so. On an error everything is as it was.
func (e *Engine) Configure(s *System) error {
	byName := make(map[string]int)
	for i, p := range s.Probes {
		if _, err := p.Grid(); err != nil {
			return fmt.Errorf("probe %s: %w", p.Spec.Name, err)
		}
		byName[p.Spec.Name] = i
	}
	composed, err := compose(s, byName)
	if err != nil {
		return err
	}
	before := e.system
	e.system, e.byName, e.composed = s, byName, composed
	e.countsOf, e.rowsOf = make(map[string][]int), make(map[string][]int)
	e.programs = make(map[outcome.VM]*diagram.Program)
	if before != nil {
		return e.carryOver(before)
	}
	return nil
}

// compose returns what a system's diagram calculates, by name.
func compose(s *System, byName map[string]int) (map[string]part, error) {
	if s.Diagram == nil {
		return nil, nil
	}
	program, err := diagram.Compile(s.Diagram)
	if err != nil {
		return nil, err
	}
	composed := make(map[string]part)
	for _, name := range program.Names() {
		p := part{behind: program.Behind(name), uses: program.Uses(name)}
		for _, leaf := range p.behind {
			i, ok := byName[leaf]
			if !ok {
				return nil, fmt.Errorf("the diagram's outcome %s is no probe of the system", leaf)
			}
			p.width = max(p.width, s.Probes[i].Spec.BinWidth)
			p.shares = append(p.shares, program.Share(name, leaf))
		}
		composed[name] = p
	}
	return composed, nil
}

// carryOver brings the series over from the system before.
func (e *Engine) carryOver(before *System) error {
	if before.Window != e.system.Window {
		e.note("windows of %v instead of %v: every history begins anew", e.system.Window, before.Window)
	}
	if before.History != e.system.History {
		e.note("a history of %d windows instead of %d: every history begins anew", e.system.History, before.History)
	}
	redrawn := formatted(before.Diagram) != formatted(e.system.Diagram)
	if redrawn {
		e.note("another diagram: every calculated history begins anew")
	}
	fresh := before.Window != e.system.Window || before.History != e.system.History
	changed := e.changed(before)
	for key, s := range e.series {
		i, ok := e.byName[key.name]
		if !ok {
			delete(e.series, key)
			continue
		}
		p := &e.system.Probes[i]
		if fresh || changed[key.name] {
			n, err := newSeries(p, e.system.History)
			if err != nil {
				return err
			}
			n.incidents, n.seen = s.incidents, s.seen
			if sameEvents(s.probe.Spec, p.Spec) {
				n.silent, n.lively = s.silent, s.lively
			}
			s = n
			e.series[key] = s
		}
		if redrawn || slices.ContainsFunc(e.composed[key.name].behind, func(leaf string) bool { return changed[leaf] }) {
			s.calculated = nil
		}
		s.probe = p
		s.watch(p.Triggers)
	}
	return nil
}

// changed returns the probes that are observed in another way than before, and notes
// which these are.
func (e *Engine) changed(before *System) map[string]bool {
	was := make(map[string]outcome.Spec)
	for _, p := range before.Probes {
		was[p.Spec.Name] = p.Spec
	}
	changed := make(map[string]bool)
	for _, p := range e.system.Probes {
		now := p.Spec
		old, ok := was[now.Name]
		if !ok || sameObservation(old, now) {
			continue
		}
		changed[now.Name] = true
		if old.BinWidth != now.BinWidth || old.Bins != now.Bins {
			e.note("%s: %d bins of %v instead of %d of %v: a new history begins", now.Name, now.Bins, now.BinWidth, old.Bins, old.BinWidth)
		} else {
			e.note("%s is observed in another way: a new history begins", now.Name)
		}
	}
	return changed
}

// sameObservation tells whether two specs observe the same; their detail does not
// matter, nor what their instances are grouped by besides, nor whether they are explained.
func sameObservation(a, b outcome.Spec) bool {
	a.Detail, a.Group, a.Explain = b.Detail, b.Group, b.Explain
	return a == b
}

// sameEvents tells whether two specs are of the same events, however they are counted.
func sameEvents(a, b outcome.Spec) bool {
	return a.Span == b.Span && a.Wrapper == b.Wrapper && a.VM == b.VM
}

func formatted(f *diagram.File) string {
	if f == nil {
		return ""
	}
	return diagram.Format(f)
}

func (e *Engine) note(format string, args ...any) {
	e.notices = append(e.notices, fmt.Sprintf(format, args...))
}

// Step makes the frame of the next window. What the batch and the frame refer to is
// shared: both hold until the next call.
func (e *Engine) Step(b *outcome.Batch) (*Frame, error) {
	if b.Window.To <= b.Window.From {
		return nil, fmt.Errorf("%w: from %d to %d ns", ErrWindow, b.Window.From, b.Window.To)
	}
	f := &e.frame
	f.Number, f.Window, f.Time = e.number, b.Window, b.Time
	f.Rejected, f.Cost = b.Rejected, b.Cost
	f.Fired = f.Fired[:0]
	f.Notices = append(f.Notices[:0], e.notices...)
	e.notices = e.notices[:0]
	e.number++

	if err := e.observe(f, b); err != nil {
		return nil, err
	}
	e.distribute(b.Instances)
	if err := e.calculate(f); err != nil {
		return nil, err
	}
	for i := range f.Probes {
		p := &f.Probes[i]
		s := e.series[seriesKey{p.Name, p.VM}]
		before := len(f.Fired)
		f.Fired = s.trigger(p, e.system.HoldOff, f.Fired)
		if p.Explained != nil {
			s.explained.keep(f.Time, len(f.Fired) == before && len(p.Active) == 0)
		}
	}
	for i := range f.Fired {
		f.Fired[i].Explanation = e.explanation(&f.Fired[i])
	}
	return f, nil
}

// explanation says where the time went of the instances of the probe that a trigger fired
// at. Where none of these is explained, and the diagram calculates the probe, it is about
// the outcome behind it of which the slowest one is, and says so.
func (e *Engine) explanation(x *Firing) string {
	if at, ok := e.rows[seriesKey{x.Probe, x.VM}]; ok && e.frame.Probes[at].Explained != nil {
		return e.explainedBy(&e.frame.Probes[at])
	}
	var slowest *Probe
	var longest time.Duration
	for _, name := range e.composed[x.Probe].behind {
		at, ok := e.rows[seriesKey{name, x.VM}]
		if !ok || e.frame.Probes[at].Explained == nil {
			continue
		}
		for _, i := range e.frame.Probes[at].Instances {
			if i.Trace != nil && (slowest == nil || i.Elapsed() > longest) {
				slowest, longest = &e.frame.Probes[at], i.Elapsed()
			}
		}
	}
	if slowest == nil {
		return ""
	}
	return slowest.Name + ": " + e.explainedBy(slowest)
}

// explainedBy says where the time of a probe's instances went, and what has grown: what has
// settled, or else in this window alone, as a trigger has found this window unusual.
func (e *Engine) explainedBy(p *Probe) string {
	shift := p.Explained.Shift
	if shift == nil {
		shift = e.series[seriesKey{p.Name, p.VM}].explained.sudden
	}
	return p.explanation(shift)
}

// observe makes the frame's rows: one for each probe and VM. A probe of which nothing
// was counted, as of an operator that the recording's diagram did not have, has one for
// each VM of which anything was, and one of no VM only where there is none.
func (e *Engine) observe(f *Frame, b *outcome.Batch) error {
	e.index(b)
	clear(e.rows)
	empty(e.rowsOf)
	room := e.room()
	rows := f.Probes[:0]
	for i := range e.system.Probes {
		p := &e.system.Probes[i]
		name := p.Spec.Name
		for _, j := range e.countsOf[name] {
			if room.take(e, p, b.Counts[j].VM) {
				rows = append(rows, reuse(rows, p, b.Window, b.Counts[j]))
			}
		}
		if len(e.countsOf[name]) > 0 {
			continue
		}
		for _, vm := range e.counted {
			if room.take(e, p, vm) {
				rows = append(rows, reuse(rows, p, b.Window, outcome.Counts{Outcome: name, VM: vm}))
			}
		}
	}
	f.Probes = rows
	for i := range rows {
		if err := e.observeProbe(&rows[i]); err != nil {
			return fmt.Errorf("probe %s: %w", rows[i].Name, err)
		}
		e.rows[seriesKey{rows[i].Name, rows[i].VM}] = i
		e.rowsOf[rows[i].Name] = append(e.rowsOf[rows[i].Name], i)
	}
	if room.omitted != e.omitted {
		e.omitted = room.omitted
		f.Notices = append(f.Notices, room.notice())
	}
	e.forget(b.Window)
	return nil
}

// index sorts the counts of a batch by outcome, and notes the VMs that they are of.
func (e *Engine) index(b *outcome.Batch) {
	empty(e.countsOf)
	e.counted = e.counted[:0]
	clear(e.known)
	for i := range b.Counts {
		c := &b.Counts[i]
		if _, ok := e.byName[c.Outcome]; ok {
			e.countsOf[c.Outcome] = append(e.countsOf[c.Outcome], i)
		}
		if !e.known[c.VM] && len(e.counted) < MaxVMs {
			e.known[c.VM] = true
			e.counted = append(e.counted, c.VM)
		}
	}
	if len(e.counted) == 0 {
		e.known[outcome.VM{}] = true
		e.counted = append(e.counted, outcome.VM{})
	}
}

// empty empties the lists of a map and keeps their memory.
func empty(lists map[string][]int) {
	for name := range lists {
		lists[name] = lists[name][:0]
	}
}

// forget gives up what has had no row for so long that neither a history nor an
// incident has anything to do with what may come: a VM that was not reached for a
// window is the same one afterwards.
func (e *Engine) forget(w outcome.Window) {
	for key, s := range e.series {
		past := e.frame.Number-s.seen.number >= uint64(e.system.History) && w.To-s.seen.to > int64(e.system.HoldOff)
		if past {
			delete(e.series, key)
		}
	}
}

// reuse returns a new row with the memory of the one that was in its place.
func reuse(rows []Probe, p *ProbeSystem, w outcome.Window, c outcome.Counts) Probe {
	row := Probe{Name: p.Spec.Name, VM: c.VM, Window: w, Spec: p.Spec, Counts: c, Fitted: p.Fitted}
	if len(rows) < cap(rows) {
		old := &rows[:len(rows)+1][len(rows)]
		row.Mean.Band, row.CalculatedMean.Band = old.Mean.Band, old.CalculatedMean.Band
	}
	return row
}

func (e *Engine) observeProbe(p *Probe) error {
	s, err := e.seriesOf(p)
	if err != nil {
		return err
	}
	s.seen = sighting{e.frame.Number, p.Window.To}
	c := &p.Counts
	s.lively = s.lively || c.Starts+c.Ends+c.Instances()+c.Loss.Total() > 0
	p.Seen = s.lively
	s.listen(p)
	s.instances = s.instances[:0]
	return s.observe(p, e.frame.Number, e.system.Samples, e.system.Bounds)
}

func (e *Engine) seriesOf(p *Probe) (*series, error) {
	key := seriesKey{p.Name, p.VM}
	if s, ok := e.series[key]; ok {
		return s, nil
	}
	s, err := newSeries(&e.system.Probes[e.byName[p.Name]], e.system.History)
	if err != nil {
		return nil, err
	}
	e.series[key] = s
	return s, nil
}

// distribute gives each probe its instances, worst first, and where their time went.
func (e *Engine) distribute(instances []outcome.Instance) {
	for _, i := range instances {
		if _, ok := e.rows[seriesKey{i.Outcome, i.VM}]; ok {
			s := e.series[seriesKey{i.Outcome, i.VM}]
			s.instances = append(s.instances, i)
		}
	}
	for i := range e.frame.Probes {
		p := &e.frame.Probes[i]
		s := e.series[seriesKey{p.Name, p.VM}]
		slices.SortStableFunc(s.instances, func(a, b outcome.Instance) int { return a.CompareWorst(&b) })
		p.Instances = s.instances
		p.Explained = s.explained.explain(p.Instances, e.frame.Time)
	}
}
