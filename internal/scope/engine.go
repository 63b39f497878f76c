package scope

import (
	"cmp"
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

	number  uint64
	frame   Frame
	rows    map[seriesKey]int // of the frame's probes
	vms     []outcome.VM      // of the calculation, see evaluate
	notices []string          // for the next frame

	// What the diagram is evaluated for at the moment.
	vm     outcome.VM
	lookup func(name string) *dq.DeltaQ
}

type seriesKey struct {
	name string
	vm   outcome.VM
}

// A part is something that the diagram calculates.
type part struct {
	behind []string      // the outcomes that it is calculated from
	width  time.Duration // of their widest bins
}

// NewEngine returns an engine for a system.
func NewEngine(s *System) (*Engine, error) {
	e := &Engine{series: make(map[seriesKey]*series), rows: make(map[seriesKey]int)}
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
		p := part{behind: program.Behind(name)}
		for _, leaf := range p.behind {
			i, ok := byName[leaf]
			if !ok {
				return nil, fmt.Errorf("the diagram's outcome %s is no probe of the system", leaf)
			}
			p.width = max(p.width, s.Probes[i].Spec.BinWidth)
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
	for key, s := range e.series {
		i, ok := e.byName[key.name]
		if !ok {
			delete(e.series, key)
			continue
		}
		p := &e.system.Probes[i]
		if same := sameObservation(s.probe.Spec, p.Spec); fresh || !same {
			if !same {
				e.note("%s: %d bins of %v instead of %d of %v: a new history begins", key.name,
					p.Spec.Bins, p.Spec.BinWidth, s.probe.Spec.Bins, s.probe.Spec.BinWidth)
			}
			incidents := s.incidents
			n, err := newSeries(p, e.system.History)
			if err != nil {
				return err
			}
			n.incidents = incidents
			s = n
			e.series[key] = s
		} else if redrawn {
			s.calculated = nil
		}
		s.probe = p
		s.watch(p.Triggers)
	}
	e.dropCalculated(before)
	return nil
}

// dropCalculated begins the calculated histories of what has an outcome behind it
// whose bins have changed.
func (e *Engine) dropCalculated(before *System) {
	changed := make(map[string]bool)
	for _, p := range before.Probes {
		if i, ok := e.byName[p.Spec.Name]; ok {
			changed[p.Spec.Name] = !sameObservation(p.Spec, e.system.Probes[i].Spec)
		}
	}
	for key, s := range e.series {
		if slices.ContainsFunc(e.composed[key.name].behind, func(leaf string) bool { return changed[leaf] }) {
			s.calculated = nil
		}
	}
}

// sameObservation tells whether two specs observe the same; their detail does not
// matter.
func sameObservation(a, b outcome.Spec) bool {
	a.Detail = b.Detail
	return a == b
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
		f.Fired = e.series[seriesKey{p.Name, p.VM}].trigger(p, e.system.HoldOff, f.Fired)
	}
	return f, nil
}

// observe makes the frame's rows: one for each probe and VM.
func (e *Engine) observe(f *Frame, b *outcome.Batch) error {
	for _, s := range e.series {
		s.used = false
	}
	clear(e.rows)
	rows := f.Probes[:0]
	for i := range e.system.Probes {
		p := &e.system.Probes[i]
		first := len(rows)
		for j := range b.Counts {
			if b.Counts[j].Outcome == p.Spec.Name {
				rows = append(rows, reuse(rows, p, b.Window, b.Counts[j]))
			}
		}
		if len(rows) == first {
			rows = append(rows, reuse(rows, p, b.Window, outcome.Counts{Outcome: p.Spec.Name}))
		}
	}
	f.Probes = rows
	for i := range rows {
		if err := e.observeProbe(&rows[i]); err != nil {
			return fmt.Errorf("probe %s: %w", rows[i].Name, err)
		}
		e.rows[seriesKey{rows[i].Name, rows[i].VM}] = i
	}
	for key, s := range e.series {
		if !s.used {
			delete(e.series, key)
		}
	}
	return nil
}

// reuse returns a new row with the memory of the one that was in its place.
func reuse(rows []Probe, p *ProbeSystem, w outcome.Window, c outcome.Counts) Probe {
	row := Probe{Name: p.Spec.Name, VM: c.VM, Window: w, Spec: p.Spec, Counts: c}
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
	s.used = true
	s.instances = s.instances[:0]
	return s.observe(p, e.frame.Number, e.system.Samples, e.system.Z)
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

// distribute gives each probe its instances, worst first.
func (e *Engine) distribute(instances []outcome.Instance) {
	for _, i := range instances {
		if s, ok := e.series[seriesKey{i.Outcome, i.VM}]; ok {
			s.instances = append(s.instances, i)
		}
	}
	for i := range e.frame.Probes {
		p := &e.frame.Probes[i]
		s := e.series[seriesKey{p.Name, p.VM}]
		slices.SortStableFunc(s.instances, worstFirst)
		p.Instances = s.instances
	}
}

// worstFirst puts timeouts before failures before successes, and the slowest of
// each first.
func worstFirst(a, b outcome.Instance) int {
	return cmp.Or(cmp.Compare(b.Status, a.Status), cmp.Compare(b.Elapsed(), a.Elapsed()), cmp.Compare(a.ID, b.ID))
}
