package scope

import (
	"fmt"
	"math"
	"slices"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/outcome"
)

// calculate evaluates the diagram for each VM that has a probe which it
// calculates. An outcome of another VM takes part where it is the only one of that
// name: parts of one system may run in several VMs.
func (e *Engine) calculate(f *Frame) error {
	e.vms = e.vms[:0]
	for i := range f.Probes {
		p := &f.Probes[i]
		if _, ok := e.composed[p.Name]; ok && !slices.Contains(e.vms, p.VM) {
			e.vms = append(e.vms, p.VM)
		}
	}
	for vm := range e.programs {
		if !slices.Contains(e.vms, vm) {
			delete(e.programs, vm)
		}
	}
	for _, vm := range e.vms {
		program, err := e.program(vm)
		if err != nil {
			return err
		}
		e.vm = vm
		if err := program.Evaluate(e.lookup); err != nil {
			return fmt.Errorf("calculate: %w", err)
		}
		for i := range f.Probes {
			if p := &f.Probes[i]; p.VM == vm {
				if err := e.calculateProbe(p, program); err != nil {
					return fmt.Errorf("probe %s: %w", p.Name, err)
				}
			}
		}
	}
	return nil
}

// program returns the program of a VM. Each has its own, because values belong to
// their program.
func (e *Engine) program(vm outcome.VM) (*diagram.Program, error) {
	if p, ok := e.programs[vm]; ok {
		return p, nil
	}
	p, err := diagram.Compile(e.system.Diagram)
	if err != nil {
		return nil, err
	}
	e.programs[vm] = p
	return p, nil
}

func (e *Engine) calculateProbe(p *Probe, program *diagram.Program) error {
	part, ok := e.composed[p.Name]
	if !ok {
		return nil
	}
	p.CalculatedFrom, p.CalculatedInsufficient = e.weakest(part)
	value, _ := program.Value(p.Name)
	c := calculated{value: value, width: part.width, sampling: e.sampling(part.uses)}
	return e.series[seriesKey{p.Name, p.VM}].calculate(p, c, e.frame.Number, e.system.History, e.system.Bounds)
}

// sampling returns how far a calculated ΔQ may be off because the outcomes that it is
// calculated from are samples. Those without instances are none: their bounds leave
// everything open.
func (e *Engine) sampling(uses []diagram.Use) (s dq.Sampling) {
	for _, u := range uses {
		if p := e.leaf(u.Outcome); p != nil && p.Counts.Instances() > 0 {
			s.Add(u.Weight, u.Times, p.Counts.Instances())
		}
	}
	return s
}

// weakest returns how many instances the outcome with the fewest has, and why the
// verdict on what is made of them all would be none: because one has too few only
// where nothing worse is true of another.
//
// A branch of a choice counts by its share: the error of a distribution function made of
// n instances falls with √n, and it enters the whole times the share, as if it were one of
// n/share² instances. One without instances does not count at all: the calculated ΔQ
// allows for all that it may be.
func (e *Engine) weakest(part part) (least uint64, why string) {
	least = math.MaxUint64
	for i, name := range part.behind {
		p := e.leaf(name)
		if p == nil {
			return 0, notCalculable
		}
		share, n := part.shares[i], p.Counts.Instances()
		if share < 1 && n == 0 {
			continue
		}
		n = uint64(min(float64(n)/float64(share*share), dq.MaxInstances))
		least = min(least, n)
		insufficient := p.Insufficient
		if insufficient == fewInstances && n >= e.system.Samples {
			insufficient = ""
		}
		if insufficient != "" && (why == "" || why == fewInstances) {
			why = insufficient
		}
	}
	if least == math.MaxUint64 {
		return 0, noInstances
	}
	return least, why
}

// deltaQ returns the observed ΔQ of an outcome of the VM that the diagram is
// evaluated for, or nil.
func (e *Engine) deltaQ(name string) *dq.DeltaQ {
	p := e.leaf(name)
	if p == nil {
		return nil
	}
	return &e.series[seriesKey{name, p.VM}].deltaQ
}

// leaf returns the row of an outcome for the VM that the diagram is evaluated for:
// its own, or where nothing of it has ever happened there, that of the only VM where
// it has. It is nil where several VMs may be meant.
func (e *Engine) leaf(name string) *Probe {
	own, has := e.rows[seriesKey{name, e.vm}]
	if has && e.series[seriesKey{name, e.vm}].lively {
		return &e.frame.Probes[own]
	}
	var rows int
	var only, lively *Probe
	for _, i := range e.rowsOf[name] {
		p := &e.frame.Probes[i]
		rows++
		only = p
		if !e.series[seriesKey{name, p.VM}].lively {
			continue
		}
		if lively != nil {
			lively = nil
			break
		}
		lively = p
	}
	switch {
	case lively != nil:
		return lively
	case has:
		return &e.frame.Probes[own]
	case rows == 1:
		return only
	}
	return nil
}
