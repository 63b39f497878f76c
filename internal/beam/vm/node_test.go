package vm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// The name in a VM's command line is the name that the VM has.
func TestNodeNameOfEachRelease(t *testing.T) {
	noEPMD := []string{"-start_epmd", "false", "-erl_epmd_port", "43731"}
	vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
		for _, test := range []struct{ args, main []string }{
			{[]string{"-sname", "named@localhost"}, nil},
			{[]string{"-name", "long@127.0.0.1", "-sname", "short@localhost"}, nil},
			{[]string{"-x", "--", "-sname", "named@localhost"}, nil},
			{nil, []string{"idle", "-extra", "-sname", "extra@localhost"}},
			{nil, []string{"idle", "--", "-extra", "--", "-sname", "extra@localhost"}},
		} {
			beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes, Args: slices.Concat(noEPMD, test.args), Main: test.main})
			want := strings.Trim(vmtest.Call(t, beam, "erlang", "node", "[]"), "'")
			if want == "nonode@nohost" {
				want = ""
			}
			if got := find(t, beam).Node; got != want {
				t.Errorf("%q %q: %q, want %q", test.args, test.main, got, want)
			}
			if err := beam.Stop(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
