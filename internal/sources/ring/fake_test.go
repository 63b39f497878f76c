package ring

import (
	"encoding/binary"
	"io"
	"sync/atomic"
	"testing"
)

// A fakeMemory is an array of words at an address. Others write to it while it is read.
type fakeMemory struct {
	address uint64
	words   []uint64
}

func (m *fakeMemory) ReadAt(data []byte, address int64) (int, error) {
	at := uint64(address) - m.address
	if uint64(address) < m.address || at+uint64(len(data)) > uint64(len(m.words))*wordSize {
		return 0, io.EOF
	}
	for i := 0; i < len(data); i += wordSize {
		binary.LittleEndian.PutUint64(data[i:], atomic.LoadUint64(&m.words[(at+uint64(i))/wordSize]))
	}
	return len(data), nil
}

func (m *fakeMemory) WriteAt(data []byte, address int64) (int, error) {
	at := uint64(address) - m.address
	atomic.StoreUint64(&m.words[at/wordSize], binary.LittleEndian.Uint64(data))
	return len(data), nil
}

// A fakeRing is a ring such as the Erlang application makes.
type fakeRing struct {
	fakeMemory
	header header
}

func newFakeRing(rings int, logSlots uint) *fakeRing {
	texts := uint64(wordHeads + rings*headStride)
	slots := texts + maxTexts*textWords
	all := uint64(rings) << logSlots
	h := header{
		words: slots + all*recordWords + all,
		rings: rings, logSlots: logSlots, texts: texts, slots: slots, extensions: slots + all*recordWords, pid: 7, birth: 1,
	}
	r := &fakeRing{fakeMemory{address: 1 << 20, words: make([]uint64, h.words)}, h}
	for i, v := range map[int]uint64{
		0: magic1, 1: magic2, wordVersion: version, wordWords: h.words, wordRings: uint64(rings), wordLogSlots: uint64(logSlots),
		wordTexts: texts + 1, wordMaxTexts: maxTexts, wordSlots: slots + 1, wordExtensions: h.extensions + 1,
		wordUnit: 1e9, wordPID: 7, wordBirth: 1, wordReady: 1,
	} {
		r.words[i] = v
	}
	for i := range rings {
		r.words[wordHeads+i*headStride] = 1<<logSlots - 1
	}
	for at := texts + wordMarker; at < slots; at += textWords {
		r.words[at] = marker<<markerPosition | at
	}
	return r
}

// take takes a slot.
func (r *fakeRing) take(ring int) uint64 {
	return atomic.AddUint64(&r.words[wordHeads+ring*headStride], 1)
}

// extension is the word number that means the extension of a slot in put.
const extension = recordWords

// put writes one word of a record, or its extension.
func (r *fakeRing) put(ring int, slot uint64, word int, value uint64) {
	index := uint64(ring)<<r.header.logSlots | slot&(1<<r.header.logSlots-1)
	at := r.header.slots + index*recordWords + uint64(word)
	if word == extension {
		at = r.header.extensions + index
	}
	atomic.StoreUint64(&r.words[at], (slot>>r.header.logSlots&lapMask)<<lapShift|value)
}

// start records the start of a span of class 5.
func (r *fakeRing) start(ring int, text uint16, at int64) SpanID {
	slot := r.take(ring)
	r.put(ring, slot, 0, uint64(text)<<textShift|uint64(at)&timeMask)
	r.put(ring, slot, 1, uint64(start)<<kindShift|5<<classShift|noRing<<ringShift)
	return SpanID(5<<classShift | uint64(ring)<<ringShift | slot)
}

// child records the start of a span with a parent.
func (r *fakeRing) child(ring int, parent SpanID, text uint16, at int64) SpanID {
	slot := r.take(ring)
	r.put(ring, slot, 0, uint64(text)<<textShift|uint64(at)&timeMask)
	r.put(ring, slot, 1, uint64(start)<<kindShift|uint64(parent))
	return SpanID(uint64(parent)&^(1<<classShift-1) | uint64(ring)<<ringShift | slot)
}

// startOf records the start of a span of class 5 and its process.
func (r *fakeRing) startOf(ring int, text uint16, at int64, process uint64) SpanID {
	slot := r.take(ring)
	r.put(ring, slot, extension, process)
	r.put(ring, slot, 0, uint64(text)<<textShift|uint64(at)&timeMask)
	r.put(ring, slot, 1, uint64(start)<<kindShift|extended|5<<classShift|noRing<<ringShift)
	return SpanID(5<<classShift | uint64(ring)<<ringShift | slot)
}

// startExplained records the start of an explained span.
func (r *fakeRing) startExplained(ring int, text uint16, at int64) SpanID {
	slot := r.take(ring)
	r.put(ring, slot, 0, uint64(text)<<textShift|uint64(at)&timeMask)
	r.put(ring, slot, 1, uint64(explainedStart)<<kindShift|5<<classShift|noRing<<ringShift)
	return SpanID(5<<classShift | uint64(ring)<<ringShift | slot)
}

// endExplained records the end of an explained span.
func (r *fakeRing) endExplained(ring int, s SpanID, text uint16, at int64) {
	slot := r.take(ring)
	r.put(ring, slot, extension, explained)
	r.put(ring, slot, 0, uint64(text)<<textShift|uint64(at)&timeMask)
	r.put(ring, slot, 1, uint64(success)<<kindShift|extended|uint64(s))
}

// end records that a span has succeeded.
func (r *fakeRing) end(ring int, s SpanID, text uint16, at int64) {
	slot := r.take(ring)
	r.put(ring, slot, 0, uint64(text)<<textShift|uint64(at)&timeMask)
	r.put(ring, slot, 1, uint64(success)<<kindShift|uint64(s))
}

// fail records that a span has failed, with a class or 0.
func (r *fakeRing) fail(ring int, s SpanID, class, name uint16, at int64) {
	slot := r.take(ring)
	k := uint64(failure) << kindShift
	if class != 0 {
		k |= extended
		r.put(ring, slot, extension, uint64(class))
	}
	r.put(ring, slot, 0, uint64(name)<<textShift|uint64(at)&timeMask)
	r.put(ring, slot, 1, k|uint64(s))
}

func (r *fakeRing) open(t testing.TB) *reader {
	t.Helper()
	reader, err := open(r, r.address, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return reader
}
