package intake

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// An Ended is an instance that has ended, in nanoseconds of CLOCK_MONOTONIC.
type Ended struct {
	Start, End int64
	Status     outcome.Status
	Process    outcome.PID // process that started it; 0 if unknown

	ID, Parent uint64 // id of the span; 0 if it has none
	Class      string // class of a failure
}

// compare orders instances by status and then by delay, the worst first.
func (i Ended) compare(j Ended) int {
	if i.Status != j.Status {
		return int(j.Status) - int(i.Status)
	}
	return int(min(1, max(-1, (j.End-j.Start)-(i.End-i.Start))))
}

// MaxKept limits the single instances of all VMs that wait to be collected: the 200 000 of two
// windows of 1 s at 100 000 a second, and some more.
const MaxKept = 1 << 18

// A Budget is the number of further single instances that the cells sharing it may keep.
type Budget struct{ left atomic.Int64 }

// NewBudget returns a budget for a number of instances, usually [MaxKept].
func NewBudget(most int) *Budget {
	b := new(Budget)
	b.left.Store(int64(most))
	return b
}

// Left returns the remaining number.
func (b *Budget) Left() int { return int(b.left.Load()) }

func (b *Budget) take() bool {
	if b.left.Add(-1) >= 0 {
		return true
	}
	b.left.Add(1)
	return false
}

func (b *Budget) giveBack(n int) { b.left.Add(int64(n)) }

// A Cell counts one outcome in one window and VM.
type Cell struct {
	Counts outcome.Counts
	Kept   []Ended // single instances that the outcome's detail requests
}

// Count counts an instance of an outcome. It does not count one that takes longer than dMax: the
// caller must turn that into a timeout.
func (c *Cell) Count(spec *outcome.Spec, grid dq.Grid, i *Ended, b *Budget) {
	switch i.Status {
	case outcome.Success:
		c.Counts.Successes++
		c.bin(grid, i)
	case outcome.Failure:
		c.Counts.Failures++
	case outcome.Timeout:
		c.Counts.Timeouts++
	}
	switch spec.Detail {
	case outcome.Worst:
		c.keepWorst(*i)
	case outcome.Everything:
		c.keep(*i, b)
	}
}

func (c *Cell) bin(grid dq.Grid, i *Ended) {
	if c.Counts.Bins == nil {
		c.Counts.Bins = make([]uint64, grid.Bins())
	}
	if bin, ok := grid.Bin(time.Duration(i.End - i.Start)); ok {
		c.Counts.Bins[bin]++
	}
}

func (c *Cell) keep(i Ended, b *Budget) {
	if !b.take() {
		c.Counts.Unstreamed++
		return
	}
	c.Kept = append(c.Kept, i)
}

// AppendInstances appends the kept instances to instances.
func (c *Cell) AppendInstances(instances []outcome.Instance) []outcome.Instance {
	for _, i := range c.Kept {
		instances = append(instances, outcome.Instance{
			Outcome: c.Counts.Outcome,
			VM:      c.Counts.VM,
			Status:  i.Status,
			Start:   i.Start,
			End:     i.End,
			Process: i.Process,
			ID:      i.ID,
			Parent:  i.Parent,
			Class:   i.Class,
		})
	}
	return instances
}

// Release returns the room of the kept instances to the budget.
func (c *Cell) Release(spec outcome.Spec, b *Budget) {
	if spec.Detail == outcome.Everything {
		b.giveBack(len(c.Kept))
	}
}

// keepWorst keeps the worst instances, sorted. They are so few that they need no budget.
func (c *Cell) keepWorst(i Ended) {
	if len(c.Kept) == outcome.MaxWorst && c.Kept[outcome.MaxWorst-1].compare(i) <= 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(c.Kept, i, Ended.compare)
	c.Kept = slices.Insert(c.Kept, at, i)
	c.Kept = c.Kept[:min(len(c.Kept), outcome.MaxWorst)]
}
