package explain

import (
	"fmt"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// Reasons for waits that no other process explains.
const (
	reasonTimer   = "its receive timed out: it slept, or the message that it waited for did not come"
	reasonTimeout = "the call timed out: no answer came in time"
	reasonEither  = "its receive timed out, or a message came before it could run again: the VM does not tell which"
	reasonExit    = "an exit signal ended the process"
	reasonSignal  = "neither a message that it took nor its timer woke it"
	reasonUntold  = "it took no message: a timer or a signal woke it, and the VM does not tell which"
	reasonOpen    = "it could go on; beamscope did not see what woke it"

	reasonWasThere = "not tracked yet: it took a message that was sent before beamscope tracked it"
	reasonUnseen   = "it waited for a message that beamscope did not see sent, and the VM does not tell who sent it"
	reasonUnread   = "it waited for a message of a timer, another node or the VM; the name that tells which could not be read"
	reasonMessage  = "the message of a timer ended the wait"
	reasonSender   = "its message ended the wait, and beamscope did not see it sent"
	reasonDown     = "it waited for this process to end"
	reasonExiting  = "it was exiting: the VM cleans up after a process before it tells of its end, as by deleting its tables"
)

// Kinds of messages of the VM that a process waits for.
const (
	fromVM     = "a message of the VM or of a native function"
	fromNative = "a message of a native function"
	fromItself = "a message that the VM sent in the name of the receiver"
)

// alone explains a segment in which a process waits and takes no message.
func (w *walk) alone(p *process, s segment, k wake, by path) node {
	mark := max(by.mark, k.mark)
	switch k.how {
	case byTimer:
		timer, timeout := reasonTimer, reasonTimeout
		if k.either {
			timer, timeout = reasonEither, reasonEither
		}
		if m := p.call(s.at); m != nil {
			n := w.follow(wish{
				asker: p, of: m.to, from: s.from, to: s.to, link: linkOf(m, max(m.mark, trace.Inferred)), by: by,
			})
			n.Reason = also(timeout, n.Reason)
			return n
		}
		return because(s, p, trace.Timer, mark, "", timer)
	case byExit:
		return unexplained(s.from, s.to, p.pid, mark, reasonExit)
	case bySignal:
		return unexplained(s.from, s.to, p.pid, mark, reasonSignal)
	case byUntold:
		return unexplained(s.from, s.to, p.pid, mark, reasonUntold)
	}
	return unexplained(s.from, s.to, p.pid, mark, reasonOpen)
}

// A watching records that a process began to monitor another one.
type watching struct {
	at int64
	of trace.PID // 0: of another node
}

// call returns the message with which a process called another one that has not answered up to a
// time, or nil if it does not seem to wait for an answer. It waits for one if it began to monitor
// that process, nothing has come since, and it has not given up another wait.
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

// unseen explains a segment in which a process waits for a message whose send was not seen.
func (w *walk) unseen(p *process, s segment, k wake, by path) node {
	mark := max(by.mark, k.mark)
	reason := reasonUnseen
	if k.early {
		reason = reasonWasThere
	}
	switch of := k.origin; of.kind {
	case bpf.OriginProcess, bpf.OriginDown:
		if of.process() != p.pid {
			return w.sender(p, s, k, by, trace.Exact)
		}
		return because(s, p, trace.VMWait, mark, fromItself, "")
	case bpf.OriginPort:
		return because(s, p, trace.External, mark, fmt.Sprintf("#Port<0.%d>", of.of), "")
	case bpf.OriginAtom:
		switch name := w.log.atom(w.pid, of.of); name {
		case "":
			reason = reasonUnread
		case "clock_service":
			return because(s, p, trace.Timer, mark, "", reasonMessage)
		case "system":
			return w.system(p, s, of, mark)
		case "undefined":
			return because(s, p, trace.VMWait, mark, fromNative, "")
		default:
			return because(s, p, trace.External, mark, "the node "+name, "")
		}
	}
	return unexplained(s.from, s.to, p.pid, mark, reason)
}

// What a process waits for if the VM sends it a message that a file descriptor is ready.
const (
	aSocket   = "a socket"
	aSelected = "a file descriptor that a native function selected"
)

// system explains a segment in which a process waits for a message that the VM itself sent. The VM
// sends such a message when a file descriptor that a native function has selected is ready. Its
// first element identifies it, unless the native function gave the VM a different message.
func (w *walk) system(p *process, s segment, of origin, mark trace.Mark) node {
	if of.tag != 0 {
		switch w.log.atom(w.pid, uint64(of.tag)) {
		case "'$socket'":
			return because(s, p, trace.External, mark, aSocket, "")
		case "select":
			return because(s, p, trace.External, mark, aSelected, "")
		}
	}
	return because(s, p, trace.VMWait, mark, fromVM, "")
}

// because explains a segment in which a process waits by a cause outside all processes.
func because(s segment, p *process, kind trace.Kind, mark trace.Mark, detail, reason string) node {
	n := span(s.from, s.to, kind, p.pid, mark)
	n.Detail, n.Reason = detail, reason
	return n
}

// sender explains a segment in which a process waits for a message whose sender the VM reported,
// but whose send was not seen.
func (w *walk) sender(p *process, s segment, k wake, by path, mark trace.Mark) node {
	of := k.origin.process()
	n := w.follow(wish{
		asker: p, of: of, from: s.from, to: s.to, by: by,
		link: trace.Link{From: of, To: p.pid, Received: k.taken, Mark: max(mark, k.mark)},
	})
	if k.origin.kind == bpf.OriginDown || k.how == byUnseen {
		n.exiting()
	}
	switch {
	case k.origin.kind == bpf.OriginDown:
		n.Reason = also(reasonDown, n.Reason)
	case k.how == byUnseen:
		n.Reason = also(reasonSender, n.Reason)
	}
	return n
}

// exiting marks the time between the beginning of a process's exit and its message about that as
// exiting. The time of the message is not known, because the VM reports the receiver as ready only
// when a scheduler turns to it.
func (n *node) exiting() {
	if n.Reason == reasonExited {
		n.Mark, n.Reason = max(n.Mark, trace.Inferred), reasonExiting
	}
	for i := range n.children {
		n.children[i].exiting()
	}
}

// atom returns the text of an atom of a VM, or "" if it is unknown.
func (l *Log) atom(vm int, index uint64) string {
	if l.Atom == nil {
		return ""
	}
	return l.Atom(vm, index)
}
