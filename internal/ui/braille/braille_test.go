package braille_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/ui/braille"
)

// dots shows a canvas as text, one character for each dot: # if it is set.
func dots(t testing.TB, c *braille.Canvas) string {
	t.Helper()
	screen := newScreen(t, 20, 8)
	c.Draw(screen, 0, 0)
	width, height := c.Size()
	var b strings.Builder
	for y := range height * braille.CellHeight {
		b.WriteByte('\n')
		for x := range width * braille.CellWidth {
			b.WriteByte(".#"[dot(screen, x, y)])
		}
	}
	return b.String()
}

// dot returns 1 if a dot is set on a screen. The table is from the Unicode standard, chapter 21.1.
func dot(screen tcell.Screen, x, y int) int {
	text, _, _ := screen.Get(x/2, y/4)
	order := [4][2]int{{0, 3}, {1, 4}, {2, 5}, {6, 7}}
	pattern := []rune(text)[0]
	if pattern < 0x2800 || pattern > 0x28ff {
		return 0
	}
	return int(pattern-0x2800) >> order[y%4][x%2] & 1
}

func newScreen(t testing.TB, width, height int) tcell.Screen {
	t.Helper()
	screen := tcell.NewSimulationScreen("UTF-8")
	if err := screen.Init(); err != nil {
		t.Fatal(err)
	}
	if t, ok := t.(*testing.T); ok {
		t.Cleanup(screen.Fini)
	}
	screen.SetSize(width, height)
	return screen
}

func TestLines(t *testing.T) {
	type point struct{ x, y float64 }
	tests := []struct {
		name    string
		on, off int
		points  []point
		want    string
	}{
		{"flat", 1, 0, []point{{0, 1.5}, {8, 1.5}}, `
........
########
........
........`},
		{"a point", 1, 0, []point{{3.9, 2.1}, {3.9, 2.1}}, `
........
........
...#....
........`},
		{"upright", 1, 0, []point{{6.5, 3.9}, {6.5, 1}}, `
........
......#.
......#.
......#.`},
		{"falling", 1, 0, []point{{0.5, 0.5}, {7.5, 3.5}}, `
##......
..##....
....##..
......##`},
		{"steep", 1, 0, []point{{1.5, 0}, {3.5, 4}}, `
.#......
..#.....
..#.....
...#....`},
		{"reversed direction", 1, 0, []point{{3.5, 4}, {1.5, 0}}, `
.#......
..#.....
..#.....
...#....`},
		{"dashes around corners", 2, 1, []point{{0.5, 3.5}, {2.5, 3.5}, {2.5, 0.5}, {7.5, 0.5}}, `
...##.##
..#.....
..#.....
##......`},
		{"clipped at the edges", 1, 0, []point{{-4, -2}, {12, 6}}, `
##......
..##....
....##..
......##`},
		{"no line to or from NaN", 1, 0, []point{{0, 0}, {math.NaN(), 3}, {6, 3}, {7, 3}}, `
........
........
........
......##`},
		{"to infinity", 1, 0, []point{{2, 1}, {math.Inf(1), 1}}, `
........
..######
........
........`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c braille.Canvas
			c.Resize(4, 1)
			pen := c.Pen(tcell.StyleDefault, braille.Dash{tt.on, tt.off})
			for _, p := range tt.points {
				pen.LineTo(p.x, p.y)
			}
			if diff := cmp.Diff(tt.want, dots(t, &c)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// MoveTo restarts a pattern of one dot drawn and two omitted.
func TestMoveTo(t *testing.T) {
	var c braille.Canvas
	c.Resize(4, 1)
	pen := c.Pen(tcell.StyleDefault, braille.Dash{1, 2})
	pen.MoveTo(0.5, 0.5)
	pen.LineTo(7.5, 0.5)
	pen.MoveTo(1.5, 2.5)
	pen.LineTo(7.5, 2.5)
	want := `
#..#..#.
........
.#..#..#
........`
	if diff := cmp.Diff(want, dots(t, &c)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A dash-dot line.
func TestDashes(t *testing.T) {
	var c braille.Canvas
	c.Resize(6, 1)
	pen := c.Pen(tcell.StyleDefault, braille.Dash{3, 1, 1, 1})
	pen.MoveTo(0.5, 0.5)
	pen.LineTo(11.5, 0.5)
	want := `
###.#.###.#.
............
............
............`
	if diff := cmp.Diff(want, dots(t, &c)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A thousand steps within few columns keep their height.
func TestManyStepsInAColumn(t *testing.T) {
	var c braille.Canvas
	c.Resize(1, 2)
	pen := c.Pen(tcell.StyleDefault, braille.Dash{})
	for i := range 1001 {
		pen.LineTo(float64(i)/1000*2, 8-8*min(1, math.Floor(float64(i)/10)/10))
	}
	want := strings.Repeat("\n#.", 7)
	if got := dots(t, &c); !strings.HasPrefix(got, "\n##"+want) {
		t.Errorf("got %s", got)
	}
}

// The last curve drawn in a cell determines its style. The dots of both curves stay.
func TestStyle(t *testing.T) {
	first, second := tcell.StyleDefault.Bold(true), tcell.StyleDefault.Reverse(true)
	var c braille.Canvas
	c.Resize(2, 1)
	c.Set(0, 0, first)
	c.Set(2, 0, first)
	c.Set(3, 3, second)
	screen := newScreen(t, 4, 2)
	screen.PutStr(0, 0, "abcd")
	c.Draw(screen, 1, 0)
	for x, want := range []struct {
		text  string
		style tcell.Style
	}{{"a", tcell.StyleDefault}, {"⠁", first}, {"⢁", second}, {"d", tcell.StyleDefault}} {
		if text, style, _ := screen.Get(x, 0); text != want.text || style != want.style {
			t.Errorf("cell %d: %q in %+v, want %q in %+v", x, text, style, want.text, want.style)
		}
	}
	if !c.Blank(2, 0) || !c.Blank(-1, 0) || c.Blank(0, 0) {
		t.Error("a cell is blank where it has dots, or has dots where it is blank")
	}
}

// Drawing far outside of the canvas changes nothing there, and takes no time.
func TestNothingOutside(t *testing.T) {
	screen := newScreen(t, 9, 5)
	coordinate := rapid.OneOf(rapid.Float64Range(-20, 40), rapid.Float64(),
		rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 10, 12, math.MaxFloat64, -math.MaxFloat64}))
	rapid.Check(t, func(t *rapid.T) {
		screen.Fill('.', tcell.StyleDefault)
		var c braille.Canvas
		c.Resize(5, 3)
		dots := rapid.IntRange(0, 3)
		pen := c.Pen(tcell.StyleDefault, braille.Dash{dots.Draw(t, "on"), dots.Draw(t, "off"), dots.Draw(t, "on again"), dots.Draw(t, "off again")})
		for range rapid.IntRange(1, 5).Draw(t, "lines") {
			if rapid.Bool().Draw(t, "move") {
				pen.MoveTo(coordinate.Draw(t, "x"), coordinate.Draw(t, "y"))
			}
			pen.LineTo(coordinate.Draw(t, "x"), coordinate.Draw(t, "y"))
		}
		c.Draw(screen, 2, 1)
		for y := range 5 {
			for x := range 9 {
				inside := x >= 2 && x < 7 && y >= 1 && y < 4
				if text, _, _ := screen.Get(x, y); text != "." && !inside {
					t.Fatalf("%q at (%d, %d)", text, x, y)
				}
			}
		}
	})
}

func TestNoGarbage(t *testing.T) {
	screen := newScreen(t, 60, 20)
	var c braille.Canvas
	c.Resize(60, 20)
	n := testing.AllocsPerRun(10, func() {
		c.Resize(50, 20)
		pen := c.Pen(tcell.StyleDefault, braille.Dash{3, 1})
		for x := range 100 {
			pen.LineTo(float64(x), float64(x*x%80))
		}
		c.Draw(screen, 0, 0)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
