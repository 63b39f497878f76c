// Package tui contains the common parts of programs on a terminal: the screen, the theme, and texts
// with a fixed width.
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

// A Screen is a screen of tcell that is already initialised: tview would initialise it again and
// drop the error. It draws most characters without allocating memory, because it prepares them in
// advance.
type Screen struct {
	tcell.Screen
	ascii, drawing string // all ASCII and all drawing characters in order, of 1 and 3 bytes each

	drawn    sync.Mutex // held while the screen draws
	finished bool       // nothing may be drawn any more
}

// The first and the last of the lines, blocks and Braille characters.
const firstDrawing, lastDrawing = '\u2500', '\u28ff'

// Open initialises a screen, nil for that of the terminal. It returns the screen with the theme for
// its number of colours, or without colours if NO_COLOR is set. The caller ends the screen with
// Fini.
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

// Restore gives the terminal back before a panic is reported. Each goroutine defers it while a
// screen is in use.
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

// SetContent implements [tcell.Screen]. Only printable characters reach the terminal, because the
// contents may come from an observed program or from another person's file.
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

// patience is how long Fini waits for a drawing to end. A terminal that accepts no output blocks a
// drawing forever.
const patience = 2 * time.Second

// Fini implements [tcell.Screen]. It waits for a drawing in progress, because tcell would put the
// sequences that restore the terminal after the drawing's output, and after a panic they would
// never be written.
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
