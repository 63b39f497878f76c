package procname

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/debuginfo"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

var (
	update = flag.Bool("update", false, "write the table of known builds")
	arm64  = flag.String("arm64", "", "executables for arm64: pairs of Debian's own and one with probes of the same release, such as \"a/beam.smp=b/beam.smp\"")
)

// The table of known builds agrees with the debugging information of our own build of the same
// sources. Our build has probes, which add two words to each process. The flag -update writes the
// table.
func TestKnownBuilds(t *testing.T) {
	var all []knownBuild
	for _, release := range vmtest.StockReleases() {
		stock, ours := vmtest.Stock(t, release), vmtest.Release(t, release)
		all = append(all, deriveBuild(t, stock.Emulator(), ours.Emulator()))
	}
	for _, arm := range strings.Fields(*arm64) {
		stock, ours, ok := strings.Cut(arm, "=")
		if !ok {
			t.Fatalf("-arm64: %q is no pair of executables", arm)
		}
		all = append(all, deriveBuild(t, stock, ours))
	}
	// Debian removes packages that have been superseded. The table keeps the addresses of those
	// builds. The structures are those of the other builds of the same version of OTP.
	for _, b := range knownBuilds() {
		if slices.ContainsFunc(all, func(other knownBuild) bool { return other.id == b.id }) {
			continue
		}
		for _, other := range all {
			if upstream(other) == upstream(b) {
				b.structs = other.structs
			}
		}
		all = append(all, b)
	}
	want, err := sourceOf(all)
	if err != nil {
		t.Fatal(err)
	}
	const path = "known_gen.go"
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the debugging information says, error %v; -update writes it", path, err)
	}
}

// upstream returns the distribution of a build, the version of OTP and the architecture, without the
// revision of the package.
func upstream(b knownBuild) string {
	build, _ := dtrace.LookupBuild(b.id)
	version, _, _ := strings.Cut(build.Package, "+dfsg")
	_, architecture, _ := strings.Cut(build.Package, ", erlang-base")
	return version + architecture[strings.LastIndex(architecture, ",")+1:]
}

// Every build with stand-in functions also has names.
func TestKnownBuildsHaveNames(t *testing.T) {
	for _, b := range dtrace.Builds() {
		if !slices.ContainsFunc(knownBuilds(), func(k knownBuild) bool { return k.id == b.ID }) {
			t.Errorf("the places of structures are not known: %s, build ID %s", b.Package, b.ID)
		}
	}
}

// deriveBuild returns the build of an executable from the debugging information of another
// executable, which was built from the same sources with probes.
func deriveBuild(t *testing.T, stock, ours string) knownBuild {
	t.Helper()
	f, err := usdt.Open(stock)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g, err := usdt.Open(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if a, b := version(t, f), version(t, g); a != b {
		t.Fatalf("%s has version %q, %s has %q", stock, a, ours, b)
	}
	data, err := debuginfo.Read(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	structs, err := readStructs(data)
	if err != nil {
		t.Fatal(err)
	}
	structs["process"] = withoutProbes(t, structs["process"])
	var l layout
	if err := l.fill(structs); err != nil {
		t.Fatal(err)
	}
	if err := cmp.Or(l.noFigures, l.noCode); err != nil {
		t.Fatal(err)
	}
	b := knownBuild{id: f.BuildID(), ranges: rangesIn(t, f), structs: make(map[string]knownStruct)}
	for _, m := range slices.Concat(l.members(), l.binaryMembers(), l.figureMembers(), l.codeMembers()) {
		if b.structs[m.of] == nil {
			b.structs[m.of] = make(knownStruct)
		}
		offset, size, err := structs[m.of].Member(m.path, maxStruct)
		if err != nil {
			t.Fatalf("%s.%s: %v", m.of, m.path, err)
		}
		b.structs[m.of][m.path] = knownMember{offset, size}
	}
	return b
}

// version returns the version of the runtime system in an executable.
func version(t *testing.T, f *usdt.File) string {
	t.Helper()
	address, err := f.Variable("etp_erts_version")
	if err != nil {
		t.Fatal(err)
	}
	file, err := elf.Open(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	constants := file.Section(".rodata")
	if constants == nil || address < constants.Addr {
		t.Fatalf("%s has its version at %#x, which is not among its constants", f.Path(), address)
	}
	const longest = 16
	text := make([]byte, longest)
	if _, err := constants.ReadAt(text, int64(address-constants.Addr)); err != nil {
		t.Fatal(err)
	}
	version, _, _ := strings.Cut(string(text), "\x00")
	return version
}

// A smaller structure lacks some bytes of another structure, at an offset.
type smaller struct {
	structure
	from, bytes uint64
}

func (s smaller) Member(path string, limit uint64) (offset, size uint64, err error) {
	offset, size, err = s.structure.Member(path, limit)
	if err == nil && offset >= s.from+s.bytes {
		offset -= s.bytes
	}
	return offset, size, err
}

// withoutProbes returns struct process of a VM without probes: it lacks dt_utag and dt_utag_flags,
// see USE_VM_PROBES in erl_process.h. Both are adjacent words, so the members after them keep their
// alignment.
func withoutProbes(t *testing.T, process structure) structure {
	t.Helper()
	tag, size, err := process.Member("dt_utag", maxStruct)
	if err != nil || size != wordSize {
		t.Fatalf("dt_utag: %d bytes, error %v", size, err)
	}
	flags, size, err := process.Member("dt_utag_flags", maxStruct)
	if err != nil || size != wordSize || flags != tag+wordSize {
		t.Fatalf("dt_utag_flags: %d bytes at %d, dt_utag is at %d, error %v", size, flags, tag, err)
	}
	return smaller{process, tag, 2 * wordSize}
}

// rangesIn returns the address of the static variable r of beam_ranges.c: the first function that
// erts_lookup_function_info calls loads the_active_code_index, then the address of r.
func rangesIn(t *testing.T, f *usdt.File) uint64 {
	t.Helper()
	address, _, err := f.Symbol("erts_lookup_function_info")
	if err != nil {
		t.Fatal(err)
	}
	active, err := f.Variable("the_active_code_index")
	if err != nil {
		t.Fatal(err)
	}
	if f.Machine() == elf.EM_AARCH64 {
		return armRangesIn(t, f, address, active)
	}
	relative := func(address uint64, instruction ...byte) uint64 {
		t.Helper()
		n := len(instruction)
		code, err := f.Code(address, n+4)
		if err != nil || !bytes.Equal(code[:n], instruction) {
			t.Fatalf("%x at %#x, want %x; error %v", code, address, instruction, err)
		}
		return address + uint64(n) + 4 + uint64(int64(int32(binary.LittleEndian.Uint32(code[n:]))))
	}
	const firstCall, load = 0x20, 7
	find := relative(address+firstCall, 0xe8)
	if got := relative(find, 0x44, 0x8b, 0x05); got != active { // mov …(%rip),%r8d
		t.Fatalf("%#x is loaded, the_active_code_index is at %#x", got, active)
	}
	return relative(find+load, 0x4c, 0x8d, 0x0d) // lea …(%rip),%r9
}

// armRangesIn is rangesIn for arm64, where an address takes two instructions.
func armRangesIn(t *testing.T, f *usdt.File, address, active uint64) uint64 {
	t.Helper()
	// instruction returns the instruction at an address. Its bits outside the mask must have the
	// given values.
	instruction := func(address uint64, bits, mask uint32) uint32 {
		t.Helper()
		code, err := f.Code(address, 4)
		if err != nil {
			t.Fatal(err)
		}
		got := binary.LittleEndian.Uint32(code)
		if got&^mask != bits {
			t.Fatalf("%#x at %#x, want %#x but for %#x", got, address, bits, mask)
		}
		return got
	}
	page := func(address uint64) uint64 { // adrp x0: a distance in pages, the lowest two bits first
		i := instruction(address, 0x9000_0000, 0x60ff_ffe0)
		pages := int64(int32(i<<8)>>13)<<2 | int64(i>>29&3)
		return address&^0xfff + uint64(pages<<12)
	}
	scaled := func(i uint32) uint64 { return uint64(i >> 10 & 0xfff) }
	const firstCall = 0x24
	call := instruction(address+firstCall, 0x9400_0000, 0x03ff_ffff)
	find := address + firstCall + uint64(int64(int32(call<<6)>>4))
	slot := page(find+4) + 8*scaled(instruction(find+8, 0xf940_0000, 0x003f_fc00)) // ldr x0, [x0, …]
	if got := relocated(t, f, slot); got != active {
		t.Fatalf("%#x is loaded, the_active_code_index is at %#x", got, active)
	}
	return page(find+16) + scaled(instruction(find+24, 0x9100_0000, 0x003f_fc00)) // add x0, x0, …
}

// relocated returns the address that the loader writes into a word of an executable for arm64.
func relocated(t *testing.T, f *usdt.File, word uint64) uint64 {
	t.Helper()
	const size, limit = 24, 1 << 24 // of Elf64_Rela
	entries, err := f.Section(t.Context(), ".rela.dyn", limit)
	if err != nil {
		t.Fatal(err)
	}
	for entry := range slices.Chunk(entries, size) {
		le := binary.LittleEndian
		if le.Uint64(entry) == word && elf.R_AARCH64(le.Uint64(entry[8:])) == elf.R_AARCH64_RELATIVE {
			return le.Uint64(entry[16:])
		}
	}
	t.Fatalf("the loader writes no address to %#x", word)
	return 0
}

// sourceOf returns the table as Go source.
func sourceOf(all []knownBuild) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("// Code generated by go test ./internal/beam/procname -run TestKnownBuilds -update; DO NOT EDIT.\n\npackage procname\n\n")
	b.WriteString("// knownBuilds returns the builds whose structures are known.\nfunc knownBuilds() []knownBuild {\nreturn []knownBuild{\n")
	for _, build := range all {
		fmt.Fprintf(&b, "{\nid: %q,\nranges: %#x,\nstructs: map[string]knownStruct{\n", build.id, build.ranges)
		for _, name := range slices.Sorted(maps.Keys(build.structs)) {
			fmt.Fprintf(&b, "%q: {\n", name)
			members := build.structs[name]
			for _, path := range slices.SortedFunc(maps.Keys(members), func(a, b string) int {
				return cmp.Or(cmp.Compare(members[a].offset, members[b].offset), cmp.Compare(a, b))
			}) {
				fmt.Fprintf(&b, "%q: {%d, %d},\n", path, members[path].offset, members[path].size)
			}
			b.WriteString("},\n")
		}
		b.WriteString("},\n},\n")
	}
	b.WriteString("}\n}\n")
	return format.Source(b.Bytes())
}

// An executable that has the build ID of a known build but another layout is refused: its first
// process cannot be read.
func TestKnownBuildIsProven(t *testing.T) {
	r := new(Reader)
	if err := r.prove(Name{Registered: "init", Spawned: firstFunction}); err != nil {
		t.Error(err)
	}
	if err := r.prove(Name{Registered: "init", Spawned: "lists:map/2"}); !errors.Is(err, ErrNoLayout) {
		t.Errorf("error %v", err)
	}
}

// onStock runs a test on the distribution's VM of each release for which there is one.
func onStock(t *testing.T, test func(*testing.T, *erlang.VM)) {
	for _, release := range vmtest.StockReleases() {
		t.Run(fmt.Sprintf("stock OTP %d", release), func(t *testing.T) {
			test(t, vmtest.StartOn(t, vmtest.Stock(t, release), erlang.Options{}))
		})
	}
}
