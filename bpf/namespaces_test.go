package bpf_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// What the processes of [TestNestedNamespaces] do, and what they need to know.
const (
	nestedRole   = "BEAMSCOPE_TEST_NESTED"        // nestedObserver, or nestedVM
	nestedBelow  = "BEAMSCOPE_TEST_NESTED_BELOW"  // number of pid namespaces between the observer and the VM
	nestedSocket = "BEAMSCOPE_TEST_NESTED_SOCKET" // where the VM connects to the observer

	nestedObserver = "observer"
	nestedVM       = "vm"
)

// A VM is observed from its own pid namespace, and from every namespace above it, wherever in the
// tree of namespaces these are.
func TestNestedNamespaces(t *testing.T) {
	switch os.Getenv(nestedRole) {
	case nestedObserver:
		observeNested(t)
		return
	case nestedVM:
		standInForVM(t)
		return
	}
	vmtest.NeedEBPF(t)
	vmtest.NeedProgram(t, "unshare")
	for _, test := range []struct{ observer, below int }{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {2, 0}, {2, 1}, {2, 2}} {
		t.Run(fmt.Sprintf("%d namespaces down, VM %d below", test.observer, test.below), func(t *testing.T) {
			cmd := inNamespaces(t, test.observer, nestedObserver, nestedBelow+"="+strconv.Itoa(test.below))
			if output, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}

// inNamespaces returns a command that runs TestNestedNamespaces in a role, so many pid namespaces
// below this one.
func inNamespaces(t *testing.T, down int, role string, env ...string) *exec.Cmd {
	var args []string
	for range down {
		args = append(args, "unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
	}
	args = append(args, os.Args[0], "-test.run=^TestNestedNamespaces$", "-test.v")
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(append(os.Environ(), nestedRole+"="+role), env...)
	return cmd
}

// observeNested starts a VM in a namespace below this one, and observes the waits of its threads
// for a processor, and samples of it.
func observeNested(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "vm")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	below, err := strconv.Atoi(os.Getenv(nestedBelow))
	if err != nil {
		t.Fatal(err)
	}
	vm := inNamespaces(t, below, nestedVM, nestedSocket+"="+socket)
	vm.Stderr = os.Stderr
	if err := vm.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := listener.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	pid := peer(t, conn)
	waitsOfNested(t, conn, pid)
	samplesOfNested(t, conn, pid)
	conn.Close()
	if err := vm.Wait(); err != nil {
		t.Error(err)
	}
}

// peer returns the pid of the process at the other end, in our namespace.
func peer(t *testing.T, conn *net.UnixConn) int {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var credentials *unix.Ucred
	if controlErr := raw.Control(func(fd uintptr) { credentials, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); controlErr != nil || err != nil {
		t.Fatal(controlErr, err)
	}
	return int(credentials.Pid)
}

// waitsOfNested checks that waits of a VM's thread for a processor are seen, which sleeps and wakes
// up again and again.
func waitsOfNested(t *testing.T, conn net.Conn, pid int) {
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{builtin(t, "os-wait", "")}, Window: int64(time.Minute)})
	if _, err := c.Attach(t.Context(), bpf.Target{Path: os.Args[0]}); err != nil {
		t.Fatal(err)
	}
	if err := c.ObserveThreads(pid); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1)
	const times = 200
	for range times {
		if _, err := conn.Write([]byte{nestedAnswer}); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(answer); err != nil {
			t.Fatal(err)
		}
	}
	all, _, err := c.Read(0)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].PID != pid || all[0].Successes == 0 {
		t.Errorf("a thread of pid %d slept %d times, and its waits for a processor are %+v", pid, times, all)
	}
}

// samplesOfNested checks that samples of a busy VM are taken.
func samplesOfNested(t *testing.T, conn net.Conn, pid int) {
	const window = time.Second / 4
	if _, err := conn.Write([]byte{nestedSpin}); err != nil {
		t.Fatal(err)
	}
	s, start := samplesOf(t, pid, bpf.SamplerOptions{Rate: 99, Window: int64(window)})
	var taken uint64
	for n := uint64(0); n < 8; n++ {
		until(start + int64(n+1)*int64(window))
		settled(t)
		all, err := s.Read(n, monotonic.Now())
		if err != nil {
			t.Fatal(err)
		}
		taken += all.Taken
		for _, sample := range all.Samples {
			if sample.PID == pid {
				return
			}
		}
	}
	t.Errorf("none of %d samples is of the busy pid %d", taken, pid)
}

// What the observer asks the VM for.
const (
	nestedAnswer = 'a' // a byte
	nestedSpin   = 's' // to use a processor until the next byte comes
)

// standInForVM is a process with a thread that has the name of a VM's scheduler, and does what the
// observer asks for.
func standInForVM(t *testing.T) {
	runtime.LockOSThread() // until it ends: no other goroutine must have the name
	name := []byte("erts_sched_1\x00")
	if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: os.Getenv(nestedSocket)}); err != nil {
		t.Fatal(err)
	}
	order := make([]byte, 1)
	for flags := 0; ; {
		n, _, err := unix.Recvfrom(fd, order, flags)
		switch {
		case err == unix.EAGAIN && flags != 0, err == unix.EINTR:
			continue
		case err != nil:
			t.Fatal(err)
		case n == 0:
			return
		}
		flags = 0
		if order[0] == nestedSpin {
			flags = unix.MSG_DONTWAIT
		} else if _, err := unix.Write(fd, order); err != nil {
			t.Fatal(err)
		}
	}
}

// Without the kernel's type information, a container is refused in one line: programs would
// observe nothing there.
func TestNamespaceWithoutTypes(t *testing.T) {
	_, err := bpf.FindNamespace(1, func() (*btf.Spec, error) { return nil, os.ErrNotExist })
	if !errors.Is(err, bpf.ErrKernel) || !errors.Is(err, bpf.ErrNamespace) || !errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "BTF") {
		t.Errorf("%v", err)
	}
}

// A namespace in which programs do not find us is refused.
func TestUnknownNamespace(t *testing.T) {
	vmtest.NeedEBPF(t)
	if p, err := bpf.FindNamespace(1, btf.LoadKernelSpec); !errors.Is(err, bpf.ErrNamespace) {
		t.Errorf("%+v, %v", p, err)
	}
}

// In the initial pid namespace programs read no memory of the kernel for a pid: the verifier removes
// what does, and one load is left, that of the constant.
func TestInitialNamespaceIsCheap(t *testing.T) {
	vmtest.NeedEBPF(t)
	loads := func(places bpf.NamespacePlaces) (n int) {
		t.Helper()
		program, err := bpf.OwnPIDProgram(places)
		if err != nil {
			t.Fatal(err)
		}
		defer program.Close()
		info, err := program.Info()
		if err != nil {
			t.Fatal(err)
		}
		all, err := info.Instructions()
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range all {
			if i.OpCode.Class() == asm.LdXClass {
				n++
			}
		}
		return n
	}
	elsewhere, err := bpf.KernelPlaces()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere.Inode, elsewhere.Level = 1, 1
	if here, there := loads(bpf.NamespacePlaces{}), loads(elsewhere); here != 1 || there <= here {
		t.Errorf("%d loads, and %d in a container", here, there)
	}
}
