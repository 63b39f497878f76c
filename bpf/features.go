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
	// ErrPermission says that the process may not use eBPF.
	ErrPermission = errors.New("not permitted to use eBPF")

	// ErrKernel says that the kernel lacks something that the collector needs.
	ErrKernel = errors.New("kernel lacks a feature")

	// ErrRefused says that the kernel's verifier does not accept a program.
	ErrRefused = errors.New("this kernel refuses the program")
)

// explain adds to an error of the kernel what it means for the user.
func explain(err error) error {
	var verifier *ebpf.VerifierError
	switch {
	// Without the privilege the verifier is not even asked, though the error says
	// so: what it refuses is EACCES, which is os.ErrPermission too.
	case errors.As(err, &verifier) && !errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w: `beamscope doctor` says which outcomes can be had here: %w", ErrRefused, err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE: %w", ErrPermission, err)
	case errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("%w: Linux 6.6 or later is needed: %w", ErrKernel, err)
	}
	return err
}

// Supported returns nil where collectors can work on this machine, and
// otherwise why they cannot: [ErrPermission] or [ErrKernel]. It tries, rather
// than to go by the kernel's version.
func Supported() error {
	if err := features.HaveProgramType(ebpf.Syscall); err != nil {
		return explain(fmt.Errorf("eBPF programs: %w", err))
	}
	if err := features.HaveMapType(ebpf.RingBuf); err != nil {
		return explain(fmt.Errorf("ring buffers: %w", err))
	}
	if err := features.HaveBPFLinkUprobeMulti(); err != nil {
		return explain(fmt.Errorf("uprobe_multi links: %w", err))
	}
	return nil
}
