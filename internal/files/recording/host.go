package recording

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Host returns facts about this machine, as far as they are available.
func Host() []Fact {
	facts := []Fact{
		{"system", runtime.GOOS + "/" + runtime.GOARCH},
		{"processors", strconv.Itoa(runtime.NumCPU())},
	}
	if name, err := os.Hostname(); err == nil {
		facts = append(facts, Fact{"host", name})
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		facts = append(facts, Fact{"kernel", unix.ByteSliceToString(u.Release[:])})
	}
	return facts
}
