package explain

import (
	"cmp"
	"iter"
	"slices"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// An absence is an interval in which a thread did not run.
type absence struct {
	interval
	ready int64 // time since which it was runnable and waited for a processor; forever if it is not runnable yet
	why   bpf.OffReason
	call  string // the system call that it was blocked in
}

// absenceOf returns the absence that an event reports. If the event has no time since which the
// thread was runnable, the thread is still blocked.
func absenceOf(e *bpf.Event) absence {
	a := absence{interval: interval{e.From, e.Time}, ready: e.To, why: e.Off, call: e.Text}
	if e.Unseen {
		a.to = e.To
	} else if a.ready == 0 {
		a.ready, a.to = forever, forever
	}
	a.ready = max(a.from, min(a.ready, a.to))
	return a
}

// halts reports whether all threads of the VM are stopped.
func (a *absence) halts() bool { return a.why == bpf.OffStopped || a.why == bpf.OffFrozen }

// pauses returns the activity, during the absence, of a process in a state on that thread. A native
// function on a dirty scheduler may sleep, because dirty schedulers exist for that.
func (a *absence) pauses(of state) []pause {
	var all []pause
	switch {
	case a.halts():
		all = append(all, pause{interval{a.from, a.ready}, trace.Stopped, haltedBy(a.why)})
	case a.why == bpf.OffTraced:
		all = append(all, pause{interval{a.from, a.ready}, trace.Stopped, "by a debugger"})
	case a.why == bpf.OffBlocked && of != native:
		all = append(all, pause{interval{a.from, a.ready}, trace.Blocked, a.call})
	}
	return append(all, pause{interval{a.ready, a.to}, trace.OSWait, ""})
}

// haltedBy describes what stops a VM.
func haltedBy(why bpf.OffReason) string {
	if why == bpf.OffFrozen {
		return "with its control group"
	}
	return "by a signal"
}

// A pause is an interval in which a process could not continue because of its thread or the VM.
type pause struct {
	interval
	kind   trace.Kind
	detail string // for Unexplained: the reason
}

// whyOffUnseen is the reason for unexplained time while a process had a thread.
const whyOffUnseen = "its scheduler's thread did not run for some of this time; beamscope did not see when"

// absences contains the absences of a VM's threads.
type absences struct {
	threads map[int][]absence  // ended absences, in order of time
	open    map[int]absence    // absences that continue
	unseen  map[int][]interval // intervals in which a thread did not run for an unknown part of the time
	halts   []pause            // disjoint intervals in which the VM was stopped, in order of time
}

func newAbsences() absences {
	return absences{threads: make(map[int][]absence), open: make(map[int]absence), unseen: make(map[int][]interval)}
}

// add adds the absence of a thread.
func (s *absences) add(a absence, thread int) {
	if a.from >= a.to {
		return
	}
	s.threads[thread] = append(s.threads[thread], a)
	if open, ok := s.open[thread]; ok && open.from <= a.from {
		delete(s.open, thread)
	}
	if a.halts() && a.from < a.ready {
		s.halts = s.halted(a)
	}
}

// miss records that a thread did not run for an unknown part of an interval.
func (s *absences) miss(in interval, thread int) {
	if in.from < in.to {
		s.unseen[thread] = append(s.unseen[thread], in)
	}
}

// halted returns the halts with another one, merged with those that it touches.
func (s *absences) halted(a absence) []pause {
	one := pause{interval{a.from, a.ready}, trace.Stopped, haltedBy(a.why)}
	i := after(s.halts, one.from, pauseEnd)
	j := i
	for ; j < len(s.halts) && s.halts[j].from <= one.to; j++ {
		one.from, one.to, one.detail = min(one.from, s.halts[j].from), max(one.to, s.halts[j].to), s.halts[j].detail
	}
	return slices.Replace(slices.Clone(s.halts), i, j, one)
}

// forget drops everything before a time.
func (s *absences) forget(before int64) {
	for thread, all := range s.unseen {
		all = slices.DeleteFunc(all, func(i interval) bool { return i.to < before })
		if s.unseen[thread] = all; len(all) == 0 {
			delete(s.unseen, thread)
		}
	}
	for thread, all := range s.threads {
		i := after(all, before, absenceEnd)
		if i == len(all) {
			delete(s.threads, thread)
			continue
		}
		s.threads[thread] = cut(all, i)
	}
	s.halts = cut(s.halts, after(s.halts, before, pauseEnd))
}

// Off sets the threads that do not run at present, as returned by [bpf.Collector.OffCPU]. It
// replaces those of the last call. Events that are added later have more details.
func (l *Log) Off(events []bpf.Event) {
	for _, v := range l.vms {
		clear(v.absences.open)
	}
	for i := range events {
		e := &events[i]
		v := l.vms[e.VM]
		if v == nil || e.Kind != bpf.EventOffCPU {
			continue
		}
		a := absenceOf(e)
		if known := v.absences.threads[e.Thread]; len(known) == 0 || known[len(known)-1].from < a.from {
			v.absences.open[e.Thread] = a
		}
	}
}

// of returns the disjoint pauses in a segment of a process, in order of time.
func (s *absences) of(g segment) []pause {
	var all []pause
	switch g.state {
	case running, collects, native:
		for a := range s.during(g.thread, g.interval) {
			all = append(all, a.pauses(g.state)...)
		}
		for _, i := range s.unseen[g.thread] {
			all = append(all, pause{i, trace.Unexplained, whyOffUnseen})
		}
	case ready:
		for a := range s.during(g.thread, g.interval) {
			all = append(all, pause{interval{a.ready, a.to}, trace.OSWait, ""})
		}
		all = append(all, s.haltsIn(g.interval)...)
	case waits, suspended:
		all = s.haltsIn(g.interval)
	}
	return within(all, g.interval)
}

// within returns the pauses in an interval, in order. Where pauses overlap, it shortens the later
// one.
func within(all []pause, in interval) []pause {
	slices.SortStableFunc(all, func(a, b pause) int { return cmp.Compare(a.from, b.from) })
	parts := all[:0]
	for _, p := range all {
		if p.from, p.to = max(p.from, in.from), min(p.to, in.to); p.from < p.to {
			parts = append(parts, p)
			in.from = p.to
		}
	}
	return parts
}

// during yields the absences of a thread that overlap an interval.
func (s *absences) during(thread int, in interval) iter.Seq[absence] {
	return func(yield func(absence) bool) {
		all := s.threads[thread]
		for i := after(all, in.from+1, absenceEnd); i < len(all) && all[i].from < in.to; i++ {
			if !yield(all[i]) {
				return
			}
		}
		if open, ok := s.open[thread]; ok && open.from < in.to {
			yield(open)
		}
	}
}

// haltsIn returns the halts of the VM that overlap an interval.
func (s *absences) haltsIn(in interval) []pause {
	var all []pause
	for i := after(s.halts, in.from+1, pauseEnd); i < len(s.halts) && s.halts[i].from < in.to; i++ {
		all = append(all, s.halts[i])
	}
	for _, open := range s.open {
		if open.halts() {
			all = append(all, open.pauses(running)[0])
		}
	}
	return all
}

func absenceEnd(a absence) int64 { return a.to }

func pauseEnd(p pause) int64 { return p.to }
