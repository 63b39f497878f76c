package fire

import (
	"strconv"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/fire/hits"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/usdt"
)

// The probes that mark scenarios, as vm_events.erl has it.
const (
	beginMark = dtrace.UserTrace + "1"
	endMark   = dtrace.UserTrace + "2"
)

// places are what there is to count in an executable.
type places struct {
	release int // of Erlang/OTP
	list    []hits.Place
	names   []string        // of the probes, by place
	present map[string]bool // all probes, also those that are not to be counted
}

// locate finds the probes in an executable, and the functions that stand in for some.
// Those that the catalogue does not know to be harmless are not counted. The error wraps
// [dtrace.ErrRefused] where that holds of all.
func locate(path string) (places, error) {
	image, err := vm.ReadImage(path)
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

// byName returns counts by the names of probes.
func (p *places) byName(counts []hits.Count, of func(hits.Count) uint64) map[string]uint64 {
	named := make(map[string]uint64, len(counts))
	for i, c := range counts {
		named[p.names[i]] = of(c)
	}
	return named
}

// members returns the names of the probes that an entry of the catalogue stands for.
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
