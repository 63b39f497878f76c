package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/snapshot"
	"github.com/beamscope/beamscope/internal/files/trusted"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// scopeFile is the name of the configuration file in recordings.
const scopeFile = "scope.yaml"

// configOf returns the entry for a system and its plan in a recording.
func configOf(s *scope.System, p outcome.Plan) *recording.Config {
	return &recording.Config{Files: []recording.File{{Name: scopeFile, Text: s.Source}}, Plan: p}
}

// A recorder writes everything that a scope passes to observers.
type recorder struct {
	create func() (*recording.Writer, error)
	w      *recording.Writer // nil before the first configuration
	failed error             // error that a write has already returned
	omitted
}

// A recording holds the largest frame.
const _ = uint(recording.MaxTotalBins - scope.MaxBins)

// An omitted is the number of outcomes of VMs that the last frame left out. The batch lacks them, and a recording of
// the batch says so.
type omitted int

// note calls notice if the number in a frame has changed.
func (o *omitted) note(f *scope.Frame, notice func(*outcome.Notice) error) error {
	if f.Omitted == int(*o) {
		return nil
	}
	*o = omitted(f.Omitted)
	return notice(&outcome.Notice{Text: scope.OmittedText(f.Omitted)})
}

// Configured implements [scope.Observer].
func (r *recorder) Configured(s *scope.System, p outcome.Plan) (err error) {
	if r.w == nil {
		if r.w, err = r.create(); err != nil {
			return err
		}
	}
	return r.returned(r.w.Config(configOf(s, p)))
}

// returned records that an error is returned.
func (r *recorder) returned(err error) error {
	if err != nil {
		r.failed = err
	}
	return err
}

// Framed implements [scope.Observer].
func (r *recorder) Framed(b *outcome.Batch, f *scope.Frame) error {
	if err := r.note(f, r.w.Notice); err != nil {
		return r.returned(err)
	}
	return r.returned(r.w.Batch(b))
}

// Noticed implements [scope.Observer].
func (r *recorder) Noticed(n outcome.Notice) error { return r.returned(r.w.Notice(&n)) }

func (r *recorder) close() error {
	if r == nil || r.w == nil {
		return nil
	}
	err := r.w.Close()
	if r.failed != nil && errors.Is(err, r.failed) {
		return nil // the run has already ended with this error
	}
	return err
}

// A keeper makes snapshots from what a scope passes to observers. If a snapshot fails, a notice
// reports it and the run continues.
type keeper struct {
	*snapshot.Keeper
	notify func(outcome.Notice)
	omitted

	mu   sync.Mutex
	said []string // messages of the goroutine that writes
}

func newKeeper(c config.Config, o Options) (*keeper, error) {
	k := &keeper{notify: o.Notify}
	opts := snapshotOptions(c, o.Note)
	if fires(c) {
		if err := writable(opts.Dir); err != nil {
			return nil, fmt.Errorf("snapshots: %w", err)
		}
	}
	opts.Written = func(path string, err error) {
		if path != "" {
			k.say("snapshot: %s", path)
		}
		if err != nil {
			k.say("%v", err)
		}
	}
	var err error
	k.Keeper, err = snapshot.New(opts)
	return k, err
}

// fires reports whether a configuration has triggers, so that snapshots may be made.
func fires(c config.Config) bool {
	return slices.ContainsFunc(c.Outcomes, func(o config.Outcome) bool { return len(o.Triggers) > 0 })
}

// checkSnapshots returns the reason why a configuration's snapshots cannot be written, as far as
// that can be determined without creating their folder.
func checkSnapshots(c config.Config) error {
	if !fires(c) {
		return nil
	}
	at := snapshotOptions(c, "").Dir
	for {
		err := unix.Faccessat(unix.AT_FDCWD, at, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		if info, stat := os.Stat(at); stat == nil && !info.IsDir() {
			err = unix.ENOTDIR
		}
		above := filepath.Dir(at)
		if !errors.Is(err, fs.ErrNotExist) || above == at {
			if err != nil {
				return fmt.Errorf("snapshots: %s: %w", at, err)
			}
			return nil
		}
		at = above
	}
}

// writable creates a folder if necessary, and checks that files can be created in it, before a
// snapshot needs it.
func writable(dir string) error {
	folder, err := trusted.MakeFolder(dir)
	if err != nil {
		return err
	}
	if err := folder.Close(); err != nil {
		return err
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

func (k *keeper) say(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.said = append(k.said, fmt.Sprintf(format, args...))
}

// pass passes on the waiting messages.
func (k *keeper) pass() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, text := range k.said {
		if k.notify != nil {
			k.notify(outcome.Notice{Time: monotonic.Now(), Text: text})
		}
	}
	k.said = k.said[:0]
}

func (k *keeper) check(err error) {
	if err != nil {
		k.say("%v", err)
	}
}

// Configured implements [scope.Observer].
func (k *keeper) Configured(s *scope.System, p outcome.Plan) error {
	k.check(k.Config(configOf(s, p)))
	return nil
}

// Framed implements [scope.Observer].
func (k *keeper) Framed(b *outcome.Batch, f *scope.Frame) error {
	k.check(k.note(f, k.Notice))
	k.check(k.Batch(b))
	for _, x := range f.Fired {
		k.check(k.Fire(&recording.Cause{
			Time:    f.Window.To,
			Number:  f.Number,
			Trigger: x.Trigger,
			Setting: x.Setting,
			Outcome: x.Outcome,
			VM:      x.VM,
			Text:    x.Cause,

			Explanation: x.Explanation,
		}, b.Owners[x.VM]))
	}
	k.pass()
	return nil
}

// Noticed implements [scope.Observer].
func (k *keeper) Noticed(n outcome.Notice) error {
	k.check(k.Notice(&n))
	return nil
}

func (k *keeper) close() {
	k.Close()
	k.pass()
}
