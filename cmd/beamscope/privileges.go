package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/host/privilege"
	"github.com/beamscope/beamscope/internal/host/safetext"
)

// The capabilities that commands keep of those with which they are started. They keep them until
// they end, because they attach to VMs that start later and write files when the user asks for
// that. docs/how-to/privileges.md explains the use of each.
var (
	readsFiles  = privilege.Of(privilege.DACReadSearch)
	writesFiles = readsFiles | privilege.Of(privilege.DACOverride, privilege.FOwner)
	readsVMs    = readsFiles | privilege.Of(privilege.SysPtrace, privilege.CheckpointRestore)
	attaches    = readsVMs | privilege.Of(privilege.BPF, privilege.Perfmon)
	measures    = attaches | privilege.Of(privilege.SysAdmin)
	writesVMs   = privilege.Of(privilege.DACOverride) // renews the lease of spans in their memory
)

// keptBy returns the capabilities that each command keeps. Other commands keep none.
func keptBy() map[string]privilege.Set {
	return map[string]privilege.Set{
		"run":       measures | writesFiles,
		"record":    measures | writesFiles,
		"demo":      measures | writesFiles,
		"trace":     measures | writesVMs,
		"top":       measures,
		"doctor":    measures,
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

// reducePrivileges gives up the capabilities that the command on a command line does not need.
// For that it may execute the program again. If this is impossible, it logs that and returns nil,
// unless continuing would be wrong.
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

// builds reports whether a command may build an Erlang VM. For that it runs the system's package
// manager, which needs all privileges permanently.
func builds(cmd *cobra.Command) bool {
	fires, _ := cmd.Flags().GetBool("fire")
	named, _ := cmd.Flags().GetString("otp")
	stock, _ := cmd.Flags().GetBool("stock")
	if cmd.Name() != "demo" && !fires || named != "" || stock {
		return false
	}
	_, err := erlang.FindOTP(context.Background())
	return errors.Is(err, erlang.ErrNoOTP)
}
