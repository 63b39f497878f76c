package script

import (
	"errors"
	"fmt"
	"io"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
)

const (
	// maxChunks limits the number of chunks that are read but not processed, of at most 32 KiB
	// each.
	maxChunks = 1024

	// maxBanner limits the number of lines before the header.
	maxBanner = 1000
)

// ErrFormat means that a text is not the output of a script.
var ErrFormat = errors.New("not the output of a script that beamscope has made")

// A chunk is the result of one read. A chunk with an error is the last one. The error wraps
// [outcome.ErrEnded] if the text has ended.
type chunk struct {
	records []record
	at      int64 // time of the read, nanoseconds of CLOCK_MONOTONIC
	err     error
}

// A reader parses the records in a text.
type reader struct {
	now    func() int64
	lines  *intake.Splitter
	banner int  // number of lines before the header
	begun  bool // the header has been read
}

// read reads the text to its end, and sends it in chunks until quit is closed.
func (r *reader) read(text io.Reader, chunks chan<- chunk, quit <-chan struct{}) {
	for {
		c := r.chunk(text)
		if len(c.records) == 0 && c.err == nil {
			continue
		}
		select {
		case chunks <- c:
		case <-quit:
			return
		}
		if c.err != nil {
			return
		}
	}
}

// chunk reads once.
func (r *reader) chunk(text io.Reader) (c chunk) {
	err := r.lines.Fill(text)
	c.at = r.now()
	for {
		line, ok := r.lines.Next()
		if !ok {
			break
		}
		if c.err = r.line(&c, string(line)); c.err != nil {
			return c
		}
	}
	if err == nil {
		return c
	}
	if c.err = r.end(&c); c.err == nil && !errors.Is(err, io.EOF) {
		c.err = fmt.Errorf("read: %w", err)
	} else if c.err == nil {
		c.err = outcome.ErrEnded
	}
	return c
}

// line processes a line.
func (r *reader) line(c *chunk, text string) error {
	switch {
	case text == "" || text == "\r":
	case r.begun:
		c.records = append(c.records, parse(text))
	case text == header || text == header+"\r":
		r.begun = true
	default:
		if r.banner++; r.banner == maxBanner {
			return fmt.Errorf("%w: no line %q among the first %d", ErrFormat, header, maxBanner)
		}
	}
	return nil
}

// end processes the rest at the end of the text.
func (r *reader) end(c *chunk) error {
	if !r.begun {
		return fmt.Errorf("%w: it ends without a line %q", ErrFormat, header)
	}
	if rest := r.lines.Rest(); len(rest) > 0 {
		c.records = append(c.records, reject(record{}, string(rest), errHalf))
	}
	return nil
}
