package recording

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A Writer writes a recording. Each entry takes one call of Write. After a write error it writes
// nothing more, because no reader could read it.
type Writer struct {
	out     io.Writer
	file    *os.File // the file that Create made, or nil
	encoder Encoder
	buf     []byte
	err     error

	blocks, batches uint64
}

// NewWriter writes the header of a recording. The caller closes the Writer.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	out := &Writer{out: w}
	if err := out.write(out.encoder.AppendHeader(nil, &h)); err != nil {
		return nil, err
	}
	return out, nil
}

// Config writes a configuration. It applies to the batches that follow.
func (w *Writer) Config(c *Config) error { return w.write(w.encoder.AppendConfig(w.buf[:0], c)) }

// Batch writes a batch.
func (w *Writer) Batch(b *outcome.Batch) error {
	err := w.write(w.encoder.AppendBatch(w.buf[:0], b))
	if err == nil {
		w.batches++
	}
	return err
}

// Notice writes a notice.
func (w *Writer) Notice(n *outcome.Notice) error {
	return w.write(w.encoder.AppendNotice(w.buf[:0], n))
}

// Cause writes the cause of a trigger that fired.
func (w *Writer) Cause(c *Cause) error { return w.write(w.encoder.AppendCause(w.buf[:0], c)) }

// Close ends the recording. It writes a file of [Create] to the disk and closes it. It does not
// close the writer of [NewWriter].
func (w *Writer) Close() error {
	err := w.write(w.encoder.AppendEnd(w.buf[:0], w.blocks, w.batches))
	w.err = errors.Join(w.err, os.ErrClosed)
	if w.file != nil {
		return errors.Join(err, syncAndClose(w.file))
	}
	return err
}

// write writes a block. If the block could not be encoded, it returns that error, and the next
// block may still be written.
func (w *Writer) write(block []byte, err error) error {
	if w.err == nil && err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	if w.err != nil {
		return w.err
	}
	w.buf = block
	if _, err := w.out.Write(block); err != nil {
		w.err = fmt.Errorf("write recording: %w", err)
		return w.err
	}
	w.blocks++
	return nil
}
