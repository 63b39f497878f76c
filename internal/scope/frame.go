// Package scope is the oscilloscope itself: it asks the sources for one window
// after the other, and turns what they counted into frames. Whoever shows or
// keeps anything reads frames, and nothing else.
package scope

import (
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/outcome"
)

// A Frame is everything that is known of one window.
type Frame struct {
	Number uint64 // of the window, from 0
	Window outcome.Window
	Time   time.Time // wall time of the window's end
	Probes []Probe   // in the order of the configuration; a probe of several VMs once for each
	Cost   Cost
}

// A Probe is what was seen of one outcome of one VM in one window.
type Probe struct {
	Name     string
	Observed *dq.Observed
	Counts   outcome.Counts
}

// Cost is what observing cost in the window, as far as it is known.
type Cost struct {
	VMs       outcome.Cost  // in the observed VMs
	Collector time.Duration // processor time of this process, user and system
}

// Quantiles returns the probabilities whose quantiles are shown everywhere.
func Quantiles() []float64 { return []float64{0.25, 0.5, 0.75, 0.99} }
