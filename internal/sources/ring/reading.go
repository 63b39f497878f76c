package ring

import (
	"context"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
	"github.com/beamscope/beamscope/internal/sources/ledger"
)

// maxQueued limits the queued work for a VM whose memory answers late.
const maxQueued = 256

// A reading reads the ring of a VM in its own goroutine. Only this goroutine accesses the memory of
// the VM and the fields of the observed, because another process can block each access to its
// memory for any time. Other goroutines queue work and receive answers. They never wait without a
// limit.
type reading struct {
	user   int
	since  int64 // time since which the ring is read, nanoseconds of CLOCK_MONOTONIC
	probes bool  // the VM has probes

	now     func() int64
	cancel  context.CancelFunc
	work    chan func(*observed)
	answers chan *answer  // one for each requested window, in order
	done    chan struct{} // closed at the end of the goroutine

	// Used by the requesting goroutine.
	owed  int   // number of requested windows without an answer
	asked int64 // time of the first of these requests, or of the last answer
	late  int   // consecutive windows without an answer in time

	mu    sync.Mutex // held only briefly
	found []string   // names of spans without an outcome
}

// An answer contains a VM's data of a window.
type answer struct {
	cells     []intake.Cell
	lost      uint64 // records lost since the last answer
	nameless  uint64 // spans without a name since the last answer
	unclassed uint64 // failures since the last answer whose class the table of texts had no room for
	err       error  // why the ring is no longer read
	stopped   bool   // everything has been collected
}

func newReading(o *observed, now func() int64, cancel context.CancelFunc) *reading {
	return &reading{
		user: o.user, since: o.from, probes: o.reader.header.probes,
		now: now, cancel: cancel, work: make(chan func(*observed), maxQueued), answers: make(chan *answer, maxQueued), done: make(chan struct{}),
	}
}

// run reads the ring and does queued work, until the context is done.
func (r *reading) run(ctx context.Context, o *observed) {
	defer close(r.done)
	defer o.memory.Close()
	defer o.pairer.release()
	timer := time.NewTimer(busyPeriod)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case do := <-r.work:
			do(o)
		case <-timer.C:
			before := o.records
			o.poll(r.now())
			if o.err != nil {
				o.memory.Close()
			} else {
				timer.Reset(o.period(o.records > before))
			}
		}
		r.publish(o)
	}
}

// publish makes the found names available to other goroutines.
func (r *reading) publish(o *observed) {
	if len(o.found) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found, o.found = append(r.found, o.found...), nil
}

// discovered returns the names found since the last call.
func (r *reading) discovered() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names, r.found = r.found, nil
	return names
}

// do queues work for the goroutine. It returns false if the queue is full.
func (r *reading) do(work func(*observed)) bool {
	select {
	case r.work <- work:
		return true
	default:
		return false
	}
}

// ask requests a window, and sets the rate of slots that may be read per second.
func (r *reading) ask(e *ledger.Era, w outcome.Window, rate float64) bool {
	if r.owed == maxQueued {
		return false
	}
	ok := r.do(func(o *observed) {
		o.rate = rate
		o.poll(r.now())
		r.answers <- &answer{cells: o.collect(e, w), lost: o.lost(), nameless: o.nameless.take(), unclassed: o.takeUnclassed(), err: o.err, stopped: o.stopped()}
	})
	if !ok {
		return false
	}
	if r.owed == 0 {
		r.asked = r.now()
	}
	r.owed++
	return true
}

// next returns the next answer, or nil if there is none within the limit.
func (r *reading) next(limit time.Duration) *answer {
	var a *answer
	select {
	case a = <-r.answers:
	default:
		if a = r.await(limit); a == nil {
			return nil
		}
	}
	r.owed--
	r.asked = r.now()
	return a
}

// await waits for an answer. It returns nil if there is none within the limit.
func (r *reading) await(limit time.Duration) *answer {
	if limit <= 0 {
		return nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case a := <-r.answers:
		return a
	case <-timer.C:
		return nil
	}
}

// isSilent reports whether the memory of the VM does not answer. It must have been late twice,
// because this process may have been suspended itself.
func (r *reading) isSilent(patience time.Duration) bool {
	return r.late > 1 && r.now()-r.asked > int64(patience)
}

// hasEnded reports whether the goroutine has ended.
func (r *reading) hasEnded() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}
