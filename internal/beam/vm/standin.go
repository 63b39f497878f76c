package vm

import (
	"debug/elf"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/samecode"
	"github.com/beamscope/beamscope/usdt"
)

// An UnknownBuildError means that a build of the VM is unknown. Compilers inline functions as
// they like, so it is unknown which functions of this build run at which events, but for a few that
// run in all builds.
type UnknownBuildError struct {
	ID      string // GNU build ID in hexadecimal, or "" if there is none
	Release int    // release of Erlang/OTP, or 0 if unknown
	Reason  error  // why it has not the code of a known build either, or nil
}

func (e *UnknownBuildError) Unwrap() error { return e.Reason }

func (e *UnknownBuildError) Error() string {
	if e.Release >= hidden {
		return fmt.Sprintf("no functions stand in for them, as %s does not export its functions", dtrace.ReleaseName(e.Release))
	}
	return "no functions stand in for them, as " + e.build()
}

// build describes what is known of the build.
func (e *UnknownBuildError) build() string {
	text := fmt.Sprintf("the build %s is not a known one", e.ID)
	if e.ID == "" {
		text = "the executable has no build ID to know it by"
	}
	if e.Reason != nil {
		text += ": " + e.Reason.Error()
	}
	return text
}

// WhyUnknown returns why the build of an executable without probes is unknown, if functions stand in for
// probes all the same; otherwise "".
func (i Image) WhyUnknown() string {
	if i.Unknown == nil {
		return ""
	}
	return i.Unknown.build()
}

// hidden is the first release of Erlang/OTP that is compiled with -fvisibility=hidden.
const hidden = 29

// standIn makes functions of a build without probes stand in for the probes. The error wraps
// [ErrNoProbes] if the build is unknown.
func (i *Image) standIn(f *usdt.File) error {
	build, ok := dtrace.LookupBuild(f.BuildID())
	switch {
	case !ok:
		return i.standInByCode(f)
	case build.Release != i.Release:
		return fmt.Errorf("%w: it is %s, with the build ID of %s", usdt.ErrFormat, dtrace.ReleaseName(i.Release), build.Package)
	}
	return i.use(f, build)
}

// standInByCode is standIn for a build that may have the same code as a known one.
func (i *Image) standInByCode(f *usdt.File) error {
	unknown := UnknownBuildError{ID: f.BuildID(), Release: i.Release}
	if i.Release == 0 {
		return fmt.Errorf("%w (%w)", ErrNoProbes, &unknown)
	}
	match, err := samecode.Recognise(f, i.Release)
	if err != nil {
		unknown.Reason = err
		if i.Flavour == JIT && anyFunction(f, i.Release) {
			i.Unknown = &unknown
			return nil
		}
		return fmt.Errorf("%w (%w)", ErrNoProbes, &unknown)
	}
	i.ByCode = true
	return i.use(f, match.Build)
}

// anyFunction reports whether an executable has functions that stand in for probes on all builds, and
// beamscope may attach to them.
func anyFunction(f *usdt.File, release int) bool {
	for _, p := range dtrace.Catalogue() {
		if p.Function == nil || !p.Function.Anywhere || p.Refusal(release) != "" {
			continue
		}
		if _, _, err := f.Symbol(p.Function.SymbolOn(release)); err == nil {
			return true
		}
	}
	return false
}

// use makes the places of a build the probes of the image.
func (i *Image) use(f *usdt.File, build dtrace.Build) error {
	i.Build = build
	i.Messages, i.Shared = make(map[uint64]Message), make(map[uint64]string)
	for _, p := range build.Places {
		if err := i.addPlace(f, p); err != nil {
			return fmt.Errorf("%s at %s: %w", dtrace.Hyphened(p.Probe), p.Function, err)
		}
	}
	return nil
}

// addPlace adds a site for a place of a build.
func (i *Image) addPlace(f *usdt.File, p dtrace.Place) error {
	code, err := f.Code(p.Address, len(p.Code)/2)
	if err != nil {
		return err
	}
	if hex.EncodeToString(code) != p.Code {
		return fmt.Errorf("%w: another instruction is at %#x than in %s", usdt.ErrFormat, p.Address, i.Build.Package)
	}
	offset, err := f.Offset(p.Address)
	if err != nil {
		return err
	}
	site := usdt.Site{Address: p.Address, Offset: offset, Function: p.Function, Return: p.Return, Stepped: !usdt.Emulated(f.Machine(), code)}
	functions := functionArgs(p.Probe)
	for at, spec := range p.Args {
		arg := usdt.Arg{Kind: usdt.ArgUnknown}
		if spec != "" {
			if arg, err = parseArg(f, spec); err != nil {
				return err
			}
		}
		if functions[at] && arg.Kind != usdt.ArgUnknown {
			if arg.Kind != usdt.ArgMemory || i.Release >= hidden {
				return fmt.Errorf("%w: argument %q is no place of a function", usdt.ErrFormat, spec)
			}
			arg.Kind = usdt.ArgAddress
		}
		site.Args = append(site.Args, arg)
	}
	if p.Fetch {
		return i.addFetch(f, p, site)
	}
	if p.Message != "" {
		arg, err := parseArg(f, p.Message)
		if err != nil {
			return err
		}
		i.Messages[p.Address] = Message{Arg: arg, Indirect: p.Indirect}
	}
	i.addSite(p.Probe, site)
	if p.Other != "" {
		i.Shared[p.Address] = p.Other
		i.addSite(p.Other, site)
	}
	return nil
}

// fetchedProbe is the probe whose events are those of the messages that a process fetches.
const fetchedProbe = "message__queued"

// addFetch adds a place at which processes fetch their signals.
func (i *Image) addFetch(f *usdt.File, p dtrace.Place, site usdt.Site) error {
	if p.Probe != fetchedProbe {
		return fmt.Errorf("%w: a fetch is no event of %s", usdt.ErrFormat, p.Probe)
	}
	first, err := parseArg(f, p.Message)
	if err != nil {
		return err
	}
	state, err := parseArg(f, p.State)
	if err != nil {
		return err
	}
	i.Fetches = append(i.Fetches, Fetch{Site: site, First: first, State: state})
	return nil
}

// functionArgs returns which arguments of a probe are functions, by their numbers. A place has the
// address of three words for one: the terms of its module and its name, and its arity.
func functionArgs(probe string) map[int]bool {
	found := make(map[int]bool)
	if p, ok := dtrace.Lookup(probe); ok {
		for i, a := range p.Args {
			found[i] = a.Type == dtrace.MFA
		}
	}
	return found
}

// parseArg parses the specification of an argument.
func parseArg(f *usdt.File, spec string) (usdt.Arg, error) {
	args, err := usdt.ParseArgs(f.Machine(), spec)
	if err != nil {
		return usdt.Arg{}, err
	}
	if len(args) != 1 || args[0].Kind == usdt.ArgUnknown {
		return usdt.Arg{}, fmt.Errorf("%w: argument %q", usdt.ErrFormat, spec)
	}
	return args[0], nil
}

// addSite adds a site of a probe.
func (i *Image) addSite(probe string, site usdt.Site) {
	at := slices.IndexFunc(i.Probes, func(p usdt.Probe) bool { return p.Name == probe })
	if at < 0 {
		at = len(i.Probes)
		i.Probes = append(i.Probes, usdt.Probe{Provider: Provider, Name: probe})
	}
	i.Probes[at].Sites = append(i.Probes[at].Sites, site)
}

// functionSite returns the site of a probe for which a function stands in. This is its first
// instruction. Many functions begin with an instruction that serves only indirect calls and that
// the kernel would single-step. Then it is the one after that.
func functionSite(f *usdt.File, p dtrace.Probe, release int) (site usdt.Site, landing int, err error) {
	address, offset, err := f.Symbol(p.Function.SymbolOn(release))
	if err != nil {
		return usdt.Site{}, 0, err
	}
	const longest = 16 // bytes of an instruction, and of the one before it
	code, err := f.Code(address, longest)
	if err != nil {
		return usdt.Site{}, 0, err
	}
	skip := usdt.Landing(f.Machine(), code)
	site = usdt.Site{
		Address: address + uint64(skip), Offset: offset + uint64(skip),
		Function: p.Function.SymbolOn(release), Return: p.Function.Return,
		Stepped: !usdt.Emulated(f.Machine(), code[skip:]),
	}
	for i, param := range p.Function.Params {
		args, err := usdt.ParseArgs(f.Machine(), paramSpec(f.Machine(), param, p.Args[i].Type))
		if err != nil {
			return usdt.Site{}, 0, fmt.Errorf("argument %s: %w", p.Args[i].Name, err)
		}
		site.Args = append(site.Args, args...)
	}
	return site, skip, nil
}

// paramSpec returns the location of a parameter as a note would specify it. It follows the
// calling conventions, System V for x86-64 and AAPCS64. Integers are ints, everything else words.
func paramSpec(machine elf.Machine, p dtrace.Param, t dtrace.Type) string {
	size := "8"
	if t == dtrace.Int {
		size = "-4"
	}
	if machine == elf.EM_AARCH64 {
		register := fmt.Sprintf("x%d", max(p.Number-1, 0))
		if p.Deref {
			return size + "@[" + register + "]"
		}
		return size + "@" + register
	}
	registers := [...]string{"rax", "rdi", "rsi", "rdx", "rcx", "r8", "r9"}
	if size == "-4" {
		registers = [...]string{"eax", "edi", "esi", "edx", "ecx", "r8d", "r9d"}
	}
	if p.Deref {
		return size + "@(%" + registers[p.Number] + ")"
	}
	return size + "@%" + registers[p.Number]
}
