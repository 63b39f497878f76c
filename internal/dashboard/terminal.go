package dashboard

import (
	"strings"

	"github.com/gdamore/tcell/v2"
)

// A terminal is a screen of tcell that is initialised already, as tview would do it again
// and drop the error; and on which a character costs no memory, as nearly all of those
// that are drawn are known beforehand.
type terminal struct {
	tcell.Screen
	ascii, drawing string // one after the other, each of 1 and 3 bytes
}

// The characters of which lines, blocks and braille are.
const firstDrawing, lastDrawing = '\u2500', '\u28ff'

func newTerminal(s tcell.Screen) *terminal {
	var ascii, drawing strings.Builder
	for r := range rune(0x80) {
		ascii.WriteRune(r)
	}
	for r := firstDrawing; r <= lastDrawing; r++ {
		drawing.WriteRune(r)
	}
	return &terminal{s, ascii.String(), drawing.String()}
}

// Init implements [tcell.Screen].
func (*terminal) Init() error { return nil }

// SetContent implements [tcell.Screen].
func (s *terminal) SetContent(x, y int, r rune, combining []rune, style tcell.Style) {
	switch {
	case len(combining) > 0:
		s.Screen.SetContent(x, y, r, combining, style)
	case r < 0x80 && r >= 0:
		s.Put(x, y, s.ascii[r:r+1], style)
	case r >= firstDrawing && r <= lastDrawing:
		at := (r - firstDrawing) * 3
		s.Put(x, y, s.drawing[at:at+3], style)
	default:
		s.Put(x, y, string(r), style)
	}
}
