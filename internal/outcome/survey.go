package outcome

import (
	"github.com/beamscope/beamscope/internal/procname"
)

// Survey reads figures of at most so many processes of a VM that is observed from the VM's
// memory, from a place of its process table on. next is the place to go on at, 0 at the end of
// the table. See [procname.Namer.Survey] for the errors; the error is
// [procname.ErrStarting] also where the VM is not observed. Unlike the methods of [Source],
// it may be called from any goroutine until the source is closed.
func (s *VMSource) Survey(vm int, from uint32, processes int) (all []procname.Figures, next uint32, err error) {
	n := s.names
	n.mu.Lock()
	defer n.mu.Unlock()
	namer := n.namers[vm]
	if namer == nil {
		return nil, 0, procname.ErrStarting
	}
	return namer.Survey(from, processes)
}

// ProcessName returns what a process of a VM that is observed is called, "" where that is not
// known. It may be called as Survey may.
func (s *VMSource) ProcessName(vm int, p PID) string {
	name, _ := s.names.of(vm, p)
	return name.String()
}

// ProcessFunction returns the function that a process of a VM that is observed was started
// with, "" where that is not known: only outcomes with [GroupMFA] have it found out. It may be
// called as Survey may.
func (s *VMSource) ProcessFunction(vm int, p PID) string {
	return s.functions.get(watchedProcess{vm, p})
}
