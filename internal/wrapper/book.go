package wrapper

import (
	"sync"

	"github.com/beamscope/beamscope/internal/intake"
	"github.com/beamscope/beamscope/internal/outcome"
)

const (
	// maxOpen is how many windows of a VM are counted at a time: the present one,
	// the one before, and more where we come late to collect them.
	maxOpen = 17

	// maxUnwanted is how many names of a VM that no outcome wants are remembered,
	// so that each is noted once.
	maxUnwanted = 64
)

// A book keeps the accounts of one VM, which may have several connections.
type book struct {
	vm     outcome.VM
	budget *intake.Budget

	mu       sync.Mutex
	next     int64 // what ended before was collected
	open     []*tally
	latest   *tally // of those, the one that was last used
	blind    outcome.Window
	owed     map[string]outcome.Loss // by outcome, for the window that is collected next
	rejected intake.Rejects
	unwanted map[string]bool

	// Guarded by the Source's lock.
	connections int
	left        int64 // when the last connection ended
}

func newBook(vm outcome.VM, next int64, b *intake.Budget) *book {
	return &book{
		vm: vm, budget: b, next: next,
		owed:     make(map[string]outcome.Loss),
		unwanted: make(map[string]bool),
	}
}

// enter accounts for an instance, false where no outcome wants it.
func (b *book) enter(s schedule, name []byte, i intake.Ended) bool {
	wanted := false
	for n := range s {
		c := s[n].byName[string(name)]
		if c == nil {
			continue
		}
		wanted = true
		if c.settle(i).End < s[n].to {
			b.place(&s[n], c, i)
			break
		}
	}
	return wanted // by an outcome that is no longer observed, if it was not placed
}

// place accounts for an instance that ends in an era, or before it. An outcome
// that was not observed before has no account of what ended then. What began
// while it was observed in another way is counted in neither.
func (b *book) place(e *era, c *course, i intake.Ended) {
	settled := c.settle(i)
	switch {
	case c.replaces && i.Start < c.from && i.End >= c.from:
		b.lose(e, c, max(settled.End, c.from), outcome.Loss{Cut: 1})
	case settled.End < c.from && !c.replaces:
	case c.early(settled):
		b.lose(e, c, settled.End, outcome.Loss{Cut: 1})
	default:
		if cell := b.cell(e, c, settled.End); cell != nil {
			cell.Counts.Ends++
			cell.Count(c.spec, c.grid, settled, b.budget)
		}
	}
}

// lose accounts for a loss at a time.
func (b *book) lose(e *era, c *course, at int64, l outcome.Loss) {
	if cell := b.cell(e, c, at); cell != nil {
		cell.Counts.Ends++
		cell.Counts.Loss = cell.Counts.Loss.Add(l)
	}
}

// cell returns where an end is counted. Where that was collected, or has no room,
// the instance is missed, and the cell nil.
func (b *book) cell(e *era, c *course, end int64) *intake.Cell {
	if end >= b.next {
		if t := b.tally(e, end); t != nil {
			return &t.cells[c.index]
		}
	}
	b.owe(c.spec.Name, outcome.Loss{Missed: 1})
	return nil
}

// tally returns that of the window of a time, nil where there is no room for it.
func (b *book) tally(e *era, at int64) *tally {
	if b.latest != nil && b.latest.window.Contains(at) {
		return b.latest
	}
	for _, t := range b.open {
		if t.window.Contains(at) {
			b.latest = t
			return t
		}
	}
	w := e.plan.At(e.plan.Number(at))
	if len(b.open) == maxOpen || b.blindTo(w) {
		b.goBlind(w)
		return nil
	}
	b.latest = newTally(w, e.courses)
	b.open = append(b.open, b.latest)
	return b.latest
}

// blindTo reports whether a window had no room before, so that it gets none later:
// it would show a part of what happened as if it were all.
func (b *book) blindTo(w outcome.Window) bool {
	return w.From < b.blind.To && b.blind.From < w.To
}

func (b *book) goBlind(w outcome.Window) {
	if b.blind.To <= b.next {
		b.blind = w
		return
	}
	b.blind.From = min(b.blind.From, w.From)
	b.blind.To = max(b.blind.To, w.To)
}

// owe adds to what an outcome lost at no certain time.
func (b *book) owe(name string, l outcome.Loss) { b.owed[name] = b.owed[name].Add(l) }

// reject accounts for a line that was rejected, of which the name may be known.
func (b *book) reject(s schedule, name, text []byte, err error) {
	b.rejected.Add(text, err)
	if spec, ok := s.wants(name); ok {
		b.owe(spec.Name, outcome.Loss{Rejected: 1})
	}
}

// collect returns what was counted in a window, and what is owed to its outcomes.
func (b *book) collect(e *era, w outcome.Window) ([]intake.Cell, outcome.Rejected) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.take(w)
	unobserved := t == nil && b.blindTo(w)
	if t == nil {
		t = newTally(w, e.courses)
	}
	for i, c := range e.courses {
		counts := &t.cells[i].Counts
		counts.Outcome, counts.VM, counts.Unobserved = c.spec.Name, b.vm, unobserved
		counts.Loss = counts.Loss.Add(b.owed[c.spec.Name])
		if counts.Bins == nil {
			counts.Bins = make([]uint64, c.grid.Bins())
		}
		t.cells[i].Release(c.spec, b.budget)
		delete(b.owed, c.spec.Name)
	}
	b.next = w.To
	return t.cells, b.rejected.Take()
}

// take takes the tally of a window out of the book, nil where it has none.
func (b *book) take(w outcome.Window) *tally {
	b.latest = nil
	for i, t := range b.open {
		if t.window == w {
			b.open = append(b.open[:i], b.open[i+1:]...)
			return t
		}
	}
	return nil
}

// replan gives up what was counted in windows from a time on, as there are others
// from then: a plan came late. It also forgets what no outcome of it can be owed.
func (b *book) replan(s schedule, from int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
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
		if !s.has(name) {
			delete(b.owed, name)
		}
	}
}

func (b *book) giveUp(t *tally) {
	for i, c := range t.cells {
		spec := t.courses[i].spec
		b.owe(spec.Name, c.Counts.Loss.Add(outcome.Loss{Missed: c.Counts.Instances()}))
		c.Release(spec, b.budget)
	}
}

// idle reports whether nothing is left to be collected.
func (b *book) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open) == 0 && len(b.owed) == 0 && b.rejected.Count() == 0
}

// refuse notes the name of an instance that no outcome wants, true where that is
// news.
func (b *book) refuse(name []byte) bool {
	if b.unwanted[string(name)] || len(b.unwanted) == maxUnwanted {
		return false
	}
	b.unwanted[string(name)] = true
	return true
}
