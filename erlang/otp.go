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

	"github.com/beamscope/beamscope/internal/trusted"
)

var (
	// ErrNoOTP means that no Erlang VM with probes was found.
	ErrNoOTP = errors.New("no Erlang VM with probes: run `make otp` to build one (about five minutes), " +
		"or set BEAMSCOPE_OTP to the folder of one, above bin/erl")

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

// FindOTP returns the installation in $BEAMSCOPE_OTP or else the newest one that
// erlang/otp/build.sh has built of the system's own release in the user's cache
// folder. Its errors are those of OpenOTP.
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

// BuildOTP builds a VM with probes from the distribution's source package into
// the user's cache folder, which takes minutes, and returns it; see otp/build.sh.
// Where that was done before it only returns it. Progress goes to the writer.
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

// emulator is what the file of the VM itself is called.
const emulator = "beam.smp"

// Private returns the installation with an emulator of its own, a copy in dir, an
// empty folder. Probes are attached to a file: what is attached to the copy does not
// touch other VMs, and what is attached to theirs does not touch its. Its folder is called
// as that of the original, which has the version.
func (otp OTP) Private(dir string) (OTP, error) {
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
	original, err := os.Open(otp.Emulator())
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

// shellQuote returns a word that sh takes for the text.
func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// Emulator returns the path of the file that the VM runs.
func (otp OTP) Emulator() string { return filepath.Join(otp.Bin, emulator) }

// writeProgram writes a file that can be run at once.
func writeProgram(path string, from io.Reader) error {
	// What another goroutine starts meanwhile would have the file open for writing too,
	// until it is another program: the file would be busy (golang.org/issue/22315).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Close())
}

// suiteFile marks a build of build.sh whose source is not from the system's own
// suite. Only a caller that names the release gets such a build.
const suiteFile = "suite"

// newestBuilt returns the folder of the newest VM that build.sh has finished, of
// one release or, with 0, of the system's own. A build under way has another name.
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

// versionLess compares names such as otp-25.2.3 by their numbers.
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

// cacheDir is the folder that build.sh uses too, so it follows the same rule
// and not that of os.UserCacheDir, which differs on other systems.
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
