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
	found, skipped, err := vm.Find(ctx, target)
	if err != nil {
		return nil, skipped, err
	}
	var vms []VM
	for _, f := range found {
		probes, err := f.Probes()
		vms = append(vms, VM{
			PID:     f.PID(),
			Node:    f.Node,
			Exe:     f.Exe.Name,
			Flavour: string(vm.FlavourOf(f.Exe.Path)),
			Probes:  len(probes),
			Err:     err,
		})
	}
	return vms, skipped, nil
}

// try attaches a collector of one outcome to a VM. The outcome's name is one that
// no program uses, so that nothing is counted; the VM notices nothing but that
// one of its user_trace probes is wanted for a moment.
func try(ctx context.Context, v VM) (t Trial, err error) {
	found, _, err := vm.Find(ctx, vm.Target{PID: v.PID})
	if err != nil {
		return Trial{}, err
	}
	image, err := found[0].Image()
	if err != nil {
		return Trial{}, err
	}
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
	_, err = collector.Attach(bpf.Target{Path: found[0].Exe.Path, PID: v.PID, Probes: image.Probes, Release: image.Release})
	t.Attach = time.Since(begin)
	begin = time.Now()
	if closeErr := collector.Close(); err == nil {
		err = closeErr
	}
	t.Detach = time.Since(begin)
	return t, err
}
