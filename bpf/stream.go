package bpf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/ringbuf"
)

// streamPeriod is how often the ring buffer is emptied. The programs wake nobody
// up, because that would triple the price of a hit.
const streamPeriod = 10 * time.Millisecond

// Status says how an instance ended.
type Status uint8

// The ways in which an instance can end.
const (
	Success Status = iota
	Failure
	Timeout
)

// An Instance is one outcome instance that has ended.
type Instance struct {
	Outcome    int // index into Options.Outcomes
	PID        int // of the VM
	Status     Status
	Start, End int64  // nanoseconds of CLOCK_MONOTONIC
	ID         uint64 // as the wrapper gave it
	Parent     uint64 // id of the parent instance, 0: none
	Process    uint64 // Erlang process that started it: number | serial<<32 | node<<48
	Class      string // of a failure, at most 63 bytes; "" where none was given
}

// Stream passes the instances of outcomes with Stream set to fn, in batches,
// until the context is cancelled, and what is then left. The slice is reused: fn
// copies what it keeps. It is to be called once at a time.
func (c *Collector) Stream(ctx context.Context, fn func([]Instance)) error {
	r, err := ringbuf.NewReader(c.maps.Ring)
	if err != nil {
		return fmt.Errorf("open the stream: %w", err)
	}
	defer r.Close()
	for last := false; !last; {
		select {
		case <-ctx.Done():
			last = true
		case <-time.After(streamPeriod):
		}
		if err := drain(r, fn); err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
	}
	return nil
}

// drain passes on what is in the ring buffer, without waiting for more.
func drain(r *ringbuf.Reader, fn func([]Instance)) error {
	const most = 4096 // in a batch

	batch := make([]Instance, 0, most)
	flush := func() {
		if len(batch) > 0 {
			fn(batch)
		}
		batch = batch[:0]
	}
	defer flush()
	var rec ringbuf.Record
	r.SetDeadline(time.Now())
	// At most what was there at first, or it might never end.
	for n := r.BufferSize() / instanceBytes; n > 0; n-- {
		err := r.ReadInto(&rec)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		i, err := decodeInstance(rec.RawSample)
		if err != nil {
			return err
		}
		if batch = append(batch, i); len(batch) == most {
			flush()
		}
	}
	return nil
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
		Outcome: int(k.Outcome),
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
