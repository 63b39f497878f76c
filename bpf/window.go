package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
)

// remember is for how long a timed-out span is remembered, so that a late end
// is known as one. After that it counts as an orphan.
const remember = time.Minute

// Counters are what the programs counted of one outcome. They only concern the
// VM and the window that they are of.
type Counters struct {
	Starts, Ends                  uint64 // events, wherever the other end of the instance is
	Successes, Failures, Timeouts uint64 // instances that ended
	Orphans                       uint64 // ends without a start that we know of
	Lates                         uint64 // ends of instances that had ended before
	ReadErrors                    uint64 // events lost: an argument could not be read
	MapFull                       uint64 // starts lost: no room among the open spans
	RingFull                      uint64 // instances not streamed, though counted
	Cut                           uint64 // open instances given up when their group was switched off
	ExitsLost                     uint64 // process exits that were not noted: their spans time out
}

// Counts are the counters of one outcome of one VM in one window.
type Counts struct {
	Outcome int // index into Options.Outcomes
	PID     int // of the VM; 0 for all the VMs that found no slot together
	Counters
	Bins []uint64 // delays of successes: Options.Outcomes[Outcome].Bins of them

	// Stray is what happened since the last read and belongs to a window that
	// had been read already, or to one so far ahead of the reader that it had
	// no room yet. The reader was too slow, and these instances are lost.
	Stray Counters
}

// Others are counts that belong to no outcome.
type Others struct {
	Hits    uint64 // runs of the programs at probes, whatever became of them
	Foreign uint64 // events on our labels that the wrapper's version 1 did not send
}

// Swept says what a sweep left among the spans.
type Swept struct {
	Open    int // spans that may still end
	Expired int // timed-out spans that are remembered
}

// Sweep ends every instance whose deadline, or whose process's exit, is before
// until, nanoseconds of CLOCK_MONOTONIC. Call it with the end of a window before
// reading that window.
func (c *Collector) Sweep(until int64) (Swept, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	req := kernelSweepRequest{UntilNs: uint64(until), ForgetNs: uint64(max(until-int64(remember), 0))}
	swept, err := c.runSweep(&req)
	if err == nil && swept.Expired > 0 && (swept.Open+swept.Expired)*4 > c.opts.OpenSpans*3 {
		req.ForgetNs = req.UntilNs
		swept, err = c.runSweep(&req)
	}
	return swept, err
}

// OpenSpans returns how many spans of a VM may still end.
func (c *Collector) OpenSpans(pid int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	req := kernelSweepRequest{Pid: uint64(pid)}
	_, err := c.runSweep(&req)
	return int(req.OpenPid), err
}

func (c *Collector) runSweep(req *kernelSweepRequest) (Swept, error) {
	if c.sweep == nil {
		return Swept{}, ErrClosed
	}
	if _, err := c.sweep.Run(&ebpf.RunOptions{Context: req, ContextOut: req}); err != nil {
		return Swept{}, fmt.Errorf("sweep the open spans: %w", explain(err))
	}
	return Swept{Open: int(req.Open), Expired: int(req.Expired)}, nil
}

// Read returns the counts of window number n, which begins at Start + n·Window,
// of every outcome of every VM that was seen, and gives the window's room to a
// later one. Windows are read in order, each once, when they are over and swept.
func (c *Collector) Read(n uint64) ([]Counts, Others, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slots, err := c.slots()
	if err != nil {
		return nil, Others{}, err
	}
	var out []Counts
	for outcome := range c.opts.Outcomes {
		for slot, pid := range slots {
			cells, err := c.readRow(outcome, slot, int(n%windows))
			if err != nil {
				return nil, Others{}, err
			}
			stray, err := c.readRow(outcome, slot, windows)
			if err != nil {
				return nil, Others{}, err
			}
			out = append(out, Counts{
				Outcome:  outcome,
				PID:      pid,
				Counters: counters(cells),
				Bins:     cells[columns:],
				Stray:    counters(stray),
			})
		}
	}
	m, err := c.readOthers()
	if err != nil {
		return nil, Others{}, err
	}
	return out, m, c.setClock(n + 1)
}

// Skip gives up the windows from the oldest that is not read to n, without n:
// the reader comes so late that they had no room for all that happened. What they
// hold all the same is returned as if it were stray, which is loss.
func (c *Collector) Skip(n uint64) ([]Counts, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slots, err := c.slots()
	if err != nil {
		return nil, err
	}
	// First the clock, so that nothing more goes into the rows that are given up.
	from := c.oldest
	if err := c.setClock(n); err != nil {
		return nil, err
	}
	var out []Counts
	for outcome := range c.opts.Outcomes {
		for slot, pid := range slots {
			lost := Counts{Outcome: outcome, PID: pid}
			for m := from; m < min(n, from+windows); m++ {
				cells, err := c.readRow(outcome, slot, int(m%windows))
				if err != nil {
					return nil, err
				}
				lost.Stray = lost.Stray.Add(counters(cells))
			}
			out = append(out, lost)
		}
	}
	return out, nil
}

// Stray returns what was stray since the last Read or Stray, and nothing else.
func (c *Collector) Stray() ([]Counts, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slots, err := c.slots()
	if err != nil {
		return nil, err
	}
	var out []Counts
	for outcome := range c.opts.Outcomes {
		for slot, pid := range slots {
			cells, err := c.readRow(outcome, slot, windows)
			if err != nil {
				return nil, err
			}
			out = append(out, Counts{Outcome: outcome, PID: pid, Stray: counters(cells)})
		}
	}
	return out, nil
}

// slots returns the VM in each slot. The slot of the VMs that found none is
// there from when a VM may have missed.
func (c *Collector) slots() (map[int]int, error) {
	slots := make(map[int]int)
	var pid, slot uint32
	it := c.maps.Vms.Iterate()
	for it.Next(&pid, &slot) {
		slots[int(slot)] = int(pid)
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("read the VMs: %w", err)
	}
	c.crowded = c.crowded || len(slots) == c.opts.VMs
	if c.crowded {
		slots[c.opts.VMs] = 0
	}
	return slots, nil
}

// readRow returns what was added to a row since it was last read.
func (c *Collector) readRow(outcome, slot, row int) ([]uint64, error) {
	return c.readCells(c.layout.row(outcome, slot, row), c.layout.width[outcome])
}

// readCells returns what was added to cells, on all stripes, since they were last
// read.
func (c *Collector) readCells(first, width int) ([]uint64, error) {
	sum := make([]uint64, width)
	buf := make([]byte, width*cellBytes)
	for stripe := range c.layout.stripes {
		at := (stripe*c.layout.stripeCells + first) * cellBytes
		if _, err := c.cells.ReadAt(buf, int64(at)); err != nil {
			return nil, fmt.Errorf("read the counters: %w", err)
		}
		for i := range sum {
			sum[i] += binary.NativeEndian.Uint64(buf[i*cellBytes:])
		}
	}
	before := c.read[first : first+width]
	for i := range sum {
		sum[i], before[i] = sum[i]-before[i], sum[i]
	}
	return sum, nil
}

func counters(cells []uint64) Counters {
	return Counters{
		Starts:     cells[kernelColumnSTARTS],
		Ends:       cells[kernelColumnENDS],
		Successes:  cells[kernelColumnSUCCESSES],
		Failures:   cells[kernelColumnFAILURES],
		Timeouts:   cells[kernelColumnTIMEOUTS],
		Orphans:    cells[kernelColumnORPHANS],
		Lates:      cells[kernelColumnLATES],
		ReadErrors: cells[kernelColumnREAD_ERRORS],
		MapFull:    cells[kernelColumnMAP_FULL],
		RingFull:   cells[kernelColumnRING_FULL],
		Cut:        cells[kernelColumnCUT],
		ExitsLost:  cells[kernelColumnEXITS_LOST],
	}
}

// Add returns the sums of two counters.
func (c Counters) Add(d Counters) Counters {
	return Counters{
		Starts:     c.Starts + d.Starts,
		Ends:       c.Ends + d.Ends,
		Successes:  c.Successes + d.Successes,
		Failures:   c.Failures + d.Failures,
		Timeouts:   c.Timeouts + d.Timeouts,
		Orphans:    c.Orphans + d.Orphans,
		Lates:      c.Lates + d.Lates,
		ReadErrors: c.ReadErrors + d.ReadErrors,
		MapFull:    c.MapFull + d.MapFull,
		RingFull:   c.RingFull + d.RingFull,
		Cut:        c.Cut + d.Cut,
		ExitsLost:  c.ExitsLost + d.ExitsLost,
	}
}

func (c *Collector) readOthers() (Others, error) {
	var d [kernelOtherOTHERS]uint64
	sum, err := c.readCells(0, len(d))
	if err != nil {
		return Others{}, err
	}
	copy(d[:], sum)
	return Others{Hits: d[kernelOtherHITS], Foreign: d[kernelOtherFOREIGN]}, nil
}

// setClock tells the programs which window is the oldest that is not yet read.
func (c *Collector) setClock(oldest uint64) error {
	c.oldest = oldest
	err := c.maps.Clocks.Put(uint32(0), &kernelClock{
		StartNs:  uint64(c.opts.Start),
		WindowNs: uint64(c.opts.Window),
		Oldest:   oldest,
	})
	if err != nil {
		return fmt.Errorf("write the clock: %w", err)
	}
	return nil
}

// Forget gives the slot of a VM that has ended to a later one. Call it when the
// last window that can concern the VM was read: its end, and dMax of every
// outcome, are past.
func (c *Collector) Forget(pid int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.slots(); err != nil { // notes whether all were taken
		return err
	}
	var slot uint32
	err := c.maps.Vms.LookupAndDelete(uint32(pid), &slot)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil // it never did anything
	}
	if err != nil {
		return fmt.Errorf("forget VM %d: %w", pid, err)
	}
	if err := c.forgetCached(pid); err != nil {
		return err
	}
	if err := c.maps.FreeSlots.Put(nil, slot); err != nil {
		return fmt.Errorf("forget VM %d: %w", pid, err)
	}
	return nil
}

// vmCache is the size of the programs' cache of slots: VM_CACHE of vm.bpf.h.
const vmCache = 256

// forgetCached clears the programs' cached slot of a VM.
func (c *Collector) forgetCached(pid int) error {
	at := uint32(pid % vmCache)
	var entry uint64
	if err := c.maps.VmCache.Lookup(at, &entry); err != nil {
		return fmt.Errorf("forget VM %d: %w", pid, err)
	}
	if entry>>32 != uint64(pid) {
		return nil
	}
	if err := c.maps.VmCache.Put(at, uint64(0)); err != nil {
		return fmt.Errorf("forget VM %d: %w", pid, err)
	}
	return nil
}
