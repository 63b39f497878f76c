package export

import (
	"io"
	"time"

	"github.com/beamscope/beamscope/internal/recording"
	"github.com/beamscope/beamscope/internal/safetext"
	"github.com/beamscope/beamscope/internal/scope"
)

// explained says where the time of the instances of a window went, as far as these are
// explained.
type explained struct {
	N        int         `json:"n"` // instances
	Total    int64       `json:"total_ns"`
	Shares   []timeShare `json:"shares"`          // the largest first; they add up to the total
	Quiet    int         `json:"quiet_windows"`   // that usual shares are of
	Shift    *shift      `json:"shift,omitempty"` // absent where nothing has grown
	Sentence string      `json:"sentence"`
}

type timeShare struct {
	cause
	doubt
	Share float64  `json:"share"`
	Usual *float64 `json:"usual,omitempty"` // absent where there were no quiet windows
	Time  int64    `json:"duration_ns"`
}

// cause is what time went to. Process and name are absent of the instances' own process.
type cause struct {
	Kind    string `json:"kind"` // "other" for all that have no share of their own
	Process string `json:"process,omitempty"`
	Name    string `json:"name,omitempty"`
	Own     bool   `json:"own"`
}

// doubt is what is not certain of time; absent of kind "other".
type doubt struct {
	Mark   string `json:"mark,omitempty"`   // of the least certain part
	Reason string `json:"reason,omitempty"` // of the longest part
}

type shift struct {
	Since time.Time `json:"since"`
	cause
	doubt
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// explainedOf returns what is known of a probe, nil for nothing.
func explainedOf(p *scope.Probe) *explained {
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

// timeShares returns the form of shares, and of what others there are besides.
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

// explain writes where the time of the probes of a frame went, in a line each.
func explain(w io.Writer, f *scope.Frame) {
	several := severalVMs(f)
	for i := range f.Probes {
		if p := &f.Probes[i]; p.Explained != nil {
			safetext.Fprintf(w, "%s: %s\n", label(p, several), p.Explained.Sentence())
		}
	}
}

// Explanation returns what is to be said before one of the causes of a snapshot: where the
// time went, and "" where that is not known or was said before.
func Explanation(causes []recording.Cause, i int) string {
	if i > 0 && causes[i-1].Explanation == causes[i].Explanation {
		return ""
	}
	return causes[i].Explanation
}

// Why says in a line why a trigger fired: what the time of the instances went to comes
// first, where that is known.
func Why(explanation, cause string) string {
	if explanation == "" {
		return cause
	}
	return explanation + " (" + cause + ")"
}
