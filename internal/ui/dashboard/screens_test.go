package dashboard

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/sources/wrapper"
	"github.com/beamscope/beamscope/internal/ui/tui"
	"github.com/beamscope/beamscope/internal/ui/tui/tuitest"
)

// Windows of the recording of the demonstration.
const (
	calmWindow     = 8
	overloadWindow = 15
)

// A screenful is the screen after some user actions.
type screenful struct {
	name   string
	window uint64
	change func(*Options)
	fill   func(*testing.T, *harness) // nil for the recording of the demonstration
	do     func(*harness)
}

func screenfuls() []screenful {
	keys := func(text string) func(*harness) { return func(h *harness) { h.keys(text) } }
	kept := func(o *Options) { o.Snapshots = testSnapshots }
	return []screenful{
		{name: "overview", window: calmWindow, do: keys("o")},
		{name: "overview-overload", window: overloadWindow, do: keys("o")},
		{name: "overview-vms", window: overloadWindow, fill: severalVMs, do: keys("o")},
		{name: "overview-loss", window: overloadWindow, fill: withLoss, do: keys("o")},
		{name: "overview-groups", window: 2, fill: ofVM, do: func(h *harness) {
			h.keys("o")
			h.key(tcell.KeyHome, tcell.KeyDown)
			h.keys("g")
		}},
		{name: "plots-groups", window: 2, fill: ofVM, do: keys("2g")},
		{name: "overview-explained", window: slowWindow, fill: explaining, do: keys("o")},
		{name: "explained-instances", window: slowWindow, fill: explaining, do: keys("oi")},
		{name: "explained-timeline", window: slowWindow, fill: explaining, do: func(h *harness) {
			h.keys("oi")
			h.key(tcell.KeyEnter)
		}},
		{name: "explained-fired", window: slowWindow, fill: explaining, do: func(h *harness) {
			h.keys("ot")
			h.do(func() {
				l := listingOf(h.d.open)
				l.table.Select(len(l.rows)-1, 0)
			})
		}},
		{name: "overview-first", change: discovering, fill: nothing},
		{name: "overview-no-spans", change: discovering, fill: noSpans},
		{name: "plots-first", fill: nothing},
		{name: "plots-calm", window: calmWindow},
		{name: "plots-overload", window: overloadWindow},
		{name: "plots-loss", window: overloadWindow, fill: withLoss},
		{name: "plots-vms", window: overloadWindow, fill: severalVMs},
		{name: "plot-cursor", window: overloadWindow, do: func(h *harness) {
			h.keys("z")
			h.key(tcell.KeyUp, tcell.KeyUp)
		}},
		{name: "plot-log", window: overloadWindow, do: func(h *harness) {
			h.keys("zl")
			h.key(tcell.KeyUp)
		}},
		{name: "plot-earlier", window: calmWindow, do: keys("ze.......")},
		{name: "tab-system", window: calmWindow, do: keys("s")},
		{name: "tab-plots", window: calmWindow, do: keys("p")},
		{name: "tab-parameters", window: calmWindow, do: keys("m")},
		{name: "tab-triggers", window: 39, change: kept, do: func(h *harness) {
			h.keys("t")
			h.awaitRow(filepath.Join(testSnapshots, second))
		}},
		{name: "tab-connection", window: calmWindow, do: func(h *harness) {
			h.do(func() { h.d.control = &connected{control: h.control, status: busyStatus()} })
			h.keys("c")
		}},
		{name: "editor-error", window: calmWindow, do: func(h *harness) {
			h.keys("s")
			h.write("probe = worker_1 -> both;\nboth = a:(worker_2, db);")
		}},
		{name: "parameters-edited", window: calmWindow, do: func(h *harness) {
			h.keys("m")
			h.enter("qta.p50", "2ms")
		}},
		{name: "trigger-set", window: calmWindow, do: func(h *harness) {
			h.keys("t")
			h.selectRow("trigger failure")
			h.key(tcell.KeyEnter)
			h.keys("2")
			h.key(tcell.KeyEnter)
		}},
		{name: "snapshot", window: 39, change: kept, do: func(h *harness) { h.open(testSnapshots, second) }},
		{name: "pick", window: calmWindow, do: keys("pa ")},
		{name: "help", window: calmWindow, do: keys("?")},
		{name: "ask", window: calmWindow, do: keys("w")},
		{name: "confirm", window: calmWindow, do: func(h *harness) {
			path := filepath.Join(h.t.TempDir(), "scope.yaml")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				h.t.Fatal(err)
			}
			h.keys("w")
			h.key(tcell.KeyCtrlU)
			h.keys(path)
			h.key(tcell.KeyEnter)
		}},
	}
}

// discovering sets the options of run without a scope file.
func discovering(o *Options) { o.Title, o.Overview, o.Fixed = "live", true, false }

func nothing(*testing.T, *harness) {}

// noSpans feeds a VM in which no span was seen.
func noSpans(t *testing.T, h *harness) {
	r := replay(t, "mm1k")
	f := r.frames[0].Clone()
	f.Outcomes, f.Fired = nil, nil
	if err := h.d.Framed(nil, f); err != nil {
		t.Fatal(err)
	}
}

// edited feeds the recording of the demonstration, with modified frames.
func edited(t *testing.T, h *harness, edit func(*scope.Frame)) {
	r := replay(t, "mm1k")
	changed := &replayed{system: r.system}
	for _, f := range r.frames {
		f = f.Clone()
		edit(f)
		changed.frames = append(changed.frames, f)
	}
	h.feed(changed)
}

// severalVMs feeds the same data from three VMs, one of which has a long name.
func severalVMs(t *testing.T, h *harness) {
	edited(t, h, func(f *scope.Frame) {
		probes := f.Outcomes
		f.Outcomes = nil
		for _, vm := range []outcome.VM{{PID: 1801, Node: "shop@host"}, {PID: 1802}, {PID: 1803, Node: "warehouse@a-host-of-a-long-name"}} {
			for _, p := range probes {
				p.VM, p.Counts.VM = vm, vm
				f.Outcomes = append(f.Outcomes, p)
			}
		}
		f.Fired = nil
	})
}

// withLoss feeds frames with losses of the first outcome, too few instances of the second, and no
// observation of the last.
func withLoss(t *testing.T, h *harness) {
	edited(t, h, func(f *scope.Frame) {
		f.Outcomes[0].Counts.Loss = outcome.Loss{NoRoom: 1234567, Cut: 2}
		f.Outcomes[0].Insufficient = "loss"
		f.Outcomes[1].Insufficient = "few instances"
		f.Outcomes[2].Counts.Unobserved, f.Outcomes[2].Insufficient = true, "not observed"
	})
}

// busyStatus returns the status of a session with VMs and wrappers in all states.
func busyStatus() session.Status {
	return session.Status{
		VMs: []outcome.VMStatus{
			{VM: outcome.VM{PID: 1801, Node: "shop@host"}, Exe: "/usr/lib/erlang/erts-15.2.7/bin/beam.smp", Since: 5e9, Probes: []outcome.ProbeStatus{
				{Name: "gc_minor-start", Sites: 1, Outcomes: []string{"gc"}},
				{Name: "process-in", Sites: 1, Outcomes: []string{"run"}},
				{Name: "user_trace-n123", Sites: 2, Outcomes: []string{"worker_1"}},
				{Name: "user_trace-n456", Sites: 2, Outcomes: []string{"worker_2", "probe"}},
			}},
			{VM: outcome.VM{PID: 1802}, Refused: "it has no probes"},
			{VM: outcome.VM{PID: 1803}, Ended: true},
		},
		Wrappers: &session.WrapperStatus{Listen: "127.0.0.1:8080", Started: true, Peers: []wrapper.Peer{
			{Address: "127.0.0.1:38212", VM: outcome.VM{PID: 1801}, Connected: true, Active: true, Lines: 100, Rejected: 2, Unwanted: 3},
		}},
	}
}

// begin shows the screenful on a screen of the given size and colours.
func (s screenful) begin(t *testing.T, width, height, colors int) *harness {
	t.Helper()
	h := dark(t, "mm1k", s.window, colors, func(o *Options) {
		o.Wall = func(ns int64) time.Time { return time.Unix(0, ns) }
		if s.change != nil {
			s.change(o)
		}
	})
	if s.fill == nil {
		h.feed(replay(t, "mm1k"))
	} else {
		s.fill(t, h)
	}
	h.run(width, height)
	if s.do != nil {
		s.do(h)
	}
	return h
}

// Every screen looks the same as in its reviewed golden file, with fewer colours too.
func TestScreens(t *testing.T) {
	for _, s := range screenfuls() {
		for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 60}} {
			name := fmt.Sprintf("%s-%dx%d", s.name, size[0], size[1])
			t.Run(name, func(t *testing.T) {
				got := ""
				for _, colors := range []int{256, 16, 0} {
					got = withLook(got, colors, s.begin(t, size[0], size[1], colors))
				}
				tuitest.Golden(t, *update, filepath.Join("testdata", "screens", name+".txt"), got)
			})
		}
	}
}

// withLook appends the look of a screen to its look with more colours. It leaves out what is the
// same.
func withLook(more string, colors int, h *harness) string {
	look := more
	text, styles, legend := h.look()
	for _, part := range []string{text, styles, legend} {
		if !strings.Contains(more, part) {
			look += fmt.Sprintf("--- %d colours\n%s", colors, part)
		}
	}
	return look
}

// look returns the text on the screen, a map of the styles of its cells, and a legend of the
// styles.
func (h *harness) look() (written, how, legend string) {
	written = h.text()
	h.do(func() {
		cells := tuitest.Styles(h.screen)
		_, height := h.screen.Size()
		lines := strings.SplitAfter(cells, "\n")
		for i := range lines[:height] {
			lines[i] = strings.TrimRight(lines[i], ".\n") + "\n"
		}
		how, legend = strings.Join(lines[:height], ""), strings.Join(lines[height:], "")
		if x, y, visible := h.screen.GetCursor(); visible {
			legend += fmt.Sprintf("cursor at %d,%d\n", x, y)
		}
	})
	return written, how, legend
}

// A screen looks the same whatever its previous size was.
func TestResized(t *testing.T) {
	for _, s := range screenfuls() {
		t.Run(s.name, func(t *testing.T) {
			h := s.begin(t, 200, 60, 256)
			for _, size := range [][2]int{{80, 24}, {120, 40}} {
				h.resize(size[0], size[1])
				h.hides("\x00")
				want := s.begin(t, size[0], size[1], 256).text()
				if got := h.text(); got != want {
					t.Errorf("resized to %v it is\n%s\nwant\n%s", size, got, want)
				}
			}
		})
	}
}

// A strictScreen reports drawing beyond its edges.
type strictScreen struct {
	tcell.SimulationScreen
	report func(x, y int)
}

// Put implements [tcell.Screen].
func (s strictScreen) Put(x, y int, text string, style tcell.Style) (string, int) {
	s.check(x, y)
	return s.SimulationScreen.Put(x, y, text, style)
}

// SetContent implements [tcell.Screen].
func (s strictScreen) SetContent(x, y int, r rune, combining []rune, style tcell.Style) {
	s.check(x, y)
	s.SimulationScreen.SetContent(x, y, r, combining, style)
}

func (s strictScreen) check(x, y int) {
	if width, height := s.Size(); x < 0 || y < 0 || x >= width || y >= height {
		s.report(x, y)
	}
}

// Whatever keys are pressed on a screen of any size, which may change, each line fills the screen
// exactly and nothing is drawn outside.
func TestSizes(t *testing.T) {
	t.Chdir(t.TempDir()) // because the dashboard may write files there
	rapid.Check(t, func(r *rapid.T) {
		size := func() (int, int) {
			return rapid.IntRange(20, 220).Draw(r, "width"), rapid.IntRange(8, 70).Draw(r, "height")
		}
		width, height := size()
		kind := rapid.SampledFrom(screenfuls()).Draw(r, "screen")
		s := screenful{window: kind.window, fill: kind.fill, change: func(o *Options) {
			if kind.change != nil {
				kind.change(o)
			}
			screen := o.Screen.(tuitest.Colored)
			o.Screen = strictScreen{screen.SimulationScreen, func(x, y int) {
				w, h := screen.Size()
				r.Errorf("drawn at %d,%d of %d×%d\n%s", x, y, w, h, debug.Stack())
			}}
		}}
		h := s.begin(t, width, height, 256)
		defer h.stop()
		for range rapid.IntRange(1, 4).Draw(r, "sizes") {
			for range rapid.IntRange(0, 12).Draw(r, "keys") {
				h.press(anyPress(rapid.Byte().Draw(r, "key")))
			}
			h.wantWidth(r, width)
			width, height = size()
			h.resize(width, height)
		}
		h.wantWidth(r, width)
	})
}

// wantWidth reports lines of the screen whose width differs from width.
func (h *harness) wantWidth(r *rapid.T, width int) {
	h.do(func() {
		for line := range strings.Lines(tuitest.Text(h.screen)) {
			if got := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); got != width {
				r.Errorf("a line has %d columns, want %d: %q", got, width, line)
			}
		}
	})
}

// The help describes each binding in one line at 80 columns.
func TestHelpFits(t *testing.T) {
	h := start(t, "mm1k", calmWindow, 80, 24, 256)
	all := h.d.keys
	for _, tab := range h.d.tabs {
		all = append(all, tab.bindings()...)
	}
	const room = 80 - 4 - 2 - len("  ") - 12 - len(" ")
	for _, b := range all {
		if tui.Columns(b.help) > room || tui.Columns(b.show) > 12 {
			t.Errorf("%s: %s: %d columns, want at most 12 and %d", b.show, b.help, tui.Columns(b.help), room)
		}
	}
}
