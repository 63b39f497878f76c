package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// startUnknown starts a VM without probes whose build is not known, and in which spans start all the
// time. It returns its pid.
func startUnknown(t *testing.T) string {
	t.Helper()
	v := vmtest.StartOn(t, vmtest.WithoutProbes(t), erlang.Options{Main: []string{"mm1k", "rate=400", "loops=0", "delay=1"}})
	return strconv.Itoa(v.PID())
}

// beamscope probes says of each event of a VM of an unknown build without probes how it is seen.
func TestProbesOfUnknownBuild(t *testing.T) {
	pid := startUnknown(t)
	text, err := exec.CommandContext(t.Context(), "beamscope", "probes", "--pid", pid).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, want := range []string{
		"beam.smp, OTP 2", "running as pid " + pid + "\n", "\nspan-start  ring\nspan-end    ring\n",
		"\nnot at all: the VM has no probes, and no functions stand in for them, as the build\n  ", " gc_minor-start,", "\nos-wait   ",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	lines, err := exec.CommandContext(t.Context(), "beamscope", "probes", "--json", "--pid", pid).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, lines)
	}
	for _, want := range []string{
		`{"event":"span-start",`, `"seen":{"by":"ring","functions":[],"why":"","differs":""}`,
		`{"probe":"gc_minor-start",`, `"seen":{"by":"","functions":[],"why":"the VM has no probes, and no functions stand in for them, as the build `,
		`{"builtin":"os-wait",`, `"seen":{"by":["kernel"]}}`,
	} {
		if !strings.Contains(string(lines), want) {
			t.Errorf("no %s in\n%s", want, lines)
		}
	}
}

// On all builds of a VM with a JIT the same functions stand in for run slices. The commands say that, and
// that spans cannot be explained.
func TestFunctionsOfAllBuilds(t *testing.T) {
	vmtest.NeedEBPF(t)
	for _, release := range dtrace.Releases() {
		t.Run(strconv.Itoa(release), func(t *testing.T) {
			t.Parallel()
			pid := strconv.Itoa(vmtest.StartOn(t, vmtest.UnknownBuild(t, release), erlang.Options{}).PID())
			for _, test := range []struct {
				command string
				fails   bool
				want    []string
			}{
				{"doctor", false, []string{"is not a known one: ", ". A few functions stand in on all builds ", "stand-in: run, run-wait; kernel: os-wait; not at all: gc, "}},
				{"probes --pid " + pid, false, []string{
					"These functions stand in on all builds:", "\nprocess-in   stand-in erts_schedule\nprocess-out  stand-in erts_schedule\n",
					"not at all: this build is not a known one, and no function stands in on all builds: ", " gc_minor-end, ",
				}},
				{"trace --for 1s --pid " + pid, true, []string{"cannot be explained"}},
			} {
				out, err := exec.CommandContext(t.Context(), "beamscope", strings.Fields(test.command)...).CombinedOutput()
				if (err != nil) != test.fails {
					t.Errorf("%s: error %v", test.command, err)
				}
				text := strings.Join(strings.Fields(string(out)), " ")
				for _, want := range test.want {
					if !strings.Contains(text+" ", strings.Join(strings.Fields(want), " ")) {
						t.Errorf("%s: no %q in\n%s", test.command, want, out)
					}
				}
			}
		})
	}
}

// A scope file on such a VM says of each outcome how it is seen, also of the waits that only the kernel
// makes known.
func TestRunOnUnknownBuildSaysHow(t *testing.T) {
	vmtest.NeedEBPF(t)
	pid := startUnknown(t)
	file := filepath.Join(t.TempDir(), "scope.yaml")
	if err := os.WriteFile(file, []byte("window: 500ms\noutcomes:\n  waits: {vm: os-wait}\n  worker_1: {dmax: 50ms, bins: 100}\n  other: {span: nobody, dmax: 50ms, bins: 100}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "beamscope", "run", "--pid", pid, "-c", file, "--json", "--for", "2s").Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := make(map[string]string)
	for text := range strings.Lines(string(out)) {
		var line struct {
			Outcome string
			Seen    *struct{ By []string }
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil || line.Seen == nil {
			t.Fatalf("%v, or it does not say how it is seen: %s", err, text)
		}
		got[line.Outcome] = strings.Join(line.Seen.By, ", ")
	}
	if diff := cmp.Diff(map[string]string{"waits": "kernel", "worker_1": "ring", "other": "ring"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
