package tui

import (
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"
)

// Pages are [tview.Pages] that do not blank their area before they draw, because the screen is
// already blank.
type Pages struct{ *tview.Pages }

// NewPages returns a Pages without pages.
func NewPages() Pages { return Pages{tview.NewPages()} }

// Draw implements [tview.Primitive].
func (p Pages) Draw(screen tcell.Screen) {
	for _, name := range slices.Backward(p.GetPageNames(true)) { // the names begin with the page in front
		item := p.GetPage(name)
		item.SetRect(p.GetRect())
		item.Draw(screen)
	}
}

// Line returns a line of text in the tags of a theme.
func Line() *tview.TextView {
	return tview.NewTextView().SetDynamicColors(true).SetWrap(false)
}

// Box gives a primitive a border with a title.
func Box(b *tview.Box, title string) {
	b.SetBorder(true).SetTitle(title).SetTitleAlign(tview.AlignLeft)
}

// Fit returns a text with exactly the given number of columns.
func Fit(text string, width int, right bool) string {
	has := Columns(text)
	if has > width {
		text = Shorten(text, width)
		has = Columns(text)
	}
	pad := strings.Repeat(" ", width-has)
	if right {
		return pad + text
	}
	return text + pad
}

// Shorten returns the beginning of a text that has more columns than a width.
func Shorten(text string, width int) string {
	runes := []rune(text)
	for len(runes) > 0 && Columns(string(runes))+1 > width {
		runes = runes[:len(runes)-1]
	}
	if width < 1 {
		return ""
	}
	return string(runes) + "…"
}

// Lines divides a text into lines of a width, up to a number of lines. It shortens the last line if
// there is more text.
func Lines(text string, width, most int) []string {
	if Columns(text) <= width || most <= 1 {
		return []string{shortened(text, width)}
	}
	lines := Wrap(text, max(width, 1))
	if len(lines) > most {
		lines = append(lines[:most-1], strings.Join(lines[most-1:], " "))
	}
	for i, line := range lines {
		lines[i] = shortened(line, width)
	}
	return lines
}

// shortened is Shorten, except that it returns a text that fits unchanged.
func shortened(text string, width int) string {
	if Columns(text) > width {
		return Shorten(text, width)
	}
	return text
}

// MessageLines returns the maximum number of lines of a message on a screen of a height.
func MessageLines(height int) int {
	switch {
	case height < 8:
		return 1
	case height < 36:
		return 2
	}
	return 3
}

// Columns returns the number of columns of the screen that a text takes.
func Columns(text string) int { return tview.TaggedStringWidth(tview.Escape(text)) }

// Wrap returns the words of a text in lines of a width. A word that is longer is
// divided.
func Wrap(text string, width int) []string {
	var lines []string
	var line []rune
	for _, field := range strings.Fields(text) {
		word := []rune(field)
		if len(line) > 0 && len(line)+1+len(word) > width {
			lines, line = append(lines, string(line)), nil
		}
		if len(line) > 0 {
			line = append(line, ' ')
		}
		for line = append(line, word...); len(line) > width; line = line[width:] {
			lines = append(lines, string(line[:width]))
		}
	}
	return append(lines, string(line))
}
