package explain

import (
	"slices"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// near is the maximum distance in nanoseconds between events of different threads that may be
// reported in the wrong order.
const near = 5000

// preempted is the minimum number of reductions that a preempted process has used: the VM's budget
// for a slice.
const preempted = 4000

// Reasons why nothing is known about a process.
const (
	whyNotWatched  = "what it did is not known: beamscope did not track it then"
	whyNoRoom      = "what it did is not known: beamscope had no room to track it"
	whyOverwritten = "its events were overwritten before they were read"
	whyForgotten   = "too long ago: beamscope no longer has these events"
	whyNotRecorded = "before the recording began"
	whySilent      = "what it did is not known: no event of it was seen yet"
	whyBegunUnseen = "when it began to run is not known: its scheduler had been idle since before the probes were attached"

	whySuspendedUnseen = "it was suspended for a part of this time; beamscope did not see since when"
)

// guessReductions is the basis for guessing whether a process that has stopped running waits, if
// the VM does not report more.
const guessReductions = "inferred from its reductions"

// guessThread is the reason why it is uncertain that a process really ran.
const guessThread = "its scheduler's thread may have slept: beamscope does not see that here"

// A state is the state of a process.
type state uint8

const (
	unknown state = iota
	running
	ready
	waits     // in a receive
	suspended // until it is resumed
	collects  // collects its garbage
	native    // code on a dirty scheduler
	exited
)

// A change records that a process enters a state.
type change struct {
	at     int64
	state  state
	thread int    // for running, collects and native; for ready, the thread on which it ended
	detail string // the native function, or why the state is unknown
	timed  bool   // for waits: the receive has a timeout
	over   bool   // for ready: the timeout of its receive has expired
	told   int64  // for ready: time of the VM's report, 0 if there is none
	by     *send  // for ready: the message that made it ready, if one came
	why    suspension
	guess  string // basis for the guess that it entered the state then; "" if certain
}

// moved returns the change at another time.
func (c change) moved(at int64) change {
	c.at = at
	return c
}

// started records that a process began a span.
type started struct {
	at      int64
	outcome int
}

// A lapse records that a process was no longer watched. The end of the watch was noticed later than
// the last event before it.
type lapse struct{ last, seen int64 }

// A neighbour is a process that ran while another one was ready.
type neighbour struct {
	interval
	at  int64 // time when the other one ran
	pid trace.PID
}

// A process contains the history of a process. All slices are in order of time.
type process struct {
	pid     trace.PID
	watched bool
	assumed int64 // time of its first action, if it was assumed to have been watched for longer; 0: never
	unsaid  bool  // it is watched, and the last change has the reason why its activity is unknown
	changes []change
	lapses  []lapse
	blanks  []int64 // times when its activity became unknown

	sent       []*send
	sending    *send // the last one, until its next action
	sentTo     map[trace.PID][]*send
	arrived    []*send
	fetched    []int64 // times when messages were queued
	received   []receipt
	started    []started
	neighbours []neighbour
	monitors   []watching
	glances    []int64 // times when it was scheduled in, did nothing and waited again

	timing
	ran    int64 // time when it was last scheduled in
	early  int64 // time of a report that it is ready that came before it began to wait; 0: none since it stopped
	active bool  // it has done something since

	beforeGC, beforeNIF change // states to return to after GC and native code
	suspendable
	last int64 // time of its last own event
	box  mailbox
}

func newProcess(pid trace.PID) *process {
	return &process{pid: pid, sentTo: make(map[trace.PID][]*send)}
}

// current returns the last change. Without one, it returns a change to an unknown state.
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

// watch records that all events are recorded from a time on. An exited process stays exited until
// there is an event, which then belongs to another process.
func (p *process) watch(at int64) {
	if p.current().state != exited {
		p.set(change{at: at, detail: whySilent})
	}
	p.watched, p.unsaid = true, true
	p.timing.begin()
	p.box.reset(at - near)
}

// unwatch records that no events are recorded from a time on.
func (p *process) unwatch(at int64, why string) {
	p.set(change{at: at, detail: why})
	p.blanks = append(p.blanks, p.current().at)
	p.watched = false
	p.box.reset(forever)
}

// gap records that the events between two times are lost.
func (p *process) gap(from, until int64) {
	if p.watched {
		p.unwatch(p.ranUntil(from), whyOverwritten)
		p.watch(until)
	}
}

// ranUntil returns the time up to which the activity of the process is known if events are lost
// from a time on. If it had a thread then, that is the time of its last event: a lost event may
// have reported that the thread had not run since.
func (p *process) ranUntil(lost int64) int64 {
	switch p.current().state {
	case running, collects, native:
		return min(lost, p.last)
	}
	return lost
}

// addInGap processes an own event from an interval with lost events. The event only shows whether
// the process is watched when all events are recorded again. The activity of the process in the
// interval is unknown, and so are the messages that it took.
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

// add processes an own event. resumed is the time from which all events were recorded again after a
// loss, or 0 without a loss.
func (p *process) add(e *bpf.Event, resumed int64) {
	p.moveOn(e)
	switch e.Kind {
	case bpf.EventWatch:
		if p.assumed != 0 && e.Time-p.assumed <= near {
			// The reported order is wrong: the two events happened in the reverse order.
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
		// The watch event must have been lost.
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
		p.last = last // it was not active itself
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

// ready records that the process was given to a scheduler, if it waited. The report may come just
// before the process begins to wait, from a process that it has woken.
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
		if over { // a message has made it ready already
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

// confirm records that the VM gave the process to a scheduler, if a message with a seen send made
// it ready. The sender may have been delayed before the message was in the mailbox: then the
// process is ready only from now on.
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

// others processes events in which other processes act on this one.
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

// moveOn records an action of the process, after which its last message has arrived.
func (p *process) moveOn(e *bpf.Event) {
	switch e.Kind {
	case bpf.EventWatch, bpf.EventUnwatched, bpf.EventReady, bpf.EventHold, bpf.EventRelease, bpf.EventResume:
		return // actions of other processes
	}
	if p.sending != nil {
		p.sending.next = e.Time
		p.sending = nil
	}
}

// lapse records the time at which it is noticed that the process is no longer watched. The watch
// ended at some time after its last event.
func (p *process) lapse(seen int64) {
	if !p.watched {
		return
	}
	p.lapses = append(p.lapses, lapse{p.last, seen})
	p.watched, p.unsaid = false, false
	p.box.outlive(seen - near)
	p.box.reset(seen - near)
}

// byScheduler reports whether an event may belong to a process that does not run, because a
// scheduler handles its signals: the scheduler fetches its messages, or suspends it for another
// process.
func byScheduler(e *bpf.Event) bool {
	return e.Kind == bpf.EventQueued || e.Kind == bpf.EventSuspend && whySuspended(e).by == byProcess
}

// infer derives the activity of the process since the beginning of its watch from its first action.
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

// change enters the state after an event.
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
		// It is active: if that is not known yet, it has begun to run.
		if now.state != collects && now.state != native && now.state != running {
			p.begunUnseen(e)
			p.run(e)
		}
	}
}

// begunUnseen records that the process runs at an event although its start was not seen. The start
// is known if messages were fetched for it, because a scheduler does that right before. Otherwise
// the time belongs partly to its earlier activity and partly not.
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

// atOnce is the maximum time in nanoseconds that a scheduler may spend on itself before it
// continues the process that it ran before.
const atOnce = 50_000

// run records that the process begins to run. If it was preempted and continues at once on the same
// scheduler, and no other process ran there, it did not wait for the scheduler: the VM has run on
// its behalf.
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

// readyUntil records the thread on which the process continues, if it was ready.
func (p *process) readyUntil(e *bpf.Event) {
	if n := len(p.changes); n > 0 && p.changes[n-1].state == ready {
		p.changes[n-1].thread = e.Thread
	}
}

// back returns to the state before GC or native code. A scheduler may have collected garbage
// without running the process: then the process still waits or is still suspended.
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

// out records that the process stops running.
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
		c.state = ready // for cleaning up after its exit
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

// mail stores the messages of an event. last is the time of the previous event.
func (p *process) mail(e *bpf.Event, last int64) {
	switch e.Kind {
	case bpf.EventQueued:
		p.fetched = append(p.fetched, e.Time)
		p.box.queue(queued{at: e.Time, size: e.Size, token: tokenOf(e), where: e.Message}, last, int(e.Inner))
	case bpf.EventReceive:
		r := p.box.receive(e, p.sent)
		p.received = append(p.received, r)
		if e.Unfetched {
			p.woken(r.send)
		}
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
				fetched -= near // it may be ready already, because something came
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

// glance records that the process stops after a run in which it was not active. A waiting process
// may be scheduled in on behalf of the VM, for example to return information about itself.
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

// arrive records that a message was sent to the process. If it was sent to an alias, its arrival is
// known only when it is fetched, because the alias may no longer be active.
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

// waitsNoMore records that the process no longer waits when its garbage has been collected.
func (p *process) waitsNoMore() {
	if p.beforeGC.state == waits {
		p.beforeGC = change{state: ready}
	}
}

// woken records that the process fetched a message, or nil if its send was not seen. If the process
// waited when the message was sent, the message may have made it ready. Usually the VM reports
// when.
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

// forget drops everything before a time, except the state of the process at that time.
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

// idle reports whether nothing is left except the current state.
func (p *process) idle() bool {
	return len(p.changes) <= 1 && len(p.arrived) == 0 && len(p.sent) == 0 && len(p.received) == 0
}

func sentAt(s *send) int64 { return s.at }

func seenAt(l lapse) int64 { return l.seen }

func receivedAt(r receipt) int64 { return r.at }
