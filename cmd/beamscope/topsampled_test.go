package main

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// On a VM without probes top takes samples automatically, and reports that. On a VM with probes
// it takes samples on request.
func TestTopTakesSamples(t *testing.T) {
	vmtest.NeedEBPF(t)
	const busy = "register(busy, spawn(fun() -> (fun F() -> lists:seq(1, 1000), F() end)() end))"
	for name, test := range map[string]struct {
		otp     erlang.OTP
		flags   []string
		instead bool
	}{
		"without probes": {vmtest.WithoutProbes(t), nil, true},
		"with probes":    {vmtest.Private(t), []string{"--sampled", "--hz", "499"}, false},
		"stock OTP 27":   {vmtest.Stock(t, 27), []string{"--sampled", "--hz", "499"}, false},
		"unknown build":  {vmtest.UnknownBuild(t, 27), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := vmtest.StartOn(t, test.otp, erlang.Options{})
			vmtest.Eval(t, v, busy)
			args := append([]string{"top", "--json", "--for", "2s", "--pid", strconv.Itoa(v.PID())}, test.flags...)
			var errors strings.Builder
			cmd := exec.CommandContext(t.Context(), "beamscope", args...)
			cmd.Stderr = &errors
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, errors.String())
			}
			if instead := strings.Contains(errors.String(), "taking samples instead, as with --sampled"); instead != test.instead {
				t.Errorf("%s", errors.String())
			}
			named, totals := 0, 0
			for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
				var line struct {
					Type    string
					Name    string
					Sampled struct {
						N     int
						Share float64 `json:"processor_share"`
					}
				}
				if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
					t.Fatalf("%v: %s", err, lines.Text())
				}
				switch {
				case line.Type == "total":
					totals++
				case line.Type == "row" && line.Name == "busy" && line.Sampled.N > 0 && line.Sampled.Share > 0:
					named++
				}
			}
			if totals != 2 || named == 0 {
				t.Errorf("%d windows, %d rows of the process: %s", totals, named, out)
			}
		})
	}
}

// If an executable hides the function that shows run slices, top takes samples automatically. If the user
// asks for events, it shows those that there are.
func TestTopWithoutRunSlices(t *testing.T) {
	vmtest.NeedEBPF(t)
	otp, err := vmtest.Release(t, 29).Private(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	vmtest.Strip(t, otp.Emulator())
	pid := strconv.Itoa(vmtest.StartOn(t, otp, erlang.Options{}).PID())
	for _, test := range []struct{ flags, want string }{
		{"", "taking samples instead, as with --sampled"},
		{"--sampled=false", "without run: "},
		{"--sort=gc", "without run: "},
		{"--rate=1e6", "without run: "},
	} {
		args := append([]string{"top", "--for", "1s", "--pid", pid}, strings.Fields(test.flags)...)
		out, err := exec.CommandContext(t.Context(), "beamscope", args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), test.want) {
			t.Errorf("%s: error %v, no %q in\n%s", test.flags, err, test.want, out)
		}
	}
}

// If the events of one VM can be seen and those of another cannot, top shows the first and names the
// other.
func TestTopNamesVMsWithoutEvents(t *testing.T) {
	vmtest.NeedEBPF(t)
	with := vmtest.Start(t, erlang.Options{})
	without := vmtest.StartOn(t, vmtest.WithoutProbes(t), erlang.Options{})
	out, err := exec.CommandContext(t.Context(), "beamscope", "top", "--json", "--limit", "1", "--for", "1s").Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var total struct {
		VMs    []struct{ PID int }
		Unseen []struct{ PID int } `json:"unseen_vms"`
	}
	for line := range strings.Lines(string(out)) {
		if err := json.Unmarshal([]byte(line), &total); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
	}
	has := func(vms []struct{ PID int }, pid int) bool {
		return slices.ContainsFunc(vms, func(v struct{ PID int }) bool { return v.PID == pid })
	}
	if !has(total.VMs, with.PID()) || has(total.VMs, without.PID()) || !has(total.Unseen, without.PID()) || has(total.Unseen, with.PID()) {
		t.Errorf("observed: %v, unseen: %v; want %d and %d\n%s", total.VMs, total.Unseen, with.PID(), without.PID(), out)
	}
}

// On the distribution's VMs top knows the names, memory and functions of processes.
func TestTopOfStockVM(t *testing.T) {
	vmtest.NeedEBPF(t)
	for _, release := range vmtest.StockReleases() {
		t.Run(strconv.Itoa(release), func(t *testing.T) {
			v := vmtest.StartOn(t, vmtest.Stock(t, release), erlang.Options{})
			vmtest.Eval(t, v, `register(ticker, spawn(fun() -> (fun F() -> timer:sleep(10), F() end)() end))`)
			out, err := exec.CommandContext(t.Context(), "beamscope", "top", "--json", "--for", "2s", "--pid", strconv.Itoa(v.PID())).Output()
			if err != nil {
				t.Fatal(err)
			}
			known := 0
			for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
				var line struct {
					Type, Name string
					Run        struct{ N int }
					Memory     struct {
						Heap     int64 `json:"heap_bytes"`
						Function string
					}
				}
				if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
					t.Fatalf("%v: %s", err, lines.Text())
				}
				if line.Type == "row" && line.Name == "ticker" && line.Run.N > 0 && line.Memory.Heap > 0 && line.Memory.Function == "timer:sleep/1" {
					known++
				}
			}
			if known == 0 {
				t.Errorf("nothing is known of the process: %s", out)
			}
		})
	}
}

// top rejects flags that have no meaning with --sampled, and rates out of range.
func TestTopSampledFlags(t *testing.T) {
	for _, args := range [][]string{{"--sampled", "--rate", "10"}, {"--sampled", "--sort", "p99"}, {"--hz", "0"}, {"--hz", "1001"}} {
		out, err := exec.CommandContext(t.Context(), "beamscope", append([]string{"top"}, args...)...).CombinedOutput()
		exit, ok := err.(*exec.ExitError)
		if !ok || exit.ExitCode() != 2 || strings.Count(string(out), "\n") > 2 {
			t.Errorf("%q: %v %s", args, err, out)
		}
	}
}
