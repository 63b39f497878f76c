package bpf

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// sampleWindows is WINDOWS of sample.bpf.c.
const sampleWindows = 8

const (
	// interruptsOfSample is the number of interrupts for each sample. More interrupts give samples
	// finer times.
	interruptsOfSample = 2

	// spread is the largest deviation of the time between interrupts from its mean, as a part of
	// the mean.
	spread = 1. / 3

	// drawnFor is the number of interrupts after which the time between them is drawn again. Work
	// in step with this number of interrupts has little weight in a window.
	drawnFor = 20
)

// A Sampler takes samples of VMs, by a timer of each processor. It attaches nothing to the VMs. Its
// methods may be called by several goroutines at once.
//
// Each processor has one sample in each interval of 1/Rate, at a random time: work that has a period
// of its own, such as that of a timer, must not be in step with the samples. The kernel has no
// interrupts at random times, so the next one of more frequent interrupts takes the sample. The
// sampler also draws the time between these interrupts at random, for each processor and again every
// few interrupts, so that they are not in step with anything for long either.
type Sampler struct {
	opts SamplerOptions
	objects
	events []event // one for each processor

	mu     sync.Mutex
	start  int64                         // of the first window, in nanoseconds of CLOCK_MONOTONIC
	taken  [sampleWindows]uint64         // as last read
	noRoom map[int][sampleWindows]uint64 // likewise, by VM
	closed bool

	drawing sync.WaitGroup
	stop    chan struct{} // closed to stop drawing
	drawErr error         // the error that stopped drawing
}

// An event interrupts a processor again and again.
type event struct{ fd, cpu int }

type objects struct {
	Program  *ebpf.Program  `ebpf:"sample_vm"`
	Start    *ebpf.Variable `ebpf:"windows_start"`
	VMs      *ebpf.Map      `ebpf:"sampled_vms"`
	Even     *ebpf.Map      `ebpf:"even_samples"`
	Odd      *ebpf.Map      `ebpf:"odd_samples"`
	Clocks   *ebpf.Map      `ebpf:"sample_clocks"`
	Gaps     *ebpf.Map      `ebpf:"gaps"`
	Counted  *ebpf.Map      `ebpf:"taken"`
	Measured *ebpf.Map      `ebpf:"measured"`
}

func (o *objects) close() error {
	return errors.Join(o.Program.Close(), o.VMs.Close(), o.Even.Close(), o.Odd.Close(), o.Clocks.Close(), o.Gaps.Close(), o.Counted.Close(), o.Measured.Close())
}

func newSampler(o SamplerOptions) *Sampler {
	return &Sampler{opts: o, stop: make(chan struct{}), noRoom: make(map[int][sampleWindows]uint64)}
}

// NewSampler returns a sampler that begins with [Sampler.Begin]. The caller must Close it. The
// error wraps [ErrPermission], [ErrKernel] or [ErrRefused] if the machine or the privileges do not
// suffice, and [ErrRate] if the kernel does not allow the required number of interrupts.
func NewSampler(o SamplerOptions) (s *Sampler, err error) {
	processors, err := onlineProcessors()
	if err != nil {
		return nil, fmt.Errorf("take samples: %w", err)
	}
	if err := checkRate(o.Rate); err != nil {
		return nil, fmt.Errorf("take samples: %w", err)
	}
	s = newSampler(o)
	if err := s.load(o.rows(len(processors)), slices.Max(processors)+1, 0); err != nil {
		return nil, fmt.Errorf("take samples: %w", explain(err))
	}
	for _, cpu := range processors {
		gap := drawGap(o.gap())
		fd, err := openSampling(gap, -1, cpu)
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			continue // it went offline
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("take samples on processor %d: %w", cpu, explain(err)), s.Close())
		}
		s.events = append(s.events, event{fd, cpu})
		err = s.Gaps.Put(uint32(cpu), uint64(gap))
		if err == nil {
			err = setSampling(fd, s.Program)
		}
		if err == nil {
			err = enableSampling(fd)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("take samples on processor %d: %w", cpu, explain(err)), s.Close())
		}
	}
	return s, nil
}

// Begin begins to take samples. The first window starts at a time in nanoseconds of CLOCK_MONOTONIC.
// Begin is called once.
func (s *Sampler) Begin(at int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.start = at
	if err := s.Start.Set(uint64(at)); err != nil {
		return fmt.Errorf("begin to take samples: %w", err)
	}
	s.drawing.Go(s.drawAgain)
	return nil
}

// load loads the program and its maps for a number of processors. If measuredEvery is not 0, the
// program counts its interrupts and takes a sample at each such number of them.
func (s *Sampler) load(rows uint32, processors int, measuredEvery uint32) error {
	spec, err := loadSample()
	if err != nil {
		return err
	}
	namespace, err := ownNamespace()
	if err != nil {
		return err
	}
	if err := setVariables(spec, map[string]any{
		sampleVarNamespace:      namespace,
		sampleVarWindowLength:   uint64(s.opts.Window),
		sampleVarSampleInterval: uint64(s.opts.interval()), sampleVarMeasuredEvery: measuredEvery,
	}); err != nil {
		return err
	}
	spec.Maps[sampleMapEvenSamples].MaxEntries = rows
	spec.Maps[sampleMapOddSamples].MaxEntries = rows
	spec.Maps[sampleMapGaps].MaxEntries = uint32(processors)
	return spec.LoadAndAssign(&s.objects, nil)
}

// sampleSubjects loads the program that takes samples.
func sampleSubjects() []Subject {
	s := newSampler(SamplerOptions{Rate: 1, Window: 1})
	err := s.load(1, 1, 0)
	if err == nil {
		err = s.Close()
	}
	return []Subject{{"samples", explain(err)}}
}

// checkRate checks whether the kernel allows the interrupts for a rate of samples.
func checkRate(rate int) error {
	const file = "/proc/sys/kernel/perf_event_max_sample_rate"
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if allowed := int(float64(most) * (1 - spread) / interruptsOfSample); rate > allowed {
		return fmt.Errorf("%w: %d a second, at most %d can be: %s is %d", ErrRate, rate, allowed, file, most)
	}
	return nil
}

// interval returns the time between samples.
func (o SamplerOptions) interval() time.Duration { return time.Second / time.Duration(o.Rate) }

// gap returns the mean time between interrupts.
func (o SamplerOptions) gap() time.Duration { return o.interval() / interruptsOfSample }

// drawGap draws the time between interrupts.
func drawGap(mean time.Duration) time.Duration {
	return time.Duration((1 + spread*(2*rand.Float64()-1)) * float64(mean))
}

// drawAgain draws the time between interrupts again and again, until the sampler is closed.
func (s *Sampler) drawAgain() {
	ticker := time.NewTicker(drawnFor * s.opts.gap())
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
		}
		if err := s.draw(); err != nil {
			s.mu.Lock()
			s.drawErr = err
			s.mu.Unlock()
			return
		}
	}
}

// draw draws the time between the interrupts of each processor.
func (s *Sampler) draw() error {
	for _, e := range s.events {
		gap := drawGap(s.opts.gap())
		if err := setGap(e.fd, gap); err != nil {
			return err
		}
		if err := s.Gaps.Put(uint32(e.cpu), uint64(gap)); err != nil {
			return err
		}
	}
	return nil
}

// onlineProcessors returns the numbers of the processors that are in use.
func onlineProcessors() ([]int, error) {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	return parseProcessors(strings.TrimSpace(string(text)))
}

// parseProcessors parses a list such as 0-3,6.
func parseProcessors(text string) ([]int, error) {
	const most = 1 << 16
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, found := strings.Cut(part, "-")
		if !found {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if errors.Join(err, err2) != nil || from < 0 || to < from || to >= most {
			return nil, fmt.Errorf("not a list of processors: %q", text)
		}
		for n := from; n <= to; n++ {
			all = append(all, n)
		}
	}
	return all, nil
}

// Processors returns the number of processors that take samples.
func (s *Sampler) Processors() int { return len(s.events) }

// Add starts taking samples of a VM.
func (s *Sampler) Add(pid int, d SchedulerData) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	vm := sampleSampledVm{Size: d.Size, Current: d.Current}
	copy(vm.Data[:], d.Arrays[:])
	copy(vm.Number[:], d.Number[:])
	if err := s.VMs.Put(uint32(pid), vm); err != nil {
		return fmt.Errorf("take samples of pid %d: %w", pid, err)
	}
	s.noRoom[pid] = [sampleWindows]uint64{}
	return nil
}

// Remove stops taking samples of a VM.
func (s *Sampler) Remove(pid int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	delete(s.noRoom, pid)
	if err := s.VMs.Delete(uint32(pid)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("take no more samples of pid %d: %w", pid, err)
	}
	return nil
}

// Read returns the samples of a window, by its number from 0 on. The window must have ended. Each
// window is read once, and in order. now is the present time. The error wraps [ErrStale] if later
// windows have taken its place.
func (s *Sampler) Read(window uint64, now int64) (Samples, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Samples{}, ErrClosed
	}
	all := Samples{NoRoom: make(map[int]uint64)}
	if err := s.take(window, &all); err != nil {
		return Samples{}, fmt.Errorf("read samples: %w", err)
	}
	slot := window % sampleWindows
	if err := s.readTaken(uint32(slot), &all); err != nil {
		return Samples{}, fmt.Errorf("read samples: %w", err)
	}
	if s.drawErr != nil {
		return Samples{}, fmt.Errorf("read samples: draw the times of samples: %w", s.drawErr)
	}
	for pid, before := range s.noRoom {
		var vm sampleSampledVm
		if err := s.VMs.Lookup(uint32(pid), &vm); err != nil {
			return Samples{}, fmt.Errorf("read samples: %w", err)
		}
		if n := vm.NoRoom[slot] - before[slot]; n > 0 {
			all.NoRoom[pid] = n
		}
		before[slot] = vm.NoRoom[slot]
		s.noRoom[pid] = before
	}
	if now-s.start >= int64(window+sampleWindows)*s.opts.Window {
		return Samples{}, fmt.Errorf("window %d: %w", window, ErrStale)
	}
	return all, nil
}

// take takes the counts of a window, and those of earlier unread ones.
func (s *Sampler) take(window uint64, all *Samples) error {
	counts := s.Even
	if window%2 == 1 {
		counts = s.Odd
	}
	const atATime = 4096
	keys, values := make([]sampleSample, atATime), make([]uint64, atATime)
	var over []sampleSample
	var cursor ebpf.MapBatchCursor
	for {
		n, err := counts.BatchLookup(&cursor, keys, values, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		for i, k := range keys[:n] {
			if k.Window > window {
				continue // the program counts there
			}
			over = append(over, k)
			if k.Window == window {
				all.Samples = append(all.Samples, Sample{
					PID: int(k.Pid), Address: k.Ip, Thread: Thread(k.Thread), Count: values[i],
					InRegister: k.InRegister, Current: Current(k.Current), ByScheduler: k.ByScheduler,
				})
			}
		}
		if err != nil {
			break
		}
	}
	for part := range slices.Chunk(over, atATime) {
		if _, err := counts.BatchDelete(part, nil); err != nil {
			return err
		}
	}
	return nil
}

// readTaken reads the number of samples taken in the window of a slot.
func (s *Sampler) readTaken(slot uint32, all *Samples) error {
	var each []uint64
	if err := s.Counted.Lookup(slot, &each); err != nil {
		return err
	}
	var sum uint64
	for _, n := range each {
		sum += n
	}
	all.Taken = sum - s.taken[slot]
	s.taken[slot] = sum
	return nil
}

// Close ends the sampling.
func (s *Sampler) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.stop)
	s.mu.Unlock()
	s.drawing.Wait()
	s.mu.Lock()
	var errs []error
	for _, e := range s.events {
		errs = append(errs, unix.Close(e.fd))
	}
	return errors.Join(append(errs, s.objects.close())...)
}
