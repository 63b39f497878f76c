//go:build linux

// Command guest is the first process of a guest of package kernels: it observes an Erlang
// VM with beamscope, tells on the console what came of it, and switches the machine off.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/kernels"
)

// patience is how long all takes at most; the guest is slow.
const patience = 8 * time.Minute

func main() {
	result := kernels.Result{Arch: runtime.GOARCH}
	if err := prepare(); err != nil {
		fmt.Println("guest:", err)
	} else {
		result.Release = release()
		examine(&result)
	}
	line, err := json.Marshal(result)
	if err != nil {
		line = []byte(err.Error())
	}
	fmt.Printf("\n%s%s\n", kernels.Mark, line)
	unix.Sync()
	fmt.Println("guest: switching off:", unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
	select {}
}

// prepare mounts what a running Linux has.
func prepare() error {
	var errs []error
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"},
		{"tracefs", "/sys/kernel/tracing"}, {"securityfs", "/sys/kernel/security"}, {"bpf", "/sys/fs/bpf"},
	} {
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			errs = append(errs, fmt.Errorf("mount %s: %w", m.at, err))
		}
	}
	return errors.Join(errs...)
}

func release() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

// examine makes all checks.
func examine(result *kernels.Result) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	beam, err := startVM(ctx)
	if err != nil {
		fmt.Println("guest:", err)
		return
	}
	defer beam.Stop()
	e := examination{vm: beam}
	for _, check := range []struct {
		subject string
		make    func(context.Context) (found string, err error)
	}{
		{kernels.Doctor, e.doctor},
		{kernels.Spans, e.spans},
		{kernels.Rules, e.rules},
		{kernels.OSWaits, e.osWaits},
		{kernels.Top, e.top},
		{kernels.Explanations, e.explanations},
		{kernels.Capabilities, e.capabilities},
		{kernels.Killed, e.killed},
		{kernels.Refusals, e.refusals},
	} {
		found, err := check.make(ctx)
		c := kernels.Check{Subject: check.subject, Works: err == nil, Found: found}
		if err != nil {
			c.Found = err.Error()
		}
		fmt.Printf("guest: %s: %t: %s\n", c.Subject, c.Works, c.Found)
		result.Checks = append(result.Checks, c)
	}
}

// startVM starts a VM with arguments of erl. There is no shell, which erl would need: its
// environment is made here.
func startVM(ctx context.Context, args ...string) (*erlang.VM, error) {
	text, err := os.ReadFile(kernels.ConfigFile)
	if err != nil {
		return nil, err
	}
	var c kernels.Config
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"HOME": "/root", "PATH": "/bin", "XDG_CACHE_HOME": c.Cache,
		"ROOTDIR": c.Root, "BINDIR": c.Bin, "EMU": "beam", "PROGNAME": "erl",
	} {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	otp := erlang.OTP{Dir: c.Root, Erl: c.Bin + "/erlexec", Version: c.Version, Root: c.Root, Bin: c.Bin}
	return erlang.StartVM(ctx, otp, erlang.Options{Args: append([]string{"-boot", c.Root + "/bin/start_clean"}, args...)})
}
