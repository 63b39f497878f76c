package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/dashboard"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/price"
	"github.com/beamscope/beamscope/internal/safetext"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/session"
	"github.com/beamscope/beamscope/internal/vm"
)

// observeFlags are those of the commands that observe a running VM.
type observeFlags struct {
	config   string
	pid      int
	json     bool
	explain  bool
	wait     bool
	duration time.Duration
	limit    shareFlag // that observing may cost
}

func (f *observeFlags) register(cmd *cobra.Command) {
	f.limit = price.DefaultShare
	cmd.Flags().Var(&f.limit, "limit", "how much of a core observing may cost the VMs, such as 50%; above it the outcome that costs most is given up (0: no limit)")
	cmd.Flags().StringVarP(&f.config, "config", "c", "", "scope file that says what to observe; - is standard input")
	cmd.Flags().IntVar(&f.pid, "pid", 0, "observe this VM instead of the scope file's target")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object a line for each window and probe")
	cmd.Flags().BoolVar(&f.explain, "explain", false, explainUsage)
	cmd.Flags().BoolVar(&f.wait, "wait", false, waitUsage)
	cmd.Flags().DurationVar(&f.duration, "for", 0, "end after so long, such as 30s, from the first observed window on (0: when interrupted)")
}

// waitUsage is what --wait does.
const waitUsage = "wait for a VM where none is there yet"

// explainUsage is what --explain does.
const explainUsage = "find out where the time of slow spans goes, unless the scope file says false of them"

func (f observeFlags) check(cmd *cobra.Command) error {
	switch {
	case f.pid < 0 || f.pid == 0 && cmd.Flags().Changed("pid"):
		return usageError(cmd, fmt.Errorf("--pid %d: not a process id", f.pid))
	case f.duration < 0:
		return usageError(cmd, fmt.Errorf("--for %v: not in the future", f.duration))
	case f.wait && f.pid != 0:
		return usageError(cmd, errors.New("--wait and --pid: a VM that is yet to start has no process id: name its node in a scope file, as in target: {node: shop@db1}"))
	}
	return nil
}

// load reads the scope file; without one everything is to be discovered.
func (f observeFlags) load(ctx context.Context) (c config.Config, err error) {
	c = config.Default()
	if f.config != "" {
		c, err = readScope(ctx, f.config)
	}
	if err == nil && f.pid != 0 {
		c.Target = vm.Target{PID: f.pid}
	}
	c.Explain = c.Explain || f.explain
	if err == nil {
		err = f.awaits(c)
	}
	if err == nil && f.config != "" && c.Explain && len(c.Spans()) == 0 {
		err = &config.Error{File: f.config, Path: "outcomes", Text: "only spans are explained, and none of these is of spans: add one, as in order: {span: order}"}
	}
	return c, err
}

// reload returns what reads the scope file again; nil where there is none to be read
// again.
func (f observeFlags) reload() func(context.Context) (config.Config, error) {
	if f.config == "" || f.config == stdinName {
		return nil
	}
	return f.load
}

// awaits refuses to wait for a process id.
func (f observeFlags) awaits(c config.Config) error {
	if f.wait && c.Target.PID != 0 {
		return &config.Error{File: shownName(f.config), Path: "target.pid", Text: "a VM that is yet to start has no process id: name its node to wait for it, as in target: {node: shop@db1}"}
	}
	return nil
}

// named returns the scope file that names the process to observe, "" for none.
func (f observeFlags) named(c config.Config) string {
	if f.pid != 0 || c.Target.PID == 0 {
		return ""
	}
	return shownName(f.config)
}

// observation returns how a configuration is observed. Without a scope file, outcomes of
// the VM are added to it.
func (f observeFlags) observation(c config.Config) (observation, config.Config, error) {
	o := observation{duration: f.duration, wait: f.wait, discover: f.config == "", pid: f.pid, target: f.named(c), limit: f.limit.limit()}
	if !o.discover {
		return o, c, nil
	}
	o.spare, o.look = firstLook(), laterLook()
	c, err := withLook(c)
	return o, c, err
}

// noArguments refuses positional arguments, and says what may have been meant.
func (f observeFlags) noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if _, err := strconv.ParseUint(args[0], 10, 31); err == nil {
		hint = ": did you mean --pid " + args[0] + "?"
	} else if ext := filepath.Ext(args[0]); ext == ".yaml" || ext == ".yml" {
		hint = ": did you mean -c " + args[0] + "?"
	} else if ext == ".bsr" && cmd.Name() == "record" {
		hint = ": did you mean -o " + args[0] + "?"
	} else if ext == ".bsr" {
		hint = ": did you mean beamscope replay " + args[0] + "?"
	}
	return usageError(cmd, fmt.Errorf("unexpected argument %q%s", args[0], hint))
}

func newRunCommand() *cobra.Command {
	var f observeFlags
	var headless bool
	var from string
	cmd := &cobra.Command{
		Use:   "run [-c scope.yaml]",
		Short: "Observe running Erlang VMs",
		Long: `Observes running Erlang VMs: what was observed of each probe in each window, what
the diagram calculates from its outcomes, and what fired. Without a scope file it
finds the VMs of this machine, and the spans in them, by itself, and observes some
of what the VM does besides: its garbage collections and files, and while there are
no spans also run slices and messages, as far as these cost little.

It is bounded: when observing costs the VMs more than --limit for two windows in a
row, it gives up the outcome that costs most, and then the next. Where nothing is
left to give up, it ends.

In a terminal it shows a dashboard: ? there tells what the keys do. Elsewhere, and
with --headless or --json, it prints a frame for each window, and reads the scope
file again on SIGUSR1: what it says then holds from the next window on. SIGHUP does the
same where there is no terminal, as in a service; a terminal that is closed ends it.

With --from it attaches to nothing, and takes the events from the output of a script
instead, see beamscope script.`,
		Args: f.noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			if err := f.checkFrom(cmd); err != nil {
				return err
			}
			c, err := f.load(cmd.Context())
			if err != nil {
				return err
			}
			o, c, err := f.observation(c)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("from") {
				o.limit = price.Limit{}
				if o.script, err = openEvents(cmd.Context(), from); err != nil {
					return err
				}
			}
			if !headless && !f.json && atTerminal() {
				return o.advise(watch(cmd.Context(), c, o, dashboard.Options{Title: dashboard.Live, Path: scopePath(f.config), Overview: o.discover, Discovers: o.discover}))
			}
			o.printer = printerFor(f.json, cmd.OutOrStdout())
			o.reload = f.reload()
			return o.advise(observe(cmd.Context(), c, o, cmd.ErrOrStderr()))
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&headless, "headless", false, "print text frames in a terminal as well")
	cmd.Flags().StringVar(&from, "from", "", "take the events from the output of a script: a file, or - for standard input")
	return cmd
}

// An observation says for how long to observe and what becomes of the frames.
type observation struct {
	duration time.Duration   // 0: until the context is done
	wait     bool            // for a VM, where there is none
	limit    price.Limit     // of what observing costs; none where it is zero
	spare    []string        // outcomes of the VM that are left out where it has no probes
	look     []string        // outcomes of the VM that are added while there are no spans
	discover bool            // names of spans become outcomes by themselves
	script   *session.Script // that tells the events, nil where they are observed
	printer  printer
	record   recordFile
	pid      int                                          // that --pid names, 0 for none
	target   string                                       // the file that names the process to observe, "" for none
	reload   func(context.Context) (config.Config, error) // reads the configuration again, nil where it is fixed
	finish   func(s session.Status, whole int)            // is called when the observation is over, with how many windows were observed as a whole; nil where nobody asks
}

// waitInterval is how often a VM is looked for that is not there yet.
const waitInterval = 500 * time.Millisecond

// await waits for a VM, if it is to and one is needed. It is false where the context was
// done first.
func (o observation) await(ctx context.Context, c config.Config, log io.Writer) (bool, error) {
	if !o.wait || !o.discover && !c.ObservesVMs() {
		return true, nil
	}
	return awaitVM(ctx, c.Target, log)
}

// awaitVM waits for a VM to start. It is false where the context was done first.
func awaitVM(ctx context.Context, target vm.Target, log io.Writer) (bool, error) {
	waiting := time.AfterFunc(waitInterval, func() { safetext.Fprintf(log, "waiting for %v to start\n", target) })
	defer waiting.Stop()
	err := vm.Await(ctx, target, waitInterval, func(err error) { safetext.Fprintln(log, err) })
	if err != nil && ctx.Err() != nil {
		return false, nil
	}
	return err == nil, err
}

// sayLater says which outcomes of the VM are not observed from the beginning on.
func sayLater(log io.Writer, look []string) {
	if len(look) > 0 {
		safetext.Fprintf(log, "observed later, one after the other, while no spans are seen and this costs little: %s\n", strings.Join(look, ", "))
	}
}

// untilHangup returns a context that is also done when SIGHUP comes, unless that is ignored,
// as nohup has it.
func untilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// advise says what to do where there is nothing to observe.
func (o observation) advise(err error) error {
	switch {
	case !errors.Is(err, vm.ErrNone):
		return err
	case o.target != "":
		return fmt.Errorf("%w (from %s: take target out of it, or give --pid)", err, o.target)
	case o.discover && errors.Is(err, vm.ErrHidden):
		return err // which says what to try
	case o.discover:
		return adviseNoVM(err, o.pid)
	}
	return err
}

// adviseNoVM says what to do where there is no VM, or none with the process id that was
// given, if that is not 0.
func adviseNoVM(err error, pid int) error {
	if pid != 0 {
		return fmt.Errorf("%w: beamscope probes lists the VMs that run", err)
	}
	return fmt.Errorf("%w: start one, or try beamscope demo", err)
}

// observe runs the oscilloscope until the context is done or the observation is
// over. Progress goes to log.
func observe(ctx context.Context, c config.Config, o observation, log io.Writer) (err error) {
	reloads := make(chan os.Signal, 1)
	if o.reload != nil {
		signal.Notify(reloads, syscall.SIGUSR1) // while it attaches already
		defer signal.Stop(reloads)
	}
	if o.reload != nil && !hasTerminal() && !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(reloads, syscall.SIGHUP)
	} else {
		var stop context.CancelFunc
		ctx, stop = untilHangup(ctx)
		defer stop()
	}
	if there, err := o.await(ctx, c, log); !there {
		return err
	}
	out := newFramePrinter(o.printer, log)
	attaching := newAttaching(log, time.Now)
	s, err := session.Open(ctx, c, session.Options{
		Observers: []scope.Observer{out},
		Record:    o.record.create(out.notify),
		Discover:  o.discover,
		Limit:     o.limit,
		Spare:     o.spare,
		Look:      o.look,
		Script:    o.script,
		Note:      recordedNow(),
		Notify:    out.notify,
		Progress:  attaching.progress,
	})
	if err != nil {
		return stopped(ctx, err, log)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if s.Attached() {
		sayLater(log, o.look)
	}
	if o.reload != nil {
		defer reloading(ctx, s, reloads, o.reload, log)()
	}
	if err := s.Run(ctx, o.duration); err != nil {
		return err
	}
	if o.finish != nil {
		o.finish(s.Status(), out.whole)
	}
	if err := o.printer.Close(); err != nil {
		return err
	}
	switch {
	case o.script != nil:
		return out.sayMissing()
	case out.frames == 0:
		safetext.Fprintln(log, noWindow)
		return nil
	case o.discover:
		out.sayNoSpans(s.Status().Spans)
		return nil
	}
	return out.sayUnseen(s.Status().Wrappers)
}

// sayNoSpans says what to do where no outcome was made of spans, although perhaps spans
// were discovered.
func (f *framePrinter) sayNoSpans(discovered bool) {
	switch {
	case f.system == nil || slices.ContainsFunc(f.system.Probes, func(p scope.ProbeSystem) bool { return p.Spec.Span != "" }):
	case discovered:
		safetext.Fprintln(f.log, "it ended before the first window of the spans that were discovered: let it run for some seconds")
	case f.whole < leastWhole:
		safetext.Fprintln(f.log, tooShort)
	default:
		safetext.Fprintln(f.log, "no span started: an application starts spans with beamscope:with_span, see docs/erlang.md")
	}
}

// sayUnseen says which outcomes nothing was seen of, where they were observed for long
// enough. The wrappers are nil where none are waited for.
func (f *framePrinter) sayUnseen(w *session.WrapperStatus) error {
	missing, err := f.missing()
	refused := w != nil && w.Refused > 0
	if len(missing) > 0 && f.whole < leastWhole && !refused {
		safetext.Fprintln(f.log, tooShort)
		return err
	}
	for _, s := range missing {
		safetext.Fprintln(f.log, unseen(s, w))
	}
	return err
}

// sayMissing is sayUnseen of a text, which is over however short it is.
func (f *framePrinter) sayMissing() error {
	missing, err := f.missing()
	for _, s := range missing {
		safetext.Fprintln(f.log, unseen(s, nil))
	}
	return err
}

// missing returns the outcomes that had no instances.
func (f *framePrinter) missing() (specs []outcome.Spec, err error) {
	if f.system == nil {
		return nil, nil
	}
	c, err := config.Parse("scope.yaml", f.system.Source) // it may have been reloaded
	if err != nil {
		return nil, err
	}
	for _, p := range f.system.Probes {
		if !f.seen[p.Spec.Name] && expected(c, f.system, p.Spec.Name) {
			specs = append(specs, p.Spec)
		}
	}
	return specs, nil
}

// unseen says that nothing was seen of an outcome, and what to check. The wrappers are nil where
// none are waited for.
func unseen(s outcome.Spec, w *session.WrapperStatus) string {
	if s.VM != (outcome.Events{}) {
		return fmt.Sprintf("outcome %s had no instances: the VM did not do it, or it lacks the probes, see beamscope probes", s.Name)
	}
	if s.Wrapper != "" && w != nil && w.Refused > 0 {
		return fmt.Sprintf("outcome %s: nothing named %q came in over TCP, and %d connections were refused, for the reasons above: its wrapper may be among them", s.Name, s.Wrapper, w.Refused)
	}
	if s.Wrapper != "" {
		return fmt.Sprintf("outcome %s: nothing named %q came in over TCP: check the name, and that a wrapper is connected", s.Name, s.Wrapper)
	}
	return fmt.Sprintf("outcome %s: no span named %q started: check the name, and that this VM runs the code", s.Name, s.Span)
}

// expected tells whether spans of a probe should be seen: a definition or an
// operator of the diagram that has no entry may be calculated only. Without a
// diagram, every probe has one.
func expected(c config.Config, s *scope.System, name string) bool {
	hasName := func(o config.Outcome) bool { return o.Name == name }
	return slices.ContainsFunc(c.Outcomes, hasName) || slices.Contains(s.Diagram.Outcomes(), name)
}

// hasTerminal reports whether there is a terminal whose end sends SIGHUP.
func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	tty.Close()
	return true
}

// reloading reads the configuration again on each signal, until stop is called. A
// configuration that is wrong is said to be, and changes nothing.
func reloading(ctx context.Context, s *session.Session, signals <-chan os.Signal, load func(context.Context) (config.Config, error), log io.Writer) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
			c, err := load(ctx)
			if err == nil {
				err = s.Apply(ctx, c)
			}
			if err != nil && ctx.Err() == nil {
				printError(log, fmt.Errorf("not reloaded: %w", err))
			} else if err == nil {
				safetext.Fprintf(log, "%s scope file read again: it holds from a window on that begins soon\n", time.Now().Format("15:04:05.000"))
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
