package config

import (
	"math"
	"strings"
	"time"

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
	given, err := readFields(r, v, fileFields(), &c)
	if err == nil && c.StandardErrors > 0 && c.Confidence != DefaultConfidence {
		err = r.errorf(v, "confidence and standard_errors: give one of them, as the bounds of a mean are of one kind")
	}
	if err != nil {
		return Config{}, err
	}
	// These come last, because they depend on the base and the diagram.
	if c.Outcomes, err = r.outcomes(v, given["outcomes"], c.Base); err != nil {
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

func (r *reader) size(v value) (int64, error) {
	n, ok := parseSize(v.node.Value)
	if !ok || n < minSize || n > maxSize {
		return 0, r.errorf(v, "%s is not a size from %s to %s: write a whole number and a unit (KiB, MiB, GiB), as in 100MiB",
			shown(v.node), formatSize(minSize), formatSize(maxSize))
	}
	return n, nil
}

func (r *reader) snapshots(v value) (Snapshots, error) {
	s := defaultSnapshots()
	_, err := readFields(r, v, snapshotsFields(), &s)
	return s, err
}
