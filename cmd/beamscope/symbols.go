package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/internal/beam/debuginfod"
	"github.com/beamscope/beamscope/internal/beam/symbols"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/safetext"
	"github.com/beamscope/beamscope/usdt"
)

// debuginfodURLs is the environment variable that names servers of debugging information.
const debuginfodURLs = "DEBUGINFOD_URLS"

// symbolsFlags give the places of symbols that were stripped from the executables of VMs.
type symbolsFlags struct {
	dir   string
	store *symbols.Store
}

func (f *symbolsFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dir, "symbols", "", "folder with the symbols and debugging information that were stripped from the VM")
}

// check makes the store. It must be called before target.
func (f *symbolsFlags) check(cmd *cobra.Command) error {
	var folders []string
	if cmd.Flags().Changed("symbols") {
		dir, err := filepath.Abs(f.dir)
		if err != nil {
			return fmt.Errorf("--symbols %s: %w", f.dir, err)
		}
		info, err := os.Stat(dir)
		if f.dir == "" || err != nil || !info.IsDir() {
			return usageError(cmd, fmt.Errorf("--symbols %s: not a folder", f.dir))
		}
		folders = append(folders, dir)
	}
	if os.Getenv(debuginfodURLs) != "" {
		if folder := debuginfod.Folder(os.Getenv); folder != "" {
			folders = append(folders, folder)
		}
	}
	if len(folders) > 0 {
		f.store = symbols.New(folders...)
	}
	return nil
}

// fetchMost is the maximum number of files that are fetched before a command begins.
const fetchMost = 4

// fetch fetches the symbols of the running VMs of a target, if the environment names servers and
// the symbols are not available otherwise. The log lists the fetched files, and those that cannot
// be fetched.
func (f *symbolsFlags) fetch(ctx context.Context, target vm.Target, log io.Writer) {
	servers := os.Getenv(debuginfodURLs)
	if servers == "" {
		return
	}
	client, err := debuginfod.New(servers, debuginfod.Folder(os.Getenv))
	if err != nil {
		safetext.Fprintf(log, "%s: %v\n", debuginfodURLs, err)
		return
	}
	var finder vm.Finder
	vms, _, err := finder.Find(ctx, target)
	if err != nil {
		return // commands that need a VM report this
	}
	var asked []string
	for _, v := range vms {
		id, err := vm.Read(ctx, &finder, v, missingSymbols)
		if err != nil || id == "" || slices.Contains(asked, id) || len(asked) == fetchMost {
			continue
		}
		asked = append(asked, id)
		safetext.Fprintf(log, "pid %d: its executable was stripped: asking %s for its symbols\n", v.PID(), servers)
		if err := client.Fetch(ctx, id); err != nil && ctx.Err() == nil {
			safetext.Fprintf(log, "pid %d: %v\n", v.PID(), oneLine(err))
		}
	}
}

// missingSymbols returns the build ID of an executable whose symbols are nowhere, "" for others.
func missingSymbols(f *usdt.File) (string, error) {
	if f.AllSymbols() {
		return "", nil
	}
	return f.BuildID(), nil
}

// oneLine returns the first of several errors.
func oneLine(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) > 0 {
		return errors.Join(joined.Unwrap()[0])
	}
	return err
}
