package top

import (
	"math"
	"time"

	"github.com/beamscope/beamscope/internal/figures"
)

// A Column is a column of the table, by which it can be sorted.
type Column uint8

// The columns, in their order.
const (
	ByProcess  Column = iota
	ByVM              // only where there are several
	ByRun             // share of the time that the process ran
	BySlices          // slices that it ran, a second
	ByGC              // share of the time spent in garbage collections
	ByGCs             // garbage collections a second
	ByWords           // words that they reclaimed, a second
	ByMessages        // messages taken out of the mailbox, a second
	ByP50             // median of their wait there
	ByP99             // 99th percentile of that
	ByOver            // messages that waited for longer than the scale, a second
	columns
)

// A columnInfo says what a column is.
type columnInfo struct {
	name  string // for --sort
	head  string // of the column, "" for that of ByOver
	least int    // width of the screen from which on it is shown
	width int    // of the column; 0: as there is room
	key   rune   // by which it is sorted
	kind  Kind
	help  string
	value func(*Figures) float64 // nil for text
}

func (c Column) info() columnInfo {
	return [columns]columnInfo{
		ByProcess:  {"process", "process", 0, 0, 'n', 0, "the name of the process or function", nil},
		ByVM:       {"vm", "VM", 0, 0, 'v', 0, "the VM", nil},
		ByRun:      {"run", "run%", 0, 6, 'u', Run, "time that it ran", func(f *Figures) float64 { return f.Share }},
		BySlices:   {"slices", "runs/s", 0, 7, 's', Run, "time slices that it ran in, a second", perSecond},
		ByGC:       {"gc", "gc%", 0, 6, 'c', GC, "time in garbage collections", func(f *Figures) float64 { return f.Share }},
		ByGCs:      {"gcs", "gc/s", 0, 6, 'C', GC, "garbage collections a second", perSecond},
		ByWords:    {"words", "words/s", 110, 8, 'w', GC, "words that they reclaimed, a second", func(f *Figures) float64 { return f.Amount }},
		ByMessages: {"messages", "msg/s", 0, 7, 'm', Mailbox, "messages a second", perSecond},
		ByP50:      {"p50", "wait p50", 90, 10, '5', Mailbox, "median of the wait in the mailbox", func(f *Figures) float64 { return f.P50.order() }},
		ByP99:      {"p99", "wait p99", 0, 10, '9', Mailbox, "99th percentile of the wait in the mailbox", func(f *Figures) float64 { return f.P99.order() }},
		ByOver: {"over", "", 100, 8, 'o', Mailbox, "messages a second that waited for longer than the scale", func(f *Figures) float64 {
			if f.Instances == 0 {
				return 0
			}
			return f.PerSecond * float64(f.Timeouts) / float64(f.Instances)
		}},
	}[c]
}

func perSecond(f *Figures) float64 { return f.PerSecond }

// order returns the quantile in seconds as it is sorted: what is beyond the scale above
// all else, and NaN without instances.
func (q Quantile) order() float64 {
	switch {
	case !q.Some:
		return math.NaN()
	case q.Beyond:
		return math.Inf(1)
	}
	return q.AtMost.Seconds()
}

// heading returns the head of the column.
func (c Column) heading(dmax *[kinds]time.Duration) string {
	if i := c.info(); i.head != "" {
		return i.head
	}
	return "≥" + figures.ExactDelay(dmax[Mailbox]) + "/s"
}

// String returns the name of the column, as for --sort.
func (c Column) String() string { return c.info().name }

// ColumnNamed returns the column of a name; false where there is none.
func ColumnNamed(name string) (Column, bool) {
	for c := range columns {
		if c.String() == name {
			return c, true
		}
	}
	return 0, false
}

// ColumnNames returns the names of all columns, in their order.
func ColumnNames() []string {
	var names []string
	for c := range columns {
		names = append(names, c.String())
	}
	return names
}

// isText reports whether the column has names, and not numbers.
func (c Column) isText() bool { return c.info().value == nil }

// value returns the number of a column; NaN where it is not known.
func (c Column) value(f *[kinds]Figures) float64 {
	i := c.info()
	if i.value == nil || !f[i.kind].Known {
		return math.NaN()
	}
	return i.value(&f[i.kind])
}
