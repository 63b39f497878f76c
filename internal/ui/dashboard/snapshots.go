package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/snapshot"
)

// A shot describes the snapshot that a scene shows.
type shot struct {
	recording.Snapshot
	causes []recording.Cause // the first one triggered it
}

// fired returns the number of the window that triggered the snapshot.
func (s *shot) fired() uint64 { return s.First + s.Trigger() }

// position returns the position of a window relative to the one that triggered the snapshot.
func (s *shot) position(number uint64) string {
	switch fired := s.fired(); {
	case number < fired:
		return fmt.Sprintf("%d before", fired-number)
	case number > fired:
		return fmt.Sprintf("%d after", number-fired)
	}
	return "fired"
}

// maxShot is the largest number of windows of a snapshot that are kept. Normally that is all of
// them.
const maxShot = 2 * snapshot.MaxWindows

// readSnapshot makes a scene from a snapshot. It begins with the window that triggered it. If the
// file is damaged after that window, it returns both a scene and an error.
func readSnapshot(ctx context.Context, path string) (*scene, error) {
	in, err := snapshot.Open(ctx, path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer in.Close()
	s := &scene{store: newStore(), shot: &shot{in.Snapshot, slices.Clone(in.Causes)}}
	s.store.most = maxShot
	s.at, s.oldest = s.shot.fired(), s.shot.First+s.shot.Prelude
	replay := session.Replay{First: in.Snapshot.First, Observers: []scope.Observer{s.store}}
	if err = replay.Play(ctx, in); err == nil {
		err = ctx.Err()
	}
	f := s.frame()
	if f == nil || f.Number != s.at {
		return nil, unreadable(path, cmp.Or(err, errNoWindow))
	}
	s.title = "snapshot " + f.Time.Local().Format("15:04:05")
	if c := s.shot.causes[0]; c.Outcome != "" {
		s.title += fmt.Sprintf(" %s of %s", c.Trigger, c.Outcome)
	}
	if err != nil {
		err = unreadable(path, err)
	}
	return s, err
}

// errNoWindow means that a snapshot is incomplete.
var errNoWindow = errors.New("the window that fired is not in it")

// unreadable describes the error of a snapshot in one line.
func unreadable(path string, err error) error {
	name := filepath.Base(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not there any more", name)
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), path+": "))
}

// openSnapshot shows a snapshot instead of the live view.
func (d *Dashboard) openSnapshot(path string) {
	var s *scene
	d.background("reading "+filepath.Base(path), func(ctx context.Context) (err error) {
		s, err = readSnapshot(ctx, path)
		return err
	}, func(err error) {
		d.fail(err)
		if s == nil {
			return
		}
		d.scene = s
		if err == nil {
			d.say(plain, s.title+": , and . step before and after, Esc goes back")
		}
	})
}
