package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const fee = "internal/testing/mutants/testdata/fee"

// survivors tests all mutants of the package in testdata with some of its tests.
func survivors(t *testing.T, pattern string) ([]string, error) {
	t.Helper()
	t.Chdir("../../..")
	target := &target{dir: fee, tests: []tests{{dir: fee, args: []string{"-test.run", pattern}}}}
	mutants, err := target.mutants()
	if err != nil {
		t.Fatal(err)
	}
	for i := range mutants {
		mutants[i].id = i + 1
	}
	r := &run{ctx: t.Context(), drawn: mutants, results: map[result]int{}}
	for _, b := range batches(target, mutants) {
		if err := r.batch(b); err != nil {
			return nil, err
		}
	}
	var left []string
	for _, m := range r.survivors {
		left = append(left, strings.TrimPrefix(m.String(), fee+"/"))
	}
	slices.Sort(left)
	tried := r.results[failed] + r.results[survived] + r.results[timedOut]
	if tried+r.results[broken] != len(mutants) || r.results[survived] != len(left) {
		t.Errorf("%d mutants, %v", len(mutants), r.results)
	}
	if share := r.report(1); share != 100*float64(tried-len(left))/float64(tried) {
		t.Errorf("%v %% killed of %d, %d survived", share, tried, len(left))
	}
	return left, nil
}

// A test that omits a boundary kills all mutants except those of the boundary, in a function and in
// a constant.
func TestWeakTestLeavesMutants(t *testing.T) {
	got, err := survivors(t, "^TestWeak$")
	want := []string{
		"fee.go:4: 18 → 17 in: const adult = 18",
		"fee.go:4: 18 → 19 in: const adult = 18",
		"fee.go:9: < → <= in: if age < adult {",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("survivors %q, want %q, %v", got, want, err)
	}
}

// A test of the boundary kills all mutants.
func TestStrongTestKillsMutants(t *testing.T) {
	if got, err := survivors(t, "^TestStrong$"); err != nil || len(got) > 0 {
		t.Errorf("survivors %q, %v", got, err)
	}
}

// If tests fail without a mutant, the tool returns an error.
func TestFailingTestsAreRefused(t *testing.T) {
	if got, err := survivors(t, "^TestBroken$"); err == nil || !strings.Contains(err.Error(), "without a mutant") {
		t.Errorf("survivors %q, %v", got, err)
	}
}

func TestEquivalent(t *testing.T) {
	read := func(text string) (equivalent, error) {
		path := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return readEquivalent(path)
	}
	m := mutant{file: "a.go", line: 7, old: "<", new: "<=", context: "if a < b {"}
	known, err := read("# comment\n\na.go: < → <= in: if a < b {\na.go: other\n\tBoth for this reason.\n")
	if err != nil || !known.has(m) || !slices.Equal(known.unused(), []string{"a.go: other"}) {
		t.Errorf("%v, %v", known, err)
	}
	if m.new = ">="; known.has(m) {
		t.Error("another mutant of the line counts as equivalent")
	}
	for _, text := range []string{"\tA reason for nothing.\n", "a.go: < → <= in: if a < b {\n"} {
		if _, err := read(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	if _, err := readEquivalent("equivalent.txt"); err != nil {
		t.Error(err)
	}
}
