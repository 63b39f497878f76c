package dashboard

import (
	"strings"
	"sync"
	"time"

	"github.com/gdamore/tcell/v2"
)

// A terminal is a screen of tcell that is initialised already, as tview would do it again
// and drop the error; and on which a character costs no memory, as nearly all of those
// that are drawn are known beforehand.
type terminal struct {
	tcell.Screen
	ascii, drawing string // one after the other, each of 1 and 3 bytes

	drawn    sync.Mutex // while something is written
	finished bool       // nothing is any more
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
	return &terminal{Screen: s, ascii: ascii.String(), drawing: drawing.String()}
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

// Show implements [tcell.Screen].
func (s *terminal) Show() { s.draw(s.Screen.Show) }

// Sync implements [tcell.Screen].
func (s *terminal) Sync() { s.draw(s.Screen.Sync) }

func (s *terminal) draw(do func()) {
	s.drawn.Lock()
	defer s.drawn.Unlock()
	if !s.finished {
		do()
	}
}

// patience is for how long a drawing may go on that the end waits for: a terminal that
// takes nothing would have it wait for good.
const patience = 2 * time.Second

// Fini implements [tcell.Screen]. While something is drawn, tcell would put what gives
// the terminal back behind that, where a panic does not let it get.
func (s *terminal) Fini() {
	for begin := time.Now(); !s.drawn.TryLock(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > patience {
			s.Screen.Fini()
			return
		}
	}
	defer s.drawn.Unlock()
	s.finished = true
	s.Screen.Fini()
}
