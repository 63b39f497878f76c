package scope

import (
	"fmt"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/outcome"
)

// Bounds of what an engine holds, whatever a batch or a recording asks for.
const (
	MaxVMs       = 256     // of a frame; several times what a live run observes
	MaxRows      = 1 << 16 // probes of a frame, each VM counted by itself
	MaxHistories = 1 << 30 // bytes of all histories together
)

// A room says how much of an engine's memory is still free in a window.
type room struct {
	rows    int
	bytes   int64
	omitted int // rows that did not fit
}

// room returns what the series that there are leave free.
func (e *Engine) room() room {
	r := room{rows: MaxRows, bytes: MaxHistories}
	for key := range e.series {
		r.bytes -= e.size(&e.system.Probes[e.byName[key.name]])
	}
	return r
}

// take takes the memory of a row, and reports whether there was enough.
func (r *room) take(e *Engine, p *ProbeSystem, vm outcome.VM) bool {
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

// notice says what a frame leaves out.
func (r *room) notice() string {
	if r.omitted == 0 {
		return "all outcomes of all VMs are shown again"
	}
	return fmt.Sprintf("%d outcomes of VMs are not shown, because there is room for %d VMs and for histories of %d MiB: "+
		"observe fewer VMs, or use fewer bins or a shorter history", r.omitted, MaxVMs, MaxHistories>>20)
}

// size returns an upper bound of the bytes that the series of a probe takes: for each
// edge of its bins a word a window, and as much again for the present and for the mean
// as ten windows; where the diagram calculates it, five words a window more, in bins as
// wide as the widest behind it.
func (e *Engine) size(p *ProbeSystem) int64 {
	const word, present = 8, 10
	windows := int64(e.system.History)
	bytes := int64(p.Spec.Bins+1) * (windows + present) * word
	if part, ok := e.composed[p.Spec.Name]; ok {
		bins := min(dq.MaxBins, p.Spec.DMax()/max(part.width, time.Nanosecond)+1)
		bytes += int64(bins+1) * (5*windows + present) * word
	}
	return bytes
}
