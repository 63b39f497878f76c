package top

import (
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
)

// A binding assigns a command to keys. Key handling, the hints and the help are made from
// bindings.
type binding struct {
	runes string
	keys  []tcell.Key
	show  string // displayed names of the keys
	short string // a word for the hints, "" for no hint
	help  string // "" if another binding describes this one
	do    func()
}

func (b *binding) has(e *tcell.EventKey) bool {
	if e.Key() == tcell.KeyRune {
		return strings.ContainsRune(b.runes, e.Rune())
	}
	return slices.Contains(b.keys, e.Key())
}

// bindings returns all bindings except those that move in the table.
func (v *View) bindings() []binding {
	key := func(k ...tcell.Key) []tcell.Key { return k }
	all := []binding{
		{"?h", key(tcell.KeyF1), "?", "help", "show all keys", v.showHelp},
		{"q", key(tcell.KeyCtrlC), "q", "quit", "quit and restore the terminal", v.app.Stop},
		{"<", key(tcell.KeyLeft), "< >", "sort", "sort by the column to the left, or to the right", func() { v.step(-1) }},
		{">", key(tcell.KeyRight), ">", "", "", func() { v.step(1) }},
		{"iI", nil, "i", "reverse", "sort the other way round", func() { v.do((*Model).Reverse) }},
		{"/", nil, "/", "filter", "only rows that contain a text or match a regular expression", v.ask},
		{"", key(tcell.KeyEscape), "Esc", "", "all rows again", v.unfilter},
		{"f ", nil, "f Space", "freeze", "freeze this window, or follow again; counting continues", v.freeze},
		{"g", nil, "g", "pid/mfa", "rows by process, or by the spawned function", v.regroup},
		{"a", nil, "a", "average", "figures of the last window, or of the last 5 or 30 together", v.averaging},
		{"r", nil, "r", "retry", "observe everything again, after something was given up", v.retry},
		{"d", key(tcell.KeyEnter), "d Enter", "detail", "show or hide all figures of the selected row", v.toggleDetail},
		{"", key(tcell.KeyHome), "Home", "", "always select the first row", v.home},
	}
	for c := range columns {
		letter := string(c.info().key)
		all = append(all, binding{letter, nil, letter, "", "sort by " + c.info().help, func() { v.sortBy(c) }})
	}
	return all
}

// press handles every key first.
func (v *View) press(e *tcell.EventKey) *tcell.EventKey {
	switch {
	case v.helping:
		return v.pressHelp(e)
	case v.field != nil && e.Key() != tcell.KeyCtrlC:
		return e
	}
	return v.pressBound(e, v.bindings())
}

// step sorts by the next or previous visible column.
func (v *View) step(by int) {
	var shown []Column
	for _, p := range v.places() {
		shown = append(shown, p.column)
	}
	at := slices.Index(shown, v.shown.Sort)
	v.sortBy(shown[min(max(at+by, 0), len(shown)-1)])
}

func (v *View) sortBy(c Column) { v.do(func(m *Model) { m.SortBy(c) }) }

func (v *View) freeze() {
	frozen := !v.shown.Frozen
	v.do(func(m *Model) { m.Freeze(frozen) })
}

// regroup changes the kind of the rows.
func (v *View) regroup() {
	by := "mfa"
	if v.shown.By == by {
		by = "pid"
	}
	v.do(func(m *Model) {
		m.Freeze(false)
		m.GroupBy(by)
	})
	v.say("rows by " + by + " in a moment: they begin anew")
}

// averaging changes the number of windows of an average.
func (v *View) averaging() {
	n := v.nextAverage()
	v.do(func(m *Model) { m.Average(n) })
}

func (v *View) retry() {
	if v.shown.Level == Everything {
		v.say("everything is observed")
		return
	}
	v.do((*Model).Retry)
	v.say("everything is observed again in a moment")
}

func (v *View) toggleDetail() { v.detailed = !v.detailed }

func (v *View) home() {
	v.chosen = nil
	v.table.ScrollToBeginning()
}

func (v *View) unfilter() { v.do(func(m *Model) { m.Filter("") }) }
