package dashboard

import "github.com/beamscope/beamscope/internal/session"

// attached is a Control that is attached to something that runs, as a session is. Its
// methods may be called from any goroutine.
type attached interface {
	// Status returns how it stands with what is observed.
	Status() session.Status

	// StartWrappers tells the wrappers to send instances, StopWrappers to send none.
	StartWrappers()
	StopWrappers()
}

// attached returns what the dashboard is attached to; nil for a recording.
func (d *Dashboard) attached() attached {
	a, _ := d.control.(attached)
	return a
}
