package explain

import (
	"fmt"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/trace"
)

// Reasons of waits that no other process explains.
const (
	reasonTimer   = "it waited for a time, as in a sleep: its timer ended the wait"
	reasonTimeout = "timed out: the time that it gave the call was over before an answer came"
	reasonExit    = "an exit signal ended the process"
	reasonSignal  = "woken by no message that it took, nor by its timer"
	reasonUntold  = "woken without a message: by a timer or a signal, which the VM did not tell"
	reasonOpen    = "it could go on, and what woke it was not seen"

	reasonWasThere = "not tracked yet: it took a message that was sent before the process was tracked"
	reasonUnseen   = "woken by a message that no process of this node was seen to send: by a timer, a port, another node or the VM"
	reasonMessage  = "woken by the message of a timer"
	reasonVM       = "woken by a message of the VM"
	reasonNative   = "woken by a message of a native function"
	reasonOwn      = "woken by a message that the VM sent in its own name"
	reasonSender   = "it sent a message that was not seen to be sent: it was not watched then, or the VM did for its sake"
	reasonDown     = "a monitor told that it has ended"
)

// alone explains a segment in which a process waits, and takes no message.
func (w *walk) alone(p *process, s segment, k wake, by path) node {
	mark := max(by.mark, k.mark)
	switch k.how {
	case byTimer:
		if m := p.call(s.at); m != nil {
			n := w.follow(wish{
				asker: p, of: m.to, from: s.from, to: s.to, link: linkOf(m, max(m.mark, trace.Inferred)), by: by,
			})
			n.Reason = also(reasonTimeout, n.Reason)
			return n
		}
		return unexplained(s.from, s.to, p.pid, mark, reasonTimer)
	case byExit:
		return unexplained(s.from, s.to, p.pid, mark, reasonExit)
	case bySignal:
		return unexplained(s.from, s.to, p.pid, mark, reasonSignal)
	case byUntold:
		return unexplained(s.from, s.to, p.pid, mark, reasonUntold)
	}
	return unexplained(s.from, s.to, p.pid, mark, reasonOpen)
}

// A watching is that a process began to monitor another one.
type watching struct {
	at int64
	of trace.PID // 0: of another node
}

// call returns the message with which a process called another one that has not answered up
// to a time, nil if it does not seem to wait for an answer: it had begun to monitor that
// process, and nothing came since, nor did it give up another wait.
func (p *process) call(at int64) *send {
	since := int64(0)
	if i := after(p.received, at, receivedAt); i > 0 {
		since = p.received[i-1].at
	}
	if i := after(p.timeouts, at, itself); i > 0 {
		since = max(since, p.timeouts[i-1])
	}
	for i := after(p.monitors, at, watchingSince) - 1; i >= 0 && p.monitors[i].at >= since; i-- {
		m := p.monitors[i]
		for _, s := range p.sent[after(p.sent, m.at, sentAt):after(p.sent, at, sentAt)] {
			if s.to == m.of || m.of == 0 && s.to>>48 != 0 {
				return s
			}
		}
	}
	return nil
}

func watchingSince(w watching) int64 { return w.at }

// unseen explains a segment in which a process waits for a message that was not seen to be
// sent.
func (w *walk) unseen(p *process, s segment, k wake, by path) node {
	reason := reasonUnseen
	if k.early {
		reason = reasonWasThere
	}
	switch of := k.origin; of.kind {
	case bpf.OriginProcess, bpf.OriginDown:
		if of.process() != p.pid {
			return w.sender(p, s, k, by, trace.Exact)
		}
		reason = reasonOwn
	case bpf.OriginPort:
		reason = fmt.Sprintf("woken by a message of #Port<0.%d>", of.of)
	case bpf.OriginAtom:
		switch name := w.log.atom(w.pid, of.of); name {
		case "":
		case "clock_service":
			reason = reasonMessage
		case "system":
			reason = reasonVM
		case "undefined":
			reason = reasonNative
		default:
			reason = "woken by a message of another node, " + name
		}
	}
	return unexplained(s.from, s.to, p.pid, max(by.mark, k.mark), reason)
}

// sender explains a segment in which a process waits for a message of which the VM told from
// which process it is, and it was not seen when that sent it.
func (w *walk) sender(p *process, s segment, k wake, by path, mark trace.Mark) node {
	of := k.origin.process()
	n := w.follow(wish{
		asker: p, of: of, from: s.from, to: s.to, by: by,
		link: trace.Link{From: of, To: p.pid, Received: k.taken, Mark: max(mark, k.mark)},
	})
	switch {
	case k.origin.kind == bpf.OriginDown:
		n.Reason = also(reasonDown, n.Reason)
	case k.how == byUnseen:
		n.Reason = also(reasonSender, n.Reason)
	}
	return n
}

// atom returns the text of an atom of a VM, "" where it is not known.
func (l *Log) atom(vm int, index uint64) string {
	if l.Atom == nil {
		return ""
	}
	return l.Atom(vm, index)
}
