package top

import (
	"fmt"
	"math"
	"strconv"
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

// cell returns the text of a number of a row, or of its function.
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
		// What waited since before the observation, or for longer than the scale, is not
		// counted when it is taken.
		if f.Known && (f.Timeouts > 0 || of.Seen.Before) {
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

// atLeast shows a lower bound; one of 0 says nothing.
func atLeast(text string) string {
	if text == "0" {
		return "-"
	}
	return "≥" + text
}

// waitingText shows how many messages wait: ≥ where there may be more, ↑ where they grow.
func (s *Seen) waitingText(x float64) string {
	text := figures.Count(x)
	if x < 1000 { // not for NaN
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

// oldestText shows the age of what waits for longest: + where that was there before the
// observation.
func (s *Seen) oldestText() string {
	switch {
	case !s.Aged, s.Oldest < time.Microsecond: // so short a lower bound says nothing
		return "-"
	case s.Before:
		return "≥" + figures.DelayDown(s.Oldest) + "+"
	}
	return "≥" + figures.DelayDown(s.Oldest)
}

// text shows what the operating system says that VMs used, "" where that is not known.
func (u Used) text() string {
	if !u.Known {
		return ""
	}
	return fmt.Sprintf("cpu %s%% of %d cores by the OS", figures.Share(u.Share), u.Processors)
}

// process returns what a row is called: its key and its name, which may be anything.
func (r *Row) process() string {
	return safetext.Line(modname.Readable(strings.TrimSpace(r.Key + " " + r.Name)))
}

// machine returns what the VM of a row is called.
func (r *Row) machine() string { return safetext.Line(r.VM.String()) }
