package vmsource

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/guard"
)

// A running process that is not a VM counts against it at once. A process that does not answer
// gets more time. A process that has ended may have been a VM.
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

// A single finding does not make a process a stranger.
func TestDoubt(t *testing.T) {
	for _, test := range []struct {
		findings []finding
		want     int // the number of findings that does
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

// A process is not a stranger until a search had the time to find it.
func TestDoubtEarly(t *testing.T) {
	d := doubt{since: 7}
	for range 20 {
		if d.add(isNoVM, 7+int64(rescan)-1) {
			t.Fatal("a stranger too early")
		}
	}
	if !d.add(isNoVM, 7+int64(rescan)) {
		t.Error("no stranger after the time of a search")
	}
}
