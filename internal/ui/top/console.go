package top

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A console is what [View] and [SampledView] have in common: a table with lines above and below
// it, a message, hints about keys, and the help.
type console struct {
	screen tcell.Screen // nil for the terminal
	app    *tui.App

	root    tui.Pages
	whole   *tview.Flex
	header  *tview.TextView
	state   *tview.TextView
	table   *tview.Table
	message *tview.TextView
	hints   *tview.TextView

	redraw        func() // shows the current state
	width, height int    // of the screen at the last layout
	average       int    // windows that the figures are an average of
	helping       bool
	ended         bool
	said          string
	saidAs        tui.Tone

	mu      sync.Mutex
	noticed []outcome.Notice // notices that are not shown yet
}

// Notify shows a notice. It may be called from any goroutine.
func (c *console) Notify(n outcome.Notice) {
	c.mu.Lock()
	c.noticed = append(c.noticed, n)
	c.mu.Unlock()
}

// run opens the screen, calls build, and shows the console until the user quits or the context is
// done. If the work ends first, the console still shows its results. Its error comes from the
// work or from the terminal.
func (c *console) run(ctx context.Context, build func(), work func(context.Context) error, changed <-chan struct{}) error {
	app, err := tui.NewApp(ctx, c.screen)
	if err != nil {
		return err
	}
	defer tui.Restore(app.Screen)
	c.app = app
	build()
	return app.Run(tui.Show{Work: work, Changed: changed, Refresh: c.redraw, Ended: c.end})
}

// layout puts everything on the screen. The line above is between the state and the table, and
// the lines below are between the table and the message.
func (c *console) layout(above *tview.TextView, below ...*tview.TextView) {
	c.header, c.state, c.message, c.hints = tui.Line(), tui.Line(), tui.Line(), tui.Line()
	c.table = tview.NewTable().SetSelectedStyle(c.app.Theme.Selected())
	c.whole = tview.NewFlex().SetDirection(tview.FlexRow).
		AddItem(c.header, 1, 0, false).
		AddItem(c.state, 1, 0, false).
		AddItem(above, 1, 0, false).
		AddItem(c.table, 0, 1, true)
	for _, line := range below {
		c.whole.AddItem(line, 0, 0, false)
	}
	c.whole.AddItem(c.message, 1, 0, false).AddItem(c.hints, 1, 0, false)
	c.root = tui.NewPages()
	c.root.AddPage("main", c.whole, true, true)
	c.app.SetRoot(c.root, true).SetBeforeDrawFunc(c.resize)
	c.width, c.height = c.app.Screen.Size()
}

// resize lays everything out again if the size of the screen has changed.
func (c *console) resize(screen tcell.Screen) bool {
	if width, height := screen.Size(); width != c.width || height != c.height {
		c.width, c.height = width, height
		c.redraw()
	}
	return false
}

// say shows a message until the next one.
func (c *console) say(text string) { c.put(tui.Plain, text) }

func (c *console) put(n tui.Tone, text string) {
	c.said, c.saidAs = strings.ReplaceAll(text, "\n", "  "), n
}

// end shows that the work is over.
func (c *console) end(err error) {
	c.ended = true
	c.showNotice()
	why := "the end"
	if err != nil {
		why = "ended: " + err.Error()
	} else if c.said != "" {
		why = "the end: " + c.said
	}
	c.put(tui.Alert, why+". q quits")
	c.redraw()
}

// showNotice shows the latest notice.
func (c *console) showNotice() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.noticed {
		c.put(tui.Doubtful, strings.TrimSpace(clock(n)+" "+n.Text))
	}
	c.noticed = nil
}

// clock returns the time of a notice, "" for a notice without a time.
func clock(n outcome.Notice) string {
	if n.Time == 0 {
		return ""
	}
	return monotonic.Wall(n.Time).Local().Format(time.TimeOnly)
}

// messageLines returns the message as lines that fit the screen.
func (c *console) messageLines() []string {
	return tui.Lines(c.said, c.width, tui.MessageLines(c.height))
}

func (c *console) tagged(n tui.Tone, text string) string {
	return c.app.Theme.Tag(n) + tview.Escape(text) + tui.End
}

// fitting joins parts, the most important first, as many as fit in the width of the screen.
func (c *console) fitting(parts []string) string {
	text := ""
	for _, p := range parts {
		if p == "" {
			continue
		}
		if text != "" {
			p = " │ " + p
		}
		if tview.TaggedStringWidth(text)+tview.TaggedStringWidth(p) > c.width {
			break
		}
		text += p
	}
	return text
}

// hintText returns the hints about keys, as many as fit in the width of the screen.
func (c *console) hintText(all []binding) string {
	text := ""
	for _, b := range all {
		if b.short == "" {
			continue
		}
		hint := "[::b]" + tview.Escape(b.show) + "[::-] " + b.short + "  "
		if tview.TaggedStringWidth(text+hint) > c.width {
			break
		}
		text += hint
	}
	return text
}

// pressBound runs the command of a key. It returns the event if the key has none.
func (c *console) pressBound(e *tcell.EventKey, all []binding) *tcell.EventKey {
	for _, b := range all {
		if b.has(e) {
			b.do()
			c.redraw()
			return nil
		}
	}
	return e
}

// nextAverage changes the number of windows of an average, and returns the new number.
func (c *console) nextAverage() int {
	choices := []int{1, liveAverage, MaxAverage}
	c.average = choices[(slices.Index(choices, c.average)+1)%len(choices)]
	return c.average
}

// helpPage is the name of the page with the help.
const helpPage = "help"

// help covers the table with the meanings of keys, and a text below them.
func (c *console) help(all []binding, below string) {
	text := tview.NewTextView().SetDynamicColors(true).SetWordWrap(true)
	tui.Box(text.Box, " keys (Esc closes, ↑↓ scroll) ")
	var b strings.Builder
	for _, k := range all {
		if k.help != "" {
			fmt.Fprintf(&b, "%-9s%s\n", tview.Escape(k.show), tview.Escape(k.help))
		}
	}
	b.WriteString("\n" + below)
	c.root.AddPage(helpPage, text.SetText(b.String()), true, true)
	c.app.SetFocus(text)
	c.helping = true
}

// pressHelp handles the keys while the help is shown.
func (c *console) pressHelp(e *tcell.EventKey) *tcell.EventKey {
	closes := e.Key() == tcell.KeyEscape || e.Key() == tcell.KeyRune && strings.ContainsRune("?hq", e.Rune())
	if !closes && e.Key() != tcell.KeyCtrlC {
		return e
	}
	c.helping = false
	c.root.RemovePage(helpPage)
	c.app.SetFocus(c.table)
	if !closes {
		c.app.Stop()
	}
	return nil
}
