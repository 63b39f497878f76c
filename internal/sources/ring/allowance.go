package ring

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A searchKind is the extent of a search in a VM's memory.
type searchKind int

const (
	narrow searchKind = iota // new memory, or the places where the VM puts large blocks
	wide                     // all memory, or all of these places again
	searchKinds
)

// allowed is the share of a processor that the searches of each kind may use, in all VMs. Users
// with searched VMs share it equally.
var allowed = [searchKinds]float64{narrow: 1. / 20, wide: 1. / 50}

const (
	// maxSaved is the processor time that a user may save up for searches of a kind.
	maxSaved = 500 * time.Millisecond

	// maxOwed is the maximum debt of searches of a kind, in processor time. A search may take long,
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
	left [searchKinds]float64
	at   int64 // time of the last update
}

func newAllowance() *allowance { return &allowance{users: 1, of: make(map[int]*credit)} }

// fill adds the time earned until now by one of a number of users.
func (p *credit) fill(now int64, users int) {
	for kind, part := range allowed {
		p.left[kind] = min(float64(maxSaved), p.left[kind]+part*float64(now-p.at)/float64(users))
	}
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
func (a *allowance) allows(user int, kind searchKind, now int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.credit(user, now)
	a.all.fill(now, 1)
	return p.left[kind] >= 0 && a.all.left[kind] > -float64(maxOwed)
}

// charge subtracts the processor time of a search in a user's VM.
func (a *allowance) charge(user int, kind searchKind, now int64, used time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.credit(user, now).left[kind] -= float64(used)
	a.all.fill(now, 1)
	a.all.left[kind] -= float64(used)
}

// credit returns the filled credit of a user. A new user begins with a share of maxSaved, so that
// many users together have no more than one.
func (a *allowance) credit(user int, now int64) *credit {
	p := a.of[user]
	if p == nil {
		p = &credit{at: now}
		for kind := range p.left {
			p.left[kind] = float64(maxSaved) / float64(a.users)
		}
		a.of[user] = p
	}
	p.fill(now, a.users)
	return p
}

// processorTime calls work and returns the processor time that it took.
func processorTime(work func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begun := threadTime()
	work()
	return threadTime() - begun
}

// threadTime returns the processor time of this thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0 // every kernel has this clock
	}
	return time.Duration(t.Nano())
}
