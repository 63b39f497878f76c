package kernels_test

import (
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/sources/target"
)

// The builds of Debian's own VMs for arm64 are known: their instructions are at the addresses in
// the table, and the kernel emulates all of them except one. All outcomes can be observed.
func TestStockImagesForARM64(t *testing.T) {
	for _, release := range []int{25, 27} {
		t.Run(strconv.Itoa(release), func(t *testing.T) {
			beams, err := filepath.Glob(filepath.Join(script(t, "stock-arm64.sh", strconv.Itoa(release)), "erts-*", "bin", "beam.smp"))
			if err != nil || len(beams) != 1 {
				t.Fatalf("%d emulators, error %v", len(beams), err)
			}
			image, err := vm.ReadImage(t.Context(), beams[0], nil)
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
				"dist__port_busy":  "stand-in erts_dsig_send",
			} {
				p, _ := dtrace.Lookup(name)
				if got := image.Sees(p).String(); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			// The other functions are exported by all VMs, and the kernel single-steps their first instruction.
			places := 0
			for _, p := range image.Probes {
				for _, s := range p.Sites {
					if !slices.ContainsFunc(image.Build.Places, func(place dtrace.Place) bool { return place.Address == s.Address }) {
						continue
					}
					places++
					if stepped := p.Name == dtrace.UserTrace; s.Stepped != stepped || s.Function == "" || s.Return {
						t.Errorf("%s: %+v", p.Name, s)
					}
				}
			}
			for _, f := range image.Fetches {
				places++
				if f.Site.Stepped || f.Site.Function != "erts_proc_sig_fetch__" {
					t.Errorf("%+v", f)
				}
			}
			if places != len(image.Build.Places)+2 { // two places belong to two probes
				t.Errorf("%d places, the table has %d", places, len(image.Build.Places))
			}
			if unseen := target.Unseen(image); len(unseen) > 0 {
				t.Errorf("cannot be observed: %q", unseen)
			}
		})
	}
}
