package bpf_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// There are as many calls as the program makes, with and without a timeout, each within the
// program's own time. A call that times out ends when its caller gives up.
func TestCallsAgainstProgram(t *testing.T) {
	const each = 100
	vm := vmtest.Start(t, oneClock())
	c, streamed := collected(t, vm, builtin(t, "call", bpf.GroupByPID))
	var calls []string
	calls = append(calls, slices.Repeat([]string{"{0,infinity}"}, each)...)
	calls = append(calls, slices.Repeat([]string{"{0,60000}"}, each)...)
	calls = append(calls, slices.Repeat([]string{"{60000,20}"}, 3)...)
	a := vmLoad(t, c, vm, "calls", fmt.Sprintf("[[%s]]", strings.Join(calls, ",")))
	instances := streamed()
	nothingLost(t, c, 0, vm)

	process := a.process()
	theirs := a.intervals(len(calls))
	got := groupsOf(c, 0)[process]
	if want := uint64(len(calls)); got.Successes != want || got.Timeouts+got.Failures > 0 {
		t.Errorf("%d calls and %d timeouts, want %d and none", got.Successes, got.Timeouts, want)
	}
	own := instancesOf(instances, 0, process)
	shorter := within(t, own, theirs)
	for i, delay := range lengths(own[2*each:]) {
		if delay > int64(time.Minute/2) {
			t.Errorf("call %d of those that time out takes %d ns", i, delay)
		}
	}
	t.Logf("%d calls, %d ns as a median; the program's take %d ns more", len(own), median(lengths(own)), median(shorter))
}

// A call of an ended process does not count, because nothing is sent. A call of a process that
// exits meanwhile has no end of its own: the caller's next call replaces it, and it is lost as
// unpaired, or it times out. If the caller removes another monitor, that counts as its end.
func TestCallsOfTheDead(t *testing.T) {
	const n = 10
	vm := vmtest.Start(t, oneClock())
	o := builtin(t, "call", bpf.GroupByPID)
	o.DMax, o.BinWidth = int64(time.Second/2), int64(time.Second/2)/int64(o.Bins)
	c, streamed := collected(t, vm, o)
	a := vmLoad(t, c, vm, "dead_calls", fmt.Sprintf("[%d]", n))
	c.ReadAll()
	instances := streamed()
	nothingLost(t, c, 0, vm)
	for _, want := range []struct {
		what  string
		ended []bpf.Status
	}{
		{"gone", nil},
		{"exits", []bpf.Status{bpf.Timeout}},
		{"exits, and another monitor is removed", []bpf.Status{bpf.Success}},
	} {
		var got []bpf.Status
		for _, i := range instancesOf(instances, 0, a.process()) {
			got = append(got, i.Status)
		}
		if !slices.Equal(got, want.ended) {
			t.Errorf("%s: ended as %v, want %v", want.what, got, want.ended)
		}
	}
	if got := c.Total(0, vm.PID()).Unpaired; got != n-1 {
		t.Errorf("%d unpaired, want all but the last of %d calls", got, n)
	}
}
