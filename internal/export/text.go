package export

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/safetext"
	"github.com/beamscope/beamscope/internal/scope"
)

// A Text printer writes frames as tables, and their totals at the end.
type Text struct {
	w      io.Writer
	totals []outcome.Counts
	slower []string // outcomes with instances that took longer than beamscope allowed for
}

// NewText returns a printer on w.
func NewText(w io.Writer) *Text { return &Text{w: w} }

// Frame writes the table of a frame.
func (t *Text) Frame(f *scope.Frame) error {
	for _, n := range f.Notices {
		safetext.Fprintf(t.w, "%s  %s\n", clock(f), n)
	}
	safetext.Fprintf(t.w, "%s  window %d, %v\n", clock(f), f.Number, f.Window.Duration())
	tw := tabwriter.NewWriter(t.w, 8, 0, 1, ' ', tabwriter.AlignRight)
	c := columnsOf(tw, f)
	c.head()
	for i := range f.Probes {
		p := &f.Probes[i]
		t.add(p)
		c.observedRow(p)
		c.groupRows(p)
		if !p.Calculated.Empty() {
			c.calculatedRow(p)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i := range f.Probes {
		if text := Slower(&f.Probes[i]); text != "" {
			safetext.Fprintf(t.w, "%s: %s\n", label(&f.Probes[i], c.several), text)
		}
	}
	explain(t.w, f)
	for _, x := range f.Fired {
		safetext.Fprintf(t.w, "▶ %s: %s of %v: %s\n", x.Trigger, x.Probe, x.VM, Why(x.Explanation, x.Cause))
	}
	if r := f.Rejected; r.Count > 0 {
		safetext.Fprintf(t.w, "%d lines over TCP rejected, the last one: %s\n", r.Count, r.Last)
	}
	_, err := safetext.Fprintf(t.w, "%s\n\n", costLine(f))
	return err
}

// clock shows when a window ended, by the clock on the wall here.
func clock(f *scope.Frame) string { return f.Time.Local().Format("15:04:05.000") }

// columns write the table of a frame, row by row.
type columns struct {
	w       io.Writer
	several bool // VMs
	judged  bool // a probe has a QTA
	amounts bool // a probe has an amount
}

// columnsOf returns those that a frame needs.
func columnsOf(w io.Writer, f *scope.Frame) columns {
	amounts := slices.ContainsFunc(f.Probes, func(p scope.Probe) bool { return p.Counts.Amount > 0 })
	return columns{w, severalVMs(f), anyJudged(f), amounts}
}

func (c columns) cell(value any) { safetext.Fprintf(c.w, "%v\t", value) }

func (c columns) cells(values ...any) {
	for _, v := range values {
		c.cell(v)
	}
}

// end writes the last cell of a row.
func (c columns) end(value string) { safetext.Fprintf(c.w, "%s\t\n", value) }

func (c columns) head() {
	c.cells("probe", "n")
	for _, q := range scope.Quantiles() {
		c.cell(fmt.Sprintf("p%g", q*100))
	}
	if c.judged {
		c.cell("QTA")
	}
	c.cells("success", "failure", "timeout", "lost", "orphan", "late")
	if c.amounts {
		c.cell("amount")
	}
	c.end("ΔQ of 0 to dMax")
}

func (c columns) observedRow(p *scope.Probe) {
	c.cells(label(p, c.several), instances(p))
	for _, q := range scope.Quantiles() {
		c.cell(quantile(p, q))
	}
	if c.judged {
		c.cell(verdict(p.Judgement, p.Insufficient))
	}
	n := p.Counts
	c.cells(success(p), n.Failures, timeouts(p), lost(n), n.Orphans, n.Lates)
	c.amount(n.Amount, n.Amount)
	c.end(curve(p))
}

// amount writes an amount, of a probe that has one in all.
func (c columns) amount(n, all uint64) {
	switch {
	case c.amounts && all > 0:
		c.cell(n)
	case c.amounts:
		c.cell("")
	}
}

// instances shows how many there are, with a mark where they were paired by their order.
func instances(p *scope.Probe) string {
	n := fmt.Sprint(p.Observed.Instances())
	if p.Inferred() {
		return "~" + n
	}
	return n
}

// calculatedRow shows what is calculated for a probe below what is observed, and how
// far the two are apart.
func (c columns) calculatedRow(p *scope.Probe) {
	c.cells(strings.TrimSpace("calculated "+apart(p)), p.CalculatedFrom)
	for _, q := range scope.Quantiles() {
		c.cell(calculatedQuantile(p, q))
	}
	if c.judged {
		c.cell(verdict(p.CalculatedJudgement, p.CalculatedInsufficient))
	}
	success, _ := p.Calculated.Success()
	c.cells(fmt.Sprintf("%.2f%%", success.Mid()*100), "", "", "", "", "")
	c.amount(0, 0)
	c.end(calculatedCurve(p))
}

// anyJudged tells whether a probe of the frame has a QTA.
func anyJudged(f *scope.Frame) bool {
	for i := range f.Probes {
		if f.Probes[i].Judgement != nil || f.Probes[i].CalculatedJudgement != nil {
			return true
		}
	}
	return false
}

// verdict shows whether a QTA is met, in brackets where the window is too poor for
// anything to be made of it.
func verdict(j *dq.Judgement, insufficient string) string {
	if j == nil {
		return "-"
	}
	word := map[dq.Verdict]string{dq.Yes: "met", dq.No: "violated", dq.CannotTell: "open"}[j.Met]
	if insufficient != "" {
		return "(" + word + ")"
	}
	return word
}

// apart shows how far observed and calculated ΔQ are apart for sure, and an
// exclamation mark where chance does not explain it.
func apart(p *scope.Probe) string {
	d := p.Divergence
	if d == nil {
		return ""
	}
	mark := ""
	if d.Chance <= dq.RunChance {
		mark = "!"
	}
	return fmt.Sprintf("Δ%.2f%s", d.Distance.Lo, mark)
}

// costLine says what observing the window cost.
func costLine(f *scope.Frame) string {
	window := f.Window.Duration()
	vms := f.Cost
	line := fmt.Sprintf("cost: %.0f events/s", float64(vms.Events)/window.Seconds())
	if vms.PerEvent == 0 {
		line += " × not measured yet"
	} else {
		line += fmt.Sprintf(" × %s = %.2f %% of a core in the VM", figures.Delay(vms.PerEvent), vms.Share(window)*100)
	}
	return line + fmt.Sprintf("; collector %.2f %%", float64(f.Cost.Collector)/float64(window)*100)
}

// Close writes the totals over all frames.
func (t *Text) Close() error {
	if len(t.totals) == 0 {
		return nil
	}
	safetext.Fprintln(t.w, "totals")
	tw := tabwriter.NewWriter(t.w, 8, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "probe\tVM\tstarts\tends\tsuccess\tfailure\ttimeout\tlost\torphan\tlate\t")
	for _, c := range t.totals {
		safetext.Fprintf(tw, "%s\t%v\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t%d\t\n", c.Outcome, c.VM, c.Starts, c.Ends,
			c.Successes, c.Failures, c.Timeouts, lost(c), c.Orphans, c.Lates)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(t.slower) > 0 {
		safetext.Fprintf(t.w, "no limit that anybody set: timeouts of %s took longer than beamscope allowed for, and may have succeeded\n", strings.Join(t.slower, ", "))
	}
	if !slices.ContainsFunc(t.totals, func(c outcome.Counts) bool { return c.Unobserved }) {
		return nil
	}
	_, err := fmt.Fprintln(t.w, "+ beside lost: beamscope did not observe all of the time, so more may be missing")
	return err
}

// add adds the counts of a window to the totals of their probe and VM.
func (t *Text) add(p *scope.Probe) {
	c := p.Counts
	c.Bins = nil
	if p.Slower() > 0 && !slices.Contains(t.slower, p.Name) {
		t.slower = append(t.slower, p.Name)
	}
	for i := range t.totals {
		if t.totals[i].Outcome == c.Outcome && t.totals[i].VM == c.VM {
			t.totals[i] = t.totals[i].Add(c)
			return
		}
	}
	if c.VM == (outcome.VM{}) {
		return // nothing ran, so nothing was counted
	}
	t.totals = append(t.totals, c)
}

// lost shows what was lost: "5+" where that is not all, because we were not there.
func lost(c outcome.Counts) string {
	if c.Unobserved {
		return fmt.Sprintf("%d+", c.Loss.Total())
	}
	return fmt.Sprint(c.Loss.Total())
}

func severalVMs(f *scope.Frame) bool {
	for i := range f.Probes {
		if f.Probes[i].VM != f.Probes[0].VM {
			return true
		}
	}
	return false
}

func label(p *scope.Probe, several bool) string {
	name := figures.Called(p.Name, p.Spec.Alias())
	if !several {
		return name
	}
	return fmt.Sprintf("%s of %v", name, p.VM)
}

// quantile shows a quantile: "-" where there is no data, "∞" where it falls in
// the intangible mass.
func quantile(p *scope.Probe, q float64) string {
	if p.Observed.Empty() {
		return "-"
	}
	d, ok := p.Observed.QuantileFigure(q)
	switch {
	case !ok && p.QuantileSlower(q):
		return SlowerThan(p)
	case !ok:
		return "∞"
	}
	return figures.AtMost(d)
}

// timeouts shows how many instances timed out, or took longer than a dMax that nobody
// required.
func timeouts(p *scope.Probe) string {
	if n := p.Slower(); n > 0 {
		return fmt.Sprintf("%s: %d", SlowerThan(p), n)
	}
	return fmt.Sprint(p.Counts.Timeouts)
}

// success shows the share of the instances that succeeded: the least that it can be where
// something was lost, or took longer than beamscope allowed for.
func success(p *scope.Probe) string {
	if least, isLeast, ok := p.LeastSuccess(); ok && isLeast {
		return figures.AtLeast(least)
	}
	s, ok := p.Observed.Success()
	if !ok {
		return "-"
	}
	return figures.Percent(s)
}

// calculatedQuantile shows the upper bound of a quantile.
func calculatedQuantile(p *scope.Probe, q float64) string {
	v, ok := p.Calculated.Quantile(q)
	if !ok || !v.Finite() {
		return "∞"
	}
	return figures.AtMost(v.Hi)
}

const curveParts = 16

// curve draws the ECDF with a character for each of its parts.
func curve(p *scope.Probe) string {
	if p.Observed.Empty() {
		return strings.Repeat("·", curveParts)
	}
	ecdf := p.Observed.AppendECDF(nil)
	return bars(func(i int) float64 { return ecdf[i*(len(ecdf)-1)/curveParts] })
}

// calculatedCurve draws the middle of the bounds over the same delays.
func calculatedCurve(p *scope.Probe) string {
	dMax := p.Spec.DMax()
	return bars(func(i int) float64 {
		b, _ := p.Calculated.ProbabilityWithin(dMax * time.Duration(i) / curveParts)
		return b.Mid()
	})
}

// bars draws a probability, given at the end of each part.
func bars(at func(part int) float64) string {
	levels := []rune(" ▁▂▃▄▅▆▇█")
	var b strings.Builder
	for i := range curveParts {
		b.WriteRune(levels[int(at(i+1)*float64(len(levels)-1)+0.5)])
	}
	return b.String()
}
