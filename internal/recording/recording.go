// Package recording keeps what a source delivered, so that it can be looked at
// again where there is no VM: a header with the outcomes and the windows, and
// then one batch a window, as JSON lines in a gzip stream.
package recording

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/beamscope/beamscope/internal/outcome"
)

// version of the format; others are refused.
const version = 1

// maxLine bounds a batch in bytes, as a recording is foreign input.
const maxLine = 16 << 20

// ErrFormat says that something is no recording, or a damaged one.
var ErrFormat = errors.New("not a recording of this version")

// A Header says what was recorded.
type Header struct {
	Version int            `json:"version"`
	Note    string         `json:"note"` // where and how it was recorded, for people
	Window  time.Duration  `json:"window_ns"`
	Specs   []outcome.Spec `json:"outcomes"`
}

// A Writer writes a recording.
type Writer struct {
	zip *gzip.Writer
	enc *json.Encoder
}

// NewWriter writes the header to w. The caller closes the Writer, and then w.
func NewWriter(w io.Writer, note string, window time.Duration, specs []outcome.Spec) (*Writer, error) {
	zip := gzip.NewWriter(w)
	out := &Writer{zip: zip, enc: json.NewEncoder(zip)}
	h := Header{Version: version, Note: note, Window: window, Specs: specs}
	if err := out.enc.Encode(h); err != nil {
		return nil, fmt.Errorf("write recording: %w", err)
	}
	return out, nil
}

// Batch writes one batch.
func (w *Writer) Batch(b outcome.Batch) error {
	if err := w.enc.Encode(b); err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	return nil
}

// Close ends the recording. It does not close the writer below.
func (w *Writer) Close() error { return w.zip.Close() }

// A Source delivers the batches of a recording, one for each window that it is
// asked for, whatever the window.
type Source struct {
	Header Header

	zip   *gzip.Reader
	lines *bufio.Scanner
}

// Open reads the header of a recording. Errors wrap [ErrFormat].
func Open(r io.Reader) (*Source, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	s := &Source{zip: zip, lines: bufio.NewScanner(zip)}
	s.lines.Buffer(nil, maxLine)
	if err := s.next(&s.Header); err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrFormat, err)
	}
	if s.Header.Version != version || s.Header.Window <= 0 {
		return nil, fmt.Errorf("%w: version %d, window %v", ErrFormat, s.Header.Version, s.Header.Window)
	}
	return s, nil
}

// next decodes the next line; io.EOF where there is none.
func (s *Source) next(v any) error {
	if !s.lines.Scan() {
		if err := s.lines.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	return json.Unmarshal(s.lines.Bytes(), v)
}

// Collect implements [outcome.Source]: the next batch, and [outcome.ErrEnded]
// with an empty one behind the last.
func (s *Source) Collect(context.Context, outcome.Window) (outcome.Batch, error) {
	var b outcome.Batch
	err := s.next(&b)
	if errors.Is(err, io.EOF) {
		return outcome.Batch{}, fmt.Errorf("the recording is over: %w", outcome.ErrEnded)
	}
	if err != nil {
		return outcome.Batch{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return b, nil
}

// Watch implements [outcome.Source]. A recording needs no looking after.
func (s *Source) Watch() []outcome.Notice { return nil }

// Plan implements [outcome.Source]. A recording has the plan that it has.
func (s *Source) Plan(outcome.Plan) error { return errors.ErrUnsupported }

// Close implements [outcome.Source]. It does not close the reader below.
func (s *Source) Close() error { return s.zip.Close() }

// Tee returns a source that also writes the batches of another one.
func Tee(source outcome.Source, w *Writer) outcome.Source {
	return &tee{Source: source, w: w}
}

type tee struct {
	outcome.Source
	w *Writer
}

// Collect implements [outcome.Source].
func (t *tee) Collect(ctx context.Context, w outcome.Window) (outcome.Batch, error) {
	b, err := t.Source.Collect(ctx, w)
	if len(b.Counts) == 0 {
		return b, err
	}
	return b, errors.Join(err, t.w.Batch(b))
}
