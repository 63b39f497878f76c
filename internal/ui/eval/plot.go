package eval

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/beamscope/beamscope/dq"
)

// Sizes of plots.
const (
	textWidth, textHeight = 64, 12   // characters of 2×4 dots
	svgWidth, svgHeight   = 640, 280 // units, without the margins
	svgLeft, svgTop       = 60, 30
	svgBottom             = 40
)

// Plot plots a ΔQ for a terminal: the probability of success within a delay, as the band between
// its bounds, in Braille characters.
func Plot(name string, d *dq.DeltaQ) string {
	dots := make([][]bool, 4*textHeight)
	for y := range dots {
		dots[y] = make([]bool, 2*textWidth)
	}
	end := span(d)
	for x := range 2 * textWidth {
		b, _ := d.ProbabilityWithin(fraction(end, x, 2*textWidth-1))
		rows := float64(4*textHeight - 1)
		from, to := int(math.Round((1-b.Hi)*rows)), int(math.Round((1-b.Lo)*rows))
		for y := from; y <= to; y++ {
			dots[y][x] = true
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n", name)
	for y := range textHeight {
		label := "     "
		switch y {
		case 0:
			label = "1.00 "
		case textHeight - 1:
			label = "0.00 "
		}
		out.WriteString(label + "│" + brailleRow(dots, y) + "\n")
	}
	axis := fmt.Sprint(end)
	fmt.Fprintf(&out, "     └%s\n      0%s%s\n", strings.Repeat("─", textWidth), strings.Repeat(" ", max(1, textWidth-1-len(axis))), axis)
	return out.String()
}

// brailleRow returns one row of characters.
func brailleRow(dots [][]bool, row int) string {
	var out strings.Builder
	// The bit of each dot in Unicode, by column and row.
	bits := [2][4]rune{{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}
	for x := 0; x < len(dots[0]); x += 2 {
		c := rune(0x2800)
		for i, column := range bits {
			for j, bit := range column {
				if dots[4*row+j][x+i] {
					c |= bit
				}
			}
		}
		out.WriteRune(c)
	}
	return strings.TrimRight(out.String(), "\u2800")
}

// span returns the largest delay to plot: a little more than the delay after which hardly
// anything more succeeds.
func span(d *dq.DeltaQ) time.Duration {
	end := d.Horizon()
	if success, ok := d.Success(); ok {
		if v, ok := d.Quantile(success.Lo * 0.999); ok && v.Finite() {
			end = v.Hi
		}
	}
	return max(d.Width(), end+end/20)
}

// fraction returns t·i/n without overflow.
func fraction(t time.Duration, i, n int) time.Duration {
	return time.Duration(float64(t) * float64(i) / float64(n))
}

// SVG plots the ΔQs of a report below each other as a standalone image, with the bounds as a
// band.
func SVG(r *Report) string {
	const height = svgHeight + svgTop + svgBottom
	var body strings.Builder
	for i, name := range r.Names {
		fmt.Fprintf(&body, `<g transform="translate(%d %d)">`+"\n", svgLeft, i*height+svgTop)
		svgAxes(&body, name, span(r.Values[name]))
		fmt.Fprintf(&body, `<path class="band" d="%s"/>`+"\n</g>\n", svgBand(r.Values[name]))
	}
	total := height * len(r.Names)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" font-family="sans-serif" font-size="12">
<style>.band{fill:#36c;fill-opacity:.35;stroke:#36c}.axis{stroke:#888}text{fill:#222}</style>
%[3]s</svg>
`, svgWidth+2*svgLeft, total, body.String())
}

func svgAxes(w *strings.Builder, name string, end time.Duration) {
	fmt.Fprintf(w, `<text x="0" y="-10">%s</text>`+"\n", html.EscapeString(name))
	for i := range 5 {
		y := svgHeight * i / 4
		fmt.Fprintf(w, `<line class="axis" x1="0" y1="%[1]d" x2="%[2]d" y2="%[1]d"/><text x="-8" y="%[3]d" text-anchor="end">%[4]g</text>`+"\n",
			y, svgWidth, y+4, 1-float64(i)/4)
		x := svgWidth * i / 4
		fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="middle">%v</text>`+"\n", x, svgHeight+18, fraction(end, i, 4).Round(time.Microsecond))
	}
}

// svgBand returns a path along the upper bound and back along the lower one.
func svgBand(d *dq.DeltaQ) string {
	const points = 400
	var there, back []string
	for i := range points + 1 {
		b, _ := d.ProbabilityWithin(fraction(span(d), i, points))
		x := float64(svgWidth) * float64(i) / points
		there = append(there, fmt.Sprintf("%.1f,%.2f", x, svgHeight*(1-b.Hi)))
		back = append(back, fmt.Sprintf("%.1f,%.2f", x, svgHeight*(1-b.Lo)))
	}
	slices.Reverse(back)
	return "M" + strings.Join(there, " L") + " L" + strings.Join(back, " L") + " Z"
}
