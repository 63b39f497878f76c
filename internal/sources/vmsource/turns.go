package vmsource

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	maxTurns = 4 // executables that are read at one time

	// maxTurnsOfUser leaves a turn to other users: a user may start many VMs whose executables take long to read.
	maxTurnsOfUser = maxTurns - 1

	// spentHalf is the time after which what a user has taken counts half. Times below spentLeast
	// are forgotten. If more than spentMost users have taken time, the smallest times are forgotten too.
	spentHalf  = 5 * time.Minute
	spentLeast = time.Millisecond
	spentMost  = 1024
)

// Turns limit the number of executables that are read at one time. A turn that becomes free goes to the
// user whose executables have taken the least time lately. Several goroutines may use them.
type turns struct {
	mu      sync.Mutex
	taken   map[int]int           // by user
	spent   map[int]time.Duration // by user
	halved  time.Time             // when what was spent was halved
	waiting []*turn               // in the order of their requests
}

// A turn is a request of a user.
type turn struct {
	user    int
	granted chan struct{} // closed when the user has the turn
}

func newTurns() *turns {
	return &turns{taken: make(map[int]int), spent: make(map[int]time.Duration), halved: time.Now()}
}

// do calls f in a turn of a user. If the context is done before, it returns the cause.
func (t *turns) do(ctx context.Context, user int, f func()) error {
	own := &turn{user, make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, own)
	t.grant()
	t.mu.Unlock()
	select {
	case <-own.granted:
	case <-ctx.Done():
		t.leave(own)
		return context.Cause(ctx)
	}
	began := time.Now()
	defer func() { t.end(user, time.Since(began)) }()
	f()
	return nil
}

// leave gives up a request, or the turn if it was granted meanwhile.
func (t *turns) leave(own *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, own); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		return
	}
	t.giveBack(own.user)
	t.grant()
}

// end ends a turn, and grants those that can follow.
func (t *turns) end(user int, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.halve(time.Now())
	t.spent[user] += took
	t.forgetLeast()
	t.giveBack(user)
	t.grant()
}

// giveBack records that a user has one turn less.
func (t *turns) giveBack(user int) {
	if t.taken[user]--; t.taken[user] == 0 {
		delete(t.taken, user)
	}
}

// halve makes what was spent count less as time passes.
func (t *turns) halve(now time.Time) {
	n := int(now.Sub(t.halved) / spentHalf)
	if n <= 0 {
		return
	}
	t.halved = t.halved.Add(time.Duration(n) * spentHalf)
	for user := range t.spent {
		if t.spent[user] >>= min(n, 62); t.spent[user] < spentLeast {
			delete(t.spent, user)
		}
	}
}

// forgetLeast forgets the user who has spent least, if there are too many.
func (t *turns) forgetLeast() {
	if len(t.spent) <= spentMost {
		return
	}
	least := -1
	for user, spent := range t.spent {
		if least < 0 || spent < t.spent[least] {
			least = user
		}
	}
	delete(t.spent, least)
}

// grant grants free turns.
func (t *turns) grant() {
	t.halve(time.Now())
	all := 0
	for _, n := range t.taken {
		all += n
	}
	for ; all < maxTurns; all++ {
		next := t.next()
		if next < 0 {
			return
		}
		own := t.waiting[next]
		t.waiting = slices.Delete(t.waiting, next, next+1)
		t.taken[own.user]++
		close(own.granted)
	}
}

// next returns the index of the request to grant next, or -1.
func (t *turns) next() int {
	best := -1
	for i, w := range t.waiting {
		if t.taken[w.user] < maxTurnsOfUser && (best < 0 || t.spent[w.user] < t.spent[t.waiting[best].user]) {
			best = i
		}
	}
	return best
}
