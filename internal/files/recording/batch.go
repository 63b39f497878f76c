package recording

import (
	"encoding/binary"
	"fmt"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// Numbers for names and VMs within a batch. Names of the plan have numbers from the
// configuration. A new name is defined where it first occurs, and gets the next number.
const (
	noName    = 0
	newName   = 1
	firstName = 2

	newVM   = 0
	firstVM = 1
)

// unobserved is the bit after those of the figures in countsFields.
const unobserved = 1 << numFigures

// numFigures is the number of counters of an outcome.
const numFigures = 11 + outcome.NumLossReasons

// parentBit is the bit after the status, and means that an instance has a parent. traceBit means
// that its trace follows.
const (
	parentBit = 2
	traceBit  = 3
)

// figures returns the figures of counts in the order of their bits. Those that are rarely 0 come
// first.
func figures(c *outcome.Counts) [numFigures]*uint64 {
	all := [numFigures]*uint64{&c.Starts, &c.Ends, &c.Successes, &c.Failures, &c.Timeouts, &c.Orphans, &c.Lates, &c.Unstreamed}
	n := 8
	for _, r := range outcome.LossReasons() {
		all[n] = r.Of(&c.Loss)
		n++
	}
	all[n], all[n+1], all[n+2] = &c.Dropped, &c.Inferred, &c.Amount
	return all
}

// AppendBatch appends a batch. It allocates nothing if dst has room and the encoder has handled
// as many names and VMs before.
func (e *Encoder) AppendBatch(dst []byte, batch *outcome.Batch) ([]byte, error) {
	if !e.configured {
		return dst, ErrNoConfig
	}
	if err := checkBatch(batch); err != nil {
		return dst, fmt.Errorf("batch: %w", err)
	}
	e.forget()
	defer e.forget() // keep no reference to the batch and its strings
	b := beginBlock(dst)
	b = binary.AppendVarint(b, batch.Window.From)
	b = binary.AppendVarint(b, batch.Window.To-batch.Window.From)
	b = appendTime(b, batch.Time)
	b = binary.AppendUvarint(b, uint64(len(batch.Counts)))
	for i := range batch.Counts {
		b = e.appendCounts(b, &batch.Counts[i])
	}
	b = binary.AppendUvarint(b, uint64(len(batch.Instances)))
	last := outcome.Instance{End: batch.Window.From}
	for i := range batch.Instances {
		b = e.appendInstance(b, &batch.Instances[i], &last)
		last = batch.Instances[i]
	}
	b = binary.AppendUvarint(b, batch.Rejected.Count)
	b = e.appendName(b, batch.Rejected.Last)
	b = binary.AppendUvarint(b, batch.Cost.Events)
	b = binary.AppendVarint(b, int64(batch.Cost.PerEvent))
	b = binary.AppendVarint(b, int64(batch.Cost.Collector))
	if err := e.checkNames(); err != nil {
		return dst, fmt.Errorf("batch: %w", err)
	}
	return endOr(dst, b, len(dst), kindBatch)
}

// forget drops the names and VMs of a batch.
func (e *Encoder) forget() {
	if e.names == nil {
		e.names = make(map[string]uint64)
		e.vms = make(map[outcome.VM]uint64)
	}
	clear(e.names)
	clear(e.vms)
}

func (e *Encoder) checkNames() error {
	if len(e.names) > MaxNames {
		return fmt.Errorf("%w: %d names: at most %d", ErrLimit, len(e.names), MaxNames)
	}
	for name := range e.names {
		if err := checkText(name); err != nil {
			return err
		}
	}
	return nil
}

// appendCounts appends a mask of the figures that are not 0, these figures, the bins, and the
// groups.
func (e *Encoder) appendCounts(b []byte, c *outcome.Counts) []byte {
	b = e.appendName(b, c.Outcome)
	b = e.appendVM(b, c.VM)
	var mask uint64
	if c.Unobserved {
		mask = unobserved
	}
	all := figures(c)
	for i, f := range all {
		if *f != 0 {
			mask |= 1 << i
		}
	}
	b = binary.AppendUvarint(b, mask)
	for _, f := range all {
		if *f != 0 {
			b = binary.AppendUvarint(b, *f)
		}
	}
	b = appendBins(b, c.Bins)
	b = binary.AppendUvarint(b, uint64(len(c.Groups)))
	for i := range c.Groups {
		b = e.appendGroup(b, &c.Groups[i])
	}
	return b
}

func (e *Encoder) appendGroup(b []byte, g *outcome.Group) []byte {
	b = e.appendName(b, g.Key)
	b = binary.AppendUvarint(b, uint64(g.Process))
	b = e.appendName(b, g.Name)
	for _, n := range []uint64{g.Successes, g.Failures, g.Timeouts} {
		b = binary.AppendUvarint(b, n)
	}
	b = binary.AppendVarint(b, int64(g.Total))
	b = binary.AppendUvarint(b, g.Amount)
	return appendBins(b, g.Delays)
}

// appendBins appends the number of bins. Then it appends alternately the number of zero bins, the
// number of non-zero bins after them, and these bins, up to the last bin.
func appendBins[T uint32 | uint64](b []byte, bins []T) []byte {
	b = binary.AppendUvarint(b, uint64(len(bins)))
	for len(bins) > 0 {
		n := run(bins, true)
		b = binary.AppendUvarint(b, uint64(n))
		if bins = bins[n:]; len(bins) == 0 {
			break
		}
		n = run(bins, false)
		b = binary.AppendUvarint(b, uint64(n))
		for _, count := range bins[:n] {
			b = binary.AppendUvarint(b, uint64(count))
		}
		bins = bins[n:]
	}
	return b
}

// run returns the length of the run of zero or non-zero bins at the beginning.
func run[T uint32 | uint64](bins []T, zero bool) int {
	for i, count := range bins {
		if (count == 0) != zero {
			return i
		}
	}
	return len(bins)
}

// appendInstance appends an instance, encoded as differences from the last one where possible.
// Differences may overflow. Adding them overflows back.
func (e *Encoder) appendInstance(b []byte, i, last *outcome.Instance) []byte {
	b = append(b, byte(i.Status)|boolByte(i.Parent != 0)<<parentBit|boolByte(i.Trace != nil)<<traceBit)
	b = e.appendName(b, i.Outcome)
	b = e.appendVM(b, i.VM)
	b = binary.AppendVarint(b, i.End-last.End)
	b = binary.AppendVarint(b, i.End-i.Start)
	b = binary.AppendVarint(b, int64(i.ID-last.ID))
	if i.Parent != 0 {
		b = binary.AppendVarint(b, int64(i.ID-i.Parent))
	}
	b = binary.AppendVarint(b, int64(i.Process-last.Process))
	b = e.appendName(b, i.Class)
	if i.Trace != nil {
		b = e.appendTrace(b, i)
	}
	return b
}

func (e *Encoder) appendName(b []byte, name string) []byte {
	if name == "" {
		return binary.AppendUvarint(b, noName)
	}
	n, ok := e.plan[name]
	if !ok {
		n, ok = e.names[name]
	}
	if ok {
		return binary.AppendUvarint(b, firstName+n)
	}
	e.names[name] = e.known + uint64(len(e.names))
	b = binary.AppendUvarint(b, newName)
	return appendBytes(b, name)
}

func (e *Encoder) appendVM(b []byte, vm outcome.VM) []byte {
	if n, ok := e.vms[vm]; ok {
		return binary.AppendUvarint(b, firstVM+n)
	}
	e.vms[vm] = uint64(len(e.vms))
	b = binary.AppendUvarint(b, newVM)
	b = binary.AppendVarint(b, int64(vm.PID))
	return e.appendName(b, vm.Node)
}
