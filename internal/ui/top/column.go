package top

import (
	"math"
	"time"

	"github.com/beamscope/beamscope/internal/engine/figures"
)

// A Column is a column of the table, and a sort order.
type Column uint8

// The columns, in their order.
const (
	ByProcess    Column = iota
	ByVM                // only if there are several VMs
	ByWaiting           // messages in the process's queue
	ByOldest            // lower bound of the waiting time of the oldest of them
	ByCPU               // share of the time that the process was on a processor
	ByDirty             // share of the time that it was on a dirty scheduler
	ByMessages          // messages taken out of the mailbox, a second
	ByP50               // median of their wait there
	ByP99               // 99th percentile of that
	ByGC                // share of the time spent in garbage collections
	ByGCs               // garbage collections a second
	BySlices            // slices that a scheduler ran it, a second
	ByOver              // messages that waited for longer than the scale, a second
	ByWords             // words that garbage collections reclaimed, a second
	ByMemory            // bytes of its heaps
	ByReductions        // reductions a second
	ByFunction          // the function that it was in
	columns

	// Automatic is not a column: the table is sorted by [ByWaiting] from when a queue grows until
	// no queue has more than a hundred messages, and otherwise by [ByCPU].
	Automatic Column = 0xff
)

// automatic is the name of Automatic.
const automatic = "auto"

// A columnInfo describes a column.
type columnInfo struct {
	name  string // for --sort
	head  string // of the column, "" to use that of ByOver
	least int    // least width of a screen that shows it
	width int    // width of the column; 0: the available space
	key   rune   // the key that sorts by it
	kind  Kind
	help  string
	value func(*Figures) float64 // nil for text, and for data from the VM's memory
	seen  func(*Seen) float64    // for data from the VM's memory; nil otherwise
}

func (c Column) info() columnInfo {
	return [columns]columnInfo{
		ByProcess:  {"process", "process", 0, 0, 'n', 0, "the name of the process or function", nil, nil},
		ByVM:       {"vm", "VM", 0, 0, 'v', 0, "the VM", nil, nil},
		ByWaiting:  {"waiting", "waiting", 0, 8, 'W', 0, "waiting messages", nil, func(s *Seen) float64 { return float64(s.Waiting) }},
		ByOldest:   {"oldest", "oldest", 0, 7, 'O', 0, "the least age of the oldest waiting message", nil, (*Seen).age},
		ByCPU:      {"cpu", "cpu%", 0, 6, 'u', Run, "time on a processor", func(f *Figures) float64 { return f.Processor }, nil},
		ByDirty:    {"dirty", "dirty%", 90, 7, 'D', Run, "time on dirty schedulers, asleep or not", func(f *Figures) float64 { return f.Dirty }, nil},
		ByMessages: {"messages", "msg/s", 0, 7, 'm', Mailbox, "messages taken a second", (*Figures).inTime, nil},
		ByP50:      {"p50", "wait p50", 100, 10, '5', Mailbox, "median of the wait in the mailbox", func(f *Figures) float64 { return f.P50.order() }, nil},
		ByP99:      {"p99", "wait p99", 0, 10, '9', Mailbox, "99th percentile of the wait in the mailbox", func(f *Figures) float64 { return f.P99.order() }, nil},
		ByGC:       {"gc", "gc%", 0, 6, 'c', GC, "time in garbage collections", func(f *Figures) float64 { return f.Share }, nil},
		ByGCs:      {"gcs", "gc/s", 0, 6, 'C', GC, "garbage collections a second", perSecond, nil},
		BySlices:   {"slices", "runs/s", 0, 7, 's', Run, "time slices a second", perSecond, nil},
		ByOver: {"over", "", 120, 8, 'o', Mailbox, "messages a second that waited for longer than the scale", func(f *Figures) float64 {
			if f.Instances == 0 {
				return 0
			}
			return f.PerSecond * float64(f.Timeouts) / float64(f.Instances)
		}, nil},
		ByWords:      {"words", "words/s", 120, 8, 'w', GC, "words that garbage collections reclaimed, a second", func(f *Figures) float64 { return f.Amount }, nil},
		ByMemory:     {"memory", "memory", 0, 8, 'M', 0, "memory of its heaps", nil, (*Seen).bytes},
		ByReductions: {"reductions", "reds/s", 0, 7, 'R', 0, "reductions a second", nil, (*Seen).rate},
		ByFunction:   {"function", "function", 0, 24, 'F', 0, "the function that it was in", nil, nil},
	}[c]
}

// age returns the age of the oldest waiting message in seconds, or NaN if unknown.
func (s *Seen) age() float64 {
	if !s.Aged {
		return math.NaN()
	}
	return s.Oldest.Seconds()
}

// bytes returns the memory, or NaN if unknown.
func (s *Seen) bytes() float64 {
	if s.Memory < 0 {
		return math.NaN()
	}
	return float64(s.Memory)
}

// rate returns the reductions a second, or NaN if unknown.
func (s *Seen) rate() float64 {
	if !s.Rated {
		return math.NaN()
	}
	return s.Reductions
}

// inTime returns the number of instances a second that did not take longer than the scale.
func (f *Figures) inTime() float64 {
	if f.Instances == 0 {
		return f.PerSecond
	}
	return f.PerSecond * float64(f.Instances-f.Timeouts) / float64(f.Instances)
}

func perSecond(f *Figures) float64 { return f.PerSecond }

// order returns the quantile in seconds for sorting: infinity beyond the scale, and NaN without
// instances.
func (q Quantile) order() float64 {
	switch {
	case !q.Some:
		return math.NaN()
	case q.Beyond:
		return math.Inf(1)
	}
	return q.AtMost.Seconds()
}

// heading returns the text at the head of the column.
func (c Column) heading(dmax *[kinds]time.Duration) string {
	if i := c.info(); i.head != "" {
		return i.head
	}
	return "≥" + figures.ExactDelay(dmax[Mailbox]) + "/s"
}

// String returns the name of the column in --sort.
func (c Column) String() string {
	if c == Automatic {
		return automatic
	}
	return c.info().name
}

// ColumnNamed returns the column with a name, or [Automatic]. It returns false if there is none.
func ColumnNamed(name string) (Column, bool) {
	if name == automatic {
		return Automatic, true
	}
	for c := range columns {
		if c.String() == name {
			return c, true
		}
	}
	return 0, false
}

// ColumnNames returns the name of [Automatic] and then those of all columns, in order.
func ColumnNames() []string {
	names := []string{automatic}
	for c := range columns {
		names = append(names, c.String())
	}
	return names
}

// isText reports whether the column contains names instead of numbers.
func (c Column) isText() bool { return c.info().value == nil && c.info().seen == nil }

// value returns the number in a column, or NaN if unknown.
func (c Column) value(of *Cells) float64 {
	i := c.info()
	switch {
	case i.seen != nil && of.Seen.Known:
		return i.seen(&of.Seen)
	case i.value != nil && of.Kinds[i.kind].Known:
		return i.value(&of.Kinds[i.kind])
	}
	return math.NaN()
}
