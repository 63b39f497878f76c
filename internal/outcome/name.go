package outcome

import (
	"errors"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/procname"
)

// namedMost is how many processes are named of an outcome and VM in a window: those that
// took longest. Each name costs some reads of the VM's memory. Of groups by function these
// are only the processes of which a census does not know the function.
const namedMost = 200

// nameGroups names the groups that are processes, and groups those further that are to
// be by their functions.
func (s *VMSource) nameGroups(st *stage) {
	for i := range s.batch.counts {
		c := &s.batch.counts[i]
		if s.batch.spec(st, i).Group == "" {
			continue
		}
		name := s.namerOf(c.VM.PID) // also where nothing happened: see Survey
		if spec := s.batch.spec(st, i); spec.Group == GroupMFA {
			known := func(p PID) string { return s.functions.get(watchedProcess{c.VM.PID, p}) }
			c.Groups = groupByFunction(c.Groups, spec.DMax(), known, name)
		} else {
			nameProcesses(c.Groups, name)
		}
	}
}

// nameProcesses names the first of the processes among the groups.
func nameProcesses(groups []Group, name func(PID) (procname.Name, bool)) {
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

// groupByFunction groups the processes by the functions that they were started with.
// Where those are not known, the first of these processes are named; all others are part of
// the rest: a row of theirs would make that of their function too small, and nobody could
// tell.
func groupByFunction(groups []Group, dMax time.Duration, known func(PID) string, name func(PID) (procname.Name, bool)) []Group {
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

// namerOf returns what names the processes of a VM, and says once where it cannot.
func (s *VMSource) namerOf(pid int) func(PID) (procname.Name, bool) {
	if v := s.vms[pid]; v != nil && v.died == 0 {
		s.names.open(pid)
	}
	if err := s.names.err(pid); errors.Is(err, procname.ErrNoLayout) && !s.unnamed[pid] {
		s.unnamed[pid] = true
		s.note("%s: %v: its processes go by their pids", s.vms[pid].id, err)
	}
	return func(p PID) (procname.Name, bool) { return s.names.of(pid, p) }
}

// names names the processes of VMs, by the VMs' pids. Several goroutines may use it.
type names struct {
	layouts procname.Layouts // of the VMs' memory
	callers callers          // that suspend processes

	mu     sync.Mutex
	namers map[int]*procname.Namer
}

func newNames() *names { return &names{namers: make(map[int]*procname.Namer)} }

// open begins to open a VM, unless that was done.
func (n *names) open(vm int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.namers[vm] == nil {
		n.namers[vm] = procname.NewNamer(&n.layouts, vm)
	}
}

// of names a process of a VM that is open.
func (n *names) of(vm int, p PID) (procname.Name, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	namer := n.namers[vm]
	if namer == nil || p>>48 != 0 { // of another node
		return procname.Name{}, false
	}
	return namer.Name(uint32(p), uint32(p>>32&0xffff))
}

// atom returns the text of the atom of a VM that has an index, "" where it is not known.
func (n *names) atom(vm int, index uint64) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.namers[vm] == nil {
		return ""
	}
	text, _ := n.namers[vm].Atom(index)
	return text
}

// err returns why there are no names, nil while there may be.
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

// mergeGroups makes one group of those that have the same key.
func mergeGroups(groups []Group, dMax time.Duration) []Group {
	var merged []Group
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
