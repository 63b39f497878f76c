package recording

import (
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A Header describes a recording. It comes first, exactly once.
type Header struct {
	Time      time.Time // wall time of the beginning
	Monotonic int64     // the same moment in nanoseconds of CLOCK_MONOTONIC
	Note      string    // where and how it was recorded, as text
	Facts     []Fact    // about the machine, see Host
}

// A Fact is information about the machine on which a recording was made.
type Fact struct {
	Name, Text string
}

// An Entry is a part of a recording after its header: a [*Config], an [*outcome.Batch], an
// [*outcome.Notice], a [*Snapshot] or a [*Cause].
type Entry any

// A Config is the configuration of all batches between it and the next Config. Each batch has one
// before it.
type Config struct {
	// Files are the scope file, and then the files to which it refers, unchanged.
	Files []File

	Plan outcome.Plan // its Window is above 0
}

// A File is a configuration file.
type File struct {
	Name string // as in messages
	Text []byte
}

// A Snapshot describes a snapshot. It comes before everything else, and its causes follow it.
type Snapshot struct {
	First    uint64 // number of the first window, as in frames
	Prelude  uint64 // windows at the beginning that only serve the history
	Before   uint64 // number of windows from there to the one that triggered the snapshot
	Causes   uint64 // number of causes that follow, at least one
	Omitted  uint64 // further causes without room
	Complete bool   // false: the observation ended before the snapshot was complete
}

// Trigger returns the index of the batch that triggered the snapshot.
func (s Snapshot) Trigger() uint64 { return s.Prelude + s.Before }

// A Cause is a trigger that fired.
type Cause struct {
	Time    int64 // end of the window, nanoseconds of CLOCK_MONOTONIC
	Number  uint64
	Trigger string // its kind
	Setting string // its setting
	Outcome string
	VM      outcome.VM
	Text    string // why it fired, as text

	// Explanation describes where the time of the instances went, as text. It is "" if unknown.
	Explanation string
}
