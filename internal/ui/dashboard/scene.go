package dashboard

import (
	"slices"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// A scene is a view of the frames of a store, and selects one of them.
type scene struct {
	*store
	title     string
	shot      *shot  // the snapshot, or nil
	oldest    uint64 // earlier frames only serve the history
	following bool   // shows the last frame; otherwise
	at        uint64 // shows the frame with this number

	overlay    uint64 // number of the frame drawn below the shown one
	hasOverlay bool

	happened map[outcomeKey]bool // outcomes that had anything happen in the frames up to
	read     uint64              // this number
}

// readOn records the outcomes that had anything happen in frames that were not read yet. The record
// stays when the store forgets frames.
func (s *scene) readOn() {
	first, last, ok := s.Range()
	switch {
	case !ok:
		return
	case s.happened == nil || last < s.read: // the recording is played again
		s.happened = make(map[outcomeKey]bool)
	default:
		first = max(first, s.read+1)
	}
	for n := first; n <= last; n++ {
		f := s.Frame(n)
		if f == nil || f.Number != n {
			continue
		}
		for i := range f.Outcomes {
			p := &f.Outcomes[i]
			if p.Counts.Instances() > 0 || p.Counts.Loss.Total() > 0 || !p.Observed.Empty() || !p.Calculated.Empty() {
				s.happened[keyOf(p)] = true
			}
		}
	}
	s.read = last
}

// outcomes returns the outcomes of a frame, except those of VMs in which nothing of that name has
// ever happened. If nothing has happened in any VM, it keeps the first one.
func (s *scene) outcomes(f *scope.Frame) []*scope.Outcome {
	s.readOn()
	somewhere := make(map[string]bool)
	for i := range f.Outcomes {
		if p := &f.Outcomes[i]; s.happened[keyOf(p)] {
			somewhere[p.Name] = true
		}
	}
	var left []*scope.Outcome
	for i := range f.Outcomes {
		p := &f.Outcomes[i]
		if !s.happened[keyOf(p)] {
			if somewhere[p.Name] {
				continue
			}
			somewhere[p.Name] = true
		}
		left = append(left, p)
	}
	return left
}

// vmsOf returns the VMs of outcomes.
func vmsOf(outcomes []*scope.Outcome) []outcome.VM {
	var all []outcome.VM
	for _, p := range outcomes {
		if !slices.Contains(all, p.VM) {
			all = append(all, p.VM)
		}
	}
	return all
}

// frame returns the shown frame, or nil.
func (s *scene) frame() *scope.Frame {
	if s.following {
		return s.Last()
	}
	return s.Frame(s.at)
}

// systemShown returns the system from which the shown frame was made, or nil without a frame. It
// may differ from the current system of the scope.
func (s *scene) systemShown() *scope.System {
	f := s.frame()
	if f == nil {
		return nil
	}
	return s.SystemOf(f.Number)
}

// earlier returns the frame to draw below the shown one, or nil.
func (s *scene) earlier() *scope.Frame {
	if !s.hasOverlay {
		return nil
	}
	f := s.Frame(s.overlay)
	if f == nil || f.Number != s.overlay {
		return nil // the store has dropped it
	}
	return f
}

// freeze stops at the shown window, or follows the last one again. It does nothing in a snapshot.
func (s *scene) freeze() {
	if s.shot != nil {
		return
	}
	if f := s.frame(); s.following && f != nil {
		s.following, s.at = false, f.Number
		return
	}
	s.following = true
}

// step moves n windows on, or back if n is negative.
func (s *scene) step(n int) {
	first, last, ok := s.Range()
	f := s.frame()
	if !ok || f == nil {
		return
	}
	first = max(first, s.oldest)
	s.following = false
	s.at = uint64(min(max(int64(f.Number)+int64(n), int64(first)), int64(last)))
}
