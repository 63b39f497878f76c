package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/export"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
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
			return observe(cmd.Context(), c, f.duration, printerFor(f.json, cmd.OutOrStdout()), os.Stderr)
		},
	}
	cmd.Flags().StringVarP(&f.config, "config", "c", "", "scope file that says what to observe")
	cmd.Flags().IntVar(&f.pid, "pid", 0, "observe this VM instead of the scope file's target")
	cmd.Flags().BoolVar(&f.headless, "headless", false, "print text frames instead of the dashboard")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object a line for each window and probe")
	cmd.Flags().DurationVar(&f.duration, "for", 0, "end after so long, such as 30s (0: when interrupted)")
	return cmd
}

func (f runFlags) check(cmd *cobra.Command) error {
	switch {
	case f.config == "":
		return usageError(cmd, errors.New("no scope file: give one with -c scope.yaml"))
	case f.pid < 0:
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

// observe runs the oscilloscope and prints its frames, until the context is
// done or, where it is not 0, the duration is over. Progress goes to log.
func observe(ctx context.Context, c config.Config, duration time.Duration, p printer, log io.Writer) (err error) {
	for _, key := range c.Later {
		fmt.Fprintf(log, "%s: kept, but this version does nothing with it\n", key)
	}
	windows := outcome.Windows{Start: monotonic.Now(), Length: c.Window}
	source, err := outcome.NewVMSource(outcome.VMConfig{Target: c.Target, Specs: c.Specs(), Windows: windows})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	s, err := scope.New(source, windows, c.Specs())
	if err != nil {
		return err
	}
	limit := uint64(0)
	if duration > 0 {
		limit = uint64((duration + c.Window - 1) / c.Window)
	}
	err = s.Run(ctx, limit, func(f scope.Frame) error {
		for _, n := range f.Notices {
			fmt.Fprintf(log, "%s %s\n", monotonic.Wall(n.Time).Format(time.TimeOnly), n.Text)
		}
		return p.Frame(f)
	})
	return errors.Join(err, p.Close())
}
