package outcome

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/beamscope/beamscope/internal/guard"
	"github.com/beamscope/beamscope/internal/vm"
)

// A process that runs and is no VM is one at once to blame. One that does not answer gets more
// time, and one that has ended may have been a VM.
func TestJudge(t *testing.T) {
	notVM := fmt.Errorf("pid 7: %w", vm.ErrNotVM)
	late := fmt.Errorf("pid 7: %w", context.DeadlineExceeded)
	for _, test := range []struct {
		name          string
		err           error
		refused, runs bool
		want          finding
	}{
		{"a VM", nil, false, true, isVM},
		{"a VM that has ended since", nil, false, false, hasEnded},
		{"a VM that cannot be observed", nil, true, true, isNoVM},
		{"another program", notVM, false, true, isNoVM},
		{"another program that has ended", notVM, false, false, hasEnded},
		{"a path that is too long", errors.New("file name too long"), false, true, isNoVM},
		{"late", late, false, true, isUndecided},
		{"late, and has ended", late, false, false, hasEnded},
		{"no answer", guard.ErrNoAnswer, false, true, isUndecided},
		{"the end of observing", context.Canceled, false, true, isUndecided},
	} {
		if got := judge(test.err, test.refused, test.runs); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// One finding does not make a stranger.
func TestDoubt(t *testing.T) {
	for _, test := range []struct {
		findings []finding
		want     int // the number of the one that does
	}{
		{[]finding{isNoVM, isNoVM}, 2},
		{[]finding{isNoVM, isUndecided, isNoVM}, 3},
		{[]finding{isUndecided, isUndecided, isUndecided, isUndecided, isUndecided}, 5},
		{[]finding{isUndecided, isUndecided, isUndecided, isUndecided, isNoVM}, 5},
	} {
		var d doubt
		got := 0
		for i, f := range test.findings {
			if d.add(f, int64(rescan)) {
				got = i + 1
				break
			}
		}
		if got != test.want {
			t.Errorf("%v: a stranger after %d, want %d", test.findings, got, test.want)
		}
	}
}

// Until a search may have found it, a process is no stranger.
func TestDoubtEarly(t *testing.T) {
	d := doubt{since: 7}
	for range 20 {
		if d.add(isNoVM, 7+int64(rescan)-1) {
			t.Fatal("a stranger at once")
		}
	}
	if !d.add(isNoVM, 7+int64(rescan)) {
		t.Error("no stranger after a search")
	}
}

// A process that has ended does not run, also while its parent has not taken note of it.
func TestRunning(t *testing.T) {
	if !running(os.Getpid()) {
		t.Error("this process does not run")
	}
	child := exec.Command("cat")
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if !running(child.Process.Pid) {
		t.Error("the child does not run")
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = output.Read(make([]byte, 1)) // until it ends, or nearly
	for running(child.Process.Pid) {    // the test's timeout is the limit
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if running(child.Process.Pid) {
		t.Error("the child runs after its end")
	}
}
