package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/engine/worst"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/export"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/snapshot"
	"github.com/beamscope/beamscope/internal/host/safetext"
)

// traceFor is the default time for which instances are explained.
const traceFor = 10 * time.Second

// traceFlags select the instances to show, and their source.
type traceFlags struct {
	observe observeFlags
	where   snapshotFlags
	outcome string
	id      uint64
	count   int
	all     bool
}

func newTraceCommand() *cobra.Command {
	var f traceFlags
	cmd := &cobra.Command{
		Use:   "trace [run.bsr|SNAPSHOT] [-c scope.yaml]",
		Short: "Show where the time of slow spans went",
		Long: `Shows the worst explained spans, each as a tree: where its time went,
process by process, and how certain that is; and where the time of all of them went.

It reads a recording that was made with explain, or a snapshot. Name a snapshot by its
path, its number in beamscope snapshots list or the beginning of its file's name. Without
a name it observes running Erlang VMs for 10s, or for the time of --for, and explains their
spans, except for outcomes with explain: false in the scope file. Without a scope file it
finds spans automatically.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd, args); err != nil {
				return err
			}
			if len(args) == 0 {
				return f.live(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			path, err := f.path(cmd, args[0])
			if err != nil {
				return err
			}
			return f.recorded(cmd.Context(), path, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVarP(&f.observe.config, "config", "c", "", "scope file that says what to observe, or where snapshots are; - is standard input")
	cmd.Flags().IntVar(&f.observe.pid, "pid", 0, "observe this VM instead of the scope file's target")
	cmd.Flags().BoolVar(&f.observe.wait, "wait", false, waitUsage)
	f.observe.symbols.register(cmd)
	cmd.Flags().DurationVar(&f.observe.duration, "for", traceFor, "observe for this long")
	cmd.Flags().BoolVar(&f.observe.json, "json", false, "print one JSON object a line for each span, and for each outcome and VM")
	cmd.Flags().StringVar(&f.where.dir, "dir", "", "folder of the snapshots (default snapshots, or what the scope file says)")
	cmd.Flags().StringVar(&f.outcome, "outcome", "", "show spans of this outcome alone")
	cmd.Flags().Uint64Var(&f.id, "id", 0, "show the span with this id")
	cmd.Flags().IntVarP(&f.count, "count", "n", 3, "how many spans to show")
	cmd.Flags().BoolVar(&f.all, "all", false, "show also parts that are less than 1 % of a span")
	return cmd
}

func (f *traceFlags) check(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError(cmd, fmt.Errorf("unexpected argument %q", args[1]))
	}
	for _, name := range []string{"pid", "for", "wait", "symbols"} {
		if len(args) > 0 && cmd.Flags().Changed(name) {
			return usageError(cmd, fmt.Errorf("--%s has no meaning with a file: leave out --%s or %s", name, name, args[0]))
		}
	}
	switch {
	case len(args) == 0 && cmd.Flags().Changed("dir"):
		return usageError(cmd, errors.New("--dir: it is the folder of a snapshot: name the snapshot, or leave out --dir"))
	case f.id == 0 && cmd.Flags().Changed("id"):
		return usageError(cmd, errors.New("--id 0: want 1 or more"))
	case f.count < 1:
		return usageError(cmd, fmt.Errorf("-n %d: want 1 or more", f.count))
	case f.observe.duration == 0:
		return usageError(cmd, errors.New("--for 0s: want more than 0"))
	}
	return f.observe.check(cmd)
}

// keeper returns a keeper of the wanted instances.
func (f *traceFlags) keeper() *worst.Keeper {
	return &worst.Keeper{N: f.count, Outcome: f.outcome, ID: f.id}
}

// path returns the path of a recording or a snapshot.
func (f *traceFlags) path(cmd *cobra.Command, name string) (string, error) {
	if _, err := os.Stat(name); err == nil || filepath.Base(name) != name {
		for _, flag := range []string{"dir", "config"} {
			if cmd.Flags().Changed(flag) {
				return "", usageError(cmd, fmt.Errorf("%s: it is the path of a file: leave out --%s", name, flag))
			}
		}
		return name, nil // opening it will report errors
	}
	f.where.config = f.observe.config
	dir, err := f.where.folder(cmd.Context())
	if err != nil {
		return "", err
	}
	path, err := snapshot.Find(dir, name)
	if errors.Is(err, snapshot.ErrNotFound) && filepath.Ext(name) == ".bsr" && f.where == (snapshotFlags{}) {
		return name, nil // opening it will report errors
	}
	if errors.Is(err, snapshot.ErrNotFound) && f.where.dir == "" {
		return "", noRecording(name, err)
	}
	return path, err
}

// noRecording returns the error for a name that belongs neither to a recording nor, according to
// err, to a snapshot.
func noRecording(name string, err error) error {
	return fmt.Errorf("there is no recording %s, and %w", name, err)
}

// recorded shows the explanations in a recording, up to damage if there is any.
func (f *traceFlags) recorded(ctx context.Context, path string, out, log io.Writer) error {
	in, err := recording.Open(ctx, path)
	if err != nil {
		return err
	}
	defer in.Close()
	k, wall := f.keeper(), wallOf(in.Header)
	var specs []outcome.Spec
	var fitted map[string]bool
	k.Fitted = func(name string) bool { return fitted[name] }
	for {
		entry, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			began(log, in.Header)
			return errors.Join(f.print(out, log, k), fmt.Errorf("%s: %w", path, err))
		}
		switch e := entry.(type) {
		case *recording.Config:
			specs = append(specs, e.Plan.Specs...)
			fitted = session.Fitted(e)
		case *outcome.Batch:
			k.Add(e.Instances, wall)
		}
	}
	switch {
	case !k.Explained():
		return fmt.Errorf("%s: %s, see docs/reference/explain.md", path, unexplained(specs))
	case len(k.Instances()) == 0:
		return fmt.Errorf("%s: no explained span in it is %s", path, f.wanted())
	}
	began(log, in.Header)
	return f.print(out, log, k)
}

// unexplained describes why none of the observed outcomes is explained, with advice.
func unexplained(specs []outcome.Spec) string {
	span := func(s outcome.Spec) bool { return s.Span != "" }
	overTCP := func(s outcome.Spec) bool { return s.Wrapper != "" }
	switch {
	case slices.ContainsFunc(specs, func(s outcome.Spec) bool { return s.Explain }):
		return "it explains no span, although explanations were on: they need a VM with probes or of a known build, and spans that end during the recording"
	case slices.ContainsFunc(specs, span):
		return "no span in it is explained: record them with --explain, or write explain: true in the scope file"
	case slices.ContainsFunc(specs, overTCP):
		return "its spans came over TCP, which does not say where their time went: only spans that programs in the kernel see can be explained"
	}
	return "it has no spans, and only spans are explained"
}

// wanted describes the wanted spans.
func (f *traceFlags) wanted() string {
	switch {
	case f.outcome != "" && f.id != 0:
		return fmt.Sprintf("%s #%d", f.outcome, f.id)
	case f.id != 0:
		return fmt.Sprintf("#%d", f.id)
	}
	return "of outcome " + f.outcome
}

// live observes, and shows the explanations.
func (f *traceFlags) live(ctx context.Context, out, log io.Writer) error {
	ctx, stop := untilHangup(ctx)
	defer stop()
	c, err := f.configured(ctx)
	if err != nil {
		return err
	}
	k := f.keeper()
	kept := &keeping{Keeper: k}
	o := f.observation(c, kept)
	o.finish = kept.finish
	if err := o.advise(observe(ctx, c, o, log)); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil && kept.to == 0:
		return nil // stopped while attaching
	case !k.Explained():
		return kept.nothing(o.discover)
	case len(k.Instances()) == 0:
		return fmt.Errorf("no explained span is %s", f.wanted())
	}
	return f.print(out, log, k)
}

// configured returns the configuration to observe. It explains all spans except those that the
// scope file excludes, and makes no snapshots. It returns an error if the wanted spans are not
// explained.
func (f *traceFlags) configured(ctx context.Context) (config.Config, error) {
	f.observe.explain = true
	c, err := f.observe.load(ctx)
	if err == nil && f.observe.config != "" {
		err = f.checkExplained(c.Explained())
	}
	for i := range c.Outcomes {
		c.Outcomes[i].Triggers = nil
	}
	return c, err
}

// checkExplained returns an error unless the wanted outcome is among those that the scope file
// explains.
func (f *traceFlags) checkExplained(names []string) error {
	switch {
	case len(names) == 0:
		return &config.Error{File: f.observe.config, Path: "outcomes", Text: "every outcome of spans has explain: false: remove it from one"}
	case f.outcome != "" && !slices.Contains(names, f.outcome):
		return &config.Error{File: f.observe.config, Path: "outcomes." + f.outcome, Text: "it cannot be explained: it has to be of spans, and without explain: false"}
	}
	return nil
}

// observation returns the options of observing.
func (f *traceFlags) observation(c config.Config, p printer) observation {
	return observation{duration: f.observe.duration, wait: f.observe.wait, discover: f.observe.config == "", explains: true, target: f.observe.named(c), printer: p, symbols: f.observe.symbols}
}

// print shows the kept instances, and logs the number of others.
func (f *traceFlags) print(out, log io.Writer, k *worst.Keeper) error {
	if n := k.Further(); n > 0 {
		safetext.Fprintf(log, "totals cover the first %d outcomes and VMs: %d instances are in none of them\n", worst.MaxTotals, n)
	}
	if f.observe.json {
		j := export.NewJSON(out)
		for _, i := range k.Instances() {
			if err := j.Trace(&i.Instance, i.Fitted, i.Began); err != nil {
				return err
			}
		}
		for _, t := range k.Totals() {
			if err := j.Total(t); err != nil {
				return err
			}
		}
		return nil
	}
	for _, i := range k.Instances() {
		if err := export.WriteTrace(out, &i.Instance, i.Fitted, i.Began.Local(), f.all); err != nil {
			return err
		}
		safetext.Fprintln(out)
	}
	return export.WriteTotals(out, k.Totals())
}
