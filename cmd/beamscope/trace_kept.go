package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/session"
	"github.com/beamscope/beamscope/internal/worst"
)

// A keeping is a printer that keeps the worst instances of what it is to print. It notes
// what it takes to say why there are none.
type keeping struct {
	*worst.Keeper

	from, to       int64              // of the windows that were observed, nanoseconds of CLOCK_MONOTONIC
	started, ended uint64             // instances
	vms            []outcome.VMStatus // when the observation was over
	found          bool               // spans were discovered
	whole          int                // windows that were observed as a whole
}

// Frame implements printer.
func (k *keeping) Frame(f *scope.Frame) error {
	if k.to == 0 {
		k.from = f.Window.From
	}
	k.to = f.Window.To
	wall := func(t int64) time.Time { return f.Time.Add(time.Duration(t - f.Window.To)) }
	for i := range f.Probes {
		p := &f.Probes[i]
		k.Add(p.Instances, wall)
		k.started += p.Counts.Starts
		k.ended += p.Counts.Instances()
	}
	return nil
}

// Close implements printer.
func (k *keeping) Close() error { return nil }

// finish notes the state of the VMs when the observation is over, and how many windows were
// observed as a whole.
func (k *keeping) finish(s session.Status, whole int) {
	k.vms, k.found, k.whole = s.VMs, s.Spans, whole
}

// nothing returns the error that says why no span was explained. Where spans are
// discovered, those before the discovery are not explained.
func (k *keeping) nothing(discover bool) error {
	took := time.Duration(k.to - k.from).Round(100 * time.Millisecond)
	why := ""
	switch exited := k.exited(); {
	case exited != "":
		why = fmt.Sprintf("%s exited, %v after the observation began", exited, took)
	case k.ended > 0:
		why = fmt.Sprintf("%d ended in %v, and nothing was recorded of them", k.ended, took)
	case k.started > 0:
		why = fmt.Sprintf("%d started in %v and none ended: give them more time with --for", k.started, took)
	case k.found:
		why = fmt.Sprintf("spans were found, and it ended %v after the observation began, before any of them was observed: let it run for some seconds", took)
	case k.whole < leastWhole:
		why = tooShort
	default:
		why = fmt.Sprintf("none started in %v", took)
	}
	if discover {
		why += ". New names of spans are looked for about once a second, and explained from then on; a scope file (-c) names them from the beginning"
	}
	return fmt.Errorf("no span was explained: %s", why)
}

// exited names the VMs where all that were observed have exited, and is empty otherwise.
func (k *keeping) exited() string {
	var names []string
	for _, v := range k.vms {
		switch {
		case v.Refused != "":
		case !v.Ended:
			return ""
		default:
			names = append(names, v.VM.String())
		}
	}
	return strings.Join(names, ", ")
}
