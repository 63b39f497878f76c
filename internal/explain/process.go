package explain

import (
	"slices"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/trace"
)

// near is how far apart in time, in nanoseconds, events of different threads may be that
// happened in the other order than they are told in.
const near = 5000

// preempted is how many reductions a process has at least used up that was preempted:
// what the VM gives it at a time.
const preempted = 4000

// Why nothing is known of a process.
const (
	whyNotWatched  = "what it did is not known: beamscope did not track it then"
	whyNoRoom      = "what it did is not known: beamscope had no room to track it"
	whyOverwritten = "its events were overwritten before they were read"
	whyForgotten   = "too long ago: beamscope no longer has these events"
	whyNotRecorded = "before the recording began"
	whySilent      = "what it did is not known: no event of it was seen yet"
	whyBegunUnseen = "when it began to run is not known: its scheduler had been idle since before the probes were attached"

	whySuspendedUnseen = "it was suspended for a part of this time, and since when was not seen"
)

// guessReductions is on what it rests, where the VM does not tell more, whether a process
// waits that has stopped to run.
const guessReductions = "inferred from its reductions"

// guessThread is why it is not certain that a process that ran did.
const guessThread = "its scheduler's thread may have slept: beamscope does not see that here"

// A state is what a process does.
type state uint8

const (
	unknown state = iota
	running
	ready
	waits     // in a receive
	suspended // until it is resumed
	collects  // its garbage
	native    // code on a dirty scheduler
	exited
)

// A change is that a process comes into a state.
type change struct {
	at     int64
	state  state
	thread int    // of running, collects and native; of ready, that on which it ended
	detail string // the native function, why it is unknown
	timed  bool   // of waits: the receive has a time
	over   bool   // of ready: the time of the receive it waits in is over
	told   int64  // of ready: when the VM said so, 0 if it did not
	by     *send  // of ready: the message that made it so, if that came
	why    suspension
	guess  string // on what it rests that it came into the state then; "" where that is certain
}

// moved returns the change at another time.
func (c change) moved(at int64) change {
	c.at = at
	return c
}

// A started is that a process started a span.
type started struct {
	at      int64
	outcome int
}

// A lapse is that a process was not watched any more: that it is not was seen later than
// its last event before.
type lapse struct{ last, seen int64 }

// A neighbour is a process that ran while another one could have.
type neighbour struct {
	interval
	at  int64 // when the other one came to run
	pid trace.PID
}

// A process is what is known of one. All slices are in the order of time.
type process struct {
	pid     trace.PID
	watched bool
	assumed int64 // when it first did something and was taken to have been watched for longer, 0: never
	unsaid  bool  // it is watched, and the last change is why it is unknown what it does
	changes []change
	lapses  []lapse
	blanks  []int64 // when it became unknown what it does

	sent       []*send
	sending    *send // the last one, until it did something else
	sentTo     map[trace.PID][]*send
	arrived    []*send
	fetched    []int64 // when messages were queued
	received   []receipt
	started    []started
	neighbours []neighbour
	monitors   []watching
	glances    []int64 // when it waited on, having done nothing when it was scheduled in

	timing
	ran    int64 // when it was scheduled in for the last time
	early  int64 // when it could go on, told before it began to wait; 0: it was not since it stopped
	active bool  // it has done something since

	beforeGC, beforeNIF change // that GC and native code go back to
	suspendable
	last int64 // event of its own
	box  mailbox
}

func newProcess(pid trace.PID) *process {
	return &process{pid: pid, sentTo: make(map[trace.PID][]*send)}
}

// current returns the last change; that nothing is known if there is none.
func (p *process) current() change {
	if len(p.changes) == 0 {
		return change{detail: whyNotWatched}
	}
	return p.changes[len(p.changes)-1]
}

// set adds a change.
func (p *process) set(c change) {
	p.unsaid = false
	if n := len(p.changes); n > 0 {
		last := &p.changes[n-1]
		c.at = max(c.at, last.at)
		if last.moved(c.at) == c {
			return
		}
	}
	p.changes = append(p.changes, c)
}

// watch says that all is recorded from a time on. One that has exited has until it does
// something, being another one then.
func (p *process) watch(at int64) {
	if p.current().state != exited {
		p.set(change{at: at, detail: whySilent})
	}
	p.watched, p.unsaid = true, true
	p.timing.begin()
	p.box.reset(at - near)
}

// unwatch says that nothing is recorded from a time on.
func (p *process) unwatch(at int64, why string) {
	p.set(change{at: at, detail: why})
	p.blanks = append(p.blanks, p.current().at)
	p.watched = false
	p.box.reset(forever)
}

// gap says that what happened between two times is lost.
func (p *process) gap(from, until int64) {
	if p.watched {
		p.unwatch(from, whyOverwritten)
		p.watch(until)
	}
}

// addInGap takes an event of its own into account that is from a time of which others are
// lost: it tells whether the process is watched when all are recorded again, and no more.
// What it did among what was lost is not known; nor is which message it took, as there may
// have been others.
func (p *process) addInGap(e *bpf.Event, resumed int64) {
	p.moveOn(e)
	switch e.Kind {
	case bpf.EventWatch:
		p.lapse(e.Time)
		p.watch(resumed)
	case bpf.EventUnwatched:
		p.unwatch(resumed, whyNoRoom)
	case bpf.EventExit:
		p.set(change{at: resumed, state: exited})
		p.box.reset(forever)
	case bpf.EventSend:
		if e.Unwatched && p.watched {
			p.lapse(e.Time)
			p.set(change{at: resumed, detail: whyNotWatched})
		}
		if !p.watched {
			return
		}
	case bpf.EventSpanStart, bpf.EventSpanEnd:
		if !p.watched {
			return
		}
	default:
		if !p.watched {
			p.watch(resumed)
		}
	}
	p.last = e.Time
}

// add takes an event of its own into account. resumed is when all events were recorded
// again after some were lost, 0 if none were.
func (p *process) add(e *bpf.Event, resumed int64) {
	p.moveOn(e)
	switch e.Kind {
	case bpf.EventWatch:
		if p.assumed != 0 && e.Time-p.assumed <= near {
			// It was not before: the two happened in the other order.
			p.watched, p.changes = false, nil
		}
		p.lapse(e.Time)
		p.watch(e.Time)
		p.box.tracked = e.Time
		p.last = e.Time
		return
	case bpf.EventUnwatched:
		p.unwatch(e.Time, whyNoRoom)
		p.last = e.Time
		return
	case bpf.EventSend, bpf.EventSpanStart, bpf.EventSpanEnd:
		if e.Unwatched && p.watched {
			p.lapse(e.Time)
			p.set(change{at: e.Time, detail: whyNotWatched})
		}
		if !p.watched {
			return
		}
	}
	if !p.watched {
		// That it is watched must have been lost.
		since := e.Time
		if len(p.changes) == 0 && resumed != 0 {
			since, p.assumed = resumed, e.Time
		}
		p.watch(since)
	}
	last := p.last
	p.last = e.Time
	if e.Kind == bpf.EventNeighbour {
		if e.Other != 0 && e.From < e.To {
			p.neighbours = append(p.neighbours, neighbour{interval{e.From, e.To}, e.Time, trace.PID(e.Other)})
		}
		return
	}
	if p.others(e) {
		p.last = last // it has done nothing itself
		return
	}
	p.silent = 0
	if e.Kind != bpf.EventQueued {
		p.woken(p.box.fetch())
	}
	if p.unsaid && !byScheduler(e) {
		if p.current().state == exited {
			p.set(change{at: e.Time})
		}
		p.infer(e)
	}
	p.time(e)
	p.glance(e)
	p.change(e)
	p.mail(e, last)
}

// ready says that it was given to a scheduler, if it waited. It may be told just before it
// begins to wait, by whom it has woken then.
func (p *process) ready(e *bpf.Event) {
	if p.unsaid && p.current().state != exited {
		p.silent = p.current().at
		p.infer(e)
	}
	over := e.State&bpf.StateTimedOut != 0
	switch p.current().state {
	case waits:
		p.set(change{at: e.Time, state: ready, over: over, told: e.Time})
	case ready:
		p.confirm(e.Time)
		if over { // a message has made it ready before
			p.set(change{at: e.Time, state: ready, over: true})
		}
	case running:
		p.early = e.Time
	case suspended:
		p.canGoOn(e.Time)
	case collects:
		p.waitsNoMore()
	}
}

// confirm says that the VM gave the process to a scheduler, if a message was seen to be sent
// that made it ready. The sender may have been held up before the message was in the mailbox:
// then the process is ready only from now on.
func (p *process) confirm(at int64) {
	c := &p.changes[len(p.changes)-1]
	if c.by == nil || c.told != 0 {
		return
	}
	c.told = at
	if at-c.at > near {
		c.at = at
	}
}

// others takes into account what others do to the process, if that is what the event tells.
func (p *process) others(e *bpf.Event) bool {
	switch e.Kind {
	case bpf.EventReady:
		p.ready(e)
	case bpf.EventHold:
		p.holds(e)
	case bpf.EventRelease:
		p.releases(e)
	case bpf.EventResume:
		p.resumes(e)
	default:
		return false
	}
	return true
}

// moveOn says that it does something: what it sent is where it should be.
func (p *process) moveOn(e *bpf.Event) {
	switch e.Kind {
	case bpf.EventWatch, bpf.EventUnwatched, bpf.EventReady, bpf.EventHold, bpf.EventRelease, bpf.EventResume:
		return // others do that
	}
	if p.sending != nil {
		p.sending.next = e.Time
		p.sending = nil
	}
}

// lapse says that it is seen at a time that the process is not watched any more: since
// when is not said, but it was at its last event.
func (p *process) lapse(seen int64) {
	if !p.watched {
		return
	}
	p.lapses = append(p.lapses, lapse{p.last, seen})
	p.watched, p.unsaid = false, false
	p.box.outlive(seen - near)
	p.box.reset(seen - near)
}

// byScheduler reports whether an event may be of a process that does not run, as a scheduler
// handles its signals: it fetches its messages, or suspends it for another process.
func byScheduler(e *bpf.Event) bool {
	return e.Kind == bpf.EventQueued || e.Kind == bpf.EventSuspend && whySuspended(e).by == byProcess
}

// infer says what it did since it is watched, from the first thing it does.
func (p *process) infer(e *bpf.Event) {
	since := &p.changes[len(p.changes)-1]
	p.unsaid = false
	since.detail = ""
	switch e.Kind {
	case bpf.EventIn:
		since.state = waits
		came := p.arrived[after(p.arrived, since.at-near, sentAt):]
		if i := slices.IndexFunc(came, func(s *send) bool { return !s.alias }); i >= 0 {
			p.set(change{at: came[i].at, state: ready})
		}
	case bpf.EventReady:
		since.state = waits
	case bpf.EventGCEnd:
		since.state, since.thread = collects, e.Thread
		p.beforeGC = change{state: running, thread: e.Thread}
	case bpf.EventNIFEnd:
		since.state, since.thread, since.detail = native, e.Thread, e.Text
		p.beforeNIF = change{state: running, thread: e.Thread}
	default:
		since.state, since.thread = running, e.Thread
	}
}

// change comes into the state after an event.
func (p *process) change(e *bpf.Event) {
	now := p.current()
	if now.state == exited {
		return
	}
	switch e.Kind {
	case bpf.EventIn:
		p.run(e)
	case bpf.EventOut:
		p.out(e)
	case bpf.EventGCStart:
		p.readyUntil(e)
		p.beforeGC = now
		p.set(change{at: e.Time, state: collects, thread: e.Thread})
	case bpf.EventGCEnd:
		if now.state == collects {
			p.back(p.beforeGC, e.Time)
		}
	case bpf.EventNIFStart:
		p.begunUnseen(e)
		p.readyUntil(e)
		p.beforeNIF = now
		p.set(change{at: e.Time, state: native, thread: e.Thread, detail: e.Text})
	case bpf.EventNIFEnd:
		if now.state == native {
			p.back(p.beforeNIF, e.Time)
		}
	case bpf.EventSuspend:
		p.suspends(e)
	case bpf.EventExit:
		p.set(change{at: e.Time, state: exited})
	case bpf.EventQueued:
		// It may not run yet: see byScheduler.
	default:
		// It does something: should that not be known yet, it has begun to run.
		if now.state != collects && now.state != native && now.state != running {
			p.begunUnseen(e)
			p.run(e)
		}
	}
}

// begunUnseen takes into account that the process runs at an event, and was not seen to begin.
// Since when is known where messages were fetched for it: a scheduler does that right before.
// Otherwise part of the time was what it did before, and part of it not.
func (p *process) begunUnseen(e *bpf.Event) {
	n := len(p.changes)
	if n == 0 {
		return
	}
	last := p.changes[n-1]
	if last.state != waits && last.state != ready && last.state != suspended {
		return
	}
	if i := after(p.fetched, last.at, func(at int64) int64 { return at }); i < len(p.fetched) && p.fetched[i] < e.Time {
		p.readyUntil(e)
		p.set(change{at: p.fetched[i], state: running, thread: e.Thread})
		return
	}
	if e.Time-last.at > near {
		p.changes[n-1] = change{at: last.at, detail: whyBegunUnseen}
		p.blanks = append(p.blanks, last.at)
	}
}

// atOnce is for how long, in nanoseconds, a scheduler may be busy with itself until it
// goes on with the process that it ran before.
const atOnce = 50_000

// run begins to run. A process that was preempted and goes on at once on the same
// scheduler, no other one having run there, did not wait for it: it is the VM that has
// run on its behalf.
func (p *process) run(e *bpf.Event) {
	if n := len(p.changes); n > 1 && p.changes[n-1].state == ready && e.Again && e.Time-p.changes[n-1].at < atOnce {
		if before := p.changes[n-2]; before.state == running && before.thread == e.Thread {
			p.changes = p.changes[:n-1]
			return
		}
	}
	p.runsSuspended()
	p.readyUntil(e)
	p.set(change{at: e.Time, state: running, thread: e.Thread})
}

// readyUntil says on which thread it goes on, if it could not before.
func (p *process) readyUntil(e *bpf.Event) {
	if n := len(p.changes); n > 0 && p.changes[n-1].state == ready {
		p.changes[n-1].thread = e.Thread
	}
}

// back goes back to what was before GC or native code. A scheduler may have collected
// garbage without running the process: then it goes on to wait, or to be suspended.
func (p *process) back(before change, at int64) {
	before.at = at
	if before.state == unknown || before.state == exited {
		before = change{at: at, state: ready}
	}
	p.set(before)
	if before.state == waits {
		p.glances = append(p.glances, p.current().at)
	}
}

// out stops to run.
func (p *process) out(e *bpf.Event) {
	p.begunUnseen(e)
	c := change{at: e.Time, state: waits, timed: e.State&bpf.StateTimer != 0}
	switch {
	case e.State&bpf.StateKnown == 0:
		c.guess = guessReductions
		if e.Reductions >= preempted {
			c.state = ready
		}
	case e.State&bpf.StateExiting != 0:
		c.state = ready // to be cleaned up after
	case e.State&bpf.StateActive != 0:
		c.state = ready // for a scheduler, dirty or not
	case p.early != 0 && e.Time-p.early <= near:
		c.state = ready // already
	}
	c.timed = c.timed && c.state == waits
	p.early = 0
	if e.State&(bpf.StateSuspended|bpf.StateExiting) == bpf.StateSuspended {
		p.stopsSuspended(e.Time, c.state)
		return
	}
	p.due, p.resumed = nil, 0
	p.set(c)
}

// mail keeps the messages of an event; last is when the one before it was.
func (p *process) mail(e *bpf.Event, last int64) {
	switch e.Kind {
	case bpf.EventQueued:
		p.fetched = append(p.fetched, e.Time)
		p.box.queue(queued{at: e.Time, size: e.Size, token: tokenOf(e), where: e.Message}, last, int(e.Inner))
	case bpf.EventReceive:
		r := p.box.receive(e, p.sent)
		p.received = append(p.received, r)
	case bpf.EventIn:
		if p.timedOut(e.Time) {
			p.box.goOn()
		}
		if p.box.ran == 0 {
			p.box.ran = e.Time
		}
	case bpf.EventOut:
		if p.current().state == waits {
			fetched := e.Time
			if e.State&bpf.StateKnown == 0 {
				fetched -= near // it may go on already, because something came
			}
			p.box.block(e.Time, fetched)
		}
	case bpf.EventGCStart:
		p.box.collect(e.Time)
	case bpf.EventExit:
		p.box.reset(forever)
	case bpf.EventMonitor:
		p.monitors = append(p.monitors, watching{e.Time, trace.PID(e.Other)})
	}
	if acts(e) {
		p.box.goOn()
	}
}

// glance notes when the process stops that did nothing when it ran: while it waits, it
// may be scheduled in for the VM, that asks for what is known of it, say.
func (p *process) glance(e *bpf.Event) {
	switch e.Kind {
	case bpf.EventIn:
		p.ran, p.active = e.Time, false
	case bpf.EventOut:
		if !p.active && p.ran != 0 && e.Time-p.ran < atOnce {
			p.glances = append(p.glances, e.Time)
		}
	default:
		p.active = true
	}
}

// arrive says that a message was sent to it. Whether one that was sent to an alias came
// is known when it is fetched: it may not be one any more.
func (p *process) arrive(s *send) {
	p.arrived = append(p.arrived, s)
	p.box.arrive(s)
	switch now := p.current(); {
	case s.alias:
	case now.state == waits:
		p.set(change{at: s.at, state: ready, by: s})
	case now.state == suspended:
		p.canGoOn(s.at)
	case now.state == collects:
		p.waitsNoMore()
	}
}

// waitsNoMore says that it does not go on to wait when its garbage has been collected.
func (p *process) waitsNoMore() {
	if p.beforeGC.state == waits {
		p.beforeGC = change{state: ready}
	}
}

// woken says that the process fetched a message, nil for none that was seen to be sent. If it
// waited when that was sent, the message may have made it ready. The VM says when, as a rule.
func (p *process) woken(s *send) {
	if s == nil {
		return
	}
	i := after(p.changes, s.at, changedAt)
	switch {
	case i > 0 && i == len(p.changes) && p.changes[i-1].state == suspended:
		p.canGoOn(s.at)
	case i == 0 || i == len(p.changes) || p.changes[i-1].state != waits || p.changes[i].at == s.at:
	case p.changes[i].told != 0:
	case p.changes[i].state == ready:
		p.changes[i].at, p.changes[i].by = s.at, s
	default:
		p.changes = slices.Insert(p.changes, i, change{at: s.at, state: ready, thread: p.changes[i].thread, by: s})
	}
}

// forget forgets what was before a time, but for the state it was in then.
func (p *process) forget(before int64) {
	if i := after(p.changes, before+1, func(c change) int64 { return c.at }); i > 1 {
		p.changes = cut(p.changes, i-1)
	}
	p.sent = cut(p.sent, after(p.sent, before, sentAt))
	for to, sends := range p.sentTo {
		i := after(sends, before, sentAt)
		if i == len(sends) {
			delete(p.sentTo, to)
			continue
		}
		p.sentTo[to] = cut(sends, i)
	}
	p.arrived = cut(p.arrived, after(p.arrived, before, sentAt))
	p.fetched = cut(p.fetched, after(p.fetched, before, func(at int64) int64 { return at }))
	p.received = cut(p.received, after(p.received, before, receivedAt))
	p.started = cut(p.started, after(p.started, before, func(s started) int64 { return s.at }))
	p.blanks = cut(p.blanks, after(p.blanks, before, func(at int64) int64 { return at }))
	p.monitors = cut(p.monitors, after(p.monitors, before, watchingSince))
	p.glances = cut(p.glances, after(p.glances, before, func(at int64) int64 { return at }))
	p.lapses = cut(p.lapses, after(p.lapses, before, seenAt))
	p.neighbours = cut(p.neighbours, after(p.neighbours, before, func(n neighbour) int64 { return n.at }))
	p.timing.forget(before)
	p.box.forget(before)
	if !p.watched {
		p.box.reset(before)
	}
}

// idle reports whether nothing is left of it but the state it is in.
func (p *process) idle() bool {
	return len(p.changes) <= 1 && len(p.arrived) == 0 && len(p.sent) == 0 && len(p.received) == 0
}

func sentAt(s *send) int64 { return s.at }

func seenAt(l lapse) int64 { return l.seen }

func receivedAt(r receipt) int64 { return r.at }
