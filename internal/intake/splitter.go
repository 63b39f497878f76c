package intake

import (
	"bytes"
	"io"
)

// A Splitter cuts what it reads into lines, in memory that does not grow: of a
// line that is too long only the beginning is kept, until it was returned.
type Splitter struct {
	max        int
	buf        [32 << 10]byte
	start, end int  // what is not returned yet
	skipping   bool // the rest of a line that is too long
}

// NewSplitter returns a splitter for lines of up to so many bytes, without their
// newline: at most 32 KiB less 2.
func NewSplitter(longest int) *Splitter { return &Splitter{max: longest} }

// Fill reads once. All lines have been taken by then, so that there is room.
func (s *Splitter) Fill(r io.Reader) error {
	s.end = copy(s.buf[:], s.buf[s.start:s.end])
	s.start = 0
	n, err := r.Read(s.buf[s.end:])
	s.end += n
	return err
}

// Next returns the next line without its newline, false where none is complete.
// It holds until Fill. A line with more bytes than it may have is too long, and
// returned at once and perhaps not as a whole.
func (s *Splitter) Next() ([]byte, bool) {
	for {
		rest := s.buf[s.start:s.end]
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			return s.long(rest)
		}
		s.start += i + 1
		if !s.skipping {
			return rest[:i], true
		}
		s.skipping = false
	}
}

// long returns what is there of a line if that is too much already, once.
func (s *Splitter) long(rest []byte) ([]byte, bool) {
	withReturn := s.max + 1
	if !s.skipping && len(rest) <= withReturn {
		return nil, false
	}
	first := !s.skipping
	s.skipping = true
	s.start = s.end
	return rest, first
}

// Rest returns the line that has no end, once there is nothing more to read.
func (s *Splitter) Rest() []byte { return s.buf[s.start:s.end] }
