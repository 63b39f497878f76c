package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/safetext"
)

// attachingEvery is how often the log says how far attaching is. What takes less is done
// before anybody wonders.
const attachingEvery = time.Second

// An attaching says in a log how far attaching is, now and then.
type attaching struct {
	log io.Writer
	now func() time.Time

	mu   sync.Mutex
	last time.Time // when it began, or the log last said something
	said bool
	done bool
}

func newAttaching(log io.Writer, now func() time.Time) *attaching {
	return &attaching{log: log, now: now, last: now()}
}

// progress takes in how far attaching is. It may be called from any goroutine.
func (a *attaching) progress(p outcome.Progress) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if a.done || now.Sub(a.last) < attachingEvery && !(a.said && p.Loaded == p.All) {
		return
	}
	a.last, a.said = now, p.Loaded < p.All
	fmt.Fprintf(a.log, "attaching: %d of %d programs are loaded\n", p.Loaded, p.All)
}

// stopped says in a log that a signal has ended a command before anything was observed.
// That is no failure; any other error is.
func stopped(ctx context.Context, err error, log io.Writer) error {
	if err == nil || ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	safetext.Fprintln(log, noWindow)
	return nil
}

// noWindow says that a command was over before it had observed anything.
const noWindow = "interrupted before the first window: nothing was observed"

// end has it say nothing from now on.
func (a *attaching) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done = true
}
