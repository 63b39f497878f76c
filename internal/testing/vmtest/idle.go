package vmtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/beamscope/beamscope/erlang"
)

// AwaitIdle waits until all threads of a VM sleep.
func AwaitIdle(t testing.TB, vm *erlang.VM) {
	t.Helper()
	for !idle(t, vm) {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
}

func idle(t testing.TB, vm *erlang.VM) bool {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", vm.PID()))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("the VM has %d threads: %v", len(tasks), err)
	}
	for _, task := range tasks {
		stat, err := os.ReadFile(task)
		if err != nil {
			return false // it has ended, and another one may have begun
		}
		// The state follows the name, which is in parentheses.
		if _, after, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(" ")); !ok || after[0] != 'S' {
			return false
		}
	}
	return true
}
