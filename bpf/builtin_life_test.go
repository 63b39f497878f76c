package bpf_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// Every spawned process has one lifetime, and those that live longer than dMax time out. The VM
// reports a spawn when the process may already run. A process that exits before that report is a
// success too, and its exit is an orphan at first. On one scheduler this does not happen.
func TestLifetimesAgainstProgram(t *testing.T) {
	const short, long = 10000, 5
	for _, schedulers := range []string{"1:1", "2:2"} {
		t.Run(schedulers, func(t *testing.T) {
			vm := vmtest.Start(t, oneClock("+S", schedulers))
			o := builtin(t, "lifetime", bpf.GroupByMFA)
			const dMax = time.Second
			o.DMax, o.BinWidth = int64(dMax), int64(dMax)/int64(o.Bins)
			c, _ := collected(t, vm, o)
			args := fmt.Sprintf("[lists:duplicate(%d,0) ++ lists:duplicate(%d,%d)]", short, long, 2*dMax.Milliseconds())
			if n := vmLoad(t, c, vm, "lives", args).number(); n != short+long {
				t.Fatalf("the program counts %d lives", n)
			}
			c.ReadAll()
			nothingLost(t, c, 0, vm)
			got, total := groupsOf(c, 0)["vm_load:live/1"], c.Total(0, vm.PID())
			if got.Successes != short || got.Timeouts != long || got.Failures != 0 {
				t.Errorf("%d lives and %d timeouts, want %d and %d", got.Successes, got.Timeouts, short, long)
			}
			if total.Lates < long { // other processes of the VM may be late too
				t.Errorf("%d late ends, want those of %d that time out", total.Lates, long)
			}
			t.Logf("%d orphans: of %d, so many at most exit before the VM tells of their spawn", total.Orphans, short)
		})
	}
}

// There are as many file operations as the program makes, each within the program's time, which
// also includes the way to the dirty scheduler and back. Each is also a dirty function.
func TestFileOperationsAgainstProgram(t *testing.T) { fileOperations(t, vmtest.OTP(t)) }

// The same is true of a VM with stand-in functions.
func TestFileOperationsOfStockVM(t *testing.T) { onStock(t, fileOperations) }

func fileOperations(t *testing.T, otp erlang.OTP) {
	const n = 300
	vm := vmtest.StartOn(t, otp, oneClock())
	of := func(condition string) bpf.Outcome {
		o := builtin(t, "dirty-nif", bpf.GroupByMFA)
		rule := *o.Rule
		rule.Start = expr(t, "nif-entry["+condition+"]")
		o.Name, o.Rule = condition, &rule
		return o
	}
	c, streamed := collected(t, vm, builtin(t, "dirty-nif", bpf.GroupByMFA), builtin(t, "file-io", bpf.GroupByMFA),
		of(`mfa="prim_file:read_info_nif/2"`), of(`mfa!="prim_file:read_info_nif/2"`))
	a := vmLoad(t, c, vm, "reads", fmt.Sprintf("[%q,%d]", filepath.ToSlash(t.TempDir()), n))
	instances := streamed()
	if whole := groupsOf(c, 2); len(whole) != 1 || whole["prim_file:read_info_nif/2"].Successes != n {
		t.Errorf("the outcome of one function has %v", whole)
	}
	if _, ok := groupsOf(c, 3)["prim_file:read_info_nif/2"]; ok {
		t.Errorf("the outcome of all other functions has %v", groupsOf(c, 3))
	}
	process := a.process()
	theirs := a.intervals(n)
	for i, name := range []string{"dirty-nif", "file-io"} {
		nothingLost(t, c, i, vm)
		groups := groupsOf(c, i)
		if got := groups["prim_file:read_info_nif/2"]; got.Successes != n || got.Timeouts > 0 {
			t.Errorf("%s: %d operations, %d timeouts; want %d and none", name, got.Successes, got.Timeouts, n)
		}
		for key := range groups {
			if text, ok := key.(string); name == "file-io" && (!ok || !strings.HasPrefix(text, "prim_file:")) {
				t.Errorf("%v is among the operations on files", key)
			}
		}
		own := instancesOf(instances, i, process)
		shorter := within(t, own, theirs)
		t.Logf("%s: %d ns as a median, the program's take %d ns more", name, median(lengths(own)), median(shorter))
	}
}
