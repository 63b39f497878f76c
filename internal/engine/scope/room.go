package scope

import (
	"fmt"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// Limits of an engine's data, independent of the contents of a batch or a recording.
const (
	MaxVMs       = 256     // VMs in a frame; several times the limit of a live run
	MaxRows      = 1 << 16 // rows of a frame: outcomes times VMs
	MaxHistories = 1 << 30 // bytes of all histories together
)

// A room tracks how much of an engine's memory is still free in a window.
type room struct {
	rows    int
	bytes   int64
	omitted int // rows that did not fit
}

// room returns the room that the existing series leave free.
func (e *Engine) room() room {
	r := room{rows: MaxRows, bytes: MaxHistories}
	for key := range e.series {
		r.bytes -= e.size(&e.system.Outcomes[e.byName[key.name]])
	}
	return r
}

// take takes memory for a row, and reports whether there was enough.
func (r *room) take(e *Engine, p *OutcomeSystem, vm outcome.VM) bool {
	if !e.known[vm] {
		r.omitted++
		return false
	}
	var size int64
	if _, ok := e.series[seriesKey{p.Spec.Name, vm}]; !ok {
		size = e.size(p)
	}
	if r.rows < 1 || r.bytes < size {
		r.omitted++
		return false
	}
	r.rows--
	r.bytes -= size
	return true
}

// notice describes what a frame leaves out.
func (r *room) notice() string {
	if r.omitted == 0 {
		return "all outcomes of all VMs are shown again"
	}
	return fmt.Sprintf("%d outcomes of VMs are not shown, because there is room for %d VMs and for histories of %d MiB: "+
		"observe fewer VMs, or use fewer bins or a shorter history", r.omitted, MaxVMs, MaxHistories>>20)
}

// size returns an upper bound of the bytes of an outcome's series. It needs one word for each edge
// of its bins and window, and the equivalent of ten windows for the present window and the mean.
// If the diagram calculates it, it needs five words more for each window, in bins as wide as the
// widest behind it.
func (e *Engine) size(p *OutcomeSystem) int64 {
	const word, present = 8, 10
	windows := int64(e.system.History)
	bytes := int64(p.Spec.Bins+1) * (windows + present) * word
	if part, ok := e.composed[p.Spec.Name]; ok {
		bins := min(dq.MaxBins, p.Spec.DMax()/part.width+1)
		bytes += int64(bins+1) * (5*windows + present) * word
	}
	return bytes
}
