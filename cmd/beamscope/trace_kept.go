package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/engine/worst"
)

// A keeping is a printer that keeps the worst instances to print. It also records the reasons for
// having none.
type keeping struct {
	*worst.Keeper

	from, to       int64              // beginning and end of the observed windows, nanoseconds of CLOCK_MONOTONIC
	started, ended uint64             // numbers of instances
	vms            []outcome.VMStatus // status at the end of the observation
	found          bool               // spans were discovered
	whole          int                // number of completely observed windows
}

// Frame implements printer.
func (k *keeping) Frame(f *scope.Frame) error {
	if k.to == 0 {
		k.from = f.Window.From
	}
	k.to = f.Window.To
	wall := func(t int64) time.Time { return f.Time.Add(time.Duration(t - f.Window.To)) }
	for i := range f.Outcomes {
		p := &f.Outcomes[i]
		k.Fitted = func(string) bool { return p.Fitted }
		k.Add(p.Instances, wall)
		k.started += p.Counts.Starts
		k.ended += p.Counts.Instances()
	}
	return nil
}

// Close implements printer.
func (k *keeping) Close() error { return nil }

// finish records the state of the VMs at the end of the observation, and the number of completely
// observed windows.
func (k *keeping) finish(s session.Status, whole int) {
	k.vms, k.found, k.whole = s.VMs, s.Spans, whole
}

// nothing returns the error that no span was explained, with the reason. With discovery, spans
// before their discovery are not explained.
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
		why += ". beamscope looks for new names of spans about once a second, and explains these spans from then on; with a scope file (-c) it knows the names from the beginning"
	}
	return fmt.Errorf("no span was explained: %s", why)
}

// exited names the observed VMs if all have exited, and returns "" otherwise.
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
