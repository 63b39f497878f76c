package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/tui"
)

// A binding is what keys do. What handles them, the hints and the help are made from it.
type binding struct {
	runes string
	keys  []tcell.Key
	show  string // for people, where it is not the runes
	short string // a word for the hints, "" for none
	help  string
	do    func()
}

func (b *binding) name() string {
	if b.show != "" {
		return b.show
	}
	return strings.Join(strings.Split(b.runes, ""), " ")
}

func (b *binding) has(e *tcell.EventKey) bool {
	if e.Key() == tcell.KeyRune {
		return strings.ContainsRune(b.runes, e.Rune())
	}
	return slices.Contains(b.keys, e.Key())
}

// bindings returns what all keys do but those that move in the table.
func (v *View) bindings() []binding {
	all := []binding{
		{runes: "?", keys: []tcell.Key{tcell.KeyF1}, short: "help", help: "what the keys do", do: v.toggleHelp},
		{runes: "q", keys: []tcell.Key{tcell.KeyCtrlC}, short: "quit", help: "leave; the terminal is as it was", do: func() { v.app.Stop() }},
		{runes: "<>", short: "sort", help: "sort by the column to the left or right; see below for letters", do: nil},
		{runes: "iI", show: "i", short: "reverse", help: "sort the other way round", do: func() { v.do((*Model).Reverse) }},
		{runes: "/", short: "filter", help: "show only rows with a text in them, or that match a regular expression; Esc shows all", do: v.ask},
		{runes: "f ", show: "f Space", short: "freeze", help: "stop at this window, or follow the present again; what comes meanwhile is counted", do: v.freeze},
		{runes: "g", short: "pid/mfa", help: "rows by process, or by the function that processes were spawned with", do: v.regroup},
		{runes: "a", short: "average", help: "figures of the last window, or of the last 5 or 30 together", do: v.averaging},
		{runes: "r", short: "retry", help: "observe everything again, after something was given up", do: v.retry},
		{runes: "d", keys: []tcell.Key{tcell.KeyEnter}, show: "d Enter", help: "all figures of the selected row, or not", do: v.toggleDetail},
		{keys: []tcell.Key{tcell.KeyHome}, show: "Home", help: "select the first row, whichever it is", do: v.home},
		{keys: []tcell.Key{tcell.KeyEscape}, show: "Esc", help: "all rows again, without a filter", do: v.unfilter},
	}
	all[2].do = func() {}
	for c := range columns {
		all = append(all, binding{runes: string(c.info().key), help: "sort by " + c.info().help, do: func() { v.sortBy(c) }})
	}
	return all
}

// press is given every key before anything else is.
func (v *View) press(e *tcell.EventKey) *tcell.EventKey {
	switch {
	case v.root.HasPage(helpPage):
		return v.pressHelp(e)
	case v.field != nil:
		return e
	case e.Key() == tcell.KeyRune && e.Rune() == '<':
		v.step(-1)
		return nil
	case e.Key() == tcell.KeyRune && e.Rune() == '>':
		v.step(1)
		return nil
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

var _ = fmt.Sprint
var _ = outcome.GroupPID
var _ tview.Primitive
var _ tui.Tone
