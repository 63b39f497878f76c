package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v2"
	"golang.org/x/term"

	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/snapshot"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/ui/dashboard"
)

// atTerminal reports whether the program runs at a terminal that can show a dashboard.
func atTerminal() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb"
}

// adviseTerminal adds advice to the error about an unknown terminal: another TERM, or the flag
// that avoids the terminal. tcell's error for a missing terminfo entry is only text.
func adviseTerminal(err error, flag string) error {
	if err == nil || !errors.Is(err, tcell.ErrTermNotFound) && !strings.Contains(err.Error(), "terminfo") {
		return err
	}
	return fmt.Errorf("unknown terminal TERM=%q: set TERM=xterm-256color, or use %s", os.Getenv("TERM"), flag)
}

// watch observes as observe does, and shows the result on a dashboard. It ends if the terminal
// disappears. It also ends on SIGQUIT, so that the terminal is restored.
func watch(ctx context.Context, c config.Config, o observation, opts dashboard.Options) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	if there, err := o.await(ctx, c, os.Stderr); !there {
		return err
	}
	opts.Snapshots, opts.Wall = c.Path(c.Snapshots.Dir), monotonic.Wall
	d := dashboard.New(opts)
	attaching := newAttaching(os.Stderr, time.Now)
	s, err := session.Open(ctx, c, session.Options{
		Observers: []scope.Observer{d},
		Record:    o.record.create(d.Notify),
		Discover:  o.discover,
		Limit:     o.limit,
		Spare:     o.spare,
		Look:      o.look,
		Script:    o.script,
		Note:      recordedNow(),
		Notify:    d.Notify,
		Progress:  attaching.progress,
	})
	attaching.end() // the dashboard has the terminal from now on
	if err != nil {
		return stopped(ctx, err, os.Stderr)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return adviseTerminal(d.Run(ctx, s, func(ctx context.Context) error { return s.Run(ctx, o.duration) }), "--headless")
}

// A film is a recording or a snapshot to replay on the dashboard.
type film struct {
	header   recording.Header
	snapshot *snapshot.Reader // nil for a recording; already closed
	open     func() (session.Input, error)
}

// look shows a recording on a dashboard. It shows a snapshot at the window of its trigger.
func look(ctx context.Context, in film, r session.Replay, opts dashboard.Options) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	opts.Wall = wallOf(in.header)
	if s := in.snapshot; s != nil {
		r.First = s.Snapshot.First
		if c := s.Causes[0]; c.Outcome != "" {
			opts.Title = fmt.Sprintf("snapshot %s %s of %s", opts.Wall(c.Time).Local().Format(time.TimeOnly), c.Trigger, c.Outcome)
		}
		opts.Fixed, opts.Window, opts.Oldest = true, r.First+s.Snapshot.Trigger(), r.First+s.Snapshot.Prelude
	}
	d := dashboard.New(opts)
	r.Observers, r.Notify = []scope.Observer{d}, d.Notify
	p, err := session.NewPlayer(r, in.open)
	if err != nil {
		return err
	}
	return adviseTerminal(d.Run(ctx, p, func(ctx context.Context) error {
		p.Play(ctx, d.Ended)
		return nil
	}), "--headless")
}

// recordingIn returns the recording in a file.
func recordingIn(ctx context.Context, path string) (film, error) {
	r, err := recording.Open(ctx, path)
	if err != nil {
		return film{}, err
	}
	return film{header: r.Header, open: func() (session.Input, error) { return recording.Open(ctx, path) }}, r.Close()
}

// snapshotIn returns the snapshot in a file.
func snapshotIn(ctx context.Context, path string) (film, error) {
	s, err := snapshot.Open(ctx, path)
	if err != nil {
		return film{}, err
	}
	return film{header: s.Header, snapshot: s, open: func() (session.Input, error) { return snapshot.Open(ctx, path) }}, s.Close()
}

// bundledFilm returns the recording of a demonstration.
func bundledFilm(s demoSystem) (film, error) {
	data, err := demoFiles.ReadFile(s.name + ".bsr")
	if err != nil {
		return film{}, err
	}
	open := func() (*recording.Reader, error) { return recording.NewReader(bytes.NewReader(data)) }
	r, err := open()
	if err != nil {
		return film{}, err
	}
	return film{header: r.Header, open: func() (session.Input, error) { return open() }}, nil
}
