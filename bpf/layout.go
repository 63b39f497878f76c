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
)

// errTooLarge says that the histograms asked for do not fit in the kernel map.
var errTooLarge = errors.New("histograms too large")

// layout says where the counters of each outcome are among the cells of a
// stripe. See the map cells in count.bpf.h.
type layout struct {
	first       []int // cell of slot 0, row 0, column 0, by outcome
	width       []int // columns and bins of a row, by outcome
	slots       int   // VM slots, and one for the VMs that found none free
	stripeCells int
	stripes     int // a power of two
}

// newLayout places the outcomes' cells for so many VM slots. It takes as many
// stripes as there are processors, or fewer where the map would get too large:
// counting is atomic, so stripes only keep processors out of each other's way.
func newLayout(outcomes []Outcome, slots, processors int) (layout, error) {
	l := layout{slots: slots + 1, stripes: ceilPowerOfTwo(processors), stripeCells: others}
	for _, o := range outcomes {
		width := columns + o.Bins
		l.first = append(l.first, l.stripeCells)
		l.width = append(l.width, width)
		l.stripeCells += l.slots * rows * width
	}
	for l.stripes > 1 && l.bytes() > maxCellsBytes {
		l.stripes /= 2
	}
	if l.bytes() > maxCellsBytes {
		return layout{}, fmt.Errorf("%w: %d MiB for %d outcomes of %d VMs, at most %d MiB: use fewer bins",
			errTooLarge, l.bytes()>>20, len(outcomes), slots, maxCellsBytes>>20)
	}
	return l, nil
}

func (l layout) bytes() int { return l.stripes * l.stripeCells * cellBytes }

// row returns the cell, in a stripe, of column 0 of a row.
func (l layout) row(outcome, slot, row int) int {
	return l.first[outcome] + (slot*rows+row)*l.width[outcome]
}

func ceilPowerOfTwo(n int) int {
	return 1 << bits.Len(uint(max(n, 1)-1))
}
