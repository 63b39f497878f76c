package fire

import (
	"context"
	"strconv"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/fire/hits"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/usdt"
)

// The probes that mark scenarios, as in vm_events.erl.
const (
	beginMark = dtrace.UserTrace + "1"
	endMark   = dtrace.UserTrace + "2"
)

// A places contains the places to count in an executable.
type places struct {
	release int // of Erlang/OTP
	list    []hits.Place
	names   []string        // of the probes, by place
	present map[string]bool // all probes, including those that are not counted
}

// locate finds the probes in an executable, and the functions that stand in for some. It leaves out
// those that the catalogue does not call harmless. The error wraps [dtrace.ErrRefused] if none is
// left.
func locate(ctx context.Context, path string) (places, error) {
	image, err := vm.ReadImage(ctx, path, nil)
	if err != nil {
		return places{}, err
	}
	if err := dtrace.Refuse(beginMark, image.Release); err != nil {
		return places{}, err
	}
	found := places{release: image.Release, present: make(map[string]bool)}
	for _, p := range image.Probes {
		found.probe(p)
	}
	return found, nil
}

func (p *places) probe(probe usdt.Probe) {
	p.present[probe.Name] = true
	if dtrace.Refuse(probe.Name, p.release) != nil {
		return
	}
	known, _ := dtrace.Lookup(probe.Name)
	p.list = append(p.list, hits.Place{
		Sites:  probe.Sites,
		Return: known.Function != nil && known.Function.Return,
		Mark:   mark(probe.Name),
	})
	p.names = append(p.names, probe.Name)
}

func mark(name string) hits.Mark {
	switch name {
	case beginMark:
		return hits.Begins
	case endMark:
		return hits.Ends
	}
	return hits.None
}

// byName returns counts by probe name.
func (p *places) byName(counts []hits.Count, of func(hits.Count) uint64) map[string]uint64 {
	named := make(map[string]uint64, len(counts))
	for i, c := range counts {
		named[p.names[i]] = of(c)
	}
	return named
}

// members returns the names of the probes of a catalogue entry.
func members(p dtrace.Probe) []string {
	if p.Family == 0 {
		return []string{p.Name}
	}
	names := make([]string, p.Family)
	for i := range names {
		names[i] = p.Name + strconv.Itoa(i)
	}
	return names
}
