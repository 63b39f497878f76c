package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// overTCP is a scope file that needs neither a VM nor privileges. %s is an address.
const overTCP = `wrapper: {listen: "%s"}
window: 100ms
outcomes: {a: {wrapper: a, dmax: 10ms}}
`

// Closing a terminal ends the command in it, and its recording is complete.
func TestClosedTerminalEndsARecording(t *testing.T) {
	cmd, terminal := inTerminal(t, "record", "-c", "scope.yaml", "-o", "run.bsr")
	output := bufio.NewScanner(terminal)
	for output.Scan() && !strings.Contains(output.Text(), "recording to run.bsr") {
	}
	if err := terminal.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	complete(t, filepath.Join(cmd.Dir, "run.bsr"))
}

// Without a terminal, SIGHUP reloads the scope file, as SIGUSR1 does, and SIGTERM ends the
// command.
func TestSignalsWithoutATerminal(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "beamscope", "record", "-c", "scope.yaml", "-o", "run.bsr")
	cmd.Dir = inFolder(t)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	output := bufio.NewScanner(stderr)
	await := func(text string) {
		t.Helper()
		for output.Scan() {
			if strings.Contains(output.Text(), text) {
				return
			}
		}
		t.Fatalf("it ended without %q", text)
	}
	await("recording to run.bsr")
	for _, signal := range []os.Signal{syscall.SIGHUP, syscall.SIGUSR1} {
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		awaitLine(t, output, "scope file read again")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for output.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	complete(t, filepath.Join(cmd.Dir, "run.bsr"))
}

// startRecording starts a command that records to run.bsr in its own folder, without a terminal. It
// returns when the command records. The scanner reads the remaining lines of its standard error.
func startRecording(t *testing.T) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "beamscope", "record", "-c", "scope.yaml", "-o", "run.bsr")
	cmd.Dir = inFolder(t)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	output := bufio.NewScanner(stderr)
	awaitLine(t, output, "recording to run.bsr")
	return cmd, output
}

// awaitLine reads lines up to the first one that contains a text.
func awaitLine(t *testing.T, output *bufio.Scanner, text string) {
	t.Helper()
	for output.Scan() {
		if strings.Contains(output.Text(), text) {
			return
		}
	}
	t.Fatalf("it ended without %q", text)
}

// inFolder returns a folder with a scope file.
func inFolder(t *testing.T) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "scope.yaml"), fmt.Appendf(nil, overTCP, address), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inTerminal starts beamscope in a new terminal, and returns the other end of that.
func inTerminal(t *testing.T, args ...string) (*exec.Cmd, *os.File) {
	t.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	// Under nohup the tests ignore SIGHUP, and a command would inherit that. If the signal is
	// handled here, it has its default effect in the command.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	cmd := exec.CommandContext(t.Context(), "beamscope", args...)
	cmd.Dir = inFolder(t)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = end, end, end
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, terminal
}

// complete checks that a recording has its end.
func complete(t *testing.T, path string) {
	t.Helper()
	r, err := recording.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for err == nil {
		_, err = r.Next()
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// SIGHUP ends top cleanly, even while it waits for a VM to start.
func TestHangupEndsTopThatWaits(t *testing.T) {
	var stderr lockedBuffer
	cmd := exec.Command("beamscope", "top", "--wait", "--json")
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	await(t, "that it waits or observes", func() bool {
		return strings.Contains(stderr.String(), " to start\n") || strings.Contains(stderr.String(), "observing")
	})
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, stderr.String())
	}
}

// SIGHUP ends doctor with a message, not by the signal.
func TestHangupEndsDoctor(t *testing.T) {
	vmtest.NeedEBPF(t)
	var stderr lockedBuffer
	cmd := exec.Command("beamscope", "doctor", "--fire")
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	await(t, "that it tests a VM", func() bool { return strings.Contains(stderr.String(), "testing a new VM") })
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != statusFailed {
		t.Errorf("it ended with %v", err)
	}
	if !strings.HasSuffix(stderr.String(), "beamscope: interrupted before it finished\n") {
		t.Errorf("it prints %q", stderr.String())
	}
}
