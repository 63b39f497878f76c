package config

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/beamscope/beamscope/dq"
)

// A point is a step of a QTA, with its key in the file.
type point struct {
	dq.Step
	entry
}

// qta reads the requirement of an outcome whose delays are at most dMax.
func (r *reader) qta(v value, dMax time.Duration) (*QTA, error) {
	entries, err := r.mapping(v)
	if err != nil {
		return nil, err
	}
	q := &QTA{Failure: 1}
	var points []point
	for _, e := range entries {
		switch e.key {
		case "failure":
			q.Failure, err = r.share(e.value, func(p float64) bool { return p >= 0 && p <= 1 }, "from 0 to 1")
		case "points":
			points, err = r.points(points, e.value, dMax)
		default:
			points, err = r.quantile(points, e, dMax)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(entries) == 0 {
		return nil, r.errorf(v, "empty: write what is required, as in {p50: 12ms, failure: 0.05}")
	}
	q.Points, err = r.rising(points)
	return q, err
}

// quantile reads a point such as p50: 12ms.
func (r *reader) quantile(points []point, e entry, dMax time.Duration) ([]point, error) {
	p, ok := parsePercent(e.key)
	if !ok {
		return nil, r.errorf(e.at(), "unknown key: use failure, points, or p and a number above 0 and below 100, as in p50")
	}
	t, err := r.delay(e.value, dMax)
	return append(points, point{dq.Step{T: t, P: p}, e}), err
}

// points reads points such as 0.9: 20ms.
func (r *reader) points(points []point, v value, dMax time.Duration) ([]point, error) {
	entries, err := r.mapping(v)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, r.errorf(v, "empty: write probabilities and delays, as in {0.9: 20ms}")
	}
	for _, e := range entries {
		p, ok := parseNumber(e.key)
		if !ok || p <= 0 || p > 1 {
			return nil, r.errorf(e.at(), "not a probability: write a number above 0, up to 1")
		}
		t, err := r.delay(e.value, dMax)
		if err != nil {
			return nil, err
		}
		points = append(points, point{dq.Step{T: t, P: p}, e})
	}
	return points, nil
}

func (r *reader) delay(v value, dMax time.Duration) (time.Duration, error) {
	t, ok := parseDuration(v.node.Value)
	if ok && t > dMax {
		return 0, r.errorf(v, "%s is above dMax, %s, where delays end: lower it, or raise dMax", shown(v.node), FormatDuration(dMax))
	}
	return r.duration(v, 0, dMax)
}

// rising returns the points sorted by probability. Their delays must not fall.
func (r *reader) rising(points []point) ([]dq.Step, error) {
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.P, b.P) })
	var steps []dq.Step
	for i, p := range points {
		if i > 0 {
			before := points[i-1]
			if p.P == before.P {
				return nil, r.errorf(p.at(), "the same as %s%s: remove one", before.key, onLine(before.keyNode.Line))
			}
			if p.T < before.T {
				return nil, r.errorf(p.at(), "%s is less than the %s of %s: a larger share takes as long at least",
					FormatDuration(p.T), FormatDuration(before.T), before.key)
			}
		}
		steps = append(steps, p.Step)
	}
	return steps, nil
}

// onLine returns the line of a place as text, or nothing if it is in no file.
func onLine(line int) string {
	if line == 0 {
		return ""
	}
	return fmt.Sprintf(" on line %d", line)
}
