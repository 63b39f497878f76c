package export

import (
	"encoding/json"
	"io"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// Curves writes the lines of a frame as Frame does, and adds the curves that are not hidden. s is
// the system of the frame.
func (j *JSON) Curves(f *scope.Frame, s *scope.System, hidden []plot.Role) error {
	return j.lines(f, func(l line, p *scope.Outcome) any {
		one := Plot{Hidden: hidden}
		series := plot.Of(p, requirement(s, p.Name), nil, "")
		return curvesLine{l, f.Number, shapeOf(&series, one.curves(&series))}
	})
}

// curvesLine is the format of lines with curves.
type curvesLine struct {
	line
	Number uint64 `json:"number"` // number of the window
	shape
}

// shape contains everything that is drawn for an outcome.
type shape struct {
	DMax       float64       `json:"dmax_s"`
	Required   []requiredTo  `json:"required"`    // null without a QTA
	MinSuccess *float64      `json:"min_success"` // null without a QTA
	Curves     []curvePoints `json:"curves"`
}

// requiredTo is a step of a QTA.
type requiredTo struct {
	Delay       float64 `json:"delay_s"`
	Probability float64 `json:"probability"`
}

// curvePoints is a curve at the edges of its bins. lower and upper are absent if the curve is
// exact there.
type curvePoints struct {
	Role        string    `json:"role"`
	Delay       []float64 `json:"delay_s"`
	Probability []float64 `json:"probability"`
	Lower       []float64 `json:"lower,omitempty"`
	Upper       []float64 `json:"upper,omitempty"`
}

// pictureObject is the format of a picture.
type pictureObject struct {
	Time     time.Time      `json:"time"`
	Number   uint64         `json:"number"` // number of the window
	Outcomes []seriesObject `json:"outcomes"`
}

type seriesObject struct {
	Outcome      string   `json:"outcome"`
	VM           *vm      `json:"vm"` // null if no VM was running
	Instances    uint64   `json:"instances"`
	Lost         uint64   `json:"lost"`
	Failed       *float64 `json:"failed"`                 // share that failed or timed out; null without instances
	Insufficient string   `json:"insufficient,omitempty"` // reason for no verdict
	shape
}

// writeJSON writes a picture as one object.
func writeJSON(w io.Writer, p Picture) error {
	out := pictureObject{Time: p.Time.UTC(), Number: p.Number, Outcomes: []seriesObject{}}
	for i := range p.Plots {
		one := &p.Plots[i]
		for j := range one.Series {
			s := &one.Series[j]
			out.Outcomes = append(out.Outcomes, seriesOf(s, one.curves(s)))
		}
	}
	return json.NewEncoder(w).Encode(out)
}

func seriesOf(s *plot.Series, curves []plot.Curve) seriesObject {
	out := seriesObject{Outcome: s.Name, VM: vmOf(s.VM), Instances: s.Instances, Lost: s.Lost, Insufficient: s.Caveat, shape: shapeOf(s, curves)}
	if s.HasFailed {
		out.Failed = figures.Number(s.Failed)
	}
	return out
}

func shapeOf(s *plot.Series, curves []plot.Curve) shape {
	out := shape{DMax: s.DMax.Seconds(), Curves: []curvePoints{}}
	if s.Judged {
		out.Required, out.MinSuccess = []requiredTo{}, &s.MinSuccess
		for _, step := range s.Required {
			out.Required = append(out.Required, requiredTo{step.T.Seconds(), step.P})
		}
	}
	for _, c := range curves {
		points := curvePoints{Role: c.Role.String(), Probability: c.Y, Lower: c.Lo, Upper: c.Hi}
		for k := range c.Y {
			points.Delay = append(points.Delay, (time.Duration(k) * c.Width).Seconds())
		}
		out.Curves = append(out.Curves, points)
	}
	return out
}

// required returns the steps of the QTA of a series. The last one is the total success required
// at dMax, because nothing succeeds later.
func required(s *plot.Series) []dq.Step {
	if !s.Judged {
		return nil
	}
	return append(s.Required[:len(s.Required):len(s.Required)], dq.Step{T: s.DMax, P: s.MinSuccess})
}

// vmOf returns nil for the zero VM.
func vmOf(v outcome.VM) *vm {
	if v == (outcome.VM{}) {
		return nil
	}
	return &vm{PID: v.PID, Node: v.Node}
}
