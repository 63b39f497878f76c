package wrapper

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// Timeouts are whole milliseconds, never too short and never 0.
func TestCommands(t *testing.T) {
	specs := []outcome.Spec{
		{Wrapper: "exact", BinWidth: time.Millisecond, Bins: 50},
		{Wrapper: "up", BinWidth: 375 * time.Microsecond, Bins: 50},
		{Wrapper: "least", BinWidth: time.Microsecond, Bins: 1},
	}
	const timeouts = "set_timeout;exact;50\nset_timeout;up;19\nset_timeout;least;1\n"
	if got := string(commands(true, specs)); got != "start_stub\n"+timeouts {
		t.Errorf("active: %q", got)
	}
	if got := string(commands(false, specs)); got != "stop_stub\n"+timeouts {
		t.Errorf("stopped: %q", got)
	}
}
