package processor

import (
	"os"
	"runtime"
	"testing"
	"time"
)

// The time of a process includes that of its threads, and grows with it.
func TestTimes(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	process, err := Process(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	thread := Thread()
	for Thread() < thread+10*time.Millisecond {
	}
	used := Thread() - thread
	after, err := Process(os.Getpid())
	if err != nil || after-process < used {
		t.Errorf("the process used %v, and one of its threads %v (%v)", after-process, used, err)
	}
}

// No process has the pid PID_MAX_LIMIT.
func TestProcessIsGone(t *testing.T) {
	if used, err := Process(1 << 22); err == nil {
		t.Errorf("%v", used)
	}
}
