package scope

import (
	"slices"
	"time"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A System describes what an oscilloscope observes: its parts, their composition, and their
// requirements. It must not be changed after its first use.
type System struct {
	Window   time.Duration   // length of a window
	Outcomes []OutcomeSystem // every name of the diagram, and the other observed outcomes

	// Diagram composes the outcomes; nil if there is none. Every name in it is the name of an outcome.
	Diagram *diagram.File

	History int           // number of windows for means and bounds: 1 to dq.MaxWindow
	Bounds  MeanBounds    // of means
	Samples uint64        // least number of instances for a verdict on a window
	HoldOff time.Duration // least time between two firings of one trigger

	// Source is the scope file of the system, as in recordings; nil if there is none.
	Source []byte
}

// MeanBounds chooses the bounds of a mean: bounds that contain the long-run mean with a
// probability, or a number of standard errors to both sides, as in the thesis.
type MeanBounds struct {
	Confidence     float64 // above 0 and below 1, see [dq.Window.WriteBand]
	StandardErrors float64 // if above 0, see [dq.Window.WriteStandardErrors]
}

func (b MeanBounds) write(dst *dq.Band, w *dq.Window) error {
	if b.StandardErrors > 0 {
		return w.WriteStandardErrors(dst, b.StandardErrors)
	}
	return w.WriteBand(dst, b.Confidence)
}

// An OutcomeSystem describes the observation and the requirement of an outcome.
type OutcomeSystem struct {
	Spec     outcome.Spec
	QTA      *dq.QTA // nil without a requirement
	Triggers []Trigger
	Fitted   bool // beamscope chose dMax
}

// Grid returns the grid of the outcome's observed ΔQ.
func (p OutcomeSystem) Grid() (dq.Grid, error) { return dq.NewGrid(p.Spec.BinWidth, p.Spec.Bins) }

// Defaults of a System.
const (
	DefaultHistory    = 30
	DefaultConfidence = 0.95
	DefaultSamples    = 50 // the distribution is then known to within 0.2: dq.Epsilon(50, 0.05)
	DefaultHoldOff    = 10 * time.Second
)

// Plan returns the plan of the system for a source, from a time on.
func (s *System) Plan(from int64) outcome.Plan {
	p := outcome.Plan{From: from, Window: s.Window}
	for _, o := range s.Outcomes {
		spec := o.Spec
		if (len(o.Triggers) > 0 || spec.Explain) && spec.Detail == outcome.CountsOnly {
			spec.Detail = outcome.Worst
		}
		p.Specs = append(p.Specs, spec)
	}
	return p
}

// Defines reports whether the diagram defines an outcome. Without spans of its own such an outcome is
// calculated only.
func (s *System) Defines(name string) bool {
	return s.Diagram != nil && slices.ContainsFunc(s.Diagram.Definitions, func(d *diagram.Definition) bool { return d.Name == name })
}
