package wrapper

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// dialHostile connects as the user who connects again and again.
func dialHostile(t *testing.T, s *Source) *net.TCPConn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(hostile)}}
	conn, err := d.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// over waits until the other end has closed a connection.
func over(t *testing.T, conn net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
}

// counted returns the number of instances of an outcome from a VM in a window.
func counted(b outcome.Batch, node string) (n uint64) {
	for _, c := range b.Counts {
		if c.VM.Node == node {
			n += c.Instances()
		}
	}
	return n
}

// A user who connects and disconnects all the time does not lock out others. Connections beyond a
// limit for the user are refused, and a notice gives their number.
func TestChurnDoesNotLockOutOthers(t *testing.T) {
	r := newRig(t, plan(start, spec("a", 20)))
	r.as("user 7")
	for range 3 * connectBurst {
		conn := dialHostile(t, r.Source)
		fmt.Fprint(conn, "n:a;b:1")
		conn.CloseWrite()
		over(t, conn)
	}
	f := newFake(t)
	f.connect(r.Source)
	f.send("n:a;b:%d;e:%d;s:ok\n", start, start+ms)
	r.awaitLines(1)
	r.noticed(`^refused connections of user 61234: more than \d+ at once, or 1 a second(?: \(\d+ times\))?$`)
	if got, least := r.Refused(), uint64(2*connectBurst); got < least || got > 3*connectBurst {
		t.Errorf("%d refused, want %d or more", got, least)
	}
	b := r.collect(plan(start).At(0))
	if n := counted(b, "127.0.0.1"); n != 1 {
		t.Errorf("%d instances, want 1", n)
	}
	if n := counted(b, hostile); n != 0 || b.Rejected.Count == 0 {
		t.Errorf("%d instances of the others, %d lines rejected", n, b.Rejected.Count)
	}
}

// A user who has made as many connections as allowed may connect again after a second.
func TestConnectionsAreAllowedAgain(t *testing.T) {
	r := newRig(t, plan(start, spec("a", 20)))
	for range connectBurst + 1 {
		conn := dialHostile(t, r.Source)
		conn.CloseWrite()
		over(t, conn)
	}
	r.noticed(`^refused connections of user 61234: `)
	r.now.Add(int64(time.Second))
	conn := dialHostile(t, r.Source)
	fmt.Fprintf(conn, "n:a;b:%d;e:%d;s:ok\n", start, start+ms)
	r.awaitLines(1)
}

// A connection that never sent an instance leaves nothing behind except the number of its
// rejected lines.
func TestNoInstanceNoBook(t *testing.T) {
	r := newRig(t, plan(start, spec("a", 20)))
	for _, text := range []string{"", "rubbish\n", "n:a;b:1"} {
		conn := dialHostile(t, r.Source)
		fmt.Fprint(conn, text)
		conn.CloseWrite()
		over(t, conn)
		r.awaitPeers(0)
	}
	r.mu.Lock()
	if n := len(r.books); n != 0 {
		t.Errorf("%d books are left", n)
	}
	r.mu.Unlock()
	b := r.collect(plan(start).At(0))
	if b.Rejected.Count != 2 || !strings.Contains(b.Rejected.Last, "n:a;b:1") {
		t.Errorf("%+v", b.Rejected)
	}
	if b := r.collect(plan(start).At(1)); b.Rejected.Count != 0 {
		t.Errorf("rejected lines counted again: %+v", b.Rejected)
	}
}

// VMs of one user that come and go take no room from others. Those beyond a limit are counted
// together, and none of their instances is lost.
func TestVMsThatComeAndGo(t *testing.T) {
	r := newRig(t, plan(start, spec("a", 20)))
	r.as("user 7")
	pid := 1000
	r.ownedBy(func(conn net.Conn) (outcome.VM, bool) {
		if addrPort(conn.RemoteAddr()).Addr().String() != hostile {
			return outcome.VM{}, false
		}
		pid++
		return outcome.VM{PID: pid, Node: "fake"}, true
	})
	const vms = maxBooks + 50
	for range vms {
		conn := dialHostile(t, r.Source)
		fmt.Fprintf(conn, "n:a;b:%d;e:%d;s:ok\n", start, start+ms)
		conn.CloseWrite()
		over(t, conn)
		r.now.Add(int64(time.Second))
	}
	f := newFake(t)
	f.connect(r.Source)
	f.send("n:a;b:%d;e:%d;s:ok\n", start, start+ms)
	r.awaitLines(1)
	r.noticed(`^further VMs of user 61234 are counted together: 16 that came before are kept until their windows are over$`)
	b := r.collect(plan(start).At(0))
	if fake, rest := counted(b, "fake"), counted(b, "further VMs of user 61234"); fake != maxGone || fake+rest != vms {
		t.Errorf("%d instances of VMs and %d of further ones, want %d and %d", fake, rest, maxGone, vms-maxGone)
	}
	if n := counted(b, "127.0.0.1"); n != 1 {
		t.Errorf("%d instances, want 1", n)
	}
}

// However many users there are, there is room for a new one.
func TestVMsOfManyUsers(t *testing.T) {
	r := newRig(t, plan(start, spec("a", 20)))
	pid := 1000
	r.ownedBy(func(net.Conn) (outcome.VM, bool) {
		pid++
		return outcome.VM{PID: pid, Node: "vm"}, true
	})
	const vms = maxBooks + 20
	for n := range vms {
		r.as(fmt.Sprint("user ", n))
		f := newFake(t)
		f.connect(r.Source)
		f.send("n:a;b:%d;e:%d;s:ok\n", start, start+ms)
		r.awaitLines(1)
		f.conn.Close()
		r.awaitPeers(0)
	}
	b := r.collect(plan(start).At(0))
	if known, rest := counted(b, "vm"), counted(b, "further VMs"); known != maxBooks || known+rest != vms {
		t.Errorf("%d instances of VMs and %d of further ones, want %d and %d", known, rest, maxBooks, vms-maxBooks)
	}
	if n := len(r.limits.buckets); n > maxBuckets {
		t.Errorf("%d users are remembered", n)
	}
}

// If the other end of a connection is closed, the connection belongs to no user. The kernel
// reports user 0 then, or no user.
func TestUserOfClosedConnection(t *testing.T) {
	for name, linger := range map[string]int{"closed": -1, "reset": 0} {
		ours, theirs := connected(t, "tcp4", "127.0.0.1:0")
		if err := theirs.(*net.TCPConn).SetLinger(linger); err != nil {
			t.Fatal(err)
		}
		theirs.Close()
		if _, err := ours.Read(make([]byte, 1)); err == nil {
			t.Fatal("not closed")
		}
		if got := new(owners).user(ours); got != departed {
			t.Errorf("%s: %q, want %q", name, got, departed)
		}
	}
}
