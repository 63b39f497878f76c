package export

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/host/safetext"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// A CSV printer writes pictures as rows of figures, in the format of RFC 4180 except for the ends
// of lines: the header, then one row for each curve and edge of its bins, and for each step of a
// QTA. Figures are exact: a probability reads back as the same float64, and a delay is exact to the
// nanosecond.
//
// An outcome without data in a window has no rows.
type CSV struct {
	w     *csv.Writer
	begun bool // the header has been written
}

// NewCSV returns a printer on w.
func NewCSV(w io.Writer) *CSV { return &CSV{w: csv.NewWriter(w)} }

// Picture writes the rows of a picture. The error may be from earlier rows.
func (c *CSV) Picture(p Picture) error {
	for i := range p.Plots {
		one := &p.Plots[i]
		for j := range one.Series {
			s := &one.Series[j]
			if err := c.series(p, s, one.curves(s)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close writes all remaining data.
func (c *CSV) Close() error {
	c.w.Flush()
	return c.w.Error()
}

func (c *CSV) series(p Picture, s *plot.Series, curves []plot.Curve) error {
	if len(curves) == 0 {
		return nil
	}
	if !c.begun {
		c.begun = true
		if err := c.w.Write([]string{"time", "window", "outcome", "vm", "role", "delay_s", "probability", "lower", "upper"}); err != nil {
			return err
		}
	}
	head := []string{p.Time.UTC().Format(time.RFC3339Nano), strconv.FormatUint(p.Number, 10), cell(s.Name), cell(s.VM.String())}
	for i := range curves {
		if err := c.curve(head, &curves[i]); err != nil {
			return err
		}
	}
	for _, step := range required(s) {
		if err := c.w.Write(append(head[:4:4], "required", seconds(step.T), number(step.P), "", "")); err != nil {
			return err
		}
	}
	return nil
}

func (c *CSV) curve(head []string, curve *plot.Curve) error {
	for k, y := range curve.Y {
		lower, upper := "", ""
		if curve.Lo != nil {
			lower, upper = number(curve.Lo[k]), number(curve.Hi[k])
		}
		row := append(head[:4:4], curve.Role.String(), seconds(time.Duration(k)*curve.Width), number(y), lower, upper)
		if err := c.w.Write(row); err != nil {
			return err
		}
	}
	return nil
}

// cell formats a text as one line that a spreadsheet does not interpret as a formula: it puts a
// quote before a text that begins like a formula.
func cell(text string) string {
	text = safetext.Line(text)
	if strings.HasPrefix(text, "=") || strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") || strings.HasPrefix(text, "@") {
		return "'" + text
	}
	return text
}

// number formats a figure so that it is read back exactly.
func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// seconds formats a delay in seconds so that it is read back exactly.
func seconds(t time.Duration) string { return number(t.Seconds()) }
