package session_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/export"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// A meanChecker compares the different forms of the means of each frame.
type meanChecker struct {
	t      *testing.T
	system *scope.System
	behind map[string][]float64 // sums of the calculated curves' middles
	seen   int
}

func (m *meanChecker) Configured(s *scope.System, _ outcome.Plan) error {
	m.system = s
	return nil
}
func (m *meanChecker) Noticed(outcome.Notice) error { return nil }

type meanLine struct {
	Outcome    string
	Mean       *meanSaid
	Calculated *struct{ Mean *meanSaid }
}

type meanSaid struct {
	Windows   int
	Success   map[string]*float64
	Quantiles map[string]map[string]*float64 `json:"quantiles_s"`
}

func (m *meanChecker) Framed(_ *outcome.Batch, f *scope.Frame) error {
	var lines, rows bytes.Buffer
	c := export.NewCSV(&rows)
	if err := export.NewJSON(&lines).Frame(f); err != nil {
		return err
	}
	if err := c.Picture(export.OfFrame(f, m.system, plot.Axis{}, nil)); err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	table, err := csv.NewReader(&rows).ReadAll()
	if err != nil {
		return err
	}
	for d := json.NewDecoder(&lines); d.More(); {
		var l meanLine
		if err := d.Decode(&l); err != nil {
			return err
		}
		p := &f.Outcomes[slices.IndexFunc(f.Outcomes, func(p scope.Outcome) bool { return p.Name == l.Outcome })]
		s := plot.Of(p, nil, nil, "")
		m.check(f, &s, plot.Mean, l.Mean, table)
		if l.Calculated != nil {
			m.check(f, &s, plot.CalculatedMean, l.Calculated.Mean, table)
		}
		m.average(f, p, &s)
	}
	return nil
}

// check compares a mean as drawn, in JSON and in CSV.
func (m *meanChecker) check(f *scope.Frame, s *plot.Series, r plot.Role, said *meanSaid, table [][]string) {
	c := s.Curve(r)
	if (c == nil) != (said == nil) {
		m.t.Fatalf("window %d, %v of %s: drawn %v, in JSON %v", f.Number, r, s.Name, c != nil, said != nil)
	}
	if c == nil {
		return
	}
	m.seen++
	var columns [3][]float64 // columns of the CSV: mean, lower, upper
	for _, row := range table {
		if row[2] != s.Name || row[4] != r.String() {
			continue
		}
		for i := range columns {
			if x, err := strconv.ParseFloat(row[6+i], 64); err == nil {
				columns[i] = append(columns[i], x)
			}
		}
	}
	if !slices.Equal(columns[0], c.Y) || !slices.Equal(columns[1], c.Lo) || !slices.Equal(columns[2], c.Hi) {
		m.t.Errorf("window %d, %v of %s: the curve in CSV is not the one that is drawn", f.Number, r, s.Name)
	}
	for p, delays := range said.Quantiles {
		share, err := strconv.ParseFloat(p, 64)
		if err != nil {
			m.t.Fatal(err)
		}
		for i, name := range []string{"mean", "hi", "lo"} { // the lower bound reaches a share later than the upper one
			k := slices.IndexFunc(columns[i], func(y float64) bool { return y >= share-dq.Tolerance })
			got := delays[name]
			if (k < 0) != (got == nil) || got != nil && *got != (time.Duration(k)*c.Width).Seconds() {
				m.t.Errorf("window %d, %v of %s: %s of %v in JSON, edge %d in CSV", f.Number, r, s.Name, name, share, k)
			}
		}
	}
	if c.Lo == nil != (said.Success["lo"] == nil) || (said.Windows == 1) != (c.Lo == nil) {
		m.t.Errorf("window %d, %v of %s: bounds of %d windows", f.Number, r, s.Name, said.Windows)
	}
}

// average compares the calculated mean with the mean of the calculated curves, until the first of
// those leaves the history.
func (m *meanChecker) average(f *scope.Frame, p *scope.Outcome, s *plot.Series) {
	mean, one := s.Curve(plot.CalculatedMean), s.Curve(plot.Calculated)
	if one == nil || mean == nil || mean.Width != one.Width {
		return
	}
	sums := m.behind[p.Name]
	for len(sums) < len(mean.Y) {
		sums = append(sums, 0)
	}
	m.behind[p.Name] = sums
	if n := p.CalculatedMean.Windows; n > int(f.Number)+1 || n == m.system.History {
		return
	}
	for k := range mean.Y {
		sums[k] += one.Y[min(k, len(one.Y)-1)]
		if want := sums[k] / float64(p.CalculatedMean.Windows); math.Abs(mean.Y[k]-want) > 1e-9 {
			m.t.Errorf("window %d, %s, edge %d: the calculated mean is %v, the mean of the curves %v", f.Number, p.Name, k, mean.Y[k], want)
			return
		}
	}
}

// The drawn mean equals the mean in JSON and in CSV, and the calculated mean is the mean of the
// calculated curves.
func TestMeansAgree(t *testing.T) {
	for _, name := range []string{"atf", "mm1k"} {
		in, err := recording.Open(t.Context(), "../../../cmd/beamscope/"+name+".bsr")
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		m := &meanChecker{t: t, behind: make(map[string][]float64)}
		if err := (session.Replay{Observers: []scope.Observer{m}}).Play(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if m.seen < 50 {
			t.Errorf("%s: %d means", name, m.seen)
		}
	}
}
