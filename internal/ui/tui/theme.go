package tui

import (
	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/ui/plot"
)

// A Tone is the meaning of a text or a line. The theme decides how to show it.
type Tone uint8

// The tones.
const (
	Plain    Tone = iota
	Dim           // less important
	Strong        // headings, selections
	Good          // a requirement that is met
	Bad           // a hazard: one that is not
	Doubtful      // unknown values, loss
	Alert         // a message about something that went wrong
	Required      // a QTA, dMax
)

// Mark returns a sign for a tone, for people who see no colours.
func (n Tone) Mark() string {
	switch n {
	case Good:
		return "✓"
	case Bad, Alert:
		return "✗"
	case Doubtful:
		return "?"
	}
	return " "
}

// A Theme defines the look of a terminal. Text has the terminal's own colours, light or dark.
// Meanings have colours that colour-blind people can distinguish on either background, and always a
// second sign besides the colour.
type Theme struct {
	colors int // number of the terminal's colours; 0 for monochrome
}

// NewTheme returns the theme for a terminal with a number of colours, 0 for monochrome.
func NewTheme(colors int) *Theme { return &Theme{colors: colors} }

// Color returns the colour for the terminal: the nearest one of its sixteen if it has no more.
func (t *Theme) Color(p plot.Paint) tcell.Color {
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

// Style returns how a tone looks.
func (t *Theme) Style(n Tone) tcell.Style {
	s := tcell.StyleDefault
	switch n {
	case Dim:
		if t.colors == 0 {
			return s.Dim(true)
		}
		return s.Foreground(t.Color(plot.Grey))
	case Strong:
		return s.Bold(true)
	case Good:
		return s.Foreground(t.Color(plot.Green))
	case Bad:
		return s.Foreground(t.Color(plot.HazardPaint)).Bold(true)
	case Doubtful:
		return s.Foreground(t.Color(plot.Orange))
	case Alert:
		return s.Foreground(t.Color(plot.HazardPaint)).Reverse(true)
	case Required:
		return s.Foreground(t.Color(plot.RequiredPaint)).Bold(t.colors == 0)
	}
	return s
}

// Selected returns the style of the row or field on which the keys act.
func (t *Theme) Selected() tcell.Style { return tcell.StyleDefault.Reverse(true) }

// Tag returns the tone as a tag for tview's texts, which [End] ends.
func (t *Theme) Tag(n Tone) string {
	fg, _, attributes := t.Style(n).Decompose()
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

// End ends a tag of [Theme.Tag].
const End = "[-:-:-]"

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

// Apply makes tview use the terminal's own colours for all later elements.
func (t *Theme) Apply() {
	tview.Styles = tview.Theme{
		PrimitiveBackgroundColor:    tcell.ColorDefault,
		ContrastBackgroundColor:     tcell.ColorDefault,
		MoreContrastBackgroundColor: tcell.ColorDefault,
		BorderColor:                 t.Color(plot.Grey),
		TitleColor:                  tcell.ColorDefault,
		GraphicsColor:               t.Color(plot.Grey),
		PrimaryTextColor:            tcell.ColorDefault,
		SecondaryTextColor:          tcell.ColorDefault,
		TertiaryTextColor:           tcell.ColorDefault,
		InverseTextColor:            tcell.ColorDefault,
		ContrastSecondaryTextColor:  tcell.ColorDefault,
	}
}
