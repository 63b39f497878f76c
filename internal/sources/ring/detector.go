package ring

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/usdt"
)

// Recorded reports whether a VM has a ring of spans anywhere in its memory. It writes nothing to
// the VM. The error wraps [fs.ErrPermission] if this user may not read the memory,
// [usdt.ErrProcessGone] if the VM has ended, and [guard.ErrNoAnswer] if its memory does not answer.
func Recorded(ctx context.Context, v vm.VM) (bool, error) {
	var g guard.Guard
	switch err := look(ctx, &g, v, newAllowance()); {
	case err == nil:
		return true, nil
	case errors.Is(err, ErrNone):
		return false, nil
	default:
		return false, err
	}
}

// look returns nil if a VM has a ring. It only reads the VM's memory, except what is swapped out.
func look(ctx context.Context, g *guard.Guard, v vm.VM, a *allowance) error {
	_, err := guard.Do(ctx, g, v.User, scanPatience, func(ctx context.Context) (_ struct{}, err error) {
		a.spend(v.Account, monotonic.Now, func(pace func(context.Context) error) {
			var memory usdt.ReadableMemory
			if memory, err = v.Process.Memory(v.Exe); err != nil {
				return
			}
			defer memory.Close()
			_, _, err = findReader(ctx, v, unwritten{memory}, area{most: maxScan, pace: pace}, monotonic.Now())
		})
		return struct{}{}, err
	})
	return err
}

// An unwritten memory is only read.
type unwritten struct{ io.ReaderAt }

// WriteAt fails.
func (unwritten) WriteAt([]byte, int64) (int, error) { return 0, errors.ErrUnsupported }

// A Detector finds out whether VMs record spans. It is used by one goroutine. The zero value is
// ready to use.
type Detector struct {
	guard     guard.Guard
	next      map[usdt.Process]*schedule // when to search the memory of a VM again
	allowance *allowance
	users     map[int]bool // users whose VMs were searched
}

// Records reports whether a VM has a ring of spans that can be read. It looks more and more
// rarely at the memory of the same VM, every 4 seconds in the end or when it may use processor time
// again, and is false in between.
func (d *Detector) Records(ctx context.Context, v vm.VM) bool {
	const first, last = 500 * time.Millisecond, 4 * time.Second
	now := monotonic.Now()
	if d.next == nil {
		d.next = make(map[usdt.Process]*schedule)
		d.allowance, d.users = newAllowance(), make(map[int]bool)
	}
	if !d.users[v.Account] {
		d.users[v.Account] = true
		d.allowance.share(len(d.users), now)
	}
	if d.next[v.Process] == nil {
		d.next[v.Process] = &schedule{now, first}
	}
	if !d.allowance.allows(v.Account, now) || !d.next[v.Process].due(now, last) {
		return false
	}
	return look(ctx, &d.guard, v, d.allowance) == nil
}
