package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
)

// Status is the way in which an instance ended.
type Status uint8

// The ways in which an instance can end.
const (
	Success Status = iota
	Failure
	Timeout
)

// An Instance is one outcome instance that has ended.
type Instance struct {
	Outcome    int // number of the outcome's name, see [Collector.Outcome]
	PID        int // of the VM
	Status     Status
	Start, End int64  // nanoseconds of CLOCK_MONOTONIC
	ID         uint64 // id of the span
	Parent     uint64 // id of the parent instance, 0: none
	Process    uint64 // Erlang process that started it: number | serial<<32 | node<<48
	Class      string // class of a failure, at most 63 bytes; "" if it has none
}

// A stream reads the ring buffer. The programs do not wake up a reader, because that would triple
// the cost of a hit.
type stream struct {
	mu     sync.Mutex
	reader *ringbuf.Reader // nil until it is needed
	record ringbuf.Record
	batch  []Instance
	closed bool
}

// batchMost is the maximum number of instances that Drain passes on at a time.
const batchMost = 4096

// Drain passes the streamed instances to fn, in batches. It reuses the slice, so fn copies what it
// keeps.
func (c *Collector) Drain(fn func([]Instance)) error {
	s := &c.ring
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if err := s.open(c.maps.Ring); err != nil {
		return fmt.Errorf("open the stream: %w", err)
	}
	if err := s.drain(fn); err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	return nil
}

func (s *stream) open(ring *ebpf.Map) (err error) {
	if s.reader == nil {
		s.batch = make([]Instance, 0, batchMost)
		s.reader, err = ringbuf.NewReader(ring)
	}
	return err
}

// drain passes on the contents of the ring buffer without waiting for more.
func (s *stream) drain(fn func([]Instance)) error {
	flush := func() {
		if len(s.batch) > 0 {
			fn(s.batch)
		}
		s.batch = s.batch[:0]
	}
	defer flush()
	s.reader.SetDeadline(time.Unix(1, 0)) // long ago
	// At most the initial contents, because otherwise it might never end.
	for n := s.reader.BufferSize() / instanceBytes; n > 0; n-- {
		err := s.reader.ReadInto(&s.record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		i, err := decodeInstance(s.record.RawSample)
		if err != nil {
			return err
		}
		if s.batch = append(s.batch, i); len(s.batch) == batchMost {
			flush()
		}
	}
	return nil
}

func (s *stream) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.reader == nil {
		return nil
	}
	err := s.reader.Close()
	s.reader = nil
	return err
}

const (
	instanceBytes = int(unsafe.Sizeof(kernelInstance{}))
	failedBytes   = int(unsafe.Sizeof(kernelFailedInstance{}))
)

func decodeInstance(b []byte) (Instance, error) {
	if len(b) != instanceBytes && len(b) != failedBytes {
		return Instance{}, fmt.Errorf("a record of %d bytes", len(b))
	}
	k := (*kernelInstance)(unsafe.Pointer(&b[0]))
	i := Instance{
		Outcome: int(k.Number),
		PID:     int(k.Pid),
		Start:   int64(k.StartNs),
		End:     int64(k.EndNs),
		ID:      k.Id,
		Parent:  k.Parent,
		Process: k.Owner,
	}
	switch k.Status {
	case kernelColumnSUCCESSES:
		i.Status = Success
	case kernelColumnFAILURES:
		i.Status = Failure
	case kernelColumnTIMEOUTS:
		i.Status = Timeout
	default:
		return Instance{}, fmt.Errorf("a record of status %d", k.Status)
	}
	if len(b) == failedBytes {
		class, _, _ := bytes.Cut(b[instanceBytes:], []byte{0})
		i.Class = string(class)
	}
	return i, nil
}
