package export

import (
	"io"
	"time"

	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/host/safetext"
)

// explained describes where the time of the explained instances of a window went.
type explained struct {
	N        int         `json:"n"` // number of instances
	Total    int64       `json:"total_ns"`
	Shares   []timeShare `json:"shares"`          // the largest first; they add up to the total
	Quiet    int         `json:"quiet_windows"`   // number of windows for the usual shares
	Shift    *shift      `json:"shift,omitempty"` // absent if nothing has grown
	Sentence string      `json:"sentence"`
}

type timeShare struct {
	cause
	doubt
	Share float64  `json:"share"`
	Usual *float64 `json:"usual,omitempty"` // absent if there were no quiet windows
	Time  int64    `json:"duration_ns"`
}

// cause describes where time went. Process and name are absent for the instances' own process.
type cause struct {
	Kind    string `json:"kind"` // "other" for all causes without their own share
	Process string `json:"process,omitempty"`
	Name    string `json:"name,omitempty"`
	Own     bool   `json:"own"`
}

// doubt is the uncertainty of a share of time. It is absent for kind "other".
type doubt struct {
	Mark   string `json:"mark,omitempty"`   // mark of the least certain part
	Reason string `json:"reason,omitempty"` // reason of the longest part
}

type shift struct {
	Since time.Time `json:"since"`
	cause
	doubt
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// explainedOf returns the explanation of an outcome, or nil if there is none.
func explainedOf(p *scope.Outcome) *explained {
	x := p.Explained
	if x == nil {
		return nil
	}
	out := &explained{N: x.Instances, Total: int64(x.Total), Quiet: x.Quiet, Sentence: x.Sentence()}
	out.Shares = timeShares(x.Shares, x.Others, x.Total)
	if x.Quiet > 0 {
		for i := range x.Shares {
			out.Shares[i].Usual = &x.Shares[i].Usual
		}
		if len(out.Shares) > len(x.Shares) {
			others := x.UsualOthers()
			out.Shares[len(x.Shares)].Usual = &others
		}
	}
	if s := x.Shift; s != nil {
		out.Shift = &shift{s.Since.UTC(), causeOf(s.Cause), doubtOf(s.Doubt), s.From, s.To}
	}
	return out
}

// timeShares converts shares, and adds one for all others.
func timeShares(shares []scope.Share, others, total time.Duration) []timeShare {
	out := []timeShare{}
	for i := range shares {
		s := &shares[i]
		out = append(out, timeShare{cause: causeOf(s.Cause), doubt: doubtOf(s.Doubt), Share: s.Of, Time: int64(s.Time)})
	}
	if others > 0 {
		out = append(out, timeShare{cause: cause{Kind: "other"}, Share: float64(others) / float64(total), Time: int64(others)})
	}
	return out
}

func causeOf(c scope.Cause) cause {
	return cause{Kind: c.Kind.Word(), Process: pidOf(c.Process), Name: c.Name, Own: c.Own}
}

func doubtOf(d scope.Doubt) doubt { return doubt{d.Mark.String(), d.Reason} }

// explain writes for each outcome of a frame a line about where the time went.
func (c columns) explain(w io.Writer, f *scope.Frame) {
	for i := range f.Outcomes {
		if p := &f.Outcomes[i]; p.Explained != nil {
			safetext.Fprintf(w, "%s: %s\n", c.label(p), p.Explained.Sentence())
		}
	}
}

// Explanation returns the text about where the time went that comes before one of the causes of a
// snapshot. It returns "" if that is unknown or already in an earlier text.
func Explanation(causes []recording.Cause, i int) string {
	if i > 0 && causes[i-1].Explanation == causes[i].Explanation {
		return ""
	}
	return causes[i].Explanation
}

// Why describes in one line why a trigger fired. It begins with where the time of the instances
// went, if that is known.
func Why(explanation, cause string) string {
	if explanation == "" {
		return cause
	}
	return explanation + " (" + cause + ")"
}
