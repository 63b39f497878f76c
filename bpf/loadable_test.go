package bpf

import (
	"maps"
	"slices"
	"testing"
)

// Subjects loads all programs of the object: a kernel that refuses one of them refuses a
// subject. New loads the sweep.
func TestSubjectsLoadAllPrograms(t *testing.T) {
	needs, err := subjectPrograms()
	if err != nil {
		t.Fatal(err)
	}
	loads := map[string]bool{kernelProgSweep: true}
	for _, n := range needs {
		for _, v := range n.variants {
			loads[v.program] = true
		}
	}
	spec, err := loadKernel()
	if err != nil {
		t.Fatal(err)
	}
	want, got := slices.Sorted(maps.Keys(spec.Programs)), slices.Sorted(maps.Keys(loads))
	if !slices.Equal(got, want) {
		t.Errorf("it loads %v\nthe object has %v", got, want)
	}
}
