// Package explain finds out where the time of an outcome instance went: it makes a [trace.Trace]
// from the events of the processes that took part.
//
// There are three steps. First, each process gets a history of its states over time. Second, a
// simulated mailbox of each process that receives finds the sent message for each message that it
// took: these are the edges. Third, the time of the instance is divided by the states of its
// process. If the process waited for a message, the sender's time is divided in the same way, and
// so on.
//
// The package does no I/O and reads no clock.
package explain

import (
	"cmp"
	"math"
	"slices"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// An Instance is an instance to be explained.
type Instance struct {
	VM         int       // pid of the operating system
	Outcome    int       // as in the events
	ID         uint64    // of the span
	Start, End int64     // nanoseconds of CLOCK_MONOTONIC
	Owner      trace.PID // process that started it, 0 if unknown

	// Unscheduled is the reason why no events show when the VM's processes begin and stop running,
	// or "" if there are such events.
	Unscheduled string

	// Threadless means that no events show when schedulers' threads do not run.
	Threadless bool
}

// maxProcesses is the maximum number of processes of a VM that are kept without any event in the
// log: such processes may be waiting.
const maxProcesses = 1 << 12

// A Log contains the recorded events. The zero Log is empty. Only one goroutine may use it at a
// time.
type Log struct {
	// IgnoreTokens infers edges by order even if there are seq_trace tokens, to measure the quality
	// of the inference. The caller may set it before the first Add.
	IgnoreTokens bool

	// Atom returns the text of the atom with an index in a VM, "" if unknown. Without it, traces do
	// not contain the part of the VM or the node that sent a message.
	Atom func(vm int, index uint64) string

	vms     map[int]*vm
	begun   bool
	begin   int64  // nothing is known before this time
	why     string // the reason
	last    int64  // time of the last event
	resumed int64  // time from which all events were recorded again after a loss; 0: no loss
}

// A vm contains the events of one VM.
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

// An ends contains the start and the end of a span. A process is nil if that event was not seen.
type ends struct {
	starter, ender     *process
	startedAt, endedAt int64
}

// A handover counts the spans of an outcome that ended in the process that started them, and those
// that ended in another one. It also contains the known processes that the latter passed through.
type handover struct {
	same, other int
	through     map[trace.PID]bool
}

// An interval is a time in nanoseconds of CLOCK_MONOTONIC, [from, to).
type interval struct{ from, to int64 }

func (i interval) overlap(from, to int64) int64 { return max(0, min(i.to, to)-max(i.from, from)) }

// Add appends events, sorted by time, and the gaps among them and among those of later calls. The
// time in a gap is unknown, whatever other events exist.
func (l *Log) Add(events []bpf.Event, missing bpf.Loss) {
	if len(events) == 0 && missing == (bpf.Loss{}) {
		return
	}
	// Events of different threads may be slightly out of order.
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

// gap records that events are missing between two times.
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

// add processes an event. resumed is the time from which all events were recorded again after a
// loss, or 0 without a loss.
func (v *vm) add(e *bpf.Event, resumed int64) {
	if !v.tokens {
		e.Label, e.Prev, e.Cur = 0, 0, 0
	}
	if e.Kind == bpf.EventOffCPU {
		v.absences.add(absenceOf(e), e.Thread)
		if e.Unseen {
			v.absences.miss(interval{e.To, e.Time}, e.Thread)
		}
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
		size: e.Size, alias: e.Alias, unwatched: e.Unwatched, token: tokenOf(e), where: e.Message, unfetched: e.Unfetched,
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

// count counts a span if both its start and its end have been seen.
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

// Forget drops all events before a time, nanoseconds of CLOCK_MONOTONIC. The time should be before
// the start of every instance to be explained: without events, time is unexplained.
func (l *Log) Forget(before int64) {
	before = min(before, l.last+1) // everything
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

// ForgetVM drops the events of a VM that has ended, because another VM may get its pid.
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

// after returns the index of the first item with a time of t or later. The items are in order of
// time.
func after[T any](items []T, t int64, time func(T) int64) int {
	i, _ := slices.BinarySearchFunc(items, t, func(item T, t int64) int { return cmp.Compare(time(item), t) })
	return i
}

// cut removes the first n items. Their memory is released gradually.
func cut[T any](items []T, n int) []T {
	if n > len(items)/2 {
		return slices.Clone(items[n:])
	}
	return items[n:]
}

// forever is the end of intervals that have not ended.
const forever = math.MaxInt64
