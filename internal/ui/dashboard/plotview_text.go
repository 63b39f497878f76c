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
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// Words are a piece of text in one style.
type words struct {
	text  string
	style tcell.Style
}

// put writes text from a cell on in at most this many columns, and returns the number it took.
// Text that does not fit ends with an ellipsis.
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

// cluster returns what follows the first character of a text and its marks, and the width of that
// character.
func cluster(text string) (rest string, width int) {
	_, rest, width, _ = uniseg.FirstGraphemeClusterInString(text, -1)
	return rest, width
}

// facts appends what the user must know about the series: the number of instances, and the
// reasons why they cannot be trusted.
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
		if s.Caveat != "" && s.Instances > 0 && s.Judged { // without a judgement nothing is insufficient
			to = append(to, words{whose + "insufficient: " + s.Caveat, t.Style(doubtful)})
		}
	}
	return to
}

// nothing explains why there is no observed curve.
func (v *plotView) nothing() string {
	why := "no instances"
	if len(v.series) == 0 {
		return "not observed: c has the notices"
	}
	var late uint64
	for i := range v.series {
		late += v.series[i].Late
	}
	if late > 0 { // all instances were slow, which must not look like an outage
		return fmt.Sprintf("%s but %d that ended after their timeout", why, late)
	}
	if longest := v.silent(); longest > 0 {
		return fmt.Sprintf("%s for %v", why, longest)
	}
	if len(v.series) == 1 && v.series[0].Caveat != "" && v.series[0].Lost == 0 {
		why = v.series[0].Caveat
	}
	return why + " in this window"
}

// silent returns the time since an instance of any series last ended. It returns 0 if that is
// unknown for one of them.
func (v *plotView) silent() time.Duration {
	least := v.series[0].Silent
	for i := range v.series {
		least = min(least, v.series[i].Silent)
	}
	return least
}

// An entry of the legend explains a line.
type entry struct {
	mark string // the number of the outcome, if there are several
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
		mark = " " // in the column of the numbers
	}
	for i := range v.series {
		if several {
			to = append(to, v.outcomeEntry(i))
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

// nameOf returns the name of the curves in a role. All curves in a role belong to one window.
func (v *plotView) nameOf(r plot.Role) string {
	for i := range v.series {
		if c := v.series[i].Curve(r); c != nil {
			return c.Name()
		}
	}
	return r.String()
}

// drawn reports whether there is a visible curve in a role.
func (v *plotView) drawn(r plot.Role) bool {
	for i := range v.series {
		if v.series[i].Curve(r) != nil {
			return v.visible(r)
		}
	}
	return false
}

func (v *plotView) outcomeEntry(i int) entry {
	s := &v.series[i]
	e := entry{mark: strconv.Itoa(i + 1), line: v.theme.outcomeStroke(i, plot.Observed).sample(), name: plot.NameAmong(v.series, i)}
	switch {
	case s.Instances == 0:
		e.name += ", no instances"
	case s.Failed > 0:
		e.name += ", " + s.HowFailed() + " " + percent(s.Failed)
	}
	return e
}

// sample returns a short piece of the line.
func (s stroke) sample() words {
	const cells = 3
	var b strings.Builder
	for i := range cells {
		pattern := rune(0x2800)
		for j, bit := range []rune{0x04, 0x20} { // the third row of dots
			if s.dash.Draws(2*i + j) {
				pattern |= bit
			}
		}
		b.WriteRune(pattern)
	}
	return words{b.String(), s.style}
}

// readout returns the values of the curves at the cursor as text. For one outcome it has two lines:
// the share that succeeds within the delay, and the delay within which a round share succeeds.
// For several outcomes it has one line each. Without a cursor it returns nil.
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

// withinItems returns which share of a series succeeds within a delay.
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

// quantileItems returns within which delay a share of a series succeeds.
func (v *plotView) quantileItems(s *plot.Series, p float64) []string {
	items := []string{exactly(p) + " within"}
	v.eachRole(s, func(c *plot.Curve) {
		q, ok := c.Quantile(p)
		items = append(items, c.Name()+" "+reached(c, q, ok))
	})
	return items
}

// eachRole calls f for the visible curves of a series, the observed one first.
func (v *plotView) eachRole(s *plot.Series, f func(*plot.Curve)) {
	roles := plot.Roles()
	for i := range roles {
		r := roles[len(roles)-1-i]
		if c := s.Curve(r); c != nil && v.visible(r) {
			f(c)
		}
	}
}

// succeeding formats the share of a curve that succeeds within t, which lies within the bounds b.
// For a mean it formats the mean and then its bounds, if there are any: 94.0 (85.0…100.0)%.
func succeeding(c *plot.Curve, t time.Duration, b dq.Bounds) string {
	if !c.IsMean() {
		return between(b)
	}
	middle, _ := c.Middle(t)
	if c.Lo == nil {
		return between(middle)
	}
	return strings.TrimSuffix(between(middle), "%") + " (" + outwards(b) + ")%"
}

// reached formats the bounds of a quantile: both for a mean, and otherwise only the upper one,
// because what matters is how late the quantile may be.
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

// between formats the bounds of a probability, as one figure if they look the same, and otherwise
// rounded outwards.
func between(b dq.Bounds) string {
	if text := percent(b.Hi); text == percent(b.Lo) {
		return text
	}
	return outwards(b) + "%"
}

// outwards formats the bounds of a probability, the lower one rounded down and the upper one up.
func outwards(b dq.Bounds) string {
	return figures.Down(b.Lo*100, decimalsOf(b.Lo)) + "…" + figures.Up(b.Hi*100, decimalsOf(b.Hi))
}

// percent formats a probability with a percent sign.
func percent(p float64) string { return inPercent(p) + "%" }

// inPercent formats a probability with three digits, or with as many as distinguish it from 0 and
// 1. If even the largest number of digits does not suffice, it shows a value nearer to the
// middle.
func inPercent(p float64) string {
	const least = 1e-6
	decimals := decimalsOf(p)
	if min(p, 1-p) > dq.Tolerance {
		p = max(least, min(1-least, p))
	}
	return strconv.FormatFloat(p*100, 'f', decimals, 64)
}

// decimalsOf returns the number of decimals that a probability has in percent.
func decimalsOf(p float64) int {
	const most = 4
	near, decimals := min(p, 1-p), 1
	if near <= dq.Tolerance {
		return decimals
	}
	if p < 0.09995 {
		decimals = 2
	}
	for limit := 0.5 * math.Pow10(-2-decimals); near < limit && decimals < most; limit /= 10 {
		decimals++
	}
	return decimals
}

// exactly formats a probability that the user chose, with all its decimals.
func exactly(p float64) string {
	return strconv.FormatFloat(math.Round(p*1e8)/1e6, 'f', -1, 64) + "%"
}
