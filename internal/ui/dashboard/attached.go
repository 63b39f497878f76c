package dashboard

import "github.com/beamscope/beamscope/internal/engine/session"

// attached is a Control of something that runs, such as a session. Any goroutine may call its
// methods.
type attached interface {
	// Status returns the state of what is observed.
	Status() session.Status

	// StartWrappers makes the wrappers send instances. StopWrappers makes them stop sending.
	StartWrappers()
	StopWrappers()
}

// attached returns the Control if it is attached to something that runs, and nil for a recording.
func (d *Dashboard) attached() attached {
	a, _ := d.control.(attached)
	return a
}
