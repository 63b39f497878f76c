package eval

import (
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/figures"
)

// Table writes a report as text: a line for each definition and operator, and the verdict on the
// requirement. [figures.Outward] writes all figures, so that the text contains the bounds.
func Table(w io.Writer, r *Report) error {
	rows := [][]string{header(r)}
	for _, name := range r.Names {
		rows = append(rows, row(name, r.Probes[name]))
	}
	text := align(rows) + coarse(r)
	if r.Judgement != nil {
		text += "\n" + judgement(r.Judged, *r.Judgement, narrower(r, r.Values[r.Judged]))
	}
	text += furtherText(r)
	_, err := io.WriteString(w, text)
	return err
}

func header(r *Report) []string {
	cells := []string{"", "failure", "mean"}
	if r.SD {
		cells = append(cells, "sd")
	}
	if len(r.Names) == 0 {
		return cells
	}
	p := r.Probes[r.Names[0]]
	for _, q := range p.Quantiles {
		cells = append(cells, "p"+plain(q.P*100))
	}
	for _, w := range p.Within {
		cells = append(cells, "within "+exactDelay(w.t))
	}
	return cells
}

func row(name string, p *Probe) []string {
	cells := []string{name, percent(p.failure), "-"}
	if p.moments != nil {
		cells[2] = moment(p.moments.Mean)
	}
	if p.showSD {
		cells = append(cells, "-")
		if p.moments != nil {
			cells[3] = moment(p.moments.SD)
		}
	}
	for _, q := range p.Quantiles {
		cells = append(cells, q.text())
	}
	for _, w := range p.Within {
		cells = append(cells, percent(dq.Bounds{Lo: w.Lo, Hi: w.Hi}))
	}
	return cells
}

func (q Quantile) text() string {
	if !q.reached {
		return "∞"
	}
	return interval(q.interval)
}

// align aligns cells in columns: the first cell of a row to the left, the others to the right.
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

// coarse explains which bins are wider than requested, and why. It returns "" if there are none.
func coarse(r *Report) string {
	var wide []string
	for _, name := range r.Names {
		if d := r.Values[name]; d.Width() > r.Base && d.Bins() > 0 {
			wide = append(wide, fmt.Sprintf("%s (%s)", name, exactDelay(d.Width())))
		}
	}
	if len(wide) == 0 {
		return ""
	}
	return fmt.Sprintf("\nThe bins are wider than --base %s: %s.\nA distribution has at most %d bins, and these delays may be too long for that. A smaller --base does not narrow them.\n",
		exactDelay(r.Base), strings.Join(wide, ", "), dq.MaxBins)
}

// narrower explains how to narrow the bounds of a ΔQ. It suggests a smaller base only if half of
// it gives few enough bins.
func narrower(r *Report, d *dq.DeltaQ) string {
	switch {
	case d.Width() > r.Base || 2*d.Bins() > dq.MaxBins:
		return "a smaller --base does not narrow them, as a distribution has at most " + strconv.Itoa(dq.MaxBins) + " bins"
	case r.Base < 2*dq.MinWidth:
		return "no --base is smaller than " + exactDelay(dq.MinWidth)
	}
	return "a smaller --base narrows them"
}

// judgement describes whether and where a probe meets the requirement.
func judgement(name string, j dq.Judgement, narrower string) string {
	var b strings.Builder
	switch j.Met {
	case dq.Yes:
		fmt.Fprintf(&b, "%s meets the requirement.\n", name)
	case dq.No:
		fmt.Fprintf(&b, "%s does not meet the requirement.\n", name)
	default:
		fmt.Fprintf(&b, "Whether %s meets the requirement these bounds cannot tell: %s.\n", name, narrower)
	}
	if m := j.Slack; m != nil {
		if m.HasTime {
			fmt.Fprintf(&b, "  slack, at least: %s at %s\n", exactDelay(m.Time), place(j.Points[m.TimeAt]))
		}
		fmt.Fprintf(&b, "  slack, at least: %s at %s\n", share(m.Probability, figures.RoundDown), place(j.Points[m.ProbabilityAt]))
	}
	if m := j.Hazard; m != nil {
		if m.HasTime {
			fmt.Fprintf(&b, "  hazard, at most: %s at %s\n", exactDelay(m.Time), place(j.Points[m.TimeAt]))
		} else {
			fmt.Fprintf(&b, "  hazard in time: there may be no delay that is long enough\n")
		}
		fmt.Fprintf(&b, "  hazard, at most: %s at %s\n", share(m.Probability, figures.RoundUp), place(j.Points[m.ProbabilityAt]))
	}
	return b.String()
}

// place formats a point of a requirement as the user wrote it.
func place(p dq.Point) string {
	if p.Final {
		return "failure@" + plain(1-p.Required.P)
	}
	return plain(p.Required.P) + "@" + exactDelay(p.Required.T)
}

// plain formats a number without digits that come from binary rounding.
func plain(x float64) string { return strconv.FormatFloat(x, 'g', 12, 64) }

// A unit is a unit of delays.
type unit struct {
	name string
	ns   int64
}

// unitOf returns the largest unit that is not longer than a delay in nanoseconds.
func unitOf(ns *big.Rat) unit {
	for _, u := range []unit{{"s", 1e9}, {"ms", 1e6}, {"µs", 1e3}} {
		if ns.Cmp(big.NewRat(u.ns, 1)) >= 0 {
			return u
		}
	}
	return unit{"ns", 1}
}

// in converts a delay in nanoseconds to a unit.
func (u unit) in(ns *big.Rat) *big.Rat { return new(big.Rat).Quo(ns, big.NewRat(u.ns, 1)) }

// exactDelay formats a delay with all its digits.
func exactDelay(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	ns := big.NewRat(int64(d), 1)
	u := unitOf(ns)
	return figures.Outward(u.in(ns), u.in(ns), 9) + u.name
}

// The digits of a figure in a table, and the largest number of decimals for nanoseconds and for
// percent.
const (
	delayDigits     = 4
	shareDigits     = 2
	delayDecimals   = 9
	percentDecimals = 12
)

// interval formats the bounds of a delay. A delay that may not be reached has no upper end.
func interval(v dq.Interval) string {
	lo := big.NewRat(int64(v.Lo), 1)
	if !v.Finite() {
		return delays(lo, nil)
	}
	return delays(lo, big.NewRat(int64(v.Hi), 1))
}

// moment formats the bounds of a mean or a standard deviation in nanoseconds.
func moment(b dq.Bounds) string {
	return delays(new(big.Rat).SetFloat64(b.Lo), new(big.Rat).SetFloat64(b.Hi)) // nil if infinite
}

// delays formats the bounds of a delay in nanoseconds, rounded outwards. If hi is nil, there is
// no upper end. Both bounds use the unit and the decimals of the upper one, unless that would
// reduce the lower one to zero.
func delays(lo, hi *big.Rat) string {
	if hi == nil {
		u := unitOf(lo)
		return figures.RoundDown(u.in(lo), decimals(u.in(lo), delayDigits, delayDecimals)) + u.name + "–∞"
	}
	if hi.Sign() == 0 {
		return "0"
	}
	u := unitOf(hi)
	digits := decimals(u.in(hi), delayDigits, delayDecimals)
	text := figures.Outward(u.in(lo), u.in(hi), digits) + u.name
	if lo.Sign() == 0 || !strings.HasPrefix(text, "0–") {
		return text
	}
	v := unitOf(lo)
	return figures.RoundDown(v.in(lo), decimals(v.in(lo), delayDigits, delayDecimals)) + v.name + "–" + figures.RoundUp(u.in(hi), digits) + u.name
}

// percent formats the bounds of a probability, rounded outwards.
func percent(b dq.Bounds) string {
	lo, hi := inPercent(b.Lo), inPercent(b.Hi)
	return figures.OutwardPercent(lo, hi, decimalsOfPercent(lo, hi)) + "%"
}

func inPercent(p float64) *big.Rat {
	x := new(big.Rat).SetFloat64(p)
	return x.Mul(x, big.NewRat(100, 1))
}

// decimalsOfPercent returns two, or more if percentages are close to 0 or 100.
func decimalsOfPercent(lo, hi *big.Rat) int {
	least := new(big.Rat).Sub(big.NewRat(100, 1), lo)
	if hi.Cmp(least) < 0 {
		least = hi
	}
	return max(2, decimals(least, shareDigits, percentDecimals))
}

// share formats a probability that is a one-sided bound. It rounds to that side, unless the
// probability is close enough to a decimal.
func share(p float64, round func(x *big.Rat, decimals int) string) string {
	text := percent(dq.Bounds{Lo: p, Hi: p})
	if !strings.Contains(text, "–") {
		return text
	}
	x := inPercent(p)
	return round(x, decimalsOfPercent(x, x)) + "%"
}

// decimals returns how many decimals a number needs to have this many digits, but no more than
// most.
func decimals(x *big.Rat, digits, most int) int {
	limit := big.NewRat(1, 1)
	for range digits - 1 {
		limit.Mul(limit, big.NewRat(10, 1))
	}
	n := 0
	for y := new(big.Rat).Set(x); y.Sign() > 0 && y.Cmp(limit) < 0 && n < most; n++ {
		y.Mul(y, big.NewRat(10, 1))
	}
	return n
}
