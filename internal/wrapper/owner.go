package wrapper

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/vm"
)

// departed are the peers on this host that have closed their end already: the kernel does not
// know any more whose it was.
const departed = "clients that have disconnected already"

// owners finds the users and the VMs that connections belong to.
type owners struct {
	finder vm.Finder

	// answers says that sock_diag has found a socket. From then on it is believed when it
	// finds none: a kernel without it says the same.
	answers atomic.Bool
}

// of finds the Erlang VM of this host that has the other end of a connection,
// so that its instances are told to be of the same VM whichever way they come.
// It is false where there is none that we can see.
func (o *owners) of(ctx context.Context, conn net.Conn) (outcome.VM, bool) {
	ours, theirs := addrPort(conn.LocalAddr()), addrPort(conn.RemoteAddr())
	if !theirs.Addr().IsLoopback() {
		return outcome.VM{}, false
	}
	socket, ok := o.socket(theirs, ours)
	if !ok || socket.inode == 0 {
		return outcome.VM{}, false
	}
	vms, _, err := o.finder.Find(ctx, vm.Target{})
	if err != nil {
		return outcome.VM{}, false
	}
	for _, v := range vms {
		if holdsSocket(v.PID(), socket.inode) {
			return outcome.VM{PID: v.PID(), Node: v.Node}, true
		}
	}
	return outcome.VM{}, false
}

// user names who is at the other end of a connection: a user of this host, departed, or else
// the address of a host.
func (o *owners) user(conn net.Conn) string {
	ours, theirs := addrPort(conn.LocalAddr()), addrPort(conn.RemoteAddr())
	if !theirs.Addr().IsLoopback() {
		return theirs.Addr().String()
	}
	socket, ok := o.socket(theirs, ours)
	if !ok || socket.inode == 0 { // of a closed one the kernel says that it is of user 0
		return departed
	}
	return "user " + strconv.FormatUint(uint64(socket.user), 10)
}

// socket finds the socket of this host with these addresses.
func (o *owners) socket(local, remote netip.AddrPort) (socket, bool) {
	found, err := askSocket(local, remote)
	switch {
	case err == nil:
		o.answers.Store(true)
		return found, true
	case errors.Is(err, unix.ENOENT) && o.answers.Load():
		return socket{}, false
	}
	return findSocket(local, remote)
}

// A socket is what the kernel says of one end of a connection.
type socket struct {
	inode uint64 // 0 where no process has it any more
	user  uint32 // the id of its owner
}

// addrPort returns an address of a TCP connection, with an IPv4 address as such.
func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := tcp.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}

// findSocket finds the socket with these addresses in the tables of all.
func findSocket(local, remote netip.AddrPort) (socket, bool) {
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		found, ok := readSocket(f, local, remote)
		f.Close()
		if ok {
			return found, true
		}
	}
	return socket{}, false
}

// readSocket looks for a socket in a table of those of the kernel, as described in
// Documentation/networking/proc_net_tcp.rst.
func readSocket(table io.Reader, local, remote netip.AddrPort) (socket, bool) {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		const localField, remoteField, userField, inodeField = 1, 2, 7, 9
		fields := strings.Fields(lines.Text())
		if len(fields) <= inodeField || kernelAddress(fields[localField]) != local ||
			kernelAddress(fields[remoteField]) != remote {
			continue
		}
		user, err := strconv.ParseUint(fields[userField], 10, 32)
		if err != nil {
			return socket{}, false
		}
		inode, err := strconv.ParseUint(fields[inodeField], 10, 64)
		return socket{inode, uint32(user)}, err == nil
	}
	return socket{}, false
}

// kernelAddress reads ADDRESS:PORT, in hexadecimal digits: the address as words of
// four bytes in the order of this machine. It is zero where that is none.
func kernelAddress(text string) netip.AddrPort {
	digits, portDigits, _ := strings.Cut(text, ":")
	ip, err := hex.DecodeString(digits)
	if err != nil {
		return netip.AddrPort{}
	}
	for i := 0; i+4 <= len(ip); i += 4 {
		binary.NativeEndian.PutUint32(ip[i:], binary.BigEndian.Uint32(ip[i:]))
	}
	address, ok := netip.AddrFromSlice(ip)
	port, err := strconv.ParseUint(portDigits, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(address.Unmap(), uint16(port))
}

// maxFiles bounds the open files of a process that are looked at.
const maxFiles = 1 << 16

// holdsSocket reports whether a process has a socket open.
func holdsSocket(pid int, inode uint64) bool {
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	f, err := os.Open(folder)
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxFiles)
	want := fmt.Sprintf("socket:[%d]", inode)
	for _, name := range names {
		if target, err := os.Readlink(folder + "/" + name); err == nil && target == want {
			return true
		}
	}
	return false
}
