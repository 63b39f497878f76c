package explain

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"slices"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// A sim is a VM with schedulers and processes that compute, call each other, hand work over,
// collect garbage and so on. It records the events of the VM probes, and the truth.
type sim struct {
	simOptions
	rnd    *rand.Rand
	now    int64
	todo   moments
	procs  []*simProc
	free   []int // threads of schedulers
	open   int   // spans
	ready  []*simProc
	refs   int
	serial int32

	events []bpf.Event
	taken  map[taking]simMessage // receipts of watched processes
	spans  []simSpan
	truth  map[trace.PID][]simState
	waits  map[trace.PID][]simWait
}

// A simWait is an interval in which a process waited. It records whether the timer ended the wait.
type simWait struct {
	interval
	timer bool
}

// A simOptions configures a sim.
type simOptions struct {
	servers, clients int
	schedulers       int
	spans            int  // of each client
	watchAll         bool // from the beginning; otherwise while a span is open
	instant          bool // a message arrives at its send
	tokens           bool
	noSerials        bool // the serials of answers to aliases are unknown at the send
	oneSize          bool // all messages are equal
	inOrder          bool // a message arrives before its sender's next action, even if the clock has run ahead of both
	timeouts         bool // some calls are given up: their aliases become inactive
	stalls           bool // processes are delayed while they send or fetch messages
	origins          bool // the VM reports the senders of taken messages
}

// A taking records the process and the time of a receipt.
type taking struct {
	pid trace.PID
	at  int64
}

type simSpan struct {
	id         uint64
	owner      trace.PID
	start, end int64
	handed     bool
}

// A simState records that a process entered a state.
type simState struct {
	at    int64
	state state
}

type simMessage struct {
	from  trace.PID
	seen  bool // time of its send
	at    int64
	size  uint32
	token token
	alias bool

	ref   int    // of a call, or the answer to it
	reply bool   // it is the answer
	span  uint64 // handed over
}

type simProc struct {
	pid       trace.PID
	client    bool
	watched   bool
	state     state
	thread    int
	ops       []func()
	outer     []simMessage
	inner     []simMessage
	looked    int                   // number of messages of inner that this receive has rejected
	want      func(simMessage) bool // while it waits
	then      func(simMessage)
	slept     bool       // the timer has fired
	timing    bool       // the receive has a timer, which may have fired
	over      bool       // it continues because the timer has fired
	ever      bool       // it waits forever because of a variable
	waits     []interval // of this receive
	woken     interval   // times when it became ready and ran, after the last of them
	timer     int        // number of sleeps
	busy      int64      // end of its send of a message
	sending   func()     // completes the arrival of its last message, if that has not come
	token     token
	preempted int64        // time of its preemption
	calls     int          // ref of the last call
	gone      map[int]bool // refs of the calls it has given up
	left      int          // spans
}

// moments are future actions in order of time.
type moment struct {
	at    int64
	order int
	do    func()
}

type moments []moment

func (m moments) Len() int { return len(m) }
func (m moments) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(m[i].at, m[j].at), m[i].order-m[j].order) < 0
}
func (m moments) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m *moments) Push(x any)   { *m = append(*m, x.(moment)) }
func (m *moments) Pop() any {
	x := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return x
}

// simulate runs a sim to its end.
func simulate(seed uint64, o simOptions) *sim {
	s := &sim{
		simOptions: o, rnd: rand.New(rand.NewPCG(seed, 1)), now: 1_000_000,
		taken: make(map[taking]simMessage), truth: make(map[trace.PID][]simState),
		waits: make(map[trace.PID][]simWait),
	}
	for i := range o.schedulers {
		s.free = append(s.free, 100+i)
	}
	for i := range o.servers + o.clients {
		p := &simProc{pid: trace.PID(i + 1), client: i >= o.servers, left: o.spans, gone: make(map[int]bool)}
		s.procs = append(s.procs, p)
		if o.watchAll {
			s.watch(p, nil)
		}
		s.enter(p, waits)
		s.after(s.rnd.Int64N(20_000), func() {
			if p.client {
				p.ops = append(p.ops, func() {
					s.live(p)
					s.step(p)
				})
			} else {
				p.ops = append(p.ops, func() { s.serve(p) })
			}
			s.runnable(p)
		})
	}
	for order := 0; len(s.todo) > 0 && order < 2_000_000; order++ {
		m := heap.Pop(&s.todo).(moment)
		s.now = max(s.now, m.at)
		m.do()
	}
	return s
}

func (s *sim) after(d int64, do func()) {
	s.refs++
	heap.Push(&s.todo, moment{s.now + d, s.refs, do})
}

// emit records an event of a process, if it is watched, and lets a little time pass.
func (s *sim) emit(p *simProc, e bpf.Event) {
	s.now += 1 + s.rnd.Int64N(300)
	if !p.watched {
		if e.Kind != bpf.EventSend || !s.procs[e.Other-1].watched {
			return
		}
		e.Unwatched = true
	}
	e.VM, e.Time, e.Process = vmPID, s.now, uint64(p.pid)
	if e.Thread == 0 {
		e.Thread = p.thread
	}
	s.events = append(s.events, e)
}

func (s *sim) watch(p *simProc, by *simProc) {
	if p.watched {
		return
	}
	p.watched = true
	e := bpf.Event{Kind: bpf.EventWatch}
	if by != nil {
		e.Other = uint64(by.pid)
	}
	s.emit(p, e)
}

func (s *sim) enter(p *simProc, to state) {
	p.state = to
	s.truth[p.pid] = append(s.truth[p.pid], simState{s.now, to})
}

// runnable puts a process into the run queue.
func (s *sim) runnable(p *simProc) {
	if p.state == waits && p.then != nil {
		state := uint8(bpf.StateKnown)
		if p.slept {
			state |= bpf.StateTimedOut
		}
		s.emit(p, bpf.Event{Kind: bpf.EventReady, Thread: 800, State: state})
		p.waits[len(p.waits)-1].to = s.now
		p.woken = interval{from: s.now}
	}
	s.enter(p, ready)
	s.ready = append(s.ready, p)
	s.schedule()
}

// schedule runs ready processes as long as there are free schedulers.
func (s *sim) schedule() {
	for len(s.free) > 0 && len(s.ready) > 0 {
		p := s.ready[0]
		s.ready = s.ready[1:]
		p.thread = s.free[0]
		s.free = s.free[1:]
		if p.preempted > 0 {
			s.emit(p, bpf.Event{Kind: bpf.EventNeighbour, Other: 77, From: p.preempted, To: s.now})
			p.preempted = 0
		}
		p.over = p.slept && p.then != nil
		s.emit(p, bpf.Event{Kind: bpf.EventIn, State: bpf.StateKnown | p.timers()})
		s.enter(p, running)
		p.woken.to = s.now
		s.after(s.rnd.Int64N(500), func() { s.step(p) })
	}
}

// out takes a process off its scheduler.
func (s *sim) out(p *simProc, to state, flags uint8) {
	s.emit(p, bpf.Event{Kind: bpf.EventOut, State: bpf.StateKnown | flags | p.timers()})
	if to == waits {
		p.wokenUntil(s.now)
		p.waits = append(p.waits, interval{from: s.now})
	}
	s.enter(p, to)
	s.free = append(s.free, p.thread)
	s.after(0, s.schedule)
}

// wokenUntil records that the woken process kept waiting until a time, except while it ran.
func (p *simProc) wokenUntil(at int64) {
	if at = min(at, p.woken.to); p.woken.from < at && len(p.waits) > 0 {
		p.waits = append(p.waits, interval{p.woken.from, at})
	}
}

// timers returns the flags of a process about the timeout of its receive.
func (p *simProc) timers() uint8 {
	switch {
	case p.over, p.ever && p.then != nil:
		return bpf.StateTimedOut
	case p.timing:
		return bpf.StateTimer
	}
	return 0
}

// ended records that a process leaves a receive.
func (s *sim) left(p *simProc, timer bool) {
	for _, w := range p.waits {
		s.waits[p.pid] = append(s.waits[p.pid], simWait{w, timer})
	}
	p.then, p.waits, p.woken = nil, nil, interval{}
	p.slept, p.timing, p.over, p.ever = false, false, false, false
	p.timer++
}

// step continues the work of a running process.
func (s *sim) step(p *simProc) {
	if p.busy > s.now {
		s.after(p.busy-s.now, func() { s.step(p) })
		return
	}
	if s.inOrder && p.sending != nil {
		p.sending()
	}
	if p.then != nil {
		s.receive(p)
		return
	}
	if len(p.ops) == 0 {
		s.out(p, waits, 0) // forever
		return
	}
	if len(s.ready) > 0 && s.rnd.IntN(10) == 0 {
		s.out(p, ready, bpf.StateActive)
		p.preempted = s.now
		s.ready = append(s.ready, p)
		return
	}
	op := p.ops[0]
	p.ops = p.ops[1:]
	op()
}

// first inserts an action before the work of a process.
func (p *simProc) first(ops ...func()) { p.ops = append(ops, p.ops...) }

func (s *sim) compute(p *simProc, longest int64) func() {
	return func() { s.after(1+s.rnd.Int64N(longest), func() { s.step(p) }) }
}

// something returns an action of a process on its own.
func (s *sim) something(p *simProc) func() {
	switch s.rnd.IntN(12) {
	case 0:
		return func() { s.collect(p) }
	case 1:
		return func() { s.native(p) }
	case 2:
		return func() { s.wait(p) }
	case 3:
		return func() { s.sleep(p) }
	}
	return s.compute(p, 20_000)
}

func (s *sim) collect(p *simProc) {
	s.emit(p, bpf.Event{Kind: bpf.EventGCStart})
	s.enter(p, collects)
	s.after(1+s.rnd.Int64N(10_000), func() {
		s.emit(p, bpf.Event{Kind: bpf.EventGCEnd})
		s.enter(p, running)
		s.step(p)
	})
}

func (s *sim) native(p *simProc) {
	s.out(p, ready, bpf.StateActive|bpf.StateDirty)
	s.after(s.rnd.Int64N(2000), func() {
		s.emit(p, bpf.Event{Kind: bpf.EventNIFStart, Thread: 900, Text: "f"})
		s.enter(p, native)
		s.after(1+s.rnd.Int64N(30_000), func() {
			s.emit(p, bpf.Event{Kind: bpf.EventNIFEnd, Thread: 900, Text: "f"})
			s.runnable(p)
		})
	})
}

// wait waits for a port.
func (s *sim) wait(p *simProc) {
	s.emit(p, bpf.Event{Kind: bpf.EventSuspend, Port: true, Other: 6})
	s.out(p, suspended, bpf.StateActive|bpf.StateSuspended)
	s.after(1+s.rnd.Int64N(30_000), func() {
		if p.watched {
			s.events = append(s.events, bpf.Event{VM: vmPID, Time: s.now, Thread: 800, Process: uint64(p.pid), Kind: bpf.EventResume})
		}
		s.runnable(p)
	})
}

// sleep waits in a receive that accepts no message.
func (s *sim) sleep(p *simProc) {
	s.wake(p, 1+s.rnd.Int64N(30_000))
	p.calls = 0
	s.take(p, func(simMessage) bool { return false }, func(simMessage) {})
}

// wake makes the next receive time out.
func (s *sim) wake(p *simProc, after int64) {
	p.timer++
	n := p.timer
	p.slept, p.timing = false, true
	s.after(after, func() {
		if p.timer == n {
			p.slept = true
			if p.state == waits {
				s.runnable(p)
			}
		}
	})
}

// take takes the first wanted message.
func (s *sim) take(p *simProc, want func(simMessage) bool, then func(simMessage)) {
	p.want, p.then, p.looked, p.waits = want, then, 0, nil
	p.ever = !p.timing && s.rnd.IntN(4) == 0
	s.receive(p)
}

// receive takes a message that is wanted, even if the time is over.
func (s *sim) receive(p *simProc) {
	for {
		for ; p.looked < len(p.inner); p.looked++ {
			if p.want(p.inner[p.looked]) {
				s.taking(p)
				return
			}
		}
		if len(p.outer) == 0 {
			break
		}
		p.inner = append(p.inner, p.outer...)
		n := len(p.outer)
		p.outer = nil
		tell := func() {
			for _, m := range p.inner[len(p.inner)-n:] {
				s.emit(p, messageEvent(bpf.EventQueued, m, len(p.inner)))
			}
		}
		if d := s.stall(); d > 0 {
			s.after(d, func() {
				tell()
				s.receive(p)
			})
			return
		}
		tell()
	}
	if p.over {
		s.left(p, true)
		if p.calls != 0 {
			p.gone[p.calls] = true
		}
		s.step(p)
		return
	}
	if p.slept {
		s.out(p, ready, bpf.StateActive) // and the process continues because of that
		s.ready = append(s.ready, p)
		return
	}
	s.out(p, waits, 0)
}

func (s *sim) taking(p *simProc) {
	m := p.inner[p.looked]
	e := messageEvent(bpf.EventReceive, m, len(p.inner))
	if s.origins {
		e.Origin, e.Other = bpf.OriginProcess, uint64(m.from)
	}
	s.emit(p, e)
	if p.watched {
		s.taken[taking{p.pid, s.now}] = m
	}
	p.inner = slices.Delete(slices.Clone(p.inner), p.looked, p.looked+1)
	p.token = m.token
	then := p.then
	p.wokenUntil(m.at)
	s.left(p, false)
	then(m)
	s.step(p)
}

func messageEvent(kind bpf.EventKind, m simMessage, inner int) bpf.Event {
	return bpf.Event{
		Kind: kind, Size: m.size, Inner: uint32(inner),
		Label: m.token.label, Prev: m.token.prev, Cur: m.token.cur,
	}
}

// stall returns the present delay of a process.
func (s *sim) stall() int64 {
	if s.stalls && s.rnd.IntN(10) == 0 {
		return s.rnd.Int64N(30_000)
	}
	return 0
}

// send sends a message, which arrives before the process's next action.
func (s *sim) send(p, q *simProc, m simMessage) {
	if s.oneSize {
		m.size = 3
	}
	if s.tokens {
		s.serial++
		m.token = token{1, p.token.cur, s.serial}
	}
	if p.watched {
		s.watch(q, p)
	}
	e := messageEvent(bpf.EventSend, m, 0)
	e.Other, e.Alias = uint64(q.pid), m.alias
	if m.alias {
		e.Size = 0
		if s.noSerials {
			e.Prev, e.Cur = 0, 0
		}
	}
	s.emit(p, e)
	m.from, m.at, m.seen = p.pid, s.now, p.watched || q.watched
	come := func() {
		if m.alias && q.gone[m.ref] {
			return
		}
		q.outer = append(q.outer, m)
		if q.state == waits && q.then != nil {
			s.runnable(q)
		}
	}
	if s.instant {
		come()
		return
	}
	d := s.rnd.Int64N(600) + s.stall()
	p.busy = s.now + d
	there := false
	p.sending = func() {
		if !there {
			there = true
			come()
		}
	}
	s.after(d, p.sending)
}

// live is the behaviour of a client: spans, one after the other.
func (s *sim) live(p *simProc) {
	if p.left == 0 {
		return
	}
	p.left--
	s.refs++
	span := simSpan{id: uint64(s.refs), owner: p.pid}
	ops := []func(){s.compute(p, 5000), func() {
		s.open++
		s.watch(p, nil)
		s.emit(p, bpf.Event{Kind: bpf.EventSpanStart, ID: span.id})
		span.start = s.now
		s.after(1, func() { s.step(p) })
	}}
	if s.rnd.IntN(4) == 0 {
		span.handed = true
		ops = append(ops, s.something(p), func() {
			s.send(p, s.procs[s.rnd.IntN(s.servers)], simMessage{size: 9, span: span.id})
			s.spans = append(s.spans, span)
			s.after(1, func() { s.step(p) })
		})
	} else {
		for range 1 + s.rnd.IntN(5) {
			if s.rnd.IntN(2) == 0 {
				ops = append(ops, func() { s.call(p, s.rnd.IntN(s.servers)) })
			}
			ops = append(ops, s.something(p))
		}
		ops = append(ops, func() {
			span.end = s.ended(p, span.id)
			s.spans = append(s.spans, span)
			s.after(1, func() { s.step(p) })
		})
	}
	p.first(append(ops, func() {
		s.live(p)
		s.step(p)
	})...)
}

// call calls a server and waits for its answer.
func (s *sim) call(p *simProc, server int) {
	s.refs++
	ref := s.refs
	s.emit(p, bpf.Event{Kind: bpf.EventMonitor, Other: uint64(server + 1)})
	s.send(p, s.procs[server], simMessage{size: 7 + uint32(s.rnd.IntN(3)), ref: ref})
	p.first(func() {
		p.calls = ref
		if s.timeouts && s.rnd.IntN(3) == 0 {
			s.wake(p, 1+s.rnd.Int64N(100_000))
		}
		s.take(p, func(m simMessage) bool { return m.reply && m.ref == ref }, func(simMessage) {})
	})
	s.after(s.rnd.Int64N(400), func() { s.step(p) })
}

// serve is the behaviour of a server: requests, one after the other.
func (s *sim) serve(p *simProc) {
	s.take(p, func(simMessage) bool { return true }, func(m simMessage) {
		ops := []func(){s.something(p)}
		if above := s.servers - int(p.pid); above > 0 && s.rnd.IntN(3) == 0 {
			ops = append(ops, func() { s.call(p, int(p.pid)+s.rnd.IntN(above)) }, s.something(p))
		}
		ops = append(ops, func() {
			s.finish(p, m)
			s.after(1, func() { s.step(p) })
		}, func() { s.serve(p) })
		p.first(ops...)
	})
}

// finish answers a request, or passes on or ends one that was handed over.
func (s *sim) finish(p *simProc, m simMessage) {
	switch {
	case m.span != 0 && int(p.pid) < s.servers && s.rnd.IntN(2) == 0:
		s.send(p, s.procs[p.pid], simMessage{size: 9, span: m.span})
	case m.span != 0:
		end := s.ended(p, m.span)
		for i := range s.spans {
			if s.spans[i].id == m.span {
				s.spans[i].end = end
			}
		}
	case m.ref != 0 && !m.reply:
		s.send(p, s.procs[m.from-1], simMessage{size: 4 + uint32(s.rnd.IntN(4)), ref: m.ref, reply: true, alias: true})
	}
}

// ended ends a span and returns the time. Without open spans no process is watched.
func (s *sim) ended(p *simProc, id uint64) int64 {
	s.emit(p, bpf.Event{Kind: bpf.EventSpanEnd, ID: id})
	end := s.now
	if s.open--; s.open == 0 && !s.watchAll {
		for _, p := range s.procs {
			p.watched = false
		}
	}
	return end
}
