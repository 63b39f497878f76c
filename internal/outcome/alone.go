package outcome

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// aloneMost is how many VMs of each user are attached to one by one. Each costs some time at
// every new plan, and windows wait meanwhile. Any user can start as many VMs as there is memory
// for, so without a limit one user could keep all others from being observed.
const aloneMost = 16

// crowdedOut returns the VMs of each user beyond aloneMost: the newest ones.
func crowdedOut(vms []*observedVM) []*observedVM {
	byUser := make(map[int][]*observedVM)
	for _, v := range vms {
		byUser[v.process.User] = append(byUser[v.process.User], v)
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

// found returns the VMs that were found and have not ended.
func (s *VMSource) found() []*observedVM {
	var all []*observedVM
	for _, v := range s.vms {
		if v.exe != "" && v.died == 0 {
			all = append(all, v)
		}
	}
	return all
}

// leaveCrowd leaves out the VMs that are too many to be attached to one by one.
func (s *VMSource) leaveCrowd() error {
	users := make(map[int]int)
	for _, v := range crowdedOut(s.found()) {
		s.left[v.id.PID] = &leftVM{observedVM: v, until: math.MaxInt64, why: onlySome(v.process.User)}
		users[v.process.User]++
		if err := s.giveUp(v.id.PID); err != nil {
			return err
		}
	}
	for user, n := range users {
		s.note("%d VMs of user %d are not observed any more: %s", n, user, onlySome(user))
	}
	return nil
}

// onlySome says why a VM of a user is not observed.
func onlySome(user int) string {
	return fmt.Sprintf("VMs are attached to one by one now, and at most %d of user %d", aloneMost, user)
}

// admitAlone returns an error where a VM of a user is one too many to be attached to by itself.
func (s *VMSource) admitAlone(user int) error {
	if !s.oneByOne || s.cfg.Target.Single() {
		return nil
	}
	n := 0
	for _, v := range s.found() {
		if v.process.User == user {
			n++
		}
	}
	if n < aloneMost {
		return nil
	}
	return errors.New(onlySome(user))
}
