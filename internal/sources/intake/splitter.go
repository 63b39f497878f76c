package intake

import (
	"bytes"
	"io"
)

// A Splitter cuts its input into lines, with a fixed amount of memory. It keeps only the
// beginning of a line that is too long, until Next has returned it.
type Splitter struct {
	max        int
	buf        [32 << 10]byte
	start, end int  // the bytes that are not returned yet
	skipping   bool // the rest of a line that is too long is skipped
}

// NewSplitter returns a splitter for lines of up to a number of bytes, without their newline: at
// most 32 KiB minus 2.
func NewSplitter(longest int) *Splitter { return &Splitter{max: longest} }

// Fill reads once. All complete lines must have been taken before, so that there is room.
func (s *Splitter) Fill(r io.Reader) error {
	s.end = copy(s.buf[:], s.buf[s.start:s.end])
	s.start = 0
	n, err := r.Read(s.buf[s.end:])
	s.end += n
	return err
}

// Next returns the next line without its newline, and false if no line is complete. The line is
// valid until Fill. A line with more bytes than allowed is too long: Next returns it at once,
// perhaps only in part.
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

// long returns the beginning of a line that is already too long, once.
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

// Rest returns the last line if it has no newline. Call it at the end of the input.
func (s *Splitter) Rest() []byte { return s.buf[s.start:s.end] }
