package recording

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A decoder decodes the payload of a block. It keeps the first error, and after that returns only
// zero values.
type decoder struct {
	data []byte
	err  error

	plan  []string // names of the plan
	names []string // names that are new in the block
	vms   []outcome.VM
}

// fail stores the first error, and ignores the rest of the payload.
func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
	d.data = nil
}

// end returns the stored error, or an error if data is left.
func (d *decoder) end() error {
	if n := len(d.data); n > 0 {
		d.fail("%d bytes more than expected", n)
	}
	return d.err
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.data)
	if n <= 0 {
		d.fail("a number is cut short or too long")
		return 0
	}
	d.data = d.data[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.data)
	if n <= 0 {
		d.fail("a number is cut short or too long")
		return 0
	}
	d.data = d.data[n:]
	return v
}

func (d *decoder) byte() byte {
	if len(d.data) == 0 {
		d.fail("it is cut short")
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return b
}

func (d *decoder) bool() bool {
	b := d.byte()
	if b > 1 {
		d.fail("%d, where yes is 1 and no is 0", b)
	}
	return b == 1
}

// count decodes a number of items. Each item has at least the given size, so that nothing is
// allocated for missing data.
func (d *decoder) count(what string, limit, size int) int {
	n := d.uint()
	if n > uint64(limit) {
		d.fail("%d %s: at most %d", n, what, limit)
		return 0
	}
	if n > uint64(len(d.data)/size) {
		d.fail("%d %s in %d bytes", n, what, len(d.data))
		return 0
	}
	return int(n)
}

// bytes decodes bytes that are preceded by their length. They are valid as long as the payload.
func (d *decoder) bytes(limit int) []byte {
	n := d.count("bytes", limit, 1)
	b := d.data[:n]
	d.data = d.data[n:]
	return b
}

func (d *decoder) text() string { return string(d.bytes(MaxText)) }

func (d *decoder) time() time.Time {
	seconds, ns := d.int(), d.uint()
	if ns >= uint64(time.Second) {
		d.fail("a second of %d ns", ns)
		return time.Time{}
	}
	return time.Unix(seconds, int64(ns)).UTC()
}

func (d *decoder) header() *Header {
	h := &Header{Time: d.time(), Monotonic: d.int()}
	n := d.count("facts", MaxFacts, 2)
	h.Note = d.text()
	for range n {
		h.Facts = append(h.Facts, Fact{Name: d.text(), Text: d.text()})
	}
	return h
}

func (d *decoder) config() *Config {
	var c Config
	for range d.count("files", MaxFiles, 2) {
		c.Files = append(c.Files, File{Name: d.text(), Text: append([]byte(nil), d.bytes(MaxFile)...)})
	}
	c.Plan = outcome.Plan{From: d.int(), Window: time.Duration(d.uint())}
	for range d.count("outcomes", MaxSpecs, 15) {
		c.Plan.Specs = append(c.Plan.Specs, d.spec())
	}
	if err := checkPlan(&c.Plan); err != nil {
		d.fail("%v", err)
	}
	return &c
}

func (d *decoder) spec() outcome.Spec {
	var s outcome.Spec
	for _, text := range specTexts(&s) {
		*text = d.text()
	}
	s.BinWidth = time.Duration(d.int())
	s.Bins = int(d.uint())
	s.VM.Pairing = dtrace.Pairing(d.byte())
	s.ExitFails = d.bool()
	s.Detail = outcome.Detail(d.byte())
	s.Explain = d.bool()
	return s
}

func (d *decoder) notice() *outcome.Notice {
	n := &outcome.Notice{Time: d.int(), Text: d.text()}
	if len(d.data) == 0 {
		return n
	}
	n.Kind, n.Outcome = outcome.NoticeKind(d.byte()), d.text()
	if n.Kind >= outcome.NoticeKinds || n.Kind == outcome.PlainNotice && n.Outcome == "" {
		d.fail("kind of notice %d", n.Kind)
	}
	return n
}

func (d *decoder) snapshot() *Snapshot {
	return &Snapshot{
		First: d.uint(), Prelude: d.uint(), Before: d.uint(), Causes: d.uint(), Omitted: d.uint(), Complete: d.bool(),
	}
}

func (d *decoder) cause() *Cause {
	return &Cause{
		Time:    d.int(),
		Number:  d.uint(),
		VM:      outcome.VM{PID: int(d.int()), Node: d.text()},
		Trigger: d.text(), Setting: d.text(), Outcome: d.text(), Text: d.text(), Explanation: d.text(),
	}
}
