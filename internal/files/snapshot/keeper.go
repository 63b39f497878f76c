package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/files/recording"
)

// Default values of the Options.
const (
	DefaultBefore   = 30
	DefaultPrelude  = 30 // usually the windows of a mean
	DefaultAfter    = 5 * time.Second
	DefaultMaxFiles = 100
	DefaultMaxBytes = 100 << 20
)

// Limits of the data in memory.
const (
	MaxWindows = 4096 // before the window of the trigger
	MaxCauses  = 64   // of a snapshot; further ones are counted
	maxNotices = 256  // between two windows; further ones are dropped
	maxWaiting = 4    // snapshots that wait for the one that is being written
)

// Errors of a Keeper.
var (
	ErrOptions = errors.New("invalid settings of snapshots")
	ErrBusy    = errors.New("snapshot dropped: the disk is too slow")
)

// Options configure the contents and the folder of a Keeper.
type Options struct {
	Dir     string           // folder of the snapshots, created when it is needed
	Header  recording.Header // of the snapshots
	Before  int              // windows to show before the one of the trigger
	Prelude int              // windows before those, for their history
	After   time.Duration    // how long to continue after the window of the trigger

	// Limits of the folder. To make room for a new snapshot, which is kept however large it is, the
	// oldest of the owner that has the most is deleted.
	MaxFiles int
	MaxBytes int64

	// Written, if not nil, is called for each snapshot that was written or could not be written.
	// In the latter case the path is "". With a path, an error concerns the deletion of old
	// snapshots. A goroutine of the Keeper calls it.
	Written func(path string, err error)
}

func (o *Options) check() error {
	switch {
	case o.Dir == "":
		return fmt.Errorf("%w: no folder", ErrOptions)
	case o.Before < 0 || o.Prelude < 0 || o.Before > MaxWindows || o.Prelude > MaxWindows-o.Before:
		return fmt.Errorf("%w: %d and %d windows: want 0 to %d together", ErrOptions, o.Prelude, o.Before, MaxWindows)
	case o.After < 0:
		return fmt.Errorf("%w: %v after the trigger: want 0 or more", ErrOptions, o.After)
	case o.MaxFiles < 1 || o.MaxBytes < 1:
		return fmt.Errorf("%w: a folder of %d files and %d bytes: want 1 or more", ErrOptions, o.MaxFiles, o.MaxBytes)
	}
	return nil
}

// A Keeper keeps the last windows, and makes snapshots of them. One goroutine calls its methods.
// They do not wait for the disk, except Close. An encoding error wraps those of
// [recording.Encoder]. The Keeper then leaves out the data that caused it and keeps the rest.
type Keeper struct {
	opts    Options
	encoder recording.Encoder
	scratch []byte

	ring     ring
	next     slot // data since the last window
	batches  uint64
	last     outcome.Window
	lastTime time.Time

	pending *pending // nil if no snapshot is in progress
	jobs    chan *pending
	writing sync.WaitGroup
}

// New returns a Keeper. The caller closes it. Errors wrap [ErrOptions].
func New(o Options) (*Keeper, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	k := &Keeper{opts: o, ring: newRing(o.Prelude + o.Before + 1), jobs: make(chan *pending, maxWaiting)}
	k.writing.Go(k.write)
	return k, nil
}

// Config sets the configuration from the next window on.
func (k *Keeper) Config(c *recording.Config) error {
	block, err := k.encoder.AppendConfig(k.scratch[:0], c)
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	k.scratch, k.next.config = k.next.config, block
	return nil
}

// Notice stores a notice.
func (k *Keeper) Notice(n *outcome.Notice) error {
	notices := &k.next.notices
	if notices.blocks == maxNotices {
		return nil
	}
	data, err := k.encoder.AppendNotice(notices.data, n)
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	notices.data = data
	notices.blocks++
	return nil
}

// Batch stores a window. If the snapshot in progress was already complete, it is written. The
// error wraps [ErrBusy] if too many snapshots wait to be written.
func (k *Keeper) Batch(b *outcome.Batch) error {
	err := k.complete()
	block, encodeErr := k.encoder.AppendBatch(k.next.batch[:0], b)
	if encodeErr != nil {
		return errors.Join(err, fmt.Errorf("snapshot: %w", encodeErr))
	}
	k.next.batch = block
	window := k.ring.push(&k.next)
	k.batches++
	k.last, k.lastTime = b.Window, b.Time
	if k.pending != nil {
		k.pending.body.addWindow(window)
	}
	return err
}

// complete writes the snapshot in progress if it is complete. It is called at the next window,
// because triggers fire after their windows.
func (k *Keeper) complete() error {
	p := k.pending
	if p == nil || k.last.To < p.until {
		return nil
	}
	k.pending = nil
	p.Complete = true
	select {
	case k.jobs <- p:
		return nil
	default:
		return fmt.Errorf("%w: %s", ErrBusy, p.name)
	}
}

// Fire begins a snapshot because of the last window, or adds a cause to the snapshot in progress.
// Before the first window it does nothing. owner is the owner of the cause's VM, see
// [outcome.Batch]. If it is "", the VM counts as its own owner.
func (k *Keeper) Fire(c *recording.Cause, owner string) error {
	owner = cmp.Or(owner, c.VM.String())
	if k.batches == 0 {
		return nil
	}
	if k.pending != nil {
		return k.pending.add(c, owner)
	}
	p := k.begin(c)
	if err := p.add(c, owner); err != nil {
		return err
	}
	k.pending = p
	return nil
}

// begin returns a snapshot of the windows in the ring.
func (k *Keeper) begin(c *recording.Cause) *pending {
	before := k.ring.len - 1
	shown := min(before, k.opts.Before)
	return &pending{
		Snapshot: recording.Snapshot{
			First:   k.batches - uint64(k.ring.len),
			Prelude: uint64(before - shown),
			Before:  uint64(shown),
		},
		name:  fileName(k.lastTime, c),
		until: k.last.To + int64(k.opts.After),
		body:  k.ring.body(),
	}
}

// Close writes the snapshot in progress as it is, marked as incomplete if it is. It waits until
// all snapshots are written.
func (k *Keeper) Close() {
	if p := k.pending; p != nil {
		p.Complete = k.last.To >= p.until
		p.body.addNotices(&k.next)
		k.jobs <- p
		k.pending = nil
	}
	close(k.jobs)
	k.writing.Wait()
}

// write writes snapshots, one after the other.
func (k *Keeper) write() {
	for p := range k.jobs {
		path, err := k.save(p)
		if k.opts.Written != nil {
			k.opts.Written(path, err)
		}
	}
}

func (k *Keeper) save(p *pending) (path string, err error) {
	parts, err := p.parts(&k.opts.Header)
	if err != nil {
		return "", fmt.Errorf("write snapshot %s: %w", p.name, err)
	}
	path, err = writeFile(k.opts.Dir, p.name, parts)
	if err != nil {
		return "", fmt.Errorf("write snapshot %s: %w", p.name, err)
	}
	if err := prune(k.opts.Dir, path, k.opts.MaxFiles, k.opts.MaxBytes); err != nil {
		return path, fmt.Errorf("delete old snapshots: %w", err)
	}
	return path, nil
}
