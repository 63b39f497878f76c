package wrapper

import (
	"bytes"
	"io"
)

// A splitter cuts what it reads into lines, in memory that does not grow: of a
// line that is too long only the beginning is kept, until it was returned.
type splitter struct {
	buf        [32 << 10]byte
	start, end int  // what is not returned yet
	skipping   bool // the rest of a line that is too long
}

// fill reads once. All lines have been taken by then, so that there is room.
func (s *splitter) fill(r io.Reader) error {
	s.end = copy(s.buf[:], s.buf[s.start:s.end])
	s.start = 0
	n, err := r.Read(s.buf[s.end:])
	s.end += n
	return err
}

// next returns the next line without its newline, false where none is complete.
// It holds until fill. A line with more than maxLine bytes is too long, and
// returned at once and perhaps not as a whole.
func (s *splitter) next() ([]byte, bool) {
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
func (s *splitter) long(rest []byte) ([]byte, bool) {
	const withReturn = maxLine + 1
	if !s.skipping && len(rest) <= withReturn {
		return nil, false
	}
	first := !s.skipping
	s.skipping = true
	s.start = s.end
	return rest, first
}

// rest returns the line that has no end, once there is nothing more to read.
func (s *splitter) rest() []byte { return s.buf[s.start:s.end] }
