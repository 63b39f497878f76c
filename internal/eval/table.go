package eval

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/figures"
)

// Table writes a report for people: a line for each definition and operator, and
// what became of the requirement. Bounds are rounded outwards, to about four
// digits; a figure that is exact but for rounding errors is rounded to the nearest.
func Table(w io.Writer, r *Report) error {
	rows := [][]string{header(r)}
	for _, name := range r.Names {
		rows = append(rows, row(name, r.Probes[name]))
	}
	text := align(rows)
	if r.Judgement != nil {
		text += "\n" + judgement(r.Judged, *r.Judgement)
	}
	_, err := io.WriteString(w, text)
	return err
}

func header(r *Report) []string {
	cells := []string{"", "failure", "mean"}
	if len(r.Names) == 0 {
		return cells
	}
	p := r.Probes[r.Names[0]]
	for _, q := range p.Quantiles {
		cells = append(cells, "p"+plain(q.P*100))
	}
	for _, w := range p.Within {
		cells = append(cells, "within "+exactDelay(w.T))
	}
	return cells
}

func row(name string, p *Probe) []string {
	cells := []string{name, percent(p.Failure.Lo, p.Failure.Hi), "-"}
	if p.Mean != nil {
		cells[2] = delays(p.Mean.Lo, p.Mean.Hi)
	}
	for _, q := range p.Quantiles {
		cells = append(cells, delays(q.Lo, q.Hi))
	}
	for _, w := range p.Within {
		cells = append(cells, percent(&w.Lo, &w.Hi))
	}
	return cells
}

// align puts cells below each other: the first of a row to the left, the others to
// the right.
func align(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString(cell + pad)
				continue
			}
			b.WriteString("  " + pad + cell)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// judgement says how a probe stands against the requirement, and where.
func judgement(name string, j dq.Judgement) string {
	var b strings.Builder
	switch j.Met {
	case dq.Yes:
		fmt.Fprintf(&b, "%s meets the requirement.\n", name)
	case dq.No:
		fmt.Fprintf(&b, "%s does not meet the requirement.\n", name)
	default:
		fmt.Fprintf(&b, "Whether %s meets the requirement these bounds cannot tell: a smaller --base narrows them.\n", name)
	}
	if m := j.Slack; m != nil {
		if m.HasTime {
			fmt.Fprintf(&b, "  slack, at least: %s at %s\n", exactDelay(m.Time.Seconds()), place(j.Points[m.TimeAt]))
		}
		fmt.Fprintf(&b, "  slack, at least: %s at %s\n", share(m.Probability, figures.Down), place(j.Points[m.ProbabilityAt]))
	}
	if m := j.Hazard; m != nil {
		if m.HasTime {
			fmt.Fprintf(&b, "  hazard, at most: %s at %s\n", exactDelay(m.Time.Seconds()), place(j.Points[m.TimeAt]))
		} else {
			fmt.Fprintf(&b, "  hazard in time: there may be no delay that is long enough\n")
		}
		fmt.Fprintf(&b, "  hazard, at most: %s at %s\n", share(m.Probability, figures.Up), place(j.Points[m.ProbabilityAt]))
	}
	return b.String()
}

// place names a point of a requirement as it was written.
func place(p dq.Point) string {
	if p.Final {
		return "failure@" + plain(1-p.Required.P)
	}
	return plain(p.Required.P) + "@" + exactDelay(p.Required.T.Seconds())
}

// plain is a number without what rounding in binary adds.
func plain(x float64) string { return strconv.FormatFloat(x, 'g', 12, 64) }

// A unit is what delays are written in.
type unit struct {
	name    string
	seconds float64
}

// unitOf is the largest unit that a delay has at least one of.
func unitOf(seconds float64) unit {
	units := []unit{{"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}}
	for _, u := range units {
		if seconds >= u.seconds*(1-1e-9) {
			return u
		}
	}
	return unit{"ns", 1e-9}
}

// exactDelay is a delay to the nanosecond.
func exactDelay(seconds float64) string {
	if seconds == 0 {
		return "0"
	}
	u := unitOf(seconds)
	return plain(math.Round(seconds*1e9)/(u.seconds*1e9)) + u.name
}

// delays are the bounds of a delay in seconds; nil is without end.
func delays(lo, hi *float64) string {
	switch {
	case lo == nil:
		return "∞"
	case hi == nil:
		return delays(lo, lo) + "–∞"
	case *hi == 0:
		return "0"
	}
	u := unitOf(*hi)
	a, b := *lo/u.seconds, *hi/u.seconds
	return interval(a, b, 1e-9*b, decimals(b, 4)) + u.name
}

// percent are the bounds of a probability.
func percent(lo, hi *float64) string {
	if lo == nil || hi == nil {
		return "-"
	}
	a, b := 100**lo, 100**hi
	return interval(a, b, figures.PercentSlack, percentDecimals(a, b)) + "%"
}

// percentDecimals are the more, the closer percentages are to 0 or 100.
func percentDecimals(lo, hi float64) int {
	if least := min(hi, 100-lo); least > 2*figures.PercentSlack {
		return max(2, decimals(least, 2))
	}
	return 2
}

// share is one probability, rounded down or up.
func share(p float64, round func(x float64, decimals int, slack float64) float64) string {
	digits := percentDecimals(100*p, 100*p)
	return trimmed(round(100*p, digits, figures.PercentSlack), digits) + "%"
}

// decimals is how many decimals a number needs to have so many digits.
func decimals(x float64, digits int) int {
	if x <= 0 {
		return 0
	}
	return max(0, digits-1-int(math.Floor(math.Log10(x))))
}

// interval is two numbers rounded outwards, unless they are within slack of a
// rounded one, or one number where they come out the same.
func interval(lo, hi, slack float64, decimals int) string {
	scale := math.Pow10(decimals)
	if hi-lo <= 2*slack {
		return trimmed(math.Round((lo+hi)/2*scale)/scale, decimals)
	}
	a := trimmed(figures.Down(lo, decimals, slack), decimals)
	b := trimmed(figures.Up(hi, decimals, slack), decimals)
	return strings.Join(slices.Compact([]string{a, b}), "–")
}

// trimmed has no zeros at its end.
func trimmed(x float64, decimals int) string {
	text := strconv.FormatFloat(math.Abs(x), 'f', decimals, 64) // no -0
	if decimals > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
