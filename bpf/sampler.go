package bpf

import (
	"errors"
	"time"
)

var (
	// ErrRate means that the kernel does not allow this rate of samples.
	ErrRate = errors.New("too many samples")

	// ErrStale means that a window was read too late: its samples are mixed with later ones.
	ErrStale = errors.New("samples are read too late")
)

// A Thread is a kind of thread of a VM.
type Thread uint8

// The kinds of threads, as enum sample_thread.
const (
	OtherThread Thread = iota // no scheduler
	Scheduler
	DirtyCPUScheduler
	DirtyIOScheduler
	threads
)

// A Current says what a scheduler's own data contains about the process that it runs.
type Current uint8

// The values of a Current, as enum sample_current.
const (
	CurrentUnknown Current = iota // the data has an unknown place or cannot be read
	CurrentNone                   // the scheduler runs no process
	CurrentSame                   // it runs the process that the register points to
	CurrentOther                  // it runs a process, and the register points to something else
)

// A Sample counts the samples of one window that are equal in all other fields.
type Sample struct {
	PID     int    // of the VM
	Address uint64 // of the instruction
	Thread  Thread
	Count   uint64

	// InRegister is the word that a register points to, on a [Scheduler]: r13 on x86-64, x21 on arm64.
	// In code of the JIT compiler it is the term of the running process's pid. In other code it can be
	// anything.
	InRegister uint64

	Current     Current
	ByScheduler uint64 // the term of the pid of the process that the scheduler runs, for CurrentSame and CurrentOther
}

// Samples are the samples of one window.
type Samples struct {
	Samples []Sample
	NoRoom  map[int]uint64 // samples that found no free counter, by pid of the VM; nothing else is known about them
	Taken   uint64         // samples of all processors, of VMs and of everything else
}

// SchedulerData describes the memory in which a VM keeps the state of its schedulers: an array of
// structures for each kind of scheduler.
type SchedulerData struct {
	Arrays  [threads]uint64 // addresses, 0: unknown
	Size    uint32          // of a structure
	Current uint32          // offset in a structure of the address of the process that the scheduler runs
	Number  [threads]uint32 // offset in a structure of the scheduler's number, which begins with 1
}

// SamplerOptions configure a [Sampler].
type SamplerOptions struct {
	Rate   int   // samples a second on each processor, at random times; 1 or more
	Window int64 // length of a window in nanoseconds
	Rows   int   // maximum number of different samples in a window; 0: as many as the rate allows, up to 65536
}

// maxSampleRows limits the kernel memory for the samples of a window: 64 bytes each, twice.
const maxSampleRows = 1 << 16

// rows returns the number of counters for a window.
func (o SamplerOptions) rows(processors int) uint32 {
	if o.Rows > 0 {
		return uint32(o.Rows)
	}
	const least = 1 << 8
	most := float64(o.Rate) * float64(processors) * time.Duration(o.Window).Seconds() * 1.1
	return uint32(min(max(most, least), maxSampleRows))
}
