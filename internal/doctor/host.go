package doctor

import (
	"context"
	"os"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/usdt"
)

// Host returns the machine that this runs on, with the VMs that the target means.
func Host(target vm.Target) System {
	return System{
		OS:   runtime.GOOS,
		Arch: runtime.GOARCH,
		Root: os.DirFS("/"),
		EBPF: bpf.Supported,
		Features: []Feature{
			{"uprobe_multi", features.HaveBPFLinkUprobeMulti},
			{"ring buffer", func() error { return features.HaveMapType(ebpf.RingBuf) }},
		},
		Subjects: bpf.Subjects,
		PID:      target.PID,
		VMs:      func(ctx context.Context) ([]VM, usdt.Skipped, error) { return running(ctx, target) },
		Try:      try,
	}
}

// running describes the VMs that the target means.
func running(ctx context.Context, target vm.Target) ([]VM, usdt.Skipped, error) {
	var finder vm.Finder
	found, skipped, err := finder.Find(ctx, target)
	if err != nil {
		return nil, skipped, err
	}
	var vms []VM
	for _, f := range found {
		image, err := vm.Read(ctx, &finder, f, vm.ImageOf)
		vms = append(vms, VM{
			PID:     f.PID(),
			Node:    f.Node,
			Exe:     f.Exe.Name,
			Flavour: string(image.Flavour),
			Probes:  len(image.Probes),
			Stopped: f.Stopped(),
			Err:     err,
		})
	}
	return vms, skipped, nil
}

// try attaches a collector of one outcome to a VM. The outcome's name is one that
// no program uses, so that nothing is counted; the VM notices nothing but that
// one of its user_trace probes is wanted for a moment.
func try(ctx context.Context, v VM) (t Trial, err error) {
	var finder vm.Finder
	found, _, err := finder.Find(ctx, vm.Target{PID: v.PID})
	if err != nil {
		return Trial{}, err
	}
	target, err := vm.Read(ctx, &finder, found[0], targetOf)
	if err != nil {
		return Trial{}, err
	}
	defer target.Close()
	target.PID = v.PID
	begin := time.Now()
	collector, err := bpf.New(bpf.Options{
		Outcomes:  []bpf.Outcome{{Name: "beamscope doctor", DMax: int64(time.Second), BinWidth: int64(time.Second), Bins: 1}},
		Start:     monotonic.Now(),
		Window:    int64(time.Second),
		OpenSpans: 64,
	})
	if err != nil {
		return Trial{}, err
	}
	_, err = collector.Attach(ctx, target.Target)
	t.Attach = time.Since(begin)
	begin = time.Now()
	if closeErr := collector.Close(); err == nil {
		err = closeErr
	}
	t.Detach = time.Since(begin)
	return t, err
}

// A fileTarget is a target with its file open.
type fileTarget struct {
	bpf.Target
	*usdt.File
}

// targetOf returns what to attach to in an executable: the file that the probes are read
// from, whatever the process runs by then.
func targetOf(f *usdt.File) (fileTarget, error) {
	image, err := vm.ImageOf(f)
	if err != nil {
		return fileTarget{}, err
	}
	own, err := f.Again()
	return fileTarget{bpf.Target{Path: own.Path(), Probes: image.Probes, Release: image.Release}, own}, err
}
