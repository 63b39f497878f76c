package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The layout of a ring, in words of 8 bytes counted from 0. The Erlang application has the
// same in erlang/beamscope/src/beamscope_ring.hrl, counted from 1.
const (
	wordSize = 8

	magic1  = 0x62656D73636F70
	magic2  = 0x72696E672D3031
	version = 1

	wordVersion   = 2
	wordWords     = 3
	wordRings     = 4
	wordLogSlots  = 5
	wordTexts     = 6
	wordMaxTexts  = 7
	wordSlots     = 8
	wordUnit      = 9
	wordPID       = 10
	wordBirth     = 11
	wordProbes    = 12
	wordReady     = 15
	headerWords   = 16
	wordControl   = 32
	wordTextCount = 48
	wordHeads     = 64
	headStride    = 16

	maxRings    = 255
	maxTexts    = 4096
	minLogSlots = 8
	maxLogSlots = 24

	textWords = 38
	textReady = 1 << 8

	recordWords = 3
	recordSize  = recordWords * wordSize

	lapBits   = 7
	lapMask   = 1<<lapBits - 1
	lapShift  = 52
	textShift = 40
	textMask  = 1<<12 - 1
	timeBits  = 40
	timeMask  = 1<<timeBits - 1
	kindShift = 50
	kindMask  = 3
	spanMask  = 1<<kindShift - 1

	classShift = 46
	ringShift  = 38
	slotMask   = 1<<ringShift - 1
	noRing     = 255

	sampleShift  = 43
	explainShift = 27
	leaseMask    = 1<<27 - 1
	leaseShift   = 27 // 2^27 ns, about 134 ms
)

// ErrLayout says that memory which looks like a ring is none that this package reads.
var ErrLayout = errors.New("not a ring of a known layout")

// A header says where in the memory of a ring things are, in words.
type header struct {
	words    uint64 // in all
	rings    int
	logSlots uint
	texts    uint64
	slots    uint64
	pid      int   // of the VM, in its own PID namespace
	birth    int64 // nanoseconds of the VM's CLOCK_MONOTONIC
	probes   bool  // spans fire the VM's probes where they are to be explained
}

// parseHeader reads the first words of a ring. It is the VM's memory, so nothing in it is
// believed that does not fit together.
func parseHeader(data []byte) (header, error) {
	if len(data) < headerWords*wordSize {
		return header{}, fmt.Errorf("%w: %d bytes", ErrLayout, len(data))
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(data[i*wordSize:]) }
	switch {
	case word(0) != magic1 || word(1) != magic2:
		return header{}, fmt.Errorf("%w: it does not begin as one", ErrLayout)
	case word(wordReady) != 1:
		return header{}, fmt.Errorf("%w: it is not ready", ErrLayout)
	case word(wordVersion) != version:
		return header{}, fmt.Errorf("%w: version %d; this beamscope reads version %d", ErrLayout, word(wordVersion), version)
	case word(wordUnit) != 1e9:
		return header{}, fmt.Errorf("%w: its clock counts %d a second", ErrLayout, word(wordUnit))
	case word(wordRings) < 1 || word(wordRings) > maxRings,
		word(wordLogSlots) < minLogSlots || word(wordLogSlots) > maxLogSlots,
		word(wordMaxTexts) != maxTexts:
		return header{}, fmt.Errorf("%w: %d rings of 2^%d slots, %d texts", ErrLayout, word(wordRings), word(wordLogSlots), word(wordMaxTexts))
	case word(wordPID) == 0 || word(wordPID) > 1<<30, word(wordBirth) >= 1<<59:
		return header{}, fmt.Errorf("%w: process %d", ErrLayout, word(wordPID))
	}
	h := header{
		words:    word(wordWords),
		rings:    int(word(wordRings)),
		logSlots: uint(word(wordLogSlots)),
		texts:    word(wordTexts) - 1,
		slots:    word(wordSlots) - 1,
		pid:      int(word(wordPID)),
		birth:    int64(word(wordBirth)),
		probes:   word(wordProbes) == 1,
	}
	heads := uint64(wordHeads + h.rings*headStride)
	if h.texts < heads || h.texts > heads+2*headStride ||
		h.slots < h.texts+maxTexts*textWords || h.slots > h.texts+maxTexts*textWords+headStride ||
		h.words != h.slots+uint64(h.rings)<<h.logSlots*recordWords {
		return header{}, fmt.Errorf("%w: its parts do not follow each other", ErrLayout)
	}
	return h, nil
}

// headsEnd is the number of words up to the end of the heads.
func (h header) headsEnd() int { return wordHeads + h.rings*headStride }

// slotsOfRing is the number of slots of one ring.
func (h header) slotsOfRing() uint64 { return 1 << h.logSlots }
