package wrapper

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
	"github.com/beamscope/beamscope/internal/sources/ledger"
)

// accept accepts connections of wrappers until the listener is closed.
func (s *Source) accept(ctx context.Context) {
	backoff := minBackoff
	for {
		conn, err := s.listener.Accept()
		switch {
		case err == nil:
			backoff = minBackoff
			s.receive(ctx, conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			s.notices.Add("accept: %v", err)
			sleep(ctx, backoff)
			backoff = min(2*backoff, maxBackoff)
		}
	}
}

// receive serves a wrapper, or refuses it.
func (s *Source) receive(ctx context.Context, conn net.Conn) {
	slot, err := s.admit(conn)
	if err != nil {
		conn.Close()
		return
	}
	s.running.Go(func() {
		defer s.dismiss(slot)
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		s.serve(ctx, conn, slot)
	})
}

// admit gives a connection a slot, or refuses it. It runs before any work that costs more than
// finding the owner of the connection.
func (s *Source) admit(conn net.Conn) (_ *slot, err error) {
	host := addrPort(conn.RemoteAddr()).Addr()
	local := host.IsLoopback() || s.remote
	var peer string
	if local {
		peer = s.user(conn)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if err != nil {
			s.refusals.add(err)
		}
	}()
	now := s.clock.now()
	switch {
	case !local:
		return nil, fmt.Errorf("a connection from %v: %w", host, ErrRemote)
	case !s.limits.allow(peer, now):
		return nil, fmt.Errorf("connections of %s: more than %d at once, or 1 a second", peer, connectBurst)
	}
	slot, evicted, err := s.slots.take(conn, peer, now)
	if err != nil {
		return nil, fmt.Errorf("a connection from %v: %w", host, err)
	}
	if evicted != nil {
		s.notices.Add("closed the connection from %v of %s, to make room for one of %s: %d are served at a time",
			evicted.conn.RemoteAddr(), evicted.peer, peer, MaxPeers)
		evicted.conn.Close()
	}
	return slot, nil
}

func (s *Source) dismiss(x *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.slots, x)
}

// use records that instances have arrived on a connection.
func (s *Source) use(x *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.used = s.clock.now()
	x.account.sent = true
}

// serve receives the instances of a wrapper until the connection ends.
func (s *Source) serve(ctx context.Context, conn net.Conn, x *slot) {
	p := &inbound{
		used:     func() { s.use(x) },
		began:    s.began,
		conn:     conn,
		link:     newLink(conn),
		notices:  s.notices,
		schedule: func() ledger.Schedule { return *s.schedule.Load() },
		lines:    intake.NewSplitter(maxLine),
		timeline: newTimeline(s.clock),
	}
	vm, found := s.owner(ctx, conn)
	if !found {
		vm = outcome.VM{}
	}
	if !s.enrol(p, vm, x) {
		return
	}
	s.running.Go(p.link.run)
	p.receive()
	s.removePeer(p, x.account)
}

// enrol opens the book of a wrapper's VM. It returns false if the source is closed, or if another
// connection has taken the slot.
func (s *Source) enrol(p *inbound, vm outcome.VM, x *slot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !s.slots[x] {
		return false
	}
	if vm == (outcome.VM{}) {
		vm = s.nameless(addrPort(p.conn.RemoteAddr()).Addr().String(), x.peer)
	}
	x.account = s.account(vm, x.peer)
	x.account.connections++
	p.book = x.account.book
	s.peers[p] = true
	s.links[p.link] = true
	p.link.post(s.commands())
	s.notices.Add("%v has connected from %v", x.account.vm, p.conn.RemoteAddr())
	return true
}

// removePeer removes a wrapper from the list when its connection has ended.
func (s *Source) removePeer(p *inbound, a *account) {
	p.noteRejected()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, p)
	delete(s.links, p.link)
	p.link.close()
	a.connections--
	a.left = s.clock.now()
	if !s.closed {
		s.notices.Add("%v has disconnected", a.vm)
	}
	s.drop(a)
}
