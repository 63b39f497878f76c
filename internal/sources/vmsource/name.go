package vmsource

import (
	"errors"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/beamscope/beamscope/internal/beam/procname"
	"github.com/beamscope/beamscope/internal/beam/symbols"
)

// namedMost is the largest number of processes that are named for an outcome and VM in a window:
// those with the longest total time. Each name costs some reads of the VM's memory. If groups are
// functions, it limits only the processes whose function the census does not know.
const namedMost = 200

// nameGroups sets the names of groups that are processes. If the spec groups by function, it then
// merges the groups by function.
func (s *Source) nameGroups(st *stage) {
	for i := range s.batch.counts {
		c := &s.batch.counts[i]
		if s.batch.spec(st, i).Group == "" {
			continue
		}
		name := s.namerOf(c.VM.PID) // also for VMs without instances: see Survey
		if spec := s.batch.spec(st, i); spec.Group == outcome.GroupMFA {
			known := func(p outcome.PID) string { return s.functions.get(watchedProcess{c.VM.PID, p}) }
			c.Groups = groupByFunction(c.Groups, spec.DMax(), known, name)
		} else {
			nameProcesses(c.Groups, name)
		}
	}
}

// nameProcesses names the first namedMost processes among the groups.
func nameProcesses(groups []outcome.Group, name func(outcome.PID) (procname.Name, bool)) {
	named := 0
	for i := range groups {
		g := &groups[i]
		if g.Process == 0 {
			continue
		}
		if named++; named > namedMost {
			return
		}
		n, _ := name(g.Process)
		g.Name = n.String()
	}
}

// groupByFunction merges the groups of processes by the functions with which the processes were
// started. If a function is unknown, it reads the names of the first of these processes. All
// others become part of the rest. If they had rows of their own, the rows of their functions
// would be too small without any sign of it.
func groupByFunction(groups []outcome.Group, dMax time.Duration, known func(outcome.PID) string, name func(outcome.PID) (procname.Name, bool)) []outcome.Group {
	named := 0
	for i := range groups {
		g := &groups[i]
		if g.Process == 0 {
			continue
		}
		function := known(g.Process)
		if function == "" && named < namedMost {
			named++
			n, _ := name(g.Process)
			function, _ = n.Function()
		}
		g.Key, g.Name, g.Process = function, "", 0
	}
	return mergeGroups(groups, dMax)
}

// namerOf returns a function that names the processes of a VM. If names are impossible, it
// reports that once.
func (s *Source) namerOf(pid int) func(outcome.PID) (procname.Name, bool) {
	if v := s.vms[pid]; v != nil && v.died == 0 {
		s.names.open(pid)
	}
	if err := s.names.err(pid); errors.Is(err, procname.ErrNoLayout) && !s.unnamed[pid] {
		s.unnamed[pid] = true
		s.note("%s: %v: its processes go by their pids", s.vms[pid].id, err)
	}
	return func(p outcome.PID) (procname.Name, bool) { return s.names.of(pid, p) }
}

// names finds the names of processes by VM. Several goroutines may use it.
type names struct {
	layouts procname.Layouts // layouts of the VMs' memory
	callers callers          // functions that suspend processes

	mu     sync.Mutex
	namers map[int]*procname.Namer
}

func newNames(store *symbols.Store) *names {
	return &names{namers: make(map[int]*procname.Namer), layouts: procname.Layouts{Symbols: store}}
}

// open begins to open a VM if it is not open yet.
func (n *names) open(vm int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.namers[vm] == nil {
		n.namers[vm] = procname.NewNamer(&n.layouts, vm)
	}
}

// of returns the name of a process of a VM that is open.
func (n *names) of(vm int, p outcome.PID) (procname.Name, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	namer := n.namers[vm]
	if namer == nil || p>>48 != 0 { // a process of another node
		return procname.Name{}, false
	}
	return namer.Name(uint32(p), uint32(p>>32&0xffff))
}

// atom returns the text of the atom with an index in a VM, or "".
func (n *names) atom(vm int, index uint64) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.namers[vm] == nil {
		return ""
	}
	text, _ := n.namers[vm].Atom(index)
	return text
}

// err returns the reason why a VM has no names, or nil while it may have some.
func (n *names) err(vm int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.namers[vm] == nil {
		return nil
	}
	return n.namers[vm].Err()
}

// close closes a VM, if it is open.
func (n *names) close(vm int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	namer := n.namers[vm]
	if namer == nil {
		return nil
	}
	delete(n.namers, vm)
	return namer.Close()
}

// mergeGroups merges groups with the same key.
func mergeGroups(groups []outcome.Group, dMax time.Duration) []outcome.Group {
	var merged []outcome.Group
	index := make(map[string]int)
	for _, g := range groups {
		i, known := index[g.Key]
		if !known {
			index[g.Key] = len(merged)
			merged = append(merged, g)
			continue
		}
		merged[i] = merged[i].Add(g)
	}
	sortGroups(merged, dMax)
	return merged
}
