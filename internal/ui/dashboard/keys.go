package dashboard

import (
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"
)

// A place is a part of the screen where a binding is active.
type place string

const (
	anywhere   place = "everywhere"
	inOverview place = "in the overview"
	inPlots    place = "in the plots"
	inSidebar  place = "in the sidebar"
	inEditor   place = "in the diagram editor"
	inField    place = "in a field of the sidebar"
)

// asText returns the places where keys normally enter text.
func asText() []place { return []place{inEditor, inField} }

// A press is a key press: a rune, or another key, possibly with shift.
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

// A binding assigns a command to keys in one place. One table has all bindings: key handling, the
// hints at the bottom and the help are made from it.
type binding struct {
	where   place
	presses []press
	show    string // displayed names of the keys, such as "←→"
	short   string // a word or two for the hints; "" for no hint
	help    string // a sentence for the help; "" if the previous binding describes this one too
	do      func()
}

// keys returns the displayed names of all keys. The hints may show fewer.
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
	if len(names) > mostNames {
		names = []string{names[0], "…", names[len(names)-1]}
	}
	return strings.Join(names, " ")
}

// mostNames is the largest number of keys that the help lists. For more keys it lists the first
// and the last.
const mostNames = 4

// forHelp returns the bindings for the help. It merges bindings without help into the previous one.
func (m keymap) forHelp() keymap {
	var all keymap
	for _, b := range m {
		if last := len(all) - 1; last >= 0 && b.help == "" {
			all[last].presses = slices.Concat(all[last].presses, b.presses)
			continue
		}
		all = append(all, b)
	}
	return all
}

// String returns the displayed name of a key.
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

// find returns the command of a key at the given places. Earlier places take precedence.
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

// hints returns as many short forms of the bindings at the places as fit into a width.
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

// essential separates the bindings that always appear among the hints: knobs of a demonstration,
// help, and quit.
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

// places returns the places in the order of the table.
func (m keymap) places() []place {
	var at []place
	for i := range m {
		if !slices.Contains(at, m[i].where) {
			at = append(at, m[i].where)
		}
	}
	return at
}
