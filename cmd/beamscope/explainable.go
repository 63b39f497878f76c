package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/beam/vm"
)

// explainable returns the reason why no spans of the VMs in a target can be explained: none of
// them has probes or is a build whose spans programs in the kernel see, or eBPF cannot be used. It
// returns nil if some can be explained, or if that is unknown: then observing the VMs will show it.
func explainable(ctx context.Context, target vm.Target) error {
	var finder vm.Finder
	vms, _, err := finder.Find(ctx, target)
	if err != nil {
		return nil
	}
	if err := bpf.Supported(); err != nil {
		return fmt.Errorf("spans cannot be explained: %w", err)
	}
	slices.SortFunc(vms, func(a, b vm.VM) int { return cmp.Compare(a.PID(), b.PID()) })
	for _, same := range vm.Files(vms) {
		image, err := vm.Read(ctx, &finder, same[0], vm.ImageOf)
		if !errors.Is(err, vm.ErrNoProbes) && image.Unknown == nil {
			return nil
		}
	}
	named := fmt.Sprintf("pid %d (%s)", vms[0].PID(), vms[0].Exe.Name)
	if len(vms) > 1 {
		named += fmt.Sprintf(" and %d more", len(vms)-1)
	}
	return fmt.Errorf("spans of %s cannot be explained: %w. `beamscope run` shows how long they take, and `beamscope top` where the time of the VM goes", named, vm.ErrNoProbes)
}
