package ledger

import (
	"github.com/beamscope/beamscope/internal/intake"
	"github.com/beamscope/beamscope/internal/outcome"
)

// maxOpen is how many windows of a VM are counted at a time: the present one, the one
// before, and more where we come late to collect them.
const maxOpen = 17

// A Book keeps the accounts of one VM.
type Book struct {
	vm     outcome.VM
	budget *intake.Budget

	next   int64 // what ended before was collected
	open   []*tally
	latest *tally // of those, the one that was last used
	blind  outcome.Window
	owed   map[string]outcome.Loss // by outcome, for the window that is collected next
}

// NewBook returns the book of a VM. The window that begins at next is the first to be
// collected.
func NewBook(vm outcome.VM, next int64, b *intake.Budget) *Book {
	return &Book{vm: vm, budget: b, next: next, owed: make(map[string]outcome.Loss)}
}

// VM returns whose book it is.
func (b *Book) VM() outcome.VM { return b.vm }

// Next returns where the window begins that is collected next.
func (b *Book) Next() int64 { return b.next }

// Enter accounts for an instance, false where no outcome wants it.
func (b *Book) Enter(s Schedule, name []byte, i intake.Ended) bool {
	wanted := false
	for n := range s {
		c := s[n].Course(name)
		if c == nil {
			continue
		}
		wanted = true
		if c.Settle(i).End < s[n].To {
			b.Place(&s[n], c, i, 1)
			break
		}
	}
	return wanted // by an outcome that is no longer observed, if it was not placed
}

// Place accounts for an instance that ends in an era, or before it. An outcome
// that was not observed before has no account of what ended then. What began
// while it was observed in another way is counted in neither. ends is how many events the
// instance counts as.
func (b *Book) Place(e *Era, c *Course, i intake.Ended, ends uint64) {
	settled := c.Settle(i)
	switch {
	case c.replaces && i.Start < c.from && i.End >= c.from:
		b.Lose(e, c, max(settled.End, c.from), outcome.Loss{Cut: 1}, ends)
	case settled.End < c.from && !c.replaces:
	case c.early(settled):
		b.Lose(e, c, settled.End, outcome.Loss{Cut: 1}, ends)
	default:
		if cell := b.cell(e, c, settled.End); cell != nil {
			cell.Counts.Ends += ends
			cell.Count(c.Spec, c.Grid, settled, b.budget)
		}
	}
}

// Lose accounts for a loss at a time, which counts as so many events.
func (b *Book) Lose(e *Era, c *Course, at int64, l outcome.Loss, ends uint64) {
	if cell := b.cell(e, c, at); cell != nil {
		cell.Counts.Ends += ends
		cell.Counts.Loss = cell.Counts.Loss.Add(l)
	}
}

// cell returns where an end is counted. Where that was collected, or has no room,
// the instance is missed, and the cell nil.
func (b *Book) cell(e *Era, c *Course, end int64) *intake.Cell {
	if end >= b.next {
		if t := b.tally(e, end); t != nil {
			return &t.cells[c.index]
		}
	}
	b.Owe(c.Spec.Name, outcome.Loss{Missed: 1})
	return nil
}

// tally returns that of the window of a time, nil where there is no room for it.
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
	b.latest = newTally(w, e.Courses)
	b.open = append(b.open, b.latest)
	return b.latest
}

// blindTo reports whether a window had no room before, so that it gets none later:
// it would show a part of what happened as if it were all.
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

// Owe adds to what an outcome lost at no certain time.
func (b *Book) Owe(name string, l outcome.Loss) { b.owed[name] = b.owed[name].Add(l) }

// Note counts something about an outcome that is no end of an instance, such as a start. What
// belongs to a window that was collected is counted in the next one, and nothing where there
// is no room.
func (b *Book) Note(e *Era, c *Course, at int64, count func(*outcome.Counts)) {
	if t := b.tally(e, max(at, b.next)); t != nil {
		count(&t.cells[c.index].Counts)
	}
}

// Collect returns what was counted in a window, the next one, and what is owed to its
// outcomes: a cell for each course of the era, with a bin for each of its grid's.
func (b *Book) Collect(e *Era, w outcome.Window) []intake.Cell {
	t := b.take(w)
	unobserved := t == nil && b.blindTo(w)
	if t == nil {
		t = newTally(w, e.Courses)
	}
	for i, c := range e.Courses {
		counts := &t.cells[i].Counts
		counts.Outcome, counts.VM, counts.Unobserved = c.Spec.Name, b.vm, unobserved
		counts.Loss = counts.Loss.Add(b.owed[c.Spec.Name])
		if counts.Bins == nil {
			counts.Bins = make([]uint64, c.Grid.Bins())
		}
		t.cells[i].Release(c.Spec, b.budget)
		delete(b.owed, c.Spec.Name)
	}
	b.next = w.To
	return t.cells
}

// take takes the tally of a window out of the book, nil where it has none.
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

// Replan gives up what was counted in windows from a time on, as there are others
// from then: a plan came late. It also forgets what no outcome of it can be owed.
func (b *Book) Replan(s Schedule, from int64) {
	b.latest = nil
	var kept []*tally
	for _, t := range b.open {
		if t.window.From < from {
			kept = append(kept, t)
			continue
		}
		b.giveUp(t)
	}
	b.open = kept
	for name := range b.owed {
		if !s.Has(name) {
			delete(b.owed, name)
		}
	}
}

func (b *Book) giveUp(t *tally) {
	for i, c := range t.cells {
		spec := t.courses[i].Spec
		b.Owe(spec.Name, c.Counts.Loss.Add(outcome.Loss{Missed: c.Counts.Instances()}))
		c.Release(spec, b.budget)
	}
}

// Idle reports whether nothing is left to be collected.
func (b *Book) Idle() bool {
	return len(b.open) == 0 && len(b.owed) == 0
}
