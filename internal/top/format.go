package top

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/safetext"
)

// count shows a number from 0 on in at most five characters: 0.3, 12, 3.42k, 120M.
func count(x float64) string {
	switch {
	case math.IsNaN(x):
		return "-"
	case x == 0:
		return "0"
	case x < 0.05:
		return "<0.1"
	case x < 9.95:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case x < 999.5:
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	for _, unit := range []string{"k", "M", "G", "T"} {
		x /= 1000
		switch {
		case x < 9.995:
			return strconv.FormatFloat(x, 'f', 2, 64) + unit
		case x < 99.95:
			return strconv.FormatFloat(x, 'f', 1, 64) + unit
		case x < 999.5:
			return strconv.FormatFloat(x, 'f', 0, 64) + unit
		}
	}
	return ">999T"
}

// percent shows a share in at most five characters, without the sign: 0.3, 12.3, 154.
func percent(share float64) string {
	x := share * 100
	switch {
	case math.IsNaN(x):
		return "-"
	case x == 0:
		return "0"
	case x < 0.05:
		return "<0.1"
	case x < 99.95:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}

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
		return percent(x)
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
	return count(x)
}

// process returns what a row is called: its key and its name, which may be anything.
func (r *Row) process() string { return safetext.Line(strings.TrimSpace(r.Key + " " + r.Name)) }

// machine returns what the VM of a row is called.
func (r *Row) machine() string { return safetext.Line(r.VM.String()) }
