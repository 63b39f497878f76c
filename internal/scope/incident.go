package scope

import "time"

// calm is how many quiet windows in a row end an incident.
const calm = 3

// An incident follows one trigger of one probe: one incident fires once, however
// long it lasts and however it flickers.
type incident struct {
	trigger Trigger
	alarms  int // windows in a row
	quiet   int // likewise, since it fired
	active  bool
	fired   int64 // end of the window in which it last fired
}

// step takes in a window, and tells whether the trigger fires. An incident is over
// after some quiet windows, and not before the hold-off has passed since it began.
func (in *incident) step(p *Probe, holdOff time.Duration) bool {
	switch in.trigger.Check(p) {
	case Alarm:
		in.alarms++
		in.quiet = 0
	case Quiet:
		in.alarms = 0
		in.quiet++
	case Insufficient:
		return false
	}
	if in.active {
		in.active = in.quiet < calm || p.Window.To-in.fired < int64(holdOff)
		return false
	}
	if in.alarms < in.trigger.Patience() {
		return false
	}
	in.active, in.fired = true, p.Window.To
	return true
}
