package dashboard

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/ui/tui/tuitest"
)

// A harness runs a dashboard on a screen in memory. When press returns, the key has been handled.
type harness struct {
	t       *testing.T
	d       *Dashboard
	screen  tcell.SimulationScreen
	control *control
	stop    func() // quits the dashboard
}

// A control records the configurations that are applied.
type control struct {
	mu      sync.Mutex
	config  config.Config
	applied []config.Config
	invalid error // the error of an invalid configuration, which no dashboard should apply
	refuse  error
}

func (c *control) Config() config.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config
}

func (c *control) ApplyFrom(_ context.Context, _, next config.Config) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		return c.refuse
	}
	if _, err := next.System(); err != nil {
		c.invalid = err
		return err
	}
	c.config, c.applied = next, append(c.applied, next)
	return nil
}

// start shows a recording of the demonstration at a window, on a screen with this size and number
// of colours.
func start(t *testing.T, system string, window uint64, width, height, colors int, change ...func(*Options)) *harness {
	t.Helper()
	h := dark(t, system, window, colors, change...)
	h.feed(replay(t, system))
	h.screen.SetSize(width, height)
	h.run(width, height)
	return h
}

// dark returns a dashboard for a demonstration. It does not run yet and has seen no frames.
func dark(t *testing.T, system string, window uint64, colors int, change ...func(*Options)) *harness {
	t.Helper()
	if colors == 0 {
		t.Setenv("NO_COLOR", "1")
	} else {
		t.Setenv("NO_COLOR", "")
	}
	h := &harness{t: t, screen: tcell.NewSimulationScreen("UTF-8"), control: &control{}}
	var err error
	if h.control.config, err = config.Load(filepath.Join(program, system+".yaml")); err != nil {
		t.Fatal(err)
	}
	o := Options{Title: system, Fixed: true, Window: window, Screen: tuitest.Colored{SimulationScreen: h.screen, Count: colors}}
	for _, f := range change {
		f(&o)
	}
	h.d = New(o)
	return h
}

// program is the folder of the program, even after a test changes its directory.
var program = func() string {
	dir, err := filepath.Abs("../../../cmd/beamscope")
	if err != nil {
		panic(err)
	}
	return dir
}()

// feed makes the dashboard observe the frames of a replayed recording.
func (h *harness) feed(r *replayed) {
	h.t.Helper()
	if err := h.d.Configured(r.system, r.system.Plan(0)); err != nil {
		h.t.Fatal(err)
	}
	for _, f := range r.frames {
		if err := h.d.Framed(nil, f); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *harness) run(width, height int) {
	h.t.Helper()
	h.runOn(h.control, width, height)
}

// runOn is run with a different control.
func (h *harness) runOn(control Control, width, height int) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		done <- h.d.Run(ctx, control, func(ctx context.Context) error {
			close(ready)
			<-ctx.Done()
			return nil
		})
	}()
	<-ready
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	})
	h.t.Cleanup(h.stop)
	h.resize(width, height)
}

func (h *harness) resize(width, height int) {
	h.do(func() { h.screen.SetSize(width, height) })
	h.do(h.d.refresh) // as the resize event would
}

// do calls f in the goroutine of the terminal.
func (h *harness) do(f func()) { h.d.update(f) }

// keys presses runes.
func (h *harness) keys(text string) {
	for _, r := range text {
		h.press(tcell.NewEventKey(tcell.KeyRune, r, tcell.ModNone))
	}
}

// key presses keys that are not runes.
func (h *harness) key(keys ...tcell.Key) {
	for _, k := range keys {
		h.press(tcell.NewEventKey(k, 0, tcell.ModNone))
	}
}

func (h *harness) press(e *tcell.EventKey) {
	h.do(func() { h.handle(e) })
	h.idle()
}

// handle is press for callers in the goroutine of the terminal.
func (h *harness) handle(e *tcell.EventKey) {
	if e = h.d.press(e); e != nil {
		h.d.root.InputHandler()(e, func(p tview.Primitive) { h.d.app.SetFocus(p) })
	}
}

// undrawn is the largest number of keys that pressAll presses between two drawings.
const undrawn = 8

// pressAll presses keys. It draws only after every few keys and while a change is in progress,
// because drawing takes most of the time.
func (h *harness) pressAll(keys []*tcell.EventKey) {
	for len(keys) > 0 {
		h.do(func() {
			for n := 0; n < undrawn && len(keys) > 0 && !h.busy(); n++ {
				h.handle(keys[0])
				keys = keys[1:]
			}
		})
		h.idle()
	}
}

// busy reports whether a change is in progress. Only the goroutine of the terminal may call it.
func (h *harness) busy() bool { return h.d.busy != "" || h.looking() }

// idle waits until no change is in progress.
func (h *harness) idle() {
	for busy := true; busy; {
		h.do(func() { busy = h.busy() })
	}
}

// looking reports whether the snapshots are being listed.
func (h *harness) looking() bool {
	return slices.ContainsFunc(h.d.tabs, func(t tab) bool {
		triggers, ok := t.(*triggersTab)
		return ok && triggers.shelf.looking
	})
}

// text returns the text on the screen, without spaces at the ends of lines.
func (h *harness) text() (text string) {
	h.do(func() {})
	h.do(func() { text = h.contents() })
	return text
}

// contents returns the text as last drawn. Only the goroutine of the terminal may call it.
func (h *harness) contents() string {
	var b strings.Builder
	cells, width, _ := h.screen.GetContents()
	for i := 0; i < len(cells); i += width {
		var line strings.Builder
		for _, c := range cells[i : i+width] {
			line.WriteString(string(c.Runes))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

func TestMain(m *testing.M) {
	time.Local = time.UTC
	m.Run()
}
