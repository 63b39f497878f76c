package bpf_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// The waits of threads for a processor agree with the count of the operating system's scheduler
// within 5 %, while two VMs share one processor.
func TestOSWaitAgainstSchedstat(t *testing.T) {
	otp := vmtest.Private(t)
	vm, rival := vmtest.StartOn(t, otp, oneClock("+S", "2:2")), vmtest.StartOn(t, otp, oneClock("+S", "2:2"))
	pin(t, vm.PID())
	pin(t, rival.PID())
	c, streamed := collected(t, vm, builtin(t, "os-wait", ""))
	load := "[#{procs=>4,for_ms=>2000,cells=>1000}]"
	done := make(chan error, 1)
	before := runDelays(t, vm.PID())
	go func() {
		_, err := rival.Call(t.Context(), "vm_load", "busy", load)
		done <- err
	}()
	vmLoad(t, c, vm, "busy", load)
	after := runDelays(t, vm.PID())
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	instances := streamed()
	nothingLost(t, c, 0, vm)

	var ours, theirs int64
	waits := make(map[uint64]int64)
	for _, i := range instances {
		waits[i.ID] += i.End - i.Start
	}
	for tid, delay := range after {
		wait := waits[tid]
		if delay == before[tid] && wait == 0 {
			continue
		}
		t.Logf("%d: %d ns, the kernel %d ns", tid, wait, delay-before[tid])
		ours += wait
		theirs += delay - before[tid]
	}
	t.Logf("%d waits, %d ns together; the kernel %d ns: %.2f %%", len(instances), ours, theirs, 100*float64(theirs-ours)/float64(theirs))
	if difference := theirs - ours; difference > theirs/20 || difference < -theirs/20 {
		t.Errorf("%d ns, and %d ns by the kernel", ours, theirs)
	}
}

// pin restricts all threads of a process to one processor.
func pin(t *testing.T, pid int) {
	t.Helper()
	var allowed, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if allowed.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	for tid := range tasks(t, pid) {
		if err := unix.SchedSetaffinity(tid, &one); err != nil {
			t.Fatal(err)
		}
	}
}

// runDelays returns the nanoseconds that each scheduler thread of a VM has waited for a processor
// according to the kernel.
func runDelays(t *testing.T, pid int) map[uint64]int64 {
	t.Helper()
	delays := make(map[uint64]int64)
	for tid, name := range tasks(t, pid) {
		if !schedulerName.MatchString(name) {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, tid))
		if err != nil {
			t.Fatal(err)
		}
		var ran, waited, turns int64
		if _, err := fmt.Sscan(string(stat), &ran, &waited, &turns); err != nil {
			t.Fatalf("schedstat of thread %d: %v: %q", tid, err, stat)
		}
		delays[uint64(tid)] = waited
	}
	return delays
}

// tasks returns the threads of a process with their names.
func tasks(t *testing.T, pid int) map[int]string {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[int]string)
	for _, file := range files {
		tid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		if name, err := os.ReadFile(file); err == nil { // threads start and end
			names[tid] = strings.TrimSpace(string(name))
		}
	}
	return names
}
