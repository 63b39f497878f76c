// Package guard limits the time that another process can make this one wait.
//
// To read a process's command line, mappings, memory and files, the kernel may need help from
// others: a file system in user space (FUSE), a server in the network, or a program that provides
// pages of memory. These may not answer, and then a system call waits forever. Only the answer or
// the end of this process ends it, so the goroutine that made the call stays behind. A Guard counts
// these goroutines.
package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/host/account"
)

// ErrNoAnswer means that something took too long, or was not tried because others of the
// same owner did.
var ErrNoAnswer = errors.New("no answer")

// The maximum number of abandoned calls of one owner and of all owners. Each blocks an operating
// system thread. The limit of an owner allows for several calls, so one process that hangs does not
// hide the others.
const (
	mostOfOwner = 8
	most        = 512
)

// A Guard counts the calls that were left behind. The zero value is ready to use, by
// several goroutines at once.
type Guard struct {
	accounts account.Table

	mu    sync.Mutex
	stuck map[int]int // by account
	all   int
}

// Do calls f in another goroutine and returns its result. If that takes longer than the limit, the
// error wraps ErrNoAnswer. If the context ends before, the error is its cause. The call then goes
// on, with a context that is done. If its late result is an [io.Closer], Do closes it.
//
// The owner is the user whose process f looks at. If eight calls on the owner's account, see
// [account.Table], were left behind and have not ended, or 512 of all, Do does not call f.
func Do[T any](ctx context.Context, g *Guard, owner int, limit time.Duration, f func(context.Context) (T, error)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	payer := g.accounts.Of(owner)
	if g.full(payer) {
		return none, fmt.Errorf("%w: other processes of user %d do not answer", ErrNoAnswer, payer)
	}
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w within %v", ErrNoAnswer, limit))
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := f(limited)
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-limited.Done():
	}
	g.count(payer, 1)
	go func() {
		late := <-answers
		g.count(payer, -1)
		if c, ok := any(late.value).(io.Closer); ok && late.err == nil {
			_ = c.Close() // the caller has stopped waiting
		}
	}()
	return none, context.Cause(limited)
}

// full reports whether an account, or all accounts together, have too many abandoned calls.
func (g *Guard) full(payer int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stuck[payer] >= mostOfOwner || g.all >= most
}

// count adds to the number of abandoned calls; calls is negative when some have ended.
func (g *Guard) count(payer, calls int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stuck == nil {
		g.stuck = make(map[int]int)
	}
	g.all += calls
	if g.stuck[payer] += calls; g.stuck[payer] == 0 {
		delete(g.stuck, payer)
	}
}
