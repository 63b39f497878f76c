package top

import (
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/modname"
	"github.com/beamscope/beamscope/internal/safetext"
)

// delay shows a quantile: ≤1.25ms, with a tilde where it is inferred, or ≥10.0s where it
// is beyond the scale.
func delay(q Quantile, dmax time.Duration, inferred bool) string {
	mark := ""
	if inferred {
		mark = "~"
	}
	switch {
	case !q.Some:
		return "-"
	case q.Beyond:
		return mark + "≥" + figures.DelayDown(dmax)
	}
	return mark + figures.AtMost(q.AtMost)
}

// cell returns the text of a number of a row.
func (c Column) cell(f *[kinds]Figures, dmax *[kinds]time.Duration) string {
	x := c.value(f)
	switch of := &f[c.info().kind]; c {
	case ByRun, ByGC:
		return figures.Share(x)
	case ByP50, ByP99:
		q := of.P50
		if c == ByP99 {
			q = of.P99
		}
		if !of.Known {
			return "-"
		}
		return delay(q, dmax[c.info().kind], of.Inferred)
	}
	return figures.Count(x)
}

// process returns what a row is called: its key and its name, which may be anything.
func (r *Row) process() string {
	return safetext.Line(modname.Readable(strings.TrimSpace(r.Key + " " + r.Name)))
}

// machine returns what the VM of a row is called.
func (r *Row) machine() string { return safetext.Line(r.VM.String()) }
