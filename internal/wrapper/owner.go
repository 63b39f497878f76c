package wrapper

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/vm"
)

// owner finds the Erlang VM of this host that has the other end of a connection,
// so that its instances are told to be of the same VM whichever way they come.
// It is false where there is none that we can see.
func owner(conn net.Conn) (outcome.VM, bool) {
	ours, theirs := addrPort(conn.LocalAddr()), addrPort(conn.RemoteAddr())
	if !theirs.Addr().IsLoopback() {
		return outcome.VM{}, false
	}
	inode, ok := socketInode(theirs, ours)
	if !ok {
		return outcome.VM{}, false
	}
	vms, err := vm.Find(vm.Target{})
	if err != nil {
		return outcome.VM{}, false
	}
	for _, v := range vms {
		if holdsSocket(v.PID(), inode) {
			return outcome.VM{PID: v.PID(), Node: v.Node}, true
		}
	}
	return outcome.VM{}, false
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

// socketInode finds the inode of the socket with these addresses.
func socketInode(local, remote netip.AddrPort) (uint64, bool) {
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		inode, ok := findInode(f, local, remote)
		f.Close()
		if ok {
			return inode, true
		}
	}
	return 0, false
}

// findInode looks for a socket in a table of those of the kernel, as described in
// Documentation/networking/proc_net_tcp.rst.
func findInode(table io.Reader, local, remote netip.AddrPort) (uint64, bool) {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		const localField, remoteField, inodeField = 1, 2, 9
		fields := strings.Fields(lines.Text())
		if len(fields) <= inodeField || kernelAddress(fields[localField]) != local ||
			kernelAddress(fields[remoteField]) != remote {
			continue
		}
		inode, err := strconv.ParseUint(fields[inodeField], 10, 64)
		return inode, err == nil && inode != 0
	}
	return 0, false
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
