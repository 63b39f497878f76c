package main

import (
	"maps"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// The lists of probes in the documents have the probes and states that `beamscope probes` lists for OTP 25.
// Numbers of places and of hits differ between builds and runs.
func TestListsOfProbesInDocuments(t *testing.T) {
	otp := vmtest.Release(t, 25)
	out, err := exec.CommandContext(t.Context(), "beamscope", "probes", "--exe", otp.Emulator()).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := statesOfProbes(string(out), "PROBE ")
	if len(want) == 0 {
		t.Fatalf("no list:\n%s", out)
	}
	if diff := cmp.Diff(want, statesOfProbes(document(t, "probes.md"), "PROBE ")); diff != "" {
		t.Errorf("docs/reference/probes.md:\n%s", diff)
	}
	fired := maps.Clone(want)
	fired["process-port_unblocked"] = "alive" // the catalogue's state, and not that beamscope refuses it
	if diff := cmp.Diff(fired, statesOfProbes(document(t, "doctor.md"), "PROBE ")); diff != "" {
		t.Errorf("docs/reference/doctor.md:\n%s", diff)
	}
}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(documentPath(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// statesOfProbes returns the states of probes by their names in the table that begins with a line with this
// prefix, and ends with an empty line.
func statesOfProbes(text, prefix string) map[string]string {
	row := regexp.MustCompile(`^([a-z][\w…-]+)( \*)? .*?\b(alive|dirty only|dead|absent|refused|unknown) `)
	_, table, _ := strings.Cut(text, "\n"+prefix)
	table, _, _ = strings.Cut(table, "\n\n")
	states := make(map[string]string)
	for line := range strings.Lines(table) {
		if m := row.FindStringSubmatch(line); m != nil {
			states[m[1]] = m[3]
		}
	}
	return states
}
