package wrapper

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/beamscope/beamscope/internal/intake"
	"github.com/beamscope/beamscope/internal/outcome"
)

// accept serves wrappers that connect until the listener is closed.
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

// receive serves a wrapper, or refuses to.
func (s *Source) receive(ctx context.Context, conn net.Conn) {
	host := addrPort(conn.RemoteAddr()).Addr()
	slot, err := s.admit(conn)
	if err != nil {
		s.notices.Add("refused a connection from %v: %v", host, err)
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

// admit gives a connection a slot, unless it is refused.
func (s *Source) admit(conn net.Conn) (*slot, error) {
	host := addrPort(conn.RemoteAddr()).Addr()
	if !host.IsLoopback() && !s.remote {
		return nil, ErrRemote
	}
	peer := s.user(conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.books) >= maxBooks {
		return nil, errors.New("too many VMs have come and gone within a short time")
	}
	slot, evicted, err := s.slots.take(conn, peer, s.clock.now())
	if err != nil {
		return nil, err
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

// use notes that instances have come over a connection.
func (s *Source) use(x *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.used = s.clock.now()
}

// serve receives what a wrapper sends until the connection ends.
func (s *Source) serve(ctx context.Context, conn net.Conn, x *slot) {
	p := &inbound{
		used:     func() { s.use(x) },
		conn:     conn,
		link:     newLink(conn),
		notices:  s.notices,
		schedule: func() schedule { return *s.schedule.Load() },
		lines:    intake.NewSplitter(maxLine),
		timeline: newTimeline(s.clock),
	}
	vm, found := s.owner(ctx, conn)
	if !found {
		vm = outcome.VM{}
	}
	if !s.enrol(p, vm) {
		return
	}
	s.running.Go(p.link.run)
	p.receive()
	s.strike(p)
}

// enrol opens the book of a wrapper's VM, false where the source is closed.
func (s *Source) enrol(p *inbound, vm outcome.VM) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if vm == (outcome.VM{}) {
		vm = s.nameless(addrPort(p.conn.RemoteAddr()).Addr().String())
	}
	if s.books[vm] == nil {
		s.books[vm] = newBook(vm, s.next, s.budget)
	}
	p.book = s.books[vm]
	p.book.connections++
	s.peers[p] = true
	s.links[p.link] = true
	p.link.post(s.commands())
	s.notices.Add("%v has connected from %v", vm, p.conn.RemoteAddr())
	return true
}

// nameless names a VM of which only the host is known, by the lowest number that
// is free: so a VM that connects again goes on under its name.
func (s *Source) nameless(host string) outcome.VM {
	for n := 1; ; n++ {
		vm := outcome.VM{Node: host}
		if n > 1 {
			vm.Node = fmt.Sprintf("%s (%d)", host, n)
		}
		if b := s.books[vm]; b == nil || b.connections == 0 {
			return vm
		}
	}
}

// strike takes a wrapper off the list when its connection has ended.
func (s *Source) strike(p *inbound) {
	p.noteRejected()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, p)
	delete(s.links, p.link)
	p.link.close()
	p.book.connections--
	p.book.left = s.clock.now()
	if !s.closed {
		s.notices.Add("%v has disconnected", p.book.vm)
	}
}
