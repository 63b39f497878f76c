package tui_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/ui/tui"
)

// Lines keeps all words of a text if there is room, and its lines always fit the width.
func TestLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-zé日 ]{0,80}`).Draw(t, "text")
		width, most := rapid.IntRange(1, 40).Draw(t, "width"), rapid.IntRange(1, 5).Draw(t, "lines")
		lines := tui.Lines(text, width, most)
		if len(lines) < 1 || len(lines) > most {
			t.Fatalf("%d lines, at most %d", len(lines), most)
		}
		cut := false
		for _, line := range lines {
			cut = cut || strings.Contains(line, "…")
			if tui.Columns(line) > width {
				t.Fatalf("%q takes more than %d columns", line, width)
			}
		}
		letters := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if got := letters(strings.Join(lines, "")); !cut && got != letters(text) {
			t.Fatalf("%q became %q", text, lines)
		}
	})
}
