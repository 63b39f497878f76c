package ring

import (
	"encoding/binary"
	"fmt"
	"math"
)

// leaseUnits is the duration of a lease when it is written, about 1.07 s in units of 2^27 ns. It
// must be renewed before it ends.
const leaseUnits = 8

const (
	// maxLease is the maximum duration of a lease in units. Programs ignore longer ones.
	maxLease = 64

	// firstLease is the minimum duration, in nanoseconds, of the lease that a program writes itself
	// when it makes its ring.
	firstLease = 39 << leaseShift
)

// A control is what a collector requests from the programs that record spans.
type control struct {
	sample  uint16 // bit set of the classes of spans to record
	explain uint16 // bit set of the classes whose spans are shown to programs in the kernel too
	process bool   // record the processes of starts
}

// word returns the control word with a lease that begins at a time of the VM's clock.
func (c control) word(now int64) uint64 {
	word := uint64(c.sample)<<sampleShift | uint64(c.explain)<<explainShift | (uint64(now)>>leaseShift+leaseUnits)&leaseMask
	if c.process {
		word |= withProcess
	}
	return word
}

// A lease contains the control words that a collector keeps renewing in all rings.
type lease struct {
	written []uint64 // last words written, by ring; 0 for none
	until   int64    // end of the first lease to expire, nanoseconds of CLOCK_MONOTONIC
}

// renew writes the requests that apply from now on. It reports whether spans of any ring may not have
// been recorded since the last renewal, because the lease had expired or was revoked. Another
// collector's requests stay in force as long as it renews them.
func (r *reader) renew(l *lease, c control, now int64) (expired bool, err error) {
	if err := r.readWords(r.controls, wordHeads); err != nil {
		return false, err
	}
	if l.written == nil {
		l.written = make([]uint64, r.header.rings)
	}
	before := l.until
	l.until = math.MaxInt64
	for ring := range l.written {
		found := r.control(ring)
		if found >= 1<<controlBits {
			return false, fmt.Errorf("%w: the control word of ring %d is %#x", ErrBroken, ring, found)
		}
		expired = expired || l.written[ring] != 0 && (found == 0 || now >= before)
		word, until := r.extend(found, l.written[ring], c, now)
		if err := r.writeWord(wordControl(ring), word); err != nil {
			return expired, fmt.Errorf("write the lease of a ring: %w", err)
		}
		l.written[ring], l.until = word, min(l.until, until)
	}
	return expired, nil
}

// extend returns the control word to write after found, and when its lease ends.
func (r *reader) extend(found, written uint64, c control, now int64) (word uint64, until int64) {
	word, end := c.word(now+r.offset), (now+r.offset)>>leaseShift+leaseUnits
	if found != 0 && found != written {
		word |= found &^ leaseMask // the other collector's requests
	}
	if left := (found - uint64(now+r.offset)>>leaseShift) & leaseMask; leaseUnits < left && left <= maxLease {
		word, end = word&^leaseMask|found&leaseMask, end-leaseUnits+int64(left) // a collector never shortens a lease
	}
	return word, end<<leaseShift - r.offset
}

// control returns the control word of a ring at the last read.
func (r *reader) control(ring int) uint64 {
	return binary.LittleEndian.Uint64(r.controls[(wordControl(ring)-wordHeads)*wordSize:])
}

func (r *reader) writeWord(at int, word uint64) error {
	var data [wordSize]byte
	binary.LittleEndian.PutUint64(data[:], word)
	_, err := r.memory.WriteAt(data[:], int64(r.address)+int64(at)*wordSize)
	return err
}

// isNew reports whether all spans started in the VM until now were recorded, and programs in the kernel
// saw none: the lease with which the ring was made has not expired, and no collector explains spans.
func (r *reader) isNew(now int64) bool {
	if age := now - r.born(); age < 0 || age >= firstLease || r.readWords(r.controls, wordHeads) != nil {
		return false
	}
	for ring := range r.header.rings {
		control := r.control(ring)
		left := (control - uint64(r.header.birth+firstLease)>>leaseShift) & leaseMask // beyond the first lease
		if left > maxLease || uint16(control>>explainShift) != 0 {
			return false
		}
	}
	return true
}
