// Package export writes frames for programs and people: as JSON, one object a
// line, and as text; and plots of them, as images and as figures.
package export

import (
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/safetext"
	"github.com/beamscope/beamscope/internal/scope"
)

// A JSON printer writes one object a line for each window and probe.
type JSON struct {
	enc *json.Encoder
}

// NewJSON returns a printer on w. Characters that a terminal would obey are written as
// escapes of JSON.
func NewJSON(w io.Writer) *JSON {
	enc := json.NewEncoder(safetext.NewWriter(w))
	enc.SetEscapeHTML(false) // pids are to be found as they are
	return &JSON{enc: enc}
}

// line is the format of `beamscope run --json`.
type line struct {
	Time         time.Time    `json:"time"`
	Window       window       `json:"window"`
	Probe        string       `json:"probe"`
	Alias        string       `json:"alias,omitempty"`         // the name of its spans, or of the built-in outcome, where it is another
	Fitted       float64      `json:"fitted_dmax_s,omitempty"` // dMax where beamscope chose it: observed.timeout took longer, and may have succeeded
	VM           *vm          `json:"vm"`                      // null where no VM was running
	Observed     observed     `json:"observed"`
	Mean         *mean        `json:"mean"`       // of the last windows; null where they had no instances
	Calculated   *calculated  `json:"calculated"` // null where there is none
	Divergence   *divergence  `json:"divergence"` // null where there is nothing to compare
	Starts       uint64       `json:"starts"`
	Ends         uint64       `json:"ends"`
	Lost         uint64       `json:"lost"`
	Unobserved   bool         `json:"unobserved,omitempty"` // an unknown number is missing besides
	Orphan       uint64       `json:"orphan"`
	Late         uint64       `json:"late"`
	*ofVM                     // nil where the probe is no outcome of the VM
	Insufficient string       `json:"insufficient,omitempty"` // why there is no verdict
	Silent       float64      `json:"silent_s,omitempty"`     // for how long no instance has ended
	Explained    *explained   `json:"explained,omitempty"`    // absent where no instance is
	QTA          *figures.QTA `json:"qta"`                    // null where none is set, or there is nothing to judge
	Triggers     []string     `json:"triggers"`               // that fired in the window
	Causes       []string     `json:"causes,omitempty"`       // why they did
	Explanations []string     `json:"explanations,omitempty"` // where the time went, for each of them; absent where that is not known of any
	Active       []string     `json:"active"`                 // triggers whose incident is not over
	Notices      []string     `json:"notices,omitempty"`      // about the frame, with its first probe
	Rejected     *rejected    `json:"rejected,omitempty"`     // likewise; absent where nothing was
}

// rejected is what came in over TCP and could not be understood.
type rejected struct {
	Count uint64 `json:"count"`
	Last  string `json:"last"` // and what is wrong with it
}

type window struct {
	From int64 `json:"from_ns"`
	To   int64 `json:"to_ns"`
}

type vm struct {
	PID  int    `json:"pid"` // 0 where it is not known, as of another host
	Node string `json:"node"`
}

// observed holds null for what nothing is known of: a window without instances
// has no probability of success, and a quantile in the intangible mass is none.
type observed struct {
	N         uint64    `json:"n"`
	OK        uint64    `json:"ok"`
	Failed    uint64    `json:"failed"`
	Timeout   uint64    `json:"timeout"`
	Success   *float64  `json:"success"`
	AtLeast   bool      `json:"success_is_at_least,omitempty"` // more may have succeeded: some took longer than a dMax that beamscope chose
	Quantiles quantiles `json:"quantiles_s"`
}

// calculated has bounds, as the algebra keeps them, besides a single figure of each
// quantile, which is the upper one, as of what is observed.
type calculated struct {
	N         uint64              `json:"n"` // instances of the outcome with the fewest
	Success   bounds              `json:"success"`
	Quantiles quantiles           `json:"quantiles_s"`
	Bounds    map[string]interval `json:"quantile_bounds_s"`
	QTA       *figures.QTA        `json:"qta"`

	Insufficient string `json:"insufficient,omitempty"` // why there is no verdict on it
	Mean         *mean  `json:"mean"`
}

// mean is that of the distribution functions of the last windows, with its
// confidence bounds.
type mean struct {
	Windows   int                    `json:"windows"`
	Success   around                 `json:"success"`
	Quantiles map[string]delayAround `json:"quantiles_s"`
}

// around is a probability; its bounds are null of a single window.
type around struct {
	Mean float64  `json:"mean"`
	Lo   *float64 `json:"lo"`
	Hi   *float64 `json:"hi"`
}

// delayAround is a quantile in seconds: the edge at which a function reaches the
// probability; null where it does not, and the bounds null of a single window.
type delayAround struct {
	Mean *float64 `json:"mean"`
	Lo   *float64 `json:"lo"`
	Hi   *float64 `json:"hi"`
}

// quantiles are delays in seconds, by probability.
type quantiles map[string]*float64

type bounds struct {
	Lo float64 `json:"lo"`
	Hi float64 `json:"hi"`
}

// interval bounds a delay in seconds; null is in the intangible mass, or may be.
type interval struct {
	Lo *float64 `json:"lo"`
	Hi *float64 `json:"hi"`
}

type divergence struct {
	Windows  int     `json:"windows"` // the last ones, that it is found in
	Distance bounds  `json:"distance"`
	Nominal  float64 `json:"nominal"`
	At       float64 `json:"at_s"`
	Slower   bool    `json:"slower"`
	Chance   float64 `json:"chance"`
	Lasting  float64 `json:"lasting"`
}

// Frame writes the lines of a frame.
func (j *JSON) Frame(f *scope.Frame) error {
	return j.lines(f, func(l line, _ *scope.Probe) any { return l })
}

// lines writes a line for each probe of a frame, in the form that is made of it.
func (j *JSON) lines(f *scope.Frame, form func(line, *scope.Probe) any) error {
	for i := range f.Probes {
		l := lineOf(f, &f.Probes[i])
		if i == 0 {
			l.Notices = f.Notices
			if f.Rejected.Count > 0 {
				l.Rejected = &rejected{f.Rejected.Count, f.Rejected.Last}
			}
		}
		if err := j.enc.Encode(form(l, &f.Probes[i])); err != nil {
			return err
		}
	}
	return nil
}

// Close implements the printer of the command line; nothing is left to write.
func (j *JSON) Close() error { return nil }

func lineOf(f *scope.Frame, p *scope.Probe) line {
	l := line{
		Time:         f.Time.UTC(),
		Window:       window{From: f.Window.From, To: f.Window.To},
		Probe:        p.Name,
		Alias:        p.Spec.Alias(),
		VM:           vmOf(p.VM),
		Observed:     observedOf(p),
		Mean:         meanOf(&p.Mean),
		Calculated:   calculatedOf(p),
		Divergence:   divergenceOf(p),
		Starts:       p.Counts.Starts,
		Ends:         p.Counts.Ends,
		Lost:         p.Counts.Loss.Total(),
		Orphan:       p.Counts.Orphans,
		Late:         p.Counts.Lates,
		Unobserved:   p.Counts.Unobserved,
		Insufficient: p.Insufficient,
		Silent:       p.Silent.Seconds(),
		Explained:    explainedOf(p),
		Triggers:     []string{},
		Active:       append([]string{}, p.Active...),
	}
	if p.Spec.VM != (outcome.Events{}) || p.Spec.Group != "" {
		l.ofVM = ofVMOf(p)
	}
	if p.Fitted {
		l.Fitted = p.Spec.DMax().Seconds()
	}
	if p.Judgement != nil {
		l.QTA = figures.OfJudgement(p.Judgement)
	}
	var explanations []string
	known := false
	for _, x := range f.Fired {
		if x.Probe == p.Name && x.VM == p.VM {
			l.Triggers = append(l.Triggers, x.Trigger)
			l.Causes = append(l.Causes, x.Cause)
			explanations = append(explanations, x.Explanation)
			known = known || x.Explanation != ""
		}
	}
	if known {
		l.Explanations = explanations
	}
	return l
}

func observedOf(p *scope.Probe) observed {
	o := observed{
		N:         p.Observed.Instances(),
		OK:        p.Observed.Successes(),
		Failed:    p.Observed.Failures(),
		Timeout:   p.Observed.Timeouts(),
		Quantiles: make(quantiles),
	}
	if success, ok := p.Observed.Success(); ok {
		o.Success = &success
	}
	o.AtLeast = o.Success != nil && p.Slower() > 0
	for _, q := range scope.Quantiles() {
		var seconds *float64
		if d, ok := p.Observed.QuantileFigure(q); ok {
			seconds = figures.Seconds(d)
		}
		o.Quantiles[quantileName(q)] = seconds
	}
	return o
}

func calculatedOf(p *scope.Probe) *calculated {
	success, ok := p.Calculated.Success()
	if !ok {
		return nil
	}
	c := &calculated{
		N:            p.CalculatedFrom,
		Success:      bounds(success),
		Quantiles:    make(quantiles),
		Bounds:       make(map[string]interval),
		Insufficient: p.CalculatedInsufficient,
		Mean:         meanOf(&p.CalculatedMean),
	}
	for _, q := range scope.Quantiles() {
		var i interval
		if v, ok := p.Calculated.Quantile(q); ok {
			i.Lo = figures.Seconds(v.Lo)
			if v.Finite() {
				i.Hi = figures.Seconds(v.Hi)
			}
		}
		c.Quantiles[quantileName(q)] = i.Hi
		c.Bounds[quantileName(q)] = i
	}
	if p.CalculatedJudgement != nil {
		c.QTA = figures.OfJudgement(p.CalculatedJudgement)
	}
	return c
}

func meanOf(m *scope.Mean) *mean {
	if m.Windows == 0 {
		return nil
	}
	last := len(m.Band.Mean) - 1
	out := &mean{
		Windows:   m.Windows,
		Success:   around{Mean: m.Band.Mean[last]},
		Quantiles: make(map[string]delayAround),
	}
	if m.Bounded() {
		out.Success.Lo, out.Success.Hi = &m.Band.Lo[last], &m.Band.Hi[last]
	}
	for _, q := range scope.Quantiles() {
		at, within := m.Quantile(q)
		delay := delayAround{Mean: reached(at)}
		if m.Bounded() {
			delay.Lo, delay.Hi = reached(within.Lo), reached(within.Hi)
		}
		out.Quantiles[quantileName(q)] = delay
	}
	return out
}

// reached returns a delay in seconds, nil where it never comes.
func reached(t time.Duration) *float64 {
	if t == dq.Unreached {
		return nil
	}
	return figures.Seconds(t)
}

func divergenceOf(p *scope.Probe) *divergence {
	d := p.Divergence
	if d == nil {
		return nil
	}
	return &divergence{
		Windows:  p.DivergenceWindows,
		Distance: bounds(d.Distance),
		Nominal:  d.Nominal,
		At:       d.At.Seconds(),
		Slower:   d.Slower,
		Chance:   d.Chance,
		Lasting:  d.Lasting,
	}
}

func quantileName(q float64) string { return strconv.FormatFloat(q, 'g', -1, 64) }
