package vmsource

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/beamscope/beamscope/internal/beam/vm"
)

// aloneMost is the largest number of VMs per user that are attached to one by one. Each one costs
// some time at every new plan, and windows wait meanwhile. Any user can start as many VMs as fit
// in memory, so without a limit one user could prevent all others from being observed.
const aloneMost = 16

// crowdedOut returns the VMs of each user that exceed aloneMost, which are the newest ones.
func crowdedOut(vms []*observedVM) []*observedVM {
	byUser := make(map[int][]*observedVM)
	for _, v := range vms {
		byUser[v.process.Account] = append(byUser[v.process.Account], v)
	}
	var beyond []*observedVM
	for _, of := range byUser {
		if len(of) <= aloneMost {
			continue
		}
		slices.SortFunc(of, func(a, b *observedVM) int {
			return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.id.PID, b.id.PID))
		})
		beyond = append(beyond, of[aloneMost:]...)
	}
	return beyond
}

// found returns the VMs that were found and are still running.
func (s *Source) found() []*observedVM {
	var all []*observedVM
	for _, v := range s.vms {
		if v.exe != "" && v.died == 0 {
			all = append(all, v)
		}
	}
	return all
}

// leaveCrowd leaves out the VMs that exceed the limit of VMs attached to one by one.
func (s *Source) leaveCrowd() error {
	users := make(map[int]int)
	for _, v := range crowdedOut(s.found()) {
		s.left[v.id.PID] = &leftVM{observedVM: v, until: math.MaxInt64, why: onlySome(v.process.Account)}
		users[v.process.Account]++
		if err := s.giveUp(v.id.PID); err != nil {
			return err
		}
	}
	for user, n := range users {
		s.note("%d VMs of user %d are not observed any more: %s", n, user, onlySome(user))
	}
	return nil
}

// onlySome explains why a VM of a user is not observed.
func onlySome(user int) string {
	return fmt.Sprintf("beamscope now attaches to VMs one by one, and to at most %d of user %d", aloneMost, user)
}

// admitAlone returns an error if the user of a VM has too many others to attach to it by itself.
func (s *Source) admitAlone(v vm.VM) error {
	if s.fileOf(v).pid == 0 || s.cfg.Target.Single() {
		return nil
	}
	user := v.Account
	n := 0
	for _, o := range s.found() {
		if o.process.Account == user {
			n++
		}
	}
	if n < aloneMost {
		return nil
	}
	return errors.New(onlySome(user))
}
