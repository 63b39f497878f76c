package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// TestMain makes this test program run as beamscope, or as another test program, if it is started
// under that name. These names are in the PATH of tests and scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"beamscope": main, "panicking": panicking, "stuck": stuck, "unread": unread})
}

// A wrong command line or scope file gives one clear line and the right status. $SELF_PID is a
// process that is not a VM. mm1k.bsr is the bundled recording, explained.bsr one with explained
// spans, and kept a folder with a snapshot.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: scriptCommands(),
		Setup: func(env *testscript.Env) error {
			env.Setenv("SELF_PID", strconv.Itoa(os.Getpid()))
			copyInto(t, env.WorkDir, "mm1k.bsr")
			copyInto(t, env.WorkDir, "testdata/explained.bsr")
			copyInto(t, filepath.Join(env.WorkDir, "kept"), "testdata/snapshots/20261121T044120*.bsr")
			return nil
		},
	})
}

// The command line works on live VMs. $VM_PID runs the M/M/1/K system. $BARE_PID has the name of a VM
// and is none. $OTP_DIR is an installation.
func TestLiveScripts(t *testing.T) {
	vmtest.NeedEBPF(t)
	otp := vmtest.OTP(t)
	vm := vmtest.Start(t, erlang.Options{Main: []string{"mm1k", "rate=400", "k=10", "loops=10000"}})
	bare := startBare(t)
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/live",
		Cmds: scriptCommands(),
		Setup: func(env *testscript.Env) error {
			env.Setenv("VM_PID", strconv.Itoa(vm.PID()))
			env.Setenv("BARE_PID", strconv.Itoa(bare))
			env.Setenv("OTP_DIR", otp.Dir)
			return nil
		},
	})
}

// startBare starts a process that looks like a VM without probes.
func startBare(t *testing.T) int {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	// Another process writes the file: children of other tests could have it open otherwise, and
	// then it could not be executed.
	beam := filepath.Join(t.TempDir(), "beam.smp")
	if out, err := exec.Command("cp", sleep, beam).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(beam, "infinity")
	cmd.Args[0] = "sleep" // the executable may be a program with several names
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"fails":  fails,
		"frames": frames,
		"status": status,
	}
}

// fails runs a command that must fail: fails STATUS PATTERN COMMAND... It must print exactly one
// line, on stderr, that matches the pattern.
func fails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: fails STATUS PATTERN COMMAND...")
	}
	err := ts.Exec(args[2], args[3:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || strconv.Itoa(exit.ExitCode()) != args[0] {
		ts.Fatalf("%v, want status %s", err, args[0])
	}
	stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	if stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") {
		ts.Fatalf("stdout %q, stderr %q: want one line on stderr", stdout, stderr)
	}
	pattern, err := regexp.Compile("(?m)" + args[1]) // the same as in stdout and stderr
	ts.Check(err)
	if !pattern.MatchString(stderr) {
		ts.Fatalf("stderr %q, want %s", stderr, args[1])
	}
}

// A frameLine is a line of run --json as documented. Pointers may be null.
type frameLine struct {
	Time   time.Time `json:"time"`
	Window struct {
		From int64 `json:"from_ns"`
		To   int64 `json:"to_ns"`
	} `json:"window"`
	Probe string `json:"outcome"`
	VM    *struct {
		PID  int    `json:"pid"`
		Node string `json:"node"`
	} `json:"vm"`
	Seen *struct {
		By  []string `json:"by"`
		Why string   `json:"why"`
	} `json:"seen"`
	Observed struct {
		N         uint64              `json:"n"`
		OK        uint64              `json:"ok"`
		Failed    uint64              `json:"failed"`
		Timeout   uint64              `json:"timeout"`
		Success   *float64            `json:"success"`
		Quantiles map[string]*float64 `json:"quantiles_s"`
	} `json:"observed"`
	Mean       map[string]any `json:"mean"`
	Calculated *struct {
		N         uint64              `json:"n"`
		Success   map[string]float64  `json:"success"`
		Quantiles map[string]*float64 `json:"quantiles_s"`
		Bounds    map[string]interval `json:"quantile_bounds_s"`
		QTA       *figures.QTA        `json:"qta"`
		Mean      map[string]any      `json:"mean"`

		Insufficient string `json:"insufficient"`
	} `json:"calculated"`
	Divergence   map[string]any    `json:"divergence"`
	Starts       uint64            `json:"starts"`
	Ends         uint64            `json:"ends"`
	Lost         uint64            `json:"lost"`
	Losses       map[string]uint64 `json:"losses"`
	Orphan       uint64            `json:"orphan"`
	Late         uint64            `json:"late"`
	Unobserved   bool              `json:"unobserved"`
	Alias        string            `json:"alias"`
	Silent       *float64          `json:"silent_s"`
	Insufficient string            `json:"insufficient"`
	QTA          *figures.QTA      `json:"qta"`
	Triggers     []string          `json:"triggers"`
	Causes       []string          `json:"causes"`
	Active       []string          `json:"active"`
	Notices      []string          `json:"notices"`
	Rejected     map[string]any    `json:"rejected"`
}

// interval bounds a quantile in seconds.
type interval struct {
	Lo *float64 `json:"lo"`
	Hi *float64 `json:"hi"`
}

// frames checks the stdout of run --json: frames COUNT WINDOW PROBE... There must be COUNT
// windows of that length without gaps. Each must have a line for each of the probes, in this
// order. The numbers of each line must be consistent.
func frames(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: frames COUNT WINDOW PROBE...")
	}
	count, err := strconv.Atoi(args[0])
	ts.Check(err)
	window, err := time.ParseDuration(args[1])
	ts.Check(err)
	probes := args[2:]
	lines := strictLines(ts, ts.ReadFile("stdout"))
	for len(lines) > len(probes) && slices.ContainsFunc(lines[:len(probes)], func(l frameLine) bool { return l.Unobserved }) {
		lines = lines[len(probes):] // it was still attaching
	}
	if len(lines) != count*len(probes) {
		ts.Fatalf("%d lines, want %d windows of %d probes", len(lines), count, len(probes))
	}
	seen := uint64(0)
	for i, l := range lines {
		if want := probes[i%len(probes)]; l.Probe != want {
			ts.Fatalf("line %d is of %s, want %s", i+1, l.Probe, want)
		}
		from := lines[0].Window.From + int64(i/len(probes))*int64(window)
		if l.Window.From != from || l.Window.To != from+int64(window) {
			ts.Fatalf("line %d: window %+v, want it from %d on", i+1, l.Window, from)
		}
		ts.Check(l.check())
		seen += l.Observed.N
	}
	if seen == 0 {
		ts.Fatalf("no instance in any line")
	}
}

func strictLines(ts *testscript.TestScript, text string) []frameLine {
	var lines []frameLine
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		var l frameLine
		d := json.NewDecoder(strings.NewReader(s.Text()))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			ts.Fatalf("%s: %v", s.Text(), err)
		}
		for _, key := range []string{"time", "window", "outcome", "vm", "observed", "calculated", "starts", "ends", "lost", "orphan", "late", "qta", "triggers", "divergence", "active"} {
			if !strings.Contains(s.Text(), `"`+key+`":`) {
				ts.Fatalf("%s: no %s", s.Text(), key)
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// check returns an error if a line is inconsistent.
func (l frameLine) check() error {
	o := l.Observed
	switch {
	case l.VM == nil || l.VM.PID == 0:
		return errors.New("no VM")
	case l.Seen != nil && len(l.Seen.By) == 0:
		return fmt.Errorf("its events are not seen: %s", l.Seen.Why)
	case o.OK+o.Failed+o.Timeout != o.N:
		return fmt.Errorf("%+v does not add up", o)
	case (o.Success == nil) != (o.N == 0):
		return fmt.Errorf("%+v: success is null without instances, and only then", o)
	case o.Success != nil && *o.Success != float64(o.OK)/float64(o.N):
		return fmt.Errorf("%+v: success is %v", o, *o.Success)
	case l.Lost != 0:
		return fmt.Errorf("%d lost", l.Lost)
	case l.Triggers == nil:
		return errors.New("triggers is null")
	case time.Since(l.Time).Abs() > time.Hour:
		return fmt.Errorf("the time is %v", l.Time)
	}
	last := 0.0
	for _, q := range []string{"0.25", "0.5", "0.75", "0.99"} {
		v, ok := o.Quantiles[q]
		if !ok || len(o.Quantiles) != 4 {
			return fmt.Errorf("quantiles %v", o.Quantiles)
		}
		if v != nil && *v < last {
			return fmt.Errorf("the quantile %s is %v, and the one before %v", q, *v, last)
		}
		if v != nil {
			last = *v
		}
	}
	return nil
}

// After kill -9 of the collector, the VM's semaphores return to 0, and start_span is cheap again.
func TestKilledCollector(t *testing.T) {
	vmtest.NeedEBPF(t)
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	scope := filepath.Join(t.TempDir(), "scope.yaml")
	probes := []string{"user_trace__n308", "process__exit"} // 308 is the label of the name a
	if err := os.WriteFile(scope, []byte("outcomes: {a: {dmax: 1s, exit: failure}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("beamscope", "run", "-c", scope, "--pid", strconv.Itoa(vm.PID()), "--json")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil { // the first frame shows that it observes
		t.Fatal(err)
	}
	for _, probe := range probes {
		if got := vmtest.Semaphore(t, vm.PID(), probe); got != 1 {
			t.Errorf("observed: the semaphore of %s is %d, want 1", probe, got)
		}
	}
	if got := startSpan(t, vm); strings.Contains(got, "ignore") {
		t.Errorf("observed: start_span gives %s", got)
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, probe := range probes {
		await(t, "the semaphore of "+probe+" to return to 0", func() bool {
			return vmtest.Semaphore(t, vm.PID(), probe) == 0
		})
	}
	if got := startSpan(t, vm); got != "{undefined,ignore}" {
		t.Errorf("after the kill: start_span gives %s", got)
	}
}

func startSpan(t *testing.T, vm *erlang.VM) string {
	t.Helper()
	return vmtest.Call(t, vm, "beamscope", "start_span", "[<<\"a\">>]")
}

// await polls until done returns true.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	const patience, period = 20 * time.Second, 10 * time.Millisecond
	for begin := time.Now(); !done(); time.Sleep(period) {
		if time.Since(begin) > patience {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}
