// Package kernels runs beamscope on other kernels than the machine's, in an emulator. Linux boots
// into a file system in memory, with beamscope, an Erlang VM with probes and the program guest,
// which observes the VM and reports the results.
//
// Counts are right in the emulator. Times mean nothing, because the emulator is slow.
package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrGuest means that the guest did not finish.
var ErrGuest = errors.New("the guest did not come to its end")

// A Kernel is one of Debian's kernels, as scripts/kernels/kernel.sh names them.
type Kernel struct {
	Name string // 6.1, 6.12 or newest
	Arch string // as in runtime.GOARCH: amd64 or arm64

	// Stock is the release of Erlang/OTP whose VM comes from Debian's own package, which has no
	// probes. 0 means the VM with probes.
	Stock int `json:",omitempty"`
}

func (k Kernel) String() string {
	if k.Stock != 0 {
		return fmt.Sprintf("Linux %s on %s, stock OTP %d", k.Name, k.Arch, k.Stock)
	}
	return "Linux " + k.Name + " on " + k.Arch
}

// The subjects of checks, in their order.
const (
	Doctor       = "doctor"       // doctor finds no problem
	Spans        = "spans"        // counts of those that fire probes are exact
	Ring         = "ring"         // counts of spans that the VM records in its memory are exact
	Rules        = "VM outcomes"  // counts are exact, for an outcome of two probes, with groups
	OSWaits      = "os-wait"      // waits for a processor are seen
	Top          = "top"          // shows the processor time of processes and data from the VM's memory
	Samples      = "samples"      // the busiest process has most samples, with its name and its function
	Explanations = "explanations" // slow spans are explained with their causes
	Capabilities = "capabilities" // the capabilities of docs/how-to/privileges.md suffice for a user who is not root
	Killed       = "kill -9"      // killing the collector leaves the VM as it was
	Refusals     = "refusals"     // beamscope refuses impossible commands in one line
)

// Subjects returns the subjects of checks in their order.
func Subjects() []string {
	return []string{Doctor, Spans, Ring, Rules, OSWaits, Top, Samples, Explanations, Capabilities, Killed, Refusals}
}

// Subjects returns the subjects of checks that a guest with this kernel makes, in their order. The
// VM with probes suffices for the subjects about attaching. Samples are checked on arm64 only: the
// emulated timer of x86-64 is too coarse, and other tests take samples on the machine itself.
func (k Kernel) Subjects() []string {
	subjects := Subjects()
	if k.Stock != 0 {
		subjects = []string{Doctor, Ring, Rules, OSWaits, Top, Samples}
	}
	if k.Arch != "arm64" {
		subjects = slices.DeleteFunc(subjects, func(s string) bool { return s == Samples })
	}
	return subjects
}

// A Check is the result for one subject.
type Check struct {
	Subject string `json:"subject"`
	Works   bool   `json:"works"`
	Found   string `json:"found"` // figures, or the reason why it does not work
}

// A Result is the report of a guest about its kernel.
type Result struct {
	Release string  `json:"release"`         // as uname -r has it
	Arch    string  `json:"arch"`            // as in runtime.GOARCH
	Stock   int     `json:"stock,omitempty"` // as [Kernel.Stock]
	Checks  []Check `json:"checks"`
}

// Check returns the check of a subject. A check that the guest did not make counts as failed.
func (r Result) Check(subject string) Check {
	for _, c := range r.Checks {
		if c.Subject == subject {
			return c
		}
	}
	return Check{Subject: subject, Found: "was not tried"}
}

// Version returns the version of the result's kernel, such as 6.12.
func (r Result) Version() string {
	parts := strings.SplitN(r.Release, ".", 3)
	if len(parts) < 2 {
		return r.Release
	}
	return parts[0] + "." + parts[1]
}

// number returns the parts of the version as numbers. A part that is no number is 0.
func (r Result) number() []int {
	var parts []int
	for p := range strings.SplitSeq(r.Version(), ".") {
		n, _ := strconv.Atoi(p)
		parts = append(parts, n)
	}
	return parts
}

// A Config describes the file system of a guest.
type Config struct {
	Root    string `json:"root"`    // of the Erlang installation, above lib
	Bin     string `json:"bin"`     // the folder of its emulator
	Version string `json:"version"` // 25.2.3
	Cache   string `json:"cache"`   // the folder above beamscope's own cache folder
	Stock   int    `json:"stock"`   // as [Kernel.Stock]
}

// ConfigFile is the path of the guest's Config, as JSON.
const ConfigFile = "/guest.json"

// Mark begins each line that the guest writes for its host. A Check or a Result follows, or nothing
// at the end.
const Mark = "@@kernels "

// Table returns results as a table in Markdown, a row for each, ordered by version and
// processor.
func Table(results []Result) string {
	results = slices.SortedStableFunc(slices.Values(results), func(a, b Result) int {
		return cmp.Or(slices.Compare(a.number(), b.number()), strings.Compare(a.Arch, b.Arch), cmp.Compare(a.Stock, b.Stock))
	})
	var b strings.Builder
	b.WriteString("| Linux | processor | VM |")
	for _, s := range Subjects() {
		fmt.Fprintf(&b, " %s |", s)
	}
	b.WriteString("\n|" + strings.Repeat("---|", 3+len(Subjects())) + "\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %s | %s |", r.Version(), processor(r.Arch), r.vm())
		for _, s := range Subjects() {
			fmt.Fprintf(&b, " %s |", r.word(s))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// word returns the cell of a subject in the table. A guest of an earlier version did not try all
// subjects. Spans of a stock VM cannot fire probes.
func (r Result) word(subject string) string {
	i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Subject == subject })
	switch {
	case i < 0 && r.Stock != 0 && subject == Spans:
		return "no probes"
	case i < 0:
		return "not tried"
	case r.Checks[i].Works:
		return "yes"
	}
	return "no"
}

// vm returns the cell of the guest's VM in the table.
func (r Result) vm() string {
	if r.Stock != 0 {
		return fmt.Sprintf("stock OTP %d", r.Stock)
	}
	return "with probes"
}

func processor(arch string) string {
	if arch == "amd64" {
		return "x86-64"
	}
	return arch
}
