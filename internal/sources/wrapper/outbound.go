package wrapper

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// How long to wait before the next attempt to connect. The time doubles with each attempt, and
// starts anew after a connection that has lasted.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// An outbound is the connection to a wrapper's own listener for commands.
type outbound struct {
	address string

	// Guarded by the Source's lock.
	link *link // nil if not connected
	vm   outcome.VM
}

// keep keeps a connection until the context is done.
func (s *Source) keep(ctx context.Context, o *outbound) {
	backoff := minBackoff
	failing := false
	for ctx.Err() == nil {
		began := time.Now()
		conn, err := dial(ctx, o.address)
		switch {
		case err == nil:
			failing = false
			s.command(ctx, o, conn)
		case !failing && ctx.Err() == nil:
			failing = true
			s.notices.Add("%v: trying again", err)
		}
		if time.Since(began) > maxBackoff {
			backoff = minBackoff
		}
		sleep(ctx, backoff)
		backoff = min(2*backoff, maxBackoff)
	}
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: maxBackoff, KeepAliveConfig: keepAlive}
	return d.DialContext(ctx, "tcp", address)
}

// sleep waits for a time, or until the context is done.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// command sends commands over a connection until the connection ends. It ignores what the wrapper
// sends.
func (s *Source) command(ctx context.Context, o *outbound, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	vm, _ := s.owner(ctx, conn)
	l := newLink(conn)
	if !s.connected(o, l, vm) {
		return
	}
	s.running.Go(func() {
		l.run()
		if !s.isClosed() {
			conn.Close() // the wrapper accepts no commands, so connect again
		}
	})
	io.Copy(io.Discard, conn)
	s.disconnected(o)
}

// connected records a connection. It returns false if the source is closed.
func (s *Source) connected(o *outbound, l *link, vm outcome.VM) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	o.link, o.vm = l, vm
	s.links[l] = true
	l.post(s.commands())
	s.notices.Add("connected to %s", o.address)
	return true
}

func (s *Source) disconnected(o *outbound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.links, o.link)
	o.link.close()
	o.link = nil
	if !s.closed {
		s.notices.Add("disconnected from %s", o.address)
	}
}

func (s *Source) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (o *outbound) peer(active bool) Peer {
	return Peer{
		Address:   o.address,
		VM:        o.vm,
		Direction: Outbound,
		Connected: o.link != nil,
		Active:    active && o.link != nil,
	}
}
