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

// renew writes what is wanted from now on. silent reports whether the lease had run out,
// or was taken back, so that spans since then may not have been recorded. Another
// collector's wishes stay in force for as long as it renews them.
func (r *reader) renew(l *lease, c control, now int64) (silent bool, err error) {
	var data [wordSize]byte
	if err := r.readWords(data[:], wordControl); err != nil {
		return false, err
	}
	found := binary.LittleEndian.Uint64(data[:])
	silent = l.written != 0 && (found == 0 || now >= l.until)
	word := c.word(now + r.offset)
	if found != 0 && found != l.written {
		word |= found &^ leaseMask // another collector's
	}
	binary.LittleEndian.PutUint64(data[:], word)
	if _, err := r.memory.WriteAt(data[:], int64(r.address+wordControl*wordSize)); err != nil {
		return silent, fmt.Errorf("write the lease of a ring: %w", err)
	}
	l.written = word
	l.until = ((now+r.offset)>>leaseShift+leaseUnits)<<leaseShift - r.offset
	return silent, nil
}
