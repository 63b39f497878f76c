package bpf

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
)

func TestExplain(t *testing.T) {
	verifier := func(cause error) error {
		return fmt.Errorf("load program: %w", &ebpf.VerifierError{Cause: cause})
	}
	for _, test := range []struct {
		name               string
		err                error
		permission, kernel bool
	}{
		{"no privilege", syscall.EPERM, true, false},
		{"no privilege to load", verifier(syscall.EPERM), true, false},
		{"refused by the verifier", verifier(syscall.EACCES), false, false},
		{"old kernel", fmt.Errorf("uprobe_multi: %w", ebpf.ErrNotSupported), false, true},
		{"another", syscall.ENOENT, false, false},
	} {
		err := explain(test.err)
		if !errors.Is(err, test.err) || errors.Is(err, ErrPermission) != test.permission || errors.Is(err, ErrKernel) != test.kernel {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// The verifier's output follows a sentence for people.
func TestExplainRefusal(t *testing.T) {
	err := explain(&ebpf.VerifierError{Cause: syscall.EACCES, Log: []string{"combined stack size of 3 calls is 528. Too large"}})
	if !errors.Is(err, ErrRefused) || !strings.HasPrefix(err.Error(), ErrRefused.Error()) {
		t.Errorf("%v", err)
	}
}

// A user without the right to use eBPF gets a list of what is needed. Root, for whom that is no
// help, also gets what was refused.
func TestPermissionError(t *testing.T) {
	refused := fmt.Errorf("eBPF programs: detect support for Syscall: load program: %w", syscall.EPERM)
	for user, want := range map[int]string{
		1000: "not permitted to use eBPF: run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE",
		0:    "not permitted to use eBPF: root needs CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE: eBPF programs: detect support for Syscall: load program: operation not permitted",
	} {
		err := error(&permissionError{user, refused})
		if err.Error() != want || !errors.Is(err, ErrPermission) || !errors.Is(err, os.ErrPermission) {
			t.Errorf("user %d: %v, want %s", user, err, want)
		}
	}
}
