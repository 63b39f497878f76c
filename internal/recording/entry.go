package recording

import (
	"time"

	"github.com/beamscope/beamscope/internal/outcome"
)

// A Header says what a recording is. It comes first, and once.
type Header struct {
	Time      time.Time // wall time of the beginning
	Monotonic int64     // the same moment in nanoseconds of CLOCK_MONOTONIC
	Note      string    // where and how it was recorded, for people
	Facts     []Fact    // about the machine, see Host
}

// A Fact is something about the machine on which a recording was made.
type Fact struct {
	Name, Text string
}

// An Entry is what a recording consists of after its header: a [*Config], an
// [*outcome.Batch], an [*outcome.Notice], a [*Snapshot] or a [*Cause].
type Entry any

// A Config says what is observed. It holds for all batches between it and the
// next one; each batch has one before it.
type Config struct {
	// Files are the scope file, and then the files that it names. They are kept as
	// they are.
	Files []File

	Plan outcome.Plan // its Window is more than 0
}

// A File is a configuration file.
type File struct {
	Name string // as in messages about it
	Text []byte
}

// A Snapshot says what of a recording is a snapshot of what. It comes before
// everything else, its causes follow it.
type Snapshot struct {
	First    uint64 // number of the first window, as the frames count them
	Prelude  uint64 // windows at the beginning that are there for the history alone
	Before   uint64 // windows from there to the one that triggered the snapshot
	Causes   uint64 // that follow, at least one
	Omitted  uint64 // further causes, for which there was no room
	Complete bool   // false: the observation ended before the snapshot did
}

// Trigger returns the index of the batch that triggered the snapshot.
func (s Snapshot) Trigger() uint64 { return s.Prelude + s.Before }

// A Cause is a trigger that fired.
type Cause struct {
	Time    int64 // end of the window, nanoseconds of CLOCK_MONOTONIC
	Number  uint64
	Trigger string // its kind
	Setting string // and what it was set to
	Probe   string
	VM      outcome.VM
	Text    string // what was seen, for people

	// Explanation says, for people, where the time of the instances went; "" where that is
	// not known.
	Explanation string
}
