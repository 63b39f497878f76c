// Package dashboard shows the oscilloscope in a terminal: plots of outcomes, a table of all of them,
// and a sidebar for changes. It draws frames and sends commands; it decides nothing.
//
// Frames come from the goroutine of the scope, which a slow terminal never delays: a store keeps
// the last frames, and the dashboard draws the newest one when the terminal is ready.
package dashboard

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/export"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A Control carries out the dashboard's commands: a session, or a player of a recording. Any
// goroutine may call its methods.
type Control interface {
	// Config returns the configuration in force.
	Config() config.Config

	// ApplyFrom applies a configuration that was derived from base, an earlier one. It returns
	// when the new one is in force.
	ApplyFrom(ctx context.Context, base, c config.Config) error
}

// A Knob changes the observed system. A demonstration has some.
type Knob struct {
	Key   rune
	Label string // its effect, in a few words

	// Turn makes the change and returns a message about it. It may take a while.
	Turn func(context.Context) (string, error)
}

// Options configure a Dashboard.
type Options struct {
	Title string // of the source, such as "live" or the name of a recording
	Path  string // of the scope file for saving changes; "" if there is none yet

	// Overview makes the dashboard begin with the table of all outcomes instead of plots.
	Overview bool

	// Discovers means that spans become outcomes when they are seen.
	Discovers bool

	// Snapshots is the folder of the snapshots that may be opened.
	Snapshots string

	// Fixed means that the frames are complete from the beginning, as in a snapshot. The
	// dashboard then begins with the window of number Window, and does not follow the last one.
	Fixed  bool
	Window uint64
	Oldest uint64 // windows before it are not shown
	Knobs  []Knob
	Intro  string // the first message

	// Wall converts a time of CLOCK_MONOTONIC to wall time, on the machine where that clock was
	// read.
	Wall func(int64) time.Time

	// Screen is the screen to draw on; nil means the terminal. The dashboard uses the colours
	// that the screen supports, or none if NO_COLOR is set.
	Screen tcell.Screen
}

// A Dashboard is a [scope.Observer] that shows frames and notices.
type Dashboard struct {
	*store // frames of the live source

	opts    Options
	app     *tui.App
	theme   *theme
	control Control

	live  *scene // of the store above
	scene *scene // the scene that is shown: the live one, or a snapshot

	keys      keymap
	root      tui.Pages
	header    *tview.TextView
	message   *tview.TextView
	screenful *tview.Flex // everything except overlays
	hintline  *tview.TextView
	body      *tview.Flex
	main      tui.Pages // the overview, or the plots
	overview  *overview
	grid      *grid
	tabs      []tab
	open      tab // in the sidebar; nil if that is closed
	width     int // of the screen at the last layout
	height    int
	overlays  []overlay

	said     string // the current message
	saidIn   int    // lines that the message takes; 0 before the first message
	saidAs   tone
	shown    uint64    // number of events shown so far
	fired    *event    // a firing that is not shown yet
	answered time.Time // time of the last message that answered the user
	weighty  bool      // the message is about the observed system, not about how it is shown
	fitted   []string  // outcomes that the message lists as fitted
	fittedAt time.Time // time of the last fit
	busy     string    // the change in progress, "" if none
	ended    bool      // the scope has ended
	unsaved  bool      // the user has changed the configuration since it was last saved

	byGroup map[string]bool // outcomes that are shown by group
}

// New returns a dashboard. Register it as an observer with the source of the frames, then call
// Run.
func New(o Options) *Dashboard {
	d := &Dashboard{store: newStore(), opts: o, byGroup: make(map[string]bool)}
	d.live = &scene{store: d.store, title: o.Title, at: o.Window, oldest: o.Oldest, following: !o.Fixed}
	d.scene = d.live
	return d
}

// Notify shows a notice that does not come from the scope. Any goroutine may call it.
func (d *Dashboard) Notify(n outcome.Notice) { _ = d.Noticed(n) }

// Run shows the dashboard until the user quits or the context is done. Meanwhile it runs work in
// another goroutine. If work ends first, the dashboard still shows its results. The context of
// work is done when the dashboard ends. Run always restores the terminal. Its error comes from
// work or from the terminal.
func (d *Dashboard) Run(ctx context.Context, control Control, work func(context.Context) error) error {
	app, err := tui.NewApp(ctx, d.opts.Screen)
	if err != nil {
		return err
	}
	defer tui.Restore(app.Screen)
	d.app, d.theme, d.control = app, &theme{app.Theme}, control
	d.build()
	return app.Run(tui.Show{Work: work, Changed: d.changed, Refresh: d.refresh, Ended: d.end})
}

// update calls do in the goroutine of the terminal, and redraws. It returns when do has returned,
// or when the dashboard has ended.
func (d *Dashboard) update(do func()) { d.app.Update(do) }

// Ended reports that no more frames come for now although the work is not over, as at the end of
// a recording. Any goroutine may call it except that of the terminal.
func (d *Dashboard) Ended(err error) { d.update(func() { d.end(err) }) }

// end records that the scope has ended.
func (d *Dashboard) end(err error) {
	again := d.ended // a recording has been replayed to its end
	d.ended = true
	switch {
	case err != nil:
		d.say(alert, "ended: "+err.Error())
	case !d.opts.Fixed && !again:
		d.say(doubtful, "the end"+d.why()+". What was seen is still here: , and . step through it, q quits")
	}
	d.refresh()
}

// why explains why the scope has ended, if all observed VMs have exited.
func (d *Dashboard) why() string {
	a := d.attached()
	if a == nil {
		return ""
	}
	var exited []string
	for _, v := range a.Status().VMs {
		switch {
		case v.Ended:
			exited = append(exited, v.VM.String())
		case v.Refused == "":
			return ""
		}
	}
	if len(exited) == 0 {
		return ""
	}
	return ": " + strings.Join(exited, " and ") + " exited"
}

// refresh shows the latest data. It leaves hidden pages as they are.
func (d *Dashboard) refresh() {
	d.showEvents()
	d.head()
	if d.showing("overview") {
		d.overview.refresh()
	}
	d.grid.refresh()
	if d.open != nil {
		d.open.refresh()
	}
	d.hints()
}

// showEvents shows new events, and prefers triggers that fired. It waits while the user may still
// be reading an answer, and then shows the firing.
func (d *Dashboard) showEvents() {
	var fresh []event
	fresh, d.shown = d.EventsSince(d.shown)
	fired := slices.DeleteFunc(slices.Clone(fresh), func(e event) bool { return e.notice.Text != "" })
	if len(fired) > 0 {
		last := fired[len(fired)-1]
		first := slices.IndexFunc(fired, func(e event) bool { return e.frame == last.frame })
		d.fired = &fired[first] // the first firing in that window
	}
	switch {
	case time.Since(d.answered) < reading:
	case d.fired != nil:
		e := d.fired
		d.fired, d.weighty = nil, true
		d.put(bad, fmt.Sprintf("▶ %s %s of %s: %s", d.clockOf(*e), e.fired.Trigger, d.called(e.fired.Outcome), export.Why(e.fired.Explanation, e.fired.Cause)))
	case len(fresh) > 0:
		d.showNotices(fresh)
	}
}

// showNotices shows the last notice. It prefers the exit of a VM to all other notices. It combines
// fitted scales in one message, and shows them only if nothing has fired or exited. Notices of new
// histories appear only in the list of events, because they follow from a change that the user
// already knows.
func (d *Dashboard) showNotices(fresh []event) {
	var fitted, others []event
	for _, e := range fresh {
		switch e.notice.Kind {
		case outcome.HistoryNotice:
		case outcome.FittedNotice:
			fitted = append(fitted, e)
		default:
			others = append(others, e)
		}
	}
	exited := func(e event) bool { return e.notice.Kind == outcome.ExitedNotice }
	if n := len(others); n > 0 {
		last := others[n-1]
		for _, e := range slices.Backward(others) {
			if exited(e) {
				last = e
				break
			}
		}
		d.fitted = nil
		n := plain
		if exited(last) {
			n = doubtful
		}
		d.weighty = last.notice.Kind != outcome.DiscoveredNotice
		d.put(n, strings.TrimSpace(d.clockOf(last)+" "+last.notice.Text))
		return
	}
	if len(fitted) == 0 || d.weighty {
		return
	}
	if time.Since(d.fittedAt) > together {
		d.fitted = nil
	}
	d.fittedAt = time.Now()
	for _, e := range fitted {
		if name := e.notice.Outcome; !slices.Contains(d.fitted, name) {
			d.fitted = append(d.fitted, name)
		}
	}
	last := fitted[len(fitted)-1]
	text := last.notice.Text
	if n := len(d.fitted); n > 1 {
		text = fmt.Sprintf("%d outcomes fitted: %s; press c for more", n, strings.Join(d.fitted, ", "))
	}
	d.put(plain, strings.TrimSpace(d.clockOf(last)+" "+text))
}

// together is the longest time between fits that one message combines.
const together = 10 * time.Second

// reading is how long an answer stays before events replace it.
const reading = 4 * time.Second

// frame returns the frame that is shown, or nil before the first one.
func (d *Dashboard) frame() *scope.Frame { return d.scene.frame() }

// change applies a changed configuration. It passes edit a copy of the one in force. It returns
// at once. The goroutine of the terminal calls done with the result.
func (d *Dashboard) change(what string, edit func(*config.Config) error, done func(error)) {
	if d.scene != d.live {
		done(errSnapshot)
		return
	}
	base := d.control.Config()
	c := base.Clone()
	if err := edit(&c); err != nil {
		done(err)
		return
	}
	d.background(what, func(ctx context.Context) error { return d.control.ApplyFrom(ctx, base, c) }, func(err error) {
		if err == nil && !reflect.DeepEqual(base, c) {
			d.unsaved = true
		}
		done(err)
	})
}

// errSnapshot means that a snapshot cannot be changed.
var errSnapshot = errors.New("this is a snapshot: Esc goes back to what is live, which can be changed")

// busyError names a change that is still in progress.
type busyError string

func (e busyError) Error() string {
	return string(e) + " is not finished: press the key again in a moment"
}

// background runs do in another goroutine, one at a time. Meanwhile the bottom line shows what.
// The goroutine of the terminal then calls done.
func (d *Dashboard) background(what string, do func(context.Context) error, done func(error)) {
	if d.busy != "" {
		done(busyError(d.busy))
		return
	}
	d.busy = what
	d.hints()
	go func() {
		defer tui.Restore(d.app.Screen)
		err := do(d.app.Context())
		d.update(func() {
			d.busy = ""
			done(err)
			d.refresh()
		})
	}()
}
