package scope

import "time"

// calm is the number of quiet windows in a row that ends an incident.
const calm = 3

// An incident tracks one trigger of one outcome. An incident fires once, however long it lasts and
// even if it flickers.
type incident struct {
	trigger Trigger
	alarms  int // alarms in a row
	quiet   int // quiet windows in a row since it fired
	active  bool
	fired   int64 // end of the window in which it last fired
}

// step adds a window, and reports whether the trigger fires. An incident ends after some quiet
// windows, but not before the hold-off has passed since it began.
func (in *incident) step(p *Outcome, holdOff time.Duration) bool {
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
