package bpf

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
)

var (
	// ErrPermission means that the process may not use eBPF.
	ErrPermission = errors.New("not permitted to use eBPF")

	// ErrKernel means that the kernel lacks something that the collector needs.
	ErrKernel = errors.New("kernel lacks a feature")

	// ErrNamespace says, in addition to ErrKernel, that programs do not know the pids of the pid
	// namespace that this process is in, that of a container: they would observe nothing.
	ErrNamespace = errors.New("programs do not know the pids of this container")

	// ErrRefused says that the kernel's verifier does not accept a program.
	ErrRefused = errors.New("this kernel refuses the program")
)

// explain adds the meaning for the user to an error of the kernel.
func explain(err error) error {
	var verifier *ebpf.VerifierError
	switch {
	// Without the privilege the verifier does not run, although the error suggests it: its refusals
	// are EACCES, which is os.ErrPermission too.
	case errors.As(err, &verifier) && !errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w: `beamscope doctor` says which outcomes can be had here: %w", ErrRefused, err)
	case errors.Is(err, os.ErrPermission):
		return &permissionError{os.Geteuid(), err}
	case errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("%w: Linux 6.1 or later is needed: %w", ErrKernel, err)
	}
	return err
}

// A permissionError names the rights that eBPF needs. Root usually has them, so for root it also
// names what the kernel refused.
type permissionError struct {
	user int
	err  error
}

func (e *permissionError) Error() string {
	capabilities := "CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE"
	if errors.Is(MultiLinks(), ebpf.ErrNotSupported) { // its links are perf events
		capabilities = "CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE and CAP_SYS_ADMIN"
	}
	if e.user == 0 {
		return fmt.Sprintf("%v: root needs %s: %v", ErrPermission, capabilities, e.err)
	}
	return fmt.Sprintf("%v: run as root, or with %s", ErrPermission, capabilities)
}

func (e *permissionError) Unwrap() []error { return []error{ErrPermission, e.err} }

// Supported returns nil where collectors can work on this machine, and
// otherwise why they cannot: [ErrPermission], or [ErrKernel], perhaps with
// [ErrNamespace]. It tries, rather than to go by the kernel's version.
func Supported() error {
	if err := features.HaveProgramType(ebpf.Syscall); err != nil {
		return explain(fmt.Errorf("eBPF programs: %w", err))
	}
	if err := features.HaveMapType(ebpf.RingBuf); err != nil {
		return explain(fmt.Errorf("ring buffers: %w", err))
	}
	_, err := ownNamespace()
	return err
}
