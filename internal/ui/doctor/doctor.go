// Package doctor finds out what a machine and its Erlang VMs can do for the oscilloscope, and
// advises the user about the rest.
//
// It gets its data from a [System], so tests can describe other machines.
package doctor

import (
	"cmp"
	"context"
	"io/fs"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/engine/seen"
	"github.com/beamscope/beamscope/usdt"
)

// A Status is the result of a check.
type Status string

// The statuses of checks.
const (
	OK      Status = "ok"
	Warning Status = "warning" // works, but not as it could
	Missing Status = "missing" // does not work
	Unknown Status = "unknown" // could not be found out
)

// A Check is the result of one check.
type Check struct {
	Name   string `json:"check"`
	PID    int    `json:"pid,omitempty"` // of the VM; 0: the check is about the machine
	Status Status `json:"status"`
	Found  string `json:"found"`
	Do     string `json:"do,omitempty"` // what the user can do; "" if nothing
}

// A Report is the result of all checks.
type Report struct {
	Checks []Check

	// Works means that a VM can be observed, even if beamscope sees only its spans.
	Works bool

	// OnlySpans says that Works is true, and that beamscope can observe nothing but spans and waits
	// for a processor: it attached to the probes of no VM.
	OnlySpans bool

	// OnlyVM says that Works is false only because no VM is running.
	OnlyVM bool

	// Do is the most important thing to do; "" if everything works.
	Do string
}

// A VM is a running Erlang VM.
type VM struct {
	// Further, unless it is 0, is a number of VMs of the user User that are not examined. The other
	// fields are then empty.
	Further, User int

	PID      int
	Node     string    // node name; "" if the VM is not distributed
	Exe      string    // name of its executable, for people
	Flavour  string    // JIT or interpreter; "" if unknown
	Probes   int       // number of VM probes
	Build    string    // the known build, if the VM has no probes and functions stand in for them; otherwise ""
	Outcomes []Outcome // built-in outcomes; none if Err is not nil
	Explains bool      // slow spans can be explained, if functions stand in for probes
	Stopped  string    // why the VM does not run; "" if it runs

	// Stripped means that the executable has no symbols. Symbols is the name of the file that has
	// them instead, "" if there is none.
	Stripped bool
	Symbols  string
	Unfound  error  // why there is none, nil if that is unknown
	Forged   error  // why the first address by Symbols was not believed, nil if all were believed
	BuildID  string // of the executable, "" if it has none
	ByCode   bool   // another build than Build, with the same code
	Unknown  string // why the build is unknown, for a VM without probes in which some functions stand in all the same

	Err error // why Probes could not be read, or that there are none
}

// An Outcome is a built-in outcome.
type Outcome struct {
	Name  string
	Sight seen.Sight // how its events are seen in a VM if eBPF can be used
}

// unseen returns the names of the built-in outcomes that cannot be observed.
func (v VM) unseen() (names []string) {
	for _, o := range v.Outcomes {
		if len(o.Sight.By) == 0 {
			names = append(names, o.Name)
		}
	}
	return names
}

// A Feature is an ability that a kernel may lack.
type Feature struct {
	Name    string
	Try     func() error // the error wraps ebpf.ErrNotSupported if the kernel lacks the feature
	Without string       // what is different without it; "" if nothing works
}

// A Trial contains how long it took to attach to a VM and to detach from it.
type Trial struct {
	Attach, Detach time.Duration
}

// A System is a machine that the doctor examines.
type System struct {
	OS, Arch string // as in runtime.GOOS, runtime.GOARCH

	// Root is the root folder of the file system, for proc and sys.
	Root fs.FS

	// EBPF returns nil if collectors can work, or an error that wraps bpf.ErrPermission or
	// bpf.ErrKernel, perhaps with bpf.ErrNamespace.
	EBPF func() error

	Features []Feature // that collectors need

	// Subjects returns the subjects of observation, with the kernel's error for each that it
	// refuses.
	Subjects func(context.Context) ([]bpf.Subject, error)

	// PID is the pid of the requested VM, 0 for all.
	PID int

	// VMs returns the running VMs in the order in which they are examined, and the processes that could
	// not be inspected. The error wraps
	// vm.ErrNone if there are no VMs, and vm.ErrNotVM if the requested process is not a VM.
	VMs func(context.Context) ([]VM, usdt.Skipped, error)

	// Spans reads the memory of a VM, and reports whether it records spans there. The error wraps
	// fs.ErrPermission if this user may not read the memory, and usdt.ErrProcessGone if the VM has
	// ended.
	Spans func(context.Context, VM) (recorded bool, err error)

	// Try attaches to a VM that has probes or functions that stand in for them, and
	// detaches. The error wraps vm.ErrNone if the VM has ended.
	Try func(context.Context, VM) (Trial, error)
}

// Examine makes all checks, and passes each to tell as soon as it is done. After the context has
// ended, it tells nothing more: the results of further checks would be wrong.
func Examine(ctx context.Context, s System, tell func(Check)) Report {
	e := examination{System: s, tell: func(c Check) {
		if ctx.Err() == nil {
			tell(c)
		}
	}}
	e.system()
	e.privileges()
	e.ebpf()
	e.features()
	e.uprobes()
	e.subjects(ctx)
	e.comfort()
	e.vms(ctx)
	e.lockdown() // depends on whether beamscope could attach to a VM
	e.report.OnlySpans = e.report.Works && !e.attached
	if !e.report.Works {
		e.report.Do = e.first()
		e.report.OnlyVM = e.none && e.urgentAt == onVM
	}
	return e.report
}

// An examination builds a report.
type examination struct {
	System
	tell       func(Check)
	report     Report
	release    string // of the kernel
	ebpfErr    error  // of System.EBPF
	privileged bool   // no capability is missing
	tried      bool   // whether there was a VM to attach to
	attached   bool   // whether attaching to a VM succeeded
	none       bool   // no VM is running
	urgent     string // the most important thing to do so far
	urgentAt   int    // its importance; lower is more important
}

// The importance of an action, the most important first. Without privileges little of the kernel
// can be examined, and without eBPF a VM is of no use.
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
	e.done(Check{Name: name, Status: status, Found: found, Do: do})
}

// done adds a check, and tells it.
func (e *examination) done(c Check) {
	e.report.Checks = append(e.report.Checks, c)
	e.tell(c)
}

// must adds an action without which nothing works.
func (e *examination) must(importance int, do string) {
	if e.urgentAt == 0 || importance < e.urgentAt {
		e.urgentAt, e.urgent = importance, do
	}
}

// first returns the most important thing to do.
func (e *examination) first() string {
	return cmp.Or(e.urgent, startVM)
}
