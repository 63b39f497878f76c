package scope

import (
	"fmt"
	"math"
	"slices"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// calculate evaluates the diagram for each VM with an outcome that it calculates. An outcome of
// another VM takes part if that is the only VM with an outcome of this name, because the parts of
// one system may run in several VMs.
func (e *Engine) calculate(f *Frame) error {
	e.vms = e.vms[:0]
	for i := range f.Outcomes {
		p := &f.Outcomes[i]
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
		for i := range f.Outcomes {
			if p := &f.Outcomes[i]; p.VM == vm {
				if err := e.calculateOutcome(p, program); err != nil {
					return fmt.Errorf("outcome %s: %w", p.Name, err)
				}
			}
		}
	}
	return nil
}

// program returns the program of a VM. Each VM has its own program, because values belong to
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

func (e *Engine) calculateOutcome(p *Outcome, program *diagram.Program) error {
	part, ok := e.composed[p.Name]
	if !ok {
		return nil
	}
	p.CalculatedFrom, p.CalculatedInsufficient = e.fewestInstances(part)
	value, _ := program.Value(p.Name)
	if value.Empty() {
		p.CalculatedFrom = 0
		if isComparable(p.CalculatedInsufficient) {
			// No branch of a choice is known completely, although outcomes of it have instances.
			p.CalculatedInsufficient = noInstances
		}
	}
	c := calculated{value: value, width: part.width, sampling: e.sampling(part.uses)}
	s := e.series[seriesKey{p.Name, p.VM}]
	if !value.Empty() && !s.lively {
		s.endSilence(p)
	}
	return s.calculate(p, c, e.frame.Number, e.system.History, e.system.Bounds)
}

// sampling returns the uncertainty of a calculated ΔQ that comes from sampled outcomes. It leaves
// out outcomes without instances, because their bounds already allow everything.
func (e *Engine) sampling(uses []diagram.Use) (s dq.Sampling) {
	for _, u := range uses {
		if p := e.leaf(u.Outcome); p != nil && p.Counts.Instances() > 0 {
			s.Add(u.Weight, u.Times, p.Counts.Instances())
		}
	}
	return s
}

// fewestInstances returns the number of instances of the outcome with the fewest, and the reason why the
// calculated ΔQ gives no verdict. It returns fewInstances as the reason only if no outcome has a
// worse one.
// A branch of a choice counts by its share. The error of a distribution function with n instances
// falls with √n, and the share scales it, as if there were n/share² instances. A branch without
// instances does not count, because the calculated ΔQ allows all its possibilities. The same
// holds for an outcome whose VM is ambiguous, but then there is no verdict. If nothing is
// calculated, least is meaningless.
func (e *Engine) fewestInstances(part part) (least uint64, why string) {
	least = math.MaxUint64
	for i, name := range part.behind {
		p, share := e.leaf(name), part.shares[i]
		if p == nil {
			why = notCalculable
			continue
		}
		n := p.Counts.Instances()
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
	return least, why
}

// deltaQ returns the observed ΔQ of an outcome for the VM that is being evaluated, or nil.
func (e *Engine) deltaQ(name string) *dq.DeltaQ {
	p := e.leaf(name)
	if p == nil {
		return nil
	}
	return &e.series[seriesKey{name, p.VM}].deltaQ
}

// leaf returns the row of an outcome for the VM that is being evaluated. It returns this VM's own
// row. If this VM never had an event of the outcome, leaf returns the row of the only other VM that
// has the outcome, or nil if there are several.
func (e *Engine) leaf(name string) *Outcome {
	own, has := e.rows[seriesKey{name, e.vm}]
	if has && e.series[seriesKey{name, e.vm}].lively {
		return &e.frame.Outcomes[own]
	}
	var rows int
	var only, lively *Outcome
	for _, i := range e.rowsOf[name] {
		p := &e.frame.Outcomes[i]
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
		return &e.frame.Outcomes[own]
	case rows == 1:
		return only
	}
	return nil
}
