package export

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"slices"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// dpi is the number of pixels of an image in an inch, as in CSS.
const dpi = 96

// length converts pixels to a length.
func length(pixels int) vg.Length { return vg.Length(pixels) * vg.Inch / dpi }

func (p Picture) writeSVG(w io.Writer) error {
	width, height, err := p.size()
	if err != nil {
		return err
	}
	canvas := vgsvg.New(length(width), length(height))
	if err := p.draw(draw.New(canvas)); err != nil {
		return err
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	// If the font is not installed, a similar one may be.
	const family = "font-family:Liberation Sans"
	svg := bytes.ReplaceAll(out.Bytes(), []byte(family), []byte(family+", Arial, Helvetica, sans-serif"))
	_, err = w.Write(bytes.Map(inXML, svg))
	return err
}

// inXML removes characters that XML does not support. Foreign names may contain some.
func inXML(r rune) rune {
	if r < ' ' && r != '\t' && r != '\n' || r == 0xFFFE || r == 0xFFFF {
		return -1
	}
	return r
}

func (p Picture) writePNG(w io.Writer) error {
	width, height, err := p.size()
	if err != nil {
		return err
	}
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(length(width), length(height)), vgimg.UseDPI(dpi))}
	if err := p.draw(draw.New(canvas)); err != nil {
		return err
	}
	_, err = canvas.WriteTo(w)
	return err
}

// draw draws a line about the window, the plots in a grid, and the legend below them.
func (p Picture) draw(c draw.Canvas) error {
	if err := p.check(); err != nil {
		return err
	}
	const margin = 8
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	head := sans(8.5, soft())
	head.YAlign = draw.YTop
	when := fmt.Sprintf("window %d, until %s", p.Number, p.Time.Local().Format("2006-01-02 15:04:05.000 MST"))
	c.FillText(head, vg.Point{X: c.Min.X, Y: c.Max.Y}, when)
	c.Max.Y -= head.Height(when) + 2
	if p.Cause != "" {
		for _, line := range wrap(head, p.Cause, c.Size().X) {
			c.FillText(head, vg.Point{X: c.Min.X, Y: c.Max.Y}, line)
			c.Max.Y -= head.Height(line)
		}
		c.Max.Y -= 2
	}
	c.Min.Y += p.legend().draw(c)

	columns, rows := grid(len(p.Plots))
	tiles := draw.Tiles{Cols: columns, Rows: rows, PadX: 14, PadY: 10}
	for i := range p.Plots {
		panel(tiles.At(c, i%columns, i/columns), &p.Plots[i])
	}
	return nil
}

// panel draws a plot with its title, and what the reader must know first.
func panel(c draw.Canvas, p *Plot) {
	var names []string
	for i := range p.Series {
		if name := figures.Called(p.Series[i].Name, p.Series[i].Alias); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	title := bold(sans(11, ink()))
	title.XAlign, title.YAlign = draw.XCenter, draw.YTop
	c.FillText(title, vg.Point{X: c.Center().X, Y: c.Max.Y}, strings.Join(names, ", "))
	c.Max.Y -= title.Height("x") + 2

	style := sans(8.5, soft())
	style.XAlign, style.YAlign = draw.XCenter, draw.YTop
	for i := range p.Series {
		text := caption(&p.Series[i])
		if len(p.Series) > 1 {
			text = figures.ShortName(p.Series[i].Name) + ": " + text
		}
		for _, line := range wrap(style, text, c.Size().X) {
			c.FillText(style, vg.Point{X: c.Center().X, Y: c.Max.Y}, line)
			c.Max.Y -= style.Height(line)
		}
	}
	c.Max.Y -= 4
	framed(p, c.Size().X).Draw(c)
}

// caption describes how many instances a plot contains, and their problems.
func caption(s *plot.Series) string {
	if s.VM == (outcome.VM{}) {
		return "nothing was observed" // so there are no problems with observed data
	}
	parts := []string{fmt.Sprintf("%d instances of %v", s.Instances, s.VM)}
	if s.Instances == 1 {
		parts[0] = fmt.Sprintf("1 instance of %v", s.VM)
	}
	if s.Inferred {
		parts = append(parts, "paired by their order")
	}
	switch {
	case s.HasFailed && s.SlowerOnly():
		parts = append(parts, fmt.Sprintf("%s took longer than %v, which beamscope chose", figures.Percent(s.Failed), s.DMax))
	case s.HasFailed && s.Failed > 0:
		parts = append(parts, figures.Percent(s.Failed)+" "+s.HowFailedInFull())
	}
	if s.Lost > 0 {
		parts = append(parts, fmt.Sprintf("%d lost", s.Lost))
	}
	text := strings.Join(parts, ", ")
	if s.Caveat != "" {
		text += "; no verdict: " + s.Caveat
	}
	return text
}

// wrap wraps a text at spaces into lines of a width.
func wrap(style text.Style, text string, width vg.Length) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		longer := strings.TrimSpace(line + " " + word)
		if line != "" && style.Width(longer) > width {
			lines = append(lines, line)
			longer = word
		}
		line = longer
	}
	return append(lines, line)
}
