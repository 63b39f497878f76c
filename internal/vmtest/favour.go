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

// Favour has the threads of a VM run as soon as they can. What the systems take is
// time asleep: where they have to queue for a processor after it, because much else
// is going on, that is what would be observed. They use little of it themselves.
func Favour(t testing.TB, vm *erlang.VM) {
	t.Helper()
	const lowest = 1 // priority of those that are favoured
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
