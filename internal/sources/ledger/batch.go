package ledger

import (
	"cmp"
	"slices"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/intake"
)

// Batch returns the batch of a window from the books of all VMs, in the order of the VMs. Each
// page is a result of [Book.Collect].
func (e *Era) Batch(w outcome.Window, pages [][]intake.Cell) outcome.Batch {
	batch := outcome.Batch{Window: w, Time: monotonic.Wall(w.To)}
	for i, c := range e.Observations {
		batch.Counts = append(batch.Counts, countsOf(c, i, pages)...)
	}
	batch.Instances = instances(pages)
	return batch
}

// countsOf returns the counts of an outcome in all VMs, at least one.
func countsOf(c *Observation, index int, pages [][]intake.Cell) []outcome.Counts {
	if len(pages) == 0 {
		return []outcome.Counts{{Outcome: c.Spec.Name, Bins: make([]uint64, c.Grid.Bins())}}
	}
	counts := make([]outcome.Counts, len(pages))
	for i, cells := range pages {
		counts[i] = cells[index].Counts
	}
	return counts
}

// instances returns the kept instances, sorted by their ends.
func instances(pages [][]intake.Cell) []outcome.Instance {
	var all []outcome.Instance
	for _, cells := range pages {
		for i := range cells {
			all = cells[i].AppendInstances(all)
		}
	}
	slices.SortStableFunc(all, func(a, b outcome.Instance) int { return cmp.Compare(a.End, b.End) })
	return all
}
