package outcome

import (
	"slices"
	"sync"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain"
	"github.com/beamscope/beamscope/internal/trace"
)

// recordMost is how many events are kept for explanations.
const recordMost = 1 << 20

// A record is what happened to the processes that take part in open instances, until
// nothing can need it any more.
type record struct {
	most    int      // events that are kept
	callers *callers // that suspend processes, nil where nobody asks

	mu     sync.Mutex
	log    explain.Log
	batch  []bpf.Event // as it is read
	chunks []chunk     // of what the log has, in the order of time
	held   int         // sum of the chunks
	lost   uint64      // since that was last asked for

	watched []watchedProcess // the first of those since that was last asked for
}

// A watchedProcess is one whose events are recorded, or that sends a message to such a
// one, or keeps it from running.
type watchedProcess struct {
	vm      int
	process PID
}

// watchedMost is how many processes are noted between two looks: to name one takes some
// reads of the VM's memory, and this often it is at most 1 % of a core.
const watchedMost = 50

// A chunk is so many events up to a time, which are given up together.
type chunk struct {
	until int64
	n     int
}

// read adds what a collector has recorded.
func (r *record) read(events func(func([]bpf.Event)) (bpf.Loss, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batch = r.batch[:0]
	missing, err := events(func(batch []bpf.Event) { r.batch = append(r.batch, batch...) })
	if r.callers != nil {
		r.callers.name(r.batch)
	}
	r.add(r.batch, missing)
	return err
}

// off takes note of the threads that do not run at present.
func (r *record) off(threads []bpf.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Off(threads)
}

// skip passes over what a collector has recorded, and begins anew behind it: what happens
// while nothing is to be explained is not all recorded.
func (r *record) skip(events func(func([]bpf.Event)) (bpf.Loss, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log, r.chunks, r.held = explain.Log{Atom: r.log.Atom}, nil, 0
	_, err := events(func([]bpf.Event) {})
	return err
}

// add adds events in the order of time, and what is missing among them. Where there are
// too many, the oldest are lost as well.
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
		w := watchedProcess{e.VM, PID(e.Process)}
		switch e.Kind {
		case bpf.EventWatch, bpf.EventSend:
		case bpf.EventNeighbour, bpf.EventHold:
			w.process = PID(e.Other)
		default:
			continue
		}
		if !slices.Contains(r.watched, w) {
			r.watched = append(r.watched, w)
		}
	}
}

// takeWatched returns processes whose events are recorded since it was last called.
func (r *record) takeWatched() []watchedProcess {
	r.mu.Lock()
	defer r.mu.Unlock()
	watched := r.watched
	r.watched = nil
	return watched
}

// forget forgets what was before a time.
func (r *record) forget(before int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.giveUp(before)
}

// forgetVM forgets a VM that has ended.
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

// takeLost returns how many events were lost since it was last called.
func (r *record) takeLost() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := r.lost
	r.lost = 0
	return lost
}
