// Package worst keeps the slowest explained instances of an observation, and sums where the time of all of
// them went.
package worst

import (
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// A Keeper keeps the worst explained instances among those that are added.
type Keeper struct {
	N       int    // number of kept instances
	Outcome string // of this outcome; "" for any
	ID      uint64 // with this id; 0 for any

	// Fitted reports whether beamscope chose the dMax of an outcome. An instance that took longer is
	// then not worse than a failure. nil means that the user set all.
	Fitted func(outcome string) bool

	kept     []Instance
	totals   []*Total
	index    map[key]*Total
	further  int // instances that are in no total
	explains bool
}

// MaxTotals is the largest number of totals. The first outcomes and VMs get them.
const MaxTotals = 1000

// A key identifies a total.
type key struct {
	outcome string
	vm      outcome.VM
}

// An Instance is an instance with a trace.
type Instance struct {
	outcome.Instance
	Began  time.Time // wall time of its start
	Fitted bool      // beamscope chose dMax
}

// A Total shows where the time of all explained instances of an outcome in a VM went.
type Total struct {
	Outcome string
	VM      outcome.VM
	scope.Tally
}

// Add adds the instances that have a trace. wall converts a time of CLOCK_MONOTONIC to wall time.
func (k *Keeper) Add(instances []outcome.Instance, wall func(int64) time.Time) {
	for n := range instances {
		i := instances[n]
		if i.Trace == nil {
			continue
		}
		k.explains = true
		if k.Outcome != "" && i.Outcome != k.Outcome || k.ID != 0 && i.ID != k.ID {
			continue
		}
		if total := k.total(key{i.Outcome, i.VM}); total != nil {
			total.Add(instances[n : n+1])
		} else {
			k.further++
		}
		k.kept = append(k.kept, Instance{i, wall(i.Start), k.Fitted != nil && k.Fitted(i.Outcome)})
	}
	slices.SortStableFunc(k.kept, func(a, b Instance) int { return a.CompareFitted(&b.Instance, a.Fitted, b.Fitted) })
	k.kept = k.kept[:min(len(k.kept), k.N)]
}

// total returns a total, or nil if there are too many others.
func (k *Keeper) total(of key) *Total {
	t := k.index[of]
	if t == nil && len(k.totals) < MaxTotals {
		if k.index == nil {
			k.index = make(map[key]*Total)
		}
		t = &Total{Outcome: of.outcome, VM: of.vm}
		k.index[of] = t
		k.totals = append(k.totals, t)
	}
	return t
}

// Instances returns the worst instances, the worst first.
func (k *Keeper) Instances() []Instance { return k.kept }

// Totals returns the totals of the outcomes and VMs, in the order in which they came.
func (k *Keeper) Totals() []*Total { return k.totals }

// Further returns the number of instances in no total, because there are [MaxTotals] other ones.
func (k *Keeper) Further() int { return k.further }

// Explained reports whether any added instance had a trace, including those that the Keeper does
// not keep.
func (k *Keeper) Explained() bool { return k.explains }
