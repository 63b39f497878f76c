// Package guard limits how long another process can make this one wait.
//
// The kernel reads a process's command line, mappings and memory, and the files that it
// runs, with the help of whatever is behind them: a file system of a user's own (FUSE), a
// server in the network, a memory whose pages a program provides. These need not answer,
// and then a system call waits for ever. Nothing can end it but its answer or the end of
// this process, so the goroutine that made it stays behind. A Guard counts those that do.
package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// ErrNoAnswer says that something took too long, or was not tried because others of the
// same owner did.
var ErrNoAnswer = errors.New("no answer")

// How many calls may be left behind: of one owner, and of all of them. Each is a thread
// of the operating system. An owner has so many that one process that hangs does not
// hide the others.
const (
	mostOfOwner = 8
	most        = 512
)

// A Guard counts the calls that were left behind. The zero value is ready to use, by
// several goroutines at once.
type Guard struct {
	mu    sync.Mutex
	stuck map[int]int // by owner
	all   int
}

// Do calls f in a goroutine of its own and returns what it returns. Where that takes
// longer than the limit the error wraps ErrNoAnswer, and where the context is done before
// it is the context's cause. The call then goes on, with a context that is done. What it
// returns late is closed if it is an [io.Closer].
//
// The owner is the user whose process f looks at. Where eight calls of an owner were left
// behind and have not ended, or 512 of all owners, f is not called.
func Do[T any](ctx context.Context, g *Guard, owner int, limit time.Duration, f func(context.Context) (T, error)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	if g.full(owner) {
		return none, fmt.Errorf("%w: other processes of user %d do not answer", ErrNoAnswer, owner)
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
	g.count(owner, 1)
	go func() {
		late := <-answers
		g.count(owner, -1)
		if c, ok := any(late.value).(io.Closer); ok && late.err == nil {
			_ = c.Close() // nobody wants it any more
		}
	}()
	return none, context.Cause(limited)
}

// full reports whether an owner, or all together, hold up too many calls.
func (g *Guard) full(owner int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stuck[owner] >= mostOfOwner || g.all >= most
}

// count counts calls that were left behind, or have ended after all.
func (g *Guard) count(owner, calls int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stuck == nil {
		g.stuck = make(map[int]int)
	}
	g.all += calls
	if g.stuck[owner] += calls; g.stuck[owner] == 0 {
		delete(g.stuck, owner)
	}
}
