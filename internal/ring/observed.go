package ring

import (
	"fmt"
	"io"
	"math"

	"github.com/beamscope/beamscope/internal/intake"
	"github.com/beamscope/beamscope/internal/ledger"
	"github.com/beamscope/beamscope/internal/outcome"
)

const (
	// renewal is how often the lease is written.
	renewal = int64(250e6)

	// maxRate bounds the records of a VM that are read in a second; minBatch are read at a
	// time in any case.
	maxRate  = 10e6
	minBatch = 1 << 16

	// maxGaps bounds the times in which a VM was not observed that are kept apart.
	maxGaps = 16
)

// An observed is a VM whose ring is read.
type observed struct {
	id     outcome.VM
	user   int
	memory io.Closer
	from   int64         // it is read since
	turn   chan struct{} // holds a value while somebody uses the fields below

	reader  *reader
	pairer  *pairer
	lease   lease
	control control
	renewed int64
	polled  int64
	records uint64 // that were read

	book     *ledger.Book
	schedule ledger.Schedule
	rows     []row // by text, of the schedule
	discover bool
	kernel   bool     // programs in the kernel see spans that fire probes
	hindered bool     // spans fired probes because another collector wanted that
	found    []string // names of spans that no outcome has
	nameless uint64   // spans whose name found no room in the VM's table of texts
	overrun  overrun
	gaps     []outcome.Window // in which it was not observed
	err      error            // why it is not read any more
	told     bool             // which was said
}

// A row says what spans of a name are instances of.
type row struct {
	known   bool
	noted   bool             // as the name of no outcome
	courses []*ledger.Course // by era, nil where there is none
	wanted  bool             // by one of them
}

// An overrun counts records that were lost.
type overrun struct {
	records uint64 // that were lost
	told    uint64 // those of them that a notice has counted
	known   uint64 // those of them that are counted as loss of their outcome
	at      int64  // when the last ones were found to be lost
}

func newObserved(id outcome.VM, user int, r *reader, memory io.Closer) *observed {
	o := &observed{id: id, user: user, memory: memory, from: r.read, turn: make(chan struct{}, 1), reader: r, polled: r.read}
	o.pairer = newPairer(r.fate, o)
	return o
}

// open has instances accounted for in a book.
func (o *observed) open(b *ledger.Book) { o.book = b }

// plan goes on with a schedule.
func (o *observed) plan(s ledger.Schedule, c control) {
	noted := o.rows
	o.schedule, o.control, o.rows = s, c, make([]row, maxTexts)
	for i := range noted {
		o.rows[i].noted = noted[i].noted
	}
	o.renewed = 0 // the control word is written at the next poll
}

// row returns what is known of a name.
func (o *observed) row(text uint16) *row {
	r := &o.rows[text]
	if r.known {
		return r
	}
	r.known, r.courses, r.wanted = true, make([]*ledger.Course, len(o.schedule)), false
	name, ok := o.reader.text(text)
	if !ok || name == "" {
		return r
	}
	for i := range o.schedule {
		r.courses[i] = o.schedule[i].Course([]byte(name))
		r.wanted = r.wanted || r.courses[i] != nil
	}
	if !r.wanted && o.discover && !r.noted {
		r.noted = true
		o.found = append(o.found, name)
	}
	return r
}

// begin takes the first lease. Spans that start before then may not be recorded.
func (o *observed) begin(now int64) error {
	_, err := o.reader.renew(&o.lease, o.control, now)
	o.renewed, o.from = now, now
	return err
}

// lost returns how many records were lost since it was last called.
func (o *observed) lost() uint64 {
	n := o.overrun.records - o.overrun.told
	o.overrun.told = o.overrun.records
	return n
}

// poll reads what is new. now is taken before it is called.
func (o *observed) poll(now int64) {
	if o.err != nil {
		return
	}
	most := max(minBatch, uint64(float64(now-o.polled)/1e9*maxRate))
	o.polled = now
	lost, err := o.reader.records(now, most, func(r *record) {
		o.records++
		o.pairer.add(r)
	})
	o.pairer.settle()
	if lost > 0 {
		o.pairer.doubt = now
		o.overrun.records += lost
		o.overrun.at = now
	}
	if err == nil && now-o.renewed >= renewal {
		err = o.renew(now)
	}
	if err != nil {
		o.giveUp(err, now)
	}
}

// renew keeps the lease up.
func (o *observed) renew(now int64) error {
	until := o.lease.until
	since, err := o.reader.renew(&o.lease, o.control, now)
	if err != nil {
		return err
	}
	switch {
	case since == silence:
		o.gap(min(until, o.renewed), now)
	case since == probes && !o.kernel:
		o.gap(o.renewed, now)
		o.hindered = true
	}
	o.renewed = now
	return nil
}

// gap records a time in which the VM was not observed.
func (o *observed) gap(from, to int64) {
	if n := len(o.gaps); n == maxGaps || n > 0 && o.gaps[n-1].To >= from {
		o.gaps[n-1].To = to
		return
	}
	o.gaps = append(o.gaps, outcome.Window{From: from, To: to})
}

// giveUp records that the ring cannot be read any more. The ends of its open spans are not known.
func (o *observed) giveUp(err error, now int64) {
	o.err = err
	o.pairer.abandon()
	o.gap(now, math.MaxInt64)
}

// collect returns what was counted in a window.
func (o *observed) collect(e *ledger.Era, w outcome.Window) []intake.Cell {
	if o.err == nil {
		o.pairer.sweep(min(w.To, o.reader.horizon()))
	}
	o.settleOverrun(w)
	cells := o.book.Collect(e, w)
	if o.isBlind(w) {
		for i := range cells {
			cells[i] = blind(cells[i])
		}
	}
	return cells
}

// blind returns a cell of a window that was not observed as a whole: what is in it is only a
// part of what happened.
func blind(c intake.Cell) intake.Cell {
	n := c.Counts
	loss := n.Loss
	loss.Missed += n.Instances()
	return intake.Cell{Counts: outcome.Counts{
		Outcome: n.Outcome, VM: n.VM, Starts: n.Starts, Ends: n.Ends, Orphans: n.Orphans, Lates: n.Lates,
		Bins: make([]uint64, len(n.Bins)), Loss: loss, Unobserved: true,
	}}
}

// isBlind reports whether a window was not observed as a whole. Before the ring was made there
// was nothing to observe.
func (o *observed) isBlind(w outcome.Window) bool {
	born := o.reader.header.birth - o.reader.offset
	if w.To > born && w.From < o.from && o.from > born {
		return true
	}
	blind := false
	for _, g := range o.gaps {
		blind = blind || g.From < w.To && w.From < g.To
	}
	for len(o.gaps) > 0 && o.gaps[0].To <= w.From {
		o.gaps = o.gaps[1:]
	}
	return blind
}

// settleOverrun accounts for instances that lost both of their records, after those that lost
// one are accounted for. Their outcome is not known, so they count as loss of each.
func (o *observed) settleOverrun(w outcome.Window) {
	if o.overrun.records == 0 || len(o.schedule) == 0 {
		return
	}
	var dMax int64
	for _, spec := range o.schedule.Specs() {
		dMax = max(dMax, int64(spec.DMax()))
	}
	if o.err == nil && w.From < o.overrun.at+dMax {
		return
	}
	if o.overrun.records > o.overrun.known {
		both := (o.overrun.records - o.overrun.known + 1) / 2
		for _, spec := range o.schedule.Specs() {
			o.book.Owe(spec.Name, outcome.Loss{Missed: both})
		}
	}
	o.overrun = overrun{}
}

// stopped reports whether all that there was is collected.
func (o *observed) stopped() bool { return o.err != nil && o.book.Idle() && o.overrun.records == 0 }

// started implements [sink].
func (o *observed) started(s *span) {
	if int(s.name) == maxTexts-1 {
		o.nameless++
	}
	r := o.row(s.name)
	if e, c := o.at(r, s.start); c != nil {
		o.book.Note(e, c, s.start, func(n *outcome.Counts) { n.Starts++ })
	}
}

// at returns the era of a time, and the course of a row in it: both nil where there is none.
func (o *observed) at(r *row, at int64) (*ledger.Era, *ledger.Course) {
	for i := range o.schedule {
		if e := &o.schedule[i]; at < e.To {
			if at < e.Plan.From || r.courses[i] == nil {
				break
			}
			return e, r.courses[i]
		}
	}
	return nil, nil
}

// ended implements [sink].
func (o *observed) ended(e *ended) {
	r := o.row(e.name)
	if !r.wanted {
		return
	}
	i := o.instance(&e.span)
	i.End = e.end
	if e.failed {
		i.Status = outcome.Failure
		i.Class, _ = o.reader.text(e.class)
	}
	end := o.event(r, e.end)
	if era, c := o.settled(r, i); c != nil {
		late := c.Settle(i).End != i.End // it had timed out by then, whether or not that was noted
		o.book.Place(era, c, i, 0)
		if end != nil && late {
			end.Lates++
		}
	}
	if end != nil {
		end.Ends++
	}
}

// settled returns the era in which an instance ends, and the course of a row in it.
func (o *observed) settled(r *row, i intake.Ended) (*ledger.Era, *ledger.Course) {
	for n := range o.schedule {
		if c := r.courses[n]; c != nil && c.Settle(i).End < o.schedule[n].To {
			return &o.schedule[n], c
		}
	}
	return nil, nil
}

// event returns the counts in which an event of a row is counted, nil where there are none.
func (o *observed) event(r *row, at int64) (counts *outcome.Counts) {
	if e, c := o.at(r, at); c != nil {
		o.book.Note(e, c, at, func(n *outcome.Counts) { counts = n })
	}
	return counts
}

func (o *observed) instance(s *span) intake.Ended {
	return intake.Ended{Start: s.start, Process: outcome.PID(s.process), ID: uint64(s.id), Parent: uint64(s.parent)}
}

// timedOut implements [sink].
func (o *observed) timedOut(s *span, doubtful bool) {
	r := o.row(s.name)
	i := o.instance(s)
	i.End = math.MaxInt64
	e, c := o.settled(r, i)
	if c == nil {
		return
	}
	if i = c.Settle(i); doubtful {
		o.overrun.known++
		o.book.Lose(e, c, i.End, outcome.Loss{Missed: 1}, 0)
		return
	}
	o.book.Place(e, c, i, 0)
}

// deadline implements [sink].
func (o *observed) deadline(s *span) (int64, bool) {
	r := o.row(s.name)
	if !r.wanted {
		return 0, false
	}
	i := intake.Ended{Start: s.start, End: math.MaxInt64}
	_, c := o.settled(r, i)
	if c == nil {
		return 0, false
	}
	return c.Settle(i).End, true
}

// stray implements [sink].
func (o *observed) stray(r *record, f fate) {
	row := o.row(r.name)
	if f == gone {
		o.overrun.known++
		if e, c := o.at(row, r.time); c != nil {
			o.book.Lose(e, c, r.time, outcome.Loss{Missed: 1}, 1)
		}
		return
	}
	n := o.event(row, r.time)
	switch {
	case n == nil:
	case f == seen:
		n.Ends++
		n.Lates++
	default:
		n.Ends++
		n.Orphans++
	}
}

// noRoom implements [sink].
func (o *observed) noRoom(s *span) {
	if e, c := o.at(o.row(s.name), s.start); c != nil {
		o.book.Lose(e, c, s.start, outcome.Loss{NoRoom: 1}, 0)
	}
}

// why says why a VM is not read any more.
func (o *observed) why() string {
	return fmt.Sprintf("the spans of %v are not read any more: %v", o.id, o.err)
}
