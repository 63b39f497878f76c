package price

import (
	"cmp"
	"fmt"

	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/outcome"
)

// A Loud is a VM that is to be left out, so that others are observed as before. There are
// others, and most of the cost is that VM's, or that of the VMs of its user: then it is the
// one of these that costs most. Most are two thirds: so nobody can have a VM left out that
// costs less than a third of the limit, whatever VMs of another user do.
type Loud struct {
	VM    outcome.VM
	User  int     // id of its user
	Share float64 // that it has of all events, 0 to 1
}

// most is the share of the cost from which on a VM, or a user, is to blame for it.
const most = 2. / 3

// Left says that the VM is left out, for so long, and why.
func (l Loud) Left(why string, length fmt.Stringer) string {
	return fmt.Sprintf("%s of user %d is not observed for %v: %s, and %s%% of the events are of that VM", l.VM, l.User, length, why, figures.Share(l.Share))
}

// loads are the parts of VMs in the cost of some windows.
type loads struct {
	all uint64
	vms map[outcome.VM]outcome.Load
}

func (l *loads) add(c outcome.Cost, parts []outcome.Load) {
	if l.vms == nil {
		l.vms = make(map[outcome.VM]outcome.Load)
	}
	l.all += c.Events
	for _, p := range parts {
		p.Events += l.vms[p.VM].Events
		l.vms[p.VM] = p
	}
}

// loudest returns the VM that is to be left out, nil for none.
func (l *loads) loudest() *Loud {
	if len(l.vms) < 2 || l.all == 0 {
		return nil
	}
	share := func(n uint64) float64 { return float64(n) / float64(l.all) }
	users := make(map[int]uint64)
	for _, v := range l.vms {
		users[v.User] += v.Events
	}
	var loud *Loud
	for _, v := range l.vms {
		blamed := share(v.Events) >= most || len(users) > 1 && share(users[v.User]) >= most
		if blamed && (loud == nil || cmp.Or(cmp.Compare(share(v.Events), loud.Share), cmp.Compare(loud.VM.PID, v.VM.PID)) > 0) {
			loud = &Loud{VM: v.VM, User: v.User, Share: share(v.Events)}
		}
	}
	return loud
}
