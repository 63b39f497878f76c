// Command beamscope is an oscilloscope for running Erlang systems.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/host/privilege"
	"github.com/beamscope/beamscope/internal/host/safetext"
)

// Exit statuses.
const (
	statusDone   = 0
	statusFailed = 1
	statusUsage  = 2
)

// gcPercent is the part of the live heap by which it grows between two collections. beamscope runs on nodes that need
// their memory, and its heap is mostly arrays of numbers, which take little time to collect.
const gcPercent = 50

func main() {
	debug.SetGCPercent(gcPercent)
	os.Exit(run(os.Args[1:]))
}

// run executes the command line and returns the exit status.
func run(args []string) int {
	// A process with file capabilities may not read /proc/self/mem otherwise. The eBPF library reads
	// the kernel's version there.
	_ = privilege.AllowDump()
	stderr := safetext.NewWriter(os.Stderr)
	if err := reducePrivileges(args, stderr); err != nil { // signals that came before this step would be lost
		printError(stderr, err)
		return statusFailed
	}
	ctx, stop := untilSignal(context.Background(), stderr)
	defer stop()
	root := newRootCommand()
	root.SetArgs(args)
	// The output may contain text from an observed program or from another user's file.
	root.SetOut(safetext.NewWriter(os.Stdout))
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return statusDone
	}
	err = interrupted(ctx, err)
	printError(stderr, err)
	if errors.Is(err, errUsage) || errors.Is(err, config.ErrInvalid) {
		return statusUsage
	}
	return statusFailed
}

// errInterrupted means that a signal has ended a command.
var errInterrupted = errors.New("interrupted before it finished")

// interrupted replaces an error that the context is done by errInterrupted, and returns any other
// error unchanged.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return errInterrupted
	}
	return err
}

// printError prints an error on one line, or several errors below each other. Errors in a diagram
// begin with their place.
func printError(w io.Writer, err error) {
	if several := parts(err); several != nil {
		for _, err := range several {
			printError(w, err)
		}
		return
	}
	switch e := err.(type) {
	case *config.DiagramError: // has several lines
		fmt.Fprintln(w, e)
	default:
		if errors.Is(err, config.ErrInvalid) { // may contain a line of the scope file, with a mark below it
			fmt.Fprintln(w, "beamscope:", e)
			return
		}
		safetext.Fprintln(w, "beamscope:", e)
	}
}

// parts returns the errors in a list of errors, or nil for a single error.
func parts(err error) []error {
	list, ok := err.(interface{ Unwrap() []error })
	if !ok || err.Error() != errors.Join(list.Unwrap()...).Error() {
		return nil
	}
	return list.Unwrap()
}

// failures are the errors of several independent actions.
type failures []error

// Error returns one failure on each line.
func (f failures) Error() string { return errors.Join(f...).Error() }

// Unwrap returns the failures.
func (f failures) Unwrap() []error { return f }

// err returns nil if nothing failed.
func (f failures) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// errUsage is wrapped by errors about the command line itself.
var errUsage = errors.New("wrong usage")

// usageError converts an error to an error about wrong usage.
func usageError(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w: %w (see %s --help)", errUsage, err, cmd.CommandPath())
}

// flagError describes the error in the value of a flag.
func flagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return usageError(cmd, err)
	}
	flag, what := invalid.GetFlag(), err.Error()
	switch t := flag.Value.Type(); {
	case t == "duration" || t == "durationSlice":
		what = "not a duration: write a number and a unit, as in 500ms or 30s"
	case t == "delay", t == "share":
		what = errors.Unwrap(invalid).Error()
	case t == "bool":
		what = "not true or false"
	case errors.Is(err, strconv.ErrRange):
		what = "too large"
	case t == "int" || t == "float64" || t == "float64Slice":
		what = "not a number"
	}
	return usageError(cmd, fmt.Errorf("--%s %s: %s", flag.Name, invalid.GetValue(), what))
}

// version returns the version of this program: the version of its module and the commit from
// which it was built, as far as known.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if commit := settings["vcs.revision"]; commit != "" {
		v += " (commit " + commit[:min(len(commit), 12)]
		if settings["vcs.modified"] == "true" {
			v += ", changed"
		}
		v += ")"
	}
	return v
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of beamscope",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := safetext.Fprintln(cmd.OutOrStdout(), "beamscope", version())
			return err
		},
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "beamscope",
		Short:         "An oscilloscope for running Erlang systems",
		Long:          "beamscope attaches to the probes of running Erlang VMs with eBPF and shows ΔQ,\ndelay and failure as one distribution, of what happens in them.",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noCommand,

		SuggestionsMinimumDistance: 2,

		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("beamscope {{.Version}}\n")
	root.AddCommand(newRunCommand(), newRecordCommand(), newReplayCommand(), newSnapshotsCommand(), newTraceCommand(), newExportCommand(), newDemoCommand(), newProbesCommand(), newScriptCommand(), newDoctorCommand(), newTopCommand(),
		newEvalCommand(), newFmtCommand(), newDrawCommand(), newVersionCommand())
	return root
}

// noCommand rejects arguments that are not the name of a command.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		hint := ""
		if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
			hint = ": did you mean " + strings.Join(names, " or ") + "?"
		}
		return usageError(cmd, fmt.Errorf("unknown command %q%s", args[0], hint))
	}
	return nil
}

// oneArgument requires exactly one positional argument.
func oneArgument(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usageError(cmd, fmt.Errorf("name %s", what))
		case len(args) > 1:
			return usageError(cmd, fmt.Errorf("unexpected argument %q", args[1]))
		}
		return nil
	}
}

// noArguments rejects positional arguments.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError(cmd, fmt.Errorf("unexpected argument %q", args[0]))
	}
	return nil
}
