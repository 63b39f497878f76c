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

	"github.com/beamscope/beamscope/internal/recording"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/session"
	"github.com/beamscope/beamscope/internal/snapshot"
)

// A shot says what a scene is a snapshot of.
type shot struct {
	recording.Snapshot
	causes []recording.Cause // the first triggered it
}

// fired returns the number of the window that triggered the snapshot.
func (s *shot) fired() uint64 { return s.First + s.Trigger() }

// position says where a window is: before the one that triggered the snapshot, or
// after.
func (s *shot) position(number uint64) string {
	switch fired := s.fired(); {
	case number < fired:
		return fmt.Sprintf("%d before", fired-number)
	case number > fired:
		return fmt.Sprintf("%d after", number-fired)
	}
	return "fired"
}

// maxShot is how many windows of a snapshot are kept: all, as a rule.
const maxShot = 2 * snapshot.MaxWindows

// readSnapshot makes a scene of a snapshot. It begins with the window that triggered
// it. Where the file is damaged behind that one there is a scene as well as an error.
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
	if c := s.shot.causes[0]; c.Probe != "" {
		s.title += fmt.Sprintf(" %s of %s", c.Trigger, c.Probe)
	}
	if err != nil {
		err = unreadable(path, err)
	}
	return s, err
}

// errNoWindow says that a snapshot is not whole.
var errNoWindow = errors.New("the window that fired is not in it")

// unreadable says in one line what is wrong with a snapshot.
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

// openSnapshot shows a snapshot in the place of what is live.
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
