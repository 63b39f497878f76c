package top

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/beam/modname"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/host/safetext"
)

// delay formats a quantile: ≤1.25ms, with a tilde if it is inferred, or ≥10.0s if it is beyond
// the scale.
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

// cell returns the text in a cell of the column.
func (c Column) cell(of *Cells, dmax *[kinds]time.Duration) string {
	x, f := c.value(of), &of.Kinds[c.info().kind]
	switch c {
	case ByCPU, ByDirty, ByGC:
		return figures.Share(x)
	case ByP50, ByP99:
		q := f.P50
		if c == ByP99 {
			q = f.P99
		}
		if !f.Known {
			return "-"
		}
		return delay(q, dmax[c.info().kind], f.Inferred)
	case ByMessages:
		// Messages that waited since before the observation, or for longer than the scale, are
		// not counted when they are taken. Nor are those whose sending is not seen.
		if f.Known && (f.Timeouts > 0 || f.AtLeast || of.Seen.Before) {
			return atLeast(figures.Count(x))
		}
	case ByWaiting:
		return of.Seen.waitingText(x)
	case ByOldest:
		return of.Seen.oldestText()
	case ByMemory:
		if math.IsNaN(x) {
			return "-"
		}
		return figures.Count(x) + "B"
	case ByFunction:
		return of.Seen.functionText()
	}
	return figures.Count(x)
}

// atLeast formats a lower bound. A bound of 0 contains no information.
func atLeast(text string) string {
	if text == "0" {
		return "-"
	}
	return "≥" + text
}

// waitingText formats the number of waiting messages, with ≥ if there may be more, and ↑ if they
// grow.
func (s *Seen) waitingText(x float64) string {
	text := figures.Count(x)
	if x < 1000 { // false for NaN
		text = strconv.FormatInt(s.Waiting, 10)
	}
	if s.AtLeast {
		text = "≥" + text
	}
	if s.Growing {
		text += "↑"
	}
	return text
}

// oldestText formats the age of the oldest waiting message, with + if that came before the
// observation.
func (s *Seen) oldestText() string {
	switch {
	case !s.Aged, s.Oldest < time.Microsecond: // such a short lower bound contains no information
		return "-"
	case s.Before:
		return "≥" + figures.DelayDown(s.Oldest) + "+"
	}
	return "≥" + figures.DelayDown(s.Oldest)
}

// text formats the processor time that VMs used according to the operating system, or returns ""
// if unknown.
func (u Used) text() string {
	if !u.Known {
		return ""
	}
	return fmt.Sprintf("cpu %s%% of one core of %d (OS)", figures.Share(u.Share), u.Processors)
}

// process returns the displayed name of a row: its key, and its name with unsafe characters
// replaced.
func (r *Row) process() string {
	return safetext.Line(modname.Readable(strings.TrimSpace(r.Key + " " + r.Name)))
}

// machine returns the displayed name of a row's VM.
func (r *Row) machine() string { return safetext.Line(r.VM.String()) }
