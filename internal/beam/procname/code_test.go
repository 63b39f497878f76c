package procname

import (
	"slices"
	"testing"

	"golang.org/x/arch/x86/x86asm"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/samecode"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// A build with the code of a known one has its structures: for each member, one of the functions that
// are compared has an instruction with the offset of the member. The static variable that
// rangesIn finds is the one to which the code leads.
func TestCodeShowsMembers(t *testing.T) {
	for _, release := range vmtest.StockReleases() {
		f, err := usdt.Open(vmtest.StockEmulator(t, release))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		codes := samecode.Codes()
		at := slices.IndexFunc(codes, func(c samecode.Code) bool { return c.ID == f.BuildID() })
		builds := knownBuilds()
		build := slices.IndexFunc(builds, func(b knownBuild) bool { return b.id == f.BuildID() })
		if at < 0 || build < 0 {
			t.Fatalf("the code of OTP %d is not in the table", release)
		}
		shown := shownIn(t, f, codes[at])
		for name, members := range builds[build].structs {
			for path, m := range members {
				if !slices.Contains(shown[name], m.offset) {
					t.Errorf("OTP %d: no function has the offset %d of %s.%s", release, m.offset, name, path)
				}
			}
		}
		match, err := samecode.Recognise(f, release)
		if err != nil {
			t.Fatal(err)
		}
		if ranges, _ := match.Variable("r"); ranges != builds[build].ranges {
			t.Errorf("OTP %d: variable r at %#x, want %#x", release, ranges, builds[build].ranges)
		}
		known, _ := dtrace.LookupBuild(f.BuildID())
		if !slices.EqualFunc(match.Build.Places, known.Places, func(a, b dtrace.Place) bool { return a.Address == b.Address && a.Code == b.Code }) {
			t.Errorf("OTP %d: places differ: %+v, want %+v", release, match.Build.Places, known.Places)
		}
	}
}

// shownIn returns the offsets in the instructions of the functions of a code, by structure.
func shownIn(t *testing.T, f *usdt.File, code samecode.Code) map[string][]uint64 {
	t.Helper()
	shown := make(map[string][]uint64)
	for i, fn := range code.Functions {
		of := fn.Shows
		for p := i; code.Functions[p].Symbol == "" && len(of) == 0; { // a part of another function
			p = code.Functions[p].From
			of = code.Functions[p].Shows
		}
		for at := uint64(0); at < uint64(fn.Size); {
			const longest = 15 // bytes of an instruction
			text, err := f.Code(fn.Address+at, longest)
			if err != nil {
				t.Fatal(err)
			}
			in, err := x86asm.Decode(text, 64)
			if err != nil {
				t.Fatalf("%s at %#x: %v", fn.Name, fn.Address+at, err)
			}
			for _, a := range in.Args {
				if m, ok := a.(x86asm.Mem); ok && m.Base != x86asm.RIP && m.Base != x86asm.RSP && m.Disp >= 0 {
					for _, name := range of {
						for offset := m.Disp; offset == m.Disp || offset < m.Disp+int64(in.MemBytes); offset += wordSize {
							shown[name] = append(shown[name], uint64(offset))
						}
					}
				}
			}
			at += uint64(in.Len)
		}
	}
	return shown
}
