package bpf

import (
	"bytes"
	"unsafe"

	"github.com/cilium/ebpf"
)

// A textReader reads the texts that the programs have by their hashes, and remembers
// them. One goroutine at a time may use it.
type textReader struct {
	seen  *ebpf.Map
	known map[uint64]string
}

// text returns the text of a hash; "" where it found no room.
func (r *textReader) text(hash uint64) string {
	if t, ok := r.known[hash]; ok {
		return t
	}
	var t kernelGroupText
	if err := r.seen.Lookup(hash, &t); err != nil {
		return ""
	}
	if r.known == nil || len(r.known) >= textsMost {
		r.known = make(map[uint64]string)
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&t.Text[0])), len(t.Text))
	text, _, _ := bytes.Cut(raw, []byte{0})
	r.known[hash] = string(text)
	return r.known[hash]
}
