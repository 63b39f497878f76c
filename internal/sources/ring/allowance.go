package ring

import (
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

	// maxOwed is the maximum debt of searches, in processor time. A search may take long,
	// and each user may have one running.
	maxOwed = 4 * time.Second
)

// An allowance limits the processor time of searches. A search may begin if its user has credit
// left, and owes what it uses beyond that. Several goroutines may use it.
type allowance struct {
	mu    sync.Mutex
	users int // users that share it
	of    map[int]*credit
	all   credit
}

// A credit is the processor time that is left, in nanoseconds. It is negative after a search has
// used more than there was.
type credit struct {
	left float64
	at   int64 // time of the last update
}

func newAllowance() *allowance { return &allowance{users: 1, of: make(map[int]*credit)} }

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
	return p.left >= 0 && a.all.left > -float64(maxOwed)
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
		p = &credit{left: float64(maxSaved) / float64(a.users), at: now}
		a.of[user] = p
	}
	p.fill(now, a.users)
	return p
}

// processorTime calls work and returns the processor time that it took.
func processorTime(work func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begun := processor.Thread()
	work()
	return processor.Thread() - begun
}
