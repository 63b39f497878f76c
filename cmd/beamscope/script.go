package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/files/atomicfile"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/sources/script"
)

type scriptFlags struct {
	config string
	format string
	output string
	pid    int

	release int // release of Erlang/OTP
}

func newScriptCommand() *cobra.Command {
	var f scriptFlags
	cmd := &cobra.Command{
		Use:   "script -c scope.yaml --format d|bpftrace",
		Short: "Write a tracer script, to observe events on other machines",
		Long: `Writes a script for dtrace(1) or bpftrace that prints the starts and ends of the
outcomes of the VM in a scope file. beamscope run --from observes its output:

  bpftrace -q -p PID events.bt | beamscope run -c scope.yaml --from -

A script for bpftrace is for one VM: the scope file's target, or --pid. One for
dtrace(1) is for the VM that dtrace is started with. It uses only probes that are known to
be harmless on all releases of Erlang/OTP, or on that of --release.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := f.write(cmd)
			if err != nil {
				return err
			}
			if f.output != "" {
				return atomicfile.Write(f.output, text)
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().StringVarP(&f.config, "config", "c", "", "scope file with the outcomes")
	cmd.Flags().StringVar(&f.format, "format", "", "what the script is for: d or bpftrace")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "write to this file")
	cmd.Flags().IntVar(&f.pid, "pid", 0, "write it for this VM instead of the scope file's target")
	cmd.Flags().IntVar(&f.release, "release", 0, "write it for VMs of this release of Erlang/OTP only, such as 27 (--format d)")
	return cmd
}

// write returns the script.
func (f scriptFlags) write(cmd *cobra.Command) ([]byte, error) {
	format, err := f.check(cmd)
	if err != nil {
		return nil, err
	}
	c, err := readScope(cmd.Context(), f.config)
	if err != nil {
		return nil, err
	}
	outcomes, err := scriptOutcomes(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shownName(f.config), err)
	}
	target, err := f.target(cmd.Context(), format, c)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := dtrace.WriteScript(&text, format, outcomes, target); err != nil {
		return nil, fmt.Errorf("%s: %w", shownName(f.config), err)
	}
	return text.Bytes(), nil
}

func (f scriptFlags) check(cmd *cobra.Command) (dtrace.Format, error) {
	switch {
	case f.config == "":
		return 0, usageError(cmd, errors.New("no scope file: give one with -c scope.yaml"))
	case f.format == "":
		return 0, usageError(cmd, errors.New("--format: give d, for dtrace(1), or bpftrace"))
	case cmd.Flags().Changed("pid") && f.pid <= 0:
		return 0, usageError(cmd, fmt.Errorf("--pid %d: not a process id", f.pid))
	case cmd.Flags().Changed("output") && f.output == "":
		return 0, usageError(cmd, errors.New("--output: no file given"))
	}
	format, err := dtrace.ParseFormat(f.format)
	switch {
	case err != nil:
		return 0, usageError(cmd, fmt.Errorf("--format: %w", err))
	case cmd.Flags().Changed("release") && format != dtrace.FormatD:
		return 0, usageError(cmd, errors.New("--release: a script for bpftrace is for one VM: beamscope reads the release from its executable"))
	case cmd.Flags().Changed("release") && !dtrace.KnownRelease(f.release):
		return 0, usageError(cmd, fmt.Errorf("--release %d: %s", f.release, dtrace.Probe{}.Refusal(f.release)))
	}
	return format, nil
}

// scriptOutcomes returns the outcomes of a scope file. A script must be able to provide all of
// them, because otherwise its output could not be observed with the file.
func scriptOutcomes(c config.Config) ([]dtrace.ScriptOutcome, error) {
	var outcomes []dtrace.ScriptOutcome
	for _, o := range c.Outcomes {
		spec := outcome.Spec{Name: o.Name, Span: o.Span, Wrapper: o.Wrapper, VM: o.VM, Group: o.Group, ExitFails: o.ExitFails}
		if err := script.Check(spec); err != nil {
			return nil, fmt.Errorf("outcomes.%s: %w", o.Name, err)
		}
		rule, err := o.VM.Rule()
		if err != nil {
			return nil, fmt.Errorf("outcomes.%s: %w", o.Name, err)
		}
		outcomes = append(outcomes, dtrace.ScriptOutcome{Name: o.Name, Rule: rule})
	}
	if len(outcomes) == 0 {
		return nil, errors.New("no outcome of the VM: a script needs one with vm, or with start and end")
	}
	return outcomes, nil
}

// target returns the VM for a script. A dtrace(1) script gets its VM when it starts.
func (f scriptFlags) target(ctx context.Context, format dtrace.Format, c config.Config) (dtrace.ScriptTarget, error) {
	if format == dtrace.FormatD {
		target := dtrace.ScriptTarget{PID: f.pid, Releases: dtrace.Releases()}
		if f.release != 0 {
			target.Releases = []int{f.release}
			if form := dtrace.TermsOn(f.release); form == dtrace.TermsByNumber {
				target.Terms.Form = form
			}
		}
		return target, nil
	}
	if f.pid != 0 {
		c.Target = vm.Target{PID: f.pid}
	}
	found, _, err := vm.Find(ctx, c.Target)
	if err != nil {
		return dtrace.ScriptTarget{}, err
	}
	if len(found) > 1 {
		return dtrace.ScriptTarget{}, fmt.Errorf("%s: %d VMs run, and a script for bpftrace is for one: choose it with --pid", c.Target, len(found))
	}
	image, err := found[0].Image()
	if err != nil {
		return dtrace.ScriptTarget{}, err
	}
	target := dtrace.ScriptTarget{
		Exe: found[0].Exe.Name, PID: found[0].PID(),
		Releases: []int{image.Release}, Stepped: image.Landing > 0,
	}
	if image.NoTerms == nil {
		target.Terms, err = found[0].Terms()
	}
	return target, err
}
