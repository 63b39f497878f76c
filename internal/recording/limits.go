package recording

import "github.com/beamscope/beamscope/internal/outcome"

// Bounds of what a recording holds. They bound what a reader has to hold: a block
// and what it decodes to are less than 400 MiB, whatever the file.
const (
	MaxBlock     = 1<<24 - 1 // bytes of a block's payload
	MaxText      = 1 << 16   // bytes of a name or a message
	MaxFile      = 1 << 22   // bytes of a configuration file
	MaxFiles     = 64        // files of a configuration
	MaxFacts     = 64        // of a header
	MaxSpecs     = 1 << 16   // of a plan
	MaxBins      = 1 << 16   // of an outcome
	MaxCounts    = 1 << 16   // of a batch
	MaxTotalBins = 1 << 23   // of a batch, all its counts together
	MaxGroups    = 1 << 16   // of a batch, all its counts together
	MaxInstances = 1 << 20   // of a batch
	MaxSpans     = outcome.MaxSpans
	MaxNames     = 1 << 20 // of a batch, besides those of the plan
)
