package erlang

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/beamscope/beamscope/internal/files/trusted"
)

var (
	// ErrNoOTP means that no Erlang VM with probes was found.
	ErrNoOTP = errors.New("no Erlang VM with probes: run `make otp` to build one (5 to 10 minutes), " +
		"or set BEAMSCOPE_OTP to the folder of one, above bin/erl")

	// ErrNoSystemOTP means that the system has no Erlang VM of its own.
	ErrNoSystemOTP = errors.New("no Erlang VM in the PATH: install one, on Debian and its relatives the package erlang-base")

	// ErrNoProbes means that an Erlang VM was found, but one without probes.
	ErrNoProbes = errors.New("the Erlang VM has no probes: it must be configured --with-dynamic-trace=systemtap, " +
		"and have the application runtime_tools")
)

// OTP is an installation of Erlang/OTP.
type OTP struct {
	Dir     string // the folder above bin
	Erl     string // path of erl
	Erlc    string // path of erlc
	Version string // 25.2.3, or 25 where the installation does not say more
	Root    string // its code:root_dir/0, above lib
	Bin     string // the folder of the emulator and what starts it
}

// FindOTP returns the installation in $BEAMSCOPE_OTP. Without that, it returns the newest one in
// the user's cache folder that erlang/otp/build.sh has built from the system's own release. Its
// errors are those of OpenOTP.
func FindOTP(ctx context.Context) (OTP, error) {
	if dir := os.Getenv("BEAMSCOPE_OTP"); dir != "" {
		otp, err := OpenOTP(ctx, dir)
		if err != nil {
			return OTP{}, fmt.Errorf("BEAMSCOPE_OTP=%s: %w", dir, err)
		}
		return otp, nil
	}
	dir, err := newestBuilt(0)
	if err != nil {
		return OTP{}, err
	}
	return OpenOTP(ctx, dir)
}

// FindRelease returns the newest installation of a release, such as 27, that
// erlang/otp/build.sh has built in the user's cache folder. Its errors are those
// of FindOTP.
func FindRelease(ctx context.Context, release int) (OTP, error) {
	dir, err := newestBuilt(release)
	if err != nil {
		return OTP{}, fmt.Errorf("OTP %d: %w", release, err)
	}
	return OpenOTP(ctx, dir)
}

// BuildOTP builds a VM with probes from the distribution's source package into the user's cache
// folder, which takes minutes, and returns it; see otp/build.sh. If the VM exists, it only returns
// it. Progress goes to the writer.
func BuildOTP(ctx context.Context, progress io.Writer) (OTP, error) {
	cache, err := cacheDir()
	if err != nil {
		return OTP{}, err
	}
	if err := trusted.Place(cache); err != nil {
		return OTP{}, fmt.Errorf("build an Erlang VM with probes: %w", err)
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", buildScript, "build.sh")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = progress
	out, err := cmd.Output()
	if err != nil {
		return OTP{}, fmt.Errorf("build an Erlang VM with probes: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return OpenOTP(ctx, filepath.Dir(filepath.Dir(lines[len(lines)-1])))
}

// emulator is the file name of the VM itself.
const emulator = "beam.smp"

// Private returns the installation with its own copy of the emulator in dir, an empty folder.
// Probes are attached to a file: those of the copy do not touch other VMs, and those of other VMs
// do not touch the copy. The folder has the name of the original, which contains the version.
func (otp OTP) Private(dir string) (OTP, error) { return otp.WithEmulator(dir, otp.Emulator()) }

// WithEmulator is like Private, but the emulator in dir is a copy of the file at path. It must be of
// the same version: everything else is that of otp.
func (otp OTP) WithEmulator(dir, path string) (OTP, error) {
	programs, err := os.ReadDir(otp.Bin)
	if err != nil {
		return OTP{}, fmt.Errorf("copy the emulator: %w", err)
	}
	bin := filepath.Join(dir, filepath.Base(filepath.Dir(otp.Bin)), "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return OTP{}, fmt.Errorf("copy the emulator: %w", err)
	}
	for _, p := range programs {
		if p.Name() == emulator {
			continue
		}
		if err := os.Symlink(filepath.Join(otp.Bin, p.Name()), filepath.Join(bin, p.Name())); err != nil {
			return OTP{}, fmt.Errorf("copy the emulator: %w", err)
		}
	}
	original, err := os.Open(path)
	if err != nil {
		return OTP{}, fmt.Errorf("copy the emulator: %w", err)
	}
	defer original.Close()
	if err := writeProgram(filepath.Join(bin, emulator), original); err != nil {
		return OTP{}, fmt.Errorf("copy the emulator: %w", err)
	}
	otp.Erl, otp.Bin = filepath.Join(dir, "erl"), bin
	script := fmt.Sprintf("#!/bin/sh\nEMU=beam PROGNAME=erl ROOTDIR=%s BINDIR=%s exec %s \"$@\"\n",
		shellQuote(otp.Root), shellQuote(bin), shellQuote(filepath.Join(bin, "erlexec")))
	if err := writeProgram(otp.Erl, strings.NewReader(script)); err != nil {
		return OTP{}, fmt.Errorf("copy the emulator: %w", err)
	}
	return otp, nil
}

// shellQuote quotes a text as one word for sh.
func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// Emulator returns the path of the file that the VM runs.
func (otp OTP) Emulator() string { return filepath.Join(otp.Bin, emulator) }

// writeProgram writes a program that can be run at once.
func writeProgram(path string, from io.Reader) error {
	// A process that another goroutine starts meanwhile would inherit the file, open for writing,
	// until it calls exec: the file would be busy (golang.org/issue/22315).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Close())
}

// suiteFile marks a build of build.sh whose source is not from the system's own suite. Such a build
// is used only if the caller names its release.
const suiteFile = "suite"

// newestBuilt returns the folder of the newest VM that build.sh has completed, of a release or, if
// release is 0, of the system's own. An unfinished build has another name.
func newestBuilt(release int) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	pattern := "otp-[0-9]*"
	if release != 0 {
		pattern = fmt.Sprintf("otp-%d.*", release)
	}
	erls, err := filepath.Glob(filepath.Join(cache, pattern, "bin", "erl"))
	if err != nil {
		return "", err
	}
	newest := ""
	for _, erl := range erls {
		dir := filepath.Dir(filepath.Dir(erl))
		if _, err := os.Stat(filepath.Join(dir, suiteFile)); err == nil && release == 0 {
			continue
		}
		if newest == "" || versionLess(filepath.Base(newest), filepath.Base(dir)) {
			newest = dir
		}
	}
	if newest == "" {
		return "", ErrNoOTP
	}
	return newest, nil
}

// versionLess compares names such as otp-25.2.3 by their version numbers.
func versionLess(a, b string) bool {
	for a != "" && b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if x == y {
			continue
		}
		if len(x) != len(y) {
			return len(x) < len(y)
		}
		return x < y
	}
	return a == "" && b != ""
}

// cacheDir returns the cache folder that build.sh uses. So it follows the same rule, and not that
// of os.UserCacheDir, which differs on other systems.
func cacheDir() (string, error) {
	if dir := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "beamscope"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder: %w", err)
	}
	return filepath.Join(home, ".cache", "beamscope"), nil
}
