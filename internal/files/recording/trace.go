package recording

import (
	"encoding/binary"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// Parts of the first byte of a span: its kind, its mark, whether it has a link, and whether rare
// fields follow.
const (
	kindMask  = 0x0f
	markShift = 4
	markMask  = 0x03
	linkBit   = 6
	rareBit   = 7
)

// The kinds and marks fit into their bits.
const (
	_ = uint(kindMask + 1 - trace.Kinds)
	_ = uint(markMask + 1 - trace.Marks)
)

// minSpan is the least size of a span in a payload, in bytes.
const minSpan = 4

// appendTrace appends the trace of an instance. Each span is encoded by its differences from its
// parent and from the sibling before it. The parent of the root is the instance, and the root has
// the times of the instance.
func (e *Encoder) appendTrace(b []byte, i *outcome.Instance) []byte {
	spans := i.Trace.Spans
	b = binary.AppendUvarint(b, uint64(len(spans)))
	var next [trace.MaxSpans]int64 // for each span, the beginning of its next child
	for n := range spans {
		s := &spans[n]
		rare := s.Other != 0 || s.OtherName != "" || s.Behind != 0 || s.Overtaken != 0 || s.Parts != 0 || s.Detail != "" || s.Reason != ""
		linked := s.Link != trace.Link{}
		b = append(b, byte(s.Kind)|byte(s.Mark)<<markShift|boolByte(linked)<<linkBit|boolByte(rare)<<rareBit)
		b = binary.AppendUvarint(b, uint64(n-1-s.Parent))
		process := i.Process
		if n > 0 {
			process = spans[s.Parent].Process
			b = binary.AppendVarint(b, s.Start-next[s.Parent])
			b = binary.AppendVarint(b, s.End-s.Start)
			next[s.Parent] = s.End
		}
		next[n] = s.Start
		b = binary.AppendVarint(b, int64(s.Process-process))
		b = e.appendName(b, s.Name)
		if rare {
			b = binary.AppendUvarint(b, uint64(s.Other))
			b = e.appendName(b, s.OtherName)
			b = appendAhead(b, s)
			b = binary.AppendVarint(b, int64(s.Parts))
			b = e.appendName(b, s.Detail)
			b = e.appendName(b, s.Reason)
		}
		if linked {
			b = appendLink(b, s)
		}
	}
	return b
}

// appendAhead appends the number of messages that were taken before the waiting one. If some
// overtook it, appendAhead writes the complement of the number that were there first, and then
// the number that overtook it.
func appendAhead(b []byte, s *trace.Span) []byte {
	if s.Overtaken == 0 {
		return binary.AppendVarint(b, int64(s.Behind))
	}
	b = binary.AppendVarint(b, ^int64(s.Behind))
	return binary.AppendUvarint(b, uint64(s.Overtaken))
}

// ahead is the inverse of appendAhead.
func (d *decoder) ahead(s *trace.Span) {
	n := d.int()
	if n < 0 {
		n = ^n
		s.Overtaken = int(d.uint())
	}
	s.Behind = int(n)
}

func appendLink(b []byte, s *trace.Span) []byte {
	b = binary.AppendVarint(b, int64(s.Link.From-s.Process))
	b = binary.AppendVarint(b, int64(s.Link.To-s.Process))
	b = binary.AppendVarint(b, s.Link.Sent-s.Start)
	b = binary.AppendVarint(b, s.Link.Received-s.Link.Sent)
	return append(b, byte(s.Link.Mark))
}

// trace is the inverse of appendTrace. An invalid trace counts as damage.
func (d *decoder) trace(i *outcome.Instance) *trace.Trace {
	t := &trace.Trace{Spans: make([]trace.Span, d.count("spans", trace.MaxSpans, minSpan))}
	var next [trace.MaxSpans]int64
	for n := range t.Spans {
		s := &t.Spans[n]
		flags := d.byte()
		s.Kind, s.Mark = trace.Kind(flags&kindMask), trace.Mark(flags>>markShift&markMask)
		back := d.uint()
		if s.Parent = n - 1 - int(min(back, trace.MaxSpans)); s.Parent < 0 != (n == 0) || n == 0 && back != 0 {
			d.fail("span %d, which is %d behind its parent", n, back)
			return nil
		}
		process := i.Process
		if s.Start, s.End = i.Start, i.End; n > 0 {
			process = t.Spans[s.Parent].Process
			s.Start = next[s.Parent] + d.int()
			s.End = s.Start + d.int()
			next[s.Parent] = s.End
		}
		next[n] = s.Start
		s.Process = process + trace.PID(d.int())
		s.Name = d.name()
		if flags&(1<<rareBit) != 0 {
			s.Other, s.OtherName = trace.PID(d.uint()), d.name()
			d.ahead(s)
			s.Parts = int(d.int())
			s.Detail, s.Reason = d.name(), d.name()
		}
		if flags&(1<<linkBit) != 0 {
			d.link(s)
		}
	}
	if err := t.Check(); err != nil {
		d.fail("%v", err)
	}
	return t
}

func (d *decoder) link(s *trace.Span) {
	s.Link.From = s.Process + trace.PID(d.int())
	s.Link.To = s.Process + trace.PID(d.int())
	s.Link.Sent = s.Start + d.int()
	s.Link.Received = s.Link.Sent + d.int()
	if s.Link.Mark = trace.Mark(d.byte()); s.Link.Mark >= trace.Marks {
		d.fail("a link with mark %d", s.Link.Mark)
	}
}
