package plot

import (
	"time"

	"github.com/beamscope/beamscope/dq"
)

// A Stretch is a part of the staircase that a QTA is: for delays from From on, and
// before To, a share P has to have succeeded.
type Stretch struct {
	From, To time.Duration // To is [dq.Unreached] for the last
	P        float64
	Missed   bool // and surely fewer have
}

// Requirement returns the staircase of the QTA, without what requires nothing: its
// steps, cut in two where the observed curve reaches them late, and from dMax on the
// share that has to succeed in the end.
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
		p = max(p, step.P) // a step that another implies changes nothing
		stairs = s.appendStretch(stairs, Stretch{From: step.T, To: to, P: p})
	}
	return s.appendStretch(stairs, Stretch{From: s.DMax, To: dq.Unreached, P: max(p, s.MinSuccess)})
}

// appendStretch appends a stretch, or the two parts of it of which the first is missed.
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

// missedUntil returns the delay up to which surely fewer succeed than a stretch asks
// for; its beginning where that cannot be said, or where nothing was observed.
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

// RequiredWithin returns the share that the QTA wants to have succeeded within t; 0
// where it wants nothing.
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

// Curve returns the curve in a role, nil where there is none.
func (s *Series) Curve(r Role) *Curve {
	for i := range s.Curves {
		if s.Curves[i].Role == r {
			return &s.Curves[i]
		}
	}
	return nil
}
