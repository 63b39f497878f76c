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
	most    int          // limit on the number of events
	callers *callers     // functions that suspend processes; nil if not wanted
	now     func() int64 // nanoseconds of CLOCK_MONOTONIC

	mu         sync.Mutex
	adding     pace
	explaining pace
	log        explain.Log
	batch      []bpf.Event // buffer for reading
	chunks     []chunk     // the events in the log, in order of time
	held       int         // number of events in all chunks
	lost       uint64      // number of lost events since the last takeLost

	watched []watchedProcess // the first processes since the last takeWatched
}

// Adding events takes at most a half of all time, and explaining instances a quarter. Windows wait meanwhile.
const addingPart, explainingPart = 2, 4

// addedAtOnce is the number of events that are added between two looks at the clock.
const addedAtOnce = 1 << 10

// newRecord returns an empty record. Both arguments may be nil: then functions that suspend processes, or atoms,
// have no names.
func newRecord(c *callers, atom func(vm int, index uint64) string) *record {
	return &record{
		most: recordMost, callers: c, now: monotonic.Now,
		adding: pace{part: addingPart}, explaining: pace{part: explainingPart},
		log: explain.Log{Atom: atom},
	}
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

// An eventLog has the events that a collector has recorded, see [bpf.Collector].
type eventLog interface {
	Events(most int, fn func([]bpf.Event)) (bpf.Loss, error)
	DropEvents() (bpf.Loss, error)
}

// readMost is the largest number of events that are read at once. Even those take a part of a second if other
// programs have most of the processors' time.
const readMost = 1 << 16

// read adds the events that a collector has recorded.
func (r *record) read(events eventLog) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.readNext(events)
}

// forWindow adds the threads that are not running at present, and the events that a collector has recorded. Then
// it calls do, which may explain instances and forget events. Nobody else uses the record meanwhile: if another
// goroutine could add events before each instance, a window would wait for that many times.
func (r *record) forWindow(events eventLog, off []bpf.Event, do func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Off(off)
	if err := r.readNext(events); err != nil {
		return err
	}
	do()
	return nil
}

// readNext adds the recorded events, as many as there is time for. If there is none, it does not even read them.
func (r *record) readNext(events eventLog) error {
	begin := r.now()
	if !r.adding.hasTime(begin) {
		missing, err := events.DropEvents()
		r.add(nil, missing)
		return err
	}
	r.batch = r.batch[:0]
	missing, err := events.Events(readMost, func(batch []bpf.Event) { r.batch = append(r.batch, batch...) })
	r.adding.spend(r.now() - begin)
	r.addInTime(r.batch, missing)
	return err
}

// addInTime adds events in order of time, as many as there is time for. The others are lost.
func (r *record) addInTime(events []bpf.Event, missing bpf.Loss) {
	for len(events) > 0 {
		begin := r.now()
		if !r.adding.hasTime(begin) {
			break
		}
		some := events[:min(len(events), addedAtOnce)]
		events = events[len(some):]
		var among bpf.Loss
		if some[len(some)-1].Time >= missing.From {
			among, missing = missing, bpf.Loss{}
		}
		if r.callers != nil {
			r.callers.name(some)
		}
		r.add(some, among)
		r.adding.spend(r.now() - begin)
	}
	missing.Add(lossOf(events))
	r.add(nil, missing)
}

// lossOf returns the loss of events that are not added.
func lossOf(events []bpf.Event) (l bpf.Loss) {
	for _, e := range events {
		l.Add(bpf.Loss{Events: 1, From: e.Time, To: e.Time})
	}
	return l
}

// A pace limits the time for something to a part of all time. The VMs of one user can have so many open spans that
// each event or explanation takes long.
type pace struct {
	part int64 // a half is 2, a third 3
	at   int64 // of the last look, nanoseconds of CLOCK_MONOTONIC; 0: there was none
	left int64 // nanoseconds that may be spent
}

// hasTime reports whether there is time for more.
func (p *pace) hasTime(now int64) bool {
	const most = int64(time.Second / 4)
	earned := (now - p.at) / p.part
	if p.at == 0 {
		earned = most
	}
	p.at, p.left = now, min(p.left+earned, most)
	return p.left > 0
}

func (p *pace) spend(took int64) { p.left -= took }

// skip discards the recorded events and starts an empty log. Events are recorded only in part
// while nothing is explained.
func (r *record) skip(events eventLog) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log, r.chunks, r.held = explain.Log{Atom: r.log.Atom}, nil, 0
	_, err := events.DropEvents()
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
		r.forget(r.chunks[0].until + 1)
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

// forgetVM drops a VM that has ended.
func (r *record) forgetVM(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.ForgetVM(pid)
}

// forget drops events before a time. It is called within forWindow.
func (r *record) forget(before int64) {
	for len(r.chunks) > 0 && r.chunks[0].until < before {
		r.held -= r.chunks[0].n
		r.chunks = r.chunks[1:]
	}
	r.log.Forget(before)
}

// whyNoTime is the reason in the trace of an instance if explaining others took too long.
const whyNoTime = "there was no time to explain all instances"

// explain returns where the time of an instance went. It is called within forWindow.
func (r *record) explain(i explain.Instance) *trace.Trace {
	begin := r.now()
	if !r.explaining.hasTime(begin) {
		return bareTrace(&outcome.Instance{Start: i.Start, End: i.End, Process: i.Owner}, whyNoTime)
	}
	defer func() { r.explaining.spend(r.now() - begin) }()
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
