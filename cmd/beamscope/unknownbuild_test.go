package main

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/vmtest"
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
	} {
		if !strings.Contains(string(lines), want) {
			t.Errorf("no %s in\n%s", want, lines)
		}
	}
}
