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

// A Machine describes the parts of a guest.
type Machine struct {
	Kernel Kernel
	Image  string // of the kernel
	OTP    erlang.OTP
	Apps   []string // the ebin folders of the compiled applications
	Tools  string   // folder of the programs beamscope and guest, for the guest's processor

	// Foreign is the folder with the files for the guest's processor. They replace files of the
	// same names in the Erlang installation. The shared libraries are in its folder sysroot.
	// Foreign is empty if guest and host have the same processor.
	Foreign string
}

// guestCache is the cache folder of the guest.
const guestCache = "/cache"

// guestRoot is where the Erlang installation is in the guest.
const guestRoot = "/otp"

// applications are the applications that the guest's VM needs.
func applications() []string { return []string{"kernel", "stdlib", "runtime_tools"} }

// WriteImage writes the guest's initial file system.
func (m Machine) WriteImage(w io.Writer) error {
	i := newImage(w)
	for _, dir := range []string{"/proc", "/sys", "/dev", "/tmp", "/root"} {
		i.folder(dir)
	}
	i.copyFile("/init", filepath.Join(m.Tools, "guest"))
	i.copyFile("/bin/beamscope", filepath.Join(m.Tools, "beamscope"))
	bin := path.Join(guestRoot, filepath.Base(filepath.Dir(m.OTP.Bin)), "bin")
	programs, sysroot := m.OTP.Bin, ""
	if m.Foreign != "" {
		programs = filepath.Join(m.Foreign, filepath.Base(filepath.Dir(m.OTP.Bin)), "bin")
		sysroot = filepath.Join(m.Foreign, "sysroot")
		if lib := filepath.Join(m.Foreign, "lib"); i.exists(lib) { // an existing file is not replaced
			i.copyTree(path.Join(guestRoot, "lib"), lib)
		}
	}
	for _, program := range []string{"beam.smp", "erlexec", "erl_child_setup", "inet_gethost"} {
		from := filepath.Join(programs, program)
		i.copyFile(path.Join(bin, program), from)
		i.libraries(from, sysroot)
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
	config, err := json.Marshal(Config{Root: guestRoot, Bin: bin, Version: m.OTP.Version, Cache: guestCache, Stock: m.Kernel.Stock})
	i.keep(err)
	i.file(ConfigFile, 0o644, config)
	return i.close()
}

// exists reports whether the host has a file.
func (i *image) exists(name string) bool {
	_, err := os.Stat(name)
	if !errors.Is(err, os.ErrNotExist) {
		i.keep(err)
	}
	return err == nil
}

// copyApplication adds the files of an application of Erlang/OTP that are needed to run it.
func (i *image) copyApplication(root, app string) {
	found, err := filepath.Glob(filepath.Join(root, "lib", app+"-*"))
	if err != nil || len(found) != 1 {
		i.keep(errors.Join(err, fmt.Errorf("%d folders of %s below %s", len(found), app, root)))
		return
	}
	for _, part := range []string{"ebin", "priv"} {
		from := filepath.Join(found[0], part)
		if i.exists(from) {
			i.copyTree(path.Join(guestRoot, "lib", filepath.Base(found[0]), part), from)
		}
	}
}

// Emulator returns the name of the program that emulates the kernel's processor.
func (k Kernel) Emulator() string {
	if k.Arch == "arm64" {
		return "qemu-system-aarch64"
	}
	return "qemu-system-x86_64"
}

// arguments returns the arguments of the emulator.
//
// One thread runs all processors: if each had its own thread, a processor could run code that the
// kernel is changing, and would stop. The guest's clock counts instructions, two nanoseconds for
// each, and jumps to the next timer when the guest is idle. So the guest sees no waits due to the
// host's load or to its processors taking turns, and it need not wait for its own timers.
func (k Kernel) arguments() []string {
	common := []string{"-accel", "tcg,thread=single", "-icount", "shift=1,sleep=off", "-smp", k.processors(), "-m", "2G",
		"-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"}
	if k.Arch == "arm64" {
		return append([]string{"-machine", "virt", "-cpu", "max,pauth-impdef=on"}, common...)
	}
	return append([]string{"-machine", "q35", "-cpu", "max"}, common...)
}

// processors returns the number of processors. Linux 6.1 for x86-64 hangs while it starts the
// second one with such a clock.
func (k Kernel) processors() string {
	if k.Name == "6.1" {
		return "1"
	}
	return "2"
}

// console returns the kernel's name of the serial line.
func (k Kernel) console() string {
	if k.Arch == "arm64" {
		return "ttyAMA0"
	}
	return "ttyS0"
}

// preemptible makes the kernel preempt threads within the kernel too, if it can. This is the most
// difficult case for programs at probes, because they can then be preempted.
const preemptible = "preempt=full"

// Run starts the guest with this file system, and returns its report when it has ended. Its console
// goes to the writer. The error wraps ErrGuest if the guest does not finish.
func (m Machine) Run(ctx context.Context, initramfs string, console io.Writer) (Result, error) {
	args := append(m.Kernel.arguments(), "-kernel", m.Image, "-initrd", initramfs,
		"-append", "console="+m.Kernel.console()+" quiet panic=-1 "+preemptible)
	cmd := exec.CommandContext(ctx, m.Kernel.Emulator(), args...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, console), &stderr
	if err := cmd.Run(); err != nil {
		return Result{}, fmt.Errorf("%s: %w: %s", m.Kernel.Emulator(), errors.Join(context.Cause(ctx), err), stderr.Bytes())
	}
	return parse(out.String())
}

// parse reads the report of a guest.
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
