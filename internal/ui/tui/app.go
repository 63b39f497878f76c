package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"
)

// An App shows something on a screen while something else is under way.
type App struct {
	*tview.Application
	Screen *Screen
	Theme  *Theme

	ctx  context.Context // done when the app is left
	left context.CancelFunc
}

// NewApp opens a screen, nil for that of the terminal. [App.Run] closes it. The app ends when ctx
// is done.
func NewApp(ctx context.Context, s tcell.Screen) (*App, error) {
	screen, theme, err := Open(s)
	if err != nil {
		return nil, fmt.Errorf("the terminal: %w", err)
	}
	theme.Apply()
	a := &App{Application: tview.NewApplication().SetScreen(screen).EnableMouse(true), Screen: screen, Theme: theme}
	a.ctx, a.left = context.WithCancel(ctx)
	return a, nil
}

// Context is done when the app is left.
func (a *App) Context() context.Context { return a.ctx }

// A Show contains the work of an app, and the functions that show it.
type Show struct {
	// Work runs in its own goroutine. Its context is done when the app is left.
	Work func(context.Context) error

	Changed <-chan struct{} // receives a value when there is something new
	Refresh func()          // shows it, in the goroutine of the terminal
	Ended   func(error)     // shows that Work is over, in the goroutine of the terminal
}

// redrawPause is the least time between two redraws caused by new data.
const redrawPause = 50 * time.Millisecond

// Run shows the root of the app until it is stopped or its context is done. If the work ends
// before, the app still shows its results. Run always restores the terminal. The error is that of
// the work, or of the terminal. If the terminal is closed, Run ends without an error. Run is called
// once.
func (a *App) Run(s Show) error {
	defer a.left()
	defer Restore(a.Screen)
	worked := make(chan error, 1)
	go func() {
		defer Restore(a.Screen)
		err := s.Work(a.ctx)
		worked <- err
		if a.ctx.Err() == nil {
			a.Update(func() { s.Ended(err) })
		}
	}()
	drawn := make(chan struct{})
	go func() {
		defer close(drawn)
		defer Restore(a.Screen)
		a.follow(s)
	}()
	// Stop must run in the terminal's goroutine: an application that is stopped before it runs
	// would start nevertheless.
	stopped := context.AfterFunc(a.ctx, func() { a.QueueUpdate(a.Stop) })
	shown := a.Application.Run()
	stopped()
	a.left()
	<-drawn
	if isClosed(shown) {
		shown = nil
	}
	return errors.Join(shown, <-worked)
}

// isClosed reports whether an error means that the terminal was closed. The error of a screen does
// not wrap the error of reading, so only its text shows that.
func isClosed(err error) bool {
	var of *tcell.EventError
	if !errors.As(err, &of) {
		return false
	}
	text := of.Error()
	return text == io.EOF.Error() || strings.HasSuffix(text, syscall.EIO.Error())
}

// follow redraws when something is new, until the app is left.
func (a *App) follow(s Show) {
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-s.Changed:
		}
		a.Update(s.Refresh)
		select {
		case <-a.ctx.Done():
		case <-time.After(redrawPause):
		}
	}
}

// Update runs a function in the goroutine of the terminal, and redraws. It returns when that is
// done, or when the app was left.
func (a *App) Update(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.QueueUpdateDraw(do)
	}()
	select {
	case <-done:
	case <-a.ctx.Done():
	}
}
