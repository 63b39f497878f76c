// Package worst keeps the worst explained instances of what was observed, and where the
// time of all of them went.
package worst

import (
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// A Keeper keeps the worst explained instances of those that are added.
type Keeper struct {
	N       int    // how many it keeps
	Outcome string // of which outcome, "" for any
	ID      uint64 // with which id, 0 for any

	kept     []Instance
	totals   []*Total
	index    map[key]*Total
	further  int // instances that are in no total
	explains bool
}

// MaxTotals is of how many outcomes and VMs there are totals: the first.
const MaxTotals = 1000

// A key is what a total is of.
type key struct {
	outcome string
	vm      outcome.VM
}

// An Instance is one that has a trace.
type Instance struct {
	outcome.Instance
	Began time.Time // when it started, by the clock on the wall
}

// A Total is where the time of all explained instances of an outcome in a VM went.
type Total struct {
	Outcome string
	VM      outcome.VM
	scope.Tally
}

// Add adds the instances that have a trace. wall is the time on the wall of one of
// CLOCK_MONOTONIC.
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
		k.kept = append(k.kept, Instance{i, wall(i.Start)})
	}
	slices.SortStableFunc(k.kept, func(a, b Instance) int { return a.CompareWorst(&b.Instance) })
	k.kept = k.kept[:min(len(k.kept), k.N)]
}

// total returns a total, nil where there are too many others.
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

// Instances returns the worst, the worst first.
func (k *Keeper) Instances() []Instance { return k.kept }

// Totals returns the totals of the outcomes and VMs, in the order in which they came.
func (k *Keeper) Totals() []*Total { return k.totals }

// Further returns how many instances are in no total, as there are [MaxTotals] others.
func (k *Keeper) Further() int { return k.further }

// Explained tells whether any instance had a trace, whether it was wanted or not.
func (k *Keeper) Explained() bool { return k.explains }
