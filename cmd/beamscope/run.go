package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/recording"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/session"
	"github.com/beamscope/beamscope/internal/vm"
)

// observeFlags are those of the commands that observe a running VM.
type observeFlags struct {
	config   string
	pid      int
	json     bool
	duration time.Duration
}

func (f *observeFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.config, "config", "c", "", "scope file that says what to observe")
	cmd.Flags().IntVar(&f.pid, "pid", 0, "observe this VM instead of the scope file's target")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object a line for each window and probe")
	cmd.Flags().DurationVar(&f.duration, "for", 0, "end after so long, such as 30s (0: when interrupted)")
}

func (f observeFlags) check(cmd *cobra.Command) error {
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

// load reads the scope file.
func (f observeFlags) load() (config.Config, error) {
	c, err := config.Load(f.config)
	if err == nil && f.pid != 0 {
		c.Target = vm.Target{PID: f.pid}
	}
	return c, err
}

func newRunCommand() *cobra.Command {
	var f observeFlags
	var headless bool
	cmd := &cobra.Command{
		Use:   "run -c scope.yaml",
		Short: "Observe running Erlang VMs and print a ΔQ per window",
		Long: `Observes running Erlang VMs and prints a frame for each window: what was observed
of each probe, what the diagram calculates from its outcomes, and what fired.

On SIGHUP the scope file is read again, and what it says holds from the next
window on.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			c, err := f.load()
			if err != nil {
				return err
			}
			return observe(cmd.Context(), c, observation{
				duration: f.duration,
				printer:  printerFor(f.json, cmd.OutOrStdout()),
				reload:   f.load,
			}, cmd.ErrOrStderr())
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&headless, "headless", false, "print text frames (this version has no dashboard, so it always does)")
	return cmd
}

// An observation says for how long to observe and what becomes of the frames.
type observation struct {
	duration time.Duration // 0: until the context is done
	printer  printer
	record   func() (*recording.Writer, error) // makes a recording that gets everything, nil for none
	reload   func() (config.Config, error)     // reads the configuration again, nil where it is fixed
}

// observe runs the oscilloscope until the context is done or the observation is
// over. Progress goes to log.
func observe(ctx context.Context, c config.Config, o observation, log io.Writer) (err error) {
	hangups := make(chan os.Signal, 1)
	if o.reload != nil {
		signal.Notify(hangups, syscall.SIGHUP) // while it attaches already
		defer signal.Stop(hangups)
	}
	out := newFramePrinter(o.printer, log)
	s, err := session.Open(c, session.Options{
		Observers: []scope.Observer{out},
		Record:    o.record,
		Note:      recordedNow(),
		Notify:    out.notify,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if o.reload != nil {
		defer reloading(ctx, s, hangups, o.reload, log)()
	}
	if err := s.Run(ctx, o.duration); err != nil {
		return err
	}
	if err := o.printer.Close(); err != nil {
		return err
	}
	return out.sayUnseen()
}

// sayUnseen says of which outcomes nothing was seen.
func (f *framePrinter) sayUnseen() error {
	if f.system == nil {
		return nil
	}
	c, err := config.Parse("scope.yaml", f.system.Source) // it may have been reloaded
	if err != nil {
		return err
	}
	for _, p := range f.system.Probes {
		if !f.seen[p.Spec.Name] && expected(c, f.system, p.Spec.Name) {
			fmt.Fprintln(f.log, unseen(p.Spec))
		}
	}
	return nil
}

// unseen says that nothing was seen of an outcome.
func unseen(s outcome.Spec) string {
	if s.Wrapper != "" {
		return fmt.Sprintf("nothing named %q came in over TCP for outcome %s: is a wrapper connected, and is that the name?", s.Wrapper, s.Name)
	}
	return fmt.Sprintf("no span named %q was seen for outcome %s: is that its name, and is it started in this VM?", s.Span, s.Name)
}

// expected tells whether spans of a probe should be seen: a definition or an
// operator of the diagram that has no entry may be calculated only. Without a
// diagram, every probe has one.
func expected(c config.Config, s *scope.System, name string) bool {
	hasName := func(o config.Outcome) bool { return o.Name == name }
	return slices.ContainsFunc(c.Outcomes, hasName) || slices.Contains(s.Diagram.Outcomes(), name)
}

// reloading reads the configuration again on each SIGHUP, until stop is called. A
// configuration that is wrong is said to be, and changes nothing.
func reloading(ctx context.Context, s *session.Session, hangups <-chan os.Signal, load func() (config.Config, error), log io.Writer) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
			}
			c, err := load()
			if err == nil {
				err = s.Apply(ctx, c)
			}
			if err != nil && ctx.Err() == nil {
				printError(log, fmt.Errorf("not reloaded: %w", err))
			} else if err == nil {
				fmt.Fprintf(log, "%s scope file read again: it holds from a window on that begins soon\n", time.Now().Format("15:04:05.000"))
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
