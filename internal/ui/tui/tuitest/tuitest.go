// Package tuitest gives tests the contents of a screen.
package tuitest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/google/go-cmp/cmp"
)

// A Colored is a screen with a given number of colours.
type Colored struct {
	tcell.SimulationScreen
	Count int
}

// Colors implements [tcell.Screen].
func (c Colored) Colors() int { return c.Count }

// Text returns the text on a screen.
func Text(screen tcell.Screen) string {
	return eachCell(screen, func(text string, _ tcell.Style) string { return text })
}

// Styles returns a letter for the style of each cell, followed by the meanings of the letters. A
// dot means the terminal's own style, and the colour -1 the terminal's own colour.
func Styles(screen tcell.Screen) string {
	letters := map[tcell.Style]string{tcell.StyleDefault: "."}
	var legend strings.Builder
	cells := eachCell(screen, func(_ string, s tcell.Style) string {
		if letters[s] == "" {
			letters[s] = string(rune('a' + len(letters) - 1))
			foreground, background, attributes := s.Decompose()
			fmt.Fprintf(&legend, "%s: %06x on %06x, attributes %d\n", letters[s], foreground.Hex(), background.Hex(), attributes)
		}
		return letters[s]
	})
	return cells + legend.String()
}

func eachCell(screen tcell.Screen, f func(string, tcell.Style) string) string {
	var b strings.Builder
	width, height := screen.Size()
	for y := range height {
		for x := 0; x < width; {
			text, style, columns := screen.Get(x, y)
			b.WriteString(f(text, style))
			x += columns
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Golden compares what was drawn with a file, or writes it to the file if update is set.
func Golden(t *testing.T, update bool, path, got string) {
	t.Helper()
	if update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("if the new output is right, run go test -update, -want +got:\n%s", diff)
	}
}
