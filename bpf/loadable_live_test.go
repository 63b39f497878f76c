package bpf_test

import (
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// This kernel supports everything: each built-in outcome is a subject, and none is refused.
func TestSubjects(t *testing.T) {
	vmtest.NeedEBPF(t)
	subjects, err := bpf.Subjects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, s := range subjects {
		found[s.Name] = true
		if s.Err != nil {
			t.Errorf("%s: %v", s.Name, s.Err)
		}
	}
	for _, b := range dtrace.Builtins() {
		if !found[b.Name] {
			t.Errorf("%s was not tried", b.Name)
		}
	}
	if !found["spans"] || !found["top"] || !found["samples"] || !found["explanations"] {
		t.Errorf("spans, top, samples or explanations were not tried: %v", subjects)
	}
}
