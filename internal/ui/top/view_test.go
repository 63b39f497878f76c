package top

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"
	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
	"github.com/beamscope/beamscope/internal/ui/tui"
	"github.com/beamscope/beamscope/internal/ui/tui/tuitest"
)

var update = flag.Bool("update", false, "write what is drawn into the golden files")

func TestMain(m *testing.M) {
	time.Local = time.UTC
	m.Run()
}

// A harness runs a view on a screen in memory, of a Top without a source. When press returns, the
// key has been handled.
type harness struct {
	t      *testing.T
	v      *View
	screen tcell.SimulationScreen
	plan   outcome.Plan
	fed    int // number of windows so far
	work   chan error
	stop   func()
}

// start shows some windows of some VMs.
func start(t *testing.T, width, height, colors, windows int, vms ...outcome.VM) *harness {
	t.Helper()
	noColor := ""
	if colors == 0 {
		noColor = "1"
	}
	t.Setenv("NO_COLOR", noColor)
	h := &harness{t: t, screen: tcell.NewSimulationScreen("UTF-8"), work: make(chan error, 1)}
	h.v = NewView(tuitest.Colored{SimulationScreen: h.screen, Count: colors})
	h.v.top = &Top{model: NewModel(outcome.GroupPID, price.Limit{Share: price.DefaultShare}), changed: make(chan struct{}, 1), wanted: make(chan struct{}, 1)}
	h.v.top.model.Average(h.v.average)
	h.configure(Everything, outcome.GroupPID)
	h.feed(windows, vms...)
	h.run(width, height)
	return h
}

func (h *harness) configure(l Level, by string) {
	h.plan = plan(l, by)
	h.v.top.model.Configure(h.plan)
}

func (h *harness) feed(windows int, vms ...outcome.VM) {
	h.t.Helper()
	for range windows {
		var err error
		h.v.top.Do(func(m *Model) { err = see(m, h.plan, h.fed, loads(h.fed), vms...) })
		if err != nil {
			h.t.Fatal(err)
		}
		h.fed++
	}
}

func (h *harness) run(width, height int) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	app, err := tui.NewApp(ctx, h.v.screen)
	if err != nil {
		h.t.Fatal(err)
	}
	h.screen.SetSize(width, height)
	h.v.app = app
	h.v.build()
	select { // the refresh below shows it; another one could replace what a test puts into the table
	case <-h.v.top.changed:
	default:
	}
	done := make(chan error, 1)
	go func() {
		done <- app.Run(tui.Show{Work: func(ctx context.Context) error {
			select {
			case err := <-h.work:
				return err
			case <-ctx.Done():
				return nil
			}
		}, Changed: h.v.top.changed, Refresh: h.v.refresh, Ended: h.v.end})
	}()
	stopped := false
	h.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		<-done
	}
	h.t.Cleanup(h.stop)
	h.do(h.v.refresh)
}

func (h *harness) do(f func()) { h.v.app.Update(f) }

func (h *harness) resize(width, height int) {
	h.do(func() { h.screen.SetSize(width, height) })
	h.do(h.v.refresh)
}

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
	h.do(func() {
		if e = h.v.press(e); e != nil {
			h.v.root.InputHandler()(e, func(p tview.Primitive) { h.v.app.SetFocus(p) })
		}
	})
}

// text returns the text on the screen, without spaces at the ends of lines.
func (h *harness) text() (text string) {
	h.do(func() {})
	h.do(func() {
		for line := range strings.Lines(tuitest.Text(h.screen)) {
			text += strings.TrimRight(line, " \n") + "\n"
		}
	})
	return text
}

func (h *harness) shows(texts ...string) {
	h.t.Helper()
	all := h.text()
	for _, text := range texts {
		if !strings.Contains(all, text) {
			h.t.Errorf("%q is not on the screen:\n%s", text, all)
		}
	}
}

// A screenful is the screen after some user actions.
type screenful struct {
	name    string
	windows int
	vms     []outcome.VM
	do      func(*harness)
}

func screenfuls() []screenful {
	one := []outcome.VM{shop}
	keys := func(text string) func(*harness) { return func(h *harness) { h.keys(text) } }
	return []screenful{
		{name: "first"},
		{name: "live", windows: 12, vms: one},
		{name: "vms", windows: 12, vms: []outcome.VM{shop, store}},
		{name: "by-wait", windows: 12, vms: one, do: keys("9a")},
		{name: "filter", windows: 12, vms: one, do: func(h *harness) {
			h.keys("/CART|writer")
			h.key(tcell.KeyEnter)
		}},
		{name: "filtering", windows: 12, vms: one, do: keys("/zzz")},
		{name: "frozen", windows: 12, vms: one, do: func(h *harness) {
			h.keys("f")
			h.feed(3, shop)
			h.do(h.v.refresh)
		}},
		{name: "detail", windows: 12, vms: one, do: func(h *harness) {
			h.keys("c")
			h.key(tcell.KeyDown, tcell.KeyEnter)
		}},
		{name: "given-up", windows: 12, vms: one, do: func(h *harness) {
			h.do(func() { h.giveUp(12) })
			h.do(h.v.refresh)
		}},
		{name: "growing", windows: 12, vms: one, do: func(h *harness) {
			all := append(loads(12), load{key: "<0.900.0>", pid: 900, name: "logger", waiting: 5000, more: 500})
			for range 4 {
				h.v.top.Do(func(m *Model) {
					if err := see(m, h.plan, h.fed, all, shop); err != nil {
						h.t.Error(err)
					}
				})
				h.fed++
			}
			h.key(tcell.KeyEnter)
			h.do(h.v.refresh)
		}},
		{name: "loss", windows: 3, vms: one, do: func(h *harness) { h.do(h.lose) }},
		{name: "ended", windows: 12, vms: one, do: func(h *harness) {
			h.do(func() {
				h.v.Notify(outcome.Notice{Text: "shop@host (pid 1801) has exited"})
				h.v.end(nil)
			})
		}},
		{name: "help", windows: 3, vms: one, do: keys("?")},
	}
}

// giveUp adds windows that cost too much, until only the last kind is left.
func (h *harness) giveUp(from int) {
	for want := Everything; want > 1; want-- {
		notice := ""
		for notice == "" {
			b := batch(h.plan, h.fed, shop)
			b.Cost.Events = 90_000
			h.fed++
			h.v.top.Do(func(m *Model) { notice, _ = m.Add(b) })
		}
		h.v.Notify(outcome.Notice{Text: notice})
		h.configure(h.v.top.model.Wanted())
	}
	h.feed(1, shop)
}

// lose adds a window with losses and with instances without room.
func (h *harness) lose() {
	b := batch(h.plan, h.fed, shop)
	for i := range b.Counts {
		c := &b.Counts[i]
		c.Loss = outcome.Loss{NoRoom: 17 * uint64(i)}
		rest := c.Groups[len(c.Groups)-1]
		rest.Key, rest.Name, rest.Process = "", "", 0
		c.Groups[len(c.Groups)-1] = rest
	}
	h.v.top.Do(func(m *Model) { _, _ = m.Add(b) })
	h.v.refresh()
}

func (s screenful) begin(t *testing.T, width, height, colors int) *harness {
	t.Helper()
	h := start(t, width, height, colors, s.windows, s.vms...)
	if s.do != nil {
		s.do(h)
	}
	return h
}

// Every screen looks the same as in its reviewed golden file, without colours too.
func TestScreens(t *testing.T) {
	for _, s := range screenfuls() {
		for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 60}} {
			name := fmt.Sprintf("%s-%dx%d", s.name, size[0], size[1])
			t.Run(name, func(t *testing.T) {
				got := ""
				for _, colors := range []int{256, 0} {
					h := s.begin(t, size[0], size[1], colors)
					text, styles := h.text(), ""
					h.do(func() { styles = tuitest.Styles(h.screen) })
					h.stop()
					if got == "" {
						got = text
					} else if !strings.HasPrefix(got, text) {
						got += "--- without colours\n" + text
					}
					got += fmt.Sprintf("--- %d colours\n%s", colors, trimmed(styles))
				}
				tuitest.Golden(t, *update, filepath.Join("testdata", "screens", name+".txt"), got)
			})
		}
	}
}

// trimmed removes invisible styles at the ends of lines.
func trimmed(styles string) string {
	var b strings.Builder
	for line := range strings.Lines(styles) {
		b.WriteString(strings.TrimRight(line, ".\n") + "\n")
	}
	return b.String()
}

// Whatever keys are pressed on a screen of any size, which may change, each line fills the screen
// exactly.
func TestSizes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		size := func() (int, int) {
			return rapid.IntRange(20, 220).Draw(r, "width"), rapid.IntRange(6, 70).Draw(r, "height")
		}
		width, height := size()
		h := rapid.SampledFrom(screenfuls()).Draw(r, "screen").begin(t, width, height, 256)
		defer h.stop()
		for range 3 {
			for range rapid.IntRange(0, 10).Draw(r, "keys") {
				if rapid.Bool().Draw(r, "rune") {
					h.keys(string(rapid.SampledFrom([]rune("?h<>i/f garda9cuzn5vmo.(")).Draw(r, "key")))
				} else {
					h.key(rapid.SampledFrom([]tcell.Key{tcell.KeyDown, tcell.KeyUp, tcell.KeyPgDn, tcell.KeyEnd, tcell.KeyHome, tcell.KeyEnter, tcell.KeyEscape, tcell.KeyLeft, tcell.KeyRight}).Draw(r, "key"))
				}
			}
			h.feed(1, shop)
			h.do(func() {
				for line := range strings.Lines(tuitest.Text(h.screen)) {
					if got := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); got != width {
						r.Errorf("a line has %d columns, want %d: %q", got, width, line)
					}
				}
			})
			width, height = size()
			h.resize(width, height)
		}
	})
}

// The selection follows the row wherever it moves. It stays with the first row as long as the
// user has not chosen one.
func TestSelectionFollowsRow(t *testing.T) {
	h := start(t, 120, 30, 256, 3, shop)
	chosen := func() (key string) {
		h.do(func() { key = h.v.shown.Rows[h.v.selected()].Key })
		return key
	}
	h.keys("c")
	if got := chosen(); got != "<0.102.0>" {
		t.Errorf("without a choice %s is selected, want the first by gc", got)
	}
	h.keys("n")
	if got := chosen(); got != "<0.44.0>" {
		t.Errorf("without a choice %s is selected, want the first by name", got)
	}
	h.key(tcell.KeyDown, tcell.KeyDown)
	want := chosen()
	for _, keys := range []string{"c", "i", "m", "a"} {
		h.keys(keys)
		h.feed(1, shop)
		if got := chosen(); got != want {
			t.Errorf("after %s %s is selected, want %s", keys, got, want)
		}
	}
	h.key(tcell.KeyHome)
	h.keys("ui")
	if got := chosen(); got != "<0.44.0>" {
		t.Errorf("Home: %s is selected, want the first by run time", got)
	}
}

// The selected row is visible, even after all rows were.
func TestSelectionIsVisible(t *testing.T) {
	h := start(t, 120, 20, 256, 3, shop)
	h.keys("/cart|writer")
	h.key(tcell.KeyEnter, tcell.KeyDown)
	h.text()
	h.key(tcell.KeyEscape)
	h.shows("order_writer", "shop_cart")
	h.key(tcell.KeyEnd)
	h.shows("<0.103.0>") // the last one by run time
}

// Keys change what is requested from the source.
func TestKeysChangeRequest(t *testing.T) {
	h := start(t, 120, 30, 256, 3, shop)
	wanted := func() bool {
		select {
		case <-h.v.top.wanted:
			return true
		default:
			return false
		}
	}
	h.keys("g")
	if _, by := h.v.top.model.Wanted(); by != outcome.GroupMFA || !wanted() {
		t.Errorf("g: by %s", by)
	}
	h.keys("r")
	h.shows("everything is observed")
	h.configure(1, outcome.GroupMFA)
	h.keys("r")
	if level, _ := h.v.top.model.Wanted(); level != Everything {
		t.Errorf("r: level %d", level)
	}
}

// When there is nothing more to observe, a message reports that, and the data stays.
func TestEnd(t *testing.T) {
	h := start(t, 120, 30, 256, 3, shop)
	h.work <- errors.New("too many events")
	for ended := false; !ended; {
		h.do(func() { ended = h.v.ended })
	}
	h.shows("■ ended", "ended: too many events. q quits", "order_writer")
}

// The help describes all keys, and fits 80 columns.
func TestHelp(t *testing.T) {
	h := start(t, 80, 60, 256, 3, shop)
	h.keys("?")
	for _, b := range h.v.bindings() {
		if b.help != "" {
			h.shows(b.help)
		}
	}
	h.keys("?")
	h.shows("order_writer")
}

// Names of processes and VMs are shown literally. What a terminal would interpret is replaced.
func TestForeignNames(t *testing.T) {
	const foreign = "a[red]b\x1b]0;title\x07\nc"
	vm := outcome.VM{PID: 7, Node: foreign}
	h := start(t, 200, 40, 256, 0)
	b := batch(h.plan, 0, vm)
	for i := range b.Counts {
		for j := range b.Counts[i].Groups {
			b.Counts[i].Groups[j].Name = foreign
		}
	}
	h.do(func() {
		_, _ = h.v.top.model.Add(b)
		h.v.refresh()
	})
	h.keys("d")
	h.shows("<0.44.0> a[red]b\\u001b]0;title\\u0007\\nc of a[red]b\\u001b]0;title\\u0007\\nc (pid 7)", "│ a[red]b\\u001b]0;title\\u0007\\nc (pid 7)")
	var out strings.Builder
	if err := NewText(&out, 3).Table(h.v.top.Table()); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.ContainsAny(text, "\x1b\x07") || !strings.Contains(text, "<0.44.0> a[red]b\\u001b]0;title\\u0007\\nc\n") {
		t.Errorf("%q", text)
	}
}

// The document describes each key as the help does.
func TestDocumentOfKeys(t *testing.T) {
	text, err := os.ReadFile("../../../docs/reference/top.md")
	if err != nil {
		t.Fatal(err)
	}
	h := start(t, 80, 24, 256, 0)
	for _, b := range h.v.bindings() {
		if line := fmt.Sprintf("\n| %s | %s |\n", b.show, b.help); b.help != "" && !strings.Contains(string(text), line) {
			t.Errorf("docs/reference/top.md does not have the line %q", line)
		}
	}
	for _, name := range ColumnNames() {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/reference/top.md does not have the column `%s`", name)
		}
	}
}

// On a narrow screen the head shows that figures are averages, and the detail shows all figures
// of a row.
func TestNarrowScreenShowsAll(t *testing.T) {
	h := start(t, 80, 24, 256, 12, shop)
	h.keys("d")
	text := h.text()
	if head, _, _ := strings.Cut(text, "\n"); !strings.Contains(head, "avg 5s") {
		t.Errorf("the head does not show the time of the figures: %q", head)
	}
	_, detail, found := strings.Cut(text, " of shop@")
	if !found {
		t.Fatalf("no detail in\n%s", text)
	}
	figures, _, _ := strings.Cut(detail, "memory")
	if strings.Contains(figures, "…") || !strings.Contains(figures, "words/s") {
		t.Errorf("the figures of a row are not all there:\n%s", detail)
	}
}

// Long names of rows are shortened so that they differ.
func TestLongNamesOfRows(t *testing.T) {
	h := start(t, 80, 24, 256, 3, shop)
	h.do(func() {
		rows := []Row{{}, {}, {}}
		for i, name := range []string{"a_long_module_name:handle_a_call_of_visa/2", "a_long_module_name:handle_a_call_of_amex/2", "shop:pay/1"} {
			rows[i].Key = name
		}
		t := *h.v.shown
		t.Rows = rows
		h.v.shown = &t
		h.v.fill()
	})
	h.do(func() {}) // waits for the drawing
	text := h.text()
	for _, want := range []string{"a_long_module…ll_of_visa/2 ", "a_long_module…ll_of_amex/2 ", "shop:pay/1", "waiting", "cpu%"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// Functions of Elixir are shown in Elixir syntax.
func TestFunctionOfElixir(t *testing.T) {
	for function, want := range map[string]string{"'Elixir.Process':sleep/1": "Process.sleep/1", "": "-"} {
		if got := (&Seen{Function: function}).functionText(); got != want {
			t.Errorf("%s: %s, want %s", function, got, want)
		}
	}
}

// On a narrow screen, the memory and the function of a process stay longer than the rates of
// collections and slices.
func TestColumnsThatStay(t *testing.T) {
	for width, want := range map[int][]Column{
		80:  {ByWaiting, ByOldest, ByCPU, ByMessages, ByP99},
		140: {ByWaiting, ByOldest, ByCPU, ByDirty, ByMessages, ByP99, ByGC, ByMemory, ByReductions, ByFunction},
	} {
		h := start(t, width, 40, 256, 3, shop)
		h.do(func() {
			var shown []Column
			for _, p := range h.v.places() {
				shown = append(shown, p.column)
			}
			if !slices.Equal(shown[1:], want) {
				t.Errorf("at %d columns: %v, want %v", width, shown[1:], want)
			}
		})
	}
}
