package export

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/host/safetext"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// A Text printer writes frames as tables, and their totals at the end.
type Text struct {
	w      io.Writer
	totals []total
	slower []string         // outcomes with instances that took longer than the dMax that beamscope chose
	sight  func() SightFunc // nil if that is not known
}

// NewText returns a printer on w.
func NewText(w io.Writer) *Text { return &Text{w: w} }

// TellSights makes further frames without a table say why the events of their outcomes are not seen. The
// function is called once for each of them. Frames of recordings cannot say it.
func (t *Text) TellSights(sight func() SightFunc) { t.sight = sight }

// Frame writes the table of a frame.
func (t *Text) Frame(f *scope.Frame) error {
	for _, n := range f.Notices {
		safetext.Fprintf(t.w, "%s  %s\n", clock(f), n.Text)
	}
	safetext.Fprintf(t.w, "%s  window %d, %v", clock(f), f.Number, f.Window.Duration())
	if f.Attaching {
		safetext.Fprintf(t.w, ": %s%s\n", NothingWhole, t.unseen(f))
	} else if err := t.table(f); err != nil {
		return err
	}
	for _, x := range f.Fired {
		safetext.Fprintf(t.w, "▶ %s: %s of %v: %s\n", x.Trigger, x.Outcome, x.VM, Why(x.Explanation, x.Cause))
	}
	if r := f.Rejected; r.Count > 0 {
		safetext.Fprintf(t.w, "%d lines over TCP rejected, the last one: %s\n", r.Count, r.Last)
	}
	for i := range f.Outcomes {
		t.add(&f.Outcomes[i])
	}
	_, err := safetext.Fprintf(t.w, "%s\n\n", costLine(f))
	return err
}

// NothingWhole is the text for a window that was over before any outcome was observed for a whole one.
const NothingWhole = "not observed: no window was observed as a whole yet"

// unseen returns the reasons why events of a frame's outcomes are not seen, each once, after a semicolon. It returns
// "" if none is known.
func (t *Text) unseen(f *scope.Frame) (reasons string) {
	if t.sight == nil {
		return ""
	}
	sight, said := t.sight(), make(map[string]bool)
	for i := range f.Outcomes {
		p := &f.Outcomes[i]
		if why := sight(p.Spec, p.VM).Why; why != "" && !said[why] {
			said[why] = true
			reasons += "; " + why
		}
	}
	return reasons
}

// table writes the observed figures of each outcome.
func (t *Text) table(f *scope.Frame) error {
	safetext.Fprintln(t.w)
	tw := tabwriter.NewWriter(t.w, 8, 0, 1, ' ', tabwriter.AlignRight)
	c := columnsOf(tw, f)
	c.head()
	for i := range f.Outcomes {
		p := &f.Outcomes[i]
		c.observedRow(p)
		c.groupRows(p)
		if !p.Calculated.Empty() {
			c.calculatedRow(p)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i := range f.Outcomes {
		if text, _ := Slower(&f.Outcomes[i]); text != "" {
			safetext.Fprintf(t.w, "%s: %s\n", c.label(&f.Outcomes[i]), text)
		}
	}
	c.explain(t.w, f)
	return nil
}

// clock formats the local time at which a window ended.
func clock(f *scope.Frame) string { return f.Time.Local().Format("15:04:05.000") }

// columns writes the table of a frame, row by row.
type columns struct {
	w       io.Writer
	several bool              // there are several VMs
	judged  bool              // an outcome has a QTA
	amounts bool              // an outcome has an amount
	names   map[string]string // names of the outcomes, shortened as far as a table requires
}

// columnsOf returns the columns for a frame.
func columnsOf(w io.Writer, f *scope.Frame) columns {
	amounts := slices.ContainsFunc(f.Outcomes, func(p scope.Outcome) bool { return p.Counts.Amount > 0 })
	return columns{w, severalVMs(f), anyRequired(f), amounts, shortNames(f)}
}

// shortNames returns different short names for the outcomes of a frame.
func shortNames(f *scope.Frame) map[string]string {
	var names []string
	for i := range f.Outcomes {
		names = append(names, f.Outcomes[i].Name)
	}
	short := make(map[string]string, len(names))
	for i, text := range figures.Shortened(names, figures.MaxName) {
		short[names[i]] = text
	}
	return short
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
	c.cells("outcome", "n")
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

func (c columns) observedRow(p *scope.Outcome) {
	c.cells(c.label(p), instances(p))
	for _, q := range scope.Quantiles() {
		c.cell(quantile(p, q))
	}
	if c.judged {
		c.cell(verdict(p.Judgement, p.Insufficient))
	}
	n := p.Counts
	c.cells(success(p), Failures(p, n.Failures, n.Timeouts), timeouts(p), lost(n), n.Orphans, n.Lates)
	c.amount(n.Amount, n.Amount)
	c.end(curve(p))
}

// amount writes the amount n. all is the total amount of the outcome; if that is 0, the cell is
// empty.
func (c columns) amount(n, all uint64) {
	switch {
	case c.amounts && all > 0:
		c.cell(n)
	case c.amounts:
		c.cell("")
	}
}

// instances formats the number of instances, with a mark if some were paired by order.
func instances(p *scope.Outcome) string {
	n := fmt.Sprint(p.Observed.Instances())
	if p.Inferred() {
		return "~" + n
	}
	return n
}

// calculatedRow writes the calculated figures of an outcome below the observed ones, and the
// distance between the two.
func (c columns) calculatedRow(p *scope.Outcome) {
	c.cells(strings.TrimSpace("calculated "+apart(p)), p.CalculatedFrom)
	for _, q := range scope.Quantiles() {
		c.cell(calculatedQuantile(p, q))
	}
	if c.judged {
		c.cell(verdict(p.CalculatedJudgement, p.CalculatedInsufficient))
	}
	success, _ := p.Calculated.Success()
	c.cells(figures.Probability(success), "", "", "", "", "")
	c.amount(0, 0)
	c.end(calculatedCurve(p))
}

// anyRequired reports whether an outcome of the frame has a QTA.
func anyRequired(f *scope.Frame) bool {
	return slices.ContainsFunc(f.Outcomes, func(p scope.Outcome) bool { return p.Required })
}

// verdict formats whether a QTA is met, in brackets if the data is insufficient.
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

// apart formats the certain distance between the observed and the calculated ΔQ, with an
// exclamation mark if chance does not explain it.
func apart(p *scope.Outcome) string {
	d := p.Divergence
	if d == nil {
		return ""
	}
	mark := ""
	if d.Chance <= dq.RunChance {
		mark = "!"
	}
	return "Δ" + figures.Down(d.Distance.Lo, 2) + mark
}

// costLine describes the cost of observing the window.
func costLine(f *scope.Frame) string {
	return fmt.Sprintf("cost: %s; collector %.2f %%", paid(f), float64(f.Cost.Collector)/float64(f.Window.Duration())*100)
}

// paid describes what VMs and applications paid for a window, or that this is unknown.
func paid(f *scope.Frame) string {
	window := f.Window.Duration()
	ofVM := func(p scope.Outcome) bool { return p.Spec.Wrapper == "" }
	switch rate := float64(f.Cost.Events) / window.Seconds(); {
	case f.Unpriced() && !slices.ContainsFunc(f.Outcomes, ofVM):
		return "paid by the application that sends over TCP, not known here"
	case f.Unpriced():
		return "no program ran in the VM; its other costs are not measured (see docs/reference/run.md)"
	case f.Cost.PerEvent > 0:
		return fmt.Sprintf("%.0f events/s × %s = %.2f %% of a core in the VM", rate, figures.Delay(f.Cost.PerEvent), f.Cost.Share(window)*100)
	case f.Cost.Events > 0:
		return fmt.Sprintf("%.0f events/s, price not measured", rate)
	}
	return "no program ran in the VM"
}

// Close writes the totals over all frames.
func (t *Text) Close() error {
	if len(t.totals) == 0 {
		return nil
	}
	before := t.beforeWhole()
	t.totals = slices.DeleteFunc(t.totals, t.wasUnknown)
	for i := range t.totals {
		t.totals[i].end()
	}
	safetext.Fprintln(t.w, "totals")
	tw := tabwriter.NewWriter(t.w, 8, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "outcome\tVM\tstarts\tends\tsuccess\tfailure\ttimeout\tlost\torphan\tlate\t")
	shown := t.shown()
	for _, c := range shown {
		least := ""
		if slices.Contains(t.slower, c.Outcome) {
			least = "≥"
		}
		safetext.Fprintf(tw, "%s\t%v\t%d\t%d\t%s%d\t%s%d\t%d\t%s\t%d\t%d\t\n", c.Outcome, c.VM, c.Starts, c.Ends,
			least, c.Successes, least, c.Failures, c.Timeouts, lost(c.Counts), c.Orphans, c.Lates)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if n := len(t.totals) - len(shown); n > 0 {
		fmt.Fprintf(t.w, "rows without events that are left out: %d\n", n)
	}
	if len(t.slower) > 0 {
		safetext.Fprintf(t.w, "timeouts of %s: %s; how they ended is not known\n", strings.Join(t.slower, ", "), plot.SlowerThanChosen)
	}
	if before != "" {
		safetext.Fprintln(t.w, before)
	}
	if !slices.ContainsFunc(t.totals, func(c total) bool { return c.Unobserved }) {
		return nil
	}
	_, err := fmt.Fprintln(t.w, "+ beside lost: beamscope did not observe all of the time, so more may be missing")
	return err
}

// beforeWhole describes what the table leaves out: the time before the first whole window of each outcome, and what
// was lost then. It returns "" if all outcomes were observed from the beginning on.
func (t *Text) beforeWhole() string {
	var longest time.Duration
	var lost []string
	for i := range t.totals {
		c := &t.totals[i]
		if !c.whole && !t.wasUnknown(*c) {
			continue // it is in the table, with a mark
		}
		longest = max(longest, c.before)
		if n := c.attaching.Loss.Total(); n > 0 {
			lost = append(lost, fmt.Sprintf("%d of %s in %v", n, c.Outcome, c.VM))
		}
	}
	if longest == 0 {
		return ""
	}
	text := fmt.Sprintf("not observed, and not in the table: up to %v before the first whole window of an outcome", longest)
	if len(lost) > 0 {
		text += "; lost then: " + strings.Join(lost, ", ")
	}
	return text
}

// wasUnknown reports whether a total is only of the time before the VM of its outcome was known.
func (t *Text) wasUnknown(c total) bool {
	return !c.whole && c.VM == (outcome.VM{}) && slices.ContainsFunc(t.totals, func(d total) bool { return d.whole && d.Outcome == c.Outcome })
}

// shown returns the totals to write: those with events, and one of each outcome that has none.
func (t *Text) shown() (shown []total) {
	has := make(map[string]bool)
	for i := range t.totals {
		c := &t.totals[i]
		has[c.Outcome] = has[c.Outcome] || c.hasEvents()
	}
	for i := range t.totals {
		if c := &t.totals[i]; c.hasEvents() || !has[c.Outcome] {
			shown = append(shown, *c)
			has[c.Outcome] = true
		}
	}
	return shown
}

// A total contains the totals of an outcome in a VM.
type total struct {
	outcome.Counts
	attaching outcome.Counts // before the first completely observed window; not in Counts
	before    time.Duration  // how long that was
	whole     bool           // there was such a window
}

// hasEvents reports whether there is anything to show.
func (t *total) hasEvents() bool {
	c := &t.Counts
	return c.Starts+c.Ends+c.Instances()+c.Orphans+c.Lates+c.Loss.Total() > 0 || c.Unobserved
}

// add adds a window of a length.
func (t *total) add(c outcome.Counts, length time.Duration) {
	t.whole = t.whole || !c.Unobserved
	if !t.whole {
		t.before += length
		t.attaching = t.attaching.Add(c)
		return
	}
	t.Counts = t.Counts.Add(c)
}

// end completes the total: if no window was completely observed, there is no time of attaching.
func (t *total) end() {
	if !t.whole {
		t.Counts, t.attaching = t.attaching, outcome.Counts{}
	}
}

// add adds the counts of a window to the totals of their outcome and VM.
func (t *Text) add(p *scope.Outcome) {
	c := p.Counts
	c.Bins = nil
	if p.Slower() > 0 && !slices.Contains(t.slower, p.Name) {
		t.slower = append(t.slower, p.Name)
	}
	if c.VM == (outcome.VM{}) && !c.Unobserved {
		return // nothing ran, so there are no counts
	}
	i := slices.IndexFunc(t.totals, func(sum total) bool { return sum.Outcome == c.Outcome && sum.VM == c.VM })
	if i < 0 {
		i = len(t.totals)
		none := outcome.Counts{Outcome: c.Outcome, VM: c.VM}
		t.totals = append(t.totals, total{Counts: none, attaching: none})
	}
	t.totals[i].add(c, p.Window.Duration())
}

// lost formats the number of losses: "5+" if more may have been lost while beamscope did not
// observe.
func lost(c outcome.Counts) string {
	if c.Unobserved {
		return fmt.Sprintf("%d+", c.Loss.Total())
	}
	return fmt.Sprint(c.Loss.Total())
}

func severalVMs(f *scope.Frame) bool {
	for i := range f.Outcomes {
		if f.Outcomes[i].VM != f.Outcomes[0].VM {
			return true
		}
	}
	return false
}

// label returns the name in the row of an outcome.
func (c columns) label(p *scope.Outcome) string {
	name := figures.Called(c.names[p.Name], p.Spec.Alias())
	if !c.several {
		return name
	}
	return fmt.Sprintf("%s of %v", name, p.VM)
}

// quantile formats a quantile: "-" without data, and "∞" if it is in the intangible mass. It begins
// with a question mark if lost instances could make it longer.
func quantile(p *scope.Outcome, q float64) string {
	if p.Observed.Empty() {
		return "-"
	}
	d, ok := p.Observed.QuantileFigure(q)
	switch {
	case !ok && p.QuantileSlower(q):
		return SlowerThan(p)
	case !ok:
		return "∞"
	case p.QuantileMayBeLonger(q):
		return figures.Unsure(d)
	}
	return figures.AtMost(d)
}

// timeouts formats the number of instances that timed out, or that took longer than a dMax that
// beamscope chose.
func timeouts(p *scope.Outcome) string { return timeoutsOf(p, p.Counts.Timeouts) }

// timeoutsOf is timeouts for n of the instances.
func timeoutsOf(p *scope.Outcome, n uint64) string {
	if p.Fitted && n > 0 {
		return fmt.Sprintf("%s: %d", SlowerThan(p), n)
	}
	return fmt.Sprint(n)
}

// success formats the share of the instances that succeeded. It is a lower bound if some were
// lost or took longer than a dMax that beamscope chose.
func success(p *scope.Outcome) string {
	if least, isLeast, ok := p.LeastSuccess(); ok && isLeast {
		return figures.AtLeast(least)
	}
	s, ok := p.Observed.Success()
	if !ok {
		return "-"
	}
	return figures.Percent(s)
}

// calculatedQuantile formats the upper bound of a quantile.
func calculatedQuantile(p *scope.Outcome, q float64) string {
	v, ok := p.Calculated.Quantile(q)
	if !ok || !v.Finite() {
		return "∞"
	}
	return figures.AtMost(v.Hi)
}

const curveParts = 16

// curve draws the ECDF with one character for each part.
func curve(p *scope.Outcome) string {
	if p.Observed.Empty() {
		return strings.Repeat("·", curveParts)
	}
	ecdf := p.Observed.AppendECDF(nil)
	return bars(func(i int) float64 { return ecdf[i*(len(ecdf)-1)/curveParts] })
}

// calculatedCurve draws the middle of the bounds over the same delays.
func calculatedCurve(p *scope.Outcome) string {
	dMax := p.Spec.DMax()
	return bars(func(i int) float64 {
		b, _ := p.Calculated.ProbabilityWithin(dMax * time.Duration(i) / curveParts)
		return b.Mid()
	})
}

// bars draws a probability. at returns it for the end of each part.
func bars(at func(part int) float64) string {
	levels := []rune(" ▁▂▃▄▅▆▇█")
	var b strings.Builder
	for i := range curveParts {
		b.WriteRune(levels[int(at(i+1)*float64(len(levels)-1)+0.5)])
	}
	return b.String()
}
