package bpf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/beamscope/beamscope/internal/host/processor"
	"github.com/beamscope/beamscope/usdt"
)

// trap is a function that begins with a nop, to which a uprobe can be attached.
func trap()

// trapAddress returns the address of trap's first instruction.
func trapAddress() uintptr

// trapStepped is a function that begins with an instruction that the kernel must single-step.
func trapStepped()

// trapSteppedAddress returns the address of trapStepped's first instruction.
func trapSteppedAddress() uintptr

// Traps are the costs on this machine of entering the kernel and returning at a probe, including an
// empty program.
type Traps struct {
	Probe   time.Duration // at a nop, or another instruction that the kernel emulates
	Return  time.Duration // at the return of a function, including its entry, where the kernel also intervenes
	Stepped time.Duration // at an instruction that the kernel must single-step
}

// Cost returns the cost of hits, without the programs.
func (t Traps) Cost(h Hits) time.Duration {
	return time.Duration(h.All-min(h.Traced, h.All))*t.Probe +
		time.Duration(h.Returns)*max(t.Return-t.Probe, 0) +
		time.Duration(h.Stepped)*max(t.Stepped-t.Probe, 0)
}

// MeasureTraps measures the processor time that traps cost. It sets probes in the calling process,
// never in a VM, and hits them some thousand times. It takes some 100 ms.
func MeasureTraps() (Traps, error) {
	var t Traps
	for _, m := range []struct {
		cost     *time.Duration
		call     func()
		address  uintptr
		atReturn bool
		calls    int
	}{
		{&t.Probe, trap, trapAddress(), false, 5000},
		{&t.Return, trap, trapAddress(), true, 3000},
		{&t.Stepped, trapStepped, trapSteppedAddress(), false, 1000},
	} {
		offset, err := ownFileOffset(uint64(m.address))
		if err != nil {
			return Traps{}, fmt.Errorf("measure the cost of a hit: %w", err)
		}
		detach, err := attachEmpty("/proc/self/exe", usdt.Site{Offset: offset}, os.Getpid(), m.atReturn)
		if err != nil {
			return Traps{}, fmt.Errorf("measure the cost of a hit: %w", explain(err))
		}
		*m.cost = timeCalls(m.call, m.calls)
		if err := detach(); err != nil {
			return Traps{}, err
		}
	}
	return t, nil
}

// timeCalls returns the processor time of a call. Elapsed time would include what other threads do
// on a busy machine.
func timeCalls(call func(), calls int) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return timeBatches(call, calls, processor.Thread)
}

// batch is the number of calls between two readings of the clock. Reading it costs about as much as
// a quarter of a call, and a batch takes far less than a time slice.
const batch = 50

// timeBatches returns the median time of a call by a clock, over short batches. So interrupts, cold
// caches and a halt of the whole machine, which the clock cannot exclude, have no effect unless they
// hit half of the batches.
func timeBatches(call func(), calls int, clock func() time.Duration) time.Duration {
	took := make([]time.Duration, max(calls/batch, 1))
	for i := range took {
		begin := clock()
		for range batch {
			call()
		}
		took[i] = (clock() - begin) / batch
	}
	return median(took)
}

// AttachEmpty attaches a program that returns at once to a site in a process, to measure the cost
// of a probe itself. The returned function detaches it.
func AttachEmpty(path string, site usdt.Site, pid int) (detach func() error, err error) {
	return attachEmpty(path, site, pid, false)
}

// attachEmpty is AttachEmpty, or the same at the return of the function that begins at the site.
func attachEmpty(path string, site usdt.Site, pid int, atReturn bool) (detach func() error, err error) {
	multi := MultiLinks() == nil
	spec := &ebpf.ProgramSpec{
		Type:         ebpf.Kprobe,
		License:      "Dual MIT/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	}
	if multi {
		spec.AttachType = ebpf.AttachTraceUprobeMulti
	}
	program, err := ebpf.NewProgram(spec)
	if err != nil {
		return nil, err
	}
	exe, err := link.OpenExecutable(path)
	if err != nil {
		return nil, errors.Join(err, program.Close())
	}
	at := &sites{offsets: []uint64{site.Offset}, variant: variant{returns: atReturn}}
	if site.Semaphore != 0 {
		at.semaphores = []uint64{site.Semaphore}
	}
	l, err := linkAll(exe, program, at, pid, multi)
	if err != nil {
		return nil, errors.Join(err, program.Close())
	}
	return func() error { return errors.Join(l.Close(), program.Close()) }, nil
}

// ownFileOffset translates an address in the calling process into an offset in
// the file that is mapped there.
func ownFileOffset(address uint64) (uint64, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var from, to, offset uint64
		var perms string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s %x", &from, &to, &perms, &offset); err != nil {
			return 0, fmt.Errorf("/proc/self/maps: %w", err)
		}
		if from <= address && address < to {
			return address - from + offset, nil
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("address %#x is not mapped", address))
}

// MeasurePrograms makes the kernel account for the time in eBPF programs until the returned closer
// is closed. The accounting itself costs some tens of nanoseconds a hit, so it is meant for a
// window now and then.
func (c *Collector) MeasurePrograms() (io.Closer, error) {
	closer, err := ebpf.EnableStats(statsRunTime)
	if err != nil {
		return nil, fmt.Errorf("measure the programs, which needs CAP_SYS_ADMIN: %w", err)
	}
	return closer, nil
}

// statsRunTime is BPF_STATS_RUN_TIME of linux/bpf.h.
const statsRunTime = 0

// ProgramTime returns the number of runs of the collector's programs while they were measured, and
// their total time.
func (c *Collector) ProgramTime() (runs uint64, total time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.programs {
		if p.err != nil {
			continue
		}
		stats, err := p.program.Stats()
		if err != nil {
			return 0, 0, fmt.Errorf("read the programs' statistics: %w", err)
		}
		runs += stats.RunCount
		total += stats.Runtime
	}
	return runs, total, nil
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
