// Package figures formats numbers and names for people and as JSON, so that they look the same
// everywhere.
package figures

import (
	"math"
	"time"

	"github.com/beamscope/beamscope/dq"
)

// A QTA describes how a ΔQ compares with its requirement.
type QTA struct {
	Met    *bool   `json:"met"`    // null if the bounds do not show it
	Slack  *Margin `json:"slack"`  // at least; null unless met
	Hazard *Margin `json:"hazard"` // at most; null if met
}

// A Margin is a slack or a hazard. Time is null if there is none: no additional time would remove
// the hazard.
type Margin struct {
	Time        *float64 `json:"time_s"`
	Probability float64  `json:"probability"`
}

// OfJudgement returns the QTA form of a judgement.
func OfJudgement(j *dq.Judgement) *QTA {
	out := &QTA{Slack: margin(j.Slack), Hazard: margin(j.Hazard)}
	if j.Met != dq.CannotTell {
		met := j.Met == dq.Yes
		out.Met = &met
	}
	return out
}

func margin(m *dq.Margin) *Margin {
	if m == nil {
		return nil
	}
	out := &Margin{Probability: m.Probability}
	if m.HasTime {
		out.Time = Seconds(m.Time)
	}
	return out
}

// Number returns x, or nil if JSON cannot represent it.
func Number(x float64) *float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return nil
	}
	return &x
}

// Seconds returns a delay in seconds.
func Seconds(d time.Duration) *float64 { return Number(d.Seconds()) }
