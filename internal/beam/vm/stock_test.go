package vm_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/samecode"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/sources/target"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// In a known build, functions stand in for probes. The kernel can emulate the instruction at each
// of these places.
func TestStockImage(t *testing.T) {
	for _, release := range vmtest.StockReleases() {
		t.Run(strconv.Itoa(release), func(t *testing.T) { stockImage(t, vmtest.Stock(t, release).Emulator(), release) })
	}
}

func stockImage(t *testing.T, path string, release int) {
	image, err := vm.ReadImage(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if image.Build.ID == "" || image.Release != release || image.Build.Release != release || image.NoTerms != nil {
		t.Errorf("build %q, %d, release %d, terms: %v", image.Build.ID, image.Build.Release, image.Release, image.NoTerms)
	}
	for name, want := range map[string]string{
		"gc_minor__start":  "stand-in garbage_collect",
		"message__receive": "stand-in beam_jit_remove_message",
		"nif__entry":       "stand-in erts_call_dirty_nif, erts_call_dirty_bif",
		"process__in":      "stand-in erts_schedule",
		"port__busy":       "stand-in set_busy_port",
		"port__open":       "not at all: no function of the VM is known to report it",
		"function__return": "not at all: no VM has this probe",
	} {
		p, _ := dtrace.Lookup(name)
		if got := image.Sees(p).String(); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, p := range image.Probes {
		for _, s := range p.Sites {
			if s.Stepped || s.Function == "" || s.Semaphore != 0 {
				t.Errorf("%s: %+v", p.Name, s)
			}
		}
	}
	if len(image.Fetches) != 1 || image.Fetches[0].Site.Stepped || image.Fetches[0].Site.Function != "erts_proc_sig_fetch__" {
		t.Errorf("fetches %+v", image.Fetches)
	}
	if unseen := target.Unseen(image); len(unseen) > 0 {
		t.Errorf("cannot be observed: %q", unseen)
	}
}

// namesOf returns the names of probes.
func namesOf(probes []usdt.Probe) (names []string) {
	for _, p := range probes {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// A build with another build ID is the known one if it has the same code.
func TestSameCode(t *testing.T) {
	for _, release := range vmtest.StockReleases() {
		t.Run(strconv.Itoa(release), func(t *testing.T) {
			path := vmtest.Rebuilt(t, release).Emulator()
			stockImage(t, path, release)
			if image, err := vm.ReadImage(t.Context(), path, nil); err != nil || !image.ByCode {
				t.Errorf("by its code: %t, error %v", image.ByCode, err)
			}
		})
	}
}

// In an unknown build only the functions stand in that do so in all builds, provided that it has a JIT. In
// a file whose code does not match the build that it claims to be, none does.
func TestOtherBuilds(t *testing.T) {
	path := vmtest.Stock(t, 25).Emulator()
	image, err := vm.ReadImage(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	original, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	id, err := hex.DecodeString(image.Build.ID)
	if err != nil {
		t.Fatal(err)
	}
	readImage := func(data []byte) (vm.Image, error) {
		other := path + "-other"
		if err := os.WriteFile(other, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return vm.ReadImage(t.Context(), other, nil)
	}
	read := func(data []byte) error { _, err := readImage(data); return err }
	otherID := func(data []byte) []byte { return bytes.Replace(data, id, bytes.Repeat([]byte{0xab}, len(id)), 1) }
	exit := slices.IndexFunc(image.Probes, func(p usdt.Probe) bool { return p.Name == "process__exit" })
	changed := otherID(original)
	changed[image.Probes[exit].Sites[0].Offset+0x100]++
	other, err := readImage(changed)
	if why := other.WhyUnknown(); err != nil || other.Unknown.Release != 25 || !strings.Contains(why, strings.Repeat("ab", len(id))) || !strings.Contains(why, "erts_do_exit_process has other code") {
		t.Errorf("another build ID, and other code: %q, error %v", why, err)
	}
	if names := namesOf(other.Probes); !slices.Equal(names, []string{"process__in", "process__out"}) || !other.StandIns() {
		t.Errorf("functions stand in for %q", names)
	}
	if !errors.Is(other.Unknown, samecode.ErrNone) {
		t.Errorf("error %v, want %v", other.Unknown, samecode.ErrNone)
	}
	for what, without := range map[string][]byte{
		"without the function": bytes.ReplaceAll(changed, []byte("\x00erts_schedule\x00"), []byte("\x00erts_schedulX\x00")),
		"without a JIT":        bytes.ReplaceAll(changed, []byte("\x00beamasm_codegen\x00"), []byte("\x00beamasm_codegem\x00")),
	} {
		if err, unknown := read(without), (*vm.UnknownBuildError)(nil); !errors.Is(err, vm.ErrNoProbes) || !errors.As(err, &unknown) || unknown.Release != 25 {
			t.Errorf("%s: error %v", what, err)
		}
	}
	for _, p := range image.Build.Places {
		code, err := hex.DecodeString(p.Code)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(image.Probes, func(found usdt.Probe) bool { return found.Name == p.Probe })
		sites := append(slices.Clone(image.Probes[i].Sites), image.Fetches[0].Site)
		at := sites[slices.IndexFunc(sites, func(s usdt.Site) bool { return s.Address == p.Address })].Offset
		changed = bytes.Clone(original)
		changed[int(at)+len(code)-1]++
		if err := read(changed); !errors.Is(err, usdt.ErrFormat) || !strings.Contains(err.Error(), p.Function) {
			t.Errorf("other code in %s: error %v", p.Function, err)
		}
	}
}

// A place where messages are fetched belongs to one probe, and tells where the list and the process are.
func TestFetchPlaces(t *testing.T) {
	f, err := usdt.Open(vmtest.Stock(t, 25).Emulator())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	build, _ := dtrace.LookupBuild(f.BuildID())
	i := slices.IndexFunc(build.Places, func(p dtrace.Place) bool { return p.Fetch })
	for what, change := range map[string]func(*dtrace.Place){
		"the probe": func(p *dtrace.Place) { p.Probe = "message__receive" },
		"the list":  func(p *dtrace.Place) { p.Message = "" },
		"the state": func(p *dtrace.Place) { p.State = "" },
	} {
		other := build
		other.Places = slices.Clone(build.Places)
		change(&other.Places[i])
		if _, err := vm.ImageAt(f, other); !errors.Is(err, usdt.ErrFormat) {
			t.Errorf("%s: error %v, want %v", what, err, usdt.ErrFormat)
		}
	}
	if image, err := vm.ImageAt(f, build); err != nil || len(image.Fetches) != 1 {
		t.Errorf("%d fetches, error %v", len(image.Fetches), err)
	}
}
