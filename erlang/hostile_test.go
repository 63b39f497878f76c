package erlang

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/beamscope/beamscope/internal/files/trusted"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
)

// If another user can change any part of an installation, OpenOTP refuses it and runs nothing of
// it.
func TestOpenOTPOfOthers(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"a folder above":         func(t *testing.T, dir string) { otheruser.Give(t, filepath.Dir(dir)) },
		"the folder":             func(t *testing.T, dir string) { otheruser.Give(t, dir) },
		"the folder of programs": func(t *testing.T, dir string) { otheruser.Give(t, filepath.Join(dir, "bin")) },
		"erl":                    func(t *testing.T, dir string) { otheruser.Give(t, filepath.Join(dir, "bin", "erl")) },
		"erl, by its mode":       func(t *testing.T, dir string) { chmod(t, filepath.Join(dir, "bin", "erl"), 0o777) },
		"erlc, by its group":     func(t *testing.T, dir string) { chmod(t, filepath.Join(dir, "bin", "erlc"), 0o775) },
		"the emulator":           func(t *testing.T, dir string) { otheruser.Give(t, filepath.Join(dir, "erts-14.1/bin/beam.smp")) },
		"a module": func(t *testing.T, dir string) {
			otheruser.Give(t, filepath.Join(dir, "lib/kernel-9.1/ebin/kernel.beam"))
		},
		"a folder of modules": func(t *testing.T, dir string) { chmod(t, filepath.Join(dir, "lib/kernel-9.1/ebin"), 0o777) },
		"the versions":        func(t *testing.T, dir string) { otheruser.Give(t, filepath.Join(dir, "releases/start_erl.data")) },
		"a sticky folder of modules": func(t *testing.T, dir string) {
			chmod(t, filepath.Join(dir, "lib/kernel-9.1/ebin"), 0o777|os.ModeSticky)
		},
		"a link to erl": func(t *testing.T, dir string) {
			erl := filepath.Join(dir, "bin", "erl")
			if err := errors.Join(os.Rename(erl, erl+".real"), os.Symlink("erl.real", erl)); err != nil {
				t.Fatal(err)
			}
			otheruser.Give(t, erl)
		},
		"the target of the emulator's link": func(t *testing.T, dir string) {
			emulator, theirs := filepath.Join(dir, "erts-14.1/bin/beam.smp"), filepath.Join(otheruser.Dir(t), "beam.smp")
			if err := errors.Join(os.Remove(emulator), os.Symlink(theirs, emulator)); err != nil {
				t.Fatal(err)
			}
			otheruser.Program(t, "true", theirs)
		},
	} {
		t.Run(name, func(t *testing.T) {
			above := otheruser.Dir(t)
			if err := os.Chown(above, 0, 0); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(above, "otp")
			fakeOTP(t, dir, "26.1", "/bin/true")
			if _, err := OpenOTP(t.Context(), dir); !errors.Is(err, ErrNoProbes) {
				t.Fatalf("before: error %v, want %v", err, ErrNoProbes)
			}
			spoil(t, dir)
			if _, err := OpenOTP(t.Context(), dir); !errors.Is(err, trusted.ErrUntrusted) {
				t.Errorf("error %v, want %v", err, trusted.ErrUntrusted)
			}
			if exists(filepath.Join(dir, "proof")) {
				t.Error("a program of the installation has run")
			}
		})
	}
}

// The compiled applications are refused if others can change them.
func TestCompileIntoAFolderOfOthers(t *testing.T) {
	dir := otheruser.Dir(t)
	otp := OTP{Version: "25", Erlc: "/bin/false"}
	if _, err := Compile(t.Context(), otp, filepath.Join(dir, "cache")); !errors.Is(err, trusted.ErrUntrusted) {
		t.Errorf("error %v, want %v", err, trusted.ErrUntrusted)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
