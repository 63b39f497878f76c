package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
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
	system, err := c.System()
	if err != nil {
		return err
	}
	plan := system.Plan(monotonic.Now())
	vms, err := outcome.NewVMSource(outcome.VMConfig{Target: c.Target, Plan: plan})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, vms.Close()) }()
	var source outcome.Source = vms
	if o.record != "" {
		var end func() error
		if source, end, err = recordTo(o.record, vms, plan); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	s, err := scope.New(source, plan, plan.Specs)
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	if err := printFrames(ctx, s, windowsIn(o.duration, c.Window), noting(o.printer, seen), log); err != nil {
		return err
	}
	for _, spec := range plan.Specs {
		if !seen[spec.Name] && expected(c, system, spec.Name) {
			fmt.Fprintf(log, "no span named %q was seen for outcome %s: is that its name, and is it started in this VM?\n", cmp.Or(spec.Span, spec.Wrapper), spec.Name)
		}
	}
	return nil
}

// expected tells whether spans of a probe should be seen: a definition or an
// operator of the diagram that has no entry may be calculated only. Without a
// diagram, every probe has one.
func expected(c config.Config, s *scope.System, name string) bool {
	hasName := func(o config.Outcome) bool { return o.Name == name }
	return slices.ContainsFunc(c.Outcomes, hasName) || slices.Contains(s.Diagram.Outcomes(), name)
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

// recordTo has what a source delivers written to a file as well; end ends that.
func recordTo(path string, source outcome.Source, plan outcome.Plan) (teed outcome.Source, end func() error, err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, nil, err
	}
	note := fmt.Sprintf("recorded %s on %s/%s", time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH)
	w, err := recording.NewWriter(file, note, plan.Window, plan.Specs)
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return recording.Tee(source, w), func() error { return errors.Join(w.Close(), file.Close()) }, nil
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
