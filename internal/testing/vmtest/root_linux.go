package vmtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// RootReleases are the releases of OTP with a [StockRoot].
func RootReleases() []int { return []int{27, 29} }

// StockRoot returns a root file system with Debian's own VM of a release, and the libraries of its
// suite. Only root can make it and use it.
func StockRoot(t testing.TB, release int) string {
	t.Helper()
	NotShort(t)
	if os.Geteuid() != 0 {
		Missing(t, errors.New("only root can start a VM in another root file system"))
	}
	path, err := script("stock-root.sh", strconv.Itoa(release))
	if err != nil {
		Missing(t, err)
	}
	return path
}

// A RootedVM is a VM in another root file system. It runs no code of ours but an expression, which reads
// lines from standard input and writes lines.
type RootedVM struct {
	PID int

	t   testing.TB
	in  io.Writer
	out *bufio.Scanner
}

// StartRooted starts Debian's own VM in a root file system. It evaluates an Erlang expression, and ends
// with the test. The expression begins to run when the VM has started.
func StartRooted(t testing.TB, root, expression string) *RootedVM {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/usr/bin/erl", "-noshell", "-eval", expression)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin", "HOME=/"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &RootedVM{PID: cmd.Process.Pid, t: t, in: in, out: bufio.NewScanner(out)}
}

// Tell writes a line to the VM.
func (v *RootedVM) Tell(line string) {
	v.t.Helper()
	if _, err := fmt.Fprintln(v.in, line); err != nil {
		v.t.Fatal(err)
	}
}

// Await waits for a line of the VM.
func (v *RootedVM) Await(line string) {
	v.t.Helper()
	for v.out.Scan() {
		if v.out.Text() == line {
			return
		}
	}
	v.t.Fatalf("the VM ends without the line %q: %v", line, v.out.Err())
}
