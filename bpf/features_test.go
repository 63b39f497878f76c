package bpf

import (
	"errors"
	"fmt"
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

// What the verifier says comes behind a sentence for people.
func TestExplainRefusal(t *testing.T) {
	err := explain(&ebpf.VerifierError{Cause: syscall.EACCES, Log: []string{"combined stack size of 3 calls is 528. Too large"}})
	if !errors.Is(err, ErrRefused) || !strings.HasPrefix(err.Error(), ErrRefused.Error()) {
		t.Errorf("%v", err)
	}
}
