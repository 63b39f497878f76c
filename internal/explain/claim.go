package explain

import (
	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// claim takes out a message in a VM that does not report when processes fetch messages. The address
// of the message identifies it among the sent ones, and the VM reports its sender. A message keeps
// its address until it is taken: erts_proc_sig_move_msgs_to_heap of OTP 25 and 27 copies what
// messages contain. The address of a message to an alias is unknown.
func (b *mailbox) claim(e *bpf.Event) receipt {
	b.direct = true
	r := receipt{at: e.Time, origin: origin{e.Origin, e.Other, e.Tag}, unfetched: true}
	switch s := b.sentTo(e.Message); {
	case s != nil && r.origin.sent(s.from):
		r.send, r.sure = s, true
	case s != nil:
		s.fate = lost // another message is there now
		fallthrough
	default:
		b.guess(&r)
	}
	if r.send != nil {
		r.send.fate, r.send.received, r.send.mark = taken, e.Time, trace.Inferred
	}
	over := 0
	for over < len(b.pending) && b.pending[over].fate != underway {
		over++
	}
	b.pending = b.pending[over:]
	b.goOn()
	b.lastAt = e.Time
	return r
}

// place records the address of a sent message. If another message had this address, it has gone.
func (b *mailbox) place(s *send) {
	if s.where == 0 {
		return
	}
	if old := b.places[s.where]; old != nil && old.fate == underway {
		old.fate = lost
	}
	if b.places == nil {
		b.places = make(map[uint64]*send)
	}
	b.places[s.where] = s
}

// displace drops the addresses of some messages.
func (b *mailbox) displace(sends []*send) {
	for _, s := range sends {
		if b.places[s.where] == s {
			delete(b.places, s.where)
		}
	}
}

// sentTo returns the last message that was sent to an address, or nil if there is none.
func (b *mailbox) sentTo(address uint64) *send {
	s := b.places[address]
	delete(b.places, address)
	if s == nil || s.fate != underway {
		return nil
	}
	return s
}

// guess finds a taken message by its sender, among the messages with an unknown address. A process
// takes the messages of a sender in their order. Messages to aliases are an exception: if there are
// several, it is uncertain which one it takes.
func (b *mailbox) guess(r *receipt) {
	from := r.origin.process()
	if r.origin.kind == bpf.OriginDown || from == 0 && r.origin.kind != bpf.OriginUnknown {
		return
	}
	var found []*send
	ordered := false // a message is found that is not to an alias
	for _, s := range b.pending[:min(len(b.pending), search)] {
		if s.where != 0 || from != 0 && s.from != from || s.fate != underway || !s.alias && ordered {
			continue
		}
		ordered = ordered || !s.alias
		found = append(found, s)
	}
	switch {
	case len(found) == 0:
		return
	case from == 0: // the message may not have been seen to be sent
		r.among, _ = confuse(append(found, nil)...)
	case len(found) > 1:
		r.among, _ = confuse(found...)
	default:
		r.send = found[0]
	}
}
