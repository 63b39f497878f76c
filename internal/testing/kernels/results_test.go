package kernels_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/testing/kernels"
)

// A trial is the result of a kernel in the last `make kernels` that tried it.
type trial struct {
	Kernel kernels.Kernel `json:"kernel"`
	Result kernels.Result `json:"result"`
}

const (
	resultsFile = "results.json"
	page        = "../../../docs/reference/kernels.md"

	// The table of docs/reference/kernels.md is between these lines.
	tableBegin = "<!-- kernels: made by `make kernels` -->\n"
	tableEnd   = "<!-- /kernels -->\n"
)

// recorded returns the trials of the last `make kernels`.
func recorded(t *testing.T) []trial {
	t.Helper()
	text, err := os.ReadFile(resultsFile)
	if err != nil {
		t.Fatal(err)
	}
	var trials []trial
	if err := json.Unmarshal(text, &trials); err != nil {
		t.Fatal(err)
	}
	return trials
}

// record writes the result of a kernel, and the table of docs/reference/kernels.md.
func record(t *testing.T, k kernels.Kernel, r kernels.Result) {
	t.Helper()
	trials := recorded(t)
	i := slices.IndexFunc(trials, func(other trial) bool { return other.Kernel == k })
	if i < 0 {
		i = len(trials)
		trials = append(trials, trial{})
	}
	trials[i] = trial{k, r}
	text, err := json.MarshalIndent(trials, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(resultsFile, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	writeTable(t, trials)
}

// writeTable writes the table of docs/reference/kernels.md.
func writeTable(t *testing.T, trials []trial) {
	t.Helper()
	before, _, after := readTable(t)
	if err := os.WriteFile(page, []byte(before+table(trials)+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func table(trials []trial) string {
	var results []kernels.Result
	for _, t := range trials {
		results = append(results, t.Result)
	}
	return kernels.Table(results)
}

// readTable returns the table of docs/reference/kernels.md, and the text before and after it.
func readTable(t *testing.T) (before, table, after string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), tableBegin)
	table, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		t.Fatalf("%s has no table of kernels", page)
	}
	return before + tableBegin, table, tableEnd + after
}

// The table in docs/reference/kernels.md agrees with the kernels that were tried.
func TestTable(t *testing.T) {
	if *update {
		writeTable(t, recorded(t))
	}
	if _, got, _ := readTable(t); got != table(recorded(t)) {
		t.Errorf("docs/reference/kernels.md has\n%s\nwhere the results are\n%s", got, table(recorded(t)))
	}
}
