package kernels

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/beamscope/beamscope/erlang"
)

// A Machine is what a guest is made of.
type Machine struct {
	Image string // of the kernel
	OTP   erlang.OTP
	Apps  []string // the ebin folders of the compiled applications
	Tools string   // folder of the programs beamscope and guest, which need no libraries
}

// guestCache is the cache folder of the guest.
const guestCache = "/cache"

// guestRoot is where the Erlang installation is in the guest.
const guestRoot = "/otp"

// applications are those that the guest's VM needs.
func applications() []string { return []string{"kernel", "stdlib", "runtime_tools"} }

// WriteImage writes the file system for the guest to start with.
func (m Machine) WriteImage(w io.Writer) error {
	i := newImage(w)
	for _, dir := range []string{"/proc", "/sys", "/dev", "/tmp", "/root"} {
		i.folder(dir)
	}
	i.copyFile("/init", filepath.Join(m.Tools, "guest"))
	i.copyFile("/bin/beamscope", filepath.Join(m.Tools, "beamscope"))
	bin := path.Join(guestRoot, filepath.Base(filepath.Dir(m.OTP.Bin)), "bin")
	for _, program := range []string{"beam.smp", "erlexec", "erl_child_setup", "inet_gethost"} {
		from := filepath.Join(m.OTP.Bin, program)
		i.copyFile(path.Join(bin, program), from)
		i.libraries(from)
	}
	boots, err := filepath.Glob(filepath.Join(m.OTP.Root, "bin", "*.boot"))
	i.keep(err)
	for _, boot := range boots {
		i.copyFile(path.Join(guestRoot, "bin", filepath.Base(boot)), boot)
	}
	for _, app := range applications() {
		i.copyApplication(m.OTP.Root, app)
	}
	for _, ebin := range m.Apps {
		apps := filepath.Dir(filepath.Dir(ebin))
		rel, err := filepath.Rel(filepath.Dir(apps), ebin)
		i.keep(err)
		i.copyTree(path.Join(guestCache, "beamscope", filepath.ToSlash(rel)), ebin)
	}
	config, err := json.Marshal(Config{Root: guestRoot, Bin: bin, Version: m.OTP.Version, Cache: guestCache})
	i.keep(err)
	i.file(ConfigFile, 0o644, config)
	return i.close()
}

// copyApplication adds what runs of an application of Erlang/OTP.
func (i *image) copyApplication(root, app string) {
	found, err := filepath.Glob(filepath.Join(root, "lib", app+"-*"))
	if err != nil || len(found) != 1 {
		i.keep(errors.Join(err, fmt.Errorf("%d folders of %s below %s", len(found), app, root)))
		return
	}
	for _, part := range []string{"ebin", "priv"} {
		from := filepath.Join(found[0], part)
		if _, err := os.Stat(from); err == nil {
			i.copyTree(path.Join(guestRoot, "lib", filepath.Base(found[0]), part), from)
		}
	}
}

// Emulator is the name of the program that emulates the guest's machine.
const Emulator = "qemu-system-x86_64"

// arguments are those of the emulator. One thread runs all processors: where each has its
// own, a processor may run code that the kernel is just changing, and stops.
func arguments() []string {
	return []string{"-machine", "q35", "-cpu", "max", "-accel", "tcg,thread=single", "-smp", "2", "-m", "2G",
		"-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"}
}

// Run starts the guest with this file system, and returns what it tells once it has ended.
// Its console goes to the writer. The error wraps ErrGuest where it does not come to its end.
func (m Machine) Run(ctx context.Context, initramfs string, console io.Writer) (Result, error) {
	args := append(arguments(), "-kernel", m.Image, "-initrd", initramfs,
		"-append", "console=ttyS0 quiet panic=-1")
	cmd := exec.CommandContext(ctx, Emulator, args...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, console), &stderr
	if err := cmd.Run(); err != nil {
		return Result{}, fmt.Errorf("%s: %w: %s", Emulator, errors.Join(context.Cause(ctx), err), stderr.Bytes())
	}
	return parse(out.String())
}

// parse reads what a guest has told.
func parse(console string) (Result, error) {
	var r Result
	for line := range strings.Lines(console) {
		_, text, marked := strings.Cut(strings.TrimSpace(line), Mark)
		if !marked {
			continue
		}
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return Result{}, fmt.Errorf("%w: %q: %w", ErrGuest, text, err)
		}
		return r, nil
	}
	return Result{}, ErrGuest
}
