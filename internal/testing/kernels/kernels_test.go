package kernels_test

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/kernels"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

var (
	all    = flag.Bool("all", false, "try all kernels and processors, not only what CI has time for")
	update = flag.Bool("update", false, "write what works into results.json and docs/reference/kernels.md")
)

// stable is the kernel that runs with all other tests: Debian's stable kernel, whose verifier has
// no private stacks.
var stable = kernels.Kernel{Name: "6.12", Arch: "amd64"}

// old is the oldest kernel that works: Debian's kernel before the stable one. It has no uprobe_multi.
var old = kernels.Kernel{Name: "6.1", Arch: "amd64"}

func TestStableKernel(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the emulator would need a VM for another processor")
	}
	works(t, stable, try(t, stable))
}

// Everything works on the other kernels that `make kernels` tries.
func TestOtherKernels(t *testing.T) {
	if !*all {
		t.Skip("`make kernels` tries them")
	}
	for _, k := range []kernels.Kernel{{Name: "newest", Arch: "amd64"}, {Name: "6.12", Arch: "arm64"}, {Name: "newest", Arch: "arm64"}} {
		t.Run(k.String(), func(t *testing.T) { works(t, k, try(t, k)) })
	}
}

// The VMs of Debian's own packages for arm64 have samples, and outcomes by stand-in functions.
func TestStockOnARM64(t *testing.T) {
	if !*all {
		t.Skip("`make kernels` tries them")
	}
	for _, release := range []int{25, 27} {
		k := kernels.Kernel{Name: "6.12", Arch: "arm64", Stock: release}
		t.Run(k.String(), func(t *testing.T) { works(t, k, try(t, k)) })
	}
}

// A kernel without uprobe_multi has everything too.
func TestOldKernel(t *testing.T) {
	if !*all {
		t.Skip("`make kernels` tries it")
	}
	works(t, old, try(t, old))
}

// works fails if something does not work on a kernel.
func works(t *testing.T, k kernels.Kernel, r kernels.Result) {
	t.Helper()
	for _, s := range k.Subjects() {
		c := r.Check(s)
		t.Logf("Linux %s on %s: %s: %s", r.Release, r.Arch, s, c.Found)
		if !c.Works {
			t.Errorf("%s does not work", s)
		}
	}
}

// try runs the guest on a kernel.
func try(t *testing.T, k kernels.Kernel) kernels.Result {
	t.Helper()
	vmtest.NeedProgram(t, k.Emulator())
	m := kernels.Machine{Kernel: k, OTP: vmtest.OTP(t), Tools: t.TempDir()}
	switch {
	case k.Stock != 0:
		m.OTP, m.Foreign = vmtest.Release(t, k.Stock), script(t, "stock-"+k.Arch+".sh", strconv.Itoa(k.Stock))
	case k.Arch != runtime.GOARCH:
		m.Foreign = script(t, "otp-"+k.Arch+".sh")
	}
	m.Image = script(t, "kernel.sh", k.Name, k.Arch)
	apps, err := erlang.Compile(t.Context(), m.OTP, "")
	if err != nil {
		t.Fatal(err)
	}
	m.Apps = apps
	build(t, k.Arch, "../../../cmd/beamscope", filepath.Join(m.Tools, "beamscope"))
	build(t, k.Arch, "./guest", filepath.Join(m.Tools, "guest"))
	initramfs := filepath.Join(m.Tools, "initramfs")
	f, err := os.Create(initramfs)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := m.WriteImage(f); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var console strings.Builder
	r, err := m.Run(ctx, initramfs, &console)
	if err != nil {
		t.Fatalf("%v: %v\n%s", k, err, console.String())
	}
	if testing.Verbose() {
		t.Log(console.String())
	}
	if *update {
		record(t, k, r)
	}
	return r
}

// patience limits the time of a guest. The guest's own limit is shorter, and uses the guest's
// clock, which the load of this machine slows down.
const patience = 15 * time.Minute

// script runs a script of scripts/kernels, and returns the last line that it prints.
func script(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join("../../../scripts/kernels", name), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		vmtest.Missing(t, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// build builds a program that needs no libraries.
func build(t *testing.T, arch, program, to string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", to, program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
