// Package dashboard is the oscilloscope's front: plots of probes, a table of all of
// them, and a sidebar to change what is observed, in a terminal. It draws frames and
// sends commands; it decides nothing.
//
// Frames come in from the goroutine of the scope, which a slow terminal never holds
// up: a store keeps the last of them, and what is drawn is what is newest when there
// is time to draw.
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

	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/export"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/tui"
)

// A Control is what the dashboard commands: a session, or something that plays a
// recording. Its methods may be called from any goroutine.
type Control interface {
	// Config returns the configuration in force.
	Config() config.Config

	// ApplyFrom goes on with what was made of a configuration that was in force, and
	// returns when that is settled.
	ApplyFrom(ctx context.Context, base, c config.Config) error
}

// A Knob changes the system that is observed: a demonstration has some.
type Knob struct {
	Key   rune
	Label string // what it does, in a few words

	// Turn does it, and returns what to say. It may take its time.
	Turn func(context.Context) (string, error)
}

// Options say what a Dashboard shows.
type Options struct {
	Title string // of what is shown, such as "live" or the name of a recording
	Path  string // of the scope file, where changes are saved; "" where there is none yet

	// Overview has it begin with the table of all probes instead of plots.
	Overview bool

	// Discovers says that spans become outcomes when they are seen.
	Discovers bool

	// Snapshots is the folder of the snapshots that may be opened.
	Snapshots string

	// Fixed are frames that are all there from the beginning, as those of a snapshot:
	// it begins with the window of this number, and does not follow the last.
	Fixed  bool
	Window uint64
	Oldest uint64 // windows before it are not shown
	Knobs  []Knob
	Intro  string // a line to begin with

	// Wall returns the wall time of a time of CLOCK_MONOTONIC where it was read.
	Wall func(int64) time.Time

	// Screen is drawn on; nil is the terminal. It has as many colours as it says, or
	// none where NO_COLOR is set.
	Screen tcell.Screen
}

// A Dashboard is a [scope.Observer] that shows what it is told.
type Dashboard struct {
	*store // of what is live

	opts    Options
	app     *tui.App
	theme   *theme
	control Control

	live  *scene // of the store above
	scene *scene // that is shown: the live one, or a snapshot

	keys      keymap
	root      tui.Pages
	header    *tview.TextView
	message   *tview.TextView
	screenful *tview.Flex // all but what covers it
	hintline  *tview.TextView
	body      *tview.Flex
	main      tui.Pages // the overview, or the plots
	overview  *overview
	grid      *grid
	tabs      []tab
	open      tab // in the sidebar, nil where that is closed
	width     int // of the screen at the last layout
	height    int
	overlays  []overlay

	said     string // the message
	saidAs   tone
	told     uint64    // events that were shown as they came
	fired    *event    // that is yet to be shown
	answered time.Time // when something was said last that was not one
	weighty  bool      // the message is of what happened, rather than of how it is shown
	fitted   []string  // outcomes of which the message says that they were fitted
	fittedAt time.Time // the last of them
	busy     string    // what is under way, "" for nothing
	ended    bool      // the scope has
	unsaved  bool      // somebody has changed the configuration since it was saved

	byGroup map[string]bool // probes whose groups are shown in the place of their plot
}

// New returns a dashboard. It is given to what makes the frames as an observer, and
// then run.
func New(o Options) *Dashboard {
	d := &Dashboard{store: newStore(), opts: o, byGroup: make(map[string]bool)}
	d.live = &scene{store: d.store, title: o.Title, at: o.Window, oldest: o.Oldest, following: !o.Fixed}
	d.scene = d.live
	return d
}

// Notify shows a notice about what is around the scope. It may be called from any
// goroutine.
func (d *Dashboard) Notify(n outcome.Notice) { _ = d.Noticed(n) }

// Run shows the dashboard until somebody quits, or the context is done. Work is run
// meanwhile, in a goroutine of its own; when it ends, what was seen is still shown.
// Its context is done when the dashboard is left. Whatever happens, the terminal is
// as it was afterwards. The error is that of work, or of the terminal.
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

// update does something in the goroutine of the terminal, and redraws. It returns
// when that is done, or the dashboard was left.
func (d *Dashboard) update(do func()) { d.app.Update(do) }

// Ended tells that nothing more comes for now, though the work is not over: as at the
// end of a recording. It may be called from any goroutine but that of the terminal.
func (d *Dashboard) Ended(err error) { d.update(func() { d.end(err) }) }

// end notes that the scope has ended.
func (d *Dashboard) end(err error) {
	again := d.ended // a recording that was played again, to its end
	d.ended = true
	switch {
	case err != nil:
		d.say(alert, "ended: "+err.Error())
	case !d.opts.Fixed && !again:
		d.say(doubtful, "the end"+d.why()+". What was seen is still here: , and . step through it, q quits")
	}
	d.refresh()
}

// why says why the scope has ended, where all that it observed did.
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

// refresh shows what is known now; pages that nobody sees are left as they are.
func (d *Dashboard) refresh() {
	d.tellEvents()
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

// tellEvents shows what was said since the last time, and rather what fired. It waits
// while somebody may be reading the answer to what they did: what fired is shown then.
func (d *Dashboard) tellEvents() {
	var fresh []event
	fresh, d.told = d.EventsSince(d.told)
	fired := slices.DeleteFunc(slices.Clone(fresh), func(e event) bool { return e.notice.Text != "" })
	if len(fired) > 0 {
		last := fired[len(fired)-1]
		first := slices.IndexFunc(fired, func(e event) bool { return e.frame == last.frame })
		d.fired = &fired[first] // what its window was noticed by
	}
	switch {
	case time.Since(d.answered) < reading:
	case d.fired != nil:
		e := d.fired
		d.fired, d.weighty = nil, true
		d.put(bad, fmt.Sprintf("▶ %s %s of %s: %s", d.clockOf(*e), e.fired.Trigger, d.called(e.fired.Probe), export.Why(e.fired.Explanation, e.fired.Cause)))
	case len(fresh) > 0:
		d.tellNotices(fresh)
	}
}

// tellNotices shows the last of what was said: that a VM has exited before all else, and
// scales that were fitted only where nothing has fired or exited, in one message. What the
// scope says of new histories is the consequence of a change, and only in the list of events.
func (d *Dashboard) tellNotices(fresh []event) {
	var fitted, others []event
	for _, e := range fresh {
		switch text := e.notice.Text; {
		case strings.Contains(text, fittedTo):
			fitted = append(fitted, e)
		case !strings.HasSuffix(text, newHistory):
			others = append(others, e)
		}
	}
	exited := func(e event) bool { return strings.HasSuffix(e.notice.Text, "has exited") }
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
		d.weighty = !strings.HasPrefix(last.notice.Text, discovered)
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
		if name, _, _ := strings.Cut(e.notice.Text, fittedTo); !slices.Contains(d.fitted, name) {
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

// fittedTo is between the name of an outcome and the scale that was fitted to it.
const fittedTo = ": fitted to "

// newHistory ends a notice about a probe that is observed in another way, and discovered
// begins one about new spans.
const newHistory, discovered = ": a new history begins", "discovered: "

// together is how long after each other scales are fitted that are told of together.
const together = 10 * time.Second

// reading is how long it takes to read an answer.
const reading = 4 * time.Second

// frame returns the frame that is shown, nil before there is one.
func (d *Dashboard) frame() *scope.Frame { return d.scene.frame() }

// change goes on with a changed configuration: edit is given a copy of the one in
// force. It returns at once; done is called in the goroutine of the terminal when it
// is settled, with what went wrong.
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

// errSnapshot says that a snapshot cannot be changed.
var errSnapshot = errors.New("this is a snapshot: Esc goes back to what is live, which can be changed")

// busyError says that the change it names is not made yet.
type busyError string

func (e busyError) Error() string {
	return string(e) + " is not finished: press the key again in a moment"
}

// background does something that takes its time, one thing at a time. What is said
// meanwhile at the bottom, and done is called in the goroutine of the terminal.
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
