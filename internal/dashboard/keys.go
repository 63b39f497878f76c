package dashboard

import (
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"
)

// A place is where a binding holds.
type place string

const (
	anywhere   place = "everywhere"
	inOverview place = "in the overview"
	inPlots    place = "in the plots"
	inSidebar  place = "in the sidebar"
	inEditor   place = "in the diagram editor"
	inField    place = "in a field of the sidebar"
)

// asText returns where keys act that are text otherwise.
func asText() []place { return []place{inEditor, inField} }

// A press is a key as it is pressed: a rune, or a key that has none, perhaps with
// shift.
type press struct {
	key   tcell.Key // tcell.KeyRune for a rune
	char  rune
	shift bool
}

func char(r rune) press { return press{key: tcell.KeyRune, char: r} }

func pressOf(e *tcell.EventKey) press {
	if e.Key() == tcell.KeyRune {
		return char(e.Rune())
	}
	return press{key: e.Key(), shift: e.Modifiers()&tcell.ModShift != 0 && e.Key() != tcell.KeyBacktab}
}

// A binding is what keys do somewhere. All keys are in one table: what handles them,
// the hints at the bottom and the help are made from it.
type binding struct {
	where   place
	presses []press
	show    string // the keys for people, "←→"
	short   string // a word or two for the hints, "" for none
	help    string // a sentence for the help, "" where another binding tells it
	do      func()
}

// keys names the keys for people: all of them, where the hints have fewer words.
func (b *binding) keys() string {
	if len(b.presses) == 0 {
		return b.show
	}
	var names []string
	for _, p := range b.presses {
		if name := p.String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// String names a key for people.
func (p press) String() string {
	name := tcell.KeyNames[p.key]
	switch p.key {
	case tcell.KeyRune:
		name = string(p.char)
		if p.char == ' ' {
			name = "Space"
		}
	case tcell.KeyLeft:
		name = "←"
	case tcell.KeyRight:
		name = "→"
	case tcell.KeyUp:
		name = "↑"
	case tcell.KeyDown:
		name = "↓"
	case tcell.KeyBackspace, tcell.KeyBackspace2:
		name = "⌫"
	case tcell.KeyBacktab:
		name = "Shift-Tab"
	}
	if p.shift {
		return "Shift-" + name
	}
	return name
}

// A keymap is a table of bindings.
type keymap []binding

// find returns what a key does at one of the places, the first of which goes first.
func (m keymap) find(e *tcell.EventKey, at ...place) func() {
	for _, where := range at {
		for i := range m {
			if m[i].where == where && slices.Contains(m[i].presses, pressOf(e)) {
				return m[i].do
			}
		}
	}
	return nil
}

// hints returns the short forms of the bindings at the places, as many as fit in a
// width.
func (m keymap) hints(width int, at ...place) string {
	var b strings.Builder
	used := 0
	for _, where := range at {
		for i := range m {
			if m[i].where != where || m[i].short == "" {
				continue
			}
			need := len([]rune(m[i].show)) + 1 + len([]rune(m[i].short)) + 2
			if used+need > width {
				return b.String()
			}
			used += need
			b.WriteString("[::b]" + tview.Escape(m[i].show) + "[::-] " + m[i].short + "  ")
		}
	}
	return b.String()
}

// essential are the bindings that are always among the hints: what changes a
// demonstration, how to get help, and out.
func (m keymap) essential(knobs []Knob) (first, rest keymap) {
	for _, b := range m {
		if b.where == anywhere && (b.short == "help" || b.short == "quit" || slices.ContainsFunc(knobs, func(k Knob) bool { return k.Label == b.short })) {
			first = append(first, b)
		} else {
			rest = append(rest, b)
		}
	}
	return first, rest
}

// at returns the bindings at a place.
func (m keymap) at(where place) keymap {
	return slices.DeleteFunc(slices.Clone(m), func(b binding) bool { return b.where != where })
}

// places returns the places of the table, in its order.
func (m keymap) places() []place {
	var at []place
	for i := range m {
		if !slices.Contains(at, m[i].where) {
			at = append(at, m[i].where)
		}
	}
	return at
}
