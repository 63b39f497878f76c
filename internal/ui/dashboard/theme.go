package dashboard

import (
	"github.com/gdamore/tcell/v2"

	"github.com/beamscope/beamscope/internal/ui/braille"
	"github.com/beamscope/beamscope/internal/ui/plot"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A tone is the meaning of a piece of text or of a line.
type tone = tui.Tone

// Short names of the tones.
const (
	plain    = tui.Plain
	dim      = tui.Dim
	strong   = tui.Strong
	good     = tui.Good
	bad      = tui.Bad
	doubtful = tui.Doubtful
	alert    = tui.Alert
	required = tui.Required
)

// A theme defines the look of text and curves on a terminal.
type theme struct{ *tui.Theme }

// A stroke is the look of a curve's line: a colour, and a pattern of dots for terminals and
// people without colour vision.
type stroke struct {
	style tcell.Style
	dash  braille.Dash
}

// roleStroke returns the stroke of a curve in a plot of one outcome. The colour shows the role of
// the curve.
func (t *theme) roleStroke(r plot.Role) stroke {
	s := stroke{style: tcell.StyleDefault.Foreground(t.Color(r.Paint()))}
	switch r {
	case plot.Calculated:
		s.dash = braille.Dash{4, 2}
	case plot.Mean:
		s.dash = braille.Dash{1, 2}
	case plot.CalculatedMean:
		s.dash = braille.Dash{1, 4}
	case plot.Earlier:
		s.dash = braille.Dash{2, 2}
	}
	return s
}

// requiredStroke returns the stroke of a QTA, a pattern of dashes and dots.
func (t *theme) requiredStroke() stroke {
	return stroke{style: t.Style(required), dash: braille.Dash{3, 1, 1, 1}}
}

// outcomeStroke returns the stroke of a curve in a plot of several outcomes. The colour shows the
// outcome, and the pattern shows the role.
func (t *theme) outcomeStroke(index int, r plot.Role) stroke {
	s := t.roleStroke(r)
	s.style = tcell.StyleDefault.Foreground(t.Color(plot.OutcomePaint(index)))
	return s
}
