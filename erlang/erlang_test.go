package erlang

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/beamscope/beamscope/internal/files/trusted"
)

// parentEnv makes the test binary a program that starts a VM and waits.
const parentEnv = "BEAMSCOPE_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) != "" {
		parent()
		return
	}
	goleak.VerifyTestMain(m)
}

func parent() {
	ctx := context.Background()
	otp, err := FindOTP(ctx)
	if err == nil {
		var vm *VM
		if vm, err = StartVM(ctx, otp, Options{}); err == nil {
			fmt.Println(vm.PID())
			<-vm.Done()
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func startVM(t *testing.T, opts Options) *VM {
	t.Helper()
	vm, err := StartVM(t.Context(), testOTP(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { vm.Stop() })
	return vm
}

func call(t *testing.T, vm *VM, module, function, args string) string {
	t.Helper()
	term, err := vm.Call(t.Context(), module, function, args)
	if err != nil {
		t.Fatal(err)
	}
	return term
}

func TestCall(t *testing.T) {
	vm := startVM(t, Options{})
	for _, test := range []struct{ module, function, args, want string }{
		{"lists", "sum", "[[1, 2, 3]]", "6"},
		{"erlang", "list_to_binary", `["a b\nc."]`, `<<"a b\nc.">>`},
		{"erlang", "apply", "[fun() -> 7 end, []]", "7"},
		{"unicode", "characters_to_list", "[<<16#D0,16#80>>]", "[1024]"},
		{"io", "format", `["@1 ok not an answer~n"]`, "ok"},
		{"os", "getpid", "[]", strconv.Quote(strconv.Itoa(vm.PID()))},
	} {
		if got := call(t, vm, test.module, test.function, test.args); got != test.want {
			t.Errorf("%s:%s%s = %s, want %s", test.module, test.function, test.args, got, test.want)
		}
	}
}

func TestPIDIsTheEmulator(t *testing.T) {
	vm := startVM(t, Options{})
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", vm.PID()))
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Base(exe) != "beam.smp" {
		t.Errorf("pid %d is %s, want beam.smp", vm.PID(), exe)
	}
}

func TestCallError(t *testing.T) {
	vm := startVM(t, Options{})
	for _, args := range []string{"[x]", "no_list", "[", "[Unbound]"} {
		_, err := vm.Call(t.Context(), "lists", "max", args)
		var failed *CallError
		if !errors.As(err, &failed) {
			t.Errorf("lists:max %s: error %v, want a CallError", args, err)
		}
	}
	if _, err := vm.Call(t.Context(), "lists", "max", "[\n]"); err == nil {
		t.Error("a command of two lines was accepted")
	}
}

func TestCallsRunSideBySide(t *testing.T) {
	vm := startVM(t, Options{})
	// The first call waits for a message that only the second one sends.
	call(t, vm, "erlang", "register", "[meeting, spawn(fun() -> receive {wait, P} -> receive go -> P ! met end end end)]")
	var waiting sync.WaitGroup
	waiting.Go(func() {
		term, err := vm.Call(t.Context(), "erlang", "apply",
			"[fun() -> meeting ! {wait, self()}, receive met -> met end end, []]")
		if term != "met" || err != nil {
			t.Errorf("got %s, %v", term, err)
		}
	})
	call(t, vm, "erlang", "send", "[meeting, go]")
	waiting.Wait()
}

func TestCallGivesUp(t *testing.T) {
	vm := startVM(t, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	boredom := errors.New("boredom")
	cancel(boredom)
	if _, err := vm.Call(ctx, "timer", "sleep", "[infinity]"); !errors.Is(err, boredom) {
		t.Errorf("error %v, want %v", err, boredom)
	}
	if got := call(t, vm, "lists", "sum", "[[1]]"); got != "1" {
		t.Errorf("the next call got %s", got)
	}
}

func TestSet(t *testing.T) {
	vm := startVM(t, Options{Main: []string{"mm1k", "rate=0", "k=10", "loops=5", "seed=1"}})
	for key, value := range map[string]string{"rate": "1.5", "k": "20", "loops": "7"} {
		if err := vm.Set(t.Context(), key, value); err != nil {
			t.Error(err)
		}
	}
	got := call(t, vm, "lists", "sort", "[maps:to_list(maps:with([rate, k, loops, seed], mm1k:info()))]")
	if diff := cmp.Diff("[{k,20},{loops,7},{rate,1.5},{seed,1}]", got); diff != "" {
		t.Error(diff)
	}
	var failed *CallError
	if err := vm.Set(t.Context(), "k", "0"); !errors.As(err, &failed) || failed.Term != "{bad_option,k,0}" {
		t.Errorf("error %v", err)
	}
}

// Each name starts its system, and Set changes that system's options.
func TestSystems(t *testing.T) {
	for _, test := range []struct{ name, key, system, want string }{
		{"mm1k", "k", "mm1k", "[{k,7}]"},
		{"ftf", "slow_2", "workers", "[{join,first},{slow_2,7}]"},
		{"atf", "slow_2", "workers", "[{join,all},{slow_2,7}]"},
		{"pool", "delay", "server_pool", "[{delay,7}]"},
	} {
		vm := startVM(t, Options{Main: []string{test.name, "rate=0"}})
		if err := vm.Set(t.Context(), test.key, "7"); err != nil {
			t.Error(err)
		}
		got := call(t, vm, "lists", "sort", fmt.Sprintf("[maps:to_list(maps:with([join, %s], %s:info()))]", test.key, test.system))
		if got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
	var failed *CallError
	if err := startVM(t, Options{}).Set(t.Context(), "rate", "1"); !errors.As(err, &failed) || failed.Term != "idle" {
		t.Errorf("error %v, want an error that the VM is idle", err)
	}
}

func TestStop(t *testing.T) {
	vm := startVM(t, Options{})
	if err := vm.Stop(); err != nil {
		t.Error(err)
	}
	if err := vm.Stop(); err != nil {
		t.Errorf("second stop: %v", err)
	}
	if _, err := vm.Call(t.Context(), "lists", "sum", "[[]]"); !errors.Is(err, ErrStopped) {
		t.Errorf("error %v, want %v", err, ErrStopped)
	}
}

func TestVMDies(t *testing.T) {
	vm := startVM(t, Options{})
	_, err := vm.Call(t.Context(), "erlang", "apply",
		`[fun() -> io:format(standard_error, "last words~n", []), halt(3) end, []]`)
	if !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "last words") {
		t.Errorf("error %v, want %v and the last words", err, ErrStopped)
	}
	if err := vm.Stop(); !errors.Is(err, ErrStopped) {
		t.Errorf("stopping it: %v, want %v", err, ErrStopped)
	}
}

func TestStartFails(t *testing.T) {
	otp := testOTP(t)
	for system, why := range map[string]string{"mm1k": "bad_option", "ftf": "bad_option", "m1": "no_such_system"} {
		_, err := StartVM(t.Context(), otp, Options{Main: []string{system, "rate=-1"}})
		if !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: error %v, want %v and %s", system, err, ErrStopped, why)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Compile(ctx, otp, ""); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := StartVM(ctx, otp, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

func TestStdoutAndArgs(t *testing.T) {
	var out bytes.Buffer
	vm := startVM(t, Options{Stdout: &out, Args: []string{"+S", "1:1"}})
	if got := call(t, vm, "erlang", "system_info", "[schedulers]"); got != "1" {
		t.Errorf("%s schedulers, want 1", got)
	}
	call(t, vm, "io", "format", `["ready or not~nhere~n"]`)
	if err := vm.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSuffix(out.String(), "ok stopping\n"); got != "ready or not\nhere\n" {
		t.Errorf("stdout %q", got)
	}
}

func TestCompileOnce(t *testing.T) {
	otp := testOTP(t)
	dir := t.TempDir()
	first, err := Compile(t.Context(), otp, dir)
	if err != nil {
		t.Fatal(err)
	}
	app, err := os.ReadFile(filepath.Join(first[0], "beamscope.app"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "{modules, [beamscope, beamscope_facilities, beamscope_otel, beamscope_ring, beamscope_token]}"; !bytes.Contains(app, []byte(want)) {
		t.Errorf("beamscope.app has no %s:\n%s", want, app)
	}
	otp.Erlc = "/nonexistent" // not needed again
	second, err := Compile(t.Context(), otp, dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Error(diff)
	}
	otp.Version = "0"
	if _, err := Compile(t.Context(), otp, dir); err == nil {
		t.Error("another OTP got the same files")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".apps-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCompileAtTheSameTime(t *testing.T) {
	otp := testOTP(t)
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			ebins, err := Compile(t.Context(), otp, dir)
			if err != nil {
				t.Error(err)
				return
			}
			for _, ebin := range ebins {
				if apps, _ := filepath.Glob(filepath.Join(ebin, "*.app")); len(apps) != 1 {
					t.Errorf("%s is not complete", ebin)
				}
			}
		})
	}
	all.Wait()
}

func TestFindOTP(t *testing.T) {
	t.Setenv("BEAMSCOPE_OTP", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if _, err := FindOTP(t.Context()); !errors.Is(err, ErrNoOTP) {
		t.Errorf("empty cache: error %v, want %v", err, ErrNoOTP)
	}
	dir := t.TempDir()
	t.Setenv("BEAMSCOPE_OTP", dir)
	if _, err := FindOTP(t.Context()); !errors.Is(err, ErrNoOTP) || !strings.Contains(err.Error(), dir) {
		t.Errorf("nothing there: error %v, want %v and the folder", err, ErrNoOTP)
	}
	fakeOTP(t, dir, "26.1", "/bin/true")
	if _, err := FindOTP(t.Context()); !errors.Is(err, ErrNoProbes) {
		t.Errorf("no probes: error %v, want %v", err, ErrNoProbes)
	}
}

// SystemOTP is the installation of the erl in the PATH. It needs no probes.
func TestSystemOTP(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", filepath.Join(dir, "bin"))
	if _, err := SystemOTP(t.Context()); !errors.Is(err, ErrNoSystemOTP) {
		t.Errorf("no erl: error %v, want %v", err, ErrNoSystemOTP)
	}
	fakeOTP(t, dir, "26.1", "/bin/true")
	if otp, err := SystemOTP(t.Context()); err != nil || otp.Version != "26.1" || otp.Erl != filepath.Join(dir, "bin", "erl") {
		t.Errorf("%+v, %v", otp, err)
	}
	if err := os.Chmod(filepath.Join(dir, "bin"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := SystemOTP(t.Context()); !errors.Is(err, trusted.ErrUntrusted) {
		t.Errorf("others can write there: error %v, want %v", err, trusted.ErrUntrusted)
	}
}

// OpenOTP reads the properties of an installation from its files and runs nothing.
func TestOpenOTP(t *testing.T) {
	otp := testOTP(t)
	var again OTP
	for _, dir := range []string{otp.Dir, otp.Root} { // the bin folder of one contains links, that of the other does not
		var err error
		if again, err = OpenOTP(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		want := otp
		want.Dir, want.Erl, want.Erlc = dir, filepath.Join(dir, "bin", "erl"), filepath.Join(dir, "bin", "erlc")
		if diff := cmp.Diff(want, again); diff != "" {
			t.Error(diff)
		}
	}
	vm, err := StartVM(t.Context(), again, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Stop()
	asked := call(t, vm, "erlang", "apply", `[fun() -> {ok, V} = file:read_file(filename:join([code:root_dir(), "releases", `+
		`erlang:system_info(otp_release), "OTP_VERSION"])), `+
		`{code:root_dir(), os:getenv("BINDIR"), string:trim(binary_to_list(V))} end, []]`)
	asked = strings.Join(strings.Fields(asked), "")
	if want := fmt.Sprintf("{%q,%q,%q}", otp.Root, otp.Bin, otp.Version); asked != want {
		t.Errorf("the VM says %s, its files %s", asked, want)
	}
}

// If an installation is not of the system's release, only FindRelease finds it.
func TestFindRelease(t *testing.T) {
	emulator := testOTP(t).Emulator()
	t.Setenv("BEAMSCOPE_OTP", "")
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	for _, version := range []string{"25.2.3", "25.2.10", "27.3.4.1", "29.1", "29.1.1"} {
		dir := filepath.Join(cache, "beamscope", "otp-"+version)
		fakeOTP(t, dir, version, emulator)
		if !strings.HasPrefix(version, "25") {
			if err := os.WriteFile(filepath.Join(dir, suiteFile), []byte("forky\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	otp, err := FindOTP(t.Context())
	if err != nil || otp.Version != "25.2.10" {
		t.Errorf("FindOTP: %q, %v, want 25.2.10", otp.Version, err)
	}
	for release, want := range map[int]string{25: "25.2.10", 27: "27.3.4.1", 29: "29.1.1"} {
		otp, err := FindRelease(t.Context(), release)
		if err != nil || otp.Version != want {
			t.Errorf("FindRelease(%d): %q, %v, want %s", release, otp.Version, err, want)
		}
	}
	if _, err := FindRelease(t.Context(), 26); !errors.Is(err, ErrNoOTP) {
		t.Errorf("FindRelease(26): error %v, want %v", err, ErrNoOTP)
	}
	erl, err := BuildOTP(t.Context(), t.Output())
	if err != nil || erl.Version != "25.2.10" {
		t.Errorf("build.sh: %q, %v, want 25.2.10", erl.Version, err)
	}
	t.Setenv("OTP", "29")
	if erl, err = BuildOTP(t.Context(), t.Output()); err != nil || erl.Version != "29.1.1" {
		t.Errorf("build.sh with OTP=29: %q, %v, want 29.1.1", erl.Version, err)
	}
}

// fakeOTP makes an installation of a version with a link to an emulator. Its other programs leave a
// file if they run.
func fakeOTP(t *testing.T, dir, version, emulator string) {
	t.Helper()
	script := "#!/bin/sh\ntouch " + filepath.Join(dir, "proof") + "\n"
	release, _, _ := strings.Cut(version, ".")
	for name, text := range map[string]string{
		"bin/erl": script, "bin/erlc": script, "releases/start_erl.data": "14.1 " + release + "\n",
		"releases/" + release + "/OTP_VERSION": version + "\n", "lib/kernel-9.1/ebin/kernel.beam": "",
		"lib/runtime_tools-2.0/priv/lib/dyntrace.so": "", "erts-14.1/bin/erlexec": script,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(emulator, filepath.Join(dir, "erts-14.1/bin/beam.smp")); err != nil {
		t.Fatal(err)
	}
}

// A program can be run at once, even if other programs are started while it is written.
func TestProgramsRunAtOnce(t *testing.T) {
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for ctx.Err() == nil {
				_ = exec.Command("/bin/true").Run()
			}
		})
	}
	defer others.Wait()
	defer stop()
	for i := range 300 {
		path := filepath.Join(t.TempDir(), "program")
		if err := writeProgram(path, bytes.NewReader(program)); err != nil {
			t.Fatal(err)
		}
		if err := exec.Command(path).Run(); err != nil {
			t.Fatalf("program %d: %v", i, err)
		}
	}
}

func TestVersionLess(t *testing.T) {
	ordered := []string{"otp-9.1", "otp-25", "otp-25.2", "otp-25.2.3", "otp-25.2.10", "otp-26.0", "otp-100.0"}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := versionLess(a, b); got != (i < j) {
				t.Errorf("versionLess(%s, %s) = %v", a, b, got)
			}
		}
	}
}
