package vm_test

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// The form of terms agrees with the VM's own information about its table, whatever the table's
// size.
func TestTerms(t *testing.T) {
	vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
		for _, size := range []string{"1024", "1025", "262144", "100000000"} {
			beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes, Args: []string{"+P", size}})
			terms, err := find(t, beam).Terms()
			if err != nil {
				t.Fatalf("+P %s: %v", size, err)
			}
			limit, err := strconv.Atoi(vmtest.Call(t, beam, "erlang", "system_info", "[process_limit]"))
			if err != nil {
				t.Fatal(err)
			}
			want := dtrace.Terms{Form: dtrace.TermsByNumber}
			if !strings.HasPrefix(otp.Version, "25.") {
				want = dtrace.Terms{Form: dtrace.TermsByPlace, TableBits: uint8(bits.Len(uint(limit - 1))), InBits: 3}
			}
			if terms != want {
				t.Errorf("+P %s, %d processes: %+v, want %+v", size, limit, terms, want)
			}
			if err := beam.Stop(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func find(t *testing.T, beam *erlang.VM) vm.VM {
	t.Helper()
	found, _, err := vm.Find(t.Context(), vm.Target{PID: beam.PID()})
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

// The form of terms in an executable is accepted only if the VM's memory is consistent with it.
func TestImageOfEachRelease(t *testing.T) {
	vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
		image, err := find(t, vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})).Image()
		if err != nil {
			t.Fatal(err)
		}
		major, _, _ := strings.Cut(otp.Version, ".")
		if got := fmt.Sprint(image.Release); got != major {
			t.Errorf("release %s, want %s", got, major)
		}
		if image.NoTerms != nil || (image.Terms.Form == dtrace.TermsByPlace) != (image.Terms.Processes != 0 && image.Terms.Ports != 0) {
			t.Errorf("terms: %+v, %v", image.Terms, image.NoTerms)
		}
		have := make(map[string]bool)
		for _, p := range image.Probes {
			have[p.Name] = true
		}
		for _, p := range dtrace.Catalogue() {
			if p.Function != nil && !have[p.Name] {
				t.Errorf("nothing stands in for %s", p.Name)
			}
		}
	})
}
