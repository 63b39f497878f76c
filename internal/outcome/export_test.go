package outcome

import "time"

// EndLeaves has the time be over for which VMs are left out.
func (s *VMSource) EndLeaves() {
	for _, l := range s.left {
		l.until = 0
	}
}

// LeaveFirst is for how long a VM is left out at first.
const LeaveFirst time.Duration = leaveFirst
