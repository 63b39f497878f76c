package vmtest

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/erlang"
)

// Favour makes the threads of a VM run as soon as they can. The systems spend their time asleep.
// If they then had to wait for a processor because the machine is busy, the test would observe
// these waits. They use little processor time themselves.
func Favour(t testing.TB, vm *erlang.VM) {
	t.Helper()
	const lowest = 1 // real-time priority of the threads
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", vm.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			t.Fatal(err)
		}
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: lowest}
		if err := unix.SchedSetAttr(tid, &attr, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Logf("the VM is not favoured: %v", err)
			return
		}
	}
}
