package wrapper

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Constants of linux/sock_diag.h, linux/inet_diag.h and linux/tcp.h.
const (
	diagByFamily  = 20
	diagHeader    = 16 // bytes of nlmsghdr
	diagRequest   = 56 // bytes of inet_diag_req_v2
	diagReply     = 72 // bytes of inet_diag_msg
	diagAddresses = 4  // offset of inet_diag_sockid in a reply
	diagUser      = 64 // offset of the user's id in a reply; the inode follows
	tcpListen     = 10
)

// errDiag means that the kernel's answer is missing or invalid.
var errDiag = errors.New("sock_diag: unknown answer")

// askSocket asks the kernel for one socket by its addresses, see sock_diag(7). The time does not
// depend on the number of sockets. The error is unix.ENOENT if there is no such socket.
func askSocket(local, remote netip.AddrPort) (socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return socket{}, err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, diagQuestion(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return socket{}, err
	}
	reply := make([]byte, 1024)
	n, _, err := unix.Recvfrom(fd, reply, unix.MSG_DONTWAIT) // the kernel answers within Sendto
	if err != nil {
		return socket{}, err
	}
	return readDiag(reply[:n], diagID(local, remote))
}

// diagQuestion returns the request for a socket.
func diagQuestion(local, remote netip.AddrPort) []byte {
	family := byte(unix.AF_INET)
	if local.Addr().Is6() {
		family = unix.AF_INET6
	}
	ne := binary.NativeEndian
	q := ne.AppendUint32(nil, diagHeader+diagRequest)
	q = ne.AppendUint16(q, diagByFamily)
	q = ne.AppendUint16(q, unix.NLM_F_REQUEST)
	q = append(q, make([]byte, 8)...) // sequence number, port
	q = append(q, family, unix.IPPROTO_TCP, 0, 0)
	q = ne.AppendUint32(q, 1<<32-1) // all states
	q = append(q, diagID(local, remote)...)
	q = append(q, make([]byte, 4)...)                                // any interface
	return append(q, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) // any cookie
}

// diagID returns the addresses of a socket in the form of inet_diag_sockid.
func diagID(local, remote netip.AddrPort) []byte {
	id := binary.BigEndian.AppendUint16(nil, local.Port())
	id = binary.BigEndian.AppendUint16(id, remote.Port())
	for _, a := range []netip.Addr{local.Addr(), remote.Addr()} {
		var field [16]byte
		copy(field[:], a.AsSlice())
		id = append(id, field[:]...)
	}
	return id
}

// readDiag parses the answer to a request for a socket.
func readDiag(reply, id []byte) (socket, error) {
	ne := binary.NativeEndian
	if len(reply) < diagHeader+4 {
		return socket{}, errDiag
	}
	kind, body := ne.Uint16(reply[4:]), reply[diagHeader:]
	if kind == unix.NLMSG_ERROR {
		if code := int32(ne.Uint32(body)); code < 0 {
			return socket{}, unix.Errno(-code)
		}
		return socket{}, errDiag
	}
	if kind != diagByFamily || len(body) < diagReply {
		return socket{}, errDiag
	}
	// If the kernel does not know such a connection, it returns the listening socket.
	ports := body[diagAddresses : diagAddresses+4]
	if state := body[1]; state == tcpListen || string(ports) != string(id[:4]) {
		return socket{}, unix.ENOENT
	}
	return socket{inode: uint64(ne.Uint32(body[diagUser+4:])), user: ne.Uint32(body[diagUser:])}, nil
}
