package eval

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/beamscope/beamscope/dq"
)

// ErrModel means that a model cannot be parsed.
var ErrModel = errors.New("invalid model")

// Open opens a file of samples for reading.
type Open func(name string) (io.ReadCloser, error)

// Model returns the ΔQ that a text describes, on bins of the grid's width:
//
//	never
//	wait(2ms)
//	uniform(1ms,2ms)
//	exp(5ms)                   the mean
//	normal(5ms, 1ms)           mean and standard deviation
//	lognormal(5ms, 0.8)        median, and standard deviation of the logarithm
//	gamma(5ms, 2)              mean and shape
//	weibull(5ms, 0.7)          scale and shape
//	pareto(1ms, 2.5)           least delay and shape
//	steps(1ms:0.3, 3ms:1)      probabilities of success within each delay
//	cdf(1ms:0.2..0.3, 3ms:1)   the same within bounds
//	samples(file.csv)          one delay a line in seconds, or fail, or timeout
//	samples(file.csv, 0.95)    the distribution they come from, with that probability
//	timeout(20ms, MODEL)       fails after 20ms
//	retry(3, 20ms, MODEL)      up to three attempts, each given up after 20ms
//	overlap(3, 20ms, MODEL)    up to three attempts, one started every 20ms
//
// each with an optional factor, 0.95*MODEL, for the probability of success. It
// returns [ErrModel] for a text it cannot read, and the errors of package dq and
// of open.
func Model(text string, g dq.Grid, open Open) (*dq.DeltaQ, error) {
	p := modelParser{grid: g, open: open}
	d, err := p.model(text, 0)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return d, nil
}

type modelParser struct {
	grid dq.Grid
	open Open
}

// maxModelNesting limits the nesting of models.
const maxModelNesting = 20

func (p modelParser) model(text string, depth int) (*dq.DeltaQ, error) {
	if depth > maxModelNesting {
		return nil, fmt.Errorf("%w: more than %d models within each other", ErrModel, maxModelNesting)
	}
	text = strings.TrimSpace(text)
	if factor, rest, ok := cutFactor(text); ok {
		return p.scaled(factor, rest, depth)
	}
	name, args, err := call(text)
	if err != nil {
		return nil, err
	}
	switch name {
	case "never":
		return dq.Never(), wantArgs(name, args, 0)
	case "wait", "exp":
		return p.oneDelay(name, args)
	case "uniform":
		return p.uniform(args)
	case "normal":
		return p.normal(args)
	case "lognormal", "gamma", "weibull", "pareto":
		return p.shaped(name, args)
	case "steps":
		return p.steps(args)
	case "cdf":
		return p.cdf(args)
	case "samples":
		return p.samples(args)
	case "timeout":
		return p.timeout(args, depth)
	case "retry", "overlap":
		return p.retry(name, args, depth)
	}
	if _, err := dq.ParseDelay(name); err == nil {
		return nil, fmt.Errorf("%w: a delay alone is no model: write wait(%s)", ErrModel, name)
	}
	return nil, fmt.Errorf("%w: unknown model %q: want never, wait, uniform, exp, normal, lognormal, gamma, weibull, pareto, steps, cdf, samples, timeout, retry or overlap", ErrModel, name)
}

// cutFactor splits "0.95*MODEL". A * can only follow a number at the start.
func cutFactor(text string) (factor, rest string, ok bool) {
	factor, rest, ok = strings.Cut(text, "*")
	return factor, rest, ok && !strings.Contains(factor, "(")
}

func (p modelParser) scaled(factor, rest string, depth int) (*dq.DeltaQ, error) {
	f, err := probability(factor)
	if err != nil {
		return nil, err
	}
	d, err := p.model(rest, depth+1)
	if err != nil {
		return nil, err
	}
	return dq.Scale(d, f)
}

// call splits "name(a, b)" into name and arguments. "name" has no arguments.
func call(text string) (name string, args []string, err error) {
	name, inside, ok := strings.Cut(text, "(")
	name = strings.TrimSpace(name)
	if !ok {
		return name, nil, nil
	}
	inside, ok = strings.CutSuffix(inside, ")")
	if !ok {
		return "", nil, fmt.Errorf("%w: %q does not end with a parenthesis", ErrModel, text)
	}
	return name, splitArgs(inside), nil
}

// splitArgs splits at commas outside parentheses.
func splitArgs(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	var args []string
	depth, from := 0, 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			args = append(args, strings.TrimSpace(text[from:i]))
			from = i + 1
		}
	}
	return append(args, strings.TrimSpace(text[from:]))
}

func wantArgs(name string, args []string, n int) error {
	if len(args) != n {
		return fmt.Errorf("%w: %s takes %d arguments, not %d", ErrModel, name, n, len(args))
	}
	return nil
}

func (p modelParser) oneDelay(name string, args []string) (*dq.DeltaQ, error) {
	if err := wantArgs(name, args, 1); err != nil {
		return nil, err
	}
	t, err := delay(args[0])
	if err != nil {
		return nil, err
	}
	if name == "exp" {
		return dq.Exponential(p.grid, t)
	}
	return dq.Wait(p.grid, t)
}

func (p modelParser) uniform(args []string) (*dq.DeltaQ, error) {
	if err := wantArgs("uniform", args, 2); err != nil {
		return nil, err
	}
	from, err := delay(args[0])
	if err != nil {
		return nil, err
	}
	to, err := delay(args[1])
	if err != nil {
		return nil, err
	}
	return dq.Uniform(p.grid, from, to)
}

func (p modelParser) steps(args []string) (*dq.DeltaQ, error) {
	var steps []dq.Step
	for _, a := range args {
		t, prob, ok := strings.Cut(a, ":")
		if !ok {
			return nil, fmt.Errorf("%w: step %q: want delay:probability, such as 3ms:0.5", ErrModel, a)
		}
		s, err := step(t, prob)
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	return dq.Steps(p.grid, steps)
}

func (p modelParser) normal(args []string) (*dq.DeltaQ, error) {
	if err := wantArgs("normal", args, 2); err != nil {
		return nil, err
	}
	mean, err := delay(args[0])
	if err != nil {
		return nil, err
	}
	sd, err := delay(args[1])
	if err != nil {
		return nil, err
	}
	return dq.Normal(p.grid, mean, sd)
}

// shaped parses a model with a delay and a shape.
func (p modelParser) shaped(name string, args []string) (*dq.DeltaQ, error) {
	if err := wantArgs(name, args, 2); err != nil {
		return nil, err
	}
	t, err := delay(args[0])
	if err != nil {
		return nil, err
	}
	shape, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: shape %q: want a number", ErrModel, name, args[1])
	}
	switch name {
	case "lognormal":
		return dq.LogNormal(p.grid, t, shape)
	case "gamma":
		return dq.Gamma(p.grid, t, shape)
	case "weibull":
		return dq.Weibull(p.grid, t, shape)
	}
	return dq.Pareto(p.grid, t, shape)
}

// cdf parses points of a distribution function within bounds. A single number stands for both
// bounds.
func (p modelParser) cdf(args []string) (*dq.DeltaQ, error) {
	var points []dq.BoundedStep
	for _, a := range args {
		t, between, ok := strings.Cut(a, ":")
		if !ok {
			return nil, fmt.Errorf("%w: point %q: want delay:probability..probability, such as 3ms:0.4..0.5", ErrModel, a)
		}
		lo, hi, two := strings.Cut(between, "..")
		if !two {
			hi = lo
		}
		from, err := step(t, lo)
		if err != nil {
			return nil, err
		}
		to, err := probability(hi)
		if err != nil {
			return nil, err
		}
		points = append(points, dq.BoundedStep{T: from.T, Lo: from.P, Hi: to})
	}
	return dq.Envelope(p.grid, points)
}

func (p modelParser) timeout(args []string, depth int) (*dq.DeltaQ, error) {
	if err := wantArgs("timeout", args, 2); err != nil {
		return nil, err
	}
	t, err := delay(args[0])
	if err != nil {
		return nil, err
	}
	d, err := p.model(args[1], depth+1)
	if err != nil {
		return nil, err
	}
	return dq.Timeout(d, t)
}

func (p modelParser) retry(name string, args []string, depth int) (*dq.DeltaQ, error) {
	if err := wantArgs(name, args, 3); err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return nil, fmt.Errorf("%w: number of attempts %q", ErrModel, args[0])
	}
	t, err := delay(args[1])
	if err != nil {
		return nil, err
	}
	d, err := p.model(args[2], depth+1)
	if err != nil {
		return nil, err
	}
	if name == "overlap" {
		return dq.RetryOverlap(d, t, n)
	}
	return dq.Retry(d, t, n)
}

func step(t, p string) (dq.Step, error) {
	d, err := delay(t)
	if err != nil {
		return dq.Step{}, err
	}
	f, err := probability(p)
	return dq.Step{T: d, P: f}, err
}

// delay parses a duration with its unit, such as 1.5ms.
func delay(text string) (time.Duration, error) {
	d, err := dq.ParseDelay(strings.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrModel, err)
	}
	return d, nil
}

// probability parses a number. The package dq checks its range.
func probability(text string) (float64, error) {
	p, err := parseNumber(text)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrModel, err)
	}
	return p, nil
}

// parseNumber parses the number of a probability.
func parseNumber(text string) (float64, error) {
	p, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return 0, fmt.Errorf("probability %q", text)
	}
	return p, nil
}
