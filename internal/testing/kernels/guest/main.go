//go:build linux

// Command guest is the first process of a guest of package kernels. It observes an Erlang VM with
// beamscope, writes the results to the console, and switches the machine off.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/kernels"
)

// patience limits the total time; the guest is slow.
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

// prepare mounts the file systems of a running Linux.
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
	return errors.Join(append(errs, loopback())...)
}

// loopback brings up the loopback interface.
func loopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo)
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
	config, err := readConfig()
	if err != nil {
		fmt.Println("guest:", err)
		return
	}
	result.Stock = config.Stock
	carrier := erlang.Probes
	if config.Stock != 0 {
		carrier = erlang.Ring
	}
	beam, err := startVM(ctx, carrier)
	if err != nil {
		fmt.Println("guest:", err)
		return
	}
	defer beam.Stop()
	e := examination{vm: beam, stock: config.Stock != 0}
	subjects := kernels.Kernel{Arch: runtime.GOARCH, Stock: config.Stock}.Subjects()
	for _, check := range []struct {
		subject string
		make    func(context.Context) (found string, err error)
	}{
		{kernels.Doctor, e.doctor},
		{kernels.Spans, e.spans},
		{kernels.Ring, e.ring},
		{kernels.Rules, e.rules},
		{kernels.OSWaits, e.osWaits},
		{kernels.Top, e.top},
		{kernels.Samples, e.samples},
		{kernels.Explanations, e.explanations},
		{kernels.Capabilities, e.capabilities},
		{kernels.Killed, e.killed},
		{kernels.Refusals, e.refusals},
	} {
		if !slices.Contains(subjects, check.subject) {
			continue
		}
		found, err := check.make(ctx)
		c := kernels.Check{Subject: check.subject, Works: err == nil, Found: found}
		if err != nil {
			c.Found = err.Error()
		}
		fmt.Printf("guest: %s: %t: %s\n", c.Subject, c.Works, c.Found)
		result.Checks = append(result.Checks, c)
	}
}

// readConfig reads the description of the guest's file system.
func readConfig() (c kernels.Config, err error) {
	text, err := os.ReadFile(kernels.ConfigFile)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	return c, err
}

// startVM starts a VM with arguments of erl. There is no shell, which erl would need, so startVM
// sets erl's environment itself.
func startVM(ctx context.Context, carrier erlang.Carrier, args ...string) (*erlang.VM, error) {
	c, err := readConfig()
	if err != nil {
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
	return erlang.StartVM(ctx, otp, erlang.Options{Carrier: carrier, Args: append([]string{"-boot", c.Root + "/bin/start_clean"}, args...)})
}
