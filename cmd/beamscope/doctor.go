package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/doctor"
	"github.com/beamscope/beamscope/internal/fire"
	"github.com/beamscope/beamscope/internal/safetext"
	"github.com/beamscope/beamscope/internal/vm"
)

type doctorFlags struct {
	pid  int
	json bool
	fire bool
	otp  string
}

func newDoctorCommand() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what this machine and its Erlang VMs can do, and what to do about what they cannot",
		Long: "doctor checks the kernel, the privileges and the running Erlang VMs, and says what to\n" +
			"do about what does not work. It attaches for a moment to each VM with probes, or to\n" +
			"that of --pid alone: nothing is counted, and all is undone.\n" +
			"The exit status is 0 where beamscope can observe at least one VM.\n\n" +
			"With --fire it tests the probes of a VM instead: it starts one of its own, makes it do\n" +
			"what its probes tell of, counts which of them fire, and compares that with the\n" +
			"catalogue. --otp names the installation. Nobody but root and you may be able to change\n" +
			"it: what it contains is run with your privileges. The exit status is 0 where the\n" +
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
			return f.examine(ctx, cmd.OutOrStdout())
		},
	}
	cmd.Flags().IntVar(&f.pid, "pid", 0, "look at this VM only")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object a line for each check or probe, and one for the result")
	cmd.Flags().BoolVar(&f.fire, "fire", false, "start a VM and test which of its probes fire")
	cmd.Flags().StringVar(&f.otp, "otp", "", "with --fire: test the VM of this installation, the folder above bin/erl")
	return cmd
}

func (f doctorFlags) check(cmd *cobra.Command) error {
	otp := cmd.Flags().Changed("otp")
	switch {
	case cmd.Flags().Changed("pid") && f.pid <= 0:
		return usageError(cmd, fmt.Errorf("--pid %d: not a process id", f.pid))
	case otp && !f.fire:
		return usageError(cmd, errors.New("--otp: it is for --fire"))
	case otp && f.otp == "":
		return usageError(cmd, errors.New("--otp: no folder given"))
	case f.fire && f.pid != 0:
		return usageError(cmd, errors.New("--pid and --fire: what a running process names is not started: name an installation with --otp"))
	}
	return nil
}

// examine looks at the machine and its VMs.
func (f doctorFlags) examine(ctx context.Context, out io.Writer) error {
	report := doctor.Examine(ctx, doctor.Host(vm.Target{PID: f.pid}))
	if ctx.Err() != nil {
		return errInterrupted // what was not looked at would count as missing
	}
	write := doctor.Text
	if f.json {
		write = doctor.JSON
	}
	if err := write(out, report); err != nil {
		return err
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
	safetext.Fprintf(log, "testing a VM of its own, started from a copy of %s\n", otp.Emulator())
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

// installation returns the installation whose VM is to be tested: one that the command
// line or the environment names, or the one that `make otp` has built.
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
