// Package explain finds out where the time of an outcome instance went: out of the
// events of the processes that took part, it makes a [trace.Trace].
package explain

import (
	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/trace"
)

// An Instance is what is to be explained.
type Instance struct {
	VM         int       // pid of the operating system
	Outcome    int       // as of the events
	ID         uint64    // of the span
	Start, End int64     // nanoseconds of CLOCK_MONOTONIC
	Owner      trace.PID // that started it, 0 where it is not known
}

// A Log is what happened, as far as it was recorded.
type Log struct {
	events []bpf.Event
}

// Add appends events, in the order of time. lost says that there were others before
// them that were overwritten: what was before is not all that there was.
func (l *Log) Add(events []bpf.Event, lost bool) {
	l.events = append(l.events, events...)
}

// Forget forgets what was before a time, nanoseconds of CLOCK_MONOTONIC.
func (l *Log) Forget(before int64) {}

// Explain returns where the time of an instance went.
func (l *Log) Explain(i Instance) *trace.Trace { return nil }
