package dtrace

import (
	"errors"
	"strings"
	"testing"
)

func TestRefuse(t *testing.T) {
	for _, test := range []struct {
		probe   string
		release int
		why     string // "": not refused
	}{
		{"process-spawn", 25, ""},
		{"process__spawn", 27, ""},
		{"user_trace-n950", 29, ""},
		{"process-in", 29, ""},
		{"process-spawn", 26, "process-spawn is refused on OTP 26: attaching was tried on OTP 25, 27 and 29 only"},
		{"process-spawn", 0, "a release of OTP that its executable does not tell"},
		{"process-port_unblocked", 25, "does not end"},
		{"process-port_unblocked", 29, "does not end"},
		{"global-function-entry", 25, ""},
		{"global-function-entry", 27, "global-function-entry is refused on OTP 27: while it is attached to, the VM crashes"},
		{"global-function-entry", 29, "crashes"},
		{"global-function-entry", 31, "OTP 31: attaching was tried"},
		{"bif-entry", 25, "never tried"},
		{"brand-new", 25, "not in the catalogue"},
	} {
		err := Refuse(test.probe, test.release)
		switch {
		case test.why == "" && err != nil, test.why != "" && !errors.Is(err, ErrRefused):
			t.Errorf("%s, %d: %v", test.probe, test.release, err)
		case err != nil && !strings.Contains(err.Error(), test.why):
			t.Errorf("%s, %d: %v, want %q", test.probe, test.release, err, test.why)
		}
	}
}

// Each entry is harmless on some release, unless it gives a reason or is absent everywhere.
func TestHarmless(t *testing.T) {
	for _, p := range Catalogue() {
		if len(p.Harmless) == 0 && p.Hazard == "" && p.State != Absent {
			t.Errorf("%s is refused everywhere, and nothing says why", p.Name)
		}
		for _, r := range p.Harmless {
			if !KnownRelease(r) {
				t.Errorf("%s is harmless on OTP %d, of which nothing else is known", p.Name, r)
			}
		}
	}
}
