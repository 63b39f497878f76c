package recording

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// An Encoder turns entries into blocks. Its methods append a block to dst and return the result,
// like append. On an error, which wraps [ErrLimit] or [ErrNoConfig], they return dst unchanged. The
// zero Encoder is ready to use.
//
// The caller keeps the blocks in the order in which they were made. It may leave out any block that
// is not the header or a configuration with batches.
type Encoder struct {
	configured bool
	plan       map[string]uint64 // numbers of the names in the plan
	known      uint64            // number of the names in the plan

	names map[string]uint64 // numbers of the names that are new in the block
	vms   map[outcome.VM]uint64
}

// AppendHeader appends the beginning of a recording, including the header.
func (e *Encoder) AppendHeader(dst []byte, h *Header) ([]byte, error) {
	if len(h.Facts) > MaxFacts {
		return dst, fmt.Errorf("%w: %d facts: at most %d", ErrLimit, len(h.Facts), MaxFacts)
	}
	b := appendPreamble(dst)
	start := len(b)
	b = beginBlock(b)
	b = appendTime(b, h.Time)
	b = binary.AppendVarint(b, h.Monotonic)
	texts := []string{h.Note}
	for _, f := range h.Facts {
		texts = append(texts, f.Name, f.Text)
	}
	b = binary.AppendUvarint(b, uint64(len(h.Facts)))
	b, err := appendTexts(b, texts...)
	if err != nil {
		return dst, fmt.Errorf("header: %w", err)
	}
	return endOr(dst, b, start, kindHeader)
}

// AppendConfig appends a configuration. It applies to the batches that are appended after it.
func (e *Encoder) AppendConfig(dst []byte, c *Config) ([]byte, error) {
	if err := c.check(); err != nil {
		return dst, fmt.Errorf("configuration: %w", err)
	}
	b := beginBlock(dst)
	b = binary.AppendUvarint(b, uint64(len(c.Files)))
	for _, f := range c.Files {
		b = appendBytes(b, f.Name)
		b = appendBytes(b, f.Text)
	}
	b = binary.AppendVarint(b, c.Plan.From)
	b = binary.AppendUvarint(b, uint64(c.Plan.Window))
	b = binary.AppendUvarint(b, uint64(len(c.Plan.Specs)))
	for _, s := range c.Plan.Specs {
		b = appendSpec(b, s)
	}
	b, err := endBlock(b, len(dst), kindConfig)
	if err != nil {
		return dst, err
	}
	e.configure(c.Plan.Specs)
	return b, nil
}

// configure assigns numbers to the names of a plan.
func (e *Encoder) configure(specs []outcome.Spec) {
	e.configured = true
	e.plan = make(map[string]uint64, len(specs))
	for i, s := range specs {
		e.plan[s.Name] = uint64(i)
	}
	e.known = uint64(len(specs))
}

// specTexts returns the texts of a spec in order.
func specTexts(s *outcome.Spec) []*string {
	return []*string{
		&s.Name, &s.Span, &s.Wrapper,
		&s.VM.Builtin, &s.VM.Start, &s.VM.End, &s.VM.StartKey, &s.VM.EndKey, &s.Group,
	}
}

func appendSpec(b []byte, s outcome.Spec) []byte {
	for _, text := range specTexts(&s) {
		b = appendBytes(b, *text)
	}
	b = binary.AppendVarint(b, int64(s.BinWidth))
	b = binary.AppendUvarint(b, uint64(s.Bins))
	return append(b, byte(s.VM.Pairing), boolByte(s.ExitFails), byte(s.Detail), boolByte(s.Explain))
}

// AppendNotice appends a notice. The kind and the outcome are left out of a plain one without an outcome.
func (e *Encoder) AppendNotice(dst []byte, n *outcome.Notice) ([]byte, error) {
	b := beginBlock(dst)
	b = binary.AppendVarint(b, n.Time)
	b, err := appendTexts(b, n.Text)
	if err == nil && (n.Kind != outcome.PlainNotice || n.Outcome != "") {
		b, err = appendTexts(append(b, byte(n.Kind)), n.Outcome)
	}
	if err != nil {
		return dst, fmt.Errorf("notice: %w", err)
	}
	return endOr(dst, b, len(dst), kindNotice)
}

// AppendSnapshot appends the description of a snapshot.
func (e *Encoder) AppendSnapshot(dst []byte, s *Snapshot) ([]byte, error) {
	b := beginBlock(dst)
	for _, n := range []uint64{s.First, s.Prelude, s.Before, s.Causes, s.Omitted} {
		b = binary.AppendUvarint(b, n)
	}
	return endOr(dst, append(b, boolByte(s.Complete)), len(dst), kindSnapshot)
}

// AppendCause appends a cause.
func (e *Encoder) AppendCause(dst []byte, c *Cause) ([]byte, error) {
	b := beginBlock(dst)
	b = binary.AppendVarint(b, c.Time)
	b = binary.AppendUvarint(b, c.Number)
	b = binary.AppendVarint(b, int64(c.VM.PID))
	b, err := appendTexts(b, c.VM.Node, c.Trigger, c.Setting, c.Outcome, c.Text, c.Explanation)
	if err != nil {
		return dst, fmt.Errorf("cause: %w", err)
	}
	return endOr(dst, b, len(dst), kindCause)
}

// AppendEnd appends the clean end of a recording. blocks is the number of blocks including the
// header but without this one, and batches the number of batches.
func (e *Encoder) AppendEnd(dst []byte, blocks, batches uint64) ([]byte, error) {
	b := beginBlock(dst)
	b = binary.AppendUvarint(b, blocks)
	b = binary.AppendUvarint(b, batches)
	return endOr(dst, b, len(dst), kindEnd)
}

// endOr ends the block that begins at start of b. If that fails, it returns dst.
func endOr(dst, b []byte, start int, k kind) ([]byte, error) {
	b, err := endBlock(b, start, k)
	if err != nil {
		return dst, err
	}
	return b, nil
}

// appendTime appends a time as seconds since 1970 and nanoseconds, so that the range of years is
// not limited to 1678 to 2262.
func appendTime(b []byte, t time.Time) []byte {
	b = binary.AppendVarint(b, t.Unix())
	return binary.AppendUvarint(b, uint64(t.Nanosecond()))
}

// appendBytes appends a text preceded by its length.
func appendBytes[T string | []byte](b []byte, text T) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// appendTexts appends texts of at most MaxText bytes each.
func appendTexts(b []byte, texts ...string) ([]byte, error) {
	for _, text := range texts {
		if err := checkText(text); err != nil {
			return b, err
		}
		b = appendBytes(b, text)
	}
	return b, nil
}

func checkText(text string) error {
	if len(text) > MaxText {
		return fmt.Errorf("%w: a text of %d bytes: at most %d", ErrLimit, len(text), MaxText)
	}
	return nil
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}
