// Package kernels runs beamscope on kernels other than that of the machine, in an
// emulator: Linux boots into a file system in memory that holds beamscope, an Erlang VM
// with probes and the program guest, which observes the VM and tells what came of it.
//
// Counts are right there; times mean nothing, for the emulator is slow.
package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrGuest says that the guest did not come to its end.
var ErrGuest = errors.New("the guest did not come to its end")

// A Kernel is one of Debian's kernels, as scripts/kernels/kernel.sh names them.
type Kernel struct {
	Name string // 6.1, 6.12 or newest
	Arch string // as in runtime.GOARCH: amd64 or arm64
}

func (k Kernel) String() string { return "Linux " + k.Name + " on " + k.Arch }

// The subjects of checks, in their order.
const (
	Doctor       = "doctor"       // says that all is well
	Spans        = "spans"        // their counts are exact
	Rules        = "VM outcomes"  // likewise, for one made of two probes, with groups
	OSWaits      = "os-wait"      // waits for a processor are seen
	Top          = "top"          // has the processor time of processes and what the VM's memory says
	Explanations = "explanations" // slow spans are, with their causes
	Capabilities = "capabilities" // of docs/privileges.md suffice for a user who is not root
	Killed       = "kill -9"      // of the collector leaves the VM as it was
	Refusals     = "refusals"     // what it cannot do, it refuses in one line
)

// Subjects returns the subjects of checks in their order.
func Subjects() []string {
	return []string{Doctor, Spans, Rules, OSWaits, Top, Explanations, Capabilities, Killed, Refusals}
}

// A Check is what came of looking at one subject.
type Check struct {
	Subject string `json:"subject"`
	Works   bool   `json:"works"`
	Found   string `json:"found"` // figures, or why it does not work
}

// A Result is what a guest tells of its kernel.
type Result struct {
	Release string  `json:"release"` // as uname -r has it
	Arch    string  `json:"arch"`    // as in runtime.GOARCH
	Checks  []Check `json:"checks"`
}

// Check returns the check of a subject. One that the guest did not make does not work.
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

// A Config says what there is in the file system of a guest.
type Config struct {
	Root    string `json:"root"`    // of the Erlang installation, above lib
	Bin     string `json:"bin"`     // the folder of its emulator
	Version string `json:"version"` // 25.2.3
	Cache   string `json:"cache"`   // the folder above beamscope's own cache folder
}

// ConfigFile is where the guest finds its Config, as JSON.
const ConfigFile = "/guest.json"

// Mark begins each line of the guest's that is for its host: a Check or a Result, or
// nothing more at the end.
const Mark = "@@kernels "

// Table returns results as a table in Markdown, a row for each, ordered by version and
// processor.
func Table(results []Result) string {
	results = slices.SortedStableFunc(slices.Values(results), func(a, b Result) int {
		return cmp.Or(slices.Compare(a.number(), b.number()), strings.Compare(a.Arch, b.Arch))
	})
	var b strings.Builder
	b.WriteString("| Linux | processor |")
	for _, s := range Subjects() {
		fmt.Fprintf(&b, " %s |", s)
	}
	b.WriteString("\n|" + strings.Repeat("---|", 2+len(Subjects())) + "\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %s |", r.Version(), processor(r.Arch))
		for _, s := range Subjects() {
			fmt.Fprintf(&b, " %s |", r.word(s))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// word returns what the table says of a subject: a guest of an earlier version did not try
// all of them.
func (r Result) word(subject string) string {
	i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Subject == subject })
	switch {
	case i < 0:
		return "not tried"
	case r.Checks[i].Works:
		return "yes"
	}
	return "no"
}

func processor(arch string) string {
	if arch == "amd64" {
		return "x86-64"
	}
	return arch
}
