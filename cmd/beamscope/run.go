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

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/export"
	"github.com/beamscope/beamscope/internal/host/safetext"
	"github.com/beamscope/beamscope/internal/sources/ring"
	"github.com/beamscope/beamscope/internal/ui/dashboard"
)

// observeFlags are the flags of the commands that observe a running VM.
type observeFlags struct {
	config   string
	pid      int
	json     bool
	explain  bool
	wait     bool
	duration time.Duration
	limit    shareFlag // limit of the cost of observing
	symbols  symbolsFlags
}

func (f *observeFlags) register(cmd *cobra.Command) {
	f.limit = price.DefaultShare
	cmd.Flags().Var(&f.limit, "limit", "share of a core that observing may cost the VMs, such as 50%; above it beamscope gives up the outcome that costs most (0: no limit)")
	cmd.Flags().StringVarP(&f.config, "config", "c", "", "scope file that says what to observe; - is standard input")
	cmd.Flags().IntVar(&f.pid, "pid", 0, "observe this VM instead of the scope file's target")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object a line for each window and outcome")
	cmd.Flags().BoolVar(&f.explain, "explain", false, explainUsage)
	cmd.Flags().BoolVar(&f.wait, "wait", false, waitUsage)
	f.symbols.register(cmd)
	cmd.Flags().DurationVar(&f.duration, "for", 0, "end after this long, such as 30s, from the first observed window on (default: when interrupted)")
}

// errForNothing means that the duration of --for is zero.
var errForNothing = errors.New("--for 0s: want more than 0; leave --for out to observe until you interrupt it")

// waitUsage describes --wait.
const waitUsage = "wait for a VM if none is running yet"

// explainUsage describes --explain.
const explainUsage = "find out where the time of slow spans goes, except where the scope file says explain: false"

func (f *observeFlags) check(cmd *cobra.Command) error {
	switch {
	case f.pid < 0 || f.pid == 0 && cmd.Flags().Changed("pid"):
		return usageError(cmd, fmt.Errorf("--pid %d: not a process id", f.pid))
	case f.duration < 0:
		return usageError(cmd, fmt.Errorf("--for %v: want more than 0", f.duration))
	case f.duration == 0 && cmd.Flags().Changed("for"):
		return usageError(cmd, errForNothing)
	case f.wait && f.pid != 0:
		return usageError(cmd, errors.New("--wait and --pid: a VM that has not started has no process id: name its node in a scope file, as in target: {node: shop@db1}"))
	}
	return f.symbols.check(cmd)
}

// load reads the scope file. Without one, all outcomes are to be discovered.
func (f observeFlags) load(ctx context.Context) (c config.Config, err error) {
	c = config.Default()
	if f.config != "" {
		c, err = readScope(ctx, f.config)
	}
	if err == nil && f.pid != 0 {
		c.Target = vm.Target{PID: f.pid}
	}
	c.Target.Symbols = f.symbols.store
	c.Explain = c.Explain || f.explain
	if err == nil {
		err = f.awaits(c)
	}
	if err == nil && f.config != "" && c.Explain && len(c.Spans()) == 0 {
		err = &config.Error{File: f.config, Path: "outcomes", Text: "only spans can be explained, and no outcome here is of spans: add one, as in order: {span: order}"}
	}
	return c, err
}

// reload returns a function that reads the scope file again, or nil if that is not possible.
func (f observeFlags) reload() func(context.Context) (config.Config, error) {
	if f.config == "" || f.config == stdinName {
		return nil
	}
	return f.load
}

// awaits rejects waiting for a process id.
func (f observeFlags) awaits(c config.Config) error {
	if f.wait && c.Target.PID != 0 {
		return &config.Error{File: shownName(f.config), Path: "target.pid", Text: "a VM that has not started has no process id: name its node to wait for it, as in target: {node: shop@db1}"}
	}
	return nil
}

// named returns the name of the scope file that selects a process, or "" if none does.
func (f observeFlags) named(c config.Config) string {
	if f.pid != 0 || c.Target.PID == 0 {
		return ""
	}
	return shownName(f.config)
}

// observation returns how to observe a configuration. Without a scope file it adds outcomes of
// the VM to the configuration.
func (f observeFlags) observation(c config.Config) (observation, config.Config, error) {
	o := observation{duration: f.duration, wait: f.wait, discover: f.config == "", pid: f.pid, target: f.named(c), limit: f.limit.limit(), symbols: f.symbols}
	if !o.discover {
		return o, c, nil
	}
	o.spare, o.look = firstLook(), laterLook()
	c, err := withLook(c)
	return o, c, err
}

// noArguments rejects positional arguments, and suggests what may have been meant.
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
		Long: `Observes running Erlang VMs. For each window it shows the observed ΔQ of each outcome,
the one that the diagram calculates, and the triggers that fired. Without a
scope file it finds the VMs of this machine and their spans automatically. It then also
observes garbage collections and file operations, and while there are no spans also
run slices and messages, if these cost little.

Its cost is limited: if observing costs the VMs more than --limit for two windows in
a row, it gives up the outcome that costs most, and then the next. If nothing is left
to give up, it ends.

In a terminal it shows a dashboard: ? lists its keys. Elsewhere, and with --headless or
--json, it prints a frame for each window. On SIGUSR1 it reads the scope file again,
and applies it from the next window on. SIGHUP does the same if there is no terminal,
as in a service. If there is a terminal, closing it ends beamscope.

With --from it attaches to no VM, and reads the events from the output of a script
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

// An observation contains the duration and the options of observing.
type observation struct {
	duration time.Duration   // 0 means until the context is done
	wait     bool            // wait for a VM if there is none
	limit    price.Limit     // limit of the cost of observing; zero for no limit
	symbols  symbolsFlags    // where the symbols of the VMs are
	spare    []string        // outcomes of the VM to leave out if it has no probes
	look     []string        // outcomes of the VM to add while there are no spans
	discover bool            // names of spans become outcomes automatically
	explains bool            // only explained spans are useful
	script   *session.Script // source of the events; nil if they are observed
	printer  printer
	record   recordFile
	pid      int                                          // value of --pid, 0 for none
	target   string                                       // the file that selects the process to observe, "" for none
	reload   func(context.Context) (config.Config, error) // reads the configuration again; nil if it cannot change
	finish   func(s session.Status, whole int)            // called after the observation with the number of completely observed windows; may be nil
}

// waitInterval is the time between two searches for a VM that has not started.
const waitInterval = 500 * time.Millisecond

// await waits for a VM, if the user requested that and the configuration needs one. It returns
// false if the context is done first.
func (o observation) await(ctx context.Context, c config.Config, log io.Writer) (bool, error) {
	if !o.wait || !o.discover && !c.ObservesVMs() {
		return true, nil
	}
	var rings ring.Detector
	var accept func(context.Context, vm.VM) bool
	switch {
	case c.Explain: // explanations need probes
	case c.OnlySpans(o.spare...):
		accept = rings.Records
	case c.OnlySpans(slices.Concat(o.spare, withoutEvents())...):
		accept = isVM(new(vm.Finder))
	}
	return awaitVM(ctx, c.Target, accept, log)
}

// withoutEvents returns the built-in outcomes that need no probes.
func withoutEvents() []string {
	var names []string
	for _, b := range dtrace.Builtins() {
		if b.Rule.RunQueue {
			names = append(names, b.Name)
		}
	}
	return names
}

// isVM returns a function that reports whether a process that is called like a VM is one, with or
// without probes.
func isVM(f *vm.Finder) func(context.Context, vm.VM) bool {
	return func(ctx context.Context, v vm.VM) bool {
		_, err := vm.Read(ctx, f, v, vm.ImageOf)
		return err == nil || errors.Is(err, vm.ErrNoProbes) && !errors.Is(err, vm.ErrNotVM)
	}
}

// awaitVM waits until a VM starts that has probes or that also accepts. It returns false if the
// context is done first.
func awaitVM(ctx context.Context, target vm.Target, also func(context.Context, vm.VM) bool, log io.Writer) (bool, error) {
	waiting := time.AfterFunc(waitInterval, func() { safetext.Fprintf(log, "waiting for %v to start\n", target) })
	defer waiting.Stop()
	err := vm.Await(ctx, target, waitInterval, also, func(err error) { safetext.Fprintln(log, err) })
	if err != nil && ctx.Err() != nil {
		return false, nil
	}
	return err == nil, err
}

// sayLater logs the outcomes of the VM whose observation begins later.
func sayLater(log io.Writer, look []string) {
	if len(look) > 0 {
		safetext.Fprintf(log, "observed later, one after the other, while no spans are seen and this costs little: %s\n", strings.Join(look, ", "))
	}
}

// untilHangup returns a context that SIGHUP ends too, unless the process ignores SIGHUP, as
// under nohup.
func untilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// advise adds advice to an error about a missing VM.
func (o observation) advise(err error) error {
	switch {
	case !errors.Is(err, vm.ErrNone):
		return err
	case o.target != "":
		return fmt.Errorf("%w (from %s: take target out of it, or give --pid)", err, o.target)
	case o.discover && errors.Is(err, vm.ErrHidden):
		return err // it already contains advice
	case o.discover:
		return adviseNoVM(err, o.pid)
	}
	return err
}

// adviseNoVM adds advice to an error that there is no VM, or no VM with the given process id. The
// id 0 means that the user gave none.
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
		signal.Notify(reloads, syscall.SIGUSR1) // also during attaching
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
	if c.ObservesVMs() || o.discover {
		o.symbols.fetch(ctx, c.Target, log)
	}
	if o.explains {
		if err := explainable(ctx, c.Target); err != nil {
			return err
		}
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
	defer func() {
		if err = errors.Join(err, s.Close()); err == nil {
			o.record.sayWritten(out.frames, log)
		}
	}()
	if s.Attached() {
		sayLater(log, o.look)
	}
	out.lacks = s.Lacks
	if p, ok := o.printer.(interface{ TellSights(func() export.SightFunc) }); ok {
		p.TellSights(func() export.SightFunc { return s.Sights().Of })
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
		out.sayNoSpans(s.Status().Spans, s.Sights().Unread())
		return nil
	}
	return out.sayUnseen(s.Status().Wrappers)
}

// sayNoSpans logs advice if no outcome was made from spans, even if spans were discovered. unread is the reason
// why spans of some VM were not read, or "". Only if all windows were observed, no span started.
func (f *framePrinter) sayNoSpans(discovered bool, unread string) {
	switch {
	case f.system == nil || slices.ContainsFunc(f.system.Outcomes, func(p scope.OutcomeSystem) bool { return p.Spec.Span != "" }):
	case discovered:
		safetext.Fprintln(f.log, "the observation ended before the first window of the discovered spans: let it run for some seconds")
	case unread != "":
		safetext.Fprintf(f.log, "it is not known whether a span started: %s\n", unread)
	case f.whole < leastWhole:
		safetext.Fprintln(f.log, tooShort)
	case f.missed > 0:
		safetext.Fprintf(f.log, "no span was seen, but %d of %d windows were not observed as a whole: an application starts spans with beamscope:with_span, see docs/reference/erlang.md\n", f.missed, f.frames)
	default:
		safetext.Fprintln(f.log, "no span started: an application starts spans with beamscope:with_span, see docs/reference/erlang.md")
	}
}

// sayUnseen logs the outcomes that were not seen although they were observed for long enough. w
// is nil if no wrappers are expected.
func (f *framePrinter) sayUnseen(w *session.WrapperStatus) error {
	missing, err := f.missing()
	refused := w != nil && w.Refused > 0
	if len(missing) > 0 && f.whole < leastWhole && !f.areBlind(missing) && !refused {
		safetext.Fprintln(f.log, tooShort)
		return err
	}
	for _, s := range missing {
		safetext.Fprintln(f.log, f.unseen(s, w))
	}
	return err
}

// sayMissing is sayUnseen for a recorded text: it needs no least duration.
func (f *framePrinter) sayMissing() error {
	missing, err := f.missing()
	for _, s := range missing {
		safetext.Fprintln(f.log, f.unseen(s, nil))
	}
	return err
}

// missing returns the outcomes that had no instances.
func (f *framePrinter) missing() (specs []outcome.Spec, err error) {
	if f.system == nil {
		return nil, nil
	}
	c, err := config.Parse("scope.yaml", f.system.Source) // the configuration may have been reloaded
	if err != nil {
		return nil, err
	}
	for _, p := range f.system.Outcomes {
		if !f.seen[p.Spec.Name] && !f.lacks(p.Spec) && expected(c, f.system, p.Spec.Name) {
			specs = append(specs, p.Spec)
		}
	}
	return specs, nil
}

// areBlind reports whether there were enough windows, and the last one was not observed for any of
// some outcomes.
func (f *framePrinter) areBlind(specs []outcome.Spec) bool {
	return f.frames > leastWhole && !slices.ContainsFunc(specs, func(s outcome.Spec) bool { return !f.blind[s.Name] })
}

// unseen is the function unseen for an outcome that may not have been observed at the end.
func (f *framePrinter) unseen(s outcome.Spec, w *session.WrapperStatus) string {
	if f.blind[s.Name] {
		return fmt.Sprintf("outcome %s: it is not known whether it had instances: its last window was not observed", s.Name)
	}
	return unseen(f.system, s, w)
}

// unseen returns a message that an outcome was not seen, with advice. w is nil if no wrappers are
// expected.
func unseen(system *scope.System, s outcome.Spec, w *session.WrapperStatus) string {
	if s.VM != (outcome.Events{}) {
		return fmt.Sprintf("outcome %s had no instances: the VM did nothing of the kind, or lacks the probes, see beamscope probes", s.Name)
	}
	if s.Wrapper != "" && w != nil && w.Refused > 0 {
		return fmt.Sprintf("outcome %s: nothing named %q came in over TCP, and %d connections were refused, for the reasons above: its wrapper may be among them", s.Name, s.Wrapper, w.Refused)
	}
	if s.Wrapper != "" {
		return fmt.Sprintf("outcome %s: nothing named %q came in over TCP: check the name, and that a wrapper is connected", s.Name, s.Wrapper)
	}
	if system.Defines(s.Name) {
		return fmt.Sprintf("outcome %s: no span named %q started: the diagram defines it, so it was calculated only", s.Name, s.Span)
	}
	return fmt.Sprintf("outcome %s: no span named %q started: check the name, and that this VM runs the code", s.Name, s.Span)
}

// expected reports whether spans of a probe should have been seen. A definition or an operator of
// the diagram without an entry may be calculated only. Without a diagram every probe has spans.
func expected(c config.Config, s *scope.System, name string) bool {
	hasName := func(o config.Outcome) bool { return o.Name == name }
	return slices.ContainsFunc(c.Outcomes, hasName) || slices.Contains(s.Diagram.Outcomes(), name)
}

// hasTerminal reports whether there is a terminal that sends SIGHUP when it closes.
func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	tty.Close()
	return true
}

// reloading reads the configuration again on each signal, until stop is called. An invalid
// configuration is reported, and changes nothing.
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
