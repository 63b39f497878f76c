package fire

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/beamscope/beamscope/erlang"
)

// A pair is the VM under test and a peer node.
type pair struct {
	vm, peer *erlang.VM
	peerName string // the name of its node
	peerErr  error  // why the two are not connected
}

// socketBuffer is the size of the connection's buffers on either side, in bytes. Buffers of the
// usual sizes grow with their contents. Then the system can accept a flood as fast as the VM sends
// it, and the driver is never busy.
const socketBuffer = 8 << 10

// startPair starts the VM under test and its peer. The peer is not under test and runs the
// installation's own executable. They find each other on the loopback interface, without a name
// server. Their files are in a folder of this user.
func startPair(ctx context.Context, dir string, otp, underTest erlang.OTP) (*pair, error) {
	home, err := newHome(dir)
	if err != nil {
		return nil, fmt.Errorf("prepare two VMs that trust each other: %w", err)
	}
	env := append(os.Environ(), "HOME="+home)
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("find a port for distributed Erlang: %w", err)
	}
	common := []string{
		"-start_epmd", "false", "-erl_epmd_port", strconv.Itoa(port),
		"-kernel", "inet_dist_use_interface", "{127,0,0,1}",
	}
	name := fmt.Sprintf("beamscope_fire_%d", os.Getpid())
	p := &pair{peerName: name + "_peer@localhost"}
	p.vm, err = erlang.StartVM(ctx, underTest, erlang.Options{Carrier: erlang.Probes, Env: env, Args: append([]string{
		"-sname", name + "@localhost", "-dist_listen", "false",
		"+zdbbl", "1", // so that a connection is soon congested
		"-kernel", "inet_dist_connect_options", fmt.Sprintf("[{sndbuf,%d}]", socketBuffer),
	}, common...)})
	if err != nil {
		return nil, err
	}
	p.peer, p.peerErr = erlang.StartVM(ctx, otp, erlang.Options{Carrier: erlang.Probes, Env: env, Args: append([]string{
		"-sname", p.peerName,
		"-kernel", "inet_dist_listen_options", fmt.Sprintf("[{recbuf,%d}]", socketBuffer),
	}, common...)})
	if p.peerErr == nil {
		_, p.peerErr = p.vm.Call(ctx, "vm_events", "join", fmt.Sprintf("['%s']", p.peerName))
	}
	if p.peerErr != nil {
		p.peerErr = fmt.Errorf("a second node: %w", p.peerErr)
	}
	return p, nil
}

// newHome makes a home folder for the VMs with a random cookie in it, and returns its path. Anybody
// who knows the cookie can control the VMs, with the privileges of this process. So it is not on
// their command lines, which every local user can read.
func newHome(dir string) (string, error) {
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return "", err
	}
	// The VM requires that only the owner can read the file (erlang:get_cookie/0).
	return home, os.WriteFile(filepath.Join(home, ".erlang.cookie"), []byte(rand.Text()), 0o400)
}

// freePort returns a port that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// stop ends both VMs. It kills a VM that does not respond.
func (p *pair) stop() {
	if p.peer != nil {
		_ = p.peer.Stop()
	}
	_ = p.vm.Stop()
}
