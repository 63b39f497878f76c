package recording

import "github.com/beamscope/beamscope/internal/engine/outcome"

// Limits of the contents of a recording. They limit the memory of a reader: a block and its decoded
// data take less than 400 MiB, whatever the file contains.
const (
	MaxBlock     = 1<<24 - 1 // bytes of a block's payload
	MaxText      = 1 << 16   // bytes of a name or a message
	MaxFile      = 1 << 22   // bytes of a configuration file
	MaxFiles     = 64        // number of files of a configuration
	MaxFacts     = 64        // number of facts of a header
	MaxSpecs     = 1 << 16   // specs of a plan
	MaxBins      = 1 << 16   // bins of an outcome
	MaxCounts    = 1 << 16   // counts of a batch
	MaxTotalBins = 1 << 23   // bins of all counts of a batch
	MaxGroups    = 1 << 16   // groups of all counts of a batch
	MaxInstances = 1 << 20   // instances of a batch
	MaxSpans     = outcome.MaxSpans
	MaxNames     = 1 << 20 // names in a batch, in addition to those of the plan
)
