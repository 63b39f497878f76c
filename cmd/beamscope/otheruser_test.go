package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/testing/otheruser"
)

// An unprivileged user starts a file of root that has the name of a VM, with a -root of that
// user. The self-test runs nothing from there.
func TestFireRunsNothingOfAnObservedProcess(t *testing.T) {
	dir := otheruser.Dir(t)
	evil := filepath.Join(dir, "evil", "bin")
	if err := os.MkdirAll(evil, 0o755); err != nil {
		t.Fatal(err)
	}
	proof := filepath.Join(dir, "proof")
	for _, name := range []string{"erl", "erlc"} {
		if err := os.WriteFile(filepath.Join(evil, name), []byte("#!/bin/sh\nid -u >> "+proof+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	beam := filepath.Join(dir, "beam.smp")
	otheruser.Program(t, "sh", beam)
	if err := os.Chown(beam, 0, 0); err != nil {
		t.Fatal(err)
	}
	process := otheruser.Command(beam, "-c", "echo; read forever", "beam.smp", "--", "-root", filepath.Dir(evil), "-sname", "shop")
	if _, err := process.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	otheruser.StartReady(t, process)

	for args, want := range map[string]string{
		fmt.Sprintf("doctor --fire --pid %d", process.Process.Pid): "--pid and --fire: give one of them",
		"doctor --fire --otp " + filepath.Dir(evil):                "not safe to run",
	} {
		out, err := exec.Command("beamscope", strings.Fields(args)...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("%s: %v, want a refusal\n%s", args, err, out)
		}
		if text := string(out); strings.Count(text, "\n") != 1 || !strings.Contains(text, want) {
			t.Errorf("%s: %q, want a line with %q", args, text, want)
		}
		if uid, err := os.ReadFile(proof); err == nil {
			t.Errorf("%s: ran a program of user %d as user %s", args, otheruser.User, uid)
		}
		_ = os.Remove(proof)
	}
}
