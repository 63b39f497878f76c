package vm

import (
	"context"
	"errors"
	"time"

	"github.com/beamscope/beamscope/usdt"
)

// Await waits until there is a VM that the target means, and looks for one at this
// interval. VMs without probes do not count, unless the target is certain processes:
// refused is called once for each, with an error that wraps [ErrNoProbes].
//
// The error is that of the context when it is done first, and that of [Find] where
// looking longer is of no use.
func Await(ctx context.Context, t Target, every time.Duration, refused func(error)) error {
	var finder Finder
	known := make(map[usdt.Process]bool)
	for {
		found, _, err := finder.Find(ctx, t)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && (t.Single() || anyProbes(ctx, &finder, found, known, refused)):
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

// anyProbes reports whether one of the VMs has probes. Those that have none are known
// afterwards.
func anyProbes(ctx context.Context, f *Finder, vms []VM, known map[usdt.Process]bool, refused func(error)) bool {
	for _, v := range vms {
		if known[v.Process] {
			continue
		}
		_, err := Read(ctx, f, v, ImageOf)
		if err == nil {
			return true
		}
		if errors.Is(err, ErrNoProbes) { // another error may be of a moment
			known[v.Process] = true
			refused(err)
		}
	}
	return false
}
