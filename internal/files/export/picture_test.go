package export_test

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/export"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

const ms = time.Millisecond

// handmade returns a picture whose figures can all be worked out by hand. It has eight instances
// in bins of 1 ms up to dMax = 4 ms: one, three and two in the first three bins, and two
// failures. The calculated ΔQ succeeds with a half, all of it after 2 ms. The mean is over two
// windows. The QTA requires a half within 2 ms, and three quarters in total.
func handmade(t *testing.T) export.Picture {
	t.Helper()
	grid, err := dq.NewGrid(ms, 4)
	if err != nil {
		t.Fatal(err)
	}
	observed, err := dq.FromCounts(grid, []uint64{1, 3, 2, 0}, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	wait, err := dq.Wait(grid, 2*ms)
	if err != nil {
		t.Fatal(err)
	}
	calculated, err := dq.Scale(wait, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	qta, err := dq.NewQTA(0.25, dq.Step{T: 2 * ms, P: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	probe := scope.Outcome{
		Name:       `a "quoted" <probe>`,
		VM:         outcome.VM{PID: 41, Node: "shop@db1"},
		Spec:       outcome.Spec{Name: `a "quoted" <probe>`, BinWidth: ms, Bins: 4},
		Counts:     outcome.Counts{Successes: 6, Failures: 2, Bins: []uint64{1, 3, 2, 0}, Loss: outcome.Loss{NoRoom: 3}},
		Observed:   observed,
		Calculated: calculated,
		Mean: scope.Mean{Width: ms, Windows: 2, Band: dq.Band{
			Mean: []float64{0, 0.25, 0.5, 0.75, 0.75},
			Lo:   []float64{0, 0.125, 0.375, 0.7, 0.7},
			Hi:   []float64{0, 0.375, 0.625, 0.8, 0.8},
		}},
		Insufficient: "too few instances",
	}
	return export.Picture{
		Number: 7,
		Time:   time.Date(2024, 2, 29, 23, 59, 56, 5e6, time.UTC),
		Plots:  []export.Plot{{Series: []plot.Series{plot.Of(&probe, &qta, nil, "")}}},
	}
}

func written(t *testing.T, p export.Picture, f export.Format) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := p.Write(&out, f); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// CSV has a row for each curve and edge, followed by the steps of the QTA. The last step is the
// total success that is required.
func TestCSV(t *testing.T) {
	want := "time,window,outcome,vm,role,delay_s,probability,lower,upper\n"
	for _, row := range []string{
		"mean,0,0,0,0",
		"mean,0.001,0.25,0.125,0.375",
		"mean,0.002,0.5,0.375,0.625",
		"mean,0.003,0.75,0.7,0.8",
		"mean,0.004,0.75,0.7,0.8",
		"calculated,0,0,0,0",
		"calculated,0.001,0,0,0",
		"calculated,0.002,0.5,0.5,0.5",
		"calculated,0.003,0.5,0.5,0.5",
		"observed,0,0,,",
		"observed,0.001,0.125,,",
		"observed,0.002,0.5,,",
		"observed,0.003,0.75,,",
		"observed,0.004,0.75,,",
		"required,0.002,0.5,,",
		"required,0.004,0.75,,",
	} {
		want += `2024-02-29T23:59:56.005Z,7,"a ""quoted"" <probe>",shop@db1 (pid 41),` + row + "\n"
	}
	if diff := cmp.Diff(want, string(written(t, handmade(t), export.CSVFile))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A picture in JSON has the same figures.
func TestPictureJSON(t *testing.T) {
	p := handmade(t)
	p.Plots[0].Hidden = []plot.Role{plot.Mean}
	want := `{"time":"2024-02-29T23:59:56.005Z","number":7,"outcomes":[{"outcome":"a \"quoted\" \u003cprobe\u003e",` +
		`"vm":{"pid":41,"node":"shop@db1"},"instances":8,"lost":3,"failed":0.25,"insufficient":"too few instances",` +
		`"dmax_s":0.004,"required":[{"delay_s":0.002,"probability":0.5}],"min_success":0.75,"curves":[` +
		`{"role":"calculated","delay_s":[0,0.001,0.002,0.003],"probability":[0,0,0.5,0.5],"lower":[0,0,0.5,0.5],"upper":[0,0,0.5,0.5]},` +
		`{"role":"observed","delay_s":[0,0.001,0.002,0.003,0.004],"probability":[0,0.125,0.5,0.75,0.75]}]}]}` + "\n"
	if diff := cmp.Diff(want, string(written(t, p, export.JSONFile))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A curvePrinter prints the curves of frames.
type curvePrinter struct {
	*export.JSON
	system *scope.System
}

func (c curvePrinter) Frame(f *scope.Frame) error {
	return c.Curves(f, c.system, []plot.Role{plot.Mean, plot.CalculatedMean})
}

// The lines of frames with curves equal those without curves, with additional fields.
func TestCurves(t *testing.T) {
	var out bytes.Buffer
	printAll(t, curvePrinter{export.NewJSON(&out), system(t)})
	checkGolden(t, "curves.json", out.Bytes())
	frames, err := os.ReadFile(filepath.Join("testdata", "frames.json"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(out.Bytes(), []byte("\n"))
	for i, line := range bytes.Split(frames, []byte("\n")) {
		if !bytes.HasPrefix(lines[i], bytes.TrimSuffix(line, []byte("}"))) {
			t.Errorf("line %d is %s, want it to begin like %s", i+1, lines[i], line)
		}
	}
}

// Figures are read back from CSV exactly.
func TestCSVRoundTrip(t *testing.T) {
	f := frame(t)
	p := export.OfFrame(f, system(t), plot.Axis{}, nil)
	rows, err := csv.NewReader(bytes.NewReader(written(t, p, export.CSVFile))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	next := 1
	for _, one := range p.Plots {
		s := one.Series[0]
		for _, c := range s.Curves {
			for k := range c.Y {
				row := rows[next]
				next++
				if row[2] != s.Name || row[4] != c.Role.String() || delay(t, row[5]) != time.Duration(k)*c.Width || figure(t, row[6]) != c.Y[k] {
					t.Errorf("%v, want edge %d of %v: %v", row, k, c.Role, c.Y[k])
				}
				if c.Lo != nil && (figure(t, row[7]) != c.Lo[k] || figure(t, row[8]) != c.Hi[k]) {
					t.Errorf("%v, want the bounds %v and %v", row, c.Lo[k], c.Hi[k])
				}
			}
		}
		for next < len(rows) && rows[next][4] == "required" {
			next++
		}
	}
	if next != len(rows) || len(p.Plots) != 3 {
		t.Errorf("%d rows of %d plots, want %d of 3", len(rows), len(p.Plots), next)
	}
}

func figure(t *testing.T, text string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func delay(t *testing.T, text string) time.Duration {
	return time.Duration(math.Round(figure(t, text) * 1e9))
}

// svgFile contains the elements of a drawing that are counted.
type svgFile struct {
	Paths []struct {
		Style string `xml:"style,attr"`
	} `xml:"path"`
	Texts  []string  `xml:"text"`
	Groups []svgFile `xml:"g"`
}

func (s svgFile) styles() []string {
	var styles []string
	for _, p := range s.Paths {
		styles = append(styles, p.Style)
	}
	for _, g := range s.Groups {
		styles = append(styles, g.styles()...)
	}
	return styles
}

func (s svgFile) texts() []string {
	texts := s.Texts
	for _, g := range s.Groups {
		texts = append(texts, g.texts()...)
	}
	return texts
}

// Each curve is a path in its colour and pattern, and occurs once more in the legend. The caption
// describes the problems of the window.
func TestSVG(t *testing.T) {
	out := written(t, handmade(t), export.SVG)
	checkGolden(t, "plot.svg", out)
	var drawn svgFile
	if err := xml.Unmarshal(out, &drawn); err != nil {
		t.Fatal(err)
	}
	styles := strings.Join(drawn.styles(), "\n")
	for style, want := range map[string]int{
		"stroke:#0080C8;stroke-width:1.6":                              2, // observed
		"stroke:#C08000;stroke-width:1.5;stroke-dasharray:5,2":         2, // calculated
		"stroke:#2090B0;stroke-width:1.2;stroke-dasharray:1.2,1.6":     2, // mean
		"stroke:#C0609C;stroke-width:1.2":                              2, // required
		"stroke:#202020;stroke-width:0.8;stroke-dasharray:3,2":         2, // dMax
		"stroke:#0080C8;stroke-width:1.2":                              6, // failed
		"fill-opacity:0.28235":                                         2, // bounds of the calculated curve
		"fill-opacity:0.15686":                                         2, // bounds of the mean
		"stroke-opacity:0.62745;stroke-width:0.6;stroke-dasharray:2,2": 2, // their edges
	} {
		if got := strings.Count(styles, style); got != want {
			t.Errorf("%d paths with %s, want %d, in\n%s", got, style, want, styles)
		}
	}
	texts := strings.Join(drawn.texts(), "\n")
	for _, want := range []string{
		`a "quoted" <probe>`, "window 7, until 2024-02-29 23:59:56.005 UTC", "delay (ms)", "probability of success", "25.00%",
		"8 instances of shop@db1 (pid 41), 25.00% failed or timed out, 3 lost; no verdict: too few instances",
		"observed", "calculated, with bounds", "mean, with confidence bounds", "required (QTA)", "dMax", "failed or timed out",
	} {
		if !strings.Contains("\n"+texts+"\n", "\n"+want+"\n") {
			t.Errorf("no text %q in\n%s", want, texts)
		}
	}
}

// A name with characters that XML does not support gives a valid drawing.
func TestSVGOfForeignNames(t *testing.T) {
	p := handmade(t)
	p.Plots[0].Series[0].VM.Node = "a\x1b]0;b\x07\xff<c>"
	var drawn svgFile
	if err := xml.Unmarshal(written(t, p, export.SVG), &drawn); err != nil {
		t.Fatal(err)
	}
	if want := "a]0;b\ufffd<c>"; !strings.Contains(strings.Join(drawn.texts(), "\n"), want) {
		t.Errorf("no %q in %q", want, drawn.texts())
	}
}

// The image has its size, and the curve is in the right place: the observed one is at an eighth
// after 1 ms, at a half after 2 ms, and at three quarters after 3 ms and dMax.
func TestPNG(t *testing.T) {
	p := handmade(t)
	p.Width, p.Height = 700, 450
	p.Plots[0].Hidden = []plot.Role{plot.Mean, plot.Calculated}
	img, err := png.Decode(bytes.NewReader(written(t, p, export.PNG)))
	if err != nil {
		t.Fatal(err)
	}
	if size := img.Bounds().Size(); size != image.Pt(700, 450) {
		t.Fatalf("it is %v", size)
	}
	axes := findAxes(img)
	for after, want := range map[time.Duration]float64{1 * ms: 0.125, 2 * ms: 0.5, 3 * ms: 0.75, 3900 * time.Microsecond: 0.75} {
		x := axes.Min.X + int(math.Round(float64(after)/float64(4400*time.Microsecond)*float64(axes.Dx())))
		y := axes.Max.Y - int(math.Round(want/1.04*float64(axes.Dy())))
		if !isBlue(img, x, y) {
			t.Errorf("after %v there is nothing blue at %d, %d, within the axes %v", after, x, y, axes)
		}
		if isBlue(img, x, y-20) || isBlue(img, x, y+20) {
			t.Errorf("after %v it is blue above or below %d, %d", after, x, y)
		}
	}
}

// findAxes returns the rectangle whose left and lower sides are the longest dark lines.
func findAxes(img image.Image) image.Rectangle {
	dark := func(x, y int) bool { return color.GrayModel.Convert(img.At(x, y)).(color.Gray).Y < 0x90 }
	var r image.Rectangle
	size := img.Bounds().Size()
	for x := range size.X {
		if from, to := longest(size.Y, func(y int) bool { return dark(x, y) }); to-from > r.Dy() {
			r.Min.X, r.Min.Y, r.Max.Y = x, from, to
		}
	}
	for y := range size.Y {
		if from, to := longest(size.X, func(x int) bool { return dark(x, y) }); to-from > r.Max.X-r.Min.X {
			r.Max.X = to
		}
	}
	return r
}

// longest returns the longest run of numbers below n for which is returns true.
func longest(n int, is func(int) bool) (from, to int) {
	begin := 0
	for i := range n {
		if !is(i) {
			begin = i + 1
		} else if i+1-begin > to-from {
			from, to = begin, i+1
		}
	}
	return from, to
}

// isBlue reports whether a pixel, or one next to it, has the colour of the observed curve.
func isBlue(img image.Image, x, y int) bool {
	for dx := -1; dx <= 1; dx++ {
		for dy := -1; dy <= 1; dy++ {
			c := color.NRGBAModel.Convert(img.At(x+dx, y+dy)).(color.NRGBA)
			if int(c.B)-int(c.R) > 0x60 {
				return true
			}
		}
	}
	return false
}

// The same picture gives the same bytes, in every format and with every axis.
func TestDeterministic(t *testing.T) {
	p := export.OfFrame(frame(t), system(t), plot.Axis{}, nil)
	p.Plots[1].Axis.Log = true
	p.Plots[2].Axis = plot.Axis{From: ms, To: 3 * ms}
	for _, f := range export.Formats() {
		if a, b := written(t, p, f), written(t, p, f); !bytes.Equal(a, b) {
			t.Errorf("%v differs", f)
		}
	}
}

// A plot of calculated data only shows that nothing was observed.
func TestNothingObserved(t *testing.T) {
	p := handmade(t)
	s := &p.Plots[0].Series[0]
	s.VM, s.Instances, s.HasFailed = outcome.VM{}, 0, false
	p.Plots[0].Hidden = []plot.Role{plot.Observed, plot.Mean}
	if out := string(written(t, p, export.SVG)); !strings.Contains(out, ">nothing was observed<") || strings.Contains(out, "failed") {
		t.Errorf("the text is missing, or there is another one: %s", out)
	}
}

// Several outcomes in one plot have different colours, and their names are in the legend.
func TestSeveralSeries(t *testing.T) {
	p := export.OfFrame(frame(t), system(t), plot.Axis{}, []plot.Role{plot.Mean, plot.CalculatedMean})
	p.Plots[0].Series = append(p.Plots[0].Series, p.Plots[1].Series...)
	p.Plots = p.Plots[:1]
	out := string(written(t, p, export.SVG))
	for _, want := range []string{">worker_2 observed<", ">worker_1 observed<", ">worker_2, worker_1<", "stroke:#0080C8;stroke-width:1.6", "stroke:#D55E00;stroke-width:1.6"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// One outcome in two VMs has two colours and two entries in the legend.
func TestSeriesOfTwoVMs(t *testing.T) {
	p, other := handmade(t), handmade(t).Plots[0].Series[0]
	other.VM = outcome.VM{PID: 42, Node: "shop@db2"}
	p.Plots[0].Series = append(p.Plots[0].Series, other)
	p.Plots[0].Hidden = []plot.Role{plot.Mean, plot.Calculated}
	var drawn svgFile
	if err := xml.Unmarshal(written(t, p, export.SVG), &drawn); err != nil {
		t.Fatal(err)
	}
	texts := "\n" + strings.Join(drawn.texts(), "\n") + "\n"
	for _, vm := range []string{"shop@db1 (pid 41)", "shop@db2 (pid 42)"} {
		if want := `a "quoted" <probe>, ` + vm + " observed"; !strings.Contains(texts, "\n"+want+"\n") {
			t.Errorf("no text %q in\n%s", want, texts)
		}
	}
}

// Empty pictures, and those with more than can be legible, are rejected.
func TestCannotDraw(t *testing.T) {
	one := handmade(t).Plots[0]
	hidden, beyond := one, one
	hidden.Hidden = plot.Roles()
	beyond.Axis.From = time.Hour
	many := make([]export.Plot, export.MaxPlots+1)
	for i := range many {
		many[i] = one
	}
	for _, test := range []struct {
		picture export.Picture
		want    error
	}{
		{export.Picture{}, export.ErrEmpty},
		{export.Picture{Plots: []export.Plot{{}}}, export.ErrEmpty},
		{export.Picture{Plots: []export.Plot{hidden}}, export.ErrEmpty},
		{export.Picture{Plots: many}, export.ErrMany},
		{export.Picture{Plots: []export.Plot{beyond}}, export.ErrAxis},
		{export.Picture{Plots: []export.Plot{one}, Width: 100, Height: 300}, export.ErrSize},
		{export.Picture{Plots: []export.Plot{one}, Width: 300}, export.ErrSize},
		{export.Picture{Plots: []export.Plot{one}, Width: 300, Height: 1e6}, export.ErrSize},
	} {
		for _, f := range []export.Format{export.SVG, export.PNG} {
			if err := test.picture.Write(io.Discard, f); !errors.Is(err, test.want) {
				t.Errorf("%v: error %v, want %v", f, err, test.want)
			}
		}
	}
	many = many[:export.MaxPlots]
	for _, size := range []int{0, export.MinSize} {
		if err := (export.Picture{Plots: many, Width: size, Height: size}).Write(io.Discard, export.PNG); err != nil {
			t.Error(err)
		}
	}
	for _, f := range export.Formats() {
		if err := handmade(t).Write(fullDisk{}, f); !errors.Is(err, errFull) {
			t.Errorf("%v: error %v, want %v", f, err, errFull)
		}
	}
}

// A file is written in the format of its extension, and replaced only with force.
func TestWriteFile(t *testing.T) {
	dir, p := t.TempDir(), handmade(t)
	for _, f := range export.Formats() {
		path := filepath.Join(dir, "a."+strings.ToUpper(f.String()))
		if err := export.WriteFile(path, p, false); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, written(t, p, f)) {
			t.Errorf("%s is not that picture, error %v", path, err)
		}
		if err := export.WriteFile(path, p, false); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: error %v, want %v", path, err, fs.ErrExist)
		}
		if err := export.WriteFile(path, p, true); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"a", "a.gif", "a.svg.gz"} {
		err := export.WriteFile(filepath.Join(dir, name), p, false)
		if !errors.Is(err, export.ErrFormat) || !strings.HasSuffix(err.Error(), "the name has to end in .svg, .png, .csv or .json") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if err := export.WriteFile(filepath.Join(dir, "empty.svg"), export.Picture{}, false); !errors.Is(err, export.ErrEmpty) {
		t.Errorf("error %v, want %v", err, export.ErrEmpty)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != len(export.Formats()) {
		t.Errorf("there are %v, error %v", files, err)
	}
}
