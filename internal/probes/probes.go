// Package probes lists the VM probes of an executable: what it has, what the
// catalogue says of them, and which somebody is attached to.
package probes

import (
	"slices"
	"strconv"
	"strings"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

// An Attached says whether a probe is attached to.
type Attached uint8

// Whether a probe is attached to. It is unknown where no process was asked, or
// where its counter is not to be had. How many are attached cannot be told: the
// kernel counts up for each site and each way in which a process maps it.
const (
	Unknown Attached = iota
	No
	Yes
)

// String returns "yes", "no" or "unknown".
func (a Attached) String() string { return [...]string{"unknown", "no", "yes"}[a] }

// A Probe is a line of the listing: a probe, or a family of them.
type Probe struct {
	dtrace.Probe // only Name, where the catalogue does not know it

	Known    bool   // to the catalogue
	Refused  string // why nothing may be attached to it in this executable; "" where it may, or where it is not there
	Members  int    // probes that it stands for, of a family those that the executable has
	Sites    []Site
	Attached Attached
	Taps     int // members that are attached to
}

// A Site is a site of a probe.
type Site struct {
	usdt.Site
	Attached Attached
}

// A Semaphore returns the value of a site's semaphore in a running VM.
type Semaphore func(usdt.Site) (uint16, error)

// Options say what a listing shows.
type Options struct {
	// Release is the release of Erlang/OTP that the executable is, such as 27; 0: not known.
	Release int

	// All lists each probe of a family, and not the family.
	All bool

	// Interpreter says that the executable does not compile just in time: the
	// catalogue's states are not about it then.
	Interpreter bool

	// Semaphores are of the VMs that run the executable; none where it is not
	// running.
	Semaphores []Semaphore
}

// List returns the probes that were found in an executable, among them those that its
// functions stand in for, and those that it lacks of the catalogue, by name.
func List(found []usdt.Probe, opts Options) []Probe {
	lines := make(map[string]*Probe)
	for _, p := range catalogue(opts.All) {
		lines[p.Name] = &Probe{Probe: p, Known: true}
	}
	attached := newAttachment(opts.Semaphores)
	for _, f := range found {
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
		line.judge(opts)
	}
	return sorted(lines)
}

// catalogue returns the catalogue of the provider, with the members of families
// in place of these if so wanted.
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

// judge corrects what the catalogue says of other executables by what this one
// has.
func (p *Probe) judge(opts Options) {
	switch {
	case p.Members == 0:
		p.State, p.Hot = dtrace.Absent, dtrace.HeatUnknown
		return
	case p.State == dtrace.Absent, opts.Interpreter: // nobody has seen it firing
		p.State = dtrace.StateUnknown
	}
	p.Refused = p.Refusal(opts.Release)
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

// worst returns what holds of two together: attached if one is, and unknown if
// none is for certain.
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

// An attachment asks VMs for semaphores, once for each: sites share them.
type attachment struct {
	vms   []Semaphore
	known map[uint64]Attached
}

func newAttachment(vms []Semaphore) *attachment {
	return &attachment{vms: vms, known: make(map[uint64]Attached)}
}

// of returns whether a site is attached to in any of the VMs.
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
