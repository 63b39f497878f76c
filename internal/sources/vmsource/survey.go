package vmsource

import (
	"github.com/beamscope/beamscope/internal/beam/procname"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// Survey reads figures of up to a number of processes of an observed VM from the VM's memory,
// beginning at a place of its process table. next is the place to continue, 0 at the end of the
// table. See [procname.Namer.Survey] for the errors; the error is [procname.ErrStarting] also if
// the VM is not observed. Unlike the methods of [outcome.Source], any goroutine may call it until the
// source is closed.
func (s *Source) Survey(vm int, from uint32, processes int) (all []procname.Figures, next uint32, err error) {
	n := s.names
	n.mu.Lock()
	defer n.mu.Unlock()
	namer := n.namers[vm]
	if namer == nil {
		return nil, 0, procname.ErrStarting
	}
	return namer.Survey(from, processes)
}

// ProcessName returns the name of a process of an observed VM, or "" if unknown. Any goroutine
// may call it, like Survey.
func (s *Source) ProcessName(vm int, p outcome.PID) string {
	name, _ := s.names.of(vm, p)
	return name.String()
}

// ProcessFunction returns the function with which a process of an observed VM was started, or ""
// if unknown. It is known only for outcomes with [outcome.GroupMFA]. Any goroutine may call it, like
// Survey.
func (s *Source) ProcessFunction(vm int, p outcome.PID) string {
	return s.functions.get(watchedProcess{vm, p})
}
