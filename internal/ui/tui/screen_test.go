package tui

import (
	"strings"
	"testing"
	"unicode"

	"github.com/gdamore/tcell/v2"

	"github.com/beamscope/beamscope/internal/ui/tui/tuitest"
)

// The drawn text may come from an observed program, so only visible characters reach the terminal.
func TestScreenReplacesControlCharacters(t *testing.T) {
	sim := tcell.NewSimulationScreen("UTF-8")
	screen, _, err := Open(sim)
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Fini()
	sim.SetSize(12, 1)
	for x, r := range []rune("a\x1b\x07\u009b\u202e\r\nb") {
		screen.SetContent(x, 0, r, []rune{'\u0301', '\u202e', '\x1b'}, tcell.StyleDefault)
	}
	screen.Show()
	text := tuitest.Text(sim)
	for _, r := range strings.TrimRight(text, "\n") {
		if !unicode.IsPrint(r) {
			t.Errorf("the screen has %U in %q", r, text)
		}
	}
	if !strings.HasPrefix(text, "a\u0301\ufffd") || !strings.Contains(text, "b\u0301") {
		t.Errorf("the screen shows %q", text)
	}
}
