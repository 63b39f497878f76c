package wrapper

import (
	"strconv"
	"time"

	"github.com/beamscope/beamscope/internal/outcome"
)

// stop is the command to send no more instances.
const stop = "stop_stub\n"

// commands returns all that a wrapper has to know: whether to send instances,
// and the timeout of each outcome. Repeating it changes nothing.
func commands(active bool, specs []outcome.Spec) []byte {
	text := []byte(stop)
	if active {
		text = []byte("start_stub\n")
	}
	for _, spec := range specs {
		text = append(text, "set_timeout;"...)
		text = append(text, spec.Wrapper...)
		text = append(text, ';')
		text = strconv.AppendInt(text, milliseconds(spec.DMax()), 10)
		text = append(text, '\n')
	}
	return text
}

// milliseconds returns the timeout that a wrapper is given for a maximum delay,
// which is no fraction, as erlang:send_after takes none. It is rounded up: a
// timeout that comes early would be invented, and one that comes late is still
// one.
func milliseconds(dMax time.Duration) int64 {
	return max(1, int64((dMax+time.Millisecond-1)/time.Millisecond))
}
