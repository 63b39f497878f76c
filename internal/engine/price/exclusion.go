package price

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// An Exclusion is a VM to leave out, so that others are observed as before. There must be others. Two
// thirds of the cost must come from that VM, or from the VMs of its user, and then it is the most
// expensive of these. So no user can make beamscope leave out another user's VM that costs less
// than a third of the limit.
type Exclusion struct {
	VM    outcome.VM
	User  int     // id of its user
	Share float64 // its share of all events, 0 to 1

	// Later means that two thirds of the events come from one user's processes, and that half of
	// these events come from processes that are not observed VMs now, because they have ended or are
	// unknown. Then VM is the zero value, Share is the user's share, and the user's VMs that are
	// not observed yet are left out.
	Later bool

	// Others means that VMs of other users are observed beside VM.
	Others bool
}

// Leave leaves the VM out for a time. If next is true, the exclusion begins only with the next
// plan.
func (l Exclusion) Leave(by outcome.Leaver) (length time.Duration, next bool, err error) {
	if l.Later {
		length, err = by.LeaveOutLater(l.User)
		return length, false, err
	}
	return by.LeaveOut(l.VM)
}

// LeaveOrSuccessors is like Leave. If the VM has ended before it could be left out, another one may follow
// it: then the exclusion becomes that of the later VMs of its user, if VMs of other users are observed.
func (l *Exclusion) LeaveOrSuccessors(by outcome.Leaver) (length time.Duration, next bool, err error) {
	length, next, err = l.Leave(by)
	if l.Later || !l.Others || !errors.Is(err, outcome.ErrNotLeft) {
		return length, next, err
	}
	*l = Exclusion{User: l.User, Share: l.Share, Later: true}
	return l.Leave(by)
}

// most is the least share of the cost for which a VM or a user is to blame.
const most = 2. / 3

// Left describes who is left out, for how long, and why.
func (l Exclusion) Left(why string, length fmt.Stringer) string {
	if l.Later {
		return fmt.Sprintf("beamscope does not observe new VMs of user %d for %v: %s. %s%% of the events come from processes of that user, and most of these processes have ended or are no VMs", l.User, length, why, figures.Share(l.Share))
	}
	return fmt.Sprintf("the events of %s of user %d are not observed for %v, its spans in the ring are: %s, and %s%% of the events are of that VM", l.VM, l.User, length, why, figures.Share(l.Share))
}

// withoutLeft returns a cost and its parts without the VMs that are left out.
func withoutLeft(c outcome.Cost, parts []outcome.Load, users []outcome.UserLoad) (outcome.Cost, []outcome.Load, []outcome.UserLoad) {
	left := make(map[int]uint64) // events by user
	for _, p := range parts {
		if p.Left {
			c.Events -= min(c.Events, p.Events)
			left[p.User] += p.Events
		}
	}
	if len(left) == 0 {
		return c, parts, users
	}
	parts = slices.DeleteFunc(slices.Clone(parts), func(p outcome.Load) bool { return p.Left })
	users = slices.Clone(users)
	for i := range users {
		u := &users[i]
		u.Events -= min(u.Events, left[u.User])
	}
	return c, parts, users
}

// loads are the shares of VMs in the cost of some windows.
type loads struct {
	all   uint64
	vms   map[outcome.VM]outcome.Load
	users map[int]uint64 // events of each user, including those of processes that have ended

	present map[outcome.VM]bool // VMs that were observed in the last window
}

func (l *loads) add(c outcome.Cost, parts []outcome.Load, users []outcome.UserLoad) {
	if l.vms == nil {
		l.vms, l.users = make(map[outcome.VM]outcome.Load), make(map[int]uint64)
	}
	for _, u := range users {
		l.users[u.User] += u.Events
	}
	l.all += c.Events
	l.present = make(map[outcome.VM]bool, len(parts))
	for _, p := range parts {
		l.present[p.VM] = true
		p.Events += l.vms[p.VM].Events
		l.vms[p.VM] = p
	}
}

// exclusion returns what to leave out, or nil.
func (l *loads) exclusion() *Exclusion {
	if later := l.later(); later != nil {
		return later
	}
	if len(l.vms) < 2 || l.all == 0 {
		return nil
	}
	share := func(n uint64) float64 { return float64(n) / float64(l.all) }
	users := make(map[int]uint64)
	for _, v := range l.vms {
		users[v.User] += v.Events
	}
	var exclude *Exclusion
	for _, v := range l.vms {
		if !l.present[v.VM] {
			continue
		}
		blamed := share(v.Events) >= most || len(users) > 1 && share(users[v.User]) >= most
		if blamed && (exclude == nil || cmp.Or(cmp.Compare(share(v.Events), exclude.Share), cmp.Compare(exclude.VM.PID, v.VM.PID)) > 0) {
			exclude = &Exclusion{VM: v.VM, User: v.User, Share: share(v.Events), Others: len(users) > 1}
		}
	}
	return exclude
}

// later returns the user whose later VMs should be left out, or nil. Two thirds of all events
// must come from that user's processes. Half of those must not come from VMs that are observed now. VMs
// of other users must be observed now as well.
func (l *loads) later() *Exclusion {
	known, vms := make(map[int]uint64), make(map[int]int)
	for vm := range l.present {
		v := l.vms[vm]
		known[v.User] += v.Events
		vms[v.User]++
	}
	for user, events := range l.users {
		share := float64(events) / float64(max(l.all, 1))
		if user >= 0 && share >= most && len(l.present) > vms[user] && events >= 2*known[user] {
			return &Exclusion{User: user, Share: min(share, 1), Later: true}
		}
	}
	return nil
}
