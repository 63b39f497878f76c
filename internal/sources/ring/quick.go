package ring

import (
	"encoding/binary"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A quick counts the usual instances of a row: successes within dMax that end in the window of the
// row's latest start. It counts them as [observed.ended] does, without looking up the plan again.
type quick struct {
	edition uint64 // edition of the observed; after it has changed, the fields are not valid
	window  outcome.Window
	from    int64 // instances that started earlier are not usual
	grid    dq.Grid
	counts  *outcome.Counts
}

// start counts the start of an instance if it is in the window, and reports whether it did.
func (q *quick) start(edition uint64, at int64) bool {
	if q.edition != edition || !q.window.Contains(at) {
		return false
	}
	q.counts.Starts++
	return true
}

// end counts a success if it is usual, and reports whether it did.
func (q *quick) end(edition uint64, start, end int64) bool {
	if q.edition != edition || !q.window.Contains(end) || start < q.from {
		return false
	}
	bin, ok := q.grid.Bin(time.Duration(end - start))
	if !ok {
		return false
	}
	q.counts.Ends++
	q.counts.Successes++
	q.counts.Bins[bin]++
	return true
}

// A batch contains consecutive slots of a ring that were read together.
type batch struct {
	data   []byte
	ring   int
	slot   uint64 // number of the first slot
	lap    uint64 // the same for all of the slots
	now    int64  // present time of the VM's clock
	offset int64  // how far that is ahead of ours
}

// skip removes the first n slots.
func (b *batch) skip(n uint64) { b.data, b.slot = b.data[n*recordSize:], b.slot+n }

// countUsual counts the first records of a batch, up to one that is not usual, and removes them from
// the batch. It counts them as [pairer.add] does, in fewer steps: this is where a collector of a busy VM
// spends its time. Usual records have no extension, are not explained, and belong to spans whose row
// counts quickly and that have a place in the table of their ring.
func (o *observed) countUsual(b *batch) {
	tables := o.pairer.recent
	if b.ring >= len(tables) || len(tables[b.ring].places) == 0 {
		return
	}
	own, edition := &tables[b.ring], o.edition
	usual := b.lap << (lapShift - kindShift - 2) // the second word of a usual record, above its kind
	data, slot, due := b.data, b.slot, own.due
loop:
	for ; len(data) >= recordSize; data, slot = data[recordSize:], slot+1 {
		w0, w1 := binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[wordSize:])
		if w0>>lapShift != b.lap || w1>>(kindShift+2) != usual {
			break
		}
		at, id := widen(int64(w0&timeMask), b.now)-b.offset, SpanID(w1&spanMask)
		switch kind(w1 >> kindShift & kindMask) {
		case start:
			name := uint16(w0 >> textShift & textMask)
			place := &own.places[slot&uint64(len(own.places)-1)]
			if place.id != 0 || !o.rows[name].quick.start(edition, at) {
				break loop
			}
			place.id, place.parent, place.start, place.process, place.name = id.ofStart(b.ring, slot), id.parent(), at, 0, name
			due = min(due, at)
		case success:
			ring := id.ring()
			if ring >= len(tables) || len(tables[ring].places) == 0 {
				break loop
			}
			place := tables[ring].place(id)
			if place.id != id || id == 0 || !o.rows[place.name].quick.end(edition, place.start, at) {
				break loop
			}
			place.id = 0
		default:
			break loop
		}
	}
	own.due = due
	n := slot - b.slot
	o.records += n
	b.skip(n)
}
