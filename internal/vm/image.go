package vm

import (
	"errors"
	"fmt"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

// An Image is what there is to attach to in the executable of VMs.
type Image struct {
	Release int          // of Erlang/OTP, such as 27; 0 where the executable does not tell
	Flavour Flavour      // how the VM runs code
	Probes  []usdt.Probe // of the VM's provider, and those that its functions stand in for

	Landing int        // bytes in front of where functions stand in for probes, see [usdt.Landing]
	Terms   TermTables // how its terms hold pids
	NoTerms error      // why that is not known, nil where it is; wraps [ErrTerms]
}

// Image reads the VM's executable, and checks with the VM what that says of terms. The
// error wraps [ErrNoProbes] where it was built without probes.
func (v VM) Image() (Image, error) {
	f, err := v.Exe.Open()
	if err == nil {
		defer f.Close()
		var image Image
		if image, err = v.ImageIn(f); err == nil {
			return image, nil
		}
	}
	return Image{}, fmt.Errorf("pid %d (%s): %w", v.PID(), v.Exe.Name, err)
}

// ImageIn is Image of the executable that is open.
func (v VM) ImageIn(f *usdt.File) (Image, error) {
	image, err := ImageOf(f)
	if err != nil {
		return Image{}, err
	}
	if image.NoTerms == nil {
		_, err := v.termsIn(f)
		if err != nil && !errors.Is(err, ErrStarting) { // then programs check it, when it has started
			image.Terms, image.NoTerms = TermTables{}, err
		}
	}
	return image, nil
}

// ReadImage reads an executable. The error wraps [ErrNoProbes] where it has no probes.
func ReadImage(path string) (Image, error) {
	f, err := usdt.Open(path)
	if err != nil {
		return Image{}, err
	}
	defer f.Close()
	return ImageOf(f)
}

// ImageOf reads an executable that is open, as [ReadImage] does.
func ImageOf(f *usdt.File) (image Image, err error) {
	image = Image{Release: releaseOf(f), Flavour: flavourOf(f)}
	if image.Probes, err = probesOf(f); err != nil {
		return Image{}, err
	}
	image.Terms, image.NoTerms = termTables(f, image.Release)
	standIns, landing, err := standInsOf(f, image.Release)
	image.Landing = landing
	image.Probes = append(image.Probes, standIns...)
	return image, err
}

// probesOf returns the probes of the VM's provider.
func probesOf(f *usdt.File) ([]usdt.Probe, error) {
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

// checkSites checks that probes are at nops. A file that was changed after it was linked may
// have notes that do not fit its code any more: a breakpoint within an instruction would
// crash the VM.
func checkSites(f *usdt.File, probes []usdt.Probe) error {
	const longest = 5 // bytes of the nops that are told apart
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

// How many sites a VM may have. Each can take a program of its own, which the kernel looks
// at for some milliseconds. The VMs of OTP 25 to 29 have 1032 sites, 5 of one probe at most.
const (
	maxSites = 64 // of a probe
	maxAll   = 4096
)

// ErrSites says that an executable has more sites of probes than are attached to.
var ErrSites = errors.New("too many sites of probes")

// checkCounts refuses an executable that would take too long to attach to.
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

// standInsOf returns the probes of the catalogue that the provider lacks, at the functions
// that stand in for them: those that the executable exports. They have no semaphores. The
// second result is what functions begin with before that, see [Image.Landing].
func standInsOf(f *usdt.File, release int) (probes []usdt.Probe, landing int, err error) {
	for _, p := range dtrace.Catalogue() {
		if p.Function == nil {
			continue
		}
		site, skipped, err := functionSite(f, p, release)
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
