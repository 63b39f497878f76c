package dashboard

import (
	"slices"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// A scene is what is looked at: the frames of a store, and which of them.
type scene struct {
	*store
	title     string
	shot      *shot  // that it is, nil where it is none
	oldest    uint64 // frames before it are there for the history alone
	following bool   // the last frame; otherwise
	at        uint64 // that of this number

	overlay    uint64 // number of a frame to be drawn below the one shown
	hasOverlay bool

	happened map[probeKey]bool // where something has, in the frames up to
	read     uint64            // this one
}

// readOn takes note of where something has happened, in the frames that have not been read
// yet. Frames may be forgotten, but not that.
func (s *scene) readOn() {
	first, last, ok := s.Range()
	switch {
	case !ok:
		return
	case s.happened == nil || last < s.read: // it is played again
		s.happened = make(map[probeKey]bool)
	default:
		first = max(first, s.read+1)
	}
	for n := first; n <= last; n++ {
		f := s.Frame(n)
		if f == nil || f.Number != n {
			continue
		}
		for i := range f.Probes {
			p := &f.Probes[i]
			if p.Counts.Instances() > 0 || p.Counts.Loss.Total() > 0 || !p.Observed.Empty() || !p.Calculated.Empty() {
				s.happened[keyOf(p)] = true
			}
		}
	}
	s.read = last
}

// probes returns the probes of a frame without those of VMs in which nothing of the name
// has ever happened. Where it has in none, the first is left.
func (s *scene) probes(f *scope.Frame) []*scope.Probe {
	s.readOn()
	somewhere := make(map[string]bool)
	for i := range f.Probes {
		if p := &f.Probes[i]; s.happened[keyOf(p)] {
			somewhere[p.Name] = true
		}
	}
	var left []*scope.Probe
	for i := range f.Probes {
		p := &f.Probes[i]
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

// vmsOf returns the VMs of probes.
func vmsOf(probes []*scope.Probe) []outcome.VM {
	var all []outcome.VM
	for _, p := range probes {
		if !slices.Contains(all, p.VM) {
			all = append(all, p.VM)
		}
	}
	return all
}

// frame returns the frame that is shown, nil where there is none.
func (s *scene) frame() *scope.Frame {
	if s.following {
		return s.Last()
	}
	return s.Frame(s.at)
}

// systemShown returns what the frame that is shown was made of, which may not be what
// the scope does now; nil where there is no frame.
func (s *scene) systemShown() *scope.System {
	f := s.frame()
	if f == nil {
		return nil
	}
	return s.SystemOf(f.Number)
}

// earlier returns the frame to be drawn below, nil for none.
func (s *scene) earlier() *scope.Frame {
	if !s.hasOverlay {
		return nil
	}
	f := s.Frame(s.overlay)
	if f == nil || f.Number != s.overlay {
		return nil // it is gone
	}
	return f
}

// freeze stays at the window that is shown, or follows the last one again. Snapshots
// have no more to follow.
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

// step goes some windows on, or back.
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
