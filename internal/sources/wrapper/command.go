package wrapper

import (
	"strconv"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// stop is the command that stops sending instances.
const stop = "stop_stub\n"

// commands returns all commands for a wrapper: whether to send instances, and the timeout of each
// outcome. Sending them again changes nothing.
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

// milliseconds returns the timeout for a maximum delay. It is a whole number, because
// erlang:send_after accepts no fraction. It is rounded up: a timeout that comes too early would
// be invented, but one that comes late is still a timeout.
func milliseconds(dMax time.Duration) int64 {
	return max(1, int64((dMax+time.Millisecond-1)/time.Millisecond))
}
