package ring

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/internal/sources/intake"
	"github.com/beamscope/beamscope/internal/sources/ledger"
	"github.com/beamscope/beamscope/usdt"
)

// An absence is the state of a VM whose ring was not found. Its spans may be recorded in a ring
// that was made after the last search.
type absence struct {
	found      int64 // when the VM was found, nanoseconds of CLOCK_MONOTONIC
	looked     bool  // it is known whether the VM has probes
	unknown    bool  // beamscope could not find out whether the VM has probes
	probes     bool  // the VM has probes: programs in the kernel see the spans that fire them
	calls      bool  // the VM has no probes, and spans call a known function instead
	whole      bool  // all memory was searched once, including what is swapped out
	until      int64 // there was no ring at that time, nanoseconds of CLOCK_MONOTONIC; 0: not known for any time
	unreadable bool  // there is a ring that cannot be read, or there may be one
	making     bool  // a ring was being made at the last search
}

// searchGrace is how long after a VM was found the first complete search of its memory may end. If the search is
// later, the VM's windows are not observed until then.
const searchGrace = 2 * time.Second

// hides reports whether spans may have been recorded in a window and were not read. For a VM with
// probes and without a ring, it is false: its spans may fire the probes, which were counted. The same
// holds for a VM that was found a moment ago.
func (a *absence) hides(w outcome.Window) bool {
	switch {
	case a.unreadable:
		return true
	case a.until == 0 && w.To > a.found+int64(searchGrace):
		return true
	default:
		return (a.looked || a.unknown) && !a.probes && a.until < w.To
	}
}

// fires reports whether programs in the kernel may see the explained spans of a ring. Such spans fire
// the VM's probes, or call a function of a known build.
func (a *absence) fires(h header) bool { return h.probes || h.calls && (a.calls || !a.looked) }

// note records the result of a search that began at a time, and whether all memory was searched. It
// reports whether to search again, because a ring is being made. If it is not made by then, it never is.
func (a *absence) note(at int64, err error, whole bool) (again bool) {
	making := errors.Is(err, errNotReady)
	again, a.making = making && !a.making, making
	switch {
	case again:
	case !making && (errors.Is(err, ErrLayout) || errors.Is(err, ErrTooLarge)):
		a.unreadable = true
	case errors.Is(err, ErrNone):
		a.unreadable = false
		if a.whole = a.whole || whole; a.whole {
			a.until = at
		}
	}
	return again
}

// lookAtProbes determines whether a VM has probes.
func (s *Source) lookAtProbes(ctx context.Context, st *station) {
	if st.absence.looked {
		return
	}
	v := st.vm
	found, err := guard.Do(ctx, &s.guard, v.User, searchPatience, func(context.Context) (found absence, err error) {
		s.allowance.spend(v.Account, s.now, func(func(context.Context) error) {
			image, err := v.Image()
			standsIn := image.StandIns()
			unseen := errors.Is(err, vm.ErrNoProbes) || errors.Is(err, usdt.ErrServed) // nothing is attached to the latter
			found = absence{probes: !unseen && !standsIn, calls: standsIn && image.NoTerms == nil && image.Build.Sees(dtrace.UserTrace)}
		})
		return found, nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.absence.unknown = err != nil; err != nil {
		return
	}
	st.absence.looked, st.absence.probes, st.absence.calls = true, found.probes, found.calls
}

// pause returns the time until the next search. A search is due when a window ends: when the window
// is collected, it is known whether there was a ring.
func (s *Source) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for i := range s.schedule {
		e := &s.schedule[i]
		switch {
		case now >= e.To:
		case now < e.Plan.From:
			return min(searchPeriod, time.Duration(e.Plan.From-now))
		default:
			return min(searchPeriod, time.Duration(e.Plan.At(e.Plan.Number(now)).To-now))
		}
	}
	return searchPeriod
}

// absent returns the cells of VMs that may have recorded spans of a window in a ring that was not
// found yet. They count nothing, and the window is not observed. Without programs in the kernel, no
// other source counts the spans of these VMs. They are not shown until their ring is found. VMs
// without a place follow: whatever they record is not read.
func (s *Source) absent(e *ledger.Era, w outcome.Window) (pages [][]intake.Cell) {
	for _, pid := range slices.Sorted(maps.Keys(s.vms)) {
		if st := s.vms[pid]; st.reading == nil && s.cfg.Kernel != nil && st.absence.hides(w) {
			pages = append(pages, unobserved(st.id, e))
		}
	}
	for _, id := range s.unplaced {
		pages = append(pages, unobserved(id, e))
	}
	return pages
}

// maxUnplaced limits the number of VMs without a place that are listed by themselves.
const maxUnplaced = 16

// crowd is the name of all further VMs without a place.
const crowd = "further VMs"

// noteUnplaced records that a VM has no place, until the next search for VMs.
func (s *Source) noteUnplaced(id outcome.VM) {
	switch n := len(s.unplaced); {
	case slices.Contains(s.unplaced, id):
	case n < maxUnplaced:
		s.unplaced = append(s.unplaced, id)
	case n == maxUnplaced:
		s.unplaced = append(s.unplaced, outcome.VM{Node: crowd})
	}
}

// unobserved returns the cells of a VM for a window that was not observed.
func unobserved(id outcome.VM, e *ledger.Era) (cells []intake.Cell) {
	for _, c := range e.Observations {
		cells = append(cells, intake.Cell{Counts: outcome.Counts{Outcome: c.Spec.Name, VM: id, Bins: make([]uint64, c.Spec.Bins), Unobserved: true}})
	}
	return cells
}

// hidden reports whether any VM may have recorded spans in a window that were not read.
func (s *Source) hidden(w outcome.Window) bool {
	for _, st := range s.vms {
		if st.reading == nil && st.absence.hides(w) {
			return true
		}
	}
	return false
}
