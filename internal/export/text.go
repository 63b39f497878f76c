package export

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// A Text printer writes frames as tables, and their totals at the end.
type Text struct {
	w      io.Writer
	totals []outcome.Counts
}

// NewText returns a printer on w.
func NewText(w io.Writer) *Text { return &Text{w: w} }

// Frame writes the table of a frame.
func (t *Text) Frame(f scope.Frame) error {
	fmt.Fprintf(t.w, "%s  window %d, %v\n", f.Time.Format("15:04:05.000"), f.Number, f.Window.Duration())
	tw := tabwriter.NewWriter(t.w, 8, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "probe\tn\t")
	for _, q := range scope.Quantiles() {
		fmt.Fprintf(tw, "p%g\t", q*100)
	}
	fmt.Fprint(tw, "success\tfailed\ttimeout\tlost\torphan\tlate\tΔQ of 0 to dMax\t\n")
	several := severalVMs(f)
	for _, p := range f.Probes {
		t.add(p.Counts)
		fmt.Fprintf(tw, "%s\t%d\t", label(p, several), p.Observed.Instances())
		for _, q := range scope.Quantiles() {
			fmt.Fprintf(tw, "%s\t", quantile(p, q))
		}
		c := p.Counts
		fmt.Fprintf(tw, "%s\t%d\t%d\t%s\t%d\t%d\t%s\t\n", success(p), c.Failures, c.Timeouts, lost(c), c.Orphans, c.Lates, curve(p))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(t.w, "%s\n\n", costLine(f))
	return err
}

// costLine says what observing the window cost.
func costLine(f scope.Frame) string {
	window := f.Window.Duration()
	vms := f.Cost
	line := fmt.Sprintf("cost: %.0f events/s", float64(vms.Events)/window.Seconds())
	if vms.PerEvent == 0 {
		line += " × not measured yet"
	} else {
		line += fmt.Sprintf(" × %s = %.2f %% of a core in the VM", delay(vms.PerEvent), vms.Share(window)*100)
	}
	return line + fmt.Sprintf("; collector %.2f %%", float64(f.Cost.Collector)/float64(window)*100)
}

// Close writes the totals over all frames.
func (t *Text) Close() error {
	if len(t.totals) == 0 {
		return nil
	}
	fmt.Fprintln(t.w, "totals")
	tw := tabwriter.NewWriter(t.w, 8, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "probe\tVM\tstarts\tends\tok\tfailed\ttimeout\tlost\torphan\tlate\t")
	for _, c := range t.totals {
		fmt.Fprintf(tw, "%s\t%v\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t%d\t\n", c.Outcome, c.VM, c.Starts, c.Ends,
			c.Successes, c.Failures, c.Timeouts, lost(c), c.Orphans, c.Lates)
	}
	return tw.Flush()
}

// add adds counts to the totals of their outcome and VM.
func (t *Text) add(c outcome.Counts) {
	for i := range t.totals {
		if t.totals[i].Outcome == c.Outcome && t.totals[i].VM == c.VM {
			t.totals[i] = t.totals[i].Add(c)
			return
		}
	}
	if c.VM == (outcome.VM{}) {
		return // nothing ran, so nothing was counted
	}
	c.Bins = nil
	t.totals = append(t.totals, c)
}

// lost shows what was lost: "5+" where that is not all, because we were not there.
func lost(c outcome.Counts) string {
	if c.Unobserved {
		return fmt.Sprintf("%d+", c.Loss.Total())
	}
	return fmt.Sprint(c.Loss.Total())
}

func severalVMs(f scope.Frame) bool {
	for _, p := range f.Probes {
		if p.Counts.VM != f.Probes[0].Counts.VM {
			return true
		}
	}
	return false
}

func label(p scope.Probe, several bool) string {
	if !several {
		return p.Name
	}
	return fmt.Sprintf("%s of %v", p.Name, p.Counts.VM)
}

// quantile shows a quantile: "-" where there is no data, "∞" where it falls in
// the intangible mass.
func quantile(p scope.Probe, q float64) string {
	if p.Observed.Empty() {
		return "-"
	}
	d, ok := p.Observed.QuantileFigure(q)
	if !ok {
		return "∞"
	}
	return "≤" + delay(d)
}

func success(p scope.Probe) string {
	s, ok := p.Observed.Success()
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.2f%%", s*100)
}

// delay shows a duration with three significant digits and its unit.
func delay(d time.Duration) string {
	switch {
	case d >= time.Second:
		return significant(d.Seconds()) + "s"
	case d >= time.Millisecond:
		return significant(d.Seconds()*1e3) + "ms"
	}
	return significant(d.Seconds()*1e6) + "µs"
}

func significant(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// curve draws the ECDF with a character for each of its parts.
func curve(p scope.Probe) string {
	const parts = 16
	levels := []rune(" ▁▂▃▄▅▆▇█")
	if p.Observed.Empty() {
		return strings.Repeat("·", parts)
	}
	ecdf := p.Observed.AppendECDF(nil)
	var b strings.Builder
	for i := range parts {
		at := ((i + 1) * (len(ecdf) - 1)) / parts
		b.WriteRune(levels[int(ecdf[at]*float64(len(levels)-1)+0.5)])
	}
	return b.String()
}
