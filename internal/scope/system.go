package scope

import (
	"time"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/outcome"
)

// A System says what an oscilloscope observes, how its parts are composed, and
// what is required of them. It is not changed once it is in use.
type System struct {
	Window time.Duration // length of a window
	Probes []ProbeSystem // every name of the diagram, and what is observed besides

	// Diagram composes the probes; nil where there is none. Every name in it is
	// that of a probe.
	Diagram *diagram.File

	History int           // windows whose mean and bounds are kept: 1 to dq.MaxWindow
	Bounds  MeanBounds    // of means
	Samples uint64        // instances that a verdict on a window needs at least
	HoldOff time.Duration // between two firings of one trigger at least

	// Source is the scope file that says all this, as recordings keep it; nil where
	// there is none.
	Source []byte
}

// MeanBounds says which bounds a mean has: those that contain the long-run mean with a
// probability, or so many standard errors to either side, as in the thesis.
type MeanBounds struct {
	Confidence     float64 // above 0 and below 1, see [dq.Window.WriteBand]
	StandardErrors float64 // where it is above 0, see [dq.Window.WriteStandardErrors]
}

func (b MeanBounds) write(dst *dq.Band, w *dq.Window) error {
	if b.StandardErrors > 0 {
		return w.WriteStandardErrors(dst, b.StandardErrors)
	}
	return w.WriteBand(dst, b.Confidence)
}

// A ProbeSystem says how a probe is observed and what is required of it.
type ProbeSystem struct {
	Spec     outcome.Spec
	QTA      *dq.QTA // nil where nothing is required
	Triggers []Trigger
	Fitted   bool // beamscope chose dMax
}

// Grid returns the grid of the probe's observed ΔQ.
func (p ProbeSystem) Grid() (dq.Grid, error) { return dq.NewGrid(p.Spec.BinWidth, p.Spec.Bins) }

// Defaults of a System.
const (
	DefaultHistory    = 30
	DefaultConfidence = 0.95
	DefaultSamples    = 50 // the distribution is then known to within 0.2: dq.Epsilon(50, 0.05)
	DefaultHoldOff    = 10 * time.Second
)

// Plan returns what a source has to do for the system from a time on.
func (s *System) Plan(from int64) outcome.Plan {
	p := outcome.Plan{From: from, Window: s.Window}
	for _, probe := range s.Probes {
		spec := probe.Spec
		if (len(probe.Triggers) > 0 || spec.Explain) && spec.Detail == outcome.CountsOnly {
			spec.Detail = outcome.Worst
		}
		p.Specs = append(p.Specs, spec)
	}
	return p
}
