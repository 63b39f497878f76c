package vmsource

import (
	"slices"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// recordMost is the largest number of events that are kept for explanations.
const recordMost = 1 << 20

// A record contains the events of processes that take part in open instances, as long as an
// explanation may need them.
type record struct {
	most    int      // limit on the number of events
	callers *callers // functions that suspend processes; nil if not wanted

	mu     sync.Mutex
	pace   pace
	log    explain.Log
	batch  []bpf.Event // buffer for reading
	chunks []chunk     // the events in the log, in order of time
	held   int         // number of events in all chunks
	lost   uint64      // number of lost events since the last takeLost

	watched []watchedProcess // the first processes since the last takeWatched
}

// A watchedProcess is a process whose events are recorded, or one that sends a message to such a
// process or keeps it from running.
type watchedProcess struct {
	vm      int
	process outcome.PID
}

// watchedMost is the largest number of processes that are noted between two calls of takeWatched.
// Naming a process takes some reads of the VM's memory. At this rate naming takes at most 1 % of
// a core.
const watchedMost = 50

// A chunk counts events up to a time, which are dropped together.
type chunk struct {
	until int64
	n     int
}

// read adds the events that a collector has recorded.
func (r *record) read(events func(func([]bpf.Event)) (bpf.Loss, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batch = r.batch[:0]
	missing, err := events(func(batch []bpf.Event) { r.batch = append(r.batch, batch...) })
	begin := monotonic.Now()
	if !r.pace.hasTime(begin) {
		missing.Add(lossOf(r.batch))
		r.batch = r.batch[:0]
	}
	if r.callers != nil {
		r.callers.name(r.batch)
	}
	r.add(r.batch, missing)
	r.pace.spend(monotonic.Now() - begin)
	return err
}

// lossOf returns the loss of events that are not added.
func lossOf(events []bpf.Event) (l bpf.Loss) {
	for _, e := range events {
		l.Add(bpf.Loss{Events: 1, From: e.Time, To: e.Time})
	}
	return l
}

// A pace limits the time for adding events to half of all time. Windows wait meanwhile, and the VMs of one user can
// have so many open spans that each event takes long. Its zero value is ready for use.
type pace struct {
	at   int64 // of the last look, nanoseconds of CLOCK_MONOTONIC; 0: there was none
	left int64 // nanoseconds that may be spent
}

// hasTime reports whether there is time for more events.
func (p *pace) hasTime(now int64) bool {
	const most = int64(time.Second)
	earned := (now - p.at) / 2
	if p.at == 0 {
		earned = most
	}
	p.at, p.left = now, min(p.left+earned, most)
	return p.left > 0
}

func (p *pace) spend(took int64) { p.left -= took }

// off records the threads that are not running at present.
func (r *record) off(threads []bpf.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Off(threads)
}

// skip discards the recorded events and starts an empty log. Events are recorded only in part
// while nothing is explained.
func (r *record) skip(events func(func([]bpf.Event)) (bpf.Loss, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log, r.chunks, r.held = explain.Log{Atom: r.log.Atom}, nil, 0
	_, err := events(func([]bpf.Event) {})
	return err
}

// add adds events in order of time, and the gaps among them. If there are too many events, it
// drops the oldest as lost.
func (r *record) add(events []bpf.Event, missing bpf.Loss) {
	r.lost += missing.Events
	r.log.Add(events, missing)
	r.noteWatched(events)
	for most := max(1, r.most/128); len(events) > 0; {
		if len(r.chunks) == 0 || r.chunks[len(r.chunks)-1].n == most {
			r.chunks = append(r.chunks, chunk{})
		}
		last := &r.chunks[len(r.chunks)-1]
		n := min(len(events), most-last.n)
		last.n += n
		last.until = max(last.until, events[n-1].Time)
		r.held += n
		events = events[n:]
	}
	for r.held > r.most {
		r.lost += uint64(r.chunks[0].n)
		r.giveUp(r.chunks[0].until + 1)
	}
}

func (r *record) noteWatched(events []bpf.Event) {
	for i := range events {
		if len(r.watched) == watchedMost {
			return
		}
		e := &events[i]
		w := watchedProcess{e.VM, outcome.PID(e.Process)}
		switch e.Kind {
		case bpf.EventWatch, bpf.EventSend:
		case bpf.EventNeighbour, bpf.EventHold:
			w.process = outcome.PID(e.Other)
		default:
			continue
		}
		if !slices.Contains(r.watched, w) {
			r.watched = append(r.watched, w)
		}
	}
}

// takeWatched returns processes whose events were recorded since the last call.
func (r *record) takeWatched() []watchedProcess {
	r.mu.Lock()
	defer r.mu.Unlock()
	watched := r.watched
	r.watched = nil
	return watched
}

// forget drops events before a time.
func (r *record) forget(before int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.giveUp(before)
}

// forgetVM drops a VM that has ended.
func (r *record) forgetVM(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.ForgetVM(pid)
}

func (r *record) giveUp(before int64) {
	for len(r.chunks) > 0 && r.chunks[0].until < before {
		r.held -= r.chunks[0].n
		r.chunks = r.chunks[1:]
	}
	r.log.Forget(before)
}

// explain returns where the time of an instance went.
func (r *record) explain(i explain.Instance) *trace.Trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Explain(i)
}

// takeLost returns the number of events that were lost since the last call.
func (r *record) takeLost() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := r.lost
	r.lost = 0
	return lost
}
