package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/beamscope/beamscope/internal/host/safetext"
)

// sameSignal is the time during which further signals count as the first one. timeout(1) sends
// its signal both to the process and to its group. A second Ctrl-C takes longer.
const sameSignal = 100 * time.Millisecond

// untilSignal returns a context that is done when SIGINT or SIGTERM comes. Another signal after
// more than [sameSignal] ends the process at once, whatever it is waiting for, and is logged.
func untilSignal(ctx context.Context, log io.Writer) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	over := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case <-over:
				return
			case s := <-signals:
				switch {
				case first.IsZero():
					first = time.Now()
					cancel()
				case time.Since(first) > sameSignal:
					dieOf(s, log)
				}
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(over)
		cancel()
	}
}

// dieOf ends the process by a signal. It waits no longer than [sameSignal] for the log, which may be a
// pipe that nobody reads.
func dieOf(s os.Signal, log io.Writer) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		safetext.Fprintln(log, "beamscope: ended by a second signal before it finished: if it was writing a recording, the end is missing")
	}()
	select {
	case <-said:
	case <-time.After(sameSignal):
	}
	signal.Reset(s)
	if number, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(os.Getpid(), number)
		time.Sleep(sameSignal)
	}
	os.Exit(statusFailed) // scripts start programs in the background with SIGINT ignored
}
