package eval

import (
	"fmt"
	"strings"

	"github.com/beamscope/beamscope/dq"
)

// ParseQTA reads a requirement such as "0.5@1s,0.95@4s": at least half of the
// executions are done within a second, 95 % within four. It may hold
// "failure@0.01", the largest probability of failure; without it any is allowed.
// It returns [ErrModel] for a text it cannot read, and the errors of dq.NewQTA.
func ParseQTA(text string) (dq.QTA, error) {
	var steps []dq.Step
	failure := 1.0
	for _, point := range strings.Split(text, ",") {
		p, at, ok := strings.Cut(strings.TrimSpace(point), "@")
		if !ok {
			return dq.QTA{}, fmt.Errorf("%w: %q: want probability@delay, such as 0.95@4s", ErrModel, point)
		}
		if p == "failure" {
			f, err := probability(at)
			if err != nil {
				return dq.QTA{}, err
			}
			failure = f
			continue
		}
		s, err := step(at, p)
		if err != nil {
			return dq.QTA{}, err
		}
		steps = append(steps, s)
	}
	return dq.NewQTA(failure, steps...)
}
