package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/beamscope/beamscope/internal/host/safetext"
)

// attachingEvery is the interval between messages about the progress of attaching. Faster
// attaching needs no message.
const attachingEvery = time.Second

// An attaching logs the progress of attaching from time to time.
type attaching struct {
	log io.Writer
	now func() time.Time

	mu   sync.Mutex
	last time.Time // when it began, or time of the last message
	said bool
	done bool
}

func newAttaching(log io.Writer, now func() time.Time) *attaching {
	return &attaching{log: log, now: now, last: now()}
}

// progress records the progress of attaching. Any goroutine may call it.
func (a *attaching) progress(p vmsource.Progress) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if a.done || now.Sub(a.last) < attachingEvery && !(a.said && p.Loaded == p.All) {
		return
	}
	a.last, a.said = now, p.Loaded < p.All
	fmt.Fprintf(a.log, "attaching: %d of %d programs are loaded\n", p.Loaded, p.All)
}

// stopped logs that a signal ended a command before anything was observed, and returns nil then,
// because that is not a failure. It returns any other error.
func stopped(ctx context.Context, err error, log io.Writer) error {
	if err == nil || ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	safetext.Fprintln(log, noWindow)
	return nil
}

// noWindow means that a command ended before it had observed anything.
const noWindow = "interrupted before the first window: nothing was observed"

// end stops the messages.
func (a *attaching) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done = true
}
