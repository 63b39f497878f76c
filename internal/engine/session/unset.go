package session

import (
	"fmt"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// An unset reports once for each outcome with timeouts that its dMax is only the default: the
// timeouts may not be failures of the application. It is an observer, and only the goroutine of
// the run uses it.
type unset struct {
	session *Session
	said    map[string]bool // names of the reported outcomes
	notices []outcome.Notice
}

func newUnset(s *Session) *unset { return &unset{session: s, said: make(map[string]bool)} }

// Configured implements [scope.Observer].
func (u *unset) Configured(*scope.System, outcome.Plan) error { return nil }

// Noticed implements [scope.Observer].
func (u *unset) Noticed(outcome.Notice) error { return nil }

// Framed implements [scope.Observer].
func (u *unset) Framed(_ *outcome.Batch, f *scope.Frame) error {
	for i := range f.Outcomes {
		p := &f.Outcomes[i]
		if p.Counts.Timeouts == 0 || p.Fitted || u.said[p.Name] {
			continue
		}
		u.said[p.Name] = true
		u.session.mu.Lock()
		c := u.session.config
		u.session.mu.Unlock()
		if c.SetsDMax(p.Name) {
			continue
		}
		u.notices = append(u.notices, outcome.Notice{Time: monotonic.Now(), Text: fmt.Sprintf(
			"%s: %d of %d took longer than %v, which is the default of dmax, and count as timeouts. Set dmax in the scope file",
			p.Name, p.Counts.Timeouts, p.Counts.Instances(), p.Spec.DMax())})
	}
	return nil
}

// take returns and removes the waiting notices.
func (u *unset) take() []outcome.Notice {
	said := u.notices
	u.notices = nil
	return said
}
