package bpf

import (
	"errors"
	"fmt"
	"math/bits"
)

const (
	// windows is how many windows have rows of their own at one time, as in
	// count.bpf.h; the row behind them is for what fits in none.
	windows = 8
	rows    = windows + 1
	columns = int(kernelColumnCOLUMNS)
	others  = int(kernelOtherOTHERS) // cells at the start of a stripe

	cellBytes     = 8
	maxCellsBytes = 1 << 30

	// Room for outcomes that come later: at least for so many, and for as many
	// cells as those that there are, within limits.
	spareOutcomes = 64
	minSpareCells = 1 << 17
	maxSpareBytes = 64 << 20

	// With discovery, most outcomes come later, and some change at a time, for which
	// there is to be room. They may be many, so what they take is kept within limits
	// by fewer stripes. The limits are those for so many VM slots, and larger in
	// proportion for more.
	spareDiscovered    = 512
	changingBins       = 16 * 1000
	maxDiscoveredBytes = 128 << 20
	slotsAtLimits      = 8
)

// spareEntries returns how many outcomes more than those that there are have room.
func spareEntries(o Options) int {
	if o.Discover {
		return spareDiscovered
	}
	return spareOutcomes
}

// errTooLarge says that the histograms asked for do not fit in the kernel map.
var errTooLarge = errors.New("histograms too large")

// A layout says how the counters are placed among the cells. See the map cells in
// count.bpf.h.
type layout struct {
	slots       int // VM slots, and one for the VMs that found none free
	stripeCells int // those that the outcomes need, and spare ones
	stripes     int // a power of two
}

// newLayout makes room for the outcomes' cells, for so many VM slots. It takes as
// many stripes as there are processors, or fewer where the map would get too
// large: counting is atomic, so stripes only keep processors out of each other's
// way. There is room for later outcomes, with discovery as much as there may be.
func newLayout(outcomes []Outcome, slots, processors int, discover bool) (layout, error) {
	l := layout{slots: slots + 1, stripes: ceilPowerOfTwo(processors), stripeCells: others + slots + 1}
	for _, o := range outcomes {
		l.stripeCells += l.size(o.Bins)
	}
	most, spareBytes := maxCellsBytes, maxSpareBytes
	if discover {
		times := max(1, slots/slotsAtLimits)
		most, spareBytes = min(maxCellsBytes, times*maxDiscoveredBytes), min(maxCellsBytes/2, times*maxSpareBytes)
		for l.stripes > 1 && spareBytes/cellBytes/l.stripes < l.size(changingBins) {
			l.stripes /= 2
		}
	}
	for l.stripes > 1 && l.bytes() > most {
		l.stripes /= 2
	}
	if l.bytes() > maxCellsBytes {
		return layout{}, fmt.Errorf("%w: %d MiB for %d outcomes of %d VMs, at most %d MiB: use fewer bins",
			errTooLarge, l.bytes()>>20, len(outcomes), slots, maxCellsBytes>>20)
	}
	spare := spareBytes / cellBytes / l.stripes
	if !discover {
		spare = min(spare, l.stripeCells)
	}
	spare = max(spare, minSpareCells)
	l.stripeCells += min(spare, maxCellsBytes/cellBytes/l.stripes-l.stripeCells)
	return l, nil
}

// ofOutcomes returns the cells of a stripe that are for outcomes: those before have what is
// of none, and the hits in each VM.
func (l layout) ofOutcomes() region {
	first := others + l.slots
	return region{first, l.stripeCells - first}
}

func (l layout) bytes() int { return l.stripes * l.stripeCells * cellBytes }

// size returns how many cells of a stripe an outcome needs.
func (l layout) size(bins int) int { return l.slots * rows * (columns + bins) }

// row returns the cell, in a stripe, of column 0 of a row of an outcome.
func (l layout) row(cells region, bins, slot, row int) int {
	return cells.first + (slot*rows+row)*(columns+bins)
}

func ceilPowerOfTwo(n int) int {
	return 1 << bits.Len(uint(max(n, 1)-1))
}
