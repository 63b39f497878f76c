package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/atomicfile"
	"github.com/beamscope/beamscope/internal/host/safetext"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// Errors of exporting.
var (
	ErrFormat = errors.New("unknown format")
	ErrEmpty  = errors.New("nothing to draw")
	ErrMany   = errors.New("too many plots for one picture")
	ErrAxis   = errors.New("no delays to show")
	ErrSize   = errors.New("wrong size of a picture")
)

// A Picture is one or several plots of one window.
type Picture struct {
	Number uint64    // number of the window
	Time   time.Time // wall time of the window's end
	Plots  []Plot

	// Cause is why the snapshot of the window was made. It is "" for a window outside of
	// snapshots.
	Cause string

	// Width and Height are the size of an image, in pixels of 1/96 inch; from MinSize to MaxSize.
	// If they are 0, the size depends on the number of plots.
	Width, Height int
}

// Limits of an image.
const (
	MaxPlots = 9
	MinSize  = 200 // pixels
	MaxSize  = 8192
)

// A Plot is one or several outcomes over one axis of delays.
type Plot struct {
	Series []plot.Series
	Hidden []plot.Role // curves to leave out

	// Axis is the range of delays of an image. If To is 0, it is the whole range. If From is 0 and
	// the axis is logarithmic, it begins with a bin.
	Axis plot.Axis
}

// OfFrame returns the picture of a frame: a plot for each outcome with data, without the hidden
// curves. s is the system of the frame. The picture is valid as long as the frame.
func OfFrame(f *scope.Frame, s *scope.System, axis plot.Axis, hidden []plot.Role) Picture {
	p := Picture{Number: f.Number, Time: f.Time}
	for i := range f.Outcomes {
		one := Plot{Series: []plot.Series{plot.Of(&f.Outcomes[i], requirement(s, f.Outcomes[i].Name), nil, "")}, Axis: axis, Hidden: hidden}
		if !one.Empty() {
			p.Plots = append(p.Plots, one)
		}
	}
	return p
}

// requirement returns the QTA of an outcome, or nil.
func requirement(s *scope.System, outcome string) *dq.QTA {
	for _, p := range s.Outcomes {
		if p.Spec.Name == outcome {
			return p.QTA
		}
	}
	return nil
}

// Empty reports whether the plot has no curve to draw.
func (p *Plot) Empty() bool {
	for i := range p.Series {
		if len(p.curves(&p.Series[i])) > 0 {
			return false
		}
	}
	return true
}

// curves returns the visible curves of a series, in drawing order.
func (p *Plot) curves(s *plot.Series) []plot.Curve {
	var shown []plot.Curve
	for _, c := range s.Curves {
		if !slices.Contains(p.Hidden, c.Role) && len(c.Y) > 0 {
			shown = append(shown, c)
		}
	}
	return shown
}

// A Format is a kind of file.
type Format uint8

// The formats. The first two are images.
const (
	SVG Format = iota
	PNG
	CSVFile
	JSONFile
)

// Formats returns all formats.
func Formats() []Format { return []Format{SVG, PNG, CSVFile, JSONFile} }

// String returns the format's name, which is also the extension of its files.
func (f Format) String() string { return [...]string{"svg", "png", "csv", "json"}[f] }

// Image reports whether the format is an image, not data.
func (f Format) Image() bool { return f == SVG || f == PNG }

// ParseFormat returns the format with a name. Errors wrap [ErrFormat] and list the formats.
func ParseFormat(name string) (Format, error) {
	var names []string
	for _, f := range Formats() {
		if f.String() == strings.ToLower(name) {
			return f, nil
		}
		names = append(names, f.String())
	}
	return 0, fmt.Errorf("%w %q: there are %s", ErrFormat, name, strings.Join(names, ", "))
}

// FormatOf returns the format of a file by the extension of its name. Errors wrap
// [ErrFormat].
func FormatOf(path string) (Format, error) {
	f, err := ParseFormat(strings.TrimPrefix(filepath.Ext(path), "."))
	if err != nil {
		return 0, fmt.Errorf("%s: %w: the name has to end in .svg, .png, .csv or .json", path, ErrFormat)
	}
	return f, nil
}

// Write writes the picture in a format. The same picture gives the same bytes. Data formats
// contain the same as [CSV] and [Curves]. Images that cannot be drawn give errors that wrap
// [ErrEmpty], [ErrMany], [ErrAxis] or [ErrSize].
func (p Picture) Write(w io.Writer, f Format) error {
	if f != PNG {
		w = safetext.NewWriter(w) // names may come from an observed program or from another user's file
	}
	switch f {
	case SVG:
		return p.writeSVG(w)
	case PNG:
		return p.writePNG(w)
	case CSVFile:
		c := NewCSV(w)
		return errors.Join(c.Picture(p), c.Close())
	case JSONFile:
		return writeJSON(w, p)
	}
	return fmt.Errorf("%w %d", ErrFormat, f)
}

// WriteFile writes a picture to a file atomically, in the format of its extension. It replaces a
// file only with force. Otherwise the error wraps [fs.ErrExist]. Other errors are those of
// [FormatOf] and [Picture.Write].
func WriteFile(path string, p Picture, force bool) error {
	f, err := FormatOf(path)
	if err != nil {
		return err
	}
	if err := CheckFree(path, force); err != nil {
		return err
	}
	return atomicfile.WriteBy(path, func(w io.Writer) error { return p.Write(w, f) })
}

// CheckFree returns an error that wraps [fs.ErrExist] if a new file would replace an existing
// one, unless force is set. Devices and pipes do not count as existing.
func CheckFree(path string, force bool) error {
	info, err := os.Stat(path)
	if err != nil || force || !info.Mode().IsRegular() {
		return nil // writing will report an error, if there is one
	}
	return fmt.Errorf("%s: %w", path, fs.ErrExist)
}

// size returns the size of an image in pixels.
func (p Picture) size() (width, height int, err error) {
	columns, rows := grid(len(p.Plots))
	width, height = p.Width, p.Height
	if width == 0 && height == 0 {
		const panelWidth, panelHeight = 480, 360
		width, height = max(800, columns*panelWidth), max(520, rows*panelHeight)
	}
	if min(width, height) < MinSize || max(width, height) > MaxSize {
		return 0, 0, fmt.Errorf("%w: %dx%d: not from %d to %d pixels", ErrSize, width, height, MinSize, MaxSize)
	}
	return width, height, nil
}

// grid returns the numbers of columns and rows for n plots.
func grid(n int) (columns, rows int) {
	columns = 1
	for columns*columns < n {
		columns++
	}
	return columns, (n + columns - 1) / columns
}

// check rejects a picture that cannot be drawn.
func (p Picture) check() error {
	if len(p.Plots) > MaxPlots {
		return fmt.Errorf("%w: %d, at most %d", ErrMany, len(p.Plots), MaxPlots)
	}
	empty := true
	for i := range p.Plots {
		if p.Plots[i].Empty() {
			continue
		}
		empty = false
		if a := p.Plots[i].axis(); a.From >= a.To {
			return fmt.Errorf("%w: from %v to %v", ErrAxis, a.From, a.To)
		}
	}
	if empty {
		return fmt.Errorf("window %d: %w", p.Number, ErrEmpty)
	}
	return nil
}
