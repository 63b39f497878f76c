package bpf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/beamscope/beamscope/internal/host/monotonic"
)

var (
	// ErrPending means that a change was requested while windows from before the last change are
	// still unread.
	ErrPending = errors.New("the last change is not complete")

	// ErrNoRoom means that a change needs more room than the collector has. A new collector would
	// have it.
	ErrNoRoom = errors.New("no room for more outcomes")

	// ErrLate means that it is too late for a change from that time on.
	ErrLate = errors.New("too late for the change")
)

// A plan describes what is counted from a time on.
type plan struct {
	from, window int64
	first        uint64 // number of its first window
	outcomes     []Outcome
	entries      []int // of the outcomes
}

func (p plan) number(t int64) uint64 { return p.first + uint64((t-p.from)/p.window) }

func (p plan) start(n uint64) int64 { return p.from + int64(n-p.first)*p.window }

// forever is the end of an entry without an end.
const forever = math.MaxInt64

// An entry is user space's data about an entry in the map outcomes.
type entry struct {
	used    bool
	outcome Outcome
	number  int // of its name
	cells   region
	until   int64
	bins    [][]uint64 // by slot, for the last values that were read
}

// begin writes the first plan. All its outcomes have room.
func (c *Collector) begin() error {
	p, added, err := c.place(c.opts.Start, c.opts.Window, c.opts.Outcomes, nil)
	if err != nil {
		return err
	}
	c.memory.clock.Eras[1].FromNs = noEra
	c.writeEra(0, p)
	c.plans = []plan{p}
	return c.publish(p, added)
}

// Change changes the outcomes and the length of windows, from a time on at which a window begins.
// Outcomes that differ only in Stream and Explain continue to be counted. If another outcome has
// the same name, spans that started before the change are counted as Cut when they end. Change
// attaches to the spans of new outcomes at once, and counts them from that time on; missing names
// the targets at which that was not possible. After any other error everything is unchanged. That
// error wraps [ErrPending], [ErrNoRoom], [ErrLate], [ErrOptions], or the cause of a context that is
// done.
func (c *Collector) Change(ctx context.Context, from, window int64, outcomes []Outcome) (missing, err error) {
	if err := check(from, window, outcomes); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if len(c.plans) > 1 {
		return nil, ErrPending
	}
	last := c.plans[0]
	if from <= last.from || (from-last.from)%last.window != 0 {
		return nil, fmt.Errorf("%w: no window begins at %d", ErrOptions, from)
	}
	p, added, err := c.place(from, window, outcomes, last.entries)
	if err != nil {
		return nil, err
	}
	p.first = last.number(from)
	c.plans = append(c.plans, p)
	missing = c.attachWanted(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, c.takeBack(context.Cause(ctx), added)
	case monotonic.Now() >= from:
		return nil, c.takeBack(ErrLate, added)
	}
	c.writeEra(1-c.era, p)
	return missing, c.publish(p, added)
}

// takeBack removes the last plan, which has not begun, and its added entries. It returns the error.
func (c *Collector) takeBack(why error, added []int) error {
	c.plans = c.plans[:1]
	c.release(added)
	return errors.Join(why, c.detachUnwanted())
}

// margin is the least time in nanoseconds between writing the times of a first plan and its
// beginning.
const margin = 20_000_000

// Begin sets the beginning of window 0, in nanoseconds of CLOCK_MONOTONIC, of a collector whose
// Start is in the future. The error wraps [ErrLate] if that time is past or too near; then the
// caller can call it again with a later time. After another error the collector is unusable: it may
// have counted a part of the events.
func (c *Collector) Begin(start int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := monotonic.Now()
	switch {
	case c.closed:
		return ErrClosed
	case len(c.plans) != 1 || now >= c.plans[0].from:
		return fmt.Errorf("%w: the collector has begun", ErrOptions)
	case now >= start-margin:
		return ErrLate
	}
	p := &c.plans[0]
	p.from = start
	for _, i := range p.entries {
		atomic.StoreUint64(&c.memory.outcomes[i].SinceNs, uint64(start))
	}
	c.writeEra(c.era, *p)
	if monotonic.Now() >= start {
		return fmt.Errorf("%w: it began before all of its times were written", ErrPending)
	}
	return nil
}

// Next returns the number of the next window to read.
func (c *Collector) Next() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.oldest
}

// place finds room for a plan's outcomes. Unchanged outcomes keep their entries from the previous
// plan; added are the others.
func (c *Collector) place(from, window int64, outcomes []Outcome, before []int) (p plan, added []int, err error) {
	p = plan{from: from, window: window, outcomes: slices.Clone(outcomes)}
	if explained(outcomes) && !c.hasLog() {
		return plan{}, nil, ErrNoRoom
	}
	for _, o := range outcomes {
		i := c.same(before, o)
		if i < 0 {
			if i, err = c.take(o); err != nil {
				c.release(added)
				return plan{}, nil, err
			}
			added = append(added, i)
		}
		p.entries = append(p.entries, i)
	}
	if !c.chainsFit(added) {
		c.release(added)
		return plan{}, nil, ErrNoRoom
	}
	return p, added, nil
}

// same returns the entry that counts this outcome, or -1 if there is none.
func (c *Collector) same(entries []int, o Outcome) int {
	for _, i := range entries {
		have := c.entries[i].outcome
		have.Stream, have.Explain = o.Stream, o.Explain
		if reflect.DeepEqual(have, o) {
			return i
		}
	}
	return -1
}

// take takes a free entry and cells for an outcome, and empties the cells.
func (c *Collector) take(o Outcome) (int, error) {
	i := slices.IndexFunc(c.entries, func(e entry) bool { return !e.used })
	if i < 0 {
		return 0, ErrNoRoom
	}
	cells, ok := c.arena.take(c.layout.size(o.Bins))
	if !ok {
		return 0, ErrNoRoom
	}
	number, known := c.numbers[o.ID()]
	if !known {
		number = len(c.numbers)
		c.numbers[o.ID()] = number
	}
	c.entries[i] = entry{used: true, outcome: o, number: number, cells: cells, until: forever, bins: make([][]uint64, c.layout.slots)}
	c.clearCells(cells)
	return i, nil
}

// clearCells empties cells of all stripes.
func (c *Collector) clearCells(r region) {
	for stripe := range c.layout.stripes {
		clear(c.memory.cells[stripe*c.layout.stripeCells+r.first:][:r.size])
	}
}

// release frees entries and their cells.
func (c *Collector) release(entries []int) {
	for _, i := range entries {
		c.arena.give(c.entries[i].cells)
		c.entries[i] = entry{}
	}
}

// chainsFit reports whether no label gets more entries than the programs examine. An entry replaces
// the one with the same name, if there is one.
func (c *Collector) chainsFit(added []int) bool {
	names := make(map[uint32]map[string]bool)
	for i := range c.entries {
		if e := &c.entries[i]; e.used && e.outcome.Rule == nil && (slices.Contains(added, i) || c.isLinked(i)) {
			label := Label(e.outcome.Name)
			if names[label] == nil {
				names[label] = make(map[string]bool)
			}
			names[label][e.outcome.Name] = true
		}
	}
	for _, n := range names {
		if len(n) > NamesPerLabel {
			return false
		}
	}
	return true
}

// publish makes the outcomes of a plan visible to the programs; added are the new ones. Entries of
// other outcomes end when the plan begins.
func (c *Collector) publish(p plan, added []int) error {
	c.end(p.from, p.entries)
	for _, i := range added {
		if err := c.link(i, p.from); err != nil {
			return err
		}
	}
	for n, i := range p.entries {
		// Until the earlier windows are read, instances of both plans are streamed and explained.
		was := c.entries[i].outcome
		c.setDetail(i, max(was.Stream, p.outcomes[n].Stream), was.Explain || p.outcomes[n].Explain)
	}
	return nil
}

// End stops counting instances that start at or after a time. Instances that are open then still
// count when they end.
func (c *Collector) End(from int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.end(from, nil)
	return nil
}

// end ends the entries without an end, except some.
func (c *Collector) end(from int64, but []int) {
	for i := range c.entries {
		if e := &c.entries[i]; e.used && e.until == forever && !slices.Contains(but, i) {
			e.until = from
			atomic.StoreUint64(&c.memory.outcomes[i].UntilNs, uint64(from))
		}
	}
}

// link writes an entry.
func (c *Collector) link(i int, since int64) error {
	e := &c.entries[i]
	out := kernelOutcome{
		SinceNs: uint64(since),
		UntilNs: forever,
		DmaxNs:  uint64(e.outcome.DMax),
		BinNs:   uint64(e.outcome.BinWidth),
		Bins:    uint32(e.outcome.Bins),
		Cells:   uint32(e.cells.first),
		Label:   e.outcome.label(),
		Number:  uint32(e.number),
		Flags:   e.outcome.flags(),
		NameLen: uint64(len(e.outcome.Name)),
	}
	for j, b := range []byte(e.outcome.Name) {
		out.Name[j] = int8(b)
	}
	if e.outcome.Rule != nil {
		c.rules++
		out.Rule = c.rules | ruleNumber
		c.memory.outcomes[i] = out
		return nil
	}
	return c.linkLabel(i, out)
}

// linkLabel writes an entry of spans and adds it to its label, where it replaces the one with the
// same name.
func (c *Collector) linkLabel(i int, out kernelOutcome) error {
	e, label := &c.entries[i], out.Label
	chain, err := c.chain(label)
	if err != nil {
		return err
	}
	place := slices.IndexFunc(chain, func(j int) bool { return c.entries[j].number == e.number })
	if place < 0 {
		chain, place = append(chain, i), len(chain)
	} else {
		out.Previous = uint32(chain[place]) + 1
		chain[place] = i
	}
	if place+1 < len(chain) {
		out.Next = uint32(chain[place+1]) + 1
	}
	c.memory.outcomes[i] = out
	return c.pointTo(label, chain, place)
}

// unlink removes an entry from its label, if it is there.
func (c *Collector) unlink(i int) error {
	if c.entries[i].outcome.Rule != nil {
		return nil
	}
	label := Label(c.entries[i].outcome.Name)
	chain, err := c.chain(label)
	if err != nil {
		return err
	}
	place := slices.Index(chain, i)
	if place < 0 {
		return nil
	}
	return c.pointTo(label, slices.Delete(chain, place, place+1), place)
}

// pointTo makes the predecessor of a place in a chain point to the entry that is there now.
func (c *Collector) pointTo(label uint32, chain []int, place int) error {
	var next uint32
	if place < len(chain) {
		next = uint32(chain[place]) + 1
	}
	if place > 0 {
		atomic.StoreUint32(&c.memory.outcomes[chain[place-1]].Next, next)
		return nil
	}
	if err := c.maps.Labels.Put(label, next); err != nil {
		return fmt.Errorf("write label %d: %w", label, err)
	}
	return nil
}

// chain returns the entries on a label, in their order.
func (c *Collector) chain(label uint32) ([]int, error) {
	var next uint32
	if err := c.maps.Labels.Lookup(label, &next); err != nil {
		return nil, fmt.Errorf("read label %d: %w", label, err)
	}
	var chain []int
	for next != 0 {
		chain = append(chain, int(next)-1)
		next = c.memory.outcomes[next-1].Next
	}
	return chain, nil
}

// isLinked reports whether an entry is on its label: it is unless another one with its name is
// there.
func (c *Collector) isLinked(i int) bool {
	chain, err := c.chain(Label(c.entries[i].outcome.Name))
	return err != nil || slices.Contains(chain, i)
}

// The flags of an outcome, as in count.bpf.h.
const (
	flagStream    = 1 << 0
	flagWorst     = 1 << 1
	flagExitFails = 1 << 2
	flagGrouped   = 1 << 3
	flagBySpawn   = 1 << 4
	flagExplain   = 1 << 5
	flagSelective = 1 << 6
	flagStaged    = 1 << 7
)

func (o Outcome) flags() uint32 {
	var f uint32
	switch o.Stream {
	case StreamWorst:
		f = flagStream | flagWorst
	case StreamAll:
		f = flagStream
	}
	if o.ExitFails {
		f |= flagExitFails
	}
	if o.Group != "" {
		f |= flagGrouped
	}
	if o.Group == GroupByMFA {
		f |= flagBySpawn
	}
	if o.Explain {
		f |= flagExplain
	}
	if o.Rule != nil && o.Rule.Selective() {
		f |= flagSelective
	}
	if o.Rule != nil && len(o.Rule.Via) > 0 {
		f |= flagStaged
	}
	return f
}

// setDetail selects the instances of an entry that are streamed, and whether events of their
// processes are logged.
func (c *Collector) setDetail(i int, s Streaming, explain bool) {
	o := &c.entries[i].outcome
	o.Stream, o.Explain = s, explain
	atomic.StoreUint32(&c.memory.outcomes[i].Flags, o.flags())
}

// noEra is the beginning of an unused era, as in count.bpf.h.
const noEra = math.MaxUint64

// writeEra writes a plan's windows into one of the two eras.
func (c *Collector) writeEra(i int, p plan) {
	e := &c.memory.clock.Eras[i]
	atomic.StoreUint64(&e.FromNs, noEra)
	atomic.StoreUint64(&e.WindowNs, uint64(p.window))
	atomic.StoreUint64(&e.First, p.first)
	atomic.StoreUint64(&e.FromNs, uint64(p.from))
}

// advance gives the rows of the windows before n to later windows, and frees what only the earlier
// windows needed.
func (c *Collector) advance(n uint64) error {
	c.oldest = n
	atomic.StoreUint64(&c.memory.clock.Oldest, n)
	var err error
	if len(c.plans) > 1 && n >= c.plans[1].first {
		c.plans = c.plans[1:]
		c.era = 1 - c.era
		for n, i := range c.plans[0].entries {
			c.setDetail(i, c.plans[0].outcomes[n].Stream, c.plans[0].outcomes[n].Explain)
		}
		err = c.detachUnwanted()
	}
	return err
}

// freeDrained frees the ended entries whose spans can neither be open nor be counted in an unread
// window.
func (c *Collector) freeDrained() error {
	from, _ := c.windowOf(c.oldest)
	for i := range c.entries {
		e := &c.entries[i]
		if !e.used || e.until == forever || from <= e.until || from-e.until <= e.outcome.DMax {
			continue
		}
		if err := c.unlink(i); err != nil {
			return err
		}
		c.memory.outcomes[i].Label = noLabel
		atomic.StoreUint64(&c.memory.outcomes[i].SinceNs, forever)
		atomic.StoreUint32(&c.memory.outcomes[i].Flags, 0)
		c.release([]int{i})
	}
	return nil
}

// ruleNumber is a bit that is set in the numbers of rules: RULE_NUMBER of open.bpf.h.
const ruleNumber = 1 << 31

// noLabel is no label of any event.
const noLabel = math.MaxUint32

// label returns the label of an outcome's spans.
func (o Outcome) label() uint32 {
	if o.Rule != nil {
		return noLabel
	}
	return Label(o.Name)
}

// planOf returns the plan of window n.
func (c *Collector) planOf(n uint64) plan {
	if last := c.plans[len(c.plans)-1]; n >= last.first {
		return last
	}
	return c.plans[0]
}

func (c *Collector) windowOf(n uint64) (from, to int64) {
	p := c.planOf(n)
	return p.start(n), p.start(n + 1)
}

// Window returns the beginning and the end of window n, which must be unread or the last one that
// was read.
func (c *Collector) Window(n uint64) (from, to int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.windowOf(n)
}

// Number returns the number of the window that contains t, which must not be before the unread
// windows.
func (c *Collector) Number(t int64) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.plans[len(c.plans)-1]; t >= last.from {
		return last.number(t)
	}
	return c.plans[0].number(max(t, c.plans[0].from))
}
