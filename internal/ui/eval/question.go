package eval

import (
	"errors"
	"fmt"
	"strings"

	"github.com/beamscope/beamscope/dq"
)

// ErrQTA means that a requirement cannot be parsed.
var ErrQTA = errors.New("invalid requirement")

// ParseQTA parses a requirement such as "0.5@1s,0.95@4s": at least half of the executions succeed
// within a second, and 95 % within four. It may contain "failure@0.01", the largest probability
// of failure. Without that any probability is allowed. It returns [ErrQTA] for a text that it
// cannot parse, or the errors of dq.NewQTA.
func ParseQTA(text string) (dq.QTA, error) {
	var steps []dq.Step
	failure := 1.0
	for _, point := range strings.Split(text, ",") {
		p, at, ok := strings.Cut(strings.TrimSpace(point), "@")
		if !ok {
			return dq.QTA{}, fmt.Errorf("%w: %q: want probability@delay, such as 0.95@4s", ErrQTA, point)
		}
		if p == "failure" {
			f, err := parseNumber(at)
			if err != nil {
				return dq.QTA{}, fmt.Errorf("%w: %w", ErrQTA, err)
			}
			failure = f
			continue
		}
		t, err := dq.ParseDelay(strings.TrimSpace(at))
		if err != nil {
			return dq.QTA{}, fmt.Errorf("%w: %w", ErrQTA, err)
		}
		share, err := parseNumber(p)
		if err != nil {
			return dq.QTA{}, fmt.Errorf("%w: %w", ErrQTA, err)
		}
		steps = append(steps, dq.Step{T: t, P: share})
	}
	return dq.NewQTA(failure, steps...)
}
