//go:build amd64

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A column of the table of features is a VM.
type column struct {
	kind    vmtest.Kind // one of vmKinds
	release int         // of Erlang/OTP
}

func (c column) String() string { return fmt.Sprintf("%s %d", c.kind, c.release) }

// vmKinds are the kinds of VMs. One more than others know is built without probes by somebody else.
func vmKinds() []vmtest.Kind {
	return []vmtest.Kind{vmtest.WithProbes, vmtest.OfDebian, vmtest.Stripped, unknownBuild}
}

const unknownBuild vmtest.Kind = "unknown build"

func columns() []column {
	var all []column
	for _, kind := range vmKinds() {
		for _, release := range dtrace.Releases() {
			all = append(all, column{kind, release})
		}
	}
	return all
}

// otp returns an installation with the column's VM, which is private to the test.
func (c column) otp(t *testing.T) erlang.OTP {
	t.Helper()
	if c.kind == unknownBuild {
		return vmtest.UnknownBuild(t, c.release)
	}
	return vmtest.OfKind(t, c.kind, c.release)
}

// Cells of the table. Any other text is a cell too, and names the part of a feature that a VM has.
const (
	yes = "yes"
	no  = "no"

	inPart = "in part" // after this and no come ": " and the reason
)

// A featureTable has the cells by features and columns.
type featureTable map[string]map[column]string

func (f featureTable) set(feature string, c column, cell string) {
	if f[feature] == nil {
		f[feature] = make(map[column]string)
	}
	f[feature][c] = cell
}

// features are the rows of the table, in their order.
func features() []string {
	return []string{
		ringSpans, probeSpans,
		"gc", "run", "run-wait", "call", "message", "mailbox", "hop", "lifetime", "dirty-nif", "file-io", "port-busy", "dist-busy", "os-wait",
		groupByFunction, topTable, topMemory, sampledProcesses, sampledFunctions, tracing,
	}
}

// The rows that are no outcomes of the VM.
const (
	ringSpans        = "spans by the ring"
	probeSpans       = "spans by probes"
	groupByFunction  = "`group: mfa`"
	topTable         = "`top`"
	topMemory        = "`top`: names, memory"
	sampledProcesses = "`top --sampled`: processes"
	sampledFunctions = "`top --sampled`: functions"
	tracing          = "`trace`"
)

// The table is between these lines of the document.
const (
	featuresFile  = "../../docs/reference/vm-outcomes.md"
	featuresBegin = "<!-- features: made by `MATRIX=1 go test ./cmd/beamscope -run TestFeatures -update-docs` -->\n"
	featuresEnd   = "<!-- /features -->\n"
)

// markdown returns the table, and the reasons that its cells refer to.
func (f featureTable) markdown() string {
	var text, reasons strings.Builder
	text.WriteString("| |")
	for _, c := range columns() {
		fmt.Fprintf(&text, " %s |", c)
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(columns())) + "\n")
	var known []string
	for _, feature := range features() {
		fmt.Fprintf(&text, "| %s |", feature)
		for _, c := range columns() {
			cell := f[feature][c]
			if word, why, found := strings.Cut(cell, ": "); found {
				n := slices.Index(known, why)
				if n < 0 {
					n = len(known)
					known = append(known, why)
					fmt.Fprintf(&reasons, "%d. %s\n", n+1, why)
				}
				cell = fmt.Sprintf("%s (%d)", word, n+1)
			}
			fmt.Fprintf(&text, " %s |", cell)
		}
		text.WriteString("\n")
	}
	return text.String() + "\n" + reasons.String()
}

var (
	referring = regexp.MustCompile(`^(` + no + `|` + inPart + `) \((\d+)\)$`)
	aReason   = regexp.MustCompile(`(?m)^(\d+)\. (.*)$`)
)

// parseFeatures reads what markdown writes.
func parseFeatures(t *testing.T, text string) featureTable {
	t.Helper()
	reasons := make(map[string]string)
	for _, m := range aReason.FindAllStringSubmatch(text, -1) {
		reasons[m[1]] = m[2]
	}
	table := make(featureTable)
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != len(columns())+1 {
			continue
		}
		feature := strings.TrimSpace(cells[0])
		if !slices.Contains(features(), feature) {
			continue
		}
		for i, c := range columns() {
			cell := strings.TrimSpace(cells[i+1])
			if m := referring.FindStringSubmatch(cell); m != nil {
				cell = m[1] + ": " + reasons[m[2]]
			}
			table.set(feature, c, cell)
		}
	}
	return table
}

// readFeatures returns the table of the document, and the text before and after it.
func readFeatures(t *testing.T) (before, table, after string) {
	t.Helper()
	text, err := os.ReadFile(featuresFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), featuresBegin)
	table, after, ends := strings.Cut(rest, featuresEnd)
	if !begins || !ends {
		t.Fatalf("%s has no table of features", featuresFile)
	}
	return before + featuresBegin, table, featuresEnd + after
}

// extent reports whether a column is tried, and whether all of its features are. Other tests try much of
// the VMs with probes on each release.
func (c column) extent() (tried, all bool) {
	all = vmtest.Matrix() || c == column{unknownBuild, 29} || c.kind != unknownBuild && c.release == 25
	return all || c.kind == vmtest.OfDebian || c == column{vmtest.Stripped, 29}, all
}

// Every feature that the table lists for a VM works there: the command's counts equal those of the
// VM itself or the kernel. A feature that a VM does not offer is refused, with the reason that the
// table has. The cells that are tried equal those of the table.
func TestFeatures(t *testing.T) {
	vmtest.NeedEBPF(t)
	for _, c := range columns() {
		tried, all := c.extent()
		if !tried {
			continue
		}
		t.Run(c.String(), func(t *testing.T) {
			before, text, after := readFeatures(t)
			table := parseFeatures(t, text)
			e := examine(t, c.otp(t), all)
			for _, feature := range features() {
				got, ok := e.cells[feature]
				if !ok && all {
					t.Errorf("%s was not tried", feature)
				}
				if !ok {
					continue
				}
				if want := table[feature][c]; got != want && !*updateDocs {
					t.Errorf("%s: %q, and %s says %q", feature, got, filepath.Base(featuresFile), want)
				}
				table.set(feature, c, got)
			}
			if *updateDocs && !t.Failed() {
				if err := os.WriteFile(featuresFile, []byte(before+table.markdown()+after), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A stripped VM with hidden functions has the same features as the VM with its symbols, if the user
// names a folder with the symbols.
func TestFeaturesWithSymbols(t *testing.T) {
	vmtest.NeedEBPF(t)
	const release = 29
	_, text, _ := readFeatures(t)
	table := parseFeatures(t, text)
	otp, err := vmtest.Release(t, release).Private(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	vmtest.Separate(t, otp.Emulator(), filepath.Join(dir, "beam.smp.debug"))
	e := examine(t, otp, false, "--symbols", dir)
	for feature, got := range e.cells {
		if want := table[feature][column{vmtest.WithProbes, release}]; got != want {
			t.Errorf("%s: %q, and with symbols in the executable %q", feature, got, want)
		}
	}
}

// The table is as the test writes it.
func TestFeatureTable(t *testing.T) {
	_, text, _ := readFeatures(t)
	if diff := cmp.Diff(text, parseFeatures(t, text).markdown()); diff != "" {
		t.Errorf("MATRIX=1 go test ./cmd/beamscope -run TestFeatures -update-docs writes it again:\n%s", diff)
	}
	for _, feature := range features() {
		for _, c := range columns() {
			if strings.Contains(text, "| "+feature+" |") && parseFeatures(t, text)[feature][c] == "" {
				t.Errorf("%s of %s is empty", feature, c)
			}
		}
		if !strings.Contains(text, "| "+feature+" |") {
			t.Errorf("no row %s", feature)
		}
	}
}
