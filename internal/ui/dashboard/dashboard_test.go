package dashboard

import (
	"context"
	"errors"
	"testing"

	"github.com/gdamore/tcell/v2"

	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A stuckScreen blocks in Show until it is released.
type stuckScreen struct {
	tcell.SimulationScreen
	shown chan struct{} // receives a value when Show is called
	free  chan struct{}
}

// Show implements [tcell.Screen].
func (s *stuckScreen) Show() {
	select {
	case s.shown <- struct{}{}:
	default:
	}
	<-s.free
	s.SimulationScreen.Show()
}

// A terminal that blocks delays neither the scope nor the store of frames.
func TestStuckTerminalDelaysNothing(t *testing.T) {
	screen := &stuckScreen{tcell.NewSimulationScreen("UTF-8"), make(chan struct{}, 1), make(chan struct{})}
	d := New(Options{Title: "stuck", Screen: screen})
	system, batches, frames := sixFrames(t, 4)
	done := make(chan error)
	go func() {
		done <- d.Run(t.Context(), &control{}, func(ctx context.Context) error {
			<-screen.shown // and stays there
			if err := d.Configured(system, system.Plan(0)); err != nil {
				return err
			}
			for i := range frames {
				if err := d.Framed(batches[i], frames[i]); err != nil {
					return err
				}
			}
			close(screen.free)
			d.update(d.quit)
			return nil
		})
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if f := d.Last(); f == nil || f.Number != 3 {
		t.Errorf("the last frame is %v, want number 3", f)
	}
}

// A finishingScreen records that the terminal was restored.
type finishingScreen struct {
	tcell.SimulationScreen
	finished bool
}

// Fini implements [tcell.Screen].
func (s *finishingScreen) Fini() {
	s.finished = true
	s.SimulationScreen.Fini()
}

// After a panic the dashboard restores the terminal, and the panic goes on.
func TestPanicRestoresTerminal(t *testing.T) {
	screen := &finishingScreen{SimulationScreen: tcell.NewSimulationScreen("UTF-8")}
	if err := screen.Init(); err != nil {
		t.Fatal(err)
	}
	var panicked any
	func() {
		defer func() { panicked = recover() }()
		defer tui.Restore(screen)
		panic("out of order")
	}()
	if panicked != "out of order" || !screen.finished {
		t.Errorf("panicked with %v, terminal restored: %v", panicked, screen.finished)
	}
}

// The dashboard reports the end and keeps its frames. Run returns the error.
func TestEndIsReported(t *testing.T) {
	screen := tcell.NewSimulationScreen("UTF-8")
	d := New(Options{Title: "short", Screen: screen})
	broken := errors.New("the VM is gone")
	ended := make(chan struct{})
	done := make(chan error)
	go func() {
		done <- d.Run(t.Context(), &control{}, func(context.Context) error {
			defer close(ended)
			return broken
		})
	}()
	<-ended
	for told := false; !told; {
		d.update(func() { told = d.message.GetText(true) == "ended: the VM is gone" })
	}
	d.update(d.quit)
	if err := <-done; !errors.Is(err, broken) {
		t.Errorf("the error is %v, want %v", err, broken)
	}
}

// The end of a recording that is replayed after an edit does not hide the message about the edit.
func TestEndIsReportedOnce(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256, func(o *Options) { o.Fixed = false })
	h.d.Ended(nil)
	h.shows("the end. What was seen")
	h.do(func() { h.d.say(good, "the new parameters hold") })
	h.d.Ended(nil)
	h.shows("the new parameters hold")
}

// A screen that cannot be used gives an error, not a panic.
func TestNoTerminal(t *testing.T) {
	d := New(Options{Screen: noScreen{tcell.NewSimulationScreen("UTF-8")}})
	if err := d.Run(t.Context(), &control{}, nil); !errors.Is(err, errNoScreen) {
		t.Errorf("the error is %v, want %v", err, errNoScreen)
	}
}

var errNoScreen = errors.New("no such terminal")

type noScreen struct{ tcell.SimulationScreen }

// Init implements [tcell.Screen].
func (noScreen) Init() error { return errNoScreen }

// A dashboard whose context is done before the first frame ends at once.
func TestEndsBeforeItBegins(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		d := New(Options{Screen: tcell.NewSimulationScreen("UTF-8")})
		if err := d.Run(ctx, &control{}, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
}
