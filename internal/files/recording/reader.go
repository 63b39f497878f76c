package recording

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A Reader reads a recording.
type Reader struct {
	Header Header

	in     *bufio.Reader
	closer io.Closer // the file that Open opened, or nil
	offset int64     // offset of the block that is being read
	block  bytes.Buffer
	err    error // returned by all further calls

	configured      bool
	names           []string // names of the plan
	blocks, batches uint64   // numbers of blocks and batches read so far
}

// NewReader reads the header of a recording. Errors wrap [ErrNotRecording], [ErrVersion],
// [ErrDamaged], or the error of r.
func NewReader(r io.Reader) (*Reader, error) {
	in := &Reader{in: bufio.NewReader(r)}
	if err := in.preamble(); err != nil {
		return nil, err
	}
	in.offset = int64(preambleSize)
	entry, err := in.read()
	if err != nil {
		return nil, err
	}
	h, ok := entry.(*Header)
	if !ok {
		return nil, in.damage("it does not begin with a header")
	}
	in.Header = *h
	return in, nil
}

// Next returns the next entry, which belongs to the caller. It returns io.EOF only at the clean
// end of a recording. If that is missing, the error wraps [ErrTorn]. If data is damaged, it wraps
// [ErrDamaged]. The error contains the place, and the number of windows before it. Next has
// returned everything before that unchanged. After an error there is nothing more to read.
func (r *Reader) Next() (Entry, error) {
	if r.err != nil {
		return nil, r.err
	}
	entry, err := r.read()
	if err == nil {
		entry, err = r.accept(entry)
	}
	r.err = err
	return entry, err
}

// accept checks that an entry is allowed at its place.
func (r *Reader) accept(entry Entry) (Entry, error) {
	switch e := entry.(type) {
	case *Header:
		return nil, r.damage("a second header")
	case *end:
		return nil, r.end(e)
	case *Config:
		r.configured = true
		r.names = r.names[:0]
		for _, s := range e.Plan.Specs {
			r.names = append(r.names, s.Name)
		}
	case *outcome.Batch:
		r.batches++
	}
	return entry, nil
}

// An end contains the numbers of blocks and batches before it.
type end struct{ blocks, batches uint64 }

// end returns io.EOF if the recording ends correctly.
func (r *Reader) end(e *end) error {
	if here := (end{r.blocks - 1, r.batches}); *e != here {
		return r.damage(fmt.Sprintf("the end is that of %d blocks and %d windows, and there are %d and %d",
			e.blocks, e.batches, here.blocks, here.batches))
	}
	r.offset += int64(r.block.Len())
	if _, err := r.in.ReadByte(); err == nil {
		return r.damage("something follows the end")
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("read recording: %w", err)
	}
	return io.EOF
}

// Close closes what [Open] opened. It does not close the reader of [NewReader].
func (r *Reader) Close() error {
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

// damage returns the error for the block at the offset.
func (r *Reader) damage(what string) error { return r.at(ErrDamaged, what) }

// cut returns the error for a read that got less than it needs.
func (r *Reader) cut(err error, what string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return r.at(ErrTorn, what)
	}
	return fmt.Errorf("read recording: %w", err)
}

// at adds the place to an error.
func (r *Reader) at(err error, what string) error {
	windows := "windows"
	if r.batches == 1 {
		windows = "window"
	}
	return fmt.Errorf("%w: after %d %s, at byte %d: %s", err, r.batches, windows, r.offset, what)
}

// preamble reads the magic and the version.
func (r *Reader) preamble() error {
	var p [preambleSize]byte
	n, err := io.ReadFull(r.in, p[:])
	if !bytes.HasPrefix(p[:n], []byte(magic)[:min(n, len(magic))]) || n == 0 && errors.Is(err, io.EOF) {
		return ErrNotRecording
	}
	if err != nil {
		return r.cut(err, "it ends before its header")
	}
	body := p[:preambleSize-checkSize]
	if checksum(body) != binary.LittleEndian.Uint32(p[len(body):]) {
		return r.damage("the check of the version does not match")
	}
	if v := binary.LittleEndian.Uint32(p[len(magic):]); v != version {
		return fmt.Errorf("%w: version %d: want %d", ErrVersion, v, version)
	}
	return nil
}

// read reads a block and decodes it.
func (r *Reader) read() (Entry, error) {
	k, err := r.next()
	if err != nil {
		return nil, err
	}
	payload := r.block.Bytes()[headSize : r.block.Len()-checkSize]
	if k == kindBatch && !r.configured {
		return nil, r.damage(ErrNoConfig.Error())
	}
	entry, err := decode(k, payload, r.names)
	if errors.Is(err, ErrVersion) {
		return nil, r.at(ErrVersion, fmt.Sprintf("a block of kind %q", byte(k)))
	}
	if err != nil {
		return nil, r.damage(fmt.Sprintf("block %c: %v", k, err))
	}
	r.blocks++
	return entry, nil
}

// next reads a block and verifies it.
func (r *Reader) next() (kind, error) {
	r.offset += int64(r.block.Len())
	r.block.Reset()
	n, err := io.CopyN(&r.block, r.in, headSize)
	if err != nil && n == 0 {
		return 0, r.cut(err, "its end is missing, what is before can be used")
	}
	if err != nil {
		return 0, r.cut(err, "it ends within a block, what is before can be used")
	}
	head := r.block.Bytes()
	if checksum(head[:4]) != binary.LittleEndian.Uint32(head[4:]) {
		return 0, r.damage("the head of the block does not match its check")
	}
	word := binary.LittleEndian.Uint32(head)
	length := int64(word >> 8)
	// The buffer grows with the data that arrives, not with the length in the head.
	if _, err := io.CopyN(&r.block, r.in, length+checkSize); err != nil {
		return 0, r.cut(err, fmt.Sprintf("it ends within a block of %d bytes, what is before can be used", length))
	}
	whole := r.block.Bytes()
	body := whole[:len(whole)-checkSize]
	if checksum(body) != binary.LittleEndian.Uint32(whole[len(body):]) {
		return 0, r.damage(fmt.Sprintf("the block of %d bytes does not match its check", length))
	}
	return kind(word), nil
}

// decode decodes the payload of a block.
func decode(k kind, payload []byte, names []string) (Entry, error) {
	d := &decoder{data: payload, plan: names}
	var entry Entry
	switch k {
	case kindHeader:
		entry = d.header()
	case kindConfig:
		entry = d.config()
	case kindBatch:
		entry = d.batch()
	case kindNotice:
		entry = d.notice()
	case kindSnapshot:
		entry = d.snapshot()
	case kindCause:
		entry = d.cause()
	case kindEnd:
		entry = &end{d.uint(), d.uint()}
	default:
		return nil, ErrVersion
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return entry, nil
}
