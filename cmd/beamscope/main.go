// Command beamscope is an oscilloscope for running Erlang systems.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/internal/config"
)

// Exit statuses.
const (
	statusDone   = 0
	statusFailed = 1
	statusUsage  = 2
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run executes the command line and returns the exit status.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return statusDone
	}
	fmt.Fprintln(os.Stderr, "beamscope:", err)
	if errors.Is(err, errUsage) || errors.Is(err, config.ErrInvalid) {
		return statusUsage
	}
	return statusFailed
}

// errUsage is wrapped by errors of the command line itself.
var errUsage = errors.New("wrong usage")

// usageError makes an error of wrong usage out of another one.
func usageError(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w: %w (see %s --help)", errUsage, err, cmd.CommandPath())
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "beamscope",
		Short:         "An oscilloscope for running Erlang systems",
		Long:          "beamscope attaches to the probes of running Erlang VMs with eBPF and shows ΔQ,\ndelay and failure as one distribution, of what happens in them.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(usageError)
	root.AddCommand(newRunCommand(), newDemoCommand(), newProbesCommand(), newDoctorCommand())
	return root
}

// noArguments refuses positional arguments.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError(cmd, fmt.Errorf("unexpected argument %q", args[0]))
	}
	return nil
}
