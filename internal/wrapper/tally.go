package wrapper

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/beamscope/beamscope/internal/outcome"
)

// An ended instance, in nanoseconds of CLOCK_MONOTONIC.
type ended struct {
	start, end int64
	status     outcome.Status
}

// compare orders instances, the worst first: by status, and the slowest first.
func (i ended) compare(j ended) int {
	if i.status != j.status {
		return int(j.status) - int(i.status)
	}
	return int(min(1, max(-1, (j.end-j.start)-(i.end-i.start))))
}

// maxKept bounds the single instances that wait to be collected, of all VMs: the
// 200 000 of two windows of 1 s at 100 000 a second, and some more.
const maxKept = 1 << 18

// A budget is how many more single instances may be kept.
type budget struct{ left atomic.Int64 }

func newBudget() *budget {
	b := new(budget)
	b.left.Store(maxKept)
	return b
}

func (b *budget) take() bool {
	if b.left.Add(-1) >= 0 {
		return true
	}
	b.left.Add(1)
	return false
}

func (b *budget) giveBack(n int) { b.left.Add(int64(n)) }

// A tally counts what ends in one window in one VM.
type tally struct {
	window  outcome.Window
	courses []*course // of the window's plan
	cells   []cell    // one for each of them
}

func newTally(w outcome.Window, courses []*course) *tally {
	return &tally{window: w, courses: courses, cells: make([]cell, len(courses))}
}

// A cell counts one outcome.
type cell struct {
	counts outcome.Counts
	kept   []ended
}

// count counts an instance that has been settled.
func (c *cell) count(course *course, i ended, b *budget) {
	c.counts.Ends++
	switch i.status {
	case outcome.Success:
		c.counts.Successes++
		c.bin(course, i)
	case outcome.Failure:
		c.counts.Failures++
	case outcome.Timeout:
		c.counts.Timeouts++
	}
	switch course.spec.Detail {
	case outcome.Worst:
		c.keepWorst(i)
	case outcome.Everything:
		c.keep(i, b)
	}
}

func (c *cell) bin(course *course, i ended) {
	if c.counts.Bins == nil {
		c.counts.Bins = make([]uint64, course.grid.Bins())
	}
	if bin, ok := course.grid.Bin(time.Duration(i.end - i.start)); ok {
		c.counts.Bins[bin]++
	}
}

func (c *cell) keep(i ended, b *budget) {
	if !b.take() {
		c.counts.Unstreamed++
		return
	}
	c.kept = append(c.kept, i)
}

// release gives the room of the instances kept to others.
func (c *cell) release(spec outcome.Spec, b *budget) {
	if spec.Detail == outcome.Everything {
		b.giveBack(len(c.kept))
	}
}

// keepWorst keeps the worst, sorted. They are so few that they need no budget.
func (c *cell) keepWorst(i ended) {
	if len(c.kept) == outcome.MaxWorst && c.kept[outcome.MaxWorst-1].compare(i) <= 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(c.kept, i, ended.compare)
	c.kept = slices.Insert(c.kept, at, i)
	c.kept = c.kept[:min(len(c.kept), outcome.MaxWorst)]
}
