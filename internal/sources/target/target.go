// Package target makes a target for attaching programs from the description of a VM's executable.
package target

import (
	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/seen"
)

// Of returns the target for an executable: its probes, and the functions that stand in for others.
// The path leads to the executable.
func Of(path string, image vm.Image) bpf.Target {
	t := bpf.Target{
		Path: path, Probes: image.Probes, Release: image.Release,
		Terms: bpf.Terms(image.Terms), NoTerms: image.NoTerms,
		StandIns: image.StandIns(), Shared: image.Shared,
		Messages: make(map[uint64]bpf.Message, len(image.Messages)),
	}
	for site, m := range image.Messages {
		t.Messages[site] = bpf.Message(m)
	}
	for _, f := range image.Fetches {
		t.Fetches = append(t.Fetches, bpf.Fetch(f))
	}
	t.Unseen = make(map[string]string)
	for _, p := range dtrace.Catalogue() {
		if why := image.Sees(p).Unseen; why != "" && (t.StandIns || p.Function != nil) {
			t.Unseen[p.Name] = why
		}
	}
	return t
}

// Unseen returns the built-in outcomes that cannot be observed in VMs that run an executable, and
// why not, by their names.
func Unseen(image vm.Image) map[string]string {
	t, unseen := Of("", image), make(map[string]string)
	for _, b := range dtrace.Builtins() {
		if err := t.Sees(bpf.Outcome{Name: b.Name, Rule: &b.Rule}); err != nil {
			unseen[b.Name] = err.Error()
		}
	}
	return unseen
}

// Sights returns how the events of each built-in outcome are seen in VMs that run an executable, by the
// outcome's name, if eBPF can be used. noProbes is the reason why the executable reports no events, or
// "" if it does.
func Sights(image vm.Image, noProbes string) map[string]seen.Sight {
	unseen, sights := Unseen(image), make(map[string]seen.Sight)
	for _, b := range dtrace.Builtins() {
		var sight seen.Sight
		switch {
		case b.Rule.RunQueue:
			sight = seen.By(seen.Kernel)
		case noProbes != "":
			sight = seen.Not(noProbes)
		case unseen[b.Name] != "":
			sight = seen.Not(unseen[b.Name])
		}
		for _, p := range b.Rule.Probes() {
			if way := image.Sees(p).Way(); way != "" && sight.Why == "" {
				sight = sight.With(way)
			}
		}
		sights[b.Name] = sight
	}
	return sights
}
