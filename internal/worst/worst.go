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
	tallies  []Total
	explains bool
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
		k.total(i.Outcome, i.VM).Add(instances[n : n+1])
		k.kept = append(k.kept, Instance{i, wall(i.Start)})
	}
	slices.SortStableFunc(k.kept, func(a, b Instance) int { return a.CompareWorst(&b.Instance) })
	k.kept = k.kept[:min(len(k.kept), k.N)]
}

// total returns the total of an outcome in a VM.
func (k *Keeper) total(name string, vm outcome.VM) *Total {
	at := slices.IndexFunc(k.tallies, func(t Total) bool { return t.Outcome == name && t.VM == vm })
	if at < 0 {
		at = len(k.tallies)
		k.tallies = append(k.tallies, Total{Outcome: name, VM: vm})
	}
	return &k.tallies[at]
}

// Instances returns the worst, the worst first.
func (k *Keeper) Instances() []Instance { return k.kept }

// Totals returns the totals of the outcomes and VMs, in the order in which they came.
func (k *Keeper) Totals() []Total { return k.tallies }

// Explained tells whether any instance had a trace, whether it was wanted or not.
func (k *Keeper) Explained() bool { return k.explains }
