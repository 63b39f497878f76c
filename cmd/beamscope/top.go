package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/host/safetext"
	"github.com/beamscope/beamscope/internal/sources/sampled"
	"github.com/beamscope/beamscope/internal/ui/top"
)

// topWithoutTerminal is the duration of top without a terminal, where no user can end it.
const topWithoutTerminal = 10 * time.Second

// topRows is the default number of rows of a table in text.
const topRows = 20

type topFlags struct {
	pid      int
	by       string
	sort     string
	filter   string
	limit    int
	window   time.Duration
	rate     float64
	duration time.Duration
	json     bool
	wait     bool
	sampled  bool
	events   bool // the user asks for events, even if run slices cannot be seen
	hz       int
	symbols  symbolsFlags
}

func newTopCommand() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show which Erlang processes use the time",
		Long: `Shows which processes of running Erlang VMs use the time: their time on a processor
or in dirty functions, the part of it in garbage collections, the number of
waiting messages, and how long messages wait after the process has fetched
them. A process that is busy fetches nothing: its messages are in the columns waiting
and oldest. It needs no configuration.

In a terminal it shows a live table; ? shows all keys. With --for or
--json, and without a terminal, it prints a table or lines for each window.

Its cost is limited: if observing costs the VMs more than a tenth of a core, or more
than --rate events a second, for two windows in a row, it gives up the run time, and
then the mailboxes; if the garbage collections alone still cost too much, it ends.

With --sampled it observes no events: it takes samples of the VMs, and shows how
processes share the processors or, with --by mfa, how the functions that ran do.
This needs no probes, and its cost does not depend on the VMs' activity. If the run
time of no VM can be seen, top takes samples automatically; with --sampled=false, --sort
or --rate it then shows the events that can be seen. If the events of some VMs cannot be
seen, it names these VMs below the table.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return runTop(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().IntVar(&f.pid, "pid", 0, "observe this VM alone")
	cmd.Flags().StringVar(&f.by, "by", outcome.GroupPID, "make a row of each pid, or of each mfa, the function that processes were spawned with")
	cmd.Flags().StringVar(&f.sort, "sort", top.Automatic.String(), "sort by "+strings.Join(top.ColumnNames(), ", ")+": auto is waiting while a queue grows, otherwise cpu")
	cmd.Flags().StringVar(&f.filter, "filter", "", "show only rows that contain this text, or match it as a regular expression")
	cmd.Flags().IntVar(&f.limit, "limit", 0, fmt.Sprintf("print at most this many rows (0: %d in text, all with --json)", topRows))
	cmd.Flags().DurationVar(&f.window, "window", time.Second, "length of a window")
	cmd.Flags().Float64Var(&f.rate, "rate", 0, "limit of events a second (0: as many as cost a tenth of a core)")
	cmd.Flags().DurationVar(&f.duration, "for", 0, "print text, and end after this long, such as 30s (default: when interrupted, or after 10s without a terminal)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object a line for each window and row")
	cmd.Flags().BoolVar(&f.wait, "wait", false, waitUsage)
	f.symbols.register(cmd)
	cmd.Flags().BoolVar(&f.sampled, "sampled", false, "observe no events: take samples of what the VMs do")
	cmd.Flags().IntVar(&f.hz, "hz", sampled.DefaultRate, fmt.Sprintf("samples a second on each processor, 1 to %d", sampled.MaxRate))
	return cmd
}

func (f *topFlags) check(cmd *cobra.Command) error {
	var err error
	f.events = !f.sampled && slices.ContainsFunc([]string{"sampled", "sort", "rate"}, cmd.Flags().Changed)
	switch _, known := top.ColumnNamed(f.sort); {
	case f.pid < 0 || f.pid == 0 && cmd.Flags().Changed("pid"):
		err = fmt.Errorf("--pid %d: not a process id", f.pid)
	case f.wait && f.pid != 0:
		err = errors.New("--wait and --pid: a VM that has not started has no process id")
	case !slices.Contains([]string{outcome.GroupPID, outcome.GroupMFA}, f.by):
		err = fmt.Errorf("--by %s: use pid or mfa", f.by)
	case !known:
		err = fmt.Errorf("--sort %s: use one of %s", f.sort, strings.Join(top.ColumnNames(), ", "))
	case f.limit < 0:
		err = fmt.Errorf("--limit %d: not a number of rows", f.limit)
	case f.window < config.MinWindow || f.window > config.MaxWindow:
		err = fmt.Errorf("--window %v: use %v to %v", f.window, config.MinWindow, config.MaxWindow)
	case !(f.rate >= 0) || math.IsInf(f.rate, 1):
		err = fmt.Errorf("--rate %v: want 0 or more", f.rate)
	case f.duration < 0:
		err = fmt.Errorf("--for %v: want more than 0", f.duration)
	case f.duration == 0 && cmd.Flags().Changed("for"):
		err = errForNothing
	case f.hz < 1 || f.hz > sampled.MaxRate:
		err = fmt.Errorf("--hz %d: use 1 to %d", f.hz, sampled.MaxRate)
	case f.sampled && (cmd.Flags().Changed("rate") || cmd.Flags().Changed("sort")):
		err = errors.New("--sampled: it observes no events and has no columns to sort by: leave out --rate and --sort")
	}
	if err != nil {
		return usageError(cmd, err)
	}
	return f.symbols.check(cmd)
}

// target returns the VMs to observe.
func (f topFlags) target() vm.Target {
	if f.pid != 0 {
		return vm.Target{PID: f.pid, Symbols: f.symbols.store}
	}
	target := config.Default().Target
	target.Symbols = f.symbols.store
	return target
}

// options returns the options that do not depend on the form of output.
func (f topFlags) options(progress func(vmsource.Progress)) top.Options {
	sort, _ := top.ColumnNamed(f.sort)
	target := f.target()
	return top.Options{
		Window:    f.window,
		By:        f.by,
		Sort:      sort,
		Filter:    f.filter,
		Limit:     price.Limit{Rate: f.rate, Share: price.DefaultShare},
		Processor: top.ProcessorOf,
		NeedRun:   !f.events,
		Source: func(ctx context.Context, p outcome.Plan) (outcome.Source, error) {
			return vmsource.New(ctx, vmsource.Config{Target: target, Plan: p, Progress: progress})
		},
	}
}

func runTop(ctx context.Context, f topFlags, out, log io.Writer) error {
	ctx, stop := untilHangup(ctx)
	defer stop()
	if f.wait {
		if there, err := awaitVM(ctx, f.target(), anyVM, log); !there {
			return err
		}
	}
	f.symbols.fetch(ctx, f.target(), log)
	if f.duration == 0 && !f.json && atTerminal() {
		return f.advise(viewTop(ctx, f))
	}
	if f.duration == 0 && !atTerminal() {
		f.duration = topWithoutTerminal
		safetext.Fprintf(log, "without a terminal, top ends after %v: set another time with --for\n", f.duration)
	}
	return f.advise(printTop(ctx, f, out, log))
}

// withoutRun reports whether an error means that run slices of no VM can be seen.
func withoutRun(err error) bool {
	return errors.Is(err, vm.ErrNoProbes) || errors.Is(err, bpf.ErrNoProbe)
}

// advise adds advice to an error that there is nothing to observe.
func (f topFlags) advise(err error) error {
	if errors.Is(err, vm.ErrNone) && !errors.Is(err, vm.ErrHidden) {
		return adviseNoVM(err, f.pid)
	}
	return err
}

// viewTop shows the live table.
func viewTop(ctx context.Context, f topFlags) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGQUIT)
	defer stop()
	if f.sampled {
		return viewSampled(ctx, f, nil)
	}
	v := top.NewView(nil)
	attaching := newAttaching(os.Stderr, time.Now)
	o := f.options(attaching.progress)
	o.Noticed = v.Notify
	t, err := top.Open(ctx, o)
	attaching.end() // the table has the terminal from now on
	if withoutRun(err) {
		return viewSampled(ctx, f, err)
	}
	if err != nil {
		return stopped(ctx, err, os.Stderr)
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return adviseTerminal(v.Run(ctx, t), "--for")
}

// noticed returns a function that writes notices to the log, and with --json also as lines.
func (f topFlags) noticed(lines *top.JSON, log io.Writer) func(outcome.Notice) {
	return func(n outcome.Notice) {
		at := monotonic.Wall(n.Time)
		safetext.Fprintf(log, "%s %s\n", at.Local().Format("15:04:05.000"), n.Text)
		if f.json {
			_ = lines.Notice(at, n.Text) // writing the next table will fail too, and end the command
		}
	}
}

// printTop prints tables or lines.
func printTop(ctx context.Context, f topFlags, out, log io.Writer) (err error) {
	if f.sampled {
		return printSampled(ctx, f, nil, out, log)
	}
	o := f.options(newAttaching(log, time.Now).progress)
	lines := top.NewJSON(out, f.limit)
	if f.json {
		o.Tabled = lines.Table
	} else {
		if f.limit == 0 {
			f.limit = topRows
		}
		o.Tabled = top.NewText(out, f.limit).Table
	}
	o.Noticed = f.noticed(lines, log)
	t, err := top.Open(ctx, o)
	if withoutRun(err) {
		return printSampled(ctx, f, err, out, log)
	}
	if err != nil {
		return stopped(ctx, err, log)
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return t.Run(ctx, f.duration)
}
