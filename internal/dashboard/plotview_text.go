package dashboard

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/uniseg"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/plot"
)

// Words are a piece of text that looks one way.
type words struct {
	text  string
	style tcell.Style
}

// put writes text from a cell on, in at most so many columns, and returns how many it
// took. What does not fit ends with an ellipsis.
func put(screen tcell.Screen, x, y, columns int, text string, style tcell.Style) int {
	cut := uniseg.StringWidth(text) > columns
	if cut {
		columns--
	}
	used := 0
	for text != "" {
		rest, width := cluster(text)
		if used+width > columns {
			break
		}
		screen.Put(x+used, y, text[:len(text)-len(rest)], style)
		text, used = rest, used+width
	}
	if cut && columns >= 0 {
		screen.Put(x+used, y, "…", style)
		used++
	}
	return used
}

// cluster returns what comes after the first character of a text, with its marks, and
// how many columns that takes.
func cluster(text string) (rest string, width int) {
	_, rest, width, _ = uniseg.FirstGraphemeClusterInString(text, -1)
	return rest, width
}

// facts appends what has to be known of the series: how much they are of, and why they
// cannot be trusted.
func (t *theme) facts(to []words, series []plot.Series) []words {
	if len(series) != 1 {
		return t.caveats(to, series)
	}
	n := "n=" + strconv.FormatUint(series[0].Instances, 10)
	switch {
	case series[0].Instances == 0:
	case series[0].Inferred:
		to = append(to, words{strings.Replace(n, "=", "=~", 1), t.Style(dim)}, words{"~ paired by their order", t.Style(doubtful)})
	default:
		to = append(to, words{n, t.Style(dim)})
	}
	return t.caveats(to, series)
}

func (t *theme) caveats(to []words, series []plot.Series) []words {
	for i := range series {
		s, whose := &series[i], ""
		if len(series) > 1 {
			whose = strconv.Itoa(i+1) + ": "
		}
		if s.Lost > 0 {
			to = append(to, words{fmt.Sprintf("%s%d lost", whose, s.Lost), t.Style(doubtful)})
		}
		if s.Caveat != "" && s.Instances > 0 {
			to = append(to, words{whose + "insufficient: " + s.Caveat, t.Style(doubtful)})
		}
	}
	return to
}

// nothing says why there is no observed curve.
func (v *plotView) nothing() string {
	why := "no instances"
	if len(v.series) == 0 {
		return "nothing to show"
	}
	if longest := v.silent(); longest > 0 {
		return fmt.Sprintf("%s for %v", why, longest)
	}
	if len(v.series) == 1 && v.series[0].Caveat != "" && v.series[0].Lost == 0 {
		why = v.series[0].Caveat
	}
	return why + " in this window"
}

// silent returns for how long no instance of any of the series has ended; 0 where that
// is not known of one of them.
func (v *plotView) silent() time.Duration {
	least := v.series[0].Silent
	for i := range v.series {
		least = min(least, v.series[i].Silent)
	}
	return least
}

// An entry of the legend says what a line is.
type entry struct {
	mark string // the number of a probe, where there are several
	line words  // a sample of the line
	name string
}

func (e *entry) width() int {
	return len(e.mark) + uniseg.StringWidth(e.line.text) + 1 + uniseg.StringWidth(e.name)
}

// entries appends the entries of the legend.
func (v *plotView) entries(to []entry) []entry {
	several, mark := len(v.series) > 1, ""
	if several {
		mark = " " // below the numbers
	}
	for i := range v.series {
		if several {
			to = append(to, v.probeEntry(i))
		}
	}
	judged := false
	for i := range v.series {
		judged = judged || v.series[i].Judged
	}
	roles := plot.Roles()
	for i := range roles {
		r := roles[len(roles)-1-i]
		if v.drawn(r) && !(several && r == plot.Observed) {
			s := v.theme.roleStroke(r)
			if several {
				s.style = tcell.StyleDefault
			}
			to = append(to, entry{mark, s.sample(), v.nameOf(r)})
		}
	}
	if judged {
		s := v.theme.requiredStroke()
		to = append(to, entry{mark, s.sample(), "QTA"})
	}
	return to
}

// nameOf names the curves in a role, which are of one window.
func (v *plotView) nameOf(r plot.Role) string {
	for i := range v.series {
		if c := v.series[i].Curve(r); c != nil {
			return c.Name()
		}
	}
	return r.String()
}

// drawn tells whether there is a curve in a role, and it is not hidden.
func (v *plotView) drawn(r plot.Role) bool {
	for i := range v.series {
		if v.series[i].Curve(r) != nil {
			return v.visible(r)
		}
	}
	return false
}

func (v *plotView) probeEntry(i int) entry {
	s := &v.series[i]
	e := entry{mark: strconv.Itoa(i + 1), line: v.theme.probeStroke(i, plot.Observed).sample(), name: plot.NameAmong(v.series, i)}
	switch {
	case s.Instances == 0:
		e.name += ", no instances"
	case s.Failed > 0:
		e.name += ", " + howFailed(s) + " " + percent(s.Failed)
	}
	return e
}

// sample returns a piece of the line.
func (s stroke) sample() words {
	const cells = 3
	var b strings.Builder
	for i := range cells {
		pattern := rune(0x2800)
		for j, bit := range []rune{0x04, 0x20} { // the third dots from above
			if s.dash.Draws(2*i + j) {
				pattern |= bit
			}
		}
		b.WriteRune(pattern)
	}
	return words{b.String(), s.style}
}

// readout says what the curves are at the cursor, for people: of one probe in one line
// how much succeeds within the delay, and in one within which delays a round share
// does; of several in a line each. It is nil without a cursor.
func (v *plotView) readout() []string {
	var lines []string
	for _, items := range v.items() {
		lines = append(lines, strings.Join(items, "  "))
	}
	return lines
}

// items returns the parts of the lines of the readout.
func (v *plotView) items() [][]string {
	if !v.cursor.on {
		return nil
	}
	t, known := v.cursorDelay()
	share := v.roundShare()
	var lines [][]string
	for i := range v.series {
		s := &v.series[i]
		var name []string
		if len(v.series) > 1 {
			name = append(name, strconv.Itoa(i+1)+" "+plot.NameAmong(v.series, i))
		}
		var within, quantile []string
		if known {
			within = slices.Concat(name, v.withinItems(s, t))
		}
		if share > 0 {
			quantile = slices.Concat(name, v.quantileItems(s, share))
		}
		switch {
		case len(v.series) > 1 && known:
			lines = append(lines, within)
		case len(v.series) > 1:
			lines = append(lines, quantile)
		default:
			lines = append(lines, within, quantile)
		}
	}
	return slices.DeleteFunc(lines, func(items []string) bool { return len(items) == 0 })
}

// withinItems says how much of a series succeeds within a delay.
func (v *plotView) withinItems(s *plot.Series, t time.Duration) []string {
	items := []string{"at " + figures.ExactDelay(t)}
	v.eachRole(s, func(c *plot.Curve) {
		if b, ok := c.Read(t); ok {
			items = append(items, c.Name()+" "+succeeding(c, t, b))
		}
	})
	if p := s.RequiredWithin(t); p > 0 {
		item := "QTA " + exactly(p)
		if c := s.Curve(plot.Observed); c != nil {
			if b, ok := c.Within(t); ok && !dq.AtLeast(b.Hi, p) {
				item += " missed"
			}
		}
		items = append(items, item)
	}
	return items
}

// quantileItems says within which delay a share of a series succeeds.
func (v *plotView) quantileItems(s *plot.Series, p float64) []string {
	items := []string{exactly(p) + " within"}
	v.eachRole(s, func(c *plot.Curve) {
		q, ok := c.Quantile(p)
		items = append(items, c.Name()+" "+reached(c, q, ok))
	})
	return items
}

// eachRole calls f for the curves of a series that are shown, the observed one first.
func (v *plotView) eachRole(s *plot.Series, f func(*plot.Curve)) {
	roles := plot.Roles()
	for i := range roles {
		r := roles[len(roles)-1-i]
		if c := s.Curve(r); c != nil && v.visible(r) {
			f(c)
		}
	}
}

// succeeding shows how much of a curve succeeds within t, which is within bounds; of a
// mean the mean, and behind it its bounds where it has any: 94.0 (85.0…100.0)%.
func succeeding(c *plot.Curve, t time.Duration, b dq.Bounds) string {
	if !c.IsMean() {
		return between(b)
	}
	middle, _ := c.Middle(t)
	if c.Lo == nil {
		return between(middle)
	}
	return strings.TrimSuffix(between(middle), "%") + " (" + inPercent(b.Lo) + "…" + inPercent(b.Hi) + ")%"
}

// reached shows the bounds of a quantile: of a mean both, else what matters is how late
// it may be.
func reached(c *plot.Curve, q dq.Interval, ok bool) string {
	switch {
	case !ok:
		return "never"
	case c.IsMean():
		return figures.Between(q)
	case !q.Finite():
		return "≥" + figures.DelayDown(q.Lo) + " or never"
	}
	return figures.AtMost(q.Hi)
}

// between shows the bounds of a probability, as one figure where they look the same.
func between(b dq.Bounds) string {
	lo, hi := inPercent(b.Lo), inPercent(b.Hi)
	if lo == hi {
		return hi + "%"
	}
	return lo + "…" + hi + "%"
}

// percent shows a probability with its sign.
func percent(p float64) string { return inPercent(p) + "%" }

// inPercent shows a probability with three digits, or as many as it takes to tell it
// from 0 and 1; with the most that there are, as nearer to the middle than it is.
func inPercent(p float64) string {
	const most, least = 4, 1e-6
	decimals := 1
	if near := min(p, 1-p); near > dq.Tolerance {
		p = max(least, min(1-least, p))
		if p < 0.09995 {
			decimals = 2
		}
		for limit := 0.5 * math.Pow10(-2-decimals); near < limit && decimals < most; limit /= 10 {
			decimals++
		}
	}
	return strconv.FormatFloat(p*100, 'f', decimals, 64)
}

// exactly shows a probability that a person has chosen, with the decimals that it has.
func exactly(p float64) string {
	return strconv.FormatFloat(math.Round(p*1e8)/1e6, 'f', -1, 64) + "%"
}
