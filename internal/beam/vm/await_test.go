package vm

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Waiting ends with the context, or at once if it is useless.
func TestAwaitEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	none := func(err error) { t.Error(err) }
	if err := Await(ctx, Target{Exe: "nobody-runs-this"}, time.Hour, nil, none); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	if err := Await(t.Context(), Target{PID: os.Getpid()}, time.Hour, nil, none); !errors.Is(err, ErrNotVM) {
		t.Errorf("error %v, want %v", err, ErrNotVM)
	}
}

// A VM without probes is reported once, and waiting continues.
func TestAwaitIgnoresVMsWithoutProbes(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	beam := filepath.Join(t.TempDir(), "no-probes")
	// Another process writes the file: a child that another test starts may have it open
	// otherwise.
	if out, err := exec.Command("cp", sleep, beam).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(beam, "infinity")
	cmd.Args[0] = "sleep" // the executable may be a program with several names
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	ctx, cancel := context.WithCancel(t.Context())
	var refused []error
	looks := 0
	err = Await(ctx, Target{Exe: "no-probes"}, time.Millisecond, nil, func(err error) {
		refused = append(refused, err)
		if looks++; looks == 1 {
			time.AfterFunc(50*time.Millisecond, cancel) // after several searches
		}
	})
	if !errors.Is(err, context.Canceled) || len(refused) != 1 || !errors.Is(refused[0], ErrNoProbes) {
		t.Errorf("error %v, refused %v", err, refused)
	}
	looks = 0
	err = Await(t.Context(), Target{Exe: "no-probes"}, time.Millisecond, func(context.Context, VM) bool {
		looks++
		return looks > 3
	}, func(error) {})
	if err != nil || looks != 4 {
		t.Errorf("a VM that counts without probes at the fourth look: error %v after %d", err, looks)
	}
}
