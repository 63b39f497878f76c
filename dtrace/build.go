package dtrace

import "slices"

// A Build is a known build of the Erlang VM without probes: the functions that stand in for
// probes, and the places of their arguments.
//
// A compiler inlines functions as it likes, so a function that one build calls for each event may
// never be called in another build. Facts about one build therefore hold for no other: see the
// file builds_gen.go.
type Build struct {
	ID      string // GNU build ID of the executable, in hexadecimal
	Package string // package with the executable: "Debian 12, erlang-base 1:25.2.3+dfsg-1+deb12u4, amd64"
	Release int    // of Erlang/OTP
	Places  []Place
}

// A Place is an instruction of a build at which an event happens.
type Place struct {
	Probe string // name of the event's probe, as in executables

	// Other is the name of a second probe, if the events of both happen here and cannot be
	// distinguished; "" for most places.
	Other string

	Function string // the function that contains the instruction
	Return   bool   // the event is the return of the function, and Address its first instruction
	Address  uint64 // as linked
	Code     string // expected bytes at Address, in hexadecimal

	// Args are the specifications of the probe's arguments, in the form that notes have; "" for
	// an unknown argument. Processes and ports are terms. A function is three words in memory: the
	// terms of its module and its name, and its arity.
	Args []string

	// Message specifies the address of the event's message, in the same form. Indirect says
	// that it specifies the address of a word that contains the message's address.
	Message  string
	Indirect bool

	// Fetch says that a process takes the list of all signals out of its outer queue here, and that
	// each message of the list has the event. Message specifies the address of the first signal, and
	// State the flags of the process. The other places of the probe report the same messages when
	// they are sent. So only rules that those do not serve use this one.
	Fetch bool
	State string
}

// Builds returns the known builds, the oldest release first.
func Builds() []Build { return builds() }

// LookupBuild returns the known build with a GNU build ID.
func LookupBuild(id string) (Build, bool) {
	all := builds()
	i := slices.IndexFunc(all, func(b Build) bool { return b.ID == id && id != "" })
	if i < 0 {
		return Build{}, false
	}
	return all[i], true
}

// Sees reports whether the build has places for the events of a probe.
func (b Build) Sees(probe string) bool {
	return slices.ContainsFunc(b.Places, func(p Place) bool { return p.Probe == probe || p.Other == probe })
}

// Unseen gives the reason why no function of a build stands in for a missing probe.
func (p Probe) Unseen() string {
	if p.NoStandIn != "" {
		return p.NoStandIn
	}
	return "no function of the VM is known to report it"
}
