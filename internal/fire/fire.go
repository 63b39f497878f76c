// Package fire makes an Erlang VM do what its probes tell of, counts which of them
// really fire, and compares that with the catalogue.
//
// It does so to a VM of its own, started for the purpose from a copy of the
// executable in question: other VMs, those too that run the same executable, notice
// nothing.
package fire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/fire/hits"
	"github.com/beamscope/beamscope/internal/vm"
)

// patience is how long the whole test may take.
const patience = 3 * time.Minute

// Run tests the VM of an installation. It takes some seconds and, whatever the VM
// does, not much more than three minutes; when it returns, what it has started is gone.
// The error says why there is no report. That a scenario failed is in the report.
func Run(ctx context.Context, otp erlang.OTP) (report Report, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the VM under test took more than %v", patience))
	defer cancel()
	dir, err := os.MkdirTemp("", "beamscope-fire-")
	if err != nil {
		return Report{}, fmt.Errorf("test a copy of the VM: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	private, err := otp.Private(dir)
	if err != nil {
		return Report{}, err
	}
	found, err := locate(private.Emulator())
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", otp.Emulator(), err)
	}
	counter, err := hits.New(private.Emulator(), found.list)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, counter.Close()) }()
	pair, err := startPair(ctx, otp, private)
	if err != nil {
		return Report{}, err
	}
	defer pair.stop()
	flavour := vm.FlavourOf(private.Emulator())
	t := trial{counter: counter, places: found, flavour: flavour, pair: pair}
	results, totals, err := t.run(ctx)
	if err != nil {
		return Report{}, err
	}
	return judge(evidence{
		exe: otp.Emulator(), version: otp.Version, flavour: flavour,
		present: found.present, results: results, totals: totals,
	}, dtrace.Catalogue()), nil
}

// Installation returns the installation that a running VM was started from. The VM
// itself is only looked at.
func Installation(ctx context.Context, v vm.VM) (erlang.OTP, error) {
	otp, err := installation(ctx, v)
	if err != nil {
		return erlang.OTP{}, fmt.Errorf("pid %d cannot be started afresh: %w: name an installation with --otp", v.PID(), err)
	}
	return otp, nil
}

func installation(ctx context.Context, v vm.VM) (erlang.OTP, error) {
	args, err := v.Process.Cmdline()
	if err != nil {
		return erlang.OTP{}, err
	}
	at := slices.Index(args, "-root") // erlexec puts it there
	if at < 0 || at+1 == len(args) {
		return erlang.OTP{}, errors.New("its command line has no -root")
	}
	running, err := os.Stat(v.Exe.Path)
	if err != nil {
		return erlang.OTP{}, err
	}
	if err := trusted(running); err != nil {
		return erlang.OTP{}, err
	}
	otp, err := erlang.OpenOTP(ctx, args[at+1])
	if err != nil {
		return erlang.OTP{}, err
	}
	installed, err := os.Stat(otp.Emulator())
	if err != nil {
		return erlang.OTP{}, err
	}
	if !os.SameFile(running, installed) {
		return erlang.OTP{}, fmt.Errorf("%s is not what it runs, which is in a container or has been replaced", otp.Emulator())
	}
	return otp, nil
}

// trusted refuses files of other users than root and this one: their process says
// what we would run with our privileges.
func trusted(file os.FileInfo) error {
	st, ok := file.Sys().(*syscall.Stat_t)
	if ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("its executable belongs to user %d, whose programs are not run as user %d", st.Uid, os.Geteuid())
	}
	return nil
}
