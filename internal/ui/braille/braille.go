// Package braille draws lines on a terminal with dots: each cell of the screen is a
// braille pattern, two dots wide and four high.
package braille

import (
	"math"

	"github.com/gdamore/tcell/v2"
)

// The size of a cell in dots.
const (
	CellWidth  = 2
	CellHeight = 4
)

// A Canvas is a rectangle of cells to draw on. The dot (x, y) covers the points from
// x to x+1 and from y to y+1; y grows downwards. What lies outside is not drawn. The
// zero Canvas has no cells: see Resize.
type Canvas struct {
	width, height int
	cells         []cell
}

type cell struct {
	dots  uint8
	style tcell.Style
}

// Resize gives the canvas a size in cells, and clears it. It takes memory only for
// more cells than there ever were.
func (c *Canvas) Resize(width, height int) {
	c.width, c.height = max(0, width), max(0, height)
	if n := c.width * c.height; n <= cap(c.cells) {
		c.cells = c.cells[:n]
	} else {
		c.cells = make([]cell, n)
	}
	clear(c.cells)
}

// Size returns the size in cells.
func (c *Canvas) Size() (width, height int) { return c.width, c.height }

// Set draws a dot. Its cell takes on the style.
func (c *Canvas) Set(x, y int, style tcell.Style) {
	if x < 0 || y < 0 || x >= c.width*CellWidth || y >= c.height*CellHeight {
		return
	}
	at := &c.cells[y/CellHeight*c.width+x/CellWidth]
	at.dots |= bit(x%CellWidth, y%CellHeight)
	at.style = style
}

// bit returns the bit of a dot in Unicode's braille patterns. They number the dots of a cell down
// the left column, down the right column, and last the two in the lowest row.
func bit(x, y int) uint8 {
	if y == CellHeight-1 {
		return 0x40 << x
	}
	return 1 << (3*x + y)
}

// Blank reports whether a cell has no dot. Cells that do not exist have none.
func (c *Canvas) Blank(x, y int) bool {
	return x < 0 || y < 0 || x >= c.width || y >= c.height || c.cells[y*c.width+x].dots == 0
}

// Draw draws the cells with dots onto a screen, with the upper left cell at (x, y), and does not
// change the rest of the screen.
func (c *Canvas) Draw(screen tcell.Screen, x, y int) {
	for i := range c.cells {
		if at := &c.cells[i]; at.dots != 0 {
			screen.Put(x+i%c.width, y+i/c.width, pattern(at.dots), at.style)
		}
	}
}

// pattern returns a braille pattern. It is a substring of a constant: strings made from runes would
// produce garbage thousands of times a second.
func pattern(dots uint8) string {
	const size = len("⠀")
	return patterns[int(dots)*size:][:size]
}

// patterns are U+2800 to U+28FF.
const patterns = "⠀⠁⠂⠃⠄⠅⠆⠇⠈⠉⠊⠋⠌⠍⠎⠏⠐⠑⠒⠓⠔⠕⠖⠗⠘⠙⠚⠛⠜⠝⠞⠟⠠⠡⠢⠣⠤⠥⠦⠧⠨⠩⠪⠫⠬⠭⠮⠯⠰⠱⠲⠳⠴⠵⠶⠷⠸⠹⠺⠻⠼⠽⠾⠿" +
	"⡀⡁⡂⡃⡄⡅⡆⡇⡈⡉⡊⡋⡌⡍⡎⡏⡐⡑⡒⡓⡔⡕⡖⡗⡘⡙⡚⡛⡜⡝⡞⡟⡠⡡⡢⡣⡤⡥⡦⡧⡨⡩⡪⡫⡬⡭⡮⡯⡰⡱⡲⡳⡴⡵⡶⡷⡸⡹⡺⡻⡼⡽⡾⡿" +
	"⢀⢁⢂⢃⢄⢅⢆⢇⢈⢉⢊⢋⢌⢍⢎⢏⢐⢑⢒⢓⢔⢕⢖⢗⢘⢙⢚⢛⢜⢝⢞⢟⢠⢡⢢⢣⢤⢥⢦⢧⢨⢩⢪⢫⢬⢭⢮⢯⢰⢱⢲⢳⢴⢵⢶⢷⢸⢹⢺⢻⢼⢽⢾⢿" +
	"⣀⣁⣂⣃⣄⣅⣆⣇⣈⣉⣊⣋⣌⣍⣎⣏⣐⣑⣒⣓⣔⣕⣖⣗⣘⣙⣚⣛⣜⣝⣞⣟⣠⣡⣢⣣⣤⣥⣦⣧⣨⣩⣪⣫⣬⣭⣮⣯⣰⣱⣲⣳⣴⣵⣶⣷⣸⣹⣺⣻⣼⣽⣾⣿"

// A Pen draws connected lines. Its pattern continues from each line to the next, and counts dots,
// so that dashes are as long on steep lines as on flat ones.
type Pen struct {
	canvas *Canvas
	style  tcell.Style
	dash   Dash

	x, y  float64 // its position
	down  bool    // whether it has a position
	last  [2]int  // the last dot that it was on
	count int     // dots since it was put down
}

// A Dash is the pattern of a line: the numbers of dots that it draws, leaves out, draws and leaves
// out, in turn. The zero Dash is a solid line, and so is a Dash that leaves out none.
type Dash [4]int

// Draws reports whether the line draws its n-th dot, counted from its beginning.
func (d Dash) Draws(dot int) bool {
	if d[1] <= 0 && d[3] <= 0 {
		return true
	}
	at := dot % (d[0] + d[1] + d[2] + d[3])
	return at < d[0] || at >= d[0]+d[1] && at < d[0]+d[1]+d[2]
}

// Pen returns a pen that draws lines of a pattern.
func (c *Canvas) Pen(style tcell.Style, dash Dash) Pen {
	return Pen{canvas: c, style: style, dash: dash}
}

// MoveTo puts the pen down at a point, where its pattern begins. It draws nothing yet.
func (p *Pen) MoveTo(x, y float64) {
	p.x, p.y, p.down = limit(x), limit(y), true
	p.count = 0
}

// LineTo draws a line from the pen's place, and moves the pen to its end. If the pen has no place
// yet, or the end is not a number, it only moves the pen.
func (p *Pen) LineTo(x, y float64) {
	x, y = limit(x), limit(y)
	if !p.down {
		p.MoveTo(x, y)
		return
	}
	l := line{p.x, p.y, x, y}
	p.x, p.y = x, y
	width, height := float64(p.canvas.width*CellWidth), float64(p.canvas.height*CellHeight)
	if l.within(width, height) || l.clip(width, height) {
		p.draw(l)
	}
}

// limit bounds a coordinate so that calculations with it stay finite. At that distance, the
// direction of a line does not matter.
func limit(x float64) float64 {
	const far = 1 << 40
	return max(-far, min(far, x))
}

// draw draws a line within the canvas: one dot in each column or each row, whichever are more, at
// the middle of the line's part there.
func (p *Pen) draw(l line) {
	dx, dy := l.x1-l.x0, l.y1-l.y0
	switch {
	case int(l.x0) == int(l.x1) && int(l.y0) == int(l.y1):
		p.dot(int(l.x1), int(l.y1))
	case math.Abs(dx) >= math.Abs(dy):
		slope := dy / dx
		step, last := towards(l.x0, l.x1)
		for x := int(l.x0); x != last; x += step {
			p.dot(x, int(l.y0+slope*(middle(x, l.x0, l.x1)-l.x0)))
		}
	default:
		slope := dx / dy
		step, last := towards(l.y0, l.y1)
		for y := int(l.y0); y != last; y += step {
			p.dot(int(l.x0+slope*(middle(y, l.y0, l.y1)-l.y0)), y)
		}
	}
}

// towards returns the step from one number to another, and the first whole number after the other
// one.
func towards(from, to float64) (step, behind int) {
	if to < from {
		return -1, int(to) - 1
	}
	return 1, int(to) + 1
}

// middle returns the middle of dot i, limited to the range between the two ends.
func middle(i int, from, to float64) float64 {
	return max(min(from, to), min(max(from, to), float64(i)+0.5))
}

// dot draws the next dot, unless the pen is already on it or the pattern omits it.
func (p *Pen) dot(x, y int) {
	if at := [2]int{x, y}; p.count == 0 || at != p.last {
		if p.dash.Draws(p.count) {
			p.canvas.Set(x, y, p.style)
		}
		p.last = at
		p.count++
	}
}

// A line goes from one point to another.
type line struct{ x0, y0, x1, y1 float64 }

// within reports whether the whole line is on the canvas, which is the usual case.
func (l *line) within(width, height float64) bool {
	return l.x0 >= 0 && l.x1 >= 0 && l.y0 >= 0 && l.y1 >= 0 &&
		l.x0 < width && l.x1 < width && l.y0 < height && l.y1 < height
}

// clip cuts off the parts outside of the canvas and reports whether anything is left (Liang-Barsky
// algorithm).
func (l *line) clip(width, height float64) bool {
	if math.IsNaN(l.x0 + l.y0 + l.x1 + l.y1) {
		return false
	}
	dx, dy := l.x1-l.x0, l.y1-l.y0
	from, to := 0.0, 1.0
	for _, edge := range [4]struct{ direction, inside float64 }{
		{-dx, l.x0}, {dx, width - l.x0}, {-dy, l.y0}, {dy, height - l.y0},
	} {
		switch {
		case edge.direction == 0 && edge.inside < 0:
			return false
		case edge.direction < 0:
			from = max(from, edge.inside/edge.direction)
		case edge.direction > 0:
			to = min(to, edge.inside/edge.direction)
		}
	}
	if from > to {
		return false
	}
	l.x0, l.y0, l.x1, l.y1 = l.x0+from*dx, l.y0+from*dy, l.x0+to*dx, l.y0+to*dy
	return true
}
