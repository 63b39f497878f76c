package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/symbols"
	"github.com/beamscope/beamscope/internal/engine/seen"
	"github.com/beamscope/beamscope/usdt"
)

// An Image describes the executable of VMs for attaching.
type Image struct {
	Release int          // release of Erlang/OTP, such as 27; 0 if the executable does not contain it
	Flavour Flavour      // how the VM runs code
	Probes  []usdt.Probe // probes of the VM's provider, and stand-ins for missing ones

	// Build is the known build of the executable, if it has no probes and its functions stand in
	// for them. Otherwise its ID is "". ByCode means that the executable is another build with the
	// same code, whose places Build has.
	Build  dtrace.Build
	ByCode bool

	// Unknown is not nil if the executable has no probes and is of an unknown build. Then the few
	// functions stand in that do so on all builds.
	Unknown *UnknownBuildError

	// Messages contains, by the address of a site, where an event has the address of its message.
	// It covers only functions that stand in for probes.
	Messages map[uint64]Message

	// Fetches are the places at which processes take all signals out of their outer queues. They
	// serve rules that cannot use the other functions that stand in for message__queued.
	Fetches []Fetch

	// Shared contains, by address, sites at which the events of two probes happen. The value is
	// the name of the second probe.
	Shared map[uint64]string

	Landing int        // bytes before the sites of stand-in functions, see [usdt.Landing]
	Terms   TermTables // how its terms contain pids
	NoTerms error      // why the form of terms is unknown, nil if it is known; wraps [ErrTerms]
}

// A Message describes where an event has the address of its message.
type Message struct {
	Arg      usdt.Arg
	Indirect bool // Arg is the address of a word that contains the address of the message
}

// A Fetch is a place at which a process takes the list of all signals out of its outer queue.
type Fetch struct {
	Site  usdt.Site // with the arguments of message__queued
	First usdt.Arg  // address of the first signal of the list
	State usdt.Arg  // flags of the process
}

// Seen describes how an event of the catalogue can be observed in an executable.
type Seen struct {
	Functions []string // functions of the executable that stand in for the probe; none if the executable has the probe
	Unseen    string   // why it cannot be observed; "" if it can
}

// Way returns the way in which the event is seen, or "" if it is not.
func (s Seen) Way() seen.Way {
	switch {
	case s.Unseen != "":
		return ""
	case len(s.Functions) > 0:
		return seen.StandIn
	}
	return seen.Probe
}

// String returns "probe", "stand-in" with the functions, or "not at all" with the reason why the
// event cannot be observed.
func (s Seen) String() string {
	if s.Unseen != "" {
		return seen.Unseen(s.Unseen)
	}
	return strings.TrimSpace(string(s.Way()) + " " + strings.Join(s.Functions, ", "))
}

// Sees returns how the events of a probe of the catalogue can be observed.
func (i Image) Sees(p dtrace.Probe) Seen {
	name := p.Name
	_, ofSpans := dtrace.UserTraceNumber(name)
	switch {
	case i.StandIns() && (ofSpans || name == dtrace.UserTrace):
		name = dtrace.UserTrace
	case p.Family > 0:
		name += "1"
	}
	at := slices.IndexFunc(i.Probes, func(found usdt.Probe) bool { return found.Name == name })
	switch {
	case at < 0 && p.State == dtrace.Absent:
		return Seen{Unseen: "no VM has this probe"}
	case at < 0 && i.Unknown != nil && (p.Function == nil || !p.Function.Anywhere):
		return Seen{Unseen: "this build is not a known one, and no function stands in on all builds"}
	case at < 0 && p.Function != nil:
		return Seen{Unseen: fmt.Sprintf("the executable does not export the function %s", p.Function.SymbolOn(i.Release))}
	case at < 0 && !i.StandIns():
		return Seen{Unseen: "the executable does not have this probe"}
	case at < 0:
		return Seen{Unseen: p.Unseen()}
	}
	if why := p.Refusal(i.Release); why != "" {
		return Seen{Unseen: "refused: " + why}
	}
	if p.Function != nil && i.NoTerms != nil {
		return Seen{Unseen: i.NoTerms.Error()}
	}
	var s Seen
	sites := slices.Clone(i.Probes[at].Sites)
	for _, f := range i.Fetches {
		if name == fetchedProbe {
			sites = append(sites, f.Site)
		}
	}
	for _, site := range sites {
		if site.Function != "" && !slices.Contains(s.Functions, site.Function) {
			s.Functions = append(s.Functions, site.Function)
		}
	}
	return s
}

// StandIns reports whether the executable has no probes, and functions stand in for some.
func (i Image) StandIns() bool { return i.Build.ID != "" || i.Unknown != nil }

// Image reads the VM's executable, and checks the form of terms in the VM's memory. The error wraps
// [ErrNoProbes] if the executable was built without probes, and also [ErrNotVM] if nothing else shows
// that it is a VM.
func (v VM) Image() (Image, error) {
	f, err := v.Open(context.Background())
	if err == nil {
		defer f.Close()
		var image Image
		if image, err = v.ImageIn(f); err == nil {
			return image, nil
		}
	}
	return Image{}, fmt.Errorf("pid %d (%s): %w", v.PID(), v.Exe.Name, err)
}

// ImageIn is Image for an open executable.
func (v VM) ImageIn(f *usdt.File) (Image, error) {
	image, err := ImageOf(f)
	if err != nil {
		return Image{}, err
	}
	if err := v.CheckTerms(f, image); err != nil && !errors.Is(err, ErrStarting) { // a VM that is starting is checked by the programs later
		image = image.WithoutTerms(fmt.Errorf("pid %d: %w", v.PID(), err))
	}
	return image, nil
}

// CheckTerms returns an error if the VM's memory does not have the form of terms that the image of its
// executable has. The error wraps [ErrTerms], and also [ErrStarting] if the memory may have it later.
func (v VM) CheckTerms(f *usdt.File, image Image) error {
	if image.NoTerms != nil {
		return nil
	}
	_, err := v.readTerms(f)
	if err != nil && !errors.Is(err, ErrTerms) {
		err = fmt.Errorf("%w: %w", ErrTerms, err)
	}
	return err
}

// WithoutTerms returns an image for a VM in which the form of terms is unknown, with the reason.
func (i Image) WithoutTerms(why error) Image {
	i.Terms, i.NoTerms = TermTables{}, why
	return i
}

// ReadImage reads an executable that need not run, and the symbols that were stripped from it as the
// store finds them. The error wraps [ErrNoProbes] if it has no probes, and also [ErrNotVM] if nothing
// else shows that it is a VM.
func ReadImage(ctx context.Context, path string, store *symbols.Store) (Image, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Image{}, err
	}
	f, err := usdt.Open(path)
	if err != nil {
		return Image{}, err
	}
	defer f.Close()
	if self, err := usdt.OpenProcess(os.Getpid()); err == nil {
		VM{Process: self, symbols: store}.findSymbols(ctx, f)
	}
	return ImageOf(f)
}

// A notVMError says that nothing shows that an executable is that of a VM. The file of a VM has its
// probes, or at least the version of Erlang/OTP, which stripping does not remove.
type notVMError struct{}

func (*notVMError) Error() string {
	return fmt.Sprintf("%v: its executable has no probes, and no version of Erlang/OTP", ErrNotVM)
}

func (*notVMError) Unwrap() []error { return []error{ErrNotVM, ErrNoProbes} }

// ImageOf reads an open executable, as [ReadImage] does. If the error wraps [ErrNoProbes] and not
// [ErrNotVM], the executable is that of a VM.
func ImageOf(f *usdt.File) (image Image, err error) {
	return imageOf(f, func(image *Image) (err error) {
		image.Probes, err = ProbesOf(f)
		if errors.Is(err, ErrNoProbes) {
			err = image.standIn(f)
		}
		return err
	})
}

// ImageAt reads an open executable as if it had no probes, and as if the places of a build stood in for
// them. Tests compare the two ways on one VM by it.
func ImageAt(f *usdt.File, build dtrace.Build) (image Image, err error) {
	return imageOf(f, func(image *Image) error { return image.use(f, build) })
}

// imageOf reads an open executable, with the probes that find adds.
func imageOf(f *usdt.File, find func(*Image) error) (image Image, err error) {
	image = Image{Release: releaseOf(f), Flavour: flavourOf(f)}
	err = find(&image)
	if errors.Is(err, ErrNoProbes) && image.Release == 0 {
		err = &notVMError{}
	}
	if err != nil {
		return Image{}, err
	}
	image.Terms, image.NoTerms = termTables(f, image.Release)
	standIns, landing, err := image.standInsOf(f)
	image.Landing = landing
	image.Probes = append(image.Probes, standIns...)
	return image, err
}

// ProbesOf reads the VM probes in an open executable, as [Probes] does.
func ProbesOf(f *usdt.File) ([]usdt.Probe, error) {
	probes, err := f.Probes(Provider)
	if errors.Is(err, usdt.ErrNoProbes) || err == nil && len(probes) == 0 {
		return nil, ErrNoProbes
	}
	if err != nil {
		return nil, err
	}
	if err := checkCounts(probes); err != nil {
		return nil, err
	}
	return probes, checkSites(f, probes)
}

// checkSites checks that probes are at nops. If a file was changed after it was linked, its notes
// may no longer match its code: a breakpoint within an instruction would crash the VM.
func checkSites(f *usdt.File, probes []usdt.Probe) error {
	const longest = 5 // longest nop in bytes that is recognised
	for _, p := range probes {
		for _, s := range p.Sites {
			code, err := f.Code(s.Address, longest)
			if err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
			if !usdt.IsNop(f.Machine(), code) {
				return fmt.Errorf("%s: %w: no nop at %#x, where its note says that it is", p.Name, usdt.ErrFormat, s.Address)
			}
		}
	}
	return nil
}

// Limits of the number of sites of a VM. Each site may need its own program, and the kernel takes
// some milliseconds to verify one. The VMs of OTP 25 to 29 have 1032 sites, and at most 5 of one
// probe.
const (
	maxSites = 64 // for one probe
	maxAll   = 4096
)

// ErrSites means that an executable has more sites of probes than beamscope attaches to.
var ErrSites = errors.New("too many sites of probes")

// checkCounts rejects an executable that would take too long to attach to.
func checkCounts(probes []usdt.Probe) error {
	all := 0
	for _, p := range probes {
		if len(p.Sites) > maxSites {
			return fmt.Errorf("%w: %s has %d, at most %d are attached to", ErrSites, p.Name, len(p.Sites), maxSites)
		}
		if all += len(p.Sites); all > maxAll {
			return fmt.Errorf("%w: more than %d", ErrSites, maxAll)
		}
	}
	return nil
}

// standInsOf returns the probes of the catalogue that the provider lacks, at exported functions
// of the executable that stand in for them. They have no semaphores. landing is the number of
// bytes before these sites, see [Image.Landing].
func (i Image) standInsOf(f *usdt.File) (probes []usdt.Probe, landing int, err error) {
	for _, p := range dtrace.Catalogue() {
		if p.Function == nil || i.Unknown != nil && !p.Function.Anywhere {
			continue
		}
		site, skipped, err := functionSite(f, p, i.Release)
		if errors.Is(err, usdt.ErrNoSymbol) {
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", p.DTraceName(), err)
		}
		probes = append(probes, usdt.Probe{Provider: Provider, Name: p.Name, Sites: []usdt.Site{site}})
		landing = skipped
	}
	return probes, landing, nil
}
