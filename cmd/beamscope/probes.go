package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/safetext"
	"github.com/beamscope/beamscope/internal/sources/ring"
	"github.com/beamscope/beamscope/internal/sources/target"
	"github.com/beamscope/beamscope/internal/ui/probes"
	"github.com/beamscope/beamscope/usdt"
)

type probesFlags struct {
	pid  int
	exe  string
	json bool
	all  bool

	symbols symbolsFlags
}

func newProbesCommand() *cobra.Command {
	var f probesFlags
	cmd := &cobra.Command{
		Use:   "probes",
		Short: "List the probes of an Erlang VM and the programs attached to them",
		Long: "probes lists the probes of the Erlang VMs that run, or of an executable: their\n" +
			"arguments and sites, whether they ever fire, and whether a tracer is attached.\n" +
			"Below, it lists events that are seen in other ways or not at all, with the reasons.\n" +
			"Then it lists the built-in outcomes, with a reason for each that is not available.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			listings, err := f.listings(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return f.print(cmd.OutOrStdout(), listings)
		},
	}
	cmd.Flags().IntVar(&f.pid, "pid", 0, "list the probes of this VM")
	cmd.Flags().StringVar(&f.exe, "exe", "", "list the probes of this executable, such as …/bin/beam.smp; it need not run")
	f.symbols.register(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object a line for each probe, with its sites, and for each built-in outcome")
	cmd.Flags().BoolVar(&f.all, "all", false, "list user_trace-n0 to user_trace-n950 one by one")
	return cmd
}

func (f *probesFlags) check(cmd *cobra.Command) error {
	switch {
	case cmd.Flags().Changed("pid") && cmd.Flags().Changed("exe"):
		return usageError(cmd, errors.New("--pid and --exe: give one of them"))
	case cmd.Flags().Changed("pid") && f.pid <= 0:
		return usageError(cmd, fmt.Errorf("--pid %d: not a process id", f.pid))
	case cmd.Flags().Changed("exe") && f.exe == "":
		return usageError(cmd, errors.New("--exe: no file given"))
	}
	return f.symbols.check(cmd)
}

// listings returns a listing for each executable. It logs executables that cannot be listed, unless
// there are no others.
func (f probesFlags) listings(ctx context.Context, log io.Writer) ([]probes.Listing, error) {
	if f.exe != "" {
		return f.read(f.exe)
	}
	var finder vm.Finder
	target := vm.Target{PID: f.pid, Symbols: f.symbols.store}
	f.symbols.fetch(ctx, target, log)
	vms, skipped, err := finder.Find(ctx, target)
	if errors.Is(err, vm.ErrNone) && !errors.Is(err, vm.ErrHidden) && f.pid == 0 {
		return nil, fmt.Errorf("%w: start one, or name an executable with --exe", err)
	}
	if err != nil {
		return nil, err
	}
	var (
		listings []probes.Listing
		failed   []error
	)
	for file, vms := range vm.Files(vms) {
		image, noProbes, err := withoutProbes(vm.Read(ctx, &finder, vms[0], vm.ImageOf))
		if err != nil {
			failed = append(failed, err)
			continue
		}
		listing := f.listing(ctx, &finder, file.Name, image, noProbes, vms)
		listing.Recording = recordingSpans(ctx, vms, log)
		listings = append(listings, listing)
	}
	if len(listings) == 0 {
		return nil, failed[0]
	}
	if skipped.Count > 0 {
		safetext.Fprintln(log, skipped)
	}
	for _, err := range failed {
		safetext.Fprintln(log, err)
	}
	slices.SortFunc(listings, func(a, b probes.Listing) int { return cmp.Compare(a.PIDs[0], b.PIDs[0]) })
	return listings, nil
}

// recordingSpans returns the pids of the VMs that record spans in their memory. It logs VMs whose
// memory it cannot read.
func recordingSpans(ctx context.Context, vms []vm.VM, log io.Writer) (pids []int) {
	for _, v := range vms {
		recorded, err := ring.Recorded(ctx, v)
		if err != nil && ctx.Err() == nil {
			safetext.Fprintf(log, "pid %d: whether it records spans is not known: %v\n", v.PID(), err)
		}
		if recorded {
			pids = append(pids, v.PID())
		}
	}
	return pids
}

// read lists the probes of an executable that need not be running.
func (f probesFlags) read(exe string) ([]probes.Listing, error) {
	const hint = "give the VM itself, …/erts-…/bin/beam.smp"
	image, noProbes, err := withoutProbes(vm.ReadImage(context.Background(), exe, f.symbols.store))
	switch {
	case errors.Is(err, usdt.ErrFormat):
		return nil, fmt.Errorf("--exe %w: %s", err, hint)
	case errors.Is(err, vm.ErrNotVM) && !strings.HasPrefix(filepath.Base(exe), "beam."):
		return nil, fmt.Errorf("--exe %s: no probes of an Erlang VM: %s", exe, hint)
	case err != nil:
		return nil, fmt.Errorf("--exe: %w", err)
	}
	return []probes.Listing{f.listing(context.Background(), nil, exe, image, noProbes, nil)}, nil
}

// withoutProbes turns the error that a VM has no probes and is of an unknown build into its reason, and
// into an image without probes. It passes all else on.
func withoutProbes(image vm.Image, err error) (_ vm.Image, why string, _ error) {
	if unknown := (*vm.UnknownBuildError)(nil); errors.As(err, &unknown) {
		return vm.Image{Release: unknown.Release}, "the VM has no probes, and " + unknown.Error(), nil
	}
	return image, "", err
}

// listing lists the probes of one executable. noProbes is the reason why it has none and nothing stands
// in for them, or "".
func (f probesFlags) listing(ctx context.Context, finder *vm.Finder, exe string, image vm.Image, noProbes string, vms []vm.VM) probes.Listing {
	listing := probes.Listing{Exe: exe, Release: image.Release, Build: image.Build, ByCode: image.ByCode, Unknown: image.WhyUnknown(), NoProbes: noProbes, Sights: target.Sights(image, noProbes)}
	if noProbes == "" {
		listing.Unseen = target.Unseen(image)
	}
	opts := probes.Options{Release: image.Release, All: f.all, Image: image, NoProbes: noProbes, Interpreter: image.Flavour == vm.Interpreter}
	for _, v := range vms {
		listing.PIDs = append(listing.PIDs, v.PID())
		opts.Semaphores = append(opts.Semaphores, func(site usdt.Site) (uint16, error) {
			return finder.Semaphore(ctx, v, site)
		})
	}
	listing.Probes = probes.List(image.Probes, opts)
	return listing
}

func (f probesFlags) print(w io.Writer, listings []probes.Listing) error {
	for i, l := range listings {
		if f.json {
			if err := probes.JSON(w, l); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			safetext.Fprintln(w)
		}
		if err := probes.Text(w, l); err != nil {
			return err
		}
	}
	return nil
}
