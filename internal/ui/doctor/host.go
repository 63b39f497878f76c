package doctor

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/symbols"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/ring"
	"github.com/beamscope/beamscope/internal/sources/target"
	"github.com/beamscope/beamscope/usdt"
)

// Host returns this machine, with the VMs of the target.
func Host(target vm.Target) System {
	return System{
		OS:   runtime.GOOS,
		Arch: runtime.GOARCH,
		Root: os.DirFS("/"),
		EBPF: bpf.Supported,
		Features: []Feature{
			{"uprobe_multi", bpf.MultiLinks, "each place has a link of its own, and the names of spans that fire probes are not discovered"},
			{"ring buffer", func() error { return features.HaveMapType(ebpf.RingBuf) }, ""},
		},
		Subjects: bpf.Subjects,
		PID:      target.PID,
		VMs:      func(ctx context.Context) ([]VM, usdt.Skipped, error) { return running(ctx, target) },
		Spans:    recordsSpans,
		Try:      func(ctx context.Context, v VM) (Trial, error) { return try(ctx, v, target.Symbols) },
	}
}

// explained is the probe that reports spans that are explained.
const explained = "user_trace__n"

// running describes the VMs of the target.
func running(ctx context.Context, which vm.Target) ([]VM, usdt.Skipped, error) {
	var finder vm.Finder
	found, skipped, err := finder.Find(ctx, which)
	if err != nil {
		return nil, skipped, err
	}
	var vms []VM
	found, further := examined(found)
	for _, f := range found {
		read, err := vm.Read(ctx, &finder, f, func(f *usdt.File) (executableRead, error) { return readExecutable(ctx, f, which.Symbols) })
		if err == nil && read.noImage != nil {
			err = fmt.Errorf("pid %d (%s): %w", f.PID(), f.Exe.Name, read.noImage)
		}
		image := read.Image
		var outcomes []Outcome
		if err == nil {
			outcomes = outcomesIn(image)
		}
		vms = append(vms, VM{
			PID:      f.PID(),
			Node:     f.Node,
			Exe:      f.Exe.Name,
			Flavour:  string(image.Flavour),
			Probes:   len(image.Probes),
			Build:    image.Build.Package,
			ByCode:   image.ByCode,
			Unknown:  image.WhyUnknown(),
			Outcomes: outcomes,
			Explains: image.Build.Sees(explained),
			Stopped:  f.Stopped(),

			Stripped: read.stripped,
			Symbols:  read.symbols,
			BuildID:  read.buildID,
			Unfound:  read.unfound,
			Forged:   read.forged,
			Err:      err,
		})
	}
	for _, user := range slices.Sorted(maps.Keys(further)) {
		vms = append(vms, VM{Further: further[user], User: user})
	}
	return vms, skipped, nil
}

// mostOfUser is the largest number of VMs of a user that are examined, because each takes a second.
const mostOfUser = 16

// examined returns the VMs to examine, those of users with few VMs first, and the number of further
// VMs by user.
func examined(found []vm.VM) (kept []vm.VM, further map[int]int) {
	taken := make(map[int]int)
	further = make(map[int]int)
	for _, v := range vm.FewestFirst(found) {
		if taken[v.Account] == mostOfUser {
			further[v.Account]++
			continue
		}
		taken[v.Account]++
		kept = append(kept, v)
	}
	return kept, further
}

// outcomesIn returns how the events of each built-in outcome are seen in VMs that run an executable.
func outcomesIn(image vm.Image) (all []Outcome) {
	sights := target.Sights(image, "")
	for _, b := range dtrace.Builtins() {
		all = append(all, Outcome{Name: b.Name, Sight: sights[b.Name]})
	}
	return all
}

// An executableRead is the result of readExecutable.
type executableRead struct {
	vm.Image
	noImage          error // why there is no Image, nil if there is
	stripped         bool
	symbols, buildID string // see [VM]
	unfound, forged  error  // likewise
}

// readExecutable reads an executable, which may have no probes.
func readExecutable(ctx context.Context, f *usdt.File, store *symbols.Store) (executableRead, error) {
	image, err := vm.ImageOf(f)
	read := executableRead{
		Image: image, noImage: err,
		stripped: !f.HasSymbols(), symbols: f.SymbolsFrom(), buildID: f.BuildID(),
		forged: f.Disbelieved(),
	}
	if read.stripped && read.symbols == "" {
		read.unfound = whyUnfound(ctx, f, store)
	}
	return read, nil
}

// whyUnfound returns why no file has the symbols of an executable.
func whyUnfound(ctx context.Context, f *usdt.File, store *symbols.Store) error {
	found, err := store.Find(ctx, f)
	if err == nil { // it has come meanwhile
		return found.Close()
	}
	return err
}

// recordsSpans reports whether a VM records spans in its memory. It writes nothing there.
func recordsSpans(ctx context.Context, v VM) (bool, error) {
	found, _, err := vm.Find(ctx, vm.Target{PID: v.PID})
	if err != nil {
		return false, err
	}
	return ring.Recorded(ctx, found[0])
}

// try attaches a collector of one outcome to a VM. No program uses the outcome's name, so nothing
// is counted. The VM only sees one of its user_trace probes enabled for a moment. If it has none,
// try attaches to functions that stand in for the spawns and exits of processes.
func try(ctx context.Context, v VM, store *symbols.Store) (t Trial, err error) {
	var finder vm.Finder
	found, _, err := finder.Find(ctx, vm.Target{PID: v.PID, Symbols: store})
	if err != nil {
		return Trial{}, err
	}
	at, err := vm.Read(ctx, &finder, found[0], targetOf)
	if err != nil {
		return Trial{}, err
	}
	defer at.Close()
	at.PID = v.PID
	begin := time.Now()
	tried := bpf.Outcome{Name: "beamscope doctor", DMax: int64(time.Second), BinWidth: int64(time.Second), Bins: 1}
	if at.StandIns { // it has no user_trace probes
		for _, b := range dtrace.Builtins() {
			if (b.Name == "lifetime" || b.Name == "run") && at.Sees(bpf.Outcome{Name: b.Name, Rule: &b.Rule}) == nil {
				tried.Rule = &b.Rule
				break
			}
		}
	}
	collector, err := bpf.New(bpf.Options{
		Outcomes:  []bpf.Outcome{tried},
		Start:     monotonic.Now(),
		Window:    int64(time.Second),
		OpenSpans: 64,
	})
	if err != nil {
		return Trial{}, err
	}
	_, err = collector.Attach(ctx, at.Target)
	t.Attach = time.Since(begin)
	begin = time.Now()
	if closeErr := collector.Close(); err == nil {
		err = closeErr
	}
	t.Detach = time.Since(begin)
	return t, err
}

// A fileTarget is a target and its open file.
type fileTarget struct {
	bpf.Target
	*usdt.File
}

// targetOf returns the target to attach to in an executable. Attaching uses the open file, so it
// does not matter what the process runs by then.
func targetOf(f *usdt.File) (fileTarget, error) {
	image, err := vm.ImageOf(f)
	if err != nil {
		return fileTarget{}, err
	}
	own, err := f.Again()
	return fileTarget{target.Of(own.Path(), image), own}, err
}
