package fire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The catalogue agrees with a real VM of each release. All scenarios complete, and all probes that
// can fire do so, as often as they should.
func TestAgrees(t *testing.T) {
	vmtest.NeedEBPF(t)
	vmtest.OnEach(t, agrees)
}

func agrees(t *testing.T, otp erlang.OTP) {
	r, err := Run(t.Context(), otp)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Verdict(); err != nil {
		t.Error(err)
	}
	for _, f := range r.Failed {
		t.Errorf("%s: %v", f.Scenario, f.Err)
	}
	if r.Flavour != vm.JIT || !strings.HasSuffix(r.Exe, "/beam.smp") {
		t.Errorf("%s, %q", r.Exe, r.Flavour)
	}
	silent := map[dtrace.State]Found{dtrace.Absent: NotThere, dtrace.Dead: Silent}
	for _, p := range r.Probes {
		want := silent[p.State] // otherwise Fired
		switch {
		case p.Refused != "":
			want = Dangerous
		case unmade()[p.Name] != "":
			want = Unmade
		}
		if p.Found != want {
			t.Errorf("%s: %s, want %s", p.Name, p.Found, want)
		}
		for _, c := range p.Checks {
			if p.Found == Fired && !c.OK() {
				t.Errorf("%s: %s", p.Name, c)
			}
		}
	}
}

// The test does not affect another VM that runs the same executable: its probes stay disabled.
func TestOthersUntouched(t *testing.T) {
	vmtest.NeedEBPF(t)
	otp := vmtest.Private(t)
	other := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})

	done := make(chan error)
	go func() {
		_, err := Run(t.Context(), otp)
		done <- err
	}()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		case <-look.C:
			for _, probe := range []string{"message__send", "process__exit"} {
				if n := vmtest.Semaphore(t, other.PID(), probe); n != 0 {
					t.Errorf("%s of the other VM is switched on", probe)
				}
			}
		}
	}
}

// However the test ends, it leaves no processes and no files.
func TestLeavesNothing(t *testing.T) {
	vmtest.NeedEBPF(t)
	otp := vmtest.OTP(t)
	reason := errors.New("enough")
	for name, cause := range map[string]error{"at its end": nil, "when it is interrupted": reason} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if cause != nil {
				go func() {
					awaitVM(ctx, dir)
					cancel(cause)
				}()
			}
			if _, err := Run(ctx, otp); !errors.Is(err, cause) {
				t.Errorf("the error is %v, want %v", err, cause)
			}
			if pids := running(t, dir); len(pids) > 0 {
				t.Errorf("still running: %v", pids)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left over: %v (%v)", left, err)
			}
		})
	}
}

// awaitVM waits until a process runs an executable below a folder.
func awaitVM(ctx context.Context, dir string) {
	for ctx.Err() == nil {
		if found, _ := programs(dir); len(found) > 0 {
			return
		}
	}
}

func running(t *testing.T, dir string) []string {
	t.Helper()
	found, err := programs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// programs returns the processes that run an executable below a folder.
func programs(dir string) ([]string, error) {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	var found []string
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && strings.HasPrefix(exe, dir) {
			found = append(found, link)
		}
	}
	return found, err
}

// The cookie of the two VMs is secret: it is not on their command lines, and other users cannot
// read the file that contains it.
func TestCookieIsSecret(t *testing.T) {
	otp := vmtest.OTP(t)
	dir := t.TempDir()
	p, err := startPair(t.Context(), dir, otp, otp)
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	if p.peerErr != nil {
		t.Fatal(p.peerErr)
	}
	path := filepath.Join(dir, "home", ".erlang.cookie")
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(want) < 20 || info.Mode().Perm() != 0o400 {
		t.Errorf("a cookie of %d letters in a file of mode %v", len(want), info.Mode())
	}
	for name, beam := range map[string]*erlang.VM{"the VM": p.vm, "its peer": p.peer} {
		got, err := beam.Call(t.Context(), "erlang", "get_cookie", "[]")
		if err != nil || strings.Trim(got, "'") != string(want) {
			t.Errorf("%s has the cookie %s, error %v; want %s", name, got, err, want)
		}
		shown, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", beam.PID()))
		if err != nil || bytes.Contains(shown, want) {
			t.Errorf("%s shows its cookie to everybody (error %v): %q", name, err, shown)
		}
	}
}
