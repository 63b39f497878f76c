package fire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/vm"
)

// A Report is the result of a test of a VM.
type Report struct {
	Exe     string     // the file of the VM, for people
	Version string     // of OTP
	Flavour vm.Flavour // of the VM
	Probes  []Probe    // by name
	Failed  []Failure  // scenarios that could not be carried out
}

// A Probe is the result for a probe, or a family of them.
type Probe struct {
	dtrace.Probe // from the catalogue; only Name if the catalogue lacks it

	Known   bool // to the catalogue
	Found   Found
	Members int    // number of members in the executable; 1 if it is no family
	Hits    uint64 // from the start of the VM to the end of the test
	Checks  []Check
	Refused string // why the test did not attach to it; "" if it did
	Why     string // why it was not tried
	Wrong   string // error in the catalogue; "" if the catalogue and the test agree
}

// Found is the result for a probe, as a kind.
type Found uint8

// The kinds of results.
const (
	Fired     Found = iota
	Silent          // although the VM caused its event
	NotThere        // in the executable
	Dangerous       // and for that reason not attached to
	Unmade          // no scenario makes it fire, and nothing else did
	Untried         // the scenarios that would make it fire could not be carried out
)

// String returns the result in words.
func (f Found) String() string {
	words := [...]string{"fired", "did not fire", "not in the executable", "skipped, dangerous", "no scenario", "not tried"}
	return words[f]
}

// A Check compares how often a probe fired in a scenario with how often it should have fired. For a
// family, it is the check of the worst member.
type Check struct {
	Scenario string
	Want     uint64
	Exact    bool // Want is exact, and not a minimum
	Got      uint64
}

// OK reports whether the probe fired as often as it should.
func (c Check) OK() bool { return c.Got == c.Want || !c.Exact && c.Got > c.Want }

// A Failure is a scenario that could not be carried out.
type Failure struct {
	Scenario string
	Err      error
}

// Settled returns the probes whose state is unknown in the catalogue and known from the test.
func (r Report) Settled() []Probe {
	var out []Probe
	for _, p := range r.Probes {
		if p.Known && p.State == dtrace.StateUnknown && (p.Found == Fired || p.Found == Silent) {
			out = append(out, p)
		}
	}
	return out
}

// Wrong returns the probes about which the catalogue and the VM disagree.
func (r Report) Wrong() []Probe {
	var out []Probe
	for _, p := range r.Probes {
		if p.Wrong != "" {
			out = append(out, p)
		}
	}
	return out
}

// Verdict returns nil if the catalogue and the VM agree, and otherwise an error with advice.
func (r Report) Verdict() error {
	wrong := r.Wrong()
	switch {
	case len(wrong) > 0:
		return fmt.Errorf("the catalogue and this VM of Erlang/OTP %s disagree about %s: please report it, with the output of --json",
			r.Version, probes(len(wrong)))
	case len(r.Failed) > 0:
		f := r.Failed[0]
		return fmt.Errorf("the test is not complete: %s: %w: please report it, with Erlang/OTP's version, %s", f.Scenario, f.Err, r.Version)
	}
	return nil
}

func probes(n int) string {
	if n == 1 {
		return "a probe"
	}
	return fmt.Sprintf("%d probes", n)
}

// An evidence is the data for a report.
type evidence struct {
	exe, version string
	release      int // of Erlang/OTP
	flavour      vm.Flavour
	present      map[string]bool // probes in the executable, and functions that stand in for some
	results      []result
	totals       map[string]uint64 // hits by probe
}

// judge compares the evidence with a catalogue.
func judge(e evidence, catalogue []dtrace.Probe) Report {
	r := Report{Exe: e.exe, Version: e.version, Flavour: e.flavour}
	known := make(map[string]bool)
	for _, p := range catalogue {
		r.Probes = append(r.Probes, e.probe(p))
		for _, m := range members(p) {
			known[m] = true
		}
	}
	for name := range e.present {
		if !known[name] {
			r.Probes = append(r.Probes, Probe{
				Probe: dtrace.Probe{Name: name}, Members: 1, Found: Untried,
				Why: "what attaching does is not known", Wrong: "is not in the catalogue",
			})
		}
	}
	slices.SortFunc(r.Probes, func(a, b Probe) int { return strings.Compare(a.Name, b.Name) })
	for _, result := range e.results {
		if result.err != nil {
			r.Failed = append(r.Failed, Failure{result.scenario.name, result.err})
		}
	}
	return r
}

// probe makes the result for an entry of the catalogue.
func (e evidence) probe(known dtrace.Probe) Probe {
	p := Probe{Probe: known, Known: true}
	for _, m := range members(known) {
		if e.present[m] {
			p.Members++
			p.Hits += e.totals[m]
		}
	}
	if e.flavour == vm.Interpreter && p.Members > 0 {
		p.State = dtrace.StateUnknown // the catalogue describes VMs with the JIT
	}
	switch {
	case p.Members == 0:
		p.Found = NotThere
	case known.Refusal(e.release) != "":
		p.Found, p.Refused = Dangerous, known.Refusal(e.release)
	default:
		e.check(&p)
	}
	p.Wrong = p.wrong()
	return p
}

// check adds the checks of a probe in all scenarios.
func (e evidence) check(p *Probe) {
	p.Found = Unmade
	p.Why = unmade()[p.Name]
	for _, r := range e.results {
		for _, want := range r.scenario.makes {
			switch {
			case want.probe != p.Name:
			case r.err != nil && p.Found == Unmade:
				p.Found, p.Why = Untried, fmt.Sprintf("%s failed", r.scenario.name)
			case r.err == nil:
				c := want.check(r.hits)
				c.Scenario = r.scenario.name
				p.Checks = append(p.Checks, c)
				if want.times > 0 {
					p.Found, p.Why = Silent, ""
				}
			}
		}
	}
	if p.Hits > 0 {
		p.Found, p.Why = Fired, ""
	}
}

// wrong describes the error in the catalogue's entry.
func (p Probe) wrong() string {
	claimed := p.State == dtrace.Alive || p.State == dtrace.DirtyOnly
	switch {
	case p.Found == NotThere && (claimed || p.State == dtrace.Dead):
		return "is not in the executable"
	case p.Found == NotThere:
		return ""
	case p.State == dtrace.Absent:
		return "is in the executable"
	case p.Members < p.Family:
		return fmt.Sprintf("has only %d of %d members in the executable", p.Members, p.Family)
	case p.Found == Silent && claimed:
		return "did not fire"
	case p.Found == Fired && p.State == dtrace.Dead:
		return "fired"
	case p.Found == Fired:
		for _, c := range p.Checks {
			if !c.OK() {
				return "fired " + c.difference()
			}
		}
	}
	return ""
}

// difference describes a failed check.
func (c Check) difference() string {
	amount := "at least"
	if c.Exact {
		amount = "exactly"
	}
	return fmt.Sprintf("%s in %s, and not %s %d", count(c.Got), c.Scenario, amount, c.Want)
}
