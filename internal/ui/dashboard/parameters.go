package dashboard

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
)

// A parameter is a value of the configuration that the user can change.
type parameter struct {
	key   string // in the scope file, relative to the section
	text  string // the value as entered
	base  string // the value in force
	sent  string // the value that was last sent to be applied
	wrong string // the error of the value

	choices   []string // possible values; nil for free text
	low, high int      // range of a number, which changes in units of step
	step      int
}

func (p *parameter) edited() bool { return strings.TrimSpace(p.text) != p.base }

// move changes the value by this many choices or steps.
func (p *parameter) move(by int) {
	switch n, err := strconv.Atoi(strings.TrimSpace(p.text)); {
	case p.choices != nil:
		at := slices.Index(p.choices, p.text) + by
		p.text = p.choices[(at+len(p.choices))%len(p.choices)]
	case p.step != 0 && err == nil:
		p.text = strconv.Itoa(max(p.low, min(n+by*p.step, p.high)))
	}
}

// Choices of parameters.
const (
	byExponent = "exponent"
	byDMax     = "dmax"
	on         = "on"
	off        = "off"
)

// keyExplain is the key of the parameter that has slow instances explained.
const keyExplain = "explain"

// Keys of parameters that the scope file does not have.
const (
	keyScale    = "scale" // set by exponent or by dMax
	keyRequired = "qta"   // on or off
	keyPoints   = "qta.points"
)

// A paramForm contains the parameters of an outcome, or of the whole system.
type paramForm struct {
	outcome string // "" for the system
	spans   bool   // the outcome consists of spans of a VM, which can be explained

	standardErrors bool // means have standard errors instead of confidence bounds
	params         []*parameter

	err    error         // why the form is invalid; nil if a parameter has the error
	wrong  bool          // the form is invalid
	system *scope.System // the system that would result; nil if the form is invalid
}

func newOutcomeForm(outcome string) *paramForm {
	return &paramForm{outcome: outcome, params: []*parameter{
		{key: keyScale, choices: []string{byExponent, byDMax}},
		{key: "exponent", low: -dq.MaxExponent, high: dq.MaxExponent, step: 1},
		{key: "dmax"},
		{key: "bins", low: 1, high: dq.MaxBaseBins, step: 10},
		{key: keyExplain, choices: []string{off, on}},
		{key: keyRequired, choices: []string{off, on}},
		{key: "qta.p25"}, {key: "qta.p50"}, {key: "qta.p75"}, {key: "qta.failure"}, {key: keyPoints},
	}}
}

func newSystemForm() *paramForm {
	return &paramForm{params: []*parameter{
		newParameter("window", 0),
		newParameter("history", 1),
		newParameter("samples", 10),
		newParameter("confidence", 0),
	}}
}

// newParameter returns the parameter of a key of the whole scope file. A number changes by step.
func newParameter(key string, step int) *parameter {
	k := config.KeyOf(key)
	return &parameter{key: key, low: k.Low, high: k.High, step: step}
}

func (f *paramForm) param(key string) *parameter {
	i := slices.IndexFunc(f.params, func(p *parameter) bool { return p.key == key })
	if i < 0 {
		return nil
	}
	return f.params[i]
}

// active reports whether a parameter is in use. That depends on other parameters.
func (f *paramForm) active(p *parameter) bool {
	switch {
	case p.key == keyExplain:
		return f.spans
	case p.key == "confidence":
		return !f.standardErrors
	case p.key == "exponent":
		return f.param(keyScale).text == byExponent
	case p.key == "dmax":
		return f.param(keyScale).text == byDMax
	case strings.HasPrefix(p.key, "qta."):
		return f.param(keyRequired).text == on
	}
	return true
}

func (f *paramForm) edited() bool {
	return slices.ContainsFunc(f.params, func(p *parameter) bool { return f.active(p) && p.edited() })
}

// name returns the name of the outcome, or "system".
func (f *paramForm) name() string {
	if f.outcome == "" {
		return "system"
	}
	return f.outcome
}

// load takes over the configuration in force, and keeps edited values.
func (f *paramForm) load(c config.Config) {
	value := c.Value
	f.standardErrors = c.StandardErrors > 0
	if f.outcome != "" {
		texts := outcomeTexts(c, f.outcome)
		value = func(key string) string { return texts[key] }
		f.spans = c.Outcome(f.outcome).OfSpans()
	}
	for _, p := range f.params {
		if !p.edited() {
			p.text = value(p.key)
		}
		p.base = value(p.key)
	}
}

// settle records that the values that were sent are in force.
func (f *paramForm) settle(c config.Config) {
	f.load(c)
	for _, p := range f.params {
		if p.text == p.sent {
			p.text = p.base
		}
	}
}

func (f *paramForm) send() {
	for _, p := range f.params {
		p.sent = p.text
	}
}

func (f *paramForm) undo() {
	for _, p := range f.params {
		p.text = p.base
	}
}

func formatNumber(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func outcomeTexts(c config.Config, outcome string) map[string]string {
	o := c.Outcome(outcome)
	texts := map[string]string{
		keyScale:   byExponent,
		"exponent": strconv.Itoa(o.Scale.Exponent),
		"bins":     strconv.Itoa(o.Scale.Bins),
	}
	if g, err := o.Scale.Grid(c.Base); err == nil {
		texts["dmax"] = config.FormatDuration(g.DMax())
	}
	texts[keyExplain] = off
	if o.Explain.Over(c.Explain) {
		texts[keyExplain] = on
	}
	if o.Scale.DMax != 0 {
		texts[keyScale] = byDMax
	}
	addRequired(texts, o.QTA)
	return texts
}

func addRequired(texts map[string]string, q *config.QTA) {
	texts[keyRequired] = off
	if q == nil {
		return
	}
	texts[keyRequired] = on
	if q.Failure != 1 || len(q.Points) == 0 {
		texts["qta.failure"] = formatNumber(q.Failure)
	}
	var further []string
	for _, p := range q.Points {
		delay := config.FormatDuration(p.T)
		switch p.P {
		case 0.25, 0.5, 0.75:
			texts["qta."+config.FormatQuantile(p.P)] = delay
		case 1:
			further = append(further, "1="+delay)
		default:
			further = append(further, config.FormatQuantile(p.P)+"="+delay)
		}
	}
	texts[keyPoints] = strings.Join(further, " ")
}

// errEmpty means that a parameter has no value.
var errEmpty = errors.New("empty: write a value, or Esc for the one in force")

// edits returns the necessary changes of the scope file, or the invalid parameter.
func (f *paramForm) edits() ([]config.Edit, *parameter, error) {
	var edits []config.Edit
	for _, p := range f.params {
		text := strings.TrimSpace(p.text)
		switch {
		case p.key == keyExplain:
			if p.edited() && f.active(p) {
				edits = append(edits, config.Edit{Path: f.path(keyExplain), Value: strconv.FormatBool(text == on)})
			}
			continue
		case p.choices != nil || strings.HasPrefix(p.key, "qta."):
			continue
		case !f.active(p):
			text = ""
		case p.key == "window" || p.key == "dmax":
			text = delayOf(text)
		case text == "":
			return nil, p, errEmpty
		}
		edits = append(edits, config.Edit{Path: f.path(p.key), Value: text})
	}
	if f.outcome == "" {
		return edits, nil, nil
	}
	required, wrong, err := f.required()
	return append(edits, required...), wrong, err
}

// path returns the path of a key in the scope file.
func (f *paramForm) path(keys ...string) []string {
	if f.outcome == "" {
		return keys
	}
	return append([]string{"outcomes", f.outcome}, keys...)
}

// required returns the edits that replace the whole QTA.
func (f *paramForm) required() ([]config.Edit, *parameter, error) {
	edits := []config.Edit{{Path: f.path("qta")}}
	if f.param(keyRequired).text == off {
		return edits, nil, nil
	}
	seen := make(map[string]bool)
	for _, key := range []string{"p25", "p50", "p75", "failure"} {
		if text := strings.TrimSpace(f.param("qta." + key).text); text != "" {
			if key == "failure" {
				share, err := shareOf(text)
				if err != nil {
					return nil, f.param("qta.failure"), err
				}
				text = share
			}
			edits = append(edits, config.Edit{Path: f.path("qta", key), Value: delayOf(text)})
			seen[key] = true
		}
	}
	points := f.param(keyPoints)
	for _, word := range strings.Fields(strings.ReplaceAll(delayOf(aroundSign.ReplaceAllString(points.text, "=")), ",", " ")) {
		quantile, delay, _ := strings.Cut(word, "=")
		switch {
		case quantile == "" || delay == "":
			return nil, points, fmt.Errorf("%q: write quantile=delay, as in p99=40ms or 0.999=60ms", word)
		case seen[quantile]:
			return nil, points, fmt.Errorf("%s is there twice: remove one", quantile)
		}
		seen[quantile] = true
		path := f.path("qta", "points", quantile)
		if strings.HasPrefix(quantile, "p") {
			path = f.path("qta", quantile)
		}
		edits = append(edits, config.Edit{Path: path, Value: delay})
	}
	if len(seen) == 0 {
		return nil, f.param(keyRequired), errors.New("nothing is required yet: write a delay or a share, or choose off")
	}
	return edits, nil, nil
}

// check computes the resulting system, or the error.
func (f *paramForm) check(c config.Config) {
	f.err, f.wrong, f.system = nil, false, nil
	for _, p := range f.params {
		p.wrong = ""
	}
	system, wrong, err := f.try(c)
	if err == nil {
		f.system = system
		return
	}
	f.wrong = true
	if wrong == nil {
		f.err = err
		return
	}
	wrong.wrong = err.Error()
}

func (f *paramForm) try(c config.Config) (*scope.System, *parameter, error) {
	if f.edited() {
		edits, wrong, err := f.edits()
		if err != nil {
			return nil, wrong, err
		}
		if c, err = c.Edited(edits...); err != nil {
			wrong, text := f.blame(err)
			return nil, wrong, f.advised(text, c.Base)
		}
	}
	system, err := c.System()
	return system, nil, f.advised(err, c.Base)
}

// blame returns the parameter that an error of the configuration concerns and the text to show
// there. It returns nil if no parameter of this form is concerned.
func (f *paramForm) blame(err error) (*parameter, error) {
	var at *config.Error
	if !errors.As(err, &at) {
		return nil, err
	}
	key := at.Path
	if f.outcome != "" {
		var mine bool
		if key, mine = strings.CutPrefix(at.Path, "outcomes."+f.outcome); !mine {
			return nil, err
		}
		key = strings.TrimPrefix(key, ".")
	}
	p := f.param(key)
	switch {
	case p != nil:
	case key == "": // dMax is not a multiple of the bins
		p = f.param("bins")
	case strings.HasPrefix(key, "qta."):
		p = f.param(keyPoints)
	default:
		return nil, err
	}
	return p, errors.New(at.Text)
}

// advised adds a valid value to an error of a scale, and uses the terms of the form.
func (f *paramForm) advised(err error, base time.Duration) error {
	if err == nil || f.outcome == "" || !strings.Contains(err.Error(), dq.ErrGrid.Error()) {
		return err
	}
	text := strings.ReplaceAll(err.Error(), dq.ErrGrid.Error()+": ", "")
	if !strings.Contains(text, "not a whole number") {
		return errors.New(text)
	}
	if f.param(keyScale).text == byExponent {
		return fmt.Errorf("%s: %d is the least that does", text, leastExponent(base))
	}
	dMax, wrong := time.ParseDuration(delayOf(f.param("dmax").text))
	bins, unreadable := strconv.Atoi(strings.TrimSpace(f.param("bins").text))
	if n := nearestBins(dMax, bins); wrong == nil && unreadable == nil && n > 0 {
		return fmt.Errorf("%s: %d bins would do", text, n)
	}
	return errors.New(text)
}

// leastExponent returns the smallest valid exponent of a scale with this base.
func leastExponent(base time.Duration) int {
	n := 0
	for n > -dq.MaxExponent && base%(1<<(1-n)) == 0 {
		n--
	}
	return n
}

// nearestBins returns the number of bins nearest to bins that divides dMax, or 0 if there is
// none.
func nearestBins(dMax time.Duration, bins int) int {
	if dMax <= 0 || bins < 1 || bins > dq.MaxBaseBins {
		return 0
	}
	for by := range dq.MaxBaseBins {
		for _, n := range []int{bins - by, bins + by} {
			if n < 1 || n > dq.MaxBaseBins {
				continue
			}
			if _, err := dq.DMaxGrid(dMax, n); err == nil {
				return n
			}
		}
	}
	return 0
}

// gridOf returns the grid of an outcome in a system.
func gridOf(s *scope.System, outcome string) (dq.Grid, bool) {
	if s == nil {
		return dq.Grid{}, false
	}
	for _, p := range s.Outcomes {
		if p.Spec.Name == outcome {
			g, err := p.Grid()
			return g, err == nil
		}
	}
	return dq.Grid{}, false
}

// follow updates the parameters of the other way to set the scale, if the same scale can be
// expressed that way.
func (f *paramForm) follow(c config.Config) {
	g, ok := gridOf(f.system, f.outcome)
	if !ok {
		return
	}
	if f.param(keyScale).text == byExponent {
		f.param("dmax").text = config.FormatDuration(g.DMax())
		return
	}
	for n := -dq.MaxExponent; n <= dq.MaxExponent; n++ {
		if same, err := dq.BaseGrid(c.Base, n, g.Bins()); err == nil && same == g {
			f.param("exponent").text = strconv.Itoa(n)
		}
	}
}
