package vm

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/beamscope/beamscope/usdt"
)

// Await waits until there is a VM that matches the target, and searches at this interval. A VM
// without probes does not count, unless the target selects certain processes or also accepts the
// VM. If also is nil, it accepts none. Await calls refused once for each VM that does not count,
// with an error that wraps [ErrNoProbes].
// If the context ends first, Await returns its error. If waiting is useless, it returns that of
// [Find].
func Await(ctx context.Context, t Target, every time.Duration, also func(context.Context, VM) bool, refused func(error)) error {
	if also == nil {
		also = func(context.Context, VM) bool { return false }
	}
	var finder Finder
	known := make(map[usdt.Process]bool)
	for {
		found, _, err := finder.Find(ctx, t)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && (t.Single() || anyCounts(ctx, &finder, found, known, also, refused)):
			return nil
		case err != nil && (!errors.Is(err, ErrNone) || errors.Is(err, ErrHidden)):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// anyCounts reports whether one of the VMs has probes or is accepted by also. It adds VMs without
// probes to known.
func anyCounts(ctx context.Context, f *Finder, vms []VM, known map[usdt.Process]bool, also func(context.Context, VM) bool, refused func(error)) bool {
	for _, v := range FewestFirst(vms) {
		if also(ctx, v) {
			return true
		}
		if known[v.Process] {
			continue
		}
		_, err := Read(ctx, f, v, ImageOf)
		if err == nil {
			return true
		}
		if errors.Is(err, ErrNoProbes) { // other errors may be temporary
			known[v.Process] = true
			refused(err)
		}
	}
	return false
}

// FewestFirst returns the VMs of users with few VMs before those of users with many. A user may start many
// whose executables take long to read. Otherwise it keeps the order.
func FewestFirst(vms []VM) []VM {
	users := make(map[int]int)
	for _, v := range vms {
		users[v.Account]++
	}
	vms = slices.Clone(vms)
	slices.SortStableFunc(vms, func(a, b VM) int { return cmp.Compare(users[a.Account], users[b.Account]) })
	return vms
}
