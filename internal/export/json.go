// Package export writes frames for programs and people: as JSON, one object a
// line, and as text.
package export

import (
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/beamscope/beamscope/internal/scope"
)

// A JSON printer writes one object a line for each window and probe.
type JSON struct {
	enc *json.Encoder
}

// NewJSON returns a printer on w.
func NewJSON(w io.Writer) *JSON { return &JSON{enc: json.NewEncoder(w)} }

// line is the format of `beamscope run --json`.
type line struct {
	Time       time.Time `json:"time"`
	Window     window    `json:"window"`
	Probe      string    `json:"probe"`
	VM         *vm       `json:"vm"` // null where no VM was running
	Observed   observed  `json:"observed"`
	Calculated *observed `json:"calculated"` // null where there is none
	Starts     uint64    `json:"starts"`
	Ends       uint64    `json:"ends"`
	Lost       uint64    `json:"lost"`
	Unobserved bool      `json:"unobserved,omitempty"` // an unknown number is missing besides
	Orphan     uint64    `json:"orphan"`
	Late       uint64    `json:"late"`
	QTA        *qta      `json:"qta"` // null where none is set
	Triggers   []string  `json:"triggers"`
}

type window struct {
	From int64 `json:"from_ns"`
	To   int64 `json:"to_ns"`
}

type vm struct {
	PID  int    `json:"pid"`
	Node string `json:"node"`
}

type qta struct {
	Met bool `json:"met"`
}

// observed holds null for what nothing is known of: a window without instances
// has no probability of success, and a quantile in the intangible mass is none.
type observed struct {
	N         uint64              `json:"n"`
	OK        uint64              `json:"ok"`
	Failed    uint64              `json:"failed"`
	Timeout   uint64              `json:"timeout"`
	Success   *float64            `json:"success"`
	Quantiles map[string]*float64 `json:"quantiles_s"`
}

// Frame writes the lines of a frame.
func (j *JSON) Frame(f scope.Frame) error {
	for _, p := range f.Probes {
		if err := j.enc.Encode(lineOf(f, p)); err != nil {
			return err
		}
	}
	return nil
}

// Close implements the printer of the command line; nothing is left to write.
func (j *JSON) Close() error { return nil }

func lineOf(f scope.Frame, p scope.Probe) line {
	l := line{
		Time:       f.Time.UTC(),
		Window:     window{From: f.Window.From, To: f.Window.To},
		Probe:      p.Name,
		Observed:   observedOf(p),
		Starts:     p.Counts.Starts,
		Ends:       p.Counts.Ends,
		Lost:       p.Counts.Loss.Total(),
		Orphan:     p.Counts.Orphans,
		Late:       p.Counts.Lates,
		Unobserved: p.Counts.Unobserved,
		Triggers:   []string{},
	}
	if p.Counts.VM.PID != 0 {
		l.VM = &vm{PID: p.Counts.VM.PID, Node: p.Counts.VM.Node}
	}
	return l
}

func observedOf(p scope.Probe) observed {
	o := observed{
		N:         p.Observed.Instances(),
		OK:        p.Observed.Successes(),
		Failed:    p.Observed.Failures(),
		Timeout:   p.Observed.Timeouts(),
		Quantiles: make(map[string]*float64),
	}
	if success, ok := p.Observed.Success(); ok {
		o.Success = &success
	}
	for _, q := range scope.Quantiles() {
		var seconds *float64
		if d, ok := p.Observed.QuantileFigure(q); ok {
			s := d.Seconds()
			seconds = &s
		}
		o.Quantiles[strconv.FormatFloat(q, 'g', -1, 64)] = seconds
	}
	return o
}
