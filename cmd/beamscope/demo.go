package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/export"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/vm"
)

// demoScope is the scope file of the demonstration; docs/scope-file.md shows it.
//
//go:embed mm1k.yaml
var demoScope []byte

// demoRecording is what `beamscope demo --for 40s --record` wrote on a machine
// that has what it takes, for those that have not.
//
//go:embed mm1k.bsr
var demoRecording []byte

// withoutTerminal is how long the demonstration runs where nobody can end it.
const withoutTerminal = 30 * time.Second

type demoFlags struct {
	rate     float64
	overload float64
	duration time.Duration
	record   string
}

func newDemoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show beamscope at work on a synthetic Erlang system",
		Long: `Starts an Erlang VM with the M/M/1/K system: a Poisson source and two workers
with queues. Attaches to it and prints a frame a second. For 5 of every 20
seconds the source is too fast for the workers: watch the ΔQ of the probe.

Where eBPF cannot be used it says why, and shows a recording of the same.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			if f.duration == 0 && !term.IsTerminal(int(os.Stdout.Fd())) {
				f.duration = withoutTerminal
			}
			return demo(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().Float64Var(&f.rate, "rate", 400, "messages a second")
	cmd.Flags().Float64Var(&f.overload, "overload", 1500, "messages a second while overloaded")
	cmd.Flags().DurationVar(&f.duration, "for", 0, "end after so long (0: when interrupted, or after 30s without a terminal)")
	cmd.Flags().StringVar(&f.record, "record", "", "also write what was seen to this file")
	return cmd
}

func (f demoFlags) check(cmd *cobra.Command) error {
	switch {
	case f.rate <= 0 || f.overload <= 0:
		return usageError(cmd, errors.New("--rate and --overload are more than 0"))
	case f.duration < 0:
		return usageError(cmd, fmt.Errorf("--for %v: not in the future", f.duration))
	}
	return nil
}

// demo runs the demonstration, or shows the recording of one.
func demo(ctx context.Context, f demoFlags, out, log io.Writer) error {
	if err := bpf.Supported(); err != nil {
		fmt.Fprintf(log, "This machine cannot show it live: %v.\nHere is a recording.\n\n", err)
		return showRecording(ctx, f.duration, out, log)
	}
	otp, err := findOrBuildOTP(ctx, log)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "starting Erlang/OTP %s with the M/M/1/K system, %v messages a second\n", otp.Version, f.rate)
	beam, err := erlang.StartVM(ctx, otp, erlang.Options{
		Main: []string{"mm1k", "rate=" + formatRate(f.rate)},
		Args: []string{"+scl", "false"}, // both workers keep a core of their own
	})
	if err != nil {
		return err
	}
	defer beam.Stop()

	c, err := config.Parse("mm1k.yaml", demoScope)
	if err != nil {
		return err
	}
	c.Target = vm.Target{PID: beam.PID()}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	overloads := make(chan struct{})
	go func() {
		defer close(overloads)
		overload(ctx, beam, f, log)
	}()
	err = observe(ctx, c, observation{duration: f.duration, printer: export.NewText(out), record: f.record}, log)
	cancel()
	<-overloads
	return err
}

func findOrBuildOTP(ctx context.Context, log io.Writer) (erlang.OTP, error) {
	otp, err := erlang.FindOTP(ctx)
	if errors.Is(err, erlang.ErrNoOTP) && os.Getenv("BEAMSCOPE_OTP") == "" {
		return erlang.BuildOTP(ctx, log)
	}
	return otp, err
}

func formatRate(rate float64) string { return strconv.FormatFloat(rate, 'f', -1, 64) }

// overload changes the rate to and fro until the context is done.
func overload(ctx context.Context, beam *erlang.VM, f demoFlags, log io.Writer) {
	const calm, busy = 15 * time.Second, 5 * time.Second

	for {
		for _, phase := range []struct {
			rate  float64
			after time.Duration
			what  string
		}{{f.overload, calm, "overload"}, {f.rate, busy, "no more overload"}} {
			select {
			case <-ctx.Done():
				return
			case <-time.After(phase.after):
			}
			if err := beam.Set(ctx, "rate", formatRate(phase.rate)); err != nil {
				if ctx.Err() == nil {
					fmt.Fprintf(log, "set the rate: %v\n", err)
				}
				return
			}
			fmt.Fprintf(log, "%s %s: %v messages a second\n", time.Now().Format(time.TimeOnly), phase.what, phase.rate)
		}
	}
}

// showRecording shows the bundled recording at the pace at which it was made.
func showRecording(ctx context.Context, duration time.Duration, out, log io.Writer) error {
	source, err := newPlayback(bytes.NewReader(demoRecording))
	if err != nil {
		return err
	}
	fmt.Fprintln(log, source.Header.Note)
	window := source.plan.Window
	s, err := scope.New(source, outcome.Plan{From: monotonic.Now(), Window: window}, source.plan.Specs)
	if err != nil {
		return err
	}
	return printFrames(ctx, s, windowsIn(duration, window), export.NewText(out), log)
}
