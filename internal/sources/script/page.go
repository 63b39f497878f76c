package script

import (
	"cmp"
	"slices"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
)

// A page contains the counts of one window.
type page struct {
	window outcome.Window
	era    *era
	cells  map[place]*intake.Cell
}

// A place identifies counts: the index of an outcome, and a VM.
type place struct {
	course int
	pid    int
}

func newPage(w outcome.Window, e *era) *page {
	return &page{window: w, era: e, cells: make(map[place]*intake.Cell)}
}

// cell returns the counts of an outcome in a VM.
func (p *page) cell(c *course, pid int) *intake.Cell {
	at := place{c.index, pid}
	cell := p.cells[at]
	if cell == nil {
		cell = new(intake.Cell)
		p.cells[at] = cell
	}
	return cell
}

// vms returns the known pids and those with counts. If there are none, it returns 0, which stands
// for no VM.
func (p *page) vms(known []int) []int {
	pids := slices.Clone(known)
	for at := range p.cells {
		pids = append(pids, at.pid)
	}
	if len(pids) == 0 {
		pids = []int{0}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// fill sets the counts and instances of a batch, including losses that are owed to outcomes.
func (p *page) fill(b *outcome.Batch, known []int, owed map[string]outcome.Loss, unobserved bool, budget *intake.Budget) {
	for _, c := range p.era.courses {
		for i, pid := range p.vms(known) {
			cell := p.cell(c, pid)
			n := &cell.Counts
			n.Outcome, n.VM, n.Unobserved = c.spec.Name, vmOf(pid), unobserved
			if n.Bins == nil {
				n.Bins = make([]uint64, c.grid.Bins())
			}
			if i == 0 {
				n.Loss = n.Loss.Add(owed[c.spec.Name])
				delete(owed, c.spec.Name)
			}
			cell.Release(c.spec, budget)
			if unobserved {
				forget(cell)
			}
			b.Counts = append(b.Counts, *n)
			b.Instances = cell.AppendInstances(b.Instances)
		}
	}
	slices.SortStableFunc(b.Instances, func(a, b outcome.Instance) int { return cmp.Compare(a.End, b.End) })
}

// forget converts the counts of an incompletely observed window to losses.
func forget(c *intake.Cell) {
	n := c.Counts
	n.Loss.Missed += n.Instances()
	c.Kept = nil
	c.Counts = outcome.Counts{Outcome: n.Outcome, VM: n.VM, Bins: make([]uint64, len(n.Bins)), Loss: n.Loss, Unobserved: true}
}

// crowd stands for the pids of all VMs beyond the limit.
const crowd = -1

// vmOf returns the VM with a pid, or no VM for 0. The names of nodes are unknown.
func vmOf(pid int) outcome.VM {
	if pid == crowd {
		return outcome.VM{Node: "further VMs"}
	}
	return outcome.VM{PID: pid}
}
