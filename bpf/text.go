package bpf

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/beamscope/beamscope/internal/beam/atom"
)

// A textReader reads and caches the programs' texts by their hashes. One goroutine at a time may
// use it.
type textReader struct {
	seen  *ebpf.Map // texts
	parts *ebpf.Map // parts of the texts of functions and ports at stand-in functions
	known map[uint64]string
}

// text returns the text of a hash, or "" if the programs had no room for it.
func (r *textReader) text(hash uint64) string {
	if t, ok := r.known[hash]; ok {
		return t
	}
	text, ok := r.seenText(hash)
	if !ok {
		return r.composedText(hash)
	}
	return r.remember(hash, text)
}

// seenText returns a text that a program has read.
func (r *textReader) seenText(hash uint64) (text string, ok bool) {
	var t kernelGroupText
	if err := r.seen.Lookup(hash, &t); err != nil {
		return "", false
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&t.Text[0])), len(t.Text))
	cut, _, _ := bytes.Cut(raw, []byte{0})
	return string(cut), true
}

// remember caches the text of a hash, and returns it.
func (r *textReader) remember(hash uint64, text string) string {
	if r.known == nil || len(r.known) >= textsMost {
		r.known = make(map[uint64]string)
	}
	r.known[hash] = text
	return text
}

// composedText returns the text of a function or port at a stand-in function, composed from its
// parts, or "" if a part is missing.
func (r *textReader) composedText(hash uint64) string {
	if r.parts == nil {
		return ""
	}
	var t kernelTextParts
	if err := r.parts.Lookup(hash, &t); err != nil {
		return ""
	}
	if t.Module == 0 {
		return r.remember(hash, fmt.Sprintf("#Port<0.%d>", t.Number))
	}
	module, known := r.seenText(t.Module)
	function, alsoKnown := r.seenText(t.Function)
	if !known || !alsoKnown {
		return ""
	}
	return r.remember(hash, functionText(module, function, t.Number))
}

// functionText returns the text that a probe would report for a function. The kernel does not know
// the VM's release: maybe and else are written without quotes.
func functionText(module, function string, arity uint64) string {
	text := fmt.Sprintf("%s:%s/%d", atom.Write(module, false), atom.Write(function, false), arity)
	return text[:min(len(text), textMost)] // like those that the programs read
}
