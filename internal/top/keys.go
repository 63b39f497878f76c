package top

import (
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
)

// A binding is what keys do. What handles them, the hints and the help are made from it.
type binding struct {
	runes string
	keys  []tcell.Key
	show  string // for people
	short string // a word for the hints, "" for none
	help  string // "" where another binding tells it
	do    func()
}

func (b *binding) has(e *tcell.EventKey) bool {
	if e.Key() == tcell.KeyRune {
		return strings.ContainsRune(b.runes, e.Rune())
	}
	return slices.Contains(b.keys, e.Key())
}

// bindings returns what all keys do but those that move in the table.
func (v *View) bindings() []binding {
	key := func(k ...tcell.Key) []tcell.Key { return k }
	all := []binding{
		{"?h", key(tcell.KeyF1), "?", "help", "what the keys do", v.showHelp},
		{"q", key(tcell.KeyCtrlC), "q", "quit", "leave; the terminal is as it was", v.app.Stop},
		{"<", key(tcell.KeyLeft), "< >", "sort", "sort by the column to the left, or to the right", func() { v.step(-1) }},
		{">", key(tcell.KeyRight), ">", "", "", func() { v.step(1) }},
		{"iI", nil, "i", "reverse", "sort the other way round", func() { v.do((*Model).Reverse) }},
		{"/", nil, "/", "filter", "only rows with a text in them, or that match a regular expression", v.ask},
		{"", key(tcell.KeyEscape), "Esc", "", "all rows again", v.unfilter},
		{"f ", nil, "f Space", "freeze", "stop at this window, or follow again; what comes meanwhile is counted", v.freeze},
		{"g", nil, "g", "pid/mfa", "rows by process, or by the function that processes were spawned with", v.regroup},
		{"a", nil, "a", "average", "figures of the last window, or of the last 5 or 30 together", v.averaging},
		{"r", nil, "r", "retry", "observe everything again, after something was given up", v.retry},
		{"d", key(tcell.KeyEnter), "d Enter", "detail", "all figures of the selected row, or not", v.toggleDetail},
		{"", key(tcell.KeyHome), "Home", "", "select the first row, whichever it is", v.home},
	}
	for c := range columns {
		letter := string(c.info().key)
		all = append(all, binding{letter, nil, letter, "", "sort by " + c.info().help, func() { v.sortBy(c) }})
	}
	return all
}

// press is given every key before anything else is.
func (v *View) press(e *tcell.EventKey) *tcell.EventKey {
	switch {
	case v.helping:
		return v.pressHelp(e)
	case v.field != nil && e.Key() != tcell.KeyCtrlC:
		return e
	}
	for _, b := range v.bindings() {
		if b.has(e) {
			b.do()
			v.refresh()
			return nil
		}
	}
	return e
}

// step sorts by the next column that is shown, or the one before.
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

// regroup changes what the rows are.
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

// averaging changes how many windows an average is over.
func (v *View) averaging() {
	choices := []int{1, 5, MaxAverage}
	v.average = choices[(slices.Index(choices, v.average)+1)%len(choices)]
	v.do(func(m *Model) { m.Average(v.average) })
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
