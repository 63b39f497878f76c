// Package explain finds out where the time of an outcome instance went: out of the
// events of the processes that took part, it makes a [trace.Trace].
//
// There are three steps. Of each process a history is kept: which state it was in from
// when on. Of each process that receives, a simulated mailbox says which message it took
// is which one that was sent: that are the edges. Then the time of the instance is
// divided by the states of its process; where that waited for a message, the process
// that sent it is looked at for that time, and so on.
//
// Nothing in here does I/O or asks a clock.
package explain

import (
	"cmp"
	"math"
	"slices"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/trace"
)

// An Instance is what is to be explained.
type Instance struct {
	VM         int       // pid of the operating system
	Outcome    int       // as of the events
	ID         uint64    // of the span
	Start, End int64     // nanoseconds of CLOCK_MONOTONIC
	Owner      trace.PID // that started it, 0 where it is not known

	// Unscheduled says why it is not seen when the VM's processes begin and stop to run; ""
	// where it is.
	Unscheduled string

	// Threadless says that it is not seen when schedulers' threads do not run.
	Threadless bool
}

// maxProcesses is how many processes are kept of a VM of which nothing is left in the
// log: they may be waiting all the time.
const maxProcesses = 1 << 12

// A Log is what happened, as far as it was recorded. The zero Log is empty. It is to be
// used by one goroutine at a time.
type Log struct {
	// IgnoreTokens has edges inferred by order even where there are seq_trace tokens, to
	// find out how well that does. It may be set before the first Add.
	IgnoreTokens bool

	// Atom returns the text of the atom of a VM that has an index, "" where it is not known.
	// Without it, which part of the VM or which node sent a message is not told.
	Atom func(vm int, index uint64) string

	vms     map[int]*vm
	begun   bool
	begin   int64  // nothing is known of before
	why     string // why not
	last    int64  // time of the last event
	resumed int64  // when all events were recorded again after some were lost, 0: none were
}

// A vm is what happened in one VM.
type vm struct {
	processes map[trace.PID]*process
	absences
	spans  map[spanKey]*ends
	handed map[int]handover // by outcome
	tokens bool             // are to be used
}

// A spanKey identifies a span within its VM.
type spanKey struct {
	outcome int
	id      uint64
}

// An ends is how a span started and ended; the processes are nil where that was not
// seen.
type ends struct {
	starter, ender     *process
	startedAt, endedAt int64
}

// A handover says of how many spans the end was seen in the process that started them,
// and in another; and through which processes those went that did, as far as is known.
type handover struct {
	same, other int
	through     map[trace.PID]bool
}

// An interval is a time in nanoseconds of CLOCK_MONOTONIC, [from, to).
type interval struct{ from, to int64 }

func (i interval) overlap(from, to int64) int64 { return max(0, min(i.to, to)-max(i.from, from)) }

// Add appends events, in the order of time, and what is missing among them and those of
// later calls: what happened then is not known, whatever else was recorded of it.
func (l *Log) Add(events []bpf.Event, missing bpf.Loss) {
	if len(events) == 0 && missing == (bpf.Loss{}) {
		return
	}
	// Those of different threads may be swapped by a little.
	byTime := func(a, b bpf.Event) int { return cmp.Compare(a.Time, b.Time) }
	if !slices.IsSortedFunc(events, byTime) {
		events = slices.Clone(events)
		slices.SortStableFunc(events, byTime)
	}
	if !l.begun {
		l.begun = true
		l.vms = make(map[int]*vm)
		l.begin, l.why = missing.From, whyNotRecorded
		if len(events) > 0 {
			l.begin = events[0].Time
		}
		l.last = l.begin
	}
	if missing != (bpf.Loss{}) {
		n := after(events, missing.From, func(e bpf.Event) int64 { return e.Time })
		l.add(events[:n])
		l.gap(missing.From, missing.To)
		events = events[n:]
	}
	l.add(events)
}

func (l *Log) add(events []bpf.Event) {
	for i := range events {
		e := events[i]
		e.Time = max(e.Time, l.last)
		l.last = e.Time
		l.vm(e.VM).add(&e, l.resumed)
	}
}

// gap says that events are missing between two times.
func (l *Log) gap(from, until int64) {
	if from <= l.begin {
		l.begin, l.why = max(l.begin, until), whyOverwritten
	}
	l.resumed = max(l.resumed, until)
	for _, v := range l.vms {
		for _, p := range v.processes {
			p.gap(from, until)
		}
	}
}

func (l *Log) vm(pid int) *vm {
	v := l.vms[pid]
	if v == nil {
		v = &vm{
			processes: make(map[trace.PID]*process),
			absences:  newAbsences(),
			spans:     make(map[spanKey]*ends),
			handed:    make(map[int]handover),
			tokens:    !l.IgnoreTokens,
		}
		l.vms[pid] = v
	}
	return v
}

// add takes an event into account. resumed is when all events were recorded again after
// some were lost, 0 if none were.
func (v *vm) add(e *bpf.Event, resumed int64) {
	if !v.tokens {
		e.Label, e.Prev, e.Cur = 0, 0, 0
	}
	if e.Kind == bpf.EventOffCPU {
		v.absences.add(absenceOf(e), e.Thread)
		return
	}
	if e.Process == 0 {
		return
	}
	p := v.process(trace.PID(e.Process))
	inGap := e.Time < resumed
	if inGap {
		p.addInGap(e, resumed)
	} else {
		p.add(e, resumed)
	}
	switch e.Kind {
	case bpf.EventSend:
		if e.Other != 0 && !inGap {
			v.send(p, e)
		}
	case bpf.EventSpanStart:
		s := v.ends(e)
		s.starter, s.startedAt = p, e.Time
		p.started = append(p.started, started{e.Time, e.Outcome})
		v.count(e.Outcome, s)
	case bpf.EventSpanEnd:
		s := v.ends(e)
		if s.ender == nil {
			s.ender, s.endedAt = p, e.Time
			v.count(e.Outcome, s)
		}
	}
}

// send adds a message to both its processes.
func (v *vm) send(p *process, e *bpf.Event) {
	q := v.process(trace.PID(e.Other))
	s := &send{
		from: p.pid, to: q.pid, at: e.Time,
		size: e.Size, alias: e.Alias, unwatched: e.Unwatched, token: tokenOf(e),
	}
	p.sent, p.sending = append(p.sent, s), s
	p.sentTo[q.pid] = append(p.sentTo[q.pid], s)
	q.arrive(s)
	p.box.answered(q.pid)
}

func (v *vm) process(pid trace.PID) *process {
	p := v.processes[pid]
	if p == nil {
		p = newProcess(pid)
		v.processes[pid] = p
	}
	return p
}

func (v *vm) ends(e *bpf.Event) *ends {
	key := spanKey{e.Outcome, e.ID}
	s := v.spans[key]
	if s == nil {
		s = new(ends)
		v.spans[key] = s
	}
	return s
}

// count counts a span where both its ends have been seen.
func (v *vm) count(outcome int, s *ends) {
	if s.starter == nil || s.ender == nil {
		return
	}
	h := v.handed[outcome]
	if s.starter == s.ender {
		h.same++
	} else {
		h.other++
		if h.through == nil {
			h.through = make(map[trace.PID]bool)
		}
		v.passed(s, h.through)
	}
	v.handed[outcome] = h
}

// Forget forgets what was before a time, nanoseconds of CLOCK_MONOTONIC. It should be
// before the start of whatever is to be explained: what is forgotten is unexplained.
func (l *Log) Forget(before int64) {
	before = min(before, l.last+1) // all there is
	if !l.begun || before <= l.begin {
		return
	}
	l.begin, l.why = before, whyForgotten
	if l.resumed < before {
		l.resumed = 0
	}
	for pid, v := range l.vms {
		v.forget(before)
		if len(v.processes) == 0 && len(v.absences.threads) == 0 {
			delete(l.vms, pid)
		}
	}
}

// ForgetVM forgets a VM that has ended: its pid may be that of another one next.
func (l *Log) ForgetVM(pid int) { delete(l.vms, pid) }

func (v *vm) forget(before int64) {
	v.absences.forget(before)
	for key, s := range v.spans {
		if max(s.startedAt, s.endedAt) < before {
			delete(v.spans, key)
		}
	}
	for pid, p := range v.processes {
		p.forget(before)
		if p.idle() && (p.current().state == exited || p.current().state == unknown || len(v.processes) > maxProcesses) {
			delete(v.processes, pid)
		}
	}
}

// after returns the index of the first item of those in the order of time whose time is
// at t or later.
func after[T any](items []T, t int64, time func(T) int64) int {
	i, _ := slices.BinarySearchFunc(items, t, func(item T, t int64) int { return cmp.Compare(time(item), t) })
	return i
}

// cut removes the first n items; the memory they had is given back by and by.
func cut[T any](items []T, n int) []T {
	if n > len(items)/2 {
		return slices.Clone(items[n:])
	}
	return items[n:]
}

// forever is when ends what has not ended.
const forever = math.MaxInt64
