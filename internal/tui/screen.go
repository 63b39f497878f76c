// Package tui has what the programs on a terminal share: the screen, how things look on
// it, and texts of a width.
package tui

import (
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/gdamore/tcell/v2"
)

// A Screen is a screen of tcell that is initialised already, as tview would do it again
// and drop the error; and on which a character costs no memory, as nearly all of those
// that are drawn are known beforehand.
type Screen struct {
	tcell.Screen
	ascii, drawing string // one after the other, each of 1 and 3 bytes

	drawn    sync.Mutex // while something is written
	finished bool       // nothing is any more
}

// The characters of which lines, blocks and braille are.
const firstDrawing, lastDrawing = '\u2500', '\u28ff'

// Open initialises a screen, nil for that of the terminal, and returns it with the theme
// for as many colours as it has, or for none where NO_COLOR is set. The caller ends it
// with Fini.
func Open(s tcell.Screen) (*Screen, *Theme, error) {
	if s == nil {
		var err error
		if s, err = tcell.NewScreen(); err != nil {
			return nil, nil, err
		}
	}
	if err := s.Init(); err != nil {
		return nil, nil, err
	}
	colors := s.Colors()
	if os.Getenv("NO_COLOR") != "" {
		colors = 0
	}
	return newScreen(s), NewTheme(colors), nil
}

// Restore is deferred in each goroutine while a screen is in use: it gives the terminal
// back before a panic is reported.
func Restore(s tcell.Screen) {
	if p := recover(); p != nil {
		s.Fini()
		panic(p)
	}
}

func newScreen(s tcell.Screen) *Screen {
	var ascii, drawing strings.Builder
	for r := range rune(0x80) {
		ascii.WriteRune(r)
	}
	for r := firstDrawing; r <= lastDrawing; r++ {
		drawing.WriteRune(r)
	}
	return &Screen{Screen: s, ascii: ascii.String(), drawing: drawing.String()}
}

// Init implements [tcell.Screen].
func (*Screen) Init() error { return nil }

// SetContent implements [tcell.Screen].
// Nothing reaches the terminal but printable characters: what is drawn may come from an
// observed program or from somebody else's file.
func (s *Screen) SetContent(x, y int, r rune, combining []rune, style tcell.Style) {
	if slices.ContainsFunc(combining, unprintable) {
		combining = slices.DeleteFunc(slices.Clone(combining), unprintable)
	}
	switch {
	case unprintable(r) && r != 0:
		s.Put(x, y, string(unicode.ReplacementChar), style)
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

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// Show implements [tcell.Screen].
func (s *Screen) Show() { s.draw(s.Screen.Show) }

// Sync implements [tcell.Screen].
func (s *Screen) Sync() { s.draw(s.Screen.Sync) }

func (s *Screen) draw(do func()) {
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
func (s *Screen) Fini() {
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
