package ledger

import (
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
)

// maxOpen is the largest number of windows of a VM that are counted at a time: the present one,
// the previous one, and more for late collection.
const maxOpen = 17

// A Book contains the counts of one VM.
type Book struct {
	vm     outcome.VM
	budget *intake.Budget

	next   int64 // windows that ended before it were collected
	open   []*tally
	latest *tally // the tally that was last used
	blind  outcome.Window
	owed   map[string]outcome.Loss // by outcome, for the next window to be collected
	lost   map[string]outcome.Loss // by outcome, for the next window that is not observed
}

// NewBook returns the book of a VM. The window that begins at next is the first to be
// collected.
func NewBook(vm outcome.VM, next int64, b *intake.Budget) *Book {
	return &Book{vm: vm, budget: b, next: next, owed: make(map[string]outcome.Loss), lost: make(map[string]outcome.Loss)}
}

// VM returns the VM of the book.
func (b *Book) VM() outcome.VM { return b.vm }

// Next returns the beginning of the next window to be collected.
func (b *Book) Next() int64 { return b.next }

// Enter counts an instance. It returns false if the instance belongs to no outcome.
func (b *Book) Enter(s Schedule, name []byte, i intake.Ended) bool {
	wanted := false
	for n := range s {
		c := s[n].Observation(name)
		if c == nil {
			continue
		}
		wanted = true
		if c.Settle(i).End < s[n].To {
			b.Place(&s[n], c, &i, 1)
			break
		}
	}
	return wanted // its outcome may no longer be observed
}

// Place counts an instance that ends in an era or before it. It ignores an instance that ended
// while its outcome was not observed. If the instance began while its outcome was observed
// differently, it counts as cut. ends is the number of events of the instance.
func (b *Book) Place(e *Era, c *Observation, i *intake.Ended, ends uint64) {
	settled := c.Settle(*i)
	switch {
	case c.replaces && i.Start < c.from && i.End >= c.from:
		b.Lose(e, c, max(settled.End, c.from), outcome.Loss{Cut: 1}, ends)
	case settled.End < c.from && !c.replaces:
	case c.early(&settled):
		b.Lose(e, c, settled.End, outcome.Loss{Cut: 1}, ends)
	default:
		if cell := b.cell(e, c, settled.End); cell != nil {
			cell.Counts.Ends += ends
			cell.Count(&c.Spec, c.Grid, &settled, b.budget)
		}
	}
}

// Lose counts a loss at a time. ends is the number of its events.
func (b *Book) Lose(e *Era, c *Observation, at int64, l outcome.Loss, ends uint64) {
	if cell := b.cell(e, c, at); cell != nil {
		cell.Counts.Ends += ends
		cell.Counts.Loss = cell.Counts.Loss.Add(l)
	}
}

// cell returns the cell where an end is counted. If its window was already collected or has no
// room, cell counts the instance as missed and returns nil.
func (b *Book) cell(e *Era, c *Observation, end int64) *intake.Cell {
	if end >= b.next {
		if t := b.tally(e, end); t != nil {
			return &t.cells[c.index]
		}
		b.lost[c.Spec.Name] = b.lost[c.Spec.Name].Add(outcome.Loss{Missed: 1})
		return nil
	}
	b.Owe(c.Spec.Name, outcome.Loss{Missed: 1})
	return nil
}

// tally returns the tally of the window that contains a time, or nil if there is no room for it.
func (b *Book) tally(e *Era, at int64) *tally {
	if b.latest != nil && b.latest.window.Contains(at) {
		return b.latest
	}
	for _, t := range b.open {
		if t.window.Contains(at) {
			b.latest = t
			return t
		}
	}
	w := e.Plan.At(e.Plan.Number(at))
	if len(b.open) == maxOpen || b.blindTo(w) {
		b.goBlind(w)
		return nil
	}
	b.latest = newTally(w, e.Observations)
	b.open = append(b.open, b.latest)
	return b.latest
}

// blindTo reports whether there was no room for a window before. Such a window never gets room
// later, because its counts would lack the instances that were missed.
func (b *Book) blindTo(w outcome.Window) bool {
	return w.From < b.blind.To && b.blind.From < w.To
}

func (b *Book) goBlind(w outcome.Window) {
	if b.blind.To <= b.next {
		b.blind = w
		return
	}
	b.blind.From = min(b.blind.From, w.From)
	b.blind.To = max(b.blind.To, w.To)
}

// Owe adds a loss without a certain time to an outcome.
func (b *Book) Owe(name string, l outcome.Loss) { b.owed[name] = b.owed[name].Add(l) }

// Counts returns where to count the events of an outcome other than ends, such as starts. An event
// of a window that was already collected counts in the next one. If there is no room, Counts
// returns nil and the event is not counted.
func (b *Book) Counts(e *Era, c *Observation, at int64) *outcome.Counts {
	if t := b.tally(e, max(at, b.next)); t != nil {
		return &t.cells[c.index].Counts
	}
	return nil
}

// Counting returns the counts for ends of an outcome at a time, and the window of that time. They
// stay the same until the next call of [Book.Collect] or [Book.Replan]. The counts are nil if the
// window was collected or if there is no room.
func (b *Book) Counting(e *Era, c *Observation, at int64) (*outcome.Counts, outcome.Window) {
	if at < b.next {
		return nil, outcome.Window{}
	}
	t := b.tally(e, at)
	if t == nil {
		return nil, outcome.Window{}
	}
	counts := &t.cells[c.index].Counts
	if counts.Bins == nil {
		counts.Bins = make([]uint64, c.Grid.Bins())
	}
	return counts, t.window
}

// Collect returns the counts of the next window, including losses without a certain time. It
// returns a cell for each observation of the era, with the bins of its grid.
func (b *Book) Collect(e *Era, w outcome.Window) []intake.Cell {
	t := b.take(w)
	isBlind := t == nil && b.blindTo(w)
	if t == nil {
		t = newTally(w, e.Observations)
	}
	for i, c := range e.Observations {
		cell := &t.cells[i]
		cell.Release(c.Spec, b.budget)
		counts := &cell.Counts
		counts.Outcome, counts.VM = c.Spec.Name, b.vm
		counts.Loss = counts.Loss.Add(b.owed[c.Spec.Name])
		delete(b.owed, c.Spec.Name)
		if counts.Bins == nil {
			counts.Bins = make([]uint64, c.Grid.Bins())
		}
		if isBlind || counts.Unobserved || w.From < c.learned {
			counts.Loss = counts.Loss.Add(b.lost[c.Spec.Name])
			delete(b.lost, c.Spec.Name)
			*cell = Unobserved(*cell)
		}
	}
	b.next = w.To
	return t.cells
}

// Unobserved returns the cell of a window that was not completely observed: its counts are only a part of
// what happened, and its instances are lost.
func Unobserved(c intake.Cell) intake.Cell {
	n := c.Counts
	loss := n.Loss
	loss.Missed += n.Instances()
	return intake.Cell{Counts: outcome.Counts{
		Outcome: n.Outcome, VM: n.VM, Starts: n.Starts, Ends: n.Ends, Orphans: n.Orphans, Lates: n.Lates,
		Bins: make([]uint64, len(n.Bins)), Loss: loss, Unobserved: true,
	}}
}

// take removes the tally of a window from the book, or returns nil if there is none.
func (b *Book) take(w outcome.Window) *tally {
	b.latest = nil
	for i, t := range b.open {
		if t.window == w {
			b.open = append(b.open[:i], b.open[i+1:]...)
			return t
		}
	}
	return nil
}

// Replan changes to another schedule, which has a late plan from a time on. The counts of its windows go on if
// the window and the outcome are the same. Other windows that were counted under the earlier plan are not
// observed. Replan also drops losses of outcomes that are not in the plan.
func (b *Book) Replan(s Schedule, from int64) {
	b.latest = nil
	var kept []*tally
	for _, t := range b.open {
		if t.window.From < from {
			kept = append(kept, t)
		} else if e := s.At(t.window); e != nil {
			kept = append(kept, b.carry(t, e))
		} else {
			b.giveUp(t)
		}
	}
	b.open = kept
	for _, losses := range []map[string]outcome.Loss{b.owed, b.lost} {
		for name := range losses {
			if !s.Has(name) {
				delete(losses, name)
			}
		}
	}
}

// carry returns the tally of the same window in another era. Outcomes that were not observed in the same way
// are not observed in this window.
func (b *Book) carry(t *tally, e *Era) *tally {
	into := newTally(t.window, e.Observations)
	for i, c := range e.Observations {
		into.cells[i].Counts.Unobserved = true
		for j, was := range t.observations {
			if c.continues(was) {
				into.cells[i] = b.goOn(t.cells[j], was, c)
			}
		}
	}
	for j, was := range t.observations {
		if c := e.byName[was.name]; c == nil || !c.continues(was) {
			b.drop(&t.cells[j], was)
		}
	}
	return into
}

// goOn returns a cell of an observation that goes on with another detail of its instances, or with the same.
func (b *Book) goOn(cell intake.Cell, was, now *Observation) intake.Cell {
	if was.Spec.Detail == now.Spec.Detail {
		return cell
	}
	cell.Release(was.Spec, b.budget)
	if cell.Kept = nil; now.Spec.Detail == outcome.Everything {
		cell.Counts.Unstreamed = cell.Counts.Instances()
	}
	return cell
}

// giveUp drops the counts of a window, which is not observed.
func (b *Book) giveUp(t *tally) {
	for i, c := range t.observations {
		b.drop(&t.cells[i], c)
	}
	b.goBlind(t.window)
}

// drop drops the counts of an observation in a window that is not observed.
func (b *Book) drop(cell *intake.Cell, c *Observation) {
	l := cell.Counts.Loss
	l.Missed += cell.Counts.Instances()
	b.lost[c.Spec.Name] = b.lost[c.Spec.Name].Add(l)
	cell.Release(c.Spec, b.budget)
}

// Idle reports whether nothing is left to collect.
func (b *Book) Idle() bool {
	return len(b.open) == 0 && len(b.owed) == 0 && len(b.lost) == 0
}
