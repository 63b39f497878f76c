package samecode_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/samecode"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

var others = flag.String("others", "", "executables of other builds with the same code, separated by spaces: older revisions of the packages that the table has")

// A stock VM is a build in the table, as a file to change.
type stock struct {
	*testing.T
	release int
	code    samecode.Code
	data    []byte
	file    *usdt.File
}

// onStock runs a test on each build that is known by its code.
func onStock(t *testing.T, test func(s stock)) {
	for _, release := range vmtest.StockReleases() {
		t.Run(fmt.Sprintf("OTP %d", release), func(t *testing.T) {
			data, err := os.ReadFile(vmtest.StockEmulator(t, release))
			if err != nil {
				t.Fatal(err)
			}
			f, err := usdt.NewFile(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			codes := samecode.Codes()
			i := slices.IndexFunc(codes, func(c samecode.Code) bool { return c.ID == f.BuildID() })
			if i < 0 {
				t.Fatalf("the build %s is not in the table", f.BuildID())
			}
			test(stock{t, release, codes[i], data, f})
		})
	}
}

// changed returns a copy of the file with other bytes at an address of its code.
func (s stock) changed(address uint64, code ...byte) []byte {
	s.Helper()
	offset, err := s.file.Offset(address)
	if err != nil {
		s.Fatal(err)
	}
	return s.replaced(offset, code)
}

func (s stock) replaced(offset uint64, code []byte) []byte {
	data := bytes.Clone(s.data)
	copy(data[offset:], code)
	return data
}

// refused checks that a file is refused because of one of some functions.
func (s stock) refused(what string, data []byte, how string, functions ...string) {
	s.Helper()
	f, err := usdt.NewFile(bytes.NewReader(data))
	if err != nil {
		s.Fatal(err)
	}
	_, err = samecode.Recognise(f, s.release)
	different := (*samecode.DifferentError)(nil)
	if !errors.As(err, &different) || !errors.Is(err, samecode.ErrNone) || different.How != how || !slices.Contains(functions, different.Function) {
		s.Errorf("%s: error %v, want that one of %q %s", what, err, functions, how)
	}
}

// A build with the code of a known one has its places, whatever its build ID.
func TestSameCode(t *testing.T) {
	onStock(t, func(s stock) {
		known, _ := dtrace.LookupBuild(s.code.ID)
		id, err := hex.DecodeString(s.code.ID)
		if err != nil {
			t.Fatal(err)
		}
		f, err := usdt.NewFile(bytes.NewReader(bytes.Replace(s.data, id, bytes.Repeat([]byte{0xab}, len(id)), 1)))
		if err != nil || f.BuildID() == s.code.ID {
			s.Fatalf("build ID %s, error %v", f.BuildID(), err)
		}
		match, err := samecode.Recognise(f, s.release)
		if err != nil {
			s.Fatal(err)
		}
		samePlaces(s.T, match.Build, known)
		if _, err := samecode.Recognise(f, 26); !errors.Is(err, samecode.ErrNone) {
			s.Errorf("as OTP 26: error %v", err)
		}
	})
}

// samePlaces compares the places of two builds, except for the distances in their instructions.
func samePlaces(t *testing.T, got, want dtrace.Build) {
	t.Helper()
	if got.Release != want.Release || len(got.Places) != len(want.Places) {
		t.Fatalf("OTP %d with %d places, want OTP %d with %d", got.Release, len(got.Places), want.Release, len(want.Places))
	}
	for i, p := range got.Places {
		if w := want.Places[i]; p.Address != w.Address || p.Code != w.Code || p.Probe != w.Probe || !slices.Equal(p.Args, w.Args) {
			t.Errorf("%+v, want %+v", p, w)
		}
	}
}

// Builds of older revisions of the packages have the code of the newest ones. Where the table of places
// has them too, the places are the same.
func TestOtherRevisions(t *testing.T) {
	for _, path := range strings.Fields(*others) {
		f, err := usdt.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		match, err := samecode.Recognise(f, vm.ReleaseOf(path))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if f.BuildID() == match.Build.ID {
			t.Errorf("%s is the build of the table", path)
		}
		known, ok := dtrace.LookupBuild(f.BuildID())
		if ok {
			samePlaces(t, match.Build, known)
		}
		t.Logf("%s, build ID %s: %s; its places are known: %t", path, f.BuildID(), match.Build.Package, ok)
	}
}

// A function that differs in one bit is another one. A part of a function has the name of the function.
func TestOtherCode(t *testing.T) {
	onStock(t, func(s stock) {
		for i, f := range s.code.Functions {
			for _, at := range []int{0, f.Size / 2, f.Size - 1} {
				for slices.ContainsFunc(f.Fields, func(field uint32) bool { return at-int(field>>3) >= 0 && at-int(field>>3) < 4 }) {
					at--
				}
				if at < 0 {
					continue
				}
				code, err := s.file.Code(f.Address+uint64(at), 1)
				if err != nil {
					s.Fatal(err)
				}
				s.refused(fmt.Sprintf("%d: %s+%#x", i, f.Name, at), s.changed(f.Address+uint64(at), code[0]^1), "has other code", f.Name)
			}
		}
	})
}

// A distance that leads elsewhere makes the code another one: to another function, another variable, or
// another place in the same function. The test tries one distance of five.
func TestOtherTargets(t *testing.T) {
	onStock(t, func(s stock) {
		for i, f := range s.code.Functions {
			for j, field := range f.Fields {
				if j%5 != 0 || s.onlyVariable(f, j) {
					continue
				}
				at := f.Address + uint64(field>>3)
				code, err := s.file.Code(at, 4)
				if err != nil {
					s.Fatal(err)
				}
				other := binary.LittleEndian.AppendUint32(nil, binary.LittleEndian.Uint32(code)+1)
				names := []string{f.Name}
				for _, g := range s.code.Functions { // what the distance leads to is not there
					if g.Symbol == "" && g.From == i && g.Field == j {
						names = append(names, g.Name)
					}
				}
				s.refused(fmt.Sprintf("%s, distance %d", f.Name, j), s.changed(at, other...), "has other code", names...)
			}
		}
	})
}

// onlyVariable reports whether a distance leads to a variable without an exported name.
func (s stock) onlyVariable(f samecode.Function, field int) bool {
	at := f.Address + uint64(f.Fields[field]>>3)
	code, err := s.file.Code(at, 4)
	if err != nil {
		s.Fatal(err)
	}
	target := at + 4 + uint64(f.Fields[field]&7) + uint64(int64(int32(binary.LittleEndian.Uint32(code))))
	if _, err := s.file.Offset(target); err == nil {
		return false
	}
	exported, err := s.file.Exported()
	if err != nil {
		s.Fatal(err)
	}
	return !slices.ContainsFunc(exported, func(e usdt.ExportedSymbol) bool { return target >= e.Address && target < e.Address+max(e.Size, 1) })
}

// A member of a structure at another place makes the functions that use it other ones.
func TestOtherOffset(t *testing.T) {
	onStock(t, func(s stock) {
		state := map[int]uint32{25: 640, 27: 624}[s.release] // of struct process
		const name = "erts_do_exit_process"
		address, offset, err := s.file.Symbol(name)
		if err != nil {
			s.Fatal(err)
		}
		i := slices.IndexFunc(s.code.Functions, func(f samecode.Function) bool { return f.Address == address })
		code := s.data[offset : offset+uint64(s.code.Functions[i].Size)]
		at := bytes.Index(code, binary.LittleEndian.AppendUint32(nil, state))
		if at < 0 {
			s.Fatalf("%s does not use the offset %d", name, state)
		}
		data := s.changed(address+uint64(at), binary.LittleEndian.AppendUint32(nil, state+8)...)
		s.refused("state at another offset", data, "has other code", name)
	})
}

// A function without its exported name is missing, and what leads to other functions is then different.
func TestMissingSymbol(t *testing.T) {
	onStock(t, func(s stock) {
		for _, f := range s.code.Functions {
			if f.Symbol == "" {
				continue
			}
			name := []byte("\x00" + f.Symbol + "\x00")
			at := bytes.Index(s.data, name)
			if at < 0 { // the name is the end of another one
				continue
			}
			s.refused(f.Symbol, s.replaced(uint64(at)+1, []byte{'!'}), "is missing", f.Name, f.Symbol)
		}
	})
}

// A function that others call more or less often than in the known build may be inlined somewhere.
func TestOtherCallers(t *testing.T) {
	onStock(t, func(s stock) {
		segments, err := s.file.CodeSegments()
		if err != nil {
			s.Fatal(err)
		}
		tried := 0
		for _, f := range s.code.Functions {
			if f.Callers == "" {
				continue
			}
			// A new call, in a function that is not compared.
			unrelated, _, err := s.file.Symbol("erts_sys_ddll_open")
			if err != nil {
				s.Fatal(err)
			}
			distance := binary.LittleEndian.AppendUint32(nil, uint32(f.Address-(unrelated+4+4)))
			s.refused("another caller of "+f.Name, s.changed(unrelated+4, distance...), "has other callers", f.Name)
			// One call less.
			if at, ok := s.callOf(segments, f.Address); ok {
				s.refused("one caller less of "+f.Name, s.changed(at, 0, 0, 0, 0), "has other callers", f.Name)
				tried++
			}
		}
		if tried == 0 {
			s.Error("no function that stands in has a caller that is not compared")
		}
	})
}

// A function of another size, in the source file of a function that stands in for a probe, may contain a
// copy of it.
func TestOtherSizes(t *testing.T) {
	onStock(t, func(s stock) {
		starts, err := s.file.FunctionStarts()
		if err != nil {
			s.Fatal(err)
		}
		table, err := s.file.Section(t.Context(), ".eh_frame_hdr", 1<<20)
		if err != nil {
			s.Fatal(err)
		}
		exported, err := s.file.Exported()
		if err != nil {
			s.Fatal(err)
		}
		for _, source := range s.code.Sources {
			first, _, err := s.file.Symbol(source.First)
			if err != nil {
				s.Fatal(err)
			}
			last, _, err := s.file.Symbol(source.Last)
			if err != nil {
				s.Fatal(err)
			}
			// Functions of the file that are not exported are also before the first exported one.
			before := slices.DeleteFunc(slices.Clone(exported), func(e usdt.ExportedSymbol) bool { return e.Address >= first })
			first = slices.MaxFunc(before, func(a, b usdt.ExportedSymbol) int { return cmp.Compare(a.Address, b.Address) }).Address
			const headerSize, entrySize, most = 12, 8, 8
			tried, bySize := 0, 0
			for i, a := range starts {
				if a <= first || a >= last || tried == most || slices.ContainsFunc(exported, func(e usdt.ExportedSymbol) bool { return e.Address == a }) ||
					slices.ContainsFunc(s.code.Functions, func(f samecode.Function) bool { return f.Address == a }) {
					continue
				}
				tried++
				at := bytes.Index(s.data, table) + headerSize + i*entrySize
				entry := binary.LittleEndian.Uint32(s.data[at:])
				f, err := usdt.NewFile(bytes.NewReader(s.replaced(uint64(at), binary.LittleEndian.AppendUint32(nil, entry+1))))
				if err != nil {
					s.Fatal(err)
				}
				_, err = samecode.Recognise(f, s.release)
				different := (*samecode.DifferentError)(nil)
				if !errors.As(err, &different) {
					s.Errorf("%s, function at %#x: error %v", source.Name, a, err)
				} else if different.How == "has functions of other sizes" { // of this file, or of the one before
					bySize++
				} // otherwise a function that is compared leads to this one
			}
			if bySize == 0 {
				s.Errorf("%s: none of %d changes of sizes is found", source.Name, tried)
			}
			s.Logf("%s: %d changes, %d of them found by the sizes", source.Name, tried, bySize)
		}
	})
}

// callOf returns the address of a distance to a function, in a function that is not compared.
func (s stock) callOf(segments []usdt.CodeSegment, function uint64) (uint64, bool) {
	for _, segment := range segments {
		for i := 0; i+4 <= len(segment.Bytes); i++ {
			at := segment.Address + uint64(i)
			distance := uint64(int64(int32(binary.LittleEndian.Uint32(segment.Bytes[i:]))))
			if distance == 0 || at+4+distance != function {
				continue
			}
			if !slices.ContainsFunc(s.code.Functions, func(f samecode.Function) bool { return at >= f.Address && at-f.Address < uint64(f.Size) }) {
				return at, true
			}
		}
	}
	return 0, false
}

// Other executables are refused: another release, a VM with probes of the same release, and files
// without what is compared.
func TestOtherExecutables(t *testing.T) {
	for _, release := range vmtest.StockReleases() {
		t.Run(fmt.Sprintf("with probes %d", release), func(t *testing.T) {
			f, err := usdt.Open(vmtest.Release(t, release).Emulator())
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := samecode.Recognise(f, release); !errors.As(err, new(*samecode.DifferentError)) {
				t.Errorf("error %v", err)
			}
		})
	}
	onStock(t, func(s stock) {
		noStarts := bytes.Replace(s.data, []byte(".eh_frame_hdr\x00"), []byte(".eh_frame_hdx\x00"), 1)
		f, err := usdt.NewFile(bytes.NewReader(noStarts))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := samecode.Recognise(f, s.release); !errors.Is(err, usdt.ErrFormat) {
			s.Errorf("without the addresses of functions: error %v", err)
		}
		if f, err = usdt.NewFile(bytes.NewReader(s.data[:len(s.data)/2])); err == nil {
			_, err = samecode.Recognise(f, s.release)
		}
		if !errors.Is(err, usdt.ErrFormat) {
			s.Errorf("half of the file: error %v", err)
		}
	})
}
