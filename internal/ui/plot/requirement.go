package plot

import (
	"time"

	"github.com/beamscope/beamscope/dq"
)

// A Stretch is a part of the staircase that represents a QTA: for delays from From up to, but not
// including, To, the QTA requires that a share P succeeds.
type Stretch struct {
	From, To time.Duration // To is [dq.Unreached] for the last
	P        float64
	Missed   bool // certainly fewer succeeded
}

// Requirement returns the staircase of the QTA, without stretches that require nothing. It contains
// the steps, each divided in two if the observed curve reaches it late, and from dMax on the share
// that must succeed in the end.
func (s *Series) Requirement() []Stretch {
	if !s.Judged {
		return nil
	}
	var stairs []Stretch
	p := 0.0
	for i := range s.Required {
		step := s.Required[i]
		to := s.DMax
		if i+1 < len(s.Required) {
			to = min(to, s.Required[i+1].T)
		}
		p = max(p, step.P) // an earlier step may already require more
		stairs = s.appendStretch(stairs, Stretch{From: step.T, To: to, P: p})
	}
	return s.appendStretch(stairs, Stretch{From: s.DMax, To: dq.Unreached, P: max(p, s.MinSuccess)})
}

// appendStretch appends a stretch, divided into a missed and a met part if both exist.
func (s *Series) appendStretch(to []Stretch, x Stretch) []Stretch {
	if x.P <= 0 || x.From >= x.To {
		return to
	}
	if end := s.missedUntil(x); end > x.From {
		to = append(to, Stretch{From: x.From, To: end, P: x.P, Missed: true})
		x.From = end
	}
	if x.From < x.To {
		to = append(to, x)
	}
	return to
}

// missedUntil returns the delay up to which certainly fewer succeed than a stretch requires. It
// returns the beginning of the stretch if that is uncertain, or if nothing was observed.
func (s *Series) missedUntil(x Stretch) time.Duration {
	c := s.Curve(Observed)
	if c == nil {
		return x.From
	}
	if b, ok := c.Within(x.From); !ok || dq.AtLeast(b.Hi, x.P) {
		return x.From
	}
	if v, ok := c.Quantile(x.P); ok {
		return max(x.From, min(x.To, v.Lo))
	}
	return x.To
}

// RequiredWithin returns the share that must succeed within t according to the QTA; 0 without a
// requirement.
func (s *Series) RequiredWithin(t time.Duration) float64 {
	p := 0.0
	if !s.Judged {
		return p
	}
	for _, step := range s.Required {
		if step.T <= t {
			p = max(p, step.P)
		}
	}
	if t >= s.DMax {
		p = max(p, s.MinSuccess)
	}
	return p
}

// Curve returns the curve with a role, nil if there is none.
func (s *Series) Curve(r Role) *Curve {
	for i := range s.Curves {
		if s.Curves[i].Role == r {
			return &s.Curves[i]
		}
	}
	return nil
}
