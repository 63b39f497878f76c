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

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// departed stands for peers on this host that have already closed their end. The kernel no longer
// knows their user.
const departed = "clients that have disconnected already"

// owners finds the users and the VMs of connections.
type owners struct {
	finder vm.Finder

	// answers means that sock_diag has found a socket before. Before that, the answer that a
	// socket does not exist is ignored, because a kernel without sock_diag gives the same answer.
	answers atomic.Bool
}

// of finds the Erlang VM of this host at the other end of a connection, so that its instances
// belong to the same VM whichever way they arrive. It returns false if no such VM is visible.
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

// user describes the other end of a connection: a user of this host, departed, or else the
// address of a host.
func (o *owners) user(conn net.Conn) string {
	ours, theirs := addrPort(conn.LocalAddr()), addrPort(conn.RemoteAddr())
	if !theirs.Addr().IsLoopback() {
		return theirs.Addr().String()
	}
	socket, ok := o.socket(theirs, ours)
	if !ok || socket.inode == 0 { // for a closed socket the kernel reports user 0
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

// A socket is the kernel's information about one end of a connection.
type socket struct {
	inode uint64 // 0 if no process has it open any more
	user  uint32 // id of its owner
}

// addrPort returns an address of a TCP connection. It converts mapped IPv4 addresses.
func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := tcp.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}

// findSocket finds the socket with these addresses in the kernel's tables.
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

// readSocket searches a kernel table of sockets, see Documentation/networking/proc_net_tcp.rst.
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

// kernelAddress parses ADDRESS:PORT in hexadecimal digits. The address consists of words of four
// bytes in the byte order of this machine. It returns zero for an invalid text.
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

// maxFiles limits the number of open files of a process that are examined.
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
