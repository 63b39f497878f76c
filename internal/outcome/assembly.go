package outcome

import (
	"cmp"
	"slices"
	"time"

	"github.com/beamscope/beamscope/bpf"
)

// An assembly makes batches of what was read of the kernel. Its memory is used
// again for each.
type assembly struct {
	counts    []Counts
	instances []Instance

	vms        []VM        // of the batch
	index      map[int]int // of vms, by pid
	zeros      []uint64    // bins of where nothing happened
	candidates []Instance
}

// crowd is what the VMs are called that found no slot.
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

// list lists the VMs in their order, at least one that is none. Those that cannot
// be told apart are one of them where anything happened in them.
func (a *assembly) list(vms map[int]*observedVM, read []bpf.Counts) {
	a.vms = a.vms[:0]
	for _, v := range vms {
		a.vms = append(a.vms, v.id)
	}
	if slices.ContainsFunc(read, func(c bpf.Counts) bool { return c.PID == 0 && crowded(c) > 0 }) {
		a.vms = append(a.vms, VM{Node: crowd})
	} else if len(a.vms) == 0 {
		a.vms = append(a.vms, VM{})
	}
	slices.SortFunc(a.vms, func(v, w VM) int { return cmp.Compare(v.PID, w.PID) })
	if a.index == nil {
		a.index = make(map[int]int)
	}
	clear(a.index)
	for i, v := range a.vms {
		a.index[v.PID] = i
	}
}

// crowded counts what happened in VMs that cannot be told apart.
func crowded(c bpf.Counts) uint64 {
	return settled(c.Counters) + unsettled(c.Counters) + settled(c.Stray) + unsettled(c.Stray)
}

// addCounts makes an entry for each outcome and VM.
func (a *assembly) addCounts(st *stage, read []bpf.Counts) {
	a.counts = a.counts[:0]
	for _, spec := range st.specs {
		if len(a.zeros) < spec.Bins {
			a.zeros = make([]uint64, spec.Bins)
		}
		for _, v := range a.vms {
			a.counts = append(a.counts, Counts{Outcome: spec.Name, VM: v, Bins: a.zeros[:spec.Bins:spec.Bins]})
		}
	}
	a.markUnobserved(read)
	for _, c := range read { // what is lost may come in parts
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

// markUnobserved marks the counts of the VMs that found no room, as others took it all:
// they have no counts of their own, and not because nothing happened.
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

// at returns the entry of an outcome, by its number, and of a VM; nil where there
// is none.
func (a *assembly) at(st *stage, outcome, pid int) *Counts {
	i, planned := st.index[outcome]
	j, known := a.index[pid]
	if !planned || !known {
		return nil
	}
	return &a.counts[i*len(a.vms)+j]
}

// spec returns the spec of the i-th entry.
func (a *assembly) spec(st *stage, i int) *Spec { return &st.specs[i/len(a.vms)] }

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
		case Worst:
			a.candidates = append(a.candidates, a.instance(st, i))
		case Everything:
			a.instances = append(a.instances, a.instance(st, i))
		}
	}
	a.addWorst()
	slices.SortFunc(a.instances, func(i, j Instance) int {
		return cmp.Or(cmp.Compare(i.End, j.End), cmp.Compare(i.ID, j.ID))
	})
}

// addWorst passes on the worst candidates of each outcome and VM.
func (a *assembly) addWorst() {
	slices.SortFunc(a.candidates, func(i, j Instance) int { return i.CompareWorst(&j) })
	ranks := make(ranking)
	for i := range a.candidates {
		if c := &a.candidates[i]; ranks.next(c) < MaxWorst {
			a.instances = append(a.instances, *c)
		}
	}
}

func (a *assembly) instance(st *stage, i bpf.Instance) Instance {
	v := VM{PID: i.PID}
	if at, known := a.index[i.PID]; known {
		v = a.vms[at]
	}
	return Instance{
		Outcome: st.specs[st.index[i.Outcome]].Name,
		VM:      v,
		Status:  Status(i.Status), // they are numbered alike
		Start:   i.Start,
		End:     i.End,
		ID:      i.ID,
		Parent:  i.Parent,
		Process: PID(i.Process),
		Class:   i.Class,
	}
}

func fromKernel(c bpf.Counts) Counts {
	return Counts{
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
		Loss: Loss{
			Unreadable: c.ReadErrors + c.Stray.ReadErrors,
			NoRoom:     c.MapFull + c.Stray.MapFull,
			Cut:        c.Cut + c.Stray.Cut,
			Missed:     settled(c.Stray),
			Exits:      c.ExitsLost + c.Stray.ExitsLost,
			Unpaired:   c.Unpaired + c.Stray.Unpaired,
		},
	}
}

// settled counts the instances that ended, unsettled what was lost of others.
func settled(c bpf.Counters) uint64   { return c.Successes + c.Failures + c.Timeouts }
func unsettled(c bpf.Counters) uint64 { return c.ReadErrors + c.MapFull + c.Cut + c.Unpaired }

// The programs find out the worst instances, so they must find at least as many as
// are delivered.
const _ = uint(bpf.MaxWorst - MaxWorst)

// The groups' buckets are the programs'.
const (
	_ = uint(bpf.DelayBuckets - DelayBuckets)
	_ = uint(DelayBuckets - bpf.DelayBuckets)
)

// appendGroups appends the groups of a window of an outcome with this dMax, those that took
// longest in all first and the rest last.
func appendGroups(groups []Group, read []bpf.Group, dMax time.Duration) []Group {
	if len(read) == 0 {
		return groups
	}
	var rest Group
	for _, g := range read {
		group := Group{
			Process:   PID(g.Process),
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

// sortGroups puts those first that took longest in all, and the rest last. A timeout took
// dMax.
func sortGroups(groups []Group, dMax time.Duration) {
	took := func(g Group) float64 { return float64(g.Total) + float64(g.Timeouts)*float64(dMax) }
	slices.SortFunc(groups, func(a, b Group) int {
		switch {
		case a.Key == "":
			return 1
		case b.Key == "":
			return -1
		}
		return cmp.Or(-cmp.Compare(took(a), took(b)), -cmp.Compare(a.Instances(), b.Instances()), cmp.Compare(a.Key, b.Key))
	})
}
