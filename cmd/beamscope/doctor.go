package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/fire"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/safetext"
	"github.com/beamscope/beamscope/internal/ui/doctor"
	"github.com/beamscope/beamscope/usdt"
)

type doctorFlags struct {
	pid  int
	json bool
	fire bool
	otp  string

	symbols symbolsFlags
}

func newDoctorCommand() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what beamscope can observe on this machine, and how to fix what it cannot",
		Long: "doctor checks the kernel, the privileges and the running Erlang VMs, and says how to\n" +
			"fix what does not work. It attaches for a moment to each VM with probes, or only to\n" +
			"the VM of --pid. It counts nothing, and detaches again.\n" +
			"The exit status is 0 if beamscope can observe at least one VM, even if only its spans.\n\n" +
			"With --fire it tests the probes of a VM instead: it starts a VM of its own, makes it do\n" +
			"what should fire its probes, counts which of them fire, and compares the counts with\n" +
			"the catalogue. --otp names the installation. Only root and you may have write access to\n" +
			"it, because its programs run with your privileges. The exit status is 0 if the\n" +
			"catalogue and the VM agree.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			ctx, stop := untilHangup(cmd.Context())
			defer stop()
			if f.fire {
				return interrupted(ctx, f.testProbes(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr()))
			}
			return f.examine(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().IntVar(&f.pid, "pid", 0, "look at this VM only")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object a line for each check or probe, and one for the result")
	f.symbols.register(cmd)
	cmd.Flags().BoolVar(&f.fire, "fire", false, "start a VM and test which of its probes fire")
	cmd.Flags().StringVar(&f.otp, "otp", "", "with --fire: test the VM of this installation, the folder above bin/erl")
	return cmd
}

func (f *doctorFlags) check(cmd *cobra.Command) error {
	otp := cmd.Flags().Changed("otp")
	switch {
	case cmd.Flags().Changed("pid") && f.pid <= 0:
		return usageError(cmd, fmt.Errorf("--pid %d: not a process id", f.pid))
	case otp && !f.fire:
		return usageError(cmd, errors.New("--otp: it needs --fire"))
	case otp && f.otp == "":
		return usageError(cmd, errors.New("--otp: no folder given"))
	case f.fire && f.pid != 0:
		return usageError(cmd, errors.New("--pid and --fire: give one of them; --fire starts a VM of its own, from the installation of --otp"))
	}
	return f.symbols.check(cmd)
}

// examine checks the machine and its VMs, and prints each check when it is done.
func (f doctorFlags) examine(ctx context.Context, out, log io.Writer) error {
	target := vm.Target{PID: f.pid, Symbols: f.symbols.store}
	system := doctor.Host(target)
	vms := system.VMs
	system.VMs = func(ctx context.Context) ([]doctor.VM, usdt.Skipped, error) {
		f.symbols.fetch(ctx, target, log)
		return vms(ctx)
	}
	printer := doctor.NewText(out)
	if f.json {
		printer = doctor.NewJSON(out)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var failed error
	report := doctor.Examine(ctx, system, func(c doctor.Check) {
		if failed = printer.Check(c); failed != nil {
			stop(failed)
		}
	})
	switch {
	case failed != nil:
		return failed
	case ctx.Err() != nil:
		return errInterrupted // otherwise what was not checked would count as missing
	}
	if err := printer.Result(report); err != nil {
		return err
	}
	if report.OnlyVM {
		return fmt.Errorf("the machine is ready, and no Erlang VM is running: %s", report.Do)
	}
	if !report.Works {
		return fmt.Errorf("cannot work here yet: %s", report.Do)
	}
	return nil
}

// testProbes starts a VM and tests its probes.
func (f doctorFlags) testProbes(ctx context.Context, out, log io.Writer) error {
	if err := bpf.Supported(); err != nil {
		return fmt.Errorf("%w: `beamscope doctor` says more", err)
	}
	otp, err := f.installation(ctx, log)
	if err != nil {
		return err
	}
	safetext.Fprintf(log, "testing a new VM, started from a copy of %s\n", otp.Emulator())
	report, err := fire.Run(ctx, otp)
	if err != nil {
		return err
	}
	write := fire.Text
	if f.json {
		write = fire.JSON
	}
	if err := write(out, report); err != nil {
		return err
	}
	return report.Verdict()
}

// installation returns the installation to test: one that the command line or the environment
// names, or the one that `make otp` has built.
func (f doctorFlags) installation(ctx context.Context, log io.Writer) (erlang.OTP, error) {
	if f.otp == "" {
		return findOrBuildOTP(ctx, log)
	}
	otp, err := erlang.OpenOTP(ctx, f.otp)
	if err != nil {
		return erlang.OTP{}, fmt.Errorf("--otp %s: %w", f.otp, err)
	}
	return otp, nil
}
