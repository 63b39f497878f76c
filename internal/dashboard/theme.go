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

// color returns the colour as the terminal has it: its own nearest one of the sixteen
// where it has no more.
func (t *theme) color(p plot.Paint) tcell.Color {
	switch {
	case t.colors >= 256:
		c := p.RGB()
		return tcell.NewRGBColor(int32(c.R), int32(c.G), int32(c.B))
	case t.colors >= 8:
		return [...]tcell.Color{
			plot.Blue:      tcell.ColorNavy,
			plot.Vermilion: tcell.ColorMaroon,
			plot.Green:     tcell.ColorGreen,
			plot.Purple:    tcell.ColorPurple,
			plot.Orange:    tcell.ColorOlive,
			plot.Turquoise: tcell.ColorTeal,
			plot.Grey:      tcell.ColorGray,
		}[p]
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
		return s.Foreground(t.color(plot.Grey))
	case strong:
		return s.Bold(true)
	case good:
		return s.Foreground(t.color(plot.Green))
	case bad:
		return s.Foreground(t.color(plot.HazardPaint)).Bold(true)
	case doubtful:
		return s.Foreground(t.color(plot.Orange))
	case alert:
		return s.Foreground(t.color(plot.HazardPaint)).Reverse(true)
	case required:
		return s.Foreground(t.color(plot.RequiredPaint)).Bold(t.colors == 0)
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
	s := stroke{style: tcell.StyleDefault.Foreground(t.color(r.Paint())), on: 1}
	switch r {
	case plot.Calculated:
		s.on, s.off = 4, 2
	case plot.Mean:
		s.on, s.off = 1, 2
	case plot.CalculatedMean:
		s.on, s.off = 1, 4
	case plot.Earlier:
		s.on, s.off = 2, 2
	}
	return s
}

// probeStroke returns the stroke of a curve in a plot of several probes: there the
// colour says whose the curve is, and the pattern what.
func (t *theme) probeStroke(index int, r plot.Role) stroke {
	s := t.roleStroke(r)
	s.style = tcell.StyleDefault.Foreground(t.color(plot.ProbePaint(index)))
	return s
}

// tag returns the tone as a tag for tview's texts. "[-:-:-]" ends it.
func (t *theme) tag(n tone) string {
	fg, _, attributes := t.style(n).Decompose()
	color := "-"
	if fg != tcell.ColorDefault {
		color = fg.CSS()
		if name := basicName(fg); name != "" {
			color = name
		}
	}
	flags := ""
	for _, a := range []struct {
		mask tcell.AttrMask
		flag string
	}{{tcell.AttrBold, "b"}, {tcell.AttrDim, "d"}, {tcell.AttrReverse, "r"}} {
		if attributes&a.mask != 0 {
			flags += a.flag
		}
	}
	if flags == "" {
		flags = "-"
	}
	return "[" + color + ":-:" + flags + "]"
}

// basicName returns the name of one of the sixteen colours, which the terminal
// defines, and "" for others.
func basicName(c tcell.Color) string {
	for name, color := range tcell.ColorNames {
		if color == c {
			return name
		}
	}
	return ""
}
