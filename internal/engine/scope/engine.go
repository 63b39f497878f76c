package scope

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// An Engine turns batches into frames. It uses no clock and no source: the same systems and
// batches give the same frames, bit for bit. It must not be used by several goroutines at once.
type Engine struct {
	system   *System
	byName   map[string]int  // indexes of the system's outcomes by name
	composed map[string]part // names that the diagram calculates
	series   map[seriesKey]*series
	programs map[outcome.VM]*diagram.Program

	number   uint64
	frame    Frame
	rows     map[seriesKey]int      // indexes of the frame's outcomes
	vms      []outcome.VM           // VMs to calculate, see calculate
	counted  []outcome.VM           // VMs with counts in the batch
	known    map[outcome.VM]bool    // the same VMs as a set
	countsOf map[string][]int       // indexes of the batch's counts, by outcome
	rowsOf   map[string][]int       // indexes of the frame's outcomes, by name
	gone     map[string][]seriesKey // series without a row in the frame, by outcome
	goesOn   map[string]bool        // outcomes that have a row now in a VM that already had one
	claims   []claim                // of the rows of the frame
	omitted  int                    // rows without room in the last frame
	notices  []outcome.Notice       // notices for the next frame
	begun    bool                   // a window was observed, at least for some outcome

	// The VM that is being evaluated.
	vm     outcome.VM
	lookup func(name string) *dq.DeltaQ
}

// ErrWindow means that a window ends before it begins.
var ErrWindow = errors.New("not a window")

type seriesKey struct {
	name string
	vm   outcome.VM
}

// A part is a name that the diagram calculates.
type part struct {
	behind []string      // the outcomes from which it is calculated
	shares []float64     // their shares
	uses   []diagram.Use // how they are used
	width  time.Duration // width of their widest bins
}

// NewEngine returns an engine for a system.
func NewEngine(s *System) (*Engine, error) {
	e := &Engine{
		series: make(map[seriesKey]*series),
		rows:   make(map[seriesKey]int),
		known:  make(map[outcome.VM]bool),
		gone:   make(map[string][]seriesKey),
		goesOn: make(map[string]bool),
	}
	e.lookup = e.deltaQ
	if err := e.Configure(s); err != nil {
		return nil, err
	}
	return e, nil
}

// StartAt sets the number of the next frame. It is for replaying windows from the middle of an
// observation.
func (e *Engine) StartAt(number uint64) { e.number, e.begun = number, number > 0 }

// System returns the system for the next batch.
func (e *Engine) System() *System { return e.system }

// Configure sets the system of the batches from now on. Unchanged outcomes keep their history.
// Changed ones begin a new one, and the next frame has a notice. After an error everything stays
// unchanged.
func (e *Engine) Configure(s *System) error {
	byName := make(map[string]int)
	for i, p := range s.Outcomes {
		if _, err := p.Grid(); err != nil {
			return fmt.Errorf("outcome %s: %w", p.Spec.Name, err)
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

// compose returns the parts that a system's diagram calculates, by name.
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
				return nil, fmt.Errorf("the diagram's outcome %s is none of the system's", leaf)
			}
			p.width = max(p.width, s.Outcomes[i].Spec.BinWidth)
			p.shares = append(p.shares, program.Share(name, leaf))
		}
		composed[name] = p
	}
	return composed, nil
}

// carryOver takes over the series of the previous system.
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
		p := &e.system.Outcomes[i]
		if fresh || changed[key.name] {
			n, err := newSeries(p, e.system.History)
			if err != nil {
				return err
			}
			n.incidents, n.seen = s.incidents, s.seen
			if sameEvents(s.outcome.Spec, p.Spec) {
				n.quiet, n.silent, n.lively = s.quiet, s.silent, s.lively
			}
			s = n
			e.series[key] = s
		}
		if redrawn || slices.ContainsFunc(e.composed[key.name].behind, func(leaf string) bool { return changed[leaf] }) {
			s.calculated = nil
		}
		s.outcome = p
		s.watch(p.Triggers)
	}
	return nil
}

// changed returns the outcomes whose observation has changed, and adds notices about them.
func (e *Engine) changed(before *System) map[string]bool {
	was := make(map[string]outcome.Spec)
	for _, p := range before.Outcomes {
		was[p.Spec.Name] = p.Spec
	}
	changed := make(map[string]bool)
	for _, p := range e.system.Outcomes {
		now := p.Spec
		old, ok := was[now.Name]
		if !ok || sameObservation(old, now) {
			continue
		}
		changed[now.Name] = true
		if old.BinWidth != now.BinWidth || old.Bins != now.Bins {
			e.noteKind(outcome.HistoryNotice, "%s: %d bins of %v instead of %d of %v: a new history begins", now.Name, now.Bins, now.BinWidth, old.Bins, old.BinWidth)
		} else {
			e.noteKind(outcome.HistoryNotice, "%s is observed in another way: a new history begins", now.Name)
		}
	}
	return changed
}

// sameObservation reports whether two specs observe the same. It ignores their details, groups
// and explanations.
func sameObservation(a, b outcome.Spec) bool {
	a.Detail, a.Group, a.Explain = b.Detail, b.Group, b.Explain
	return a == b
}

// sameEvents reports whether two specs have the same events, however these are counted.
func sameEvents(a, b outcome.Spec) bool {
	return a.Span == b.Span && a.Wrapper == b.Wrapper && a.VM == b.VM
}

func formatted(f *diagram.File) string {
	if f == nil {
		return ""
	}
	return diagram.Format(f)
}

func (e *Engine) note(format string, args ...any) { e.noteKind(outcome.PlainNotice, format, args...) }

func (e *Engine) noteKind(kind outcome.NoticeKind, format string, args ...any) {
	e.notices = append(e.notices, outcome.Notice{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// Step makes the frame of the next window. The frame shares memory with the batch: both are valid
// until the next call.
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

	e.begun = e.begun || isObserved(b)
	f.Attaching = !e.begun
	if err := e.observe(f, b); err != nil {
		return nil, err
	}
	e.distribute(b.Instances)
	if err := e.calculate(f); err != nil {
		return nil, err
	}
	for i := range f.Outcomes {
		p := &f.Outcomes[i]
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

// isObserved reports whether a window was observed for at least one outcome. A batch without
// outcomes counts as observed.
func isObserved(b *outcome.Batch) bool {
	return len(b.Counts) == 0 || slices.ContainsFunc(b.Counts, func(c outcome.Counts) bool { return !c.Unobserved })
}

// explanation describes where the time went in the instances of the outcome whose trigger fired. If
// none of these is explained and the diagram calculates the outcome, it describes
// one of the outcomes from which it is calculated: the one with the slowest explained instance, preceded
// by its name.
func (e *Engine) explanation(x *Firing) string {
	if at, ok := e.rows[seriesKey{x.Outcome, x.VM}]; ok && e.frame.Outcomes[at].Explained != nil {
		return e.explainedBy(&e.frame.Outcomes[at])
	}
	var slowest *Outcome
	var longest time.Duration
	for _, name := range e.composed[x.Outcome].behind {
		at, ok := e.rows[seriesKey{name, x.VM}]
		if !ok || e.frame.Outcomes[at].Explained == nil {
			continue
		}
		for _, i := range e.frame.Outcomes[at].Instances {
			if i.Trace != nil && i.Elapsed() > longest {
				slowest, longest = &e.frame.Outcomes[at], i.Elapsed()
			}
		}
	}
	if slowest == nil {
		return ""
	}
	return slowest.Name + ": " + e.explainedBy(slowest)
}

// explainedBy describes where the time of an outcome's instances went, and which share has grown. It
// prefers a shift over several windows to growth in this window alone, which counts because a
// trigger found the window unusual.
func (e *Engine) explainedBy(p *Outcome) string {
	shift := p.Explained.Shift
	if shift == nil {
		shift = e.series[seriesKey{p.Name, p.VM}].explained.sudden
	}
	return p.explanation(shift)
}

// observe makes the frame's rows, one for each outcome and VM. An outcome may have no counts in the
// batch, for example an operator that the recording's diagram did not have. It then has a row for
// each VM with any counts, or one row without a VM if there are none.
func (e *Engine) observe(f *Frame, b *outcome.Batch) error {
	e.index(b)
	clear(e.rows)
	empty(e.rowsOf)
	claims, omitted := e.claim(b)
	omitted += e.admit(claims)
	rows := f.Outcomes[:0]
	for _, c := range claims {
		switch {
		case !c.admitted:
		case c.counts < 0:
			rows = append(rows, reuse(rows, c.p, b.Window, outcome.Counts{Outcome: c.p.Spec.Name, VM: c.vm}))
		default:
			rows = append(rows, reuse(rows, c.p, b.Window, b.Counts[c.counts]))
		}
	}
	f.Outcomes = rows
	for i := range rows {
		e.rows[seriesKey{rows[i].Name, rows[i].VM}] = i
		e.rowsOf[rows[i].Name] = append(e.rowsOf[rows[i].Name], i)
	}
	e.part()
	for i := range rows {
		if err := e.observeOutcome(&rows[i]); err != nil {
			return fmt.Errorf("outcome %s: %w", rows[i].Name, err)
		}
	}
	if f.Omitted = omitted; omitted != e.omitted {
		e.omitted = omitted
		f.Notices = append(f.Notices, outcome.Notice{Text: OmittedText(omitted)})
	}
	e.forget(b.Window)
	return nil
}

// part finds the series that have no row in the frame, and the outcomes that have another one that goes on.
func (e *Engine) part() {
	clear(e.gone)
	clear(e.goesOn)
	for key := range e.series {
		if _, ok := e.rows[key]; ok {
			e.goesOn[key.name] = true
		} else {
			e.gone[key.name] = append(e.gone[key.name], key)
		}
	}
	for _, keys := range e.gone { // the same order in each run
		slices.SortFunc(keys, func(a, b seriesKey) int {
			return cmp.Or(cmp.Compare(a.vm.PID, b.vm.PID), cmp.Compare(a.vm.Node, b.vm.Node))
		})
	}
}

// predecessor returns the series whose silence a new series goes on with, or nil if there is none: that of the same
// node or, if no VM of the outcome goes on, that of any VM. Of several it is the one with the shortest silence.
func (e *Engine) predecessor(of seriesKey) (last *series) {
	for _, key := range e.gone[of.name] {
		s, sameNode := e.series[key], of.vm.Node != "" && key.vm.Node == of.vm.Node
		if s.quiet && (sameNode || !e.goesOn[of.name]) && (last == nil || s.later(last)) {
			last = s
		}
	}
	return last
}

// index sorts the counts of a batch by outcome, and collects their VMs.
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

// empty empties the lists in a map, and keeps their memory.
func empty(lists map[string][]int) {
	for name := range lists {
		lists[name] = lists[name][:0]
	}
}

// forget drops series without a row for so long that no history and no incident needs them any
// more. Series of a VM that is missing in a few windows stay.
func (e *Engine) forget(w outcome.Window) {
	for key, s := range e.series {
		past := e.frame.Number-s.seen.number >= uint64(e.system.History) && w.To-s.seen.to > int64(e.system.HoldOff)
		if past {
			delete(e.series, key)
		}
	}
}

// reuse returns a new row that reuses the memory of the previous row in its place.
func reuse(rows []Outcome, p *OutcomeSystem, w outcome.Window, c outcome.Counts) Outcome {
	row := Outcome{Name: p.Spec.Name, VM: c.VM, Window: w, Spec: p.Spec, Counts: c, Fitted: p.Fitted, Required: p.QTA != nil}
	if len(rows) < cap(rows) {
		old := &rows[:len(rows)+1][len(rows)]
		row.Mean.Band, row.CalculatedMean.Band = old.Mean.Band, old.CalculatedMean.Band
	}
	return row
}

func (e *Engine) observeOutcome(p *Outcome) error {
	s, err := e.seriesOf(p)
	if err != nil {
		return err
	}
	s.seen = sighting{e.frame.Number, p.Window.To}
	s.lively = s.lively || isLively(&p.Counts)
	p.Seen = s.lively
	s.updateSilence(p)
	s.instances = s.instances[:0]
	return s.observe(p, e.frame.Number, e.system.Samples, e.system.Bounds)
}

func (e *Engine) seriesOf(p *Outcome) (*series, error) {
	key := seriesKey{p.Name, p.VM}
	if s, ok := e.series[key]; ok {
		return s, nil
	}
	s, err := newSeries(&e.system.Outcomes[e.byName[p.Name]], e.system.History)
	if err != nil {
		return nil, err
	}
	if before := e.predecessor(key); before != nil {
		s.succeed(before)
	}
	e.series[key] = s
	return s, nil
}

// distribute assigns instances and explanations to each outcome, the worst instances first.
func (e *Engine) distribute(instances []outcome.Instance) {
	for _, i := range instances {
		if _, ok := e.rows[seriesKey{i.Outcome, i.VM}]; ok {
			s := e.series[seriesKey{i.Outcome, i.VM}]
			s.instances = append(s.instances, i)
		}
	}
	for i := range e.frame.Outcomes {
		p := &e.frame.Outcomes[i]
		s := e.series[seriesKey{p.Name, p.VM}]
		slices.SortStableFunc(s.instances, func(a, b outcome.Instance) int { return a.CompareWorst(&b) })
		p.Instances = s.instances
		p.Explained = s.explained.explain(p.Instances, e.frame.Time)
	}
}
