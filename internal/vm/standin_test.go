package vm

import (
	"testing"

	"github.com/beamscope/beamscope/usdt"
)

// What terms and flags are like is told by the folder of the executable; where it does not
// tell, terms are taken to be like those of OTP 25, and flags are not.
func TestOfTheRelease(t *testing.T) {
	for _, test := range []struct {
		path      string
		pidBits   uint8
		stateBits bool
	}{
		{"/usr/lib/erlang/erts-13.1.5/bin/beam.smp", 15, true},
		{"/usr/lib/erlang/erts-12.3/bin/beam.smp", 15, false},
		{"/usr/lib/erlang/erts-14.0/bin/beam.smp", 28, false},
		{"/opt/vm/beam.smp", 15, false},
		{"/opt/erts-99999999999999999999.1/beam.smp", 15, false},
	} {
		v := VM{Exe: usdt.MappedFile{Name: test.path}}
		if v.PIDBits() != test.pidBits || v.StateBits() != test.stateBits {
			t.Errorf("%s: %d bits of pids, flags known: %v", test.path, v.PIDBits(), v.StateBits())
		}
	}
}
