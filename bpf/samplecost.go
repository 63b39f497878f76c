package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// A worker imitates the data of a VM's scheduler thread for [MeasureSample].
type worker struct {
	number  uint64
	process *uint64
	pid     uint64 // of the process
}

// measuredRate is the number of samples a second while their cost is measured.
const measuredRate = 1000

// MeasureSample measures the cost of a sample for the interrupted thread: the interrupt, the
// program as it runs for a scheduler's thread, and the other interrupts for each sample. It samples
// a thread of the calling process, never a VM. It computes the cost from the medians of 99 samples
// and of the interrupts between them. That takes a tenth of a second.
func MeasureSample() (cost time.Duration, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("measure the cost of a sample: %w", explain(err))
		}
	}()
	s := newSampler(SamplerOptions{Rate: measuredRate, Window: int64(time.Hour), Rows: 256})
	if err := s.load(s.opts.rows(1), 1, interruptsOfSample); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Begin(monotonic.Now()); err != nil {
		return 0, err
	}
	w := worker{number: 1}
	w.process = &w.pid
	var pinned runtime.Pinner
	pinned.Pin(&w)
	defer pinned.Unpin()
	data := SchedulerData{Size: uint32(unsafe.Sizeof(w)), Current: uint32(unsafe.Offsetof(w.process))}
	data.Arrays[Scheduler] = uint64(uintptr(unsafe.Pointer(&w)))
	if err := s.Add(os.Getpid(), data); err != nil {
		return 0, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	restore, err := nameThread("erts_sched_1")
	if err != nil {
		return 0, err
	}
	defer restore()
	event, err := openSampling(s.opts.gap(), 0, -1)
	if err != nil {
		return 0, err
	}
	defer unix.Close(event)
	if err := setSampling(event, s.Program); err != nil {
		return 0, err
	}
	return s.measure(event)
}

// measure returns how long the calling thread is interrupted by the event for each sample.
func (s *Sampler) measure(event int) (time.Duration, error) {
	memory, err := s.Measured.Memory()
	if err != nil {
		return 0, err
	}
	count := make([]byte, 8)
	const (
		enough  = 99
		longest = time.Second // by then there must be enough
	)
	if err := enableSampling(event); err != nil {
		return 0, err
	}
	var samples, others []time.Duration // costs of interrupts that take a sample, and of those that take none
	begin := time.Now()
	for last, before := time.Duration(0), uint64(0); len(samples) < enough && last < longest; {
		_, err := memory.ReadAt(count, 0)
		now := time.Since(begin)
		if err != nil {
			return 0, err
		}
		if n := binary.NativeEndian.Uint64(count); n != before {
			if n%interruptsOfSample == 0 {
				samples = append(samples, now-last)
			} else {
				others = append(others, now-last)
			}
			before = n
		}
		last = now
	}
	if len(samples) < enough {
		return 0, fmt.Errorf("only %d samples within %v", len(samples), longest)
	}
	return median(samples) + (interruptsOfSample-1)*median(others), nil
}
