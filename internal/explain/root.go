package explain

import (
	"fmt"
	"slices"

	"github.com/beamscope/beamscope/internal/explain/trace"
)

// maxLegs is the maximum number of processes through which a span is followed.
const maxLegs = 64

// guessOwner is the basis for guessing the process that has a span without a seen end. It is not
// needed if all seen spans of the outcome ended in the process that started them.
const guessOwner = "assumed: the process that started the span still has it"

// Reasons for unexplained time of an instance.
const (
	reasonNoOwner = "it is not known which process started it"
	reasonNoEvent = "nothing was recorded"
	reasonLegs    = "handed over more often than beamscope follows"
	reasonOrigin  = "handed over by a message whose sender was not seen"
	reasonEarlier = "not tracked yet: handed over by a message that was sent before beamscope tracked the process"
	reasonBefore  = "beamscope did not see how it came to the process that has it next"
	reasonLeft    = "handed over to this process; no message that passed it on was seen"
)

// Explain returns where the time of an instance went. The caller adds the events up to the end of
// the instance first. Later events give more details about a wait at the end. Explain returns nil
// for an instance that ends before it starts, or takes longer than [trace.MaxDuration].
func (l *Log) Explain(i Instance) *trace.Trace {
	if i.End < i.Start || i.End-i.Start > trace.MaxDuration {
		return nil
	}
	root := span(i.Start, i.End, trace.Root, i.Owner, trace.Exact)
	if root.Start == root.End {
		return root.trace()
	}
	if v := l.vms[i.VM]; v == nil {
		root.children = []node{unexplained(root.Start, root.End, i.Owner, trace.Exact, reasonNoEvent)}
	} else {
		w := &walk{log: l, pid: i.VM, vm: v, start: i.Start, end: i.End, unscheduled: i.Unscheduled, threadless: i.Threadless, episodes: make(map[*process]episode)}
		owner := v.processes[i.Owner]
		e := v.spans[spanKey{i.Outcome, i.ID}]
		if e == nil {
			e = new(ends)
		}
		if e.starter != nil {
			owner = e.starter
			root.Process = owner.pid
		}
		w.owner = owner
		root.children = w.instance(i, owner, e)
	}
	return root.trace()
}

// instance divides the time of an instance.
func (w *walk) instance(i Instance, owner *process, e *ends) []node {
	handed := w.vm.handed[i.Outcome]
	switch {
	case e.ender != nil && e.ender != owner:
		b := &chain{walk: w, start: i.Start, end: i.End, through: handed.through}
		if owner != nil && e.endedAt > i.End && !b.leads(e.ender, e.endedAt, owner, b.label(owner, e.endedAt)) {
			// Events after its end were not recorded.
			b.forward(owner, i.Outcome)
			return b.legs
		}
		b.backward(e.ender, e.endedAt, owner)
		slices.Reverse(b.legs)
		return b.legs
	case owner == nil && i.Owner == 0:
		return []node{unexplained(i.Start, i.End, 0, trace.Exact, reasonNoOwner)}
	case owner == nil:
		return w.unheard(i)
	case e.ender == nil && handed.other > handed.same:
		f := &chain{walk: w, start: i.Start, end: i.End, through: handed.through}
		f.forward(owner, i.Outcome)
		return f.legs
	}
	if e.ender != nil || handed.same > 0 && handed.other == 0 {
		return w.explain(owner, i.Start, i.End, path{}.to(owner.pid, trace.Exact))
	}
	nodes := w.explain(owner, i.Start, i.End, path{}.to(owner.pid, trace.Inferred))
	for n := range nodes {
		nodes[n] = nodes[n].guessed(guessOwner)
	}
	return nodes
}

// unheard explains an instance of a process without any events.
func (w *walk) unheard(i Instance) []node {
	return w.explain(newProcess(i.Owner), i.Start, i.End, path{}.to(i.Owner, trace.Exact))
}

// A chain contains the handovers of a span from process to process in [start, end).
type chain struct {
	*walk
	start, end int64
	mark       trace.Mark
	through    map[trace.PID]bool // processes that other spans of its outcome passed through
	legs       []node
}

func (c *chain) clip(t int64) int64 { return max(c.start, min(t, c.end)) }

// add adds a part, unless it is none.
func (c *chain) add(n node) {
	if n.Start < n.End {
		c.legs = append(c.legs, n)
	}
}

func (c *chain) unexplained(from, to int64, p *process, mark trace.Mark, reason string) {
	c.add(unexplained(c.clip(from), c.clip(to), p.pid, mark, reason))
}

// leg adds an interval in which a process has the span, in parts. It also adds the message with
// which the interval began, or nil if unknown.
func (c *chain) leg(p *process, m *send, from, to int64, parts ...[]node) {
	n := span(c.clip(from), c.clip(to), trace.Waiting, p.pid, c.mark)
	if m != nil {
		n.Link = linkOf(m, m.mark)
	}
	n.children = slices.Concat(parts...)
	c.add(n.simple())
}

// has explains an interval in which a process has a span that another process started.
func (c *chain) has(p *process, from, to int64) []node {
	return c.explain(p, c.clip(from), c.clip(to), c.path(p))
}

func (c *chain) path(p *process) path {
	by := path{}.to(p.pid, c.mark)
	by.outside = true
	return by
}

// backward goes from the process that ended the span at t back through the messages that handed it
// over, to the process that started it. It adds the last leg first.
func (c *chain) backward(p *process, t int64, owner *process) {
	label := c.label(owner, t)
	last := (*process).lastReceipt
	if c.leads(p, t, owner, label) {
		last = (*process).lastSure
	}
	c.leg(p, nil, t, c.end, c.has(p, t, c.end)) // in case it ended before
	for range maxLegs {
		if p == owner {
			own := c.explain(p, c.start, c.clip(t), path{}.to(p.pid, c.mark))
			slices.Reverse(own)
			c.legs = append(c.legs, own...)
			return
		}
		r := last(p, c.start, t, label)
		if r == nil {
			c.unexplained(c.start, t, p, c.mark, reasonBefore)
			return
		}
		if r.send == nil {
			c.leg(p, nil, r.at, t, c.has(p, r.at, t))
			if r.among != nil {
				c.unexplained(c.start, r.at, p, trace.Ambiguous, "handed over by a message "+between(r.among))
			} else {
				c.unexplained(c.start, r.at, p, c.mark, r.handedOver())
			}
			return
		}
		m := r.send
		if m.at < c.start {
			c.leg(p, nil, r.at, t, c.has(p, r.at, t))
			c.unexplained(c.start, r.at, p, c.mark, reasonBefore)
			return
		}
		c.mark = max(c.mark, m.mark)
		c.leg(p, m, m.at, t, c.arrival(p, m, c.clip(m.at), c.clip(r.at), c.path(p)), c.has(p, r.at, t))
		p, t = c.vm.process(m.from), m.at
	}
	c.unexplained(c.start, t, p, c.mark, reasonLegs)
}

// handedOver describes the message that handed a span over, if its send was not seen.
func (r *receipt) handedOver() string {
	if r.early {
		return reasonEarlier
	}
	return reasonOrigin
}

// label returns the label of the first seq_trace token in messages that the starting process sends,
// up to a time, or 0 if there is none.
func (c *chain) label(owner *process, until int64) int32 {
	if owner == nil {
		return 0
	}
	for _, s := range owner.sent[after(owner.sent, c.start, sentAt):] {
		if s.at > until {
			break
		}
		if s.token != (token{}) {
			return s.token.label
		}
	}
	return 0
}

// lastReceipt returns the last message that the process took in [from, to], or nil if there is
// none. If there is a label, the message must have a token with it.
func (p *process) lastReceipt(from, to int64, label int32) *receipt {
	first, end := after(p.received, from, receivedAt), after(p.received, to+1, receivedAt)
	if first >= end {
		return nil
	}
	if label != 0 {
		for i := end - 1; i >= first; i-- {
			if p.received[i].label == label {
				return &p.received[i]
			}
		}
	}
	return &p.received[end-1]
}

// lastSeen is lastReceipt without messages whose send was not seen, such as those of timers that
// the process waited for while it had the span. It also returns the last omitted message that the
// process did not wait for, or nil if there is none.
func (p *process) lastSeen(from, to int64, label int32) (r, instead *receipt) {
	received := p.received[after(p.received, from, receivedAt):]
	received = received[:after(received, to+1, receivedAt)]
	if label != 0 {
		if r, instead = p.seen(received, func(r *receipt) bool { return r.label == label }); r != nil {
			return r, instead
		}
	}
	return p.seen(received, func(*receipt) bool { return true })
}

// seen returns the last wanted receipt of a message with a seen send, or nil if there is none. It
// also returns the last wanted receipt after it that the process did not wait for.
func (p *process) seen(received []receipt, wanted func(*receipt) bool) (r, instead *receipt) {
	for i := len(received) - 1; i >= 0; i-- {
		r := &received[i]
		switch {
		case !wanted(r):
		case r.send != nil || r.among != nil:
			return r, instead
		case instead == nil && (i == 0 || !p.waited(received[i-1].at, r.at)):
			instead = r
		}
	}
	return nil, nil
}

// lastSure is lastSeen if that is certain. Otherwise it is the message that was not waited for,
// which may also be the one.
func (p *process) lastSure(from, to int64, label int32) *receipt {
	r, instead := p.lastSeen(from, to, label)
	if r == nil || instead == nil {
		return r
	}
	among := slices.Clone(r.among)
	if r.send != nil {
		among = join(among, r.send.from)
	}
	return &receipt{at: instead.at, among: join(among, 0)}
}

// waited reports whether the process began to wait between two times.
func (p *process) waited(from, to int64) bool {
	for _, c := range p.changes[after(p.changes, from, changedAt):] {
		if c.at > to {
			return false
		}
		if c.state == waits {
			return true
		}
	}
	return false
}

// leads reports whether the seen messages lead back to the process that started the span, within
// the span.
func (c *chain) leads(p *process, t int64, owner *process, label int32) bool {
	for range maxLegs {
		if p == owner {
			return true
		}
		r, _ := p.lastSeen(c.start, t, label)
		if r == nil || r.send == nil || r.send.at < c.start {
			return false
		}
		p, t = c.vm.process(r.send.from), r.send.at
	}
	return false
}

// passed adds the processes that a span passed through, if it ended in another process than the one
// that started it. It follows the seen messages back from the end as far as they lead.
func (v *vm) passed(s *ends, through map[trace.PID]bool) {
	p, t := s.ender, s.endedAt
	for range maxLegs {
		if p == s.starter {
			return
		}
		if len(through) < maxProcesses {
			through[p.pid] = true
		}
		r, _ := p.lastSeen(s.startedAt, t, 0)
		if r == nil || r.send == nil || r.send.at < s.startedAt {
			return
		}
		p, t = v.process(r.send.from), r.send.at
	}
}

// forward goes from the process that started the span through the messages that may have handed it
// over, as long as there is only one candidate.
func (c *chain) forward(p *process, outcome int) {
	limit := c.end
	if i := after(p.started, c.start+1, func(s started) int64 { return s.at }); i < len(p.started) {
		for ; i < len(p.started); i++ {
			if p.started[i].outcome == outcome {
				limit = min(limit, p.started[i].at)
				break
			}
		}
	}
	m := c.handover(p, c.start, limit, func(until int64) {
		c.legs = append(c.legs, c.explain(p, c.start, c.clip(until), path{}.to(p.pid, c.mark))...)
	})
	for range maxLegs {
		if m == nil {
			return
		}
		p = c.vm.process(m.to)
		c.mark = max(c.mark, m.mark, trace.Inferred)
		if m.fate != taken || m.received >= c.end {
			c.leg(p, m, m.at, c.end, c.serve(p, m, c.clip(m.at), c.end, c.path(p)))
			return
		}
		took, sent := m.received, m
		limit = c.end
		if i := after(p.received, took+1, receivedAt); i < len(p.received) {
			limit = min(limit, p.received[i].at)
		}
		m = c.handover(p, took, limit, func(until int64) {
			c.leg(p, sent, sent.at, until, c.arrival(p, sent, c.clip(sent.at), c.clip(took), c.path(p)), c.has(p, took, until))
		})
	}
	if m != nil {
		c.unexplained(m.at, c.end, p, c.mark, reasonLegs)
	}
}

// handover returns the message with which a process passes on the span that it has from a time on.
// The process must do so before a limit, if at all. handover calls has with the time until which
// the process has the span. The result is nil if the span cannot be followed: there is no message,
// there are several, or the receiver never had a span, such as a logger.
func (c *chain) handover(p *process, from, limit int64, has func(until int64)) *send {
	sends := p.sent[after(p.sent, from, sentAt):after(p.sent, max(from, limit), sentAt)]
	switch len(sends) {
	case 0:
		has(limit)
		c.unexplained(limit, c.end, p, c.mark, reasonLeft)
		return nil
	case 1:
		has(sends[0].at)
		if c.through[sends[0].to] {
			return sends[0]
		}
		c.unexplained(sends[0].at, c.end, p, trace.Ambiguous,
			fmt.Sprintf("handed over, and it is not certain that its message to %v carried it", sends[0].to))
		return nil
	}
	has(sends[0].at)
	c.unexplained(sends[0].at, c.end, p, trace.Ambiguous,
		fmt.Sprintf("handed over, and which of %d messages carried it is not certain", len(sends)))
	return nil
}
