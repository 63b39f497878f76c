package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/privilege"
	"github.com/beamscope/beamscope/internal/safetext"
)

// What commands keep of the capabilities that they are started with. They keep it until
// they end: VMs that start later are attached to, and files are written when somebody asks.
// docs/privileges.md says what each is for.
var (
	readsFiles  = privilege.Of(unix.CAP_DAC_READ_SEARCH)
	writesFiles = readsFiles | privilege.Of(unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER)
	readsVMs    = readsFiles | privilege.Of(unix.CAP_SYS_PTRACE, unix.CAP_CHECKPOINT_RESTORE)
	attaches    = readsVMs | privilege.Of(unix.CAP_BPF, unix.CAP_PERFMON)
	measures    = attaches | privilege.Of(unix.CAP_SYS_ADMIN)
)

// keptBy returns what each command keeps; others keep nothing.
func keptBy() map[string]privilege.Set {
	return map[string]privilege.Set{
		"run":       measures | writesFiles,
		"record":    measures | writesFiles,
		"demo":      measures | writesFiles,
		"trace":     measures,
		"top":       measures,
		"doctor":    attaches,
		"probes":    readsVMs,
		"script":    readsVMs | writesFiles,
		"replay":    writesFiles,
		"snapshots": writesFiles,
		"export":    writesFiles,
		"fmt":       writesFiles,
		"draw":      writesFiles,
		"eval":      readsFiles,
	}
}

// reducePrivileges gives up what the command of a command line does not need, for which it
// may execute the program again. Where that is not possible it says so and goes on, unless
// the error is not nil.
func reducePrivileges(args []string, log io.Writer) error {
	root := newRootCommand()
	cmd, rest, err := root.Find(args)
	if err != nil || cmd.ParseFlags(rest) != nil || builds(cmd) {
		return nil
	}
	for cmd.HasParent() && cmd.Parent() != root {
		cmd = cmd.Parent()
	}
	err = privilege.Reduce(keptBy()[cmd.Name()])
	if errors.Is(err, privilege.ErrKept) {
		safetext.Fprintln(log, err)
		return nil
	}
	return err
}

// builds reports whether a command may build an Erlang VM, for which it runs the system's
// package manager: that needs all privileges, and to keep them.
func builds(cmd *cobra.Command) bool {
	fires, _ := cmd.Flags().GetBool("fire")
	named, _ := cmd.Flags().GetString("otp")
	if cmd.Name() != "demo" && !fires || named != "" {
		return false
	}
	_, err := erlang.FindOTP(context.Background())
	return errors.Is(err, erlang.ErrNoOTP)
}
