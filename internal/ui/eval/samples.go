package eval

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/beamscope/beamscope/dq"
)

func (p modelParser) samples(args []string) (*dq.DeltaQ, error) {
	confidence := 0.0
	if len(args) == 2 {
		var err error
		if confidence, err = probability(args[1]); err != nil {
			return nil, err
		}
		args = args[:1]
		if !(confidence > 0 && confidence < 1) {
			return nil, fmt.Errorf("%w: confidence %v: want above 0, below 1", ErrModel, confidence)
		}
	}
	if err := wantArgs("samples", args, 1); err != nil {
		return nil, err
	}
	if p.open == nil {
		return nil, fmt.Errorf("%w: no files can be read here", ErrModel)
	}
	file, err := p.open(args[0])
	if err != nil {
		return nil, err
	}
	defer file.Close()
	delays, failures, err := ReadSamples(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	if confidence > 0 {
		return dq.ConfidentSamples(p.grid, delays, failures, 1-confidence)
	}
	return dq.Samples(p.grid, delays, failures)
}

// MaxSamples is the largest number of samples in a file.
const MaxSamples = 1 << 24

// ReadSamples reads the delays of outcome instances, one on each line in seconds, rounded to
// nanoseconds. It counts lines that contain fail or timeout as failures. It skips empty lines and
// lines that begin with #. It returns [ErrModel], with the number of the line, for anything else,
// and for more than [MaxSamples].
func ReadSamples(r io.Reader) (delays []time.Duration, failures uint64, err error) {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff") // a byte-order mark
		}
		switch text := strings.TrimSpace(line); {
		case text == "" || text[0] == '#':
		case text == "fail" || text == "timeout":
			failures++
		default:
			d, err := secondsOf(text)
			if err != nil {
				return nil, 0, fmt.Errorf("line %d: %w", n, err)
			}
			delays = append(delays, d)
		}
		if len(delays) > MaxSamples {
			return nil, 0, fmt.Errorf("line %d: %w: more than %d samples", n, ErrModel, MaxSamples)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrModel, err)
	}
	return delays, failures, nil
}

func secondsOf(text string) (time.Duration, error) {
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || !(s >= 0 && s <= dq.MaxModelDelay.Seconds()) {
		return 0, fmt.Errorf("%w: %q: want a delay in seconds, fail or timeout", ErrModel, text)
	}
	return time.Duration(math.Round(s * 1e9)), nil
}
