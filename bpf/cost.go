package bpf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/beamscope/beamscope/usdt"
)

// trap does nothing, at an address that a uprobe can be set to.
func trap()

// trapAddress returns the address of trap's first instruction.
func trapAddress() uintptr

// MeasureTrap returns what it costs on this machine to get into the kernel and
// back at a probe, an empty program included. It sets a probe in the calling
// process, never in a VM, hits it a few thousand times, and takes the median of
// several rounds. It takes some 30 ms.
func MeasureTrap() (time.Duration, error) {
	offset, err := ownFileOffset(uint64(trapAddress()))
	if err != nil {
		return 0, fmt.Errorf("measure the cost of a hit: %w", err)
	}
	detach, err := AttachEmpty("/proc/self/exe", usdt.Site{Offset: offset}, os.Getpid())
	if err != nil {
		return 0, fmt.Errorf("measure the cost of a hit: %w", explain(err))
	}
	cost := timeTrap()
	return cost, detach()
}

// timeTrap returns the median over rounds of what a call of trap takes.
func timeTrap() time.Duration {
	const rounds, calls = 9, 500

	var took [rounds]time.Duration
	for i := range took {
		begin := time.Now()
		for range calls {
			trap()
		}
		took[i] = time.Since(begin) / calls
	}
	return median(took[:])
}

// AttachEmpty attaches a program that returns at once to a site in a process, to
// measure what a probe costs by itself. The returned function ends that.
func AttachEmpty(path string, site usdt.Site, pid int) (detach func() error, err error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:         ebpf.Kprobe,
		AttachType:   ebpf.AttachTraceUprobeMulti,
		License:      "Dual MIT/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return nil, err
	}
	exe, err := link.OpenExecutable(path)
	if err != nil {
		return nil, errors.Join(err, program.Close())
	}
	opts := link.UprobeMultiOptions{Addresses: []uint64{site.Offset}, PID: uint32(pid)}
	if site.Semaphore != 0 {
		opts.RefCtrOffsets = []uint64{site.Semaphore}
	}
	l, err := exe.UprobeMulti(nil, program, &opts)
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

// MeasurePrograms has the kernel account for the time in eBPF programs until the
// returned closer is closed. The accounting itself costs some tens of
// nanoseconds a hit, so it is meant for a window now and then.
func (c *Collector) MeasurePrograms() (io.Closer, error) {
	closer, err := ebpf.EnableStats(statsRunTime)
	if err != nil {
		return nil, fmt.Errorf("measure the programs, which needs CAP_SYS_ADMIN: %w", err)
	}
	return closer, nil
}

// statsRunTime is BPF_STATS_RUN_TIME of linux/bpf.h.
const statsRunTime = 0

// ProgramTime returns how often the collector's programs ran while they were
// measured, and for how long in all.
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
