package ring

import (
	"encoding/binary"
	"fmt"
	"math"
)

// leaseUnits is the duration of a lease when it is written, about 1.07 s in units of 2^27 ns. It
// must be renewed before it ends.
const leaseUnits = 8

// spread is the number of units by which a lease may end later if several collectors renew it. Up to
// that many collectors can tell their own words from those of others.
const spread = 8

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

	wanted   uint64 // this collector's requests, without the lease
	dropped  uint64 // requests that it has withdrawn
	dropping int64  // until then, dropped requests are not kept
	review   int64  // when others' requests to explain are dropped again
}

const (
	// dropTime is the time for which withdrawn requests are not kept as those of another collector.
	// Others that kept them have dropped them by then.
	dropTime = 2 * renewal

	// reviewPeriod is the interval at which a collector drops requests to explain that are not its
	// own. If another collector still has them, it writes them again within a renewal. If it has
	// ended, other collectors would keep them forever.
	reviewPeriod = 30e9
)

// keeps returns which of the requests found in a control word are to be kept. The collector wrote a
// word there before, and wants wanted from now on.
func (l *lease) keeps(found, written uint64) uint64 {
	if found == 0 || found == written {
		return 0
	}
	return found &^ leaseMask &^ l.dropped
}

// want records the collector's requests from now on.
func (l *lease) want(wanted uint64, now int64) {
	if now >= l.dropping {
		l.dropped = 0
	}
	if gone := l.wanted &^ wanted; gone != 0 {
		l.dropped |= gone
		l.dropping = now + dropTime
	}
	l.wanted = wanted
	l.dropped &^= wanted
	switch {
	case l.review == 0:
		l.review = now + reviewPeriod
	case now >= l.review:
		l.dropped |= 0xffff << explainShift &^ wanted
		l.review = now + reviewPeriod
	}
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
	l.want(c.word(0)&^leaseMask, now)
	for ring := range l.written {
		found := r.control(ring)
		if found >= 1<<controlBits {
			return false, fmt.Errorf("%w: the control word of ring %d is %#x", ErrBroken, ring, found)
		}
		expired = expired || l.written[ring] != 0 && (found == 0 || now >= before)
		word, until := r.extend(found, l.written[ring], l.wanted|l.keeps(found, l.written[ring]), now)
		if err := r.writeWord(wordControl(ring), word); err != nil {
			return expired, fmt.Errorf("write the lease of a ring: %w", err)
		}
		l.written[ring], l.until = word, min(l.until, until)
	}
	return expired, nil
}

// extend returns the control word with requests to write after found, and the time until which this
// collector may count on a lease. It never writes another collector's word again, so that the other
// one notices that its word was replaced: the lease ends a unit later instead. After spread units the
// end starts again at the first unit, so leases do not grow. No collector counts on a later end than
// that first unit.
func (r *reader) extend(found, written, requests uint64, now int64) (word uint64, until int64) {
	unit := uint64(now+r.offset) >> leaseShift
	end := unit + leaseUnits
	if first := uint64(r.header.birth+firstLease) >> leaseShift; first > end && first-unit <= maxLease-spread {
		end = first // of the lease with which the ring was made, see isNew
	}
	until = int64(end)<<leaseShift - r.offset
	later := (found - end) & leaseMask
	if later > spread {
		later = 0 // it has ended, or is longer than any that collectors write
	}
	if word = requests | (end+later)&leaseMask; word == found && found != written {
		word = requests | (end+(later+1)%(spread+1))&leaseMask
	}
	return word, until
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

// isNew reports whether all spans started in the VM until now were recorded: the lease with which the
// ring was made has not expired. explained reports that a collector has spans explained.
func (r *reader) isNew(now int64) (isNew, explained bool) {
	if age := now - r.born(); age < 0 || age >= firstLease || r.readWords(r.controls, wordHeads) != nil {
		return false, false
	}
	for ring := range r.header.rings {
		control := r.control(ring)
		left := (control - uint64(r.header.birth+firstLease)>>leaseShift) & leaseMask // beyond the first lease
		if left > maxLease {
			return false, false
		}
		explained = explained || uint16(control>>explainShift) != 0
	}
	return true, explained
}
