package config

import (
	"math"
	"strings"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/beam/vm"
)

// Limits of the parameters of the thesis and of further ones.
const (
	minExponent, maxExponent = -10, 10
	maxBins                  = 65536
	maxDMax                  = time.Hour
	minWidth                 = time.Microsecond
	maxSamples               = 1_000_000
	maxHoldOff               = time.Hour
)

func (r *reader) config(v value) (Config, error) {
	c := Default()
	c.Dir = r.dir
	var outcomes value
	err := r.fields(v, map[string]func(value) error{
		"target":          func(v value) (err error) { c.Target, err = r.target(v); return err },
		"diagram":         func(v value) (err error) { c.Diagram, c.DiagramFile, err = r.diagram(v); return err },
		"window":          func(v value) (err error) { c.Window, err = r.duration(v, MinWindow, MaxWindow); return err },
		"base":            func(v value) (err error) { c.Base, err = r.duration(v, minWidth, maxDMax); return err },
		"history":         func(v value) (err error) { c.History, err = r.integer(v, 1, dq.MaxWindow); return err },
		"confidence":      func(v value) (err error) { c.Confidence, err = r.confidence(v); return err },
		"standard_errors": func(v value) (err error) { c.StandardErrors, err = r.standardErrors(v); return err },
		"samples":         func(v value) (err error) { c.Samples, err = r.samples(v); return err },
		"hold_off":        func(v value) (err error) { c.HoldOff, err = r.duration(v, 0, maxHoldOff); return err },
		"explain":         func(v value) (err error) { c.Explain, err = r.boolean(v); return err },
		"wrapper":         func(v value) (err error) { c.Wrapper, err = r.wrapper(v); return err },
		"snapshots":       func(v value) (err error) { c.Snapshots, err = r.snapshots(v); return err },
		"outcomes":        func(v value) error { outcomes = v; return nil },
	})
	if err == nil && c.StandardErrors > 0 && c.Confidence != DefaultConfidence {
		err = r.errorf(v, "confidence and standard_errors: give one of them, as the bounds of a mean are of one kind")
	}
	if err != nil {
		return Config{}, err
	}
	// These come last, because they depend on the base and the diagram.
	if c.Outcomes, err = r.outcomes(v, outcomes, c.Base); err != nil {
		return Config{}, err
	}
	if c.Wrapper.Listen == "" && sentByWrapper(c.Outcomes) {
		c.Wrapper.Listen = DefaultListen
	}
	return c, nil
}

func (r *reader) target(v value) (vm.Target, error) {
	var t vm.Target
	given := 0
	err := r.fields(v, map[string]func(value) error{
		"pid":  func(v value) (err error) { given++; t.PID, err = r.integer(v, 1, math.MaxInt32); return err },
		"node": func(v value) (err error) { given++; t.Node, err = r.node(v); return err },
		"exe":  func(v value) (err error) { given++; t.Exe, err = r.name(v); return err },
		"user": func(v value) (err error) { t.User, err = r.name(v); return err },
	})
	switch {
	case err != nil:
	case given > 1, given == 0 && t.User == "":
		err = r.errorf(v, "give one of exe, pid and node")
	case t.PID != 0 && t.User != "":
		err = r.errorf(v, "user: a process has one user: give it with exe or node, or alone")
	}
	return t, err
}

func (r *reader) node(v value) (string, error) {
	name, err := r.text(v)
	if before, after, ok := strings.Cut(name, "@"); err == nil && (!ok || before == "" || after == "") {
		return "", r.errorf(v, "%s is not the name of a node: write name@host", shown(v.node))
	}
	return name, err
}

// name reads a non-empty text.
func (r *reader) name(v value) (string, error) {
	name, err := r.text(v)
	if err == nil && name == "" {
		return "", r.errorf(v, "empty, where a name is expected")
	}
	return name, err
}

func (r *reader) confidence(v value) (float64, error) {
	return r.share(v, func(p float64) bool { return p > 0 && p < 1 }, "above 0 and below 1")
}

// maxStandardErrors is far more than any use needs.
const maxStandardErrors = 100

func (r *reader) standardErrors(v value) (float64, error) {
	return r.share(v, func(z float64) bool { return z > 0 && z <= maxStandardErrors }, "above 0 and up to 100")
}

func (r *reader) samples(v value) (uint64, error) {
	n, err := r.integer(v, 1, maxSamples)
	return uint64(n), err
}
