package scope

import (
	"time"

	"github.com/beamscope/beamscope/dq"
)

// recent contains the numbers of the last windows that have data, oldest first. Windows without
// data count as well when old ones are dropped.
type recent struct {
	keep    int
	numbers []uint64
}

// expire calls remove for each window before the last ones up to n.
func (r *recent) expire(n uint64, remove func()) {
	gone := 0
	for gone < len(r.numbers) && r.numbers[gone]+uint64(r.keep) <= n {
		remove()
		gone++
	}
	r.numbers = r.numbers[:copy(r.numbers, r.numbers[gone:])]
}

// A history keeps the ΔQs of the last windows for their mean.
type history struct {
	recent recent
	window *dq.Window
}

func newHistory(g dq.Grid, keep int) (history, error) {
	w, err := dq.NewWindow(g, keep)
	return history{recent{keep: keep}, w}, err
}

// observe adds the observed ΔQ of window n.
func (h *history) observe(n uint64, o *dq.Observed) error {
	h.recent.expire(n, h.window.RemoveOldest)
	h.recent.numbers = append(h.recent.numbers, n)
	return h.window.Insert(o)
}

// calculate adds the calculated ΔQ of window n, made from this many instances.
func (h *history) calculate(n uint64, d *dq.DeltaQ, instances uint64) error {
	h.recent.expire(n, h.window.RemoveOldest)
	h.recent.numbers = append(h.recent.numbers, n)
	return h.window.InsertCalculated(d, instances)
}

// clear drops all windows.
func (h *history) clear() {
	w, _ := dq.NewWindow(h.window.Grid(), h.recent.keep) // as it was made before
	*h = history{recent{keep: h.recent.keep}, w}
}

// write writes the mean as of window n, and uses m's memory.
func (h *history) write(m *Mean, n uint64, bounds MeanBounds) error {
	h.recent.expire(n, h.window.RemoveOldest)
	m.Windows = h.window.Len()
	m.Width = h.window.Grid().Width()
	if m.Windows == 0 {
		return nil
	}
	return bounds.write(&m.Band, h.window)
}

// A calculation keeps the calculated ΔQs of an outcome in the last windows, and their comparison
// with the observed ones.
type calculation struct {
	mean       history
	recent     recent
	comparison *dq.Comparison

	calculator dq.Calculator
	rebinned   dq.DeltaQ
}

// newCalculation returns a calculation for an outcome with bins of this width up to dMax. It uses a
// larger width if there would be too many bins.
func newCalculation(width, dMax time.Duration, keep int) (*calculation, error) {
	width = max(width, (dMax+dq.MaxBins-1)/dq.MaxBins)
	g, err := dq.NewGrid(width, int((dMax+width-1)/width))
	if err != nil {
		return nil, err
	}
	c := &calculation{recent: recent{keep: keep}}
	if c.mean, err = newHistory(g, keep); err != nil {
		return nil, err
	}
	c.comparison, err = dq.NewComparison(g, dMax, keep)
	return c, err
}

func (c *calculation) width() time.Duration { return c.mean.window.Grid().Width() }

// calculate adds the calculated ΔQ of window n, made from this many instances. Its bins must not
// be wider than those of the calculation.
func (c *calculation) calculate(n uint64, d *dq.DeltaQ, instances uint64) error {
	if d.Width() < c.width() {
		if err := c.calculator.Rebin(&c.rebinned, d, c.width()); err != nil {
			return err
		}
		d = &c.rebinned
	}
	return c.mean.calculate(n, d, instances)
}

// compare adds the observed ΔQ of window n, with its number of instances, and the calculated one.
func (c *calculation) compare(n uint64, observed *dq.DeltaQ, instances uint64, calculated *dq.DeltaQ, s dq.Sampling) error {
	c.recent.expire(n, c.comparison.RemoveOldest)
	c.recent.numbers = append(c.recent.numbers, n)
	return c.comparison.Insert(observed, instances, calculated, s)
}

// diverge returns the divergence as of window n, and the number of windows that it covers, or 0
// if there is none.
func (c *calculation) diverge(n uint64) (dq.Divergence, int) {
	c.recent.expire(n, c.comparison.RemoveOldest)
	if c.comparison.Len() == 0 {
		return dq.Divergence{}, 0
	}
	d, windows, _ := c.comparison.Diverge() // it fails only without pairs
	return d, windows
}
