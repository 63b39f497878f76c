package bpf

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// remember is how long a timed-out span is remembered, so that a late end is recognized. After that
// an end counts as an orphan.
const remember = time.Minute

// queuePeriod is the minimum interval between sweeps of queues, which may be many. A sweep makes
// room for queues of other processes.
const queuePeriod = time.Second

// Counters are the counts of one outcome in one VM and one window.
type Counters struct {
	Starts, Ends                  uint64 // events, wherever the other end of the instance is
	Successes, Failures, Timeouts uint64 // instances that ended
	Orphans                       uint64 // ends without a known start
	Lates                         uint64 // ends of instances that had ended before
	ReadErrors                    uint64 // events lost: an argument could not be read
	MapFull                       uint64 // starts lost: no room among the open spans
	RingFull                      uint64 // instances not streamed, though counted
	Cut                           uint64 // instances that were given up: their outcome changed, or their VM ended
	ExitsLost                     uint64 // process exits that were not recorded: their spans time out
	Dropped                       uint64 // events that do not satisfy the outcome's rule
	Inferred                      uint64 // instances whose start and end were paired by their order
	Unpaired                      uint64 // instances with an unknown end, because another start replaced them
	Amount                        uint64 // sum of the amounts in the ends of successes
}

// Counts are the counters of one outcome of one VM in one window.
type Counts struct {
	Outcome int // number of the outcome's name, see [Collector.Outcome]
	PID     int // of the VM; 0 for all VMs without a slot together
	Counters
	Bins   []uint64 // delays of successes, by bin of the outcome
	Groups []Group  // of an outcome that is grouped, in no order

	// Stray are the counts since the last read that belong to a window that had already been read,
	// or to one so far ahead of the reader that it had no room yet. The reader was too slow, and
	// these instances are lost.
	Stray Counters
}

// Hits contains the number of runs of programs, and the numbers of those that cost more or less
// than at a probe.
type Hits struct {
	All     uint64
	Returns uint64 // at the return of a function, where the kernel intervenes twice
	Stepped uint64 // at instructions that the kernel must single-step
	Traced  uint64 // at tracepoints of the kernel, which cost the VM nothing but the program
}

// Add returns the sum of two.
func (h Hits) Add(o Hits) Hits {
	return Hits{h.All + o.All, h.Returns + o.Returns, h.Stepped + o.Stepped, h.Traced + o.Traced}
}

// Others are counts that belong to no outcome.
type Others struct {
	Hits    Hits   // runs of the programs, with any result
	Foreign uint64 // events on our labels that do not follow version 1 of the encoding

	// Starts that discovery could not use: Nameless have a name that could not be read or is
	// invalid, Unnoted came when there were too many names.
	Nameless, Unnoted uint64

	Unwatched uint64 // processes of spans to be explained that could not be tracked for lack of space
}

// Swept describes the spans that are left after a sweep.
type Swept struct {
	Open    int // spans that may still end
	Expired int // timed-out spans that are remembered
}

// maxAsked is MAX_ASKED of sweep.bpf.h.
const maxAsked = 1024

// Sweep ends every instance whose deadline, or whose process's exit, is before
// until, nanoseconds of CLOCK_MONOTONIC. Call it with the end of a window before
// reading that window.
func (c *Collector) Sweep(until int64) (Swept, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	forget := uint64(max(until-int64(remember), 0))
	req := kernelSweepRequest{UntilNs: uint64(until), ForgetNs: forget, CrowdNs: forget, Skip: 1}
	if now := monotonic.Now(); now-c.sweptQueues >= int64(queuePeriod) {
		c.sweptQueues, req.Skip = now, 0
	}
	swept, err := c.runSweep(&req)
	if err == nil && c.isCrowdedWithEnded() {
		req.CrowdNs = req.UntilNs
		swept, err = c.runSweep(&req)
	}
	return swept, err
}

// OpenSpans returns the number of spans of each VM that may still end.
func (c *Collector) OpenSpans(pids ...int) (map[int]int, error) {
	ask := make(map[int]int64, len(pids))
	for _, pid := range pids {
		ask[pid] = 0
	}
	return c.sweepVMs(ask, 0)
}

// CutOpen gives up all open instances, which count as Cut of the window that
// contains now.
func (c *Collector) CutOpen(now int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.runSweep(&kernelSweepRequest{UntilNs: uint64(now), CutAll: 1, Skip: 1})
	return err
}

// CutVMs gives up open instances of VMs that have ended: those that began before the time of their VM
// in ended, nanoseconds of CLOCK_MONOTONIC by pid. They count as Cut of the window that contains
// now. Those whose deadline is over by now, or whose process has exited, end as they do without it.
func (c *Collector) CutVMs(ended map[int]int64, now int64) error {
	_, err := c.sweepVMs(ended, now)
	return err
}

// sweepVMs sweeps until a time. It gives up the instances of VMs that began before the times in cut,
// and returns the number of those that stay open.
func (c *Collector) sweepVMs(cut map[int]int64, until int64) (open map[int]int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open = make(map[int]int, len(cut))
	for pids := range slices.Chunk(slices.Sorted(maps.Keys(cut)), maxAsked) {
		if err := c.ask(cut, pids); err != nil {
			return nil, err
		}
		_, err := c.runSweep(&kernelSweepRequest{UntilNs: uint64(until), Asked: 1, Skip: 1})
		if err := errors.Join(err, c.answer(pids, open)); err != nil {
			return nil, err
		}
	}
	return open, nil
}

// ask prepares a sweep that treats some VMs separately.
func (c *Collector) ask(cut map[int]int64, pids []int) error {
	if c.closed {
		return ErrClosed
	}
	for _, pid := range pids {
		if err := c.maps.AskedVms.Put(uint32(pid), kernelAskedVm{CutNs: uint64(cut[pid])}); err != nil {
			return fmt.Errorf("sweep the open spans of VM %d: %w", pid, err)
		}
	}
	return nil
}

// answer reads how many instances of VMs a sweep has left open.
func (c *Collector) answer(pids []int, open map[int]int) error {
	var errs []error
	for _, pid := range pids {
		var vm kernelAskedVm
		errs = append(errs, c.maps.AskedVms.LookupAndDelete(uint32(pid), &vm))
		open[pid] = int(vm.Open)
	}
	return errors.Join(errs...)
}

func (c *Collector) runSweep(req *kernelSweepRequest) (Swept, error) {
	if c.closed {
		return Swept{}, ErrClosed
	}
	if err := c.maps.SweepRequests.Put(uint32(0), req); err != nil {
		return Swept{}, err
	}
	_, err := c.sweep.Run(&ebpf.RunOptions{})
	if err == nil {
		err = c.maps.SweepRequests.Lookup(uint32(0), req)
	}
	if err != nil {
		return Swept{}, fmt.Errorf("sweep the open spans: %w", explain(err))
	}
	return Swept{Open: int(req.Open), Expired: int(req.Expired)}, nil
}

// Outcome returns the number that outcomes with this ID have in counts and instances, see
// [Outcome.ID]. The outcomes of the first plan are numbered from 0.
func (c *Collector) Outcome(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok := c.numbers[id]; ok {
		return n
	}
	return -1
}

// ID returns the ID of the outcomes of a number.
func (c *Collector) ID(number int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, n := range c.numbers {
		if n == number {
			return id
		}
	}
	return ""
}

// Streams reports whether instances of any outcome are streamed.
func (c *Collector) Streams() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.entries, func(e entry) bool { return e.outcome.Stream != StreamNone })
}

// Read returns the counts of window number n, for every outcome of its plan and every VM that was
// seen and had its slot during the whole window. It frees the window's room for a later one. The
// caller reads each window once, in order, after it has ended and was swept. The result is valid
// until the next call that returns counts.
func (c *Collector) Read(n uint64) ([]Counts, Others, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, Others{}, ErrClosed
	}
	c.counts = c.counts[:0]
	row := int(n % windows)
	entries := c.planOf(n).entries
	others := c.readOthers()
	from, _ := c.windowOf(n)
	for _, i := range entries {
		for slot := range c.layout.slots {
			pid, ok := c.vmIn(slot)
			if !ok {
				continue
			}
			counts := Counts{Outcome: c.entries[i].number, PID: pid}
			counts.Counters, counts.Bins = c.readRow(i, slot, row)
			counts.Stray = c.readColumns(i, slot, windows)
			if c.hasSlotSince(pid, from) {
				c.counts = append(c.counts, counts)
			}
		}
	}
	c.readReplaced(n)
	err := c.advance(n + 1)
	err = errors.Join(err, c.readGroups(n, entries), c.freeDrained(), c.handOver())
	c.clearWorst(row)
	return c.counts, others, err
}

// readReplaced adds the counts of entries that had been replaced before window n began, to those of
// the entries that replace them.
func (c *Collector) readReplaced(n uint64) {
	from, _ := c.windowOf(n)
	for i := range c.entries {
		e := &c.entries[i]
		if !e.used || e.until > from {
			continue
		}
		for slot := range c.layout.slots {
			pid, ok := c.vmIn(slot)
			if !ok {
				continue
			}
			ended := c.readColumns(i, slot, int(n%windows)).cut()
			stray := c.readColumns(i, slot, windows).cut()
			at := slices.IndexFunc(c.counts, func(k Counts) bool { return k.Outcome == e.number && k.PID == pid })
			if at >= 0 {
				c.counts[at].Counters = c.counts[at].Counters.Add(ended)
				c.counts[at].Stray = c.counts[at].Stray.Add(stray)
			}
		}
	}
}

// Skip gives up the windows from the oldest unread one up to but excluding n: the reader is so late
// that they had no room for all events. It returns their counts as stray, which is loss.
func (c *Collector) Skip(n uint64) ([]Counts, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	// The clock comes first, so that nothing more is counted in the rows that are given up.
	from := c.oldest
	atomic.StoreUint64(&c.memory.clock.Oldest, n)
	c.readAll(func(i, slot int) (lost Counters) {
		for m := from; m < min(n, from+windows); m++ {
			counted, _ := c.readRow(i, slot, int(m%windows)) // with its bins: later windows have the row
			lost = lost.Add(counted)
		}
		return lost
	})
	// Ended entries are freed at the next read, when their spans will be swept.
	err := c.advance(n)
	for m := from; m < min(n, from+windows); m++ {
		row := int(m % windows)
		c.clearWorst(row)
		err = errors.Join(err, c.clearGroups(uint32(row)))
	}
	return c.counts, err
}

// Stray returns the stray counts since the last Read or Stray.
func (c *Collector) Stray() ([]Counts, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	c.readAll(func(i, slot int) Counters { return c.readColumns(i, slot, windows) })
	return c.counts, nil
}

// readAll puts what read returns for each entry and slot into the counts, as stray.
func (c *Collector) readAll(read func(i, slot int) Counters) {
	c.counts = c.counts[:0]
	for i := range c.entries {
		for slot := range c.layout.slots {
			if pid, ok := c.vmIn(slot); ok && c.entries[i].used {
				c.counts = append(c.counts, Counts{Outcome: c.entries[i].number, PID: pid, Stray: read(i, slot)})
			}
		}
	}
}

// vmIn returns the VM in a slot. The slot of VMs without one exists from the time when a VM may
// have missed a slot.
func (c *Collector) vmIn(slot int) (pid int, ok bool) {
	if slot == c.opts.VMs {
		return 0, c.isCrowded()
	}
	pid, _ = c.inSlot(slot)
	return pid, pid != 0
}

// noUser is the user of VMs with an unknown user: NO_USER of vm.bpf.h.
const noUser = math.MaxUint32

// inSlot returns the VM in a slot, or 0 for none, and its user, or [NoUser] if unknown.
func (c *Collector) inSlot(slot int) (pid, user int) {
	entry := atomic.LoadUint64(&c.memory.slotPIDs[slot])
	return int(uint32(entry)), userID(uint32(entry >> 32))
}

// NoUser is the user of VMs with an unknown user.
const NoUser = -1

func userID(id uint32) int {
	if id == noUser {
		return NoUser
	}
	return int(id)
}

// isCrowded reports whether all slots are taken, or were at some time.
func (c *Collector) isCrowded() bool {
	c.crowded = c.crowded || !slices.Contains(c.memory.slotPIDs, 0)
	return c.crowded
}

// readRow returns the increments of a row since the last read. The bins are valid until the next
// read of the row.
func (c *Collector) readRow(i, slot, row int) (Counters, []uint64) {
	e := &c.entries[i]
	if e.bins[slot] == nil {
		e.bins[slot] = make([]uint64, e.outcome.Bins)
	}
	counted, bins := c.readColumns(i, slot, row), e.bins[slot]
	if counted.Successes > 0 {
		c.readCells(bins, c.row(i, slot, row)+columns)
	} else {
		clear(bins)
	}
	return counted, bins
}

func (c *Collector) row(i, slot, row int) int {
	return c.layout.row(c.entries[i].cells, c.entries[i].outcome.Bins, slot, row)
}

// readColumns returns the increments of a row's columns since the last read.
func (c *Collector) readColumns(i, slot, row int) Counters {
	var cells [columns]uint64
	c.readCells(cells[:], c.row(i, slot, row))
	return counters(&cells)
}

// readCells stores the increments of cells since the last read, of all stripes together. It takes them out of
// the cells while the programs continue counting.
func (c *Collector) readCells(added []uint64, first int) {
	clear(added)
	for stripe := range c.layout.stripes {
		cells := c.memory.cells[stripe*c.layout.stripeCells+first:][:len(added)]
		for i := range cells {
			if atomic.LoadUint64(&cells[i]) != 0 {
				added[i] += atomic.SwapUint64(&cells[i], 0)
			}
		}
	}
}

// clearWorst clears the worst instances in a row that was read.
func (c *Collector) clearWorst(row int) {
	for i := row; i < len(c.memory.worsts); i += windows {
		c.memory.worsts[i] = kernelWorst{}
	}
}

func counters(cells *[columns]uint64) Counters {
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
		Dropped:    cells[kernelColumnDROPPED],
		Inferred:   cells[kernelColumnINFERRED],
		Unpaired:   cells[kernelColumnUNPAIRED],
		Amount:     cells[kernelColumnAMOUNT],
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
		Dropped:    c.Dropped + d.Dropped,
		Inferred:   c.Inferred + d.Inferred,
		Unpaired:   c.Unpaired + d.Unpaired,
		Amount:     c.Amount + d.Amount,
	}
}

// cut returns the counters with all instances that ended given up.
func (c Counters) cut() Counters {
	c.Cut += c.Successes + c.Failures + c.Timeouts
	c.Successes, c.Failures, c.Timeouts, c.RingFull = 0, 0, 0, 0
	c.Inferred, c.Amount = 0, 0
	return c
}

func (c *Collector) readOthers() Others {
	var d [others]uint64
	c.readCells(d[:], 0)
	runs := make([]uint64, c.layout.slots)
	c.readCells(runs, others)
	var all uint64
	for slot, n := range runs {
		all += n
		if pid, ok := c.vmIn(slot); ok && n > 0 {
			c.vmHits[pid] += n
		}
		if pid, user := c.userIn(slot); pid != 0 && n > 0 {
			c.userHits[user] += n
		}
	}
	if runs[c.opts.VMs] > 0 {
		c.readCrowd()
	}
	c.meet(c.isCrowded() && runs[c.opts.VMs] > 0)
	return Others{
		Hits: Hits{
			All:     all,
			Returns: d[kernelOtherRETURNS],
			Stepped: d[kernelOtherSTEPPED],
			Traced:  d[kernelOtherTRACED],
		},
		Foreign:  d[kernelOtherFOREIGN],
		Nameless: d[kernelOtherNAMELESS],
		Unnoted:  d[kernelOtherUNNOTED],

		Unwatched: d[kernelOtherUNWATCHED],
	}
}

// VMHits returns the number of runs of programs in each VM, by its pid, in the windows that were
// read since the last call. The pid 0 stands for all VMs without a slot.
func (c *Collector) VMHits() map[int]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	hits := c.vmHits
	c.vmHits = make(map[int]uint64)
	return hits
}

// userIn returns the VM in a slot and its user. The VM is 0 in the slot of the VMs without one.
func (c *Collector) userIn(slot int) (pid, user int) {
	if slot == c.opts.VMs {
		return 0, NoUser
	}
	return c.inSlot(slot)
}

// readCrowd adds the runs of programs in VMs without slots to the hits of their users.
func (c *Collector) readCrowd() {
	if c.maps.CrowdRuns == nil { // only in tests
		return
	}
	var user uint32
	var runs uint64
	for all := c.maps.CrowdRuns.Iterate(); all.Next(&user, &runs); {
		if n := runs - c.crowdRuns[user]; n > 0 {
			c.userHits[userID(user)] += n
			c.crowdRuns[user] = runs
		}
	}
}

// UserHits returns the number of runs of programs in the VMs of each user, in the same windows as
// [Collector.VMHits]. The key is the number of the user in the first user namespace. VMs that have
// ended or had no slot are included. [NoUser] stands for VMs whose user is not known.
func (c *Collector) UserHits() map[int]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	hits := c.userHits
	c.userHits = make(map[int]uint64)
	return hits
}

// Forget frees the slot of a VM that has ended. Call it when the last window that can concern the
// VM was read: when dMax of every outcome has passed since its end.
func (c *Collector) Forget(pid int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if err := c.forgetThreads(pid); err != nil {
		return err
	}
	if err := forgetCached(c.maps.TermCache, pid); err != nil {
		return err
	}
	c.isCrowded() // otherwise it would be unknown that it was
	c.disinherit(pid)
	var slot uint32
	err := c.maps.Vms.LookupAndDelete(uint32(pid), &slot)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil // it never had an event
	}
	if err != nil {
		return fmt.Errorf("forget VM %d: %w", pid, err)
	}
	atomic.StoreUint64(&c.memory.slotPIDs[slot], 0)
	c.forgetNames(int(slot))
	if err := forgetCached(c.maps.VmCache, pid); err != nil {
		return err
	}
	if err := c.maps.FreeSlots.Put(nil, slot); err != nil {
		return fmt.Errorf("forget VM %d: %w", pid, err)
	}
	return nil
}

// vmCache is the size of the programs' caches: VM_CACHE of vm.bpf.h and TABLES_CACHE of
// pid.bpf.h.
const vmCache = 256

// forgetCached clears the entries of a VM in a cache of the programs.
func forgetCached(cache *ebpf.Map, pid int) error {
	at := uint32(pid % vmCache)
	var entry uint64
	if err := cache.Lookup(at, &entry); err != nil {
		return fmt.Errorf("forget VM %d: %w", pid, err)
	}
	if entry>>32 != uint64(pid) {
		return nil
	}
	if err := cache.Put(at, uint64(0)); err != nil {
		return fmt.Errorf("forget VM %d: %w", pid, err)
	}
	return nil
}
