package fire

import (
	"errors"
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
	list    []hits.Place
	names   []string        // of the probes, by place
	present map[string]bool // all probes, also those that are not to be counted
}

func (p *places) add(name string, place hits.Place) {
	p.list = append(p.list, place)
	p.names = append(p.names, name)
	p.present[name] = true
}

// locate finds the probes in an executable, and the functions that stand in for some.
// Those that the catalogue does not know, or knows to be dangerous, are not counted.
func locate(path string) (places, error) {
	probes, err := vm.Probes(path)
	if err != nil {
		return places{}, err
	}
	found := places{present: make(map[string]bool)}
	for _, p := range probes {
		found.probe(p)
	}
	return found, found.functions(path)
}

func (p *places) probe(probe usdt.Probe) {
	p.present[probe.Name] = true
	if known, ok := dtrace.Lookup(probe.Name); ok && known.Hazard == "" {
		p.add(probe.Name, hits.Place{Sites: probe.Sites, Mark: mark(probe.Name)})
	}
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

func (p *places) functions(path string) error {
	file, err := usdt.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for _, stand := range dtrace.Catalogue() {
		if stand.Function == nil || stand.Hazard != "" {
			continue
		}
		_, offset, err := file.Symbol(stand.Function.Symbol)
		if errors.Is(err, usdt.ErrNoSymbol) {
			continue
		}
		if err != nil {
			return err
		}
		p.add(stand.Name, hits.Place{Sites: []usdt.Site{{Offset: offset}}, Return: stand.Function.Return})
	}
	return nil
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
