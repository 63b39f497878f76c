package dashboard

import (
	"github.com/gdamore/tcell/v2"

	"github.com/beamscope/beamscope/internal/plot"
)

// A tone is what a piece of text or a line means, for the theme to show it.
type tone uint8

const (
	plain    tone = iota
	dim           // less important
	strong        // headings, what is selected
	good          // a requirement that is met
	bad           // a hazard: one that is not
	doubtful      // what cannot be told, loss
	alert         // a message about something that went wrong
	required      // a QTA, dMax
)

// A theme says how things look on a terminal. Text is in the terminal's own colours,
// light or dark; meanings have colours that can be told apart by those who are colour
// blind, on either background, and never a colour alone.
type theme struct {
	colors int // that the terminal has; 0 for monochrome
}

// newTheme returns the theme for a terminal of so many colours.
func newTheme(colors int) *theme { return &theme{colors: colors} }

// The colours of Okabe and Ito that have enough contrast on black and on white, and
// the nearest of the sixteen.
type paint struct{ rich, basic tcell.Color }

func blue() paint      { return paint{tcell.NewRGBColor(0x00, 0x80, 0xC8), tcell.ColorNavy} }
func vermilion() paint { return paint{tcell.NewRGBColor(0xD5, 0x5E, 0x00), tcell.ColorMaroon} }
func green() paint     { return paint{tcell.NewRGBColor(0x00, 0x9E, 0x73), tcell.ColorGreen} }
func purple() paint    { return paint{tcell.NewRGBColor(0xC0, 0x60, 0x9C), tcell.ColorPurple} }
func grey() paint      { return paint{tcell.NewRGBColor(0x80, 0x80, 0x80), tcell.ColorGray} }
func orange() paint    { return paint{tcell.NewRGBColor(0xC0, 0x80, 0x00), tcell.ColorOlive} }
func turquoise() paint { return paint{tcell.NewRGBColor(0x20, 0x90, 0xB0), tcell.ColorTeal} }

func (t *theme) color(p paint) tcell.Color {
	switch {
	case t.colors >= 256:
		return p.rich
	case t.colors >= 8:
		return p.basic
	}
	return tcell.ColorDefault
}

// style returns how a tone looks.
func (t *theme) style(n tone) tcell.Style {
	s := tcell.StyleDefault
	switch n {
	case dim:
		if t.colors == 0 {
			return s.Dim(true)
		}
		return s.Foreground(t.color(grey()))
	case strong:
		return s.Bold(true)
	case good:
		return s.Foreground(t.color(green()))
	case bad:
		return s.Foreground(t.color(vermilion())).Bold(true)
	case doubtful:
		return s.Foreground(t.color(orange()))
	case alert:
		return s.Foreground(t.color(vermilion())).Reverse(true)
	case required:
		return s.Foreground(t.color(purple()))
	}
	return s
}

// selected returns how the row or field looks on which the keys act.
func (t *theme) selected() tcell.Style { return tcell.StyleDefault.Reverse(true) }

// A stroke is how the line of a curve looks: a colour, and a pattern of dots for
// terminals and people without colours.
type stroke struct {
	style   tcell.Style
	on, off int // dots drawn, and then left out, in turns; off is 0 for a solid line
}

// roleStroke returns the stroke of a curve in a plot of one probe: there the colour
// says what the curve is.
func (t *theme) roleStroke(r plot.Role) stroke {
	s := stroke{style: tcell.StyleDefault, on: 1}
	switch r {
	case plot.Observed:
		s.style = s.style.Foreground(t.color(blue()))
	case plot.Calculated:
		s.style, s.on, s.off = s.style.Foreground(t.color(vermilion())), 4, 2
	case plot.Mean:
		s.style, s.on, s.off = s.style.Foreground(t.color(turquoise())), 1, 2
	case plot.CalculatedMean:
		s.style, s.on, s.off = s.style.Foreground(t.color(orange())), 1, 2
	case plot.Earlier:
		s.style, s.on, s.off = s.style.Foreground(t.color(grey())), 2, 2
	}
	return s
}

// probeStroke returns the stroke of a curve in a plot of several probes: there the
// colour says whose the curve is, and the pattern what.
func (t *theme) probeStroke(index int, r plot.Role) stroke {
	s := t.roleStroke(r)
	paints := []paint{blue(), vermilion(), green(), purple(), orange(), turquoise()}
	s.style = tcell.StyleDefault.Foreground(t.color(paints[index%len(paints)]))
	return s
}
