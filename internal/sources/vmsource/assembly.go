package vmsource

import (
	"cmp"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/beamscope/beamscope/bpf"
)

// An assembly makes batches from what was read from the kernel. It reuses its memory.
type assembly struct {
	counts    []outcome.Counts
	instances []outcome.Instance

	vms        []outcome.VM // the VMs of the batch
	index      map[int]int  // indexes into vms by pid
	zeros      []uint64     // bins of counts without instances
	candidates []outcome.Instance
}

// crowd is the common name of the VMs without a slot.
const crowd = "further VMs"

// assemble makes the counts and the instances of a window.
func (a *assembly) assemble(st *stage, vms map[int]*observedVM, read []bpf.Counts, streamed *taken) {
	a.list(vms, read)
	a.addCounts(st, read)
	for key, n := range streamed.over {
		if c := a.at(st, key.outcome, key.pid); c != nil {
			c.Unstreamed += n
		}
	}
	a.addInstances(st, streamed.instances)
}

// list lists the VMs sorted by pid. If there are none, it adds the zero VM. If anything happened
// in VMs without a slot, it adds one VM for all of them together.
func (a *assembly) list(vms map[int]*observedVM, read []bpf.Counts) {
	a.vms = a.vms[:0]
	for _, v := range vms {
		a.vms = append(a.vms, v.id)
	}
	if slices.ContainsFunc(read, func(c bpf.Counts) bool { return c.PID == 0 && crowded(c) > 0 }) {
		a.vms = append(a.vms, outcome.VM{Node: crowd})
	} else if len(a.vms) == 0 {
		a.vms = append(a.vms, outcome.VM{})
	}
	slices.SortFunc(a.vms, func(v, w outcome.VM) int { return cmp.Compare(v.PID, w.PID) })
	if a.index == nil {
		a.index = make(map[int]int)
	}
	clear(a.index)
	for i, v := range a.vms {
		a.index[v.PID] = i
	}
}

// crowded counts what happened in VMs without a slot.
func crowded(c bpf.Counts) uint64 {
	return settled(c.Counters) + unsettled(c.Counters) + settled(c.Stray) + unsettled(c.Stray)
}

// addCounts adds an entry for each outcome and VM.
func (a *assembly) addCounts(st *stage, read []bpf.Counts) {
	a.counts = a.counts[:0]
	for _, spec := range st.specs {
		if len(a.zeros) < spec.Bins {
			a.zeros = make([]uint64, spec.Bins)
		}
		for _, v := range a.vms {
			a.counts = append(a.counts, outcome.Counts{Outcome: spec.Name, VM: v, Bins: a.zeros[:spec.Bins:spec.Bins]})
		}
	}
	a.markUnobserved(read)
	for _, c := range read { // losses may come in several parts
		counts := a.at(st, c.Outcome, c.PID)
		if counts == nil {
			continue
		}
		if c.PID == 0 {
			counts.Loss.Crowded += crowded(c)
			continue
		}
		bins := counts.Bins
		if len(c.Bins) == len(bins) {
			bins = c.Bins
		}
		groups := counts.Groups
		*counts = counts.Add(fromKernel(c))
		counts.Bins, counts.Groups = bins, appendGroups(groups, c.Groups, st.specs[st.index[c.Outcome]].DMax())
	}
}

// markUnobserved marks VMs without counts as unobserved if some VMs had no slot. Such VMs have no
// counts because they had no slot, not because nothing happened.
func (a *assembly) markUnobserved(read []bpf.Counts) {
	if !slices.ContainsFunc(read, func(c bpf.Counts) bool { return c.PID == 0 }) {
		return
	}
	for i := range a.counts {
		pid := a.counts[i].VM.PID
		if pid != 0 && !slices.ContainsFunc(read, func(c bpf.Counts) bool { return c.PID == pid }) {
			a.counts[i].Unobserved = true
		}
	}
}

// at returns the entry of an outcome, given by its number in the kernel, and a VM, or nil.
func (a *assembly) at(st *stage, number, pid int) *outcome.Counts {
	i, planned := st.index[number]
	j, known := a.index[pid]
	if !planned || !known {
		return nil
	}
	return &a.counts[i*len(a.vms)+j]
}

// spec returns the spec of the i-th entry.
func (a *assembly) spec(st *stage, i int) *outcome.Spec { return &st.specs[i/len(a.vms)] }

// addInstances passes on the instances that the specs ask for.
func (a *assembly) addInstances(st *stage, all []bpf.Instance) {
	a.instances = a.instances[:0]
	a.candidates = a.candidates[:0]
	for _, i := range all {
		at, planned := st.index[i.Outcome]
		if !planned {
			continue
		}
		switch st.specs[at].Detail {
		case outcome.Worst:
			a.candidates = append(a.candidates, a.instance(st, i))
		case outcome.Everything:
			a.instances = append(a.instances, a.instance(st, i))
		}
	}
	a.addWorst()
	slices.SortFunc(a.instances, func(i, j outcome.Instance) int {
		return cmp.Or(cmp.Compare(i.End, j.End), cmp.Compare(i.ID, j.ID))
	})
}

// addWorst passes on the worst candidates of each outcome and VM.
func (a *assembly) addWorst() {
	slices.SortFunc(a.candidates, func(i, j outcome.Instance) int { return i.CompareWorst(&j) })
	ranks := make(ranking)
	for i := range a.candidates {
		if c := &a.candidates[i]; ranks.next(c) < outcome.MaxWorst {
			a.instances = append(a.instances, *c)
		}
	}
}

func (a *assembly) instance(st *stage, i bpf.Instance) outcome.Instance {
	v := outcome.VM{PID: i.PID}
	if at, known := a.index[i.PID]; known {
		v = a.vms[at]
	}
	return outcome.Instance{
		Outcome: st.specs[st.index[i.Outcome]].Name,
		VM:      v,
		Status:  outcome.Status(i.Status), // both packages number the statuses alike
		Start:   i.Start,
		End:     i.End,
		ID:      i.ID,
		Parent:  i.Parent,
		Process: outcome.PID(i.Process),
		Class:   i.Class,
	}
}

func fromKernel(c bpf.Counts) outcome.Counts {
	return outcome.Counts{
		Starts:     c.Starts,
		Ends:       c.Ends,
		Successes:  c.Successes,
		Failures:   c.Failures,
		Timeouts:   c.Timeouts,
		Orphans:    c.Orphans,
		Lates:      c.Lates,
		Unstreamed: c.RingFull + c.Stray.RingFull,
		Dropped:    c.Dropped,
		Inferred:   c.Inferred,
		Amount:     c.Amount,
		Loss: outcome.Loss{
			Unreadable: c.ReadErrors + c.Stray.ReadErrors,
			NoRoom:     c.MapFull + c.Stray.MapFull,
			Cut:        c.Cut + c.Stray.Cut,
			Missed:     settled(c.Stray),
			Exits:      c.ExitsLost + c.Stray.ExitsLost,
			Unpaired:   c.Unpaired + c.Stray.Unpaired,
		},
	}
}

// settled counts the instances that ended. unsettled counts those that were lost.
func settled(c bpf.Counters) uint64   { return c.Successes + c.Failures + c.Timeouts }
func unsettled(c bpf.Counters) uint64 { return c.ReadErrors + c.MapFull + c.Cut + c.Unpaired }

// The programs find the worst instances, so they must find at least as many as a batch delivers.
const _ = uint(bpf.MaxWorst - outcome.MaxWorst)

// Groups have the same buckets here and in the programs.
const (
	_ = uint(bpf.DelayBuckets - outcome.DelayBuckets)
	_ = uint(outcome.DelayBuckets - bpf.DelayBuckets)
)

// appendGroups appends the groups of a window of an outcome with this dMax. Groups with the
// longest total time come first, and the rest last.
func appendGroups(groups []outcome.Group, read []bpf.Group, dMax time.Duration) []outcome.Group {
	if len(read) == 0 {
		return groups
	}
	var rest outcome.Group
	for _, g := range read {
		group := outcome.Group{
			Process:   outcome.PID(g.Process),
			Key:       g.Text,
			Successes: g.Successes,
			Failures:  g.Failures,
			Timeouts:  g.Timeouts,
			Total:     time.Duration(g.Total),
			Amount:    g.Amount,
			Delays:    g.Delays,
			Starts:    g.Starts,
			Processor: time.Duration(g.Processor),
			Dirty:     time.Duration(g.Dirty),
		}
		switch {
		case g.Rest:
			rest = rest.Add(group)
			continue
		case g.Process != 0:
			group.Key = group.Process.String()
		}
		groups = append(groups, group)
	}
	if rest.Instances() > 0 || rest.Starts > 0 {
		groups = append(groups, rest)
	}
	sortGroups(groups, dMax)
	return groups
}

// sortGroups sorts groups by total time, the longest first and the rest last. A timeout counts as
// dMax.
func sortGroups(groups []outcome.Group, dMax time.Duration) {
	took := func(g outcome.Group) float64 { return float64(g.Total) + float64(g.Timeouts)*float64(dMax) }
	slices.SortFunc(groups, func(a, b outcome.Group) int {
		switch {
		case a.Key == "":
			return 1
		case b.Key == "":
			return -1
		}
		return cmp.Or(-cmp.Compare(took(a), took(b)), -cmp.Compare(a.Instances(), b.Instances()), cmp.Compare(a.Key, b.Key))
	})
}
