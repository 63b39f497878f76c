// Package export writes frames for programs and people: as JSON, with one object on each line,
// and as text. It also writes plots, as images and as figures.
package export

import (
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/seen"
	"github.com/beamscope/beamscope/internal/host/safetext"
)

// A JSON printer writes one object on a line for each window and outcome.
type JSON struct {
	enc   *json.Encoder
	sight func() SightFunc // nil if that is not known
}

// A SightFunc returns how the events of an outcome are seen in a VM.
type SightFunc func(outcome.Spec, outcome.VM) seen.Sight

// TellSights makes the lines of further frames say how the events of their outcomes are seen. The
// function is called once for each frame. Frames of recordings cannot say it.
func (j *JSON) TellSights(sight func() SightFunc) { j.sight = sight }

// NewJSON returns a printer on w. It writes characters that a terminal would interpret as JSON
// escapes.
func NewJSON(w io.Writer) *JSON {
	enc := json.NewEncoder(safetext.NewWriter(w))
	enc.SetEscapeHTML(false) // so that pids can be searched for literally
	return &JSON{enc: enc}
}

// line is the format of `beamscope run --json`.
type line struct {
	Time         time.Time         `json:"time"`
	Window       window            `json:"window"`
	Outcome      string            `json:"outcome"`
	Alias        string            `json:"alias,omitempty"`         // the name of its spans, or of the built-in outcome, if it differs
	Fitted       float64           `json:"fitted_dmax_s,omitempty"` // dMax if beamscope chose it: instances in observed.timeout took longer, and may have succeeded
	VM           *vm               `json:"vm"`                      // null if no VM was running
	Seen         *sight            `json:"seen,omitempty"`          // how its events are seen; absent in recordings
	Observed     observed          `json:"observed"`
	Mean         *mean             `json:"mean"`       // over the last windows; null if they had no instances
	Calculated   *calculated       `json:"calculated"` // null if not calculated
	Divergence   *divergence       `json:"divergence"` // null if there is nothing to compare
	Starts       uint64            `json:"starts"`
	Ends         uint64            `json:"ends"`
	Lost         uint64            `json:"lost"`
	Losses       map[string]uint64 `json:"losses,omitempty"`     // by reason, without those that are 0
	Unobserved   bool              `json:"unobserved,omitempty"` // an unknown number is missing in addition
	Orphan       uint64            `json:"orphan"`
	Late         uint64            `json:"late"`
	*ofVM                          // nil if the outcome is not an outcome of the VM
	Insufficient string            `json:"insufficient,omitempty"` // reason for no verdict
	Silent       float64           `json:"silent_s,omitempty"`     // time since an instance last ended
	Explained    *explained        `json:"explained,omitempty"`    // absent if no instance is explained
	QTA          *figures.QTA      `json:"qta"`                    // null without a QTA, or without anything to judge
	Triggers     []string          `json:"triggers"`               // triggers that fired in the window
	Causes       []string          `json:"causes,omitempty"`       // why they fired
	Explanations []string          `json:"explanations,omitempty"` // where the time went, for each of them; absent if unknown for all
	Active       []string          `json:"active"`                 // triggers whose incident continues
	Notices      []string          `json:"notices,omitempty"`      // about the frame, in the line of its first outcome
	Rejected     *rejected         `json:"rejected,omitempty"`     // in the same line; absent if nothing was rejected
}

// sight says how the events of an outcome are seen.
type sight struct {
	By  []seen.Way `json:"by"`            // empty if they are not seen
	Why string     `json:"why,omitempty"` // they are not seen
}

// rejected describes data that arrived over TCP and could not be understood.
type rejected struct {
	Count uint64 `json:"count"`
	Last  string `json:"last"` // with its error
}

type window struct {
	From int64 `json:"from_ns"`
	To   int64 `json:"to_ns"`
}

type vm struct {
	PID  int    `json:"pid"` // 0 if unknown, for example for another host
	Node string `json:"node"`
}

// observed contains null for unknown values: a window without instances has no probability of
// success, and a quantile in the intangible mass has no value.
type observed struct {
	N         uint64    `json:"n"`
	OK        uint64    `json:"ok"`
	Failed    uint64    `json:"failed"`
	Timeout   uint64    `json:"timeout"`
	Success   *float64  `json:"success"`
	AtLeast   bool      `json:"success_is_at_least,omitempty"` // more may have succeeded, because some took longer than a dMax that beamscope chose
	FailedAt  bool      `json:"failed_is_at_least,omitempty"`  // more may have failed for the same reason
	Quantiles quantiles `json:"quantiles_s"`
}

// calculated contains the bounds of the algebra. In addition it contains a single figure for each
// quantile, which is the upper bound as for observed ones.
type calculated struct {
	N         uint64              `json:"n"` // number of instances of the outcome with the fewest
	Success   bounds              `json:"success"`
	Quantiles quantiles           `json:"quantiles_s"`
	Bounds    map[string]interval `json:"quantile_bounds_s"`
	QTA       *figures.QTA        `json:"qta"`

	Insufficient string `json:"insufficient,omitempty"` // reason for no verdict on it
	Mean         *mean  `json:"mean"`
}

// mean is the mean of the distribution functions of the last windows, with its confidence bounds.
type mean struct {
	Windows   int                    `json:"windows"`
	Success   around                 `json:"success"`
	Quantiles map[string]delayAround `json:"quantiles_s"`
}

// around is a probability. Its bounds are null for a single window.
type around struct {
	Mean float64  `json:"mean"`
	Lo   *float64 `json:"lo"`
	Hi   *float64 `json:"hi"`
}

// delayAround is a quantile in seconds: the edge at which a function reaches the probability. It
// is null if the function does not reach it, and its bounds are null for a single window.
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

// interval bounds a delay in seconds. null means that it is in the intangible mass or may be.
type interval struct {
	Lo *float64 `json:"lo"`
	Hi *float64 `json:"hi"`
}

type divergence struct {
	Windows  int     `json:"windows"` // the number of last windows in which it is found
	Distance bounds  `json:"distance"`
	Nominal  float64 `json:"nominal"`
	At       float64 `json:"at_s"`
	Slower   bool    `json:"slower"`
	Chance   float64 `json:"chance"`
	Lasting  float64 `json:"lasting"`
}

// Frame writes the lines of a frame.
func (j *JSON) Frame(f *scope.Frame) error {
	return j.lines(f, func(l line, _ *scope.Outcome) any { return l })
}

// lines writes a line for each outcome of a frame. form converts the line to the object to write.
func (j *JSON) lines(f *scope.Frame, form func(line, *scope.Outcome) any) error {
	var sightOf SightFunc
	if j.sight != nil {
		sightOf = j.sight()
	}
	for i := range f.Outcomes {
		l := lineOf(f, &f.Outcomes[i])
		if sightOf != nil {
			s := sightOf(f.Outcomes[i].Spec, f.Outcomes[i].VM)
			l.Seen = &sight{By: append([]seen.Way{}, s.By...), Why: s.Why}
		}
		if i == 0 {
			l.Notices = f.NoticeTexts()
			if f.Rejected.Count > 0 {
				l.Rejected = &rejected{f.Rejected.Count, f.Rejected.Last}
			}
		}
		if err := j.enc.Encode(form(l, &f.Outcomes[i])); err != nil {
			return err
		}
	}
	return nil
}

// Close implements the printer of the command line. Nothing is left to write.
func (j *JSON) Close() error { return nil }

func lineOf(f *scope.Frame, p *scope.Outcome) line {
	l := line{
		Time:         f.Time.UTC(),
		Window:       window{From: f.Window.From, To: f.Window.To},
		Outcome:      p.Name,
		Alias:        p.Spec.Alias(),
		VM:           vmOf(p.VM),
		Observed:     observedOf(p),
		Mean:         meanOf(&p.Mean),
		Calculated:   calculatedOf(p),
		Divergence:   divergenceOf(p),
		Starts:       p.Counts.Starts,
		Ends:         p.Counts.Ends,
		Lost:         p.Counts.Loss.Total(),
		Losses:       p.Counts.Loss.ByKey(),
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
	if f.Attaching { // even if the outcome is only calculated
		l.Unobserved, l.Silent = true, 0
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
		if x.Outcome == p.Name && x.VM == p.VM {
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

func observedOf(p *scope.Outcome) observed {
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
	o.FailedAt = o.AtLeast
	for _, q := range scope.Quantiles() {
		var seconds *float64
		if d, ok := p.Observed.QuantileFigure(q); ok {
			seconds = figures.Seconds(d)
		}
		o.Quantiles[quantileName(q)] = seconds
	}
	return o
}

func calculatedOf(p *scope.Outcome) *calculated {
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

// reached returns a delay in seconds, or nil if it is never reached.
func reached(t time.Duration) *float64 {
	if t == dq.Unreached {
		return nil
	}
	return figures.Seconds(t)
}

func divergenceOf(p *scope.Outcome) *divergence {
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
