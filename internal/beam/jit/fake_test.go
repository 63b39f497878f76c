package jit

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"syscall"
	"testing"

	"github.com/beamscope/beamscope/usdt"
)

// A fake is the memory of a process: regions by their addresses.
type fake struct {
	regions map[uint64][]byte
	reads   int
	onRead  func(n int) // called before each read
	ended   bool        // the process has ended
}

func newFake() *fake { return &fake{regions: make(map[uint64][]byte)} }

func (f *fake) ReadAt(data []byte, at int64) (int, error) {
	f.reads++
	if f.onRead != nil {
		f.onRead(f.reads)
	}
	if f.ended {
		return 0, io.EOF
	}
	for start, region := range f.regions {
		if uint64(at) >= start && uint64(at)+uint64(len(data)) <= start+uint64(len(region)) {
			return copy(data, region[uint64(at)-start:]), nil
		}
	}
	return 0, syscall.EIO // as the kernel does for unmapped memory
}

// A list is a fake list of code such as a VM writes.
type list struct {
	*fake
	data    usdt.Range
	entries []uint64
}

const (
	fakeData  = 0x10000
	fakeHeap  = 0x100000
	fakeStep  = 0x10000 // between blocks
	fakeCode  = 0x7f0000000000
	fakeSlot  = 16 // words of data in front of the descriptor
	codeBytes = 0x1000
)

// newList makes a list of a number of modules with three functions each. The last entry is the
// emulator's block.
func newList(modules int) *list {
	l := &list{fake: newFake(), data: usdt.Range{Start: fakeData, End: fakeData + 0x1000}}
	l.regions[fakeData] = make([]byte, 0x1000)
	for n := range modules {
		l.add(fmt.Sprintf("m%d", n), block(fmt.Sprintf("m%d", n), fakeCode+uint64(n)*codeBytes))
	}
	emulator := make([]byte, headSize)
	l.add("emulator", emulator)
	l.link()
	return l
}

func (l *list) add(_ string, data []byte) {
	at := uint64(fakeHeap + len(l.entries)*fakeStep)
	entry := make([]byte, entrySize)
	le := binary.LittleEndian
	le.PutUint64(entry[16:], at+0x100)
	le.PutUint64(entry[24:], uint64(len(data)))
	l.regions[at], l.regions[at+0x100] = entry, data
	l.entries = append(l.entries, at)
}

// link links the entries in order.
func (l *list) link() {
	le := binary.LittleEndian
	for i, at := range l.entries {
		var next, previous uint64 = 0, 0xdeadbeef // OTP 25 leaves the first one uninitialized
		if i > 0 {
			previous = l.entries[i-1]
		}
		if i+1 < len(l.entries) {
			next = l.entries[i+1]
		}
		le.PutUint64(l.regions[at][0:], next)
		le.PutUint64(l.regions[at][8:], previous)
	}
	l.describe(fakeSlot, l.entries[0])
}

// describe writes a descriptor at a word of the data.
func (l *list) describe(word int, first uint64) {
	data := l.regions[fakeData][word*wordSize:]
	binary.LittleEndian.PutUint32(data, 1)
	binary.LittleEndian.PutUint64(data[16:], first)
}

// block returns the block of a module with three functions and line numbers.
func block(name string, base uint64) []byte {
	le := binary.LittleEndian
	data := make([]byte, headSize, 256)
	le.PutUint32(data, moduleBlock)
	le.PutUint64(data[8:], base)
	le.PutUint32(data[16:], 3)
	le.PutUint32(data[20:], codeBytes)
	le.PutUint16(data[24:], uint16(len(name)+1))
	data = append(data, make([]byte, len(name)+1)...)
	copy(data[headName:], name)
	for n := range 3 {
		function := fmt.Sprintf("%s:f%d/%d", name, n, n)
		if n == 2 {
			function += prologue
		}
		r := make([]byte, rangeSize+len(function)+1)
		le.PutUint32(r[0:], uint32(n)*0x100)
		le.PutUint32(r[4:], uint32(n)*0x100+0x80)
		le.PutUint32(r[8:], 2) // lines
		le.PutUint16(r[12:], uint16(len(function)+1))
		copy(r[rangeName:], function)
		data = append(data, r...)
		for range 2 {
			const file = "a.erl"
			line := make([]byte, lineSize+len(file)+1)
			le.PutUint16(line[8:], uint16(len(file)+1))
			data = append(data, line...)
		}
	}
	return data
}

func (l *list) reader(t testing.TB) *Reader {
	t.Helper()
	at, err := find(memory{l}, []usdt.Range{l.data})
	if err != nil {
		t.Fatal(err)
	}
	return &Reader{mem: memory{l}, descriptor: at}
}

// drop removes a module from the list and frees its memory, as purging its code does.
func (l *list) drop(i int) {
	at := l.entries[i]
	delete(l.regions, at)
	delete(l.regions, at+0x100)
	l.entries = slices.Delete(l.entries, i, i+1)
	l.link()
}
