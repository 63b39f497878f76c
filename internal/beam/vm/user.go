package vm

import (
	"cmp"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"
)

// ErrNoUser means that the user in a target does not exist.
var ErrNoUser = errors.New("no such user")

// user returns a function that reports whether the target selects the VMs of a user id.
func (t Target) user() (wanted func(uid int) bool, err error) {
	if t.User == "" {
		return func(int) bool { return true }, nil
	}
	id, err := strconv.ParseUint(t.User, 10, 32)
	if err != nil {
		found, err := user.Lookup(t.User)
		if err != nil {
			return nil, fmt.Errorf("%s: %w on this machine: give the name or the number of one", t, ErrNoUser)
		}
		if id, err = strconv.ParseUint(found.Uid, 10, 32); err != nil {
			return nil, fmt.Errorf("%s: %w", t, err)
		}
	}
	return func(uid int) bool { return uid == int(id) }, nil
}

// share returns up to most of the VMs, and the rest. Each account has an equal share of the room,
// and accounts share what others do not need. Among the VMs of an account, those with the lowest pids
// come first. Both lists are sorted by pid, like the VMs.
func share(all []VM, most int) (kept, beyond []VM) {
	if len(all) <= most {
		return all, nil
	}
	turns := make(map[int]int) // number of VMs by account
	type queued struct {
		VM
		turn int // position among the VMs of the account
	}
	queue := make([]queued, 0, len(all))
	for _, v := range all {
		queue = append(queue, queued{v, turns[v.Account]})
		turns[v.Account]++
	}
	slices.SortStableFunc(queue, func(a, b queued) int { return cmp.Compare(a.turn, b.turn) })
	for i, q := range queue {
		if i < most {
			kept = append(kept, q.VM)
		} else {
			beyond = append(beyond, q.VM)
		}
	}
	byPID := func(a, b VM) int { return cmp.Compare(a.PID(), b.PID()) }
	slices.SortFunc(kept, byPID)
	slices.SortFunc(beyond, byPID)
	return kept, beyond
}
