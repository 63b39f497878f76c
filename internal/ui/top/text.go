package top

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
	"github.com/beamscope/beamscope/internal/host/safetext"
)

// A Text printer writes tables for people.
type Text struct {
	w     io.Writer
	limit int
}

// NewText returns a printer on w, of the first rows of each table up to a limit.
func NewText(w io.Writer, limit int) *Text { return &Text{w, limit} }

// textTrend is the number of windows in the trend of a text.
const textTrend = 10

// Table writes a table.
func (p *Text) Table(t *Table) error {
	safetext.Fprintf(p.w, "%s  %s\n", t.Time.Local().Format("15:04:05.000"), t.title())
	columns := t.columns()
	tw := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, c := range columns {
		fmt.Fprint(tw, t.head(c), "\t")
	}
	safetext.Fprintf(tw, "trend\t  process\n")
	line := func(f *Cells, trend, name string) {
		for _, c := range columns {
			fmt.Fprint(tw, c.cell(f, &t.DMax), "\t")
		}
		safetext.Fprintf(tw, "%s\t  %s\n", trend, name)
	}
	line(&t.Total, figures.Sparkline(t.TotalTrend(textTrend)), "everything")
	for i := range t.Rows[:min(len(t.Rows), p.limit)] {
		r := &t.Rows[i]
		line(&r.Cells, figures.Sparkline(t.Trend(r, textTrend)), t.nameOf(r))
	}
	if t.hasOthers() {
		line(&t.Others, "", t.othersText())
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if more := len(t.Rows) - p.limit; more > 0 {
		safetext.Fprintf(p.w, "and %d more%s\n", more, t.longestQueue(t.Rows[p.limit:]))
	}
	for _, remark := range t.remarks() {
		safetext.Fprintln(p.w, remark)
	}
	_, err := fmt.Fprintln(p.w)
	return err
}

// longestQueue names the longest queue of rows that are not shown, or returns "" if it is short.
func (t *Table) longestQueue(hidden []Row) string {
	longest := slices.MaxFunc(hidden, func(a, b Row) int { return cmp.Compare(a.Seen.Waiting, b.Seen.Waiting) })
	if longest.Seen.Waiting < growingLeast {
		return ""
	}
	return fmt.Sprintf("; %s messages wait for %s (--sort waiting)", ByWaiting.cell(&longest.Cells, &t.DMax), t.nameOf(&longest))
}

// columns returns the columns, except those that identify the row.
func (t *Table) columns() []Column {
	var some []Column
	for c := range columns {
		if c != ByProcess && c != ByVM {
			some = append(some, c)
		}
	}
	return some
}

// head returns the head of a column, with a mark if the table is sorted by it.
func (t *Table) head(c Column) string {
	name := c.heading(&t.DMax)
	if c != t.Sort {
		return name
	}
	if t.Reverse != c.isText() {
		return name + "▲"
	}
	return name + "▼"
}

// nameOf returns the displayed name of a row, with its VM if there are several.
func (t *Table) nameOf(r *Row) string {
	if len(t.VMs) < 2 {
		return r.process()
	}
	return r.process() + " of " + r.machine()
}

// hasOthers reports whether some instances had no room among the rows.
func (t *Table) hasOthers() bool { return t.others() > 0 }

func (t *Table) others() (n uint64) {
	for k := range kinds {
		n += t.Others.Kinds[k].Instances
	}
	return n
}

// othersName returns the name of the row of others for narrow screens.
func (t *Table) othersName() string {
	if t.By == outcome.GroupMFA {
		return "others"
	}
	return "no room"
}

func (t *Table) othersText() string {
	text := fmt.Sprintf("others: %d instances for which the table had no row", t.others())
	if t.By == outcome.GroupMFA {
		text += ", or of processes without a known function"
	}
	return text
}

// title describes the table.
func (t *Table) title() string {
	text := fmt.Sprintf("by %s, window of %v", t.By, t.Duration)
	if t.Windows > 1 {
		text = fmt.Sprintf("by %s, last %d windows of %v", t.By, t.Windows, t.Duration)
	}
	text += ": " + t.vmsText()
	if used := t.Used.text(); used != "" {
		text += ", " + used
	}
	return text
}

func (t *Table) vmsText() string { return vmsText(t.VMs) }

// vmsText describes the VMs.
func vmsText(vms []outcome.VM) string {
	switch len(vms) {
	case 0:
		return "no VM"
	case 1:
		return safetext.Line(vms[0].String())
	}
	return fmt.Sprintf("%d VMs", len(vms))
}

// lossText describes the losses, or returns "" if there are none.
func (t *Table) lossText() string {
	var lost []string
	for k := range kinds {
		if n := t.Lost[k].Total(); n > 0 {
			lost = append(lost, fmt.Sprintf("%d of %s", n, k))
		}
	}
	if len(lost) == 0 {
		return ""
	}
	return "lost " + strings.Join(lost, ", ")
}

// givenUpText returns what is not observed and why, or "" if everything is observed.
func (t *Table) givenUpText() (text, why string) {
	var names []string
	for k := range kinds {
		if !t.Level.Has(k) {
			names = append(names, k.String())
		}
	}
	if len(names) == 0 {
		return "", ""
	}
	return "without " + strings.Join(names, " and "), t.GaveUp
}

// observing lists what is observed.
func (t *Table) observing() string {
	var names []string
	for k := range kinds {
		if t.Level.Has(k) {
			names = append(names, k.String())
		}
	}
	return strings.Join(names, " ")
}

// costText describes the cost of observing in the last window.
func (t *Table) costText() string { return price.Text(t.Cost, t.Duration, "events") }

// staleText returns the age of the data from the VMs' memory, or "" if it belongs to the window.
func (t *Table) staleText() string {
	if t.Stale == 0 {
		return ""
	}
	return fmt.Sprintf("waiting, memory, reds/s and function: read %s before the end of this window", figures.Delay(t.Stale))
}

// maxUnseen is the largest number of unseen VMs that are named.
const maxUnseen = 4

// unseenText names the VMs that have no rows because their events cannot be seen, and says what shows
// them. It is "" if there are none.
func (t *Table) unseenText() string {
	switch len(t.Unseen) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("no rows of %s: its events cannot be seen. beamscope top --sampled --pid %d takes samples of it", safetext.Line(t.Unseen[0].String()), t.Unseen[0].PID)
	}
	var names []string
	for _, vm := range t.Unseen[:min(len(t.Unseen), maxUnseen)] {
		names = append(names, safetext.Line(vm.String()))
	}
	if more := len(t.Unseen) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("no rows of %s: their events cannot be seen. beamscope top --sampled takes samples of all VMs", strings.Join(names, ", "))
}

// remarks returns the lines below the table.
func (t *Table) remarks() []string {
	var lines []string
	if text := t.staleText(); text != "" {
		lines = append(lines, text)
	}
	if t.Partial {
		lines = append(lines, "not observed for all of the time")
	}
	if text := t.lossText(); text != "" {
		lines = append(lines, text)
	}
	if text, why := t.givenUpText(); text != "" {
		lines = append(lines, strings.TrimSuffix(text+": "+why, ": "))
	}
	if text := t.unseenText(); text != "" {
		lines = append(lines, text)
	}
	return append(lines, t.costText())
}
