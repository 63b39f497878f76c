package export

import (
	"fmt"
	"io"
	"time"

	"github.com/beamscope/beamscope/internal/recording"
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
	Share float64  `json:"share"`
	Usual *float64 `json:"usual,omitempty"` // absent where there were no quiet windows
	Time  int64    `json:"ns"`
}

// cause is what time went to. Process and name are absent of the instances' own process.
type cause struct {
	Kind    string `json:"kind"` // "other" for all that have no share of their own
	Process string `json:"process,omitempty"`
	Name    string `json:"name,omitempty"`
	Own     bool   `json:"own"`
}

type shift struct {
	Since time.Time `json:"since"`
	cause
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
	for i := range x.Shares {
		s := &x.Shares[i]
		share := timeShare{cause: causeOf(s.Cause), Share: s.Of, Time: int64(s.Time)}
		if x.Quiet > 0 {
			share.Usual = &s.Usual
		}
		out.Shares = append(out.Shares, share)
	}
	if x.Others > 0 {
		out.Shares = append(out.Shares, timeShare{cause: cause{Kind: "other"}, Share: float64(x.Others) / float64(x.Total), Time: int64(x.Others)})
	}
	if s := x.Shift; s != nil {
		out.Shift = &shift{s.Since.UTC(), causeOf(s.Cause), s.From, s.To}
	}
	return out
}

func causeOf(c scope.Cause) cause {
	return cause{Kind: c.Kind.Word(), Process: pidOf(c.Process), Name: c.Name, Own: c.Own}
}

// explain writes where the time of the probes of a frame went, in a line each.
func explain(w io.Writer, f *scope.Frame) {
	several := severalVMs(f)
	for i := range f.Probes {
		if p := &f.Probes[i]; p.Explained != nil {
			fmt.Fprintf(w, "%s: %s\n", label(p, several), p.Explained.Sentence())
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
