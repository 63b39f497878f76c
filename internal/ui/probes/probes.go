// Package probes lists the VM probes of an executable, with their descriptions in the catalogue,
// and whether a tracer is attached to them.
package probes

import (
	"slices"
	"strconv"
	"strings"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/usdt"
)

// An Attached records whether a tracer is attached to a probe.
type Attached uint8

// Whether a tracer is attached to a probe. It is unknown if no process was asked, or if its counter
// cannot be read. The number of tracers is not known: the kernel increments the counter for each
// site and for each mapping of it in a process.
const (
	Unknown Attached = iota
	No
	Yes
)

// String returns "yes", "no" or "unknown".
func (a Attached) String() string { return [...]string{"unknown", "no", "yes"}[a] }

// A Probe is a line of the listing: a probe, or a family of them.
type Probe struct {
	dtrace.Probe // only Name, if the catalogue does not have it

	Known    bool    // according to the catalogue
	Seen     vm.Seen // how its events are seen
	Refused  string  // why attaching to it is refused in this executable; "" if it is not refused, or if the executable lacks the probe
	Members  int     // number of probes that it stands for: for a family, the members in the executable
	Sites    []Site
	Attached Attached
	Taps     int // members with an attached tracer
}

// A Site is a site of a probe.
type Site struct {
	usdt.Site
	Attached Attached
}

// A Semaphore returns the value of a site's semaphore in a running VM.
type Semaphore func(usdt.Site) (uint16, error)

// Options configure a listing.
type Options struct {
	// Release is the Erlang/OTP release of the executable, such as 27; 0: unknown.
	Release int

	// All lists each probe of a family instead of the family.
	All bool

	// Interpreter means that the executable has no JIT compiler. Then the catalogue's states do not
	// apply to it.
	Interpreter bool

	// Image is the image of the executable, if known. It determines how events are seen.
	Image vm.Image

	// NoProbes is the reason why no event of the catalogue is seen; "" if some are, or if that is not
	// known.
	NoProbes string

	// Semaphores belong to the VMs that run the executable; none if no VM runs it.
	Semaphores []Semaphore
}

// List returns the probes of an executable, including those that its functions stand in for, and
// the probes of the catalogue that it lacks, sorted by name.
func List(found []usdt.Probe, opts Options) []Probe {
	lines := make(map[string]*Probe)
	for _, p := range catalogue(opts.All) {
		lines[p.Name] = &Probe{Probe: p, Known: true}
	}
	attached := newAttachment(opts.Semaphores)
	for _, f := range found {
		if f.Name == dtrace.UserTrace && opts.All {
			continue // a function stands in for the whole family
		}
		key := f.Name
		if _, member := dtrace.UserTraceNumber(f.Name); member && !opts.All {
			key = dtrace.UserTrace
		}
		line := lines[key]
		if line == nil {
			line = &Probe{Probe: dtrace.Probe{Name: f.Name}}
			lines[key] = line
		}
		line.add(f, attached)
	}
	for _, line := range lines {
		line.see(opts)
		line.judge(opts)
	}
	return sorted(lines)
}

// catalogue returns the catalogue of the provider. If wanted, it has the members of families
// instead of the families.
func catalogue(members bool) []dtrace.Probe {
	var out []dtrace.Probe
	for _, p := range dtrace.Catalogue() {
		if p.Family == 0 || !members {
			out = append(out, p)
			continue
		}
		for i := range p.Family {
			member := p
			member.Name, member.Family = p.Name+strconv.Itoa(i), 0
			out = append(out, member)
		}
	}
	return out
}

// judge corrects the catalogue's data about other executables by the data of this one.
func (p *Probe) judge(opts Options) {
	switch {
	case p.Members == 0:
		p.State, p.Hot = dtrace.Absent, dtrace.HeatUnknown
		return
	case p.State == dtrace.Absent, opts.Interpreter: // never seen firing
		p.State = dtrace.StateUnknown
	}
	p.Refused = p.Refusal(opts.Release)
}

// see sets how the events of a probe are seen.
func (p *Probe) see(opts Options) {
	switch {
	case opts.NoProbes != "":
		p.Seen = vm.Seen{Unseen: opts.NoProbes}
	case p.Known && opts.Image.Probes != nil:
		p.Seen = opts.Image.Sees(p.Probe)
	}
}

// add adds a probe of the executable to its line.
func (p *Probe) add(found usdt.Probe, attached *attachment) {
	state := No
	for _, s := range found.Sites {
		site := Site{Site: s, Attached: attached.of(s)}
		p.Sites = append(p.Sites, site)
		state = worst(state, site.Attached)
	}
	if state == Yes {
		p.Taps++
	}
	if p.Members == 0 {
		p.Attached = No
	}
	p.Attached = worst(p.Attached, state)
	p.Members++
}

// worst returns the combined state of two: attached if one is, and otherwise unknown if one is
// unknown.
func worst(a, b Attached) Attached {
	switch {
	case a == Yes || b == Yes:
		return Yes
	case a == Unknown || b == Unknown:
		return Unknown
	}
	return No
}

func sorted(lines map[string]*Probe) []Probe {
	list := make([]Probe, 0, len(lines))
	for _, l := range lines {
		list = append(list, *l)
	}
	slices.SortFunc(list, func(a, b Probe) int { return compareNames(a.Name, b.Name) })
	return list
}

// compareNames puts user_trace__n9 before user_trace__n10.
func compareNames(a, b string) int {
	m, first := dtrace.UserTraceNumber(a)
	n, second := dtrace.UserTraceNumber(b)
	if first && second {
		return m - n
	}
	return strings.Compare(a, b)
}

// An attachment reads semaphores of VMs, each once, because sites share them.
type attachment struct {
	vms   []Semaphore
	known map[uint64]Attached
}

func newAttachment(vms []Semaphore) *attachment {
	return &attachment{vms: vms, known: make(map[uint64]Attached)}
}

// of returns whether a tracer is attached to a site in any of the VMs.
func (a *attachment) of(site usdt.Site) Attached {
	if len(a.vms) == 0 || site.Semaphore == 0 {
		return Unknown
	}
	if state, ok := a.known[site.Semaphore]; ok {
		return state
	}
	state := No
	for _, semaphore := range a.vms {
		value, err := semaphore(site)
		switch {
		case err != nil:
			state = worst(state, Unknown)
		case value > 0:
			state = Yes
		}
	}
	a.known[site.Semaphore] = state
	return state
}
