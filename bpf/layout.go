package bpf

import (
	"fmt"
	"math/bits"
)

const (
	// windows is the number of windows with a row at one time, as in count.bpf.h. The row after
	// them is for events that fit into none.
	windows = 8
	rows    = windows + 1
	columns = int(kernelColumnCOLUMNS)
	others  = int(kernelOtherOTHERS) // cells at the start of a stripe

	cellBytes     = 8
	maxCellsBytes = 1 << 30

	// Room for later outcomes: at least for this number, and for as many cells as the present ones
	// have, within limits.
	spareOutcomes = 64
	minSpareCells = 1 << 17
	maxSpareBytes = 64 << 20

	// With discovery, most outcomes come later, and several may change at a time, so they need
	// room. There may be many, so fewer stripes keep their memory within maxDiscoveredBytes if possible, and
	// within mostDiscoveredBytes in any case. With more VM slots there is room for fewer outcomes.
	spareDiscovered     = 512
	changingBins        = 16 * 1000
	maxDiscoveredBytes  = 128 << 20
	mostDiscoveredBytes = 192 << 20
)

// spareEntries returns the number of additional outcomes with room.
func spareEntries(o Options) int {
	if o.Discover {
		return spareDiscovered
	}
	return spareOutcomes
}

// errTooLarge means that the requested histograms do not fit into the kernel map.
var errTooLarge = fmt.Errorf("%w: histograms too large", ErrNoRoom)

// A layout describes the places of the counters among the cells. See the map cells in count.bpf.h.
type layout struct {
	slots       int // VM slots, and one for VMs without a slot
	stripeCells int // cells that the outcomes need, and spare ones
	stripes     int // a power of two
}

// newLayout makes room for the outcomes' cells, for a number of VM slots. It uses one stripe for
// each processor, or fewer if the map would become too large: counting is atomic, and stripes only
// reduce contention between processors. There is also room for later outcomes, with discovery as
// much as possible.
func newLayout(outcomes []Outcome, slots, processors int, discover bool) (layout, error) {
	l := layout{slots: slots + 1, stripes: ceilPowerOfTwo(processors), stripeCells: others + slots + 1}
	for _, o := range outcomes {
		l.stripeCells += l.size(o.Bins)
	}
	limit, most := maxCellsBytes, maxCellsBytes
	if discover {
		limit, most = mostDiscoveredBytes, maxDiscoveredBytes
		for l.stripes > 1 && maxSpareBytes/cellBytes/l.stripes < l.size(changingBins) {
			l.stripes /= 2
		}
	}
	for l.stripes > 1 && l.bytes() > most {
		l.stripes /= 2
	}
	if l.bytes() > limit {
		return layout{}, fmt.Errorf("%w: %d MiB for %d outcomes of %d VMs, at most %d MiB: use fewer bins",
			errTooLarge, l.bytes()>>20, len(outcomes), slots, limit>>20)
	}
	spare := maxSpareBytes / cellBytes / l.stripes
	if !discover {
		spare = min(spare, l.stripeCells)
	}
	spare = max(spare, minSpareCells)
	l.stripeCells += min(spare, limit/cellBytes/l.stripes-l.stripeCells)
	return l, nil
}

// ofOutcomes returns the cells of a stripe for outcomes. The cells before them count events without
// an outcome, and the hits in each VM.
func (l layout) ofOutcomes() region {
	first := others + l.slots
	return region{first, l.stripeCells - first}
}

func (l layout) bytes() int { return l.stripes * l.stripeCells * cellBytes }

// size returns the number of cells of a stripe that an outcome needs.
func (l layout) size(bins int) int { return l.slots * rows * (columns + bins) }

// row returns the cell, in a stripe, of column 0 of a row of an outcome.
func (l layout) row(cells region, bins, slot, row int) int {
	return cells.first + (slot*rows+row)*(columns+bins)
}

func ceilPowerOfTwo(n int) int {
	return 1 << bits.Len(uint(max(n, 1)-1))
}
