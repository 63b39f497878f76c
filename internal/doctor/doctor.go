// Package doctor finds out what a machine and its Erlang VMs can do for the
// oscilloscope, and says what to do about what they cannot.
//
// What it looks at comes in through a [System], so that it can be told of
// machines other than the one that it runs on.
package doctor

import (
	"cmp"
	"context"
	"io/fs"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/usdt"
)

// A Status is what became of a check.
type Status string

// The statuses of checks.
const (
	OK      Status = "ok"
	Warning Status = "warning" // works, but not as it could
	Missing Status = "missing" // does not work
	Unknown Status = "unknown" // could not be found out
)

// A Check is one thing that was looked at.
type Check struct {
	Name   string `json:"check"`
	PID    int    `json:"pid,omitempty"` // of the VM that it concerns; 0: the machine
	Status Status `json:"status"`
	Found  string `json:"found"`
	Do     string `json:"do,omitempty"` // "" where there is nothing to do
}

// A Report is what was found.
type Report struct {
	Checks []Check

	// Works says that a VM was attached to, in earnest.
	Works bool

	// Do is the most important thing to do, "" where it works.
	Do string
}

// A VM is a running Erlang VM.
type VM struct {
	PID     int
	Node    string // "" where it is not distributed
	Exe     string // name of its executable, for people
	Flavour string // JIT or interpreter; "" where it cannot be told
	Probes  int    // how many VM probes it has
	Stopped string // why nothing happens in it, "" where it runs
	Err     error  // why Probes could not be read, or that there are none
}

// A Feature is something that the kernel may or may not have.
type Feature struct {
	Name string
	Try  func() error // wraps ebpf.ErrNotSupported where it is not there
}

// A Trial is what it took to attach to a VM and to detach from it.
type Trial struct {
	Attach, Detach time.Duration
}

// A System is a machine, as far as the doctor looks at it.
type System struct {
	OS, Arch string // as in runtime.GOOS, runtime.GOARCH

	// Root is the root folder of the file system, for proc and sys.
	Root fs.FS

	// EBPF tells whether collectors can work: nil, or an error that wraps
	// bpf.ErrPermission or bpf.ErrKernel.
	EBPF func() error

	Features []Feature // that collectors need

	// Subjects tells what the kernel refuses of all that can be observed.
	Subjects func(context.Context) ([]bpf.Subject, error)

	// PID is of the VM that was asked for, 0 for all.
	PID int

	// VMs returns the running VMs, and the processes that could not be looked at; the
	// error wraps vm.ErrNone where there are none, vm.ErrNotVM where the one that was
	// asked for is something else.
	VMs func(context.Context) ([]VM, usdt.Skipped, error)

	// Try attaches to a VM that has probes, and detaches.
	Try func(context.Context, VM) (Trial, error)
}

// Examine makes all checks.
func Examine(ctx context.Context, s System) Report {
	e := examination{System: s}
	e.system()
	e.privileges()
	e.ebpf()
	e.features()
	e.uprobes()
	e.subjects(ctx)
	vms := e.vms(ctx)
	e.lockdown()
	e.comfort()
	e.report.Checks = append(e.report.Checks, vms...)
	if !e.report.Works {
		e.report.Do = e.first()
	}
	return e.report
}

// An examination is a report under way.
type examination struct {
	System
	report     Report
	release    string // of the kernel
	ebpfErr    error  // of System.EBPF
	privileged bool   // nothing is lacking
	tried      bool   // whether a VM was there to be attached to
	urgent     string // the most important thing to do, of those found so far
	urgentAt   int    // and how important it is: the lowest is the first
}

// How important it is to do something, the most important first. Without
// privileges one learns little of the kernel, without eBPF a VM is of no use.
const (
	onPlatform = iota + 1
	onPermission
	onKernel
	onLockdown
	onTrial
	onVM
)

// add adds a check about the machine.
func (e *examination) add(name string, status Status, found, do string) {
	e.report.Checks = append(e.report.Checks, Check{Name: name, Status: status, Found: found, Do: do})
}

// must notes something without which nothing works.
func (e *examination) must(importance int, do string) {
	if e.urgentAt == 0 || importance < e.urgentAt {
		e.urgentAt, e.urgent = importance, do
	}
}

// first returns the most important thing to do.
func (e *examination) first() string {
	return cmp.Or(e.urgent, "start an Erlang VM with probes, such as that of `beamscope demo`")
}
