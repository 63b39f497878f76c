package ring

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/host/processor"
)

// allowed is the share of a processor that searches may use, in all VMs. Users with searched VMs share
// it equally.
const allowed = 1. / 20

const (
	// maxSaved is the processor time that a user may save up for searches.
	maxSaved = 500 * time.Millisecond

	// maxOwed is a debt of processor time. While all searches together owe more, users without a history wait.
	maxOwed = 4 * time.Second

	// unpaced is the processor time after which a search waits until nothing is owed. It is enough for
	// some 20 GiB.
	unpaced = 200 * time.Millisecond

	// newcomer is the time in nanoseconds for which a user has no history.
	newcomer = 60_000_000_000
)

// An allowance limits the processor time of searches. A search may begin if its user has credit left, and
// owes what it uses beyond that. A long search goes on only as fast as credit is earned, so one user's
// search takes nothing from the others. Users that were never seen before wait while much is owed: one
// person may have many users. Several goroutines may use it.
type allowance struct {
	mu    sync.Mutex
	users int // users that share it
	of    map[int]*credit
	all   credit

	// wait waits for a time, or until the context is done. It returns the cause then.
	wait func(context.Context, time.Duration) error
}

// A credit is the processor time that is left, in nanoseconds. It is negative after a search has
// used more than there was.
type credit struct {
	left  float64
	at    int64 // time of the last update
	since int64 // time from which on the user has a history
}

func newAllowance() *allowance { return &allowance{users: 1, of: make(map[int]*credit), wait: wait} }

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// fill adds the time earned until now by one of a number of users.
func (p *credit) fill(now int64, users int) {
	p.left = min(float64(maxSaved), p.left+allowed*float64(now-p.at)/float64(users))
	p.at = now
}

// share sets the number of users that share the allowance.
func (a *allowance) share(users int, now int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all.fill(now, 1)
	for _, p := range a.of {
		p.fill(now, a.users)
	}
	a.users = max(1, users)
}

// allows reports whether a search in a user's VM may begin now.
func (a *allowance) allows(user int, now int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.credit(user, now)
	a.all.fill(now, 1)
	return p.left >= 0 && (now >= p.since || a.all.left > -float64(maxOwed))
}

// owed returns the time until neither a user nor all of them together owe anything.
func (a *allowance) owed(user int, now int64) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all.fill(now, 1)
	own := -a.credit(user, now).left * float64(a.users)
	return time.Duration(max(own, -a.all.left, 0) / allowed)
}

// charge subtracts the processor time of a search in a user's VM.
func (a *allowance) charge(user int, now int64, used time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.credit(user, now).left -= float64(used)
	a.all.fill(now, 1)
	a.all.left -= float64(used)
}

// credit returns the filled credit of a user. A new user begins with a share of maxSaved, so that
// many users together have no more than one.
func (a *allowance) credit(user int, now int64) *credit {
	p := a.of[user]
	if p == nil {
		p = &credit{left: float64(maxSaved) / float64(a.users), at: now, since: now + newcomer}
		a.of[user] = p
	}
	p.fill(now, a.users)
	return p
}

// spend runs a part of a search in a user's VM, and charges its processor time to the user. The search
// calls pace again and again: after [unpaced] of processor time that waits until nothing is owed. The error
// of pace is the cause of the end of a context.
func (a *allowance) spend(user int, now func() int64, work func(pace func(context.Context) error)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var used time.Duration
	last := processor.Thread()
	charge := func() {
		at := processor.Thread()
		a.charge(user, now(), at-last)
		used, last = used+at-last, at
	}
	defer charge()
	work(func(ctx context.Context) error {
		for charge(); used > unpaced; {
			owed := a.owed(user, now())
			if owed == 0 {
				break
			}
			if err := a.wait(ctx, owed); err != nil {
				return err
			}
		}
		return nil
	})
}
