package wrapper

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
)

// connected returns both ends of a connection.
func connected(t *testing.T, network, address string) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	if theirs, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.Close() })
	if ours, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	return ours, theirs
}

// The other end of a connection within this host is found among the open files of its process.
// Here that is this process, which is not an Erlang VM.
func TestOwner(t *testing.T) {
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "tcp": "[::]:0"} {
		ours, theirs := connected(t, network, address)
		other, ok := findSocket(addrPort(ours.RemoteAddr()), addrPort(ours.LocalAddr()))
		inode := other.inode
		if !ok || !holdsSocket(os.Getpid(), inode) {
			t.Errorf("%s: inode %d, %v", network, inode, ok)
		}
		if own, ok := findSocket(addrPort(theirs.RemoteAddr()), addrPort(theirs.LocalAddr())); !ok || own.inode == inode {
			t.Errorf("%s: both ends are socket %d", network, own.inode)
		}
		if holdsSocket(os.Getppid(), inode) || holdsSocket(1<<30, inode) {
			t.Errorf("%s: another process holds the socket too", network)
		}
		asked, err := askSocket(addrPort(ours.RemoteAddr()), addrPort(ours.LocalAddr()))
		if err != nil || asked != other {
			t.Errorf("%s: the kernel returned %+v, %v, want %+v", network, asked, err, other)
		}
		if got, want := new(owners).user(ours), fmt.Sprintf("user %d", os.Getuid()); got != want {
			t.Errorf("%s: it belongs to %s, want %s", network, got, want)
		}
		if vm, found := new(owners).of(t.Context(), ours); found {
			t.Errorf("%s: %v", network, vm)
		}
	}
}

// Kernel tables of sockets are parsed, including invalid lines.
func TestReadSocket(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1
   1: 0100007F:D431 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 22 1
   2: 0000000000000000FFFF00000100007F:D432 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 33 1
   3: 00000000000000000000000001000000:D433 00000000000000000000000001000000:1F90 01 00000000:00000000 00:00000000 00000000     0        0 44 1
   4: 0100007F:D434 0100007F:1F90 06 00000000:00000000 03:00001769 00000000     0        0 0 3
   5: 0100007F:D435
   6: X100007F:D435 0100007F:1F90 01 0 0 0 0 0 0 55
`
	for local, want := range map[string]uint64{
		"127.0.0.1:54321": 22, "127.0.0.1:54322": 33, "[::1]:54323": 44, "127.0.0.1:54324": 0, "127.0.0.1:54325": 0,
	} {
		remote := "127.0.0.1:8080"
		if strings.HasPrefix(local, "[") {
			remote = "[::1]:8080"
		}
		got, ok := readSocket(strings.NewReader(table), netip.MustParseAddrPort(local), netip.MustParseAddrPort(remote))
		user := uint32(0)
		if want == 22 {
			user = 1000
		}
		if got != (socket{want, user}) || ok != (local != "127.0.0.1:54325") {
			t.Errorf("%s: %v, %v; want inode %d of user %d", local, got, ok, want, user)
		}
	}
}
