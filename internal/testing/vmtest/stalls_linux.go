package vmtest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	stallSampling = 200 * time.Microsecond // time between the interrupts of a busy processor
	shortestStall = 3 * stallSampling / 2  // shorter gaps between interrupts are not stalls
	stallPages    = 1024                   // of the buffer of each processor
)

// Stalls records when the processors stalled: when the machine's host ran something else on them.
// The machine itself does not notice. A thread counts as running meanwhile, but does nothing. The
// kernel interrupts each busy processor all the time. A gap between the interrupts is a stall.
type Stalls struct {
	mu     sync.Mutex
	cpus   []*stallBuffer
	stalls []interval // not sorted
}

// An interval is in nanoseconds of CLOCK_MONOTONIC.
type interval struct{ from, to int64 }

// WatchStalls records stalls until the test ends.
func WatchStalls(t testing.TB) *Stalls {
	t.Helper()
	s := new(Stalls)
	for cpu := range runtime.NumCPU() {
		b, err := openStalls(cpu)
		if err != nil {
			t.Fatalf("watch processor %d for stalls: %v", cpu, err)
		}
		t.Cleanup(b.close)
		s.cpus = append(s.cpus, b)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				s.drain()
			}
		}
	}()
	t.Cleanup(func() { close(done); <-ended })
	return s
}

func (s *Stalls) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.cpus {
		s.stalls = append(s.stalls, b.drain()...)
	}
}

// Within returns for how many nanoseconds at least one processor stalled between two times of
// CLOCK_MONOTONIC, which must have passed.
func (s *Stalls) Within(from, to int64) int64 {
	s.drain()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.stalls, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	sum := int64(0)
	for _, stall := range s.stalls {
		if begin, end := max(from, stall.from), min(to, stall.to); begin < end {
			sum += end - begin
			from = end
		}
	}
	return sum
}

// A stallBuffer is the ring buffer of a perf event that occurs regularly while a processor is
// busy. It also has the context switches of the processor.
type stallBuffer struct {
	event  int
	memory []byte
	page   *unix.PerfEventMmapPage
	data   []byte

	last int64 // time of the last record
	idle bool  // the processor has been idle since then
}

func openStalls(cpu int) (*stallBuffer, error) {
	attr := unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Config:      unix.PERF_COUNT_SW_CPU_CLOCK,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample:      uint64(stallSampling),
		Sample_type: unix.PERF_SAMPLE_TIME,
		Bits:        unix.PerfBitSampleIDAll | unix.PerfBitUseClockID | unix.PerfBitContextSwitch,
		Clockid:     unix.CLOCK_MONOTONIC,
	}
	event, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open a perf event: %w", err)
	}
	size := unix.Getpagesize()
	memory, err := unix.Mmap(event, 0, (1+stallPages)*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Close(event)
		return nil, fmt.Errorf("map the buffer of a perf event: %w", err)
	}
	page := (*unix.PerfEventMmapPage)(unsafe.Pointer(&memory[0]))
	return &stallBuffer{event: event, memory: memory, page: page, data: memory[size:], idle: true}, nil
}

func (b *stallBuffer) close() {
	_ = unix.Munmap(b.memory)
	_ = unix.Close(b.event)
}

// drain reads the new records, and returns the stalls between them.
func (b *stallBuffer) drain() (stalls []interval) {
	head, tail := atomic.LoadUint64(&b.page.Data_head), b.page.Data_tail
	for tail < head {
		header := b.read(tail, 8)
		kind, misc := binary.NativeEndian.Uint32(header), binary.NativeEndian.Uint16(header[4:])
		size := uint64(binary.NativeEndian.Uint16(header[6:]))
		record := b.read(tail, size)
		tail += size
		// The time is the only field of a sample, and the last of other records.
		now := int64(binary.NativeEndian.Uint64(record[size-8:]))
		if !b.idle && now-b.last > int64(shortestStall) {
			stalls = append(stalls, interval{b.last, now})
		}
		b.last = now
		switch kind {
		case unix.PERF_RECORD_SWITCH_CPU_WIDE:
			next := binary.NativeEndian.Uint32(record[8:])
			b.idle = misc&unix.PERF_RECORD_MISC_SWITCH_OUT != 0 && next == 0
		case unix.PERF_RECORD_SAMPLE:
			b.idle = false
		default: // records were lost, or interrupts suspended
			b.idle = true
		}
	}
	atomic.StoreUint64(&b.page.Data_tail, tail)
	return stalls
}

// read copies n bytes at a position, where the buffer may wrap around.
func (b *stallBuffer) read(position, n uint64) []byte {
	at := position % uint64(len(b.data))
	part := b.data[at:min(at+n, uint64(len(b.data)))]
	return slices.Concat(part, b.data[:n-uint64(len(part))])
}
