package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The layout of a ring, in words of 8 bytes counted from 0. erlang/beamscope/src/beamscope_ring.hrl
// contains the same layout, counted from 1.
const (
	wordSize = 8

	magic1  = 0x62656D73636F70
	magic2  = 0x72696E672D3035
	version = 5

	// magic2Digits is the number of low bits of the second word that contain the version, as two
	// digits.
	magic2Digits = 16

	wordVersion    = 2
	wordWords      = 3
	wordRings      = 4
	wordLogSlots   = 5
	wordTexts      = 6
	wordMaxTexts   = 7
	wordSlots      = 8
	wordUnit       = 9
	wordPID        = 10
	wordBirth      = 11
	wordProbes     = 12
	wordExtensions = 13
	wordReady      = 15
	headerWords    = 16
	wordTextCount  = 48
	wordHeads      = 64
	headStride     = 16
	controlOfHead  = 1 // distance in words from the head of a ring to its control word

	// Values of wordProbes: how programs in the kernel see explained spans.
	withProbes = 1
	withCalls  = 2

	maxRings    = 255
	maxTexts    = 4096
	minLogSlots = 8
	maxLogSlots = 24

	textWords = 39
	textReady = 1 << 8
	noRoom    = maxTexts - 1 // the number of a text that the table had no room for

	// The last word of each entry in the table of texts is a marker: marker, and below it the position
	// of this word in the array. So a part of the table shows where the ring begins.
	wordMarker     = textWords - 1
	marker         = 0x62656D73
	markerPosition = 24 // bits

	recordWords = 2
	recordSize  = recordWords * wordSize

	lapBits   = 7
	lapMask   = 1<<lapBits - 1
	lapShift  = 52
	textShift = 40
	textMask  = 1<<12 - 1
	timeBits  = 40
	timeMask  = 1<<timeBits - 1
	kindShift = 49
	kindMask  = 3
	extended  = 1 << (kindShift + 2)
	spanMask  = 1<<kindShift - 1
	explained = 1 << 12 // in the extension of an end

	classShift = 45
	ringShift  = 37
	slotMask   = 1<<ringShift - 1
	noRing     = 255

	controlBits  = 59
	sampleShift  = 43
	explainShift = 27
	withProcess  = 1 << 26
	leaseMask    = 1<<26 - 1
	leaseShift   = 27 // 2^27 ns, about 134 ms
)

// ErrLayout means that memory looks like a ring, but has a layout that this package does not read.
var ErrLayout = errors.New("not a ring of a known layout")

// errNotReady means that a ring is being made.
var errNotReady = errors.New("it is not ready")

// A header contains the positions of the parts of a ring in its memory, in words.
type header struct {
	words      uint64 // total number
	rings      int
	logSlots   uint
	texts      uint64
	slots      uint64
	extensions uint64
	pid        int   // of the VM, in its own PID namespace
	birth      int64 // nanoseconds of the VM's CLOCK_MONOTONIC
	probes     bool  // explained spans fire the VM's probes
	calls      bool  // explained spans call a function of the VM, for programs that know its build
}

// parseHeader parses the first words of a ring. The VM may have written anything there, so
// inconsistent values are refused.
func parseHeader(data []byte) (header, error) {
	if len(data) < headerWords*wordSize {
		return header{}, fmt.Errorf("%w: %d bytes", ErrLayout, len(data))
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(data[i*wordSize:]) }
	switch {
	case !isMagic(word(0), word(1)):
		return header{}, fmt.Errorf("%w: it does not begin as one", ErrLayout)
	case word(wordReady) != 1:
		return header{}, fmt.Errorf("%w: %w", ErrLayout, errNotReady)
	case word(wordVersion) != version || word(1) != magic2:
		return header{}, fmt.Errorf("%w: it is of version %d, and this beamscope reads version %d. Use the application beamscope of the same release, and restart the VM",
			ErrLayout, word(wordVersion), version)
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
		words:      word(wordWords),
		rings:      int(word(wordRings)),
		logSlots:   uint(word(wordLogSlots)),
		texts:      word(wordTexts) - 1,
		slots:      word(wordSlots) - 1,
		extensions: word(wordExtensions) - 1,
		pid:        int(word(wordPID)),
		birth:      int64(word(wordBirth)),
		probes:     word(wordProbes) == withProbes,
		calls:      word(wordProbes) == withCalls,
	}
	all := uint64(h.rings) << h.logSlots
	heads := uint64(wordHeads + h.rings*headStride)
	if h.texts < heads || h.texts > heads+2*headStride ||
		h.slots < h.texts+maxTexts*textWords || h.slots > h.texts+maxTexts*textWords+headStride ||
		h.extensions != h.slots+all*recordWords || h.words != h.extensions+all {
		return header{}, fmt.Errorf("%w: its parts do not follow each other", ErrLayout)
	}
	return h, nil
}

// isMagic reports whether a ring of any version begins with these words.
func isMagic(first, second uint64) bool {
	return first == magic1 && second>>magic2Digits == magic2>>magic2Digits
}

// wordHead returns the position of a ring's head, and wordControl that of its control word.
func wordHead(ring int) int    { return wordHeads + ring*headStride }
func wordControl(ring int) int { return wordHead(ring) + controlOfHead }

// headsEnd is the number of words up to the end of the heads.
func (h header) headsEnd() int { return wordHeads + h.rings*headStride }

// slotsOfRing is the number of slots of one ring.
func (h header) slotsOfRing() uint64 { return 1 << h.logSlots }
