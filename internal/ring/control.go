package ring

import (
	"encoding/binary"
	"fmt"
)

// leaseUnits is how long a lease lasts from when it is written, about 1.07 s in units of
// 2^27 ns. It has to be written again before that.
const leaseUnits = 8

// A control is what a collector wants of the programs that record spans.
type control struct {
	sample  uint16 // classes of spans that are recorded, a bit each
	explain uint16 // classes of those that fire the VM's probe instead
}

// word returns the control word for a lease that begins at a time of the VM's clock.
func (c control) word(now int64) uint64 {
	return uint64(c.sample)<<sampleShift | uint64(c.explain)<<explainShift | (uint64(now)>>leaseShift+leaseUnits)&leaseMask
}

// A lease is the control word that a collector keeps up.
type lease struct {
	written uint64 // last, 0 where none was
	until   int64  // when it ends, nanoseconds of CLOCK_MONOTONIC
}

// A hindrance says why spans may not have been recorded since a lease was written.
type hindrance uint8

const (
	none    hindrance = iota
	silence           // the lease had run out, or was taken back
	probes            // another collector had spans fire the VM's probes instead
)

// renew writes what is wanted from now on, and returns what has kept spans from being
// recorded since the last time. Another collector's wishes stay in force for as long as it
// renews them.
func (r *reader) renew(l *lease, c control, now int64) (since hindrance, err error) {
	var data [wordSize]byte
	if err := r.readWords(data[:], wordControl); err != nil {
		return none, err
	}
	found := binary.LittleEndian.Uint64(data[:])
	switch {
	case l.written != 0 && (found == 0 || now >= l.until):
		since = silence
	case uint16(found>>explainShift)&^c.explain != 0:
		since = probes
	}
	word := c.word(now + r.offset)
	if found != 0 && found != l.written {
		word |= found &^ leaseMask // another collector's
	}
	binary.LittleEndian.PutUint64(data[:], word)
	if _, err := r.memory.WriteAt(data[:], int64(r.address+wordControl*wordSize)); err != nil {
		return since, fmt.Errorf("write the lease of a ring: %w", err)
	}
	l.written = word
	l.until = ((now+r.offset)>>leaseShift+leaseUnits)<<leaseShift - r.offset
	return since, nil
}
