package ring

import (
	"errors"
	"io"
	"math"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
	"github.com/beamscope/beamscope/internal/sources/ledger"
)

const (
	// renewal is the interval between renewals of the lease.
	renewal = int64(250e6)

	// maxRate limits the records that are read in a second from all VMs, averaged over maxBurst
	// seconds. So it limits the processor time that programs can make a collector use. Each user has
	// an equal share, and each VM an equal share of its user's.
	maxRate  = 3e6
	maxBurst = 2

	// maxGaps is the maximum number of separate periods in which a VM was not observed.
	maxGaps = 16
)

// An observed is a VM whose ring is read. It is used by one goroutine.
type observed struct {
	id     outcome.VM
	user   int
	memory io.Closer
	from   int64 // time since which it is read

	reader  *reader
	pairer  *pairer
	lease   lease
	control control
	renewed int64
	polled  int64
	rate    float64 // slots that may be read per second
	credit  float64 // slots that may be read now
	records uint64  // number of records read

	book       *ledger.Book
	first      int64 // beginning of the first window of the book
	schedule   ledger.Schedule
	rows       []row  // by text; for this schedule
	edition    uint64 // increases when the book hands over counts
	discover   bool
	kernel     kernel
	explaining int64    // all spans have been explained since then, nanoseconds of CLOCK_MONOTONIC; 0 if they are not
	found      []string // names of spans without an outcome
	nameless   nameless
	unclassed  uint64 // number of failures since the last take whose class the table had no room for
	overrun    overrun
	unreported uint64           // number of lost records that no notice has reported yet
	gaps       []outcome.Window // periods in which it was not observed
	err        error            // why it is no longer read
	end        outcome.Window   // when its process ended: after the last read, and before it was noticed

	whole  bool  // all spans since the ring was made were recorded and are read
	unsure int64 // programs in the kernel may have counted explained spans that started before, or not
}

// A nameless tracks spans without a name, because the VM's table of texts had no room for it. They
// may be instances of any outcome whose name is not in the table.
type nameless struct {
	spans uint64           // number since the last take
	reach int64            // the longest dMax
	times []outcome.Window // periods in which their instances may have started and ended
	late  bool             // part of a period was before the window that is collected next
	fresh []string         // names of outcomes that were found since the last poll began
	named map[string]int64 // times from which on no nameless span can have this name
}

// note records a nameless span that starts at a time. next is the beginning of the window that is
// collected next.
func (n *nameless) note(at, next int64) {
	n.spans++
	n.times = addTime(n.times, outcome.Window{From: at, To: at + n.reach + 1})
	n.late = n.late || at+n.reach < next
}

// take returns the number of spans noted since the last call.
func (n *nameless) take() (spans uint64) {
	spans, n.spans = n.spans, 0
	return spans
}

// settle records that the names found so far are in the table now. A program that starts a span
// with such a name will find it there.
func (n *nameless) settle(now int64) {
	for _, name := range n.fresh {
		if _, known := n.named[name]; !known {
			n.named[name] = now
		}
	}
	n.fresh = n.fresh[:0]
}

// hides reports whether a nameless span may be an instance of an outcome in a window. name is the
// span name of the outcome.
func (n *nameless) hides(name string, w outcome.Window) bool {
	if n.late {
		return true
	}
	named, known := n.named[name]
	for _, t := range n.times {
		if t.From < w.To && w.From < t.To && (!known || t.From < named && w.From <= named+n.reach) {
			return true
		}
	}
	return false
}

// forget drops everything before the end of a collected window.
func (n *nameless) forget(w outcome.Window) {
	n.late = false
	for len(n.times) > 0 && n.times[0].To <= w.To {
		n.times = n.times[1:]
	}
}

// A row gives the outcome of the spans with a name.
type row struct {
	known        bool
	unnamed      bool                  // the table had no room for the name
	noted        bool                  // recorded in found, as a name without an outcome
	observations []*ledger.Observation // by era; nil if the era has none
	wanted       bool                  // any observation is not nil
	quick        quick
}

// An overrun accounts for lost records. Its counts only grow, because the ends of spans reveal more
// about lost records.
type overrun struct {
	records uint64 // number of lost records
	known   uint64 // lost records that were counted as loss of their outcome
	both    uint64 // spans counted as loss because both of their records were lost

	due bool  // more spans may have to be counted as loss
	at  int64 // when the last loss was detected

	// A ring was overwritten before it was read. The windows from then on are not observed, up to
	// the window in which the loss was found.
	filled bool
	from   int64 // time from which on records may have been lost, if filled

	// Spans that are counted as loss because they have timed out and their end may have been lost.
	doubted map[SpanID]struct{}
}

// maxDoubted limits the number of spans in doubted.
const maxDoubted = 1 << 12

// doubt counts a span whose end may be one of the lost records.
func (v *overrun) doubt(id SpanID) {
	v.known++
	if len(v.doubted) < maxDoubted {
		v.doubted[id] = struct{}{}
	}
}

// clear records that a span has an end. If the span was doubted, its end was not lost.
func (v *overrun) clear(id SpanID) {
	if _, doubted := v.doubted[id]; doubted {
		delete(v.doubted, id)
		v.known--
		v.due = true
	}
}

// settle returns how many more spans have lost both of their records, if each of the open spans has
// lost one. An odd record counts as a span.
func (v *overrun) settle(open uint64) uint64 {
	known := v.known + open
	if v.records <= known {
		return 0
	}
	both := (v.records - known + 1) / 2
	more := both - min(both, v.both)
	v.both += more
	return more
}

func newObserved(id outcome.VM, user int, r *reader, memory io.Closer) *observed {
	o := &observed{id: id, user: user, memory: memory, from: r.read, reader: r, polled: r.read, rate: maxRate, credit: maxBurst * maxRate, edition: 1, nameless: nameless{named: make(map[string]int64)}, overrun: overrun{doubted: make(map[SpanID]struct{})},
		kernel: kernel{sight: func() int64 { return 0 }, changed: func(bool) {}}}
	o.pairer = newPairer(r.fate, o, newRoom(nil, maxRoom), r.header.slotsOfRing())
	return o
}

// open sets the book that counts instances.
func (o *observed) open(b *ledger.Book) { o.book, o.first = b, b.Next() }

// plan switches to a schedule.
func (o *observed) plan(s ledger.Schedule, c control) {
	noted := o.rows
	o.schedule, o.control, o.rows = s, c, make([]row, maxTexts)
	for i := range noted {
		o.rows[i].noted = noted[i].noted
	}
	o.nameless.reach = o.longest()
	o.pairer.replan()
	o.renewed = 0 // write the control word at the next poll
}

// row returns the row of a name.
func (o *observed) row(text uint16) *row {
	r := &o.rows[text]
	if r.known {
		return r
	}
	r.known, r.observations, r.wanted = true, make([]*ledger.Observation, len(o.schedule)), false
	name, ok := o.reader.text(text)
	r.unnamed = !ok
	if !ok || name == "" {
		return r
	}
	for i := range o.schedule {
		r.observations[i] = o.schedule[i].Observation([]byte(name))
		if c := r.observations[i]; c != nil {
			r.wanted = true
			o.nameless.fresh = append(o.nameless.fresh, name)
		}
	}
	if !r.wanted && o.discover && !r.noted {
		r.noted = true
		o.found = append(o.found, name)
	}
	return r
}

// begin takes the first lease. Spans that start before may not have been recorded. If the ring is
// new, they were, and are read as well. If spans are explained, windows before count as not observed:
// programs in the kernel could not see all of these spans. If this collector has them explained, only
// the programs know how each of them ends. So one that reaches its dMax is lost.
func (o *observed) begin(now func() int64) error {
	o.renewed = now()
	isNew, isExplained := o.reader.isNew(o.renewed)
	_, err := o.reader.renew(&o.lease, o.requested(), o.renewed)
	o.from = now()
	if err != nil || !isNew || o.from-o.reader.born() >= firstLease {
		return err
	}
	o.whole, o.polled = true, o.reader.born()
	o.reader.rewind()
	if o.control.explain == 0 && !isExplained {
		o.from = o.reader.born()
		return nil
	}
	o.unsure = o.from
	if o.control.explain != 0 {
		o.pairer.doubt = o.from
	}
	return nil
}

// miss marks the windows in which spans from before the first lease may still end or time out.
func (o *observed) miss() {
	if !o.whole {
		o.gap(o.from, o.from+o.longest())
	}
}

// lost returns the number of records lost since the last call.
func (o *observed) lost() uint64 {
	n := o.unreported
	o.unreported = 0
	return n
}

// poll reads new records. The caller determines now before the call.
func (o *observed) poll(now int64) {
	if o.err != nil {
		return
	}
	o.credit = min(o.credit+float64(now-o.polled)/1e9*o.rate, maxBurst*o.rate)
	o.polled = now
	o.look(now)
	o.nameless.settle(now)
	since := o.reader.read
	defer func() { o.credit = max(0, o.credit-float64(o.reader.spent)) }()
	most := uint64(o.credit)
	lost, err := o.reader.records(now, most, o.countUsual, func(r *record) {
		o.records++
		if r.explained && o.leaves(r, since) {
			return
		}
		o.pairer.add(r)
	})
	o.pairer.settle()
	if lost > 0 {
		o.lose(lost, since, now)
	}
	if err == nil && now-o.renewed >= renewal {
		err = o.renew(now)
	}
	if err != nil {
		o.giveUp(err, since, now)
	}
}

// lose accounts for lost records. If a ring was overwritten, they may be of any time since the last
// read, so the period since then was observed only in part. If programs in the kernel have counted all
// spans since then, only open spans that are older may have lost their ends.
func (o *observed) lose(records uint64, since, now int64) {
	v := &o.overrun
	if o.explaining != 0 && o.explaining < since {
		v.records += records
		v.known += records
		o.unreported += records
		o.pairer.doubt = now
		return
	}
	if o.reader.filled {
		if !v.filled {
			v.filled, v.from = true, since
		}
		o.gap(since, now)
	}
	v.records += records
	v.due, v.at = true, now
	o.unreported += records
	o.pairer.doubt = now
}

// period returns the time to wait before the next read of the ring, which was busy or idle. If many
// reads of few records exceed the limit, the time is longer.
func (o *observed) period(busy bool) time.Duration {
	p := idlePeriod
	if busy {
		p = busyPeriod
	}
	if o.credit > maxBurst*o.rate/2 {
		return p
	}
	earned := time.Duration(float64(o.reader.spent) / o.rate * float64(time.Second))
	return max(p, min(earned, slowPeriod))
}

// renew renews the lease.
func (o *observed) renew(now int64) error {
	until := o.lease.until
	expired, err := o.reader.renew(&o.lease, o.requested(), now)
	if err != nil {
		return err
	}
	if expired {
		o.gap(min(until, o.renewed), now)
	}
	o.noteExplaining(now)
	o.renewed = now
	return nil
}

// noteExplaining notes since when all spans have been explained, and counted by programs in the kernel:
// since the control words of all rings request it, as they were found at each renewal.
func (o *observed) noteExplaining(now int64) {
	if o.kernel.since == 0 {
		return
	}
	for ring := range o.reader.header.rings {
		if uint16(o.reader.control(ring)>>explainShift) != 0xffff {
			o.explaining = 0
			return
		}
	}
	if o.explaining == 0 {
		o.explaining = now
	}
}

// gap records a time in which the VM was not observed.
func (o *observed) gap(from, to int64) {
	o.gaps = addTime(o.gaps, outcome.Window{From: from, To: to})
}

// addTime adds a period. Periods that touch are merged, and so are those beyond maxGaps.
func addTime(times []outcome.Window, t outcome.Window) []outcome.Window {
	if n := len(times); n == maxGaps || n > 0 && times[n-1].To >= t.From {
		last := &times[n-1]
		last.From, last.To = min(last.From, t.From), max(last.To, t.To)
		return times
	}
	return append(times, t)
}

// giveUp records that the ring can no longer be read. It was last read at since. If the process has
// ended, its open spans are cut. Otherwise their ends are unknown.
func (o *observed) giveUp(err error, since, now int64) {
	o.err = err
	if !errors.Is(err, io.EOF) { // there is memory
		o.pairer.abandon()
		o.gap(since, math.MaxInt64)
		return
	}
	o.pairer.sweep(min(since, o.reader.horizon()))
	o.end = outcome.Window{From: since, To: now}
	o.gap(since, now)
	o.pairer.abandon()
}

// collect returns the counts of a window.
func (o *observed) collect(e *ledger.Era, w outcome.Window) []intake.Cell {
	if o.err == nil {
		o.pairer.sweep(min(w.To, o.reader.horizon()))
	}
	o.settleOverrun(w)
	cells := o.book.Collect(e, w)
	o.edition++
	isBlind := o.isBlind(w)
	for i := range cells {
		if isBlind || o.isLate(w) && cells[i].Counts.Loss.Missed > 0 || o.nameless.hides(e.Observations[i].Spec.Span, w) {
			cells[i] = ledger.Unobserved(cells[i])
		}
	}
	o.nameless.forget(w)
	return cells
}

// isLate reports whether this window counts the loss of instances in windows that were collected
// before the ring was found. With such a loss, the window does not count as observed.
func (o *observed) isLate(w outcome.Window) bool { return w.From == o.first && o.from < o.first }

// isBlind reports whether a window was not completely observed. Before the ring was made, there was
// nothing to observe.
func (o *observed) isBlind(w outcome.Window) bool {
	born := o.reader.born()
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

// settleOverrun accounts for spans that lost both of their records. Their outcome is unknown, so
// each outcome counts them as loss. If a ring was overwritten, they count in the first of the
// windows that are not observed for that reason. An open span may have lost its end, so that one record
// counts for it at first. If 10 records are lost and 4 spans are open, at least 3 spans have lost both. If the
// 4 end later with both of their records, 5 have. The other 2 count as soon as no open span is in doubt.
func (o *observed) settleOverrun(w outcome.Window) {
	v := &o.overrun
	if !v.due || len(o.schedule) == 0 {
		return
	}
	open := uint64(0)
	switch {
	case v.filled && w.To > v.from:
		v.filled = false
		open = o.pairer.doubtful()
	case o.err == nil && (v.filled || w.From < v.at+o.longest()):
		return
	}
	v.due = open > 0
	if both := v.settle(open); both > 0 {
		for _, spec := range o.schedule.Specs() {
			o.book.Owe(spec.Name, outcome.Loss{Missed: both})
		}
	}
}

// longest returns the longest dMax.
func (o *observed) longest() (dMax int64) {
	for i := range o.schedule {
		for _, spec := range o.schedule[i].Plan.Specs {
			dMax = max(dMax, int64(spec.DMax()))
		}
	}
	return dMax
}

// stopped reports whether everything has been collected.
func (o *observed) stopped() bool {
	return o.err != nil && o.book.Idle() && !o.overrun.due && o.book.Next() >= o.end.To
}

// started implements [sink].
func (o *observed) started(s *span) {
	if o.rows[s.name].quick.start(o.edition, s.start) {
		return
	}
	r := o.row(s.name)
	if r.unnamed {
		o.nameless.note(s.start, o.book.Next())
	}
	if e, c := o.at(r, s.start); c != nil {
		if n := o.book.Counts(e, c, s.start); n != nil {
			n.Starts++
		}
		o.countQuickly(r, e, c, s.start)
	}
}

// countQuickly enables quick counting of a row in the window of a time, if only the number of instances
// is needed.
func (o *observed) countQuickly(r *row, e *ledger.Era, c *ledger.Observation, at int64) {
	if c.Spec.Detail != outcome.CountsOnly {
		return
	}
	n, w := o.book.Counting(e, c, at)
	if n == nil || w.From < e.Plan.From || w.To > e.To {
		return
	}
	r.quick = quick{o.edition, w, c.From(), c.Grid, n}
}

// at returns the era of a time, and the row's observation in it. Both are nil if there is none.
func (o *observed) at(r *row, at int64) (*ledger.Era, *ledger.Observation) {
	for i := range o.schedule {
		if e := &o.schedule[i]; at < e.To {
			if at < e.Plan.From || r.observations[i] == nil {
				break
			}
			return e, r.observations[i]
		}
	}
	return nil, nil
}

// ended implements [sink].
func (o *observed) ended(e *ended) {
	if !e.failed && o.rows[e.name].quick.end(o.edition, e.start, e.end) {
		return
	}
	r := o.row(e.name)
	if !r.wanted {
		return
	}
	end := o.event(r, e.end)
	if era, c := o.settled(r, e.start, e.end); c != nil {
		i := o.instance(&e.span)
		i.End = e.end
		if e.failed {
			i.Status = outcome.Failure
			i.Class = o.classOf(e)
		}
		late := c.End(e.start, e.end) != e.end // it had already timed out, even if that was not recorded
		o.book.Place(era, c, &i, 0)
		if end != nil && late {
			end.Lates++
		}
	}
	if end != nil {
		end.Ends++
	}
}

// noClass is shown as the class of a failure whose class the table of texts had no room for.
const noClass = "(class not known: the VM's table of classes is full)"

// classOf returns the class of a failure.
func (o *observed) classOf(e *ended) string {
	if e.class == noRoom {
		o.unclassed++
		return noClass
	}
	class, _ := o.reader.text(e.class)
	return class
}

// takeUnclassed returns the number of failures without room for their class since the last call.
func (o *observed) takeUnclassed() (failures uint64) {
	failures, o.unclassed = o.unclassed, 0
	return failures
}

// settled returns the era in which an instance ends, at its end or at its timeout, and the row's
// observation in it.
func (o *observed) settled(r *row, start, end int64) (*ledger.Era, *ledger.Observation) {
	for n := range o.schedule {
		if c := r.observations[n]; c != nil && c.End(start, end) < o.schedule[n].To {
			return &o.schedule[n], c
		}
	}
	return nil, nil
}

// event returns the counts for an event of a row, or nil if there are none.
func (o *observed) event(r *row, at int64) *outcome.Counts {
	if e, c := o.at(r, at); c != nil {
		return o.book.Counts(e, c, at)
	}
	return nil
}

func (o *observed) instance(s *span) intake.Ended {
	return intake.Ended{Start: s.start, Process: outcome.PID(s.process), ID: uint64(s.id), Parent: uint64(s.parent)}
}

// timedOut implements [sink].
func (o *observed) timedOut(s *span, doubtful bool) {
	r := o.row(s.name)
	if o.end.To != 0 {
		o.cut(r, s)
		return
	}
	i := o.instance(s)
	i.End = math.MaxInt64
	e, c := o.settled(r, i.Start, i.End)
	if c == nil {
		return
	}
	if i = c.Settle(i); doubtful {
		if s.start >= o.unsure {
			o.overrun.doubt(s.id)
		}
		o.book.Lose(e, c, i.End, outcome.Loss{Missed: 1}, 0)
		return
	}
	o.book.Place(e, c, &i, 0)
}

// cut counts a span that was open when its process ended.
func (o *observed) cut(r *row, s *span) {
	if s.start < o.pairer.doubt {
		o.overrun.doubt(s.id)
	}
	at := max(o.end.From, o.book.Next())
	for n := range o.schedule {
		if e, c := &o.schedule[n], r.observations[n]; c != nil && at < e.To {
			o.book.Lose(e, c, max(at, e.Plan.From), outcome.Loss{Cut: 1}, 0)
			return
		}
	}
}

// deadline implements [sink].
func (o *observed) deadline(s *span) (int64, bool) {
	r := o.row(s.name)
	if !r.wanted {
		return 0, false
	}
	_, c := o.settled(r, s.start, math.MaxInt64)
	if c == nil {
		return 0, false
	}
	return c.End(s.start, math.MaxInt64), true
}

// stray implements [sink]. If programs in the kernel count explained spans, the start of such a span was
// left out here, or was lost. Its end is left out too, unless the start may be from before.
func (o *observed) stray(r *record, f fate) {
	if r.explained && o.kernel.counts(r.time) && (f != gone || o.kernel.counts(r.time-o.longest())) {
		if f == gone {
			o.overrun.known++
		}
		return
	}
	row := o.row(r.name)
	if row.unnamed {
		o.nameless.note(r.time, o.book.Next())
	}
	if f == gone {
		o.overrun.known++
		if e, c := o.at(row, r.time); c != nil {
			o.book.Lose(e, c, r.time, outcome.Loss{Missed: 1}, 1)
		}
		return
	}
	o.overrun.clear(r.span)
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
