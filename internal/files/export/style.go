package export

import (
	"image/color"

	xfont "golang.org/x/image/font"
	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/beamscope/beamscope/internal/ui/plot"
)

// Shades of grey for axes and text.
func pale() color.NRGBA { return color.NRGBA{0xE4, 0xE4, 0xE4, 0xFF} }
func soft() color.NRGBA { return color.NRGBA{0x50, 0x50, 0x50, 0xFF} }
func ink() color.NRGBA  { return color.NRGBA{0x20, 0x20, 0x20, 0xFF} }

// A stroke is the look of a curve: a line with a colour and a pattern, and the area between its
// bounds, which may have edges. The pattern alone distinguishes the curves in black and white.
type stroke struct {
	line  draw.LineStyle
	area  uint8 // opacity of the area, up to 255
	edges bool
}

// roleStroke returns the stroke of a curve in a plot of one outcome. The colour shows the role of
// the curve.
func roleStroke(r plot.Role) stroke {
	c := r.Paint().RGB()
	line := func(width vg.Length, dashes ...vg.Length) draw.LineStyle {
		return draw.LineStyle{Color: c, Width: width, Dashes: dashes}
	}
	switch r {
	case plot.Calculated:
		return stroke{line: line(1.5, 5, 2), area: 0x48}
	case plot.Mean:
		return stroke{line: line(1.2, 1.2, 1.6), area: 0x28, edges: true}
	case plot.CalculatedMean:
		return stroke{line: line(1.2, 4, 1.5, 1, 1.5), area: 0x28, edges: true}
	case plot.Earlier:
		return stroke{line: line(1.2, 3, 2)}
	}
	return stroke{line: line(1.6)}
}

// strokeOf returns the stroke of a curve of one series in a plot. If there are several series,
// the colour shows the series, and the pattern the role.
func strokeOf(p *Plot, index int, r plot.Role) stroke {
	s := roleStroke(r)
	if len(p.Series) > 1 {
		s.line.Color = plot.OutcomePaint(index).RGB()
	}
	return s
}

// requiredStyle is the style of the steps of a QTA, and dMaxStyle that of the line at dMax.
func requiredStyle() draw.LineStyle {
	return draw.LineStyle{Color: plot.RequiredPaint.RGB(), Width: 1.2, Dashes: []vg.Length{6, 1.5, 1.2, 1.5, 1.2, 1.5}}
}

func dMaxStyle() draw.LineStyle {
	return draw.LineStyle{Color: ink(), Width: 0.8, Dashes: []vg.Length{3, 2}}
}

// translucent returns the colour with an opacity.
func translucent(c color.Color, alpha uint8) color.Color {
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	n.A = alpha
	return n
}

// sans returns a sans-serif text style with a size in points.
func sans(size vg.Length, c color.Color) text.Style {
	return text.Style{
		Color:   c,
		Font:    font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		Handler: gonum.DefaultTextHandler,
	}
}

// bold returns the style in bold type.
func bold(s text.Style) text.Style {
	s.Font.Weight = xfont.WeightBold
	return s
}
