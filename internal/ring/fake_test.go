package ring

import (
	"encoding/binary"
	"io"
	"sync/atomic"
	"testing"
)

// A fakeMemory is an array of words at an address, read while others write to it.
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

// A fakeRing is a ring as the Erlang application makes one.
type fakeRing struct {
	fakeMemory
	header header
}

func newFakeRing(rings int, logSlots uint) *fakeRing {
	texts := uint64(wordHeads + rings*headStride)
	slots := texts + maxTexts*textWords
	h := header{
		words: slots + uint64(rings)<<logSlots*recordWords,
		rings: rings, logSlots: logSlots, texts: texts, slots: slots, pid: 7, birth: 1,
	}
	r := &fakeRing{fakeMemory{address: 1 << 20, words: make([]uint64, h.words)}, h}
	for i, v := range map[int]uint64{
		0: magic1, 1: magic2, wordVersion: version, wordWords: h.words, wordRings: uint64(rings), wordLogSlots: uint64(logSlots),
		wordTexts: texts + 1, wordMaxTexts: maxTexts, wordSlots: slots + 1, wordUnit: 1e9, wordPID: 7, wordBirth: 1, wordReady: 1,
	} {
		r.words[i] = v
	}
	for i := range rings {
		r.words[wordHeads+i*headStride] = 1<<logSlots - 1
	}
	return r
}

// take takes a slot.
func (r *fakeRing) take(ring int) uint64 {
	return atomic.AddUint64(&r.words[wordHeads+ring*headStride], 1)
}

// put writes one of the words of a record.
func (r *fakeRing) put(ring int, slot uint64, word int, value uint64) {
	at := r.header.slots + (uint64(ring)<<r.header.logSlots|slot&(1<<r.header.logSlots-1))*recordWords
	atomic.StoreUint64(&r.words[at+uint64(word)], (slot>>r.header.logSlots&lapMask)<<lapShift|value)
}

// start records the start of a span of class 5 at a time.
func (r *fakeRing) start(ring int, text uint16, at int64) SpanID {
	slot := r.take(ring)
	r.put(ring, slot, 0, uint64(text)<<textShift|uint64(at)&timeMask)
	r.put(ring, slot, 1, uint64(start)<<kindShift|5<<classShift|noRing<<ringShift)
	r.put(ring, slot, 2, 42)
	return SpanID(5<<classShift | uint64(ring)<<ringShift | slot)
}

// end records that it succeeded.
func (r *fakeRing) end(ring int, s SpanID, text uint16, at int64) {
	slot := r.take(ring)
	r.put(ring, slot, 0, uint64(text)<<textShift|uint64(at)&timeMask)
	r.put(ring, slot, 1, uint64(success)<<kindShift|uint64(s))
}

func (r *fakeRing) open(t testing.TB) *reader {
	t.Helper()
	reader, err := open(r, r.address, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return reader
}
