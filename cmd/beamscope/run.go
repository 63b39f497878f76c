package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/export"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/recording"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/vm"
)

type runFlags struct {
	config   string
	pid      int
	headless bool
	json     bool
	duration time.Duration
}

func newRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run -c scope.yaml",
		Short: "Observe running Erlang VMs and print a ΔQ per window",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			c, err := config.Load(f.config)
			if err != nil {
				return err
			}
			if f.pid != 0 {
				c.Target = vm.Target{PID: f.pid}
			}
			return observe(cmd.Context(), c, observation{duration: f.duration, printer: printerFor(f.json, cmd.OutOrStdout())}, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVarP(&f.config, "config", "c", "", "scope file that says what to observe")
	cmd.Flags().IntVar(&f.pid, "pid", 0, "observe this VM instead of the scope file's target")
	cmd.Flags().BoolVar(&f.headless, "headless", false, "print text frames (this version has no dashboard, so it always does)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object a line for each window and probe")
	cmd.Flags().DurationVar(&f.duration, "for", 0, "end after so long, such as 30s (0: when interrupted)")
	return cmd
}

func (f runFlags) check(cmd *cobra.Command) error {
	switch {
	case f.config == "":
		return usageError(cmd, errors.New("no scope file: give one with -c scope.yaml"))
	case f.pid < 0 || f.pid == 0 && cmd.Flags().Changed("pid"):
		return usageError(cmd, fmt.Errorf("--pid %d: not a process id", f.pid))
	case f.duration < 0:
		return usageError(cmd, fmt.Errorf("--for %v: not in the future", f.duration))
	}
	return nil
}

// A printer writes frames for somebody to read.
type printer interface {
	Frame(scope.Frame) error
	Close() error
}

func printerFor(json bool, w io.Writer) printer {
	if json {
		return export.NewJSON(w)
	}
	return export.NewText(w)
}

// An observation says for how long to observe and what becomes of the frames.
type observation struct {
	duration time.Duration // 0: until the context is done
	printer  printer
	record   string // file that is also written, "" for none
}

// observe runs the oscilloscope until the context is done or the observation is
// over. Progress goes to log.
func observe(ctx context.Context, c config.Config, o observation, log io.Writer) (err error) {
	for _, key := range c.Later {
		fmt.Fprintf(log, "%s: kept, but this version does nothing with it\n", key)
	}
	windows := outcome.Plan{From: monotonic.Now(), Window: c.Window, Specs: c.Specs()}
	vms, err := outcome.NewVMSource(outcome.VMConfig{Target: c.Target, Plan: windows})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, vms.Close()) }()
	var source outcome.Source = vms
	if o.record != "" {
		recorded, openErr := record(o.record, vms, &recording.Config{Plan: windows})
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(err, recorded.w.Close()) }()
		source = recorded
	}
	s, err := scope.New(source, windows, c.Specs())
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	if err := printFrames(ctx, s, windowsIn(o.duration, c.Window), noting(o.printer, seen), log); err != nil {
		return err
	}
	for _, spec := range c.Specs() {
		if !seen[spec.Name] {
			fmt.Fprintf(log, "no span named %q was seen for outcome %s: is that its name, and is it started in this VM?\n", spec.Span, spec.Name)
		}
	}
	return nil
}

// noting returns a printer that also notes which outcomes had any event.
func noting(p printer, seen map[string]bool) printer { return &notingPrinter{p, seen} }

type notingPrinter struct {
	printer
	seen map[string]bool
}

// Frame implements printer.
func (n *notingPrinter) Frame(f scope.Frame) error {
	for _, p := range f.Probes {
		if p.Counts.Starts+p.Counts.Ends > 0 {
			n.seen[p.Name] = true
		}
	}
	return n.printer.Frame(f)
}

// windowsIn returns how many windows it takes to cover a duration.
func windowsIn(d, window time.Duration) uint64 { return uint64((d + window - 1) / window) }

// printFrames prints the frames of a scope, so many or, for 0, until the context is done.
func printFrames(ctx context.Context, s *scope.Scope, limit uint64, p printer, log io.Writer) error {
	s.Notice = func(n outcome.Notice) {
		fmt.Fprintf(log, "%s %s\n", monotonic.Wall(n.Time).Format("15:04:05.000"), n.Text)
	}
	err := s.Run(ctx, limit, p.Frame)
	if err != nil {
		return err
	}
	return p.Close()
}
