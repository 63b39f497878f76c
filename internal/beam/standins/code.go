package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"go/format"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/samecode"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/usdt"
)

// structures returns the exported functions whose code contains the offsets of the members that
// beamscope reads, by structure. Most of them set up the structure, or search for one. A test of package
// procname checks that the offsets are there.
func structures(release int) map[string][]string {
	of := map[string][]string{
		"ErtsCodeInfo_":    {"erts_lookup_function_info", "erts_bp_match_functions"},
		"ErtsPTab":         {"erts_ptab_init_table"},
		"atom":             {"index_put_entry", "erts_atom_put_index", "erts_atom_to_string_length", "atom_to_list_1"},
		"beam_code_header": {"erts_lookup_function_info"},
		"erl_mesg":         {"erts_queue_message"},
		"index_table":      {"index_put_entry", "erts_index_init"},
		"proc_dict":        {"erts_pd_hash_get", "put_2", "erts_erase_dicts"},
		"process":          {"erl_create_process", "erts_do_exit_process", "erts_proc_sig_queue_maybe_install_buffers"},
		"ranges":           {"erts_update_ranges", "erts_lookup_function_info"},
		"reg_proc":         {"erts_register_name", "erts_unregister_name"},
	}
	if release >= 27 {
		of["ErtsNonMsgSignal"] = []string{"erts_proc_sig_fetch__"}
	}
	return of
}

// A tracer collects what the knowledge of a build rests on.
type tracer struct {
	segments []usdt.CodeSegment
	sizes    map[uint64]int  // of functions and parts of them, by address
	exported map[uint64]bool // addresses of exported symbols
	code     samecode.Code
	targets  [][]reference
}

// A reference is a distance in a function.
type reference struct {
	field  uint32 // see [samecode.Function]
	target uint64
	jump   bool // the instruction is a jump
}

// trace returns the code of a build.
func trace(f *usdt.File, known build) (samecode.Code, error) {
	t := tracer{exported: make(map[uint64]bool), code: samecode.Code{ID: known.id, Machine: f.Machine()}}
	var err error
	if t.segments, err = f.CodeSegments(); err != nil {
		return samecode.Code{}, err
	}
	if t.sizes, err = sizesIn(f); err != nil {
		return samecode.Code{}, err
	}
	exported, err := f.Exported()
	if err != nil {
		return samecode.Code{}, err
	}
	for _, s := range exported {
		t.exported[s.Address] = true
	}
	called := make(map[int]bool)
	for _, p := range known.places {
		i, err := t.addPlace(f, p)
		if err != nil {
			return samecode.Code{}, fmt.Errorf("%s: %w", p.probe, err)
		}
		t.code.Functions[i].Name = p.function
		called[i] = true
	}
	all := structures(known.release)
	for _, of := range slices.Sorted(maps.Keys(all)) {
		for _, name := range all[of] {
			i, err := t.addSymbol(f, name, name)
			if err != nil {
				return samecode.Code{}, fmt.Errorf("%s: %w", of, err)
			}
			t.code.Functions[i].Shows = append(t.code.Functions[i].Shows, of)
		}
	}
	if err := t.addRanges(f); err != nil {
		return samecode.Code{}, err
	}
	if err := t.addSources(f, called); err != nil {
		return samecode.Code{}, err
	}
	return t.code, t.code.Measure(f, called)
}

// addSources adds the source files of functions. The debugging information of our own VM of the same
// version has them. Its functions are in the same order.
func (t *tracer) addSources(f *usdt.File, functions map[int]bool) error {
	release, err := erlang.FindRelease(context.Background(), vm.ReleaseOf(f.Path()))
	if err != nil {
		return err
	}
	files, err := sourcesIn(release.Emulator())
	if err != nil {
		return err
	}
	exported, err := f.Exported()
	if err != nil {
		return err
	}
	for _, i := range slices.Sorted(maps.Keys(functions)) {
		for t.code.Functions[i].Symbol == "" {
			i = t.code.Functions[i].From
		}
		name := files[t.code.Functions[i].Symbol]
		if name == "" {
			return fmt.Errorf("the source file of %s is not known", t.code.Functions[i].Name)
		}
		s := samecode.Source{Name: name}
		var first, last uint64
		for _, e := range exported {
			_, begins := t.sizes[e.Address]
			if files[e.Name] != name || !begins {
				continue
			}
			if s.First == "" || e.Address < first {
				s.First, first = e.Name, e.Address
			}
			if s.Last == "" || e.Address > last {
				s.Last, last = e.Name, e.Address
			}
		}
		if !slices.ContainsFunc(t.code.Sources, func(old samecode.Source) bool { return old.Name == name }) {
			t.code.Sources = append(t.code.Sources, s)
		}
	}
	return nil
}

// sourcesIn returns the names of the source files of an executable's functions. It leaves out
// functions that the compiler has put elsewhere, such as those that seldom run.
func sourcesIn(path string) (map[string]string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := file.DWARF()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	symbols, err := file.Symbols()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	files := make(map[string]string)
	for r := data.Reader(); ; r.SkipChildren() {
		unit, err := r.Next()
		if err != nil || unit == nil {
			return files, err
		}
		name, _ := unit.Val(dwarf.AttrName).(string)
		ranges, err := data.Ranges(unit)
		if err != nil {
			return nil, err
		}
		var largest [2]uint64 // the others have what the compiler has put elsewhere
		for _, part := range ranges {
			if part[1]-part[0] > largest[1]-largest[0] {
				largest = part
			}
		}
		for _, s := range symbols {
			if s.Value >= largest[0] && s.Value < largest[1] && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
				files[s.Name] = filepath.Base(name)
			}
		}
	}
}

// addPlace adds the function of a place, and the one that leads to it.
func (t *tracer) addPlace(f *usdt.File, p place) (int, error) {
	from, err := t.addSymbol(f, p.at.symbol, p.at.symbol)
	if err != nil || p.at.jump < 0 {
		return from, err
	}
	return t.addTarget(from, p.at.jump+1, p.function)
}

// addRanges adds the functions that lead to the static variable r of beam_ranges.c, see
// TestKnownBuilds of package procname.
func (t *tracer) addRanges(f *usdt.File) error {
	const name, firstCall, load = "erts_lookup_function_info", 0x20, 7
	from, err := t.addSymbol(f, name, name)
	if err != nil {
		return err
	}
	find, err := t.addTarget(from, firstCall+1, "find_range")
	if err != nil {
		return err
	}
	field, err := t.fieldAt(find, load+3)
	t.code.Variables = append(t.code.Variables, samecode.Variable{Name: "r", Function: find, Field: field})
	return err
}

// addSymbol adds an exported function.
func (t *tracer) addSymbol(f *usdt.File, symbol, name string) (int, error) {
	address, _, err := f.Symbol(symbol)
	if err != nil {
		return 0, err
	}
	return t.add(samecode.Function{Name: name, Symbol: symbol, Address: address})
}

// addTarget adds the function to which the distance at an offset of a function leads.
func (t *tracer) addTarget(from, offset int, name string) (int, error) {
	field, err := t.fieldAt(from, offset)
	if err != nil {
		return 0, err
	}
	return t.add(samecode.Function{Name: name, From: from, Field: field, Address: t.targets[from][field].target})
}

// fieldAt returns the number of the distance at an offset of a function.
func (t *tracer) fieldAt(function, offset int) (int, error) {
	i := slices.IndexFunc(t.targets[function], func(r reference) bool { return int(r.field>>3) == offset })
	if i < 0 {
		return 0, fmt.Errorf("%s has no distance at %#x", t.code.Functions[function].Name, offset)
	}
	return i, nil
}

// add adds a function with the parts of it that the compiler has moved elsewhere. Jumps lead to these.
func (t *tracer) add(fn samecode.Function) (int, error) {
	if i := slices.IndexFunc(t.code.Functions, func(f samecode.Function) bool { return f.Address == fn.Address }); i >= 0 {
		return i, nil
	}
	size, ok := t.sizes[fn.Address]
	if !ok {
		return 0, fmt.Errorf("no function begins at %#x", fn.Address)
	}
	fn.Size = size
	references, err := t.decode(fn.Address, size)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", fn.Name, err)
	}
	for _, r := range references {
		fn.Fields = append(fn.Fields, r.field)
	}
	t.code.Functions, t.targets = append(t.code.Functions, fn), append(t.targets, references)
	number := len(t.targets) - 1
	for i, r := range references {
		start, ok := t.start(r.target)
		if !r.jump || !ok || t.exported[start] {
			continue
		}
		part := samecode.Function{Name: fn.Name, From: number, Field: i, Into: int(r.target - start), Address: start}
		if _, err := t.add(part); err != nil {
			return 0, err
		}
	}
	return number, nil
}

// start returns where the function with an address begins.
func (t *tracer) start(address uint64) (uint64, bool) {
	for start, size := range t.sizes {
		if address >= start && address-start < uint64(size) {
			return start, true
		}
	}
	return 0, false
}

// decode returns the distances in a function that lead out of it.
func (t *tracer) decode(address uint64, size int) ([]reference, error) {
	i := slices.IndexFunc(t.segments, func(s usdt.CodeSegment) bool {
		return address >= s.Address && address-s.Address < uint64(len(s.Bytes))
	})
	if i < 0 {
		return nil, fmt.Errorf("there is no code at %#x", address)
	}
	code := t.segments[i].Bytes[address-t.segments[i].Address:][:size]
	var found []reference
	for at := 0; at < size; {
		in, err := x86asm.Decode(code[at:], 64)
		if err != nil {
			return nil, fmt.Errorf("%x at %#x: %w", code[at:min(at+16, size)], address+uint64(at), err)
		}
		if in.PCRel == 4 {
			field := at + in.PCRelOff
			end := at + in.Len
			target := address + uint64(end) + uint64(int64(int32(binary.LittleEndian.Uint32(code[field:]))))
			if target < address || target-address >= uint64(size) {
				_, branch := in.Args[0].(x86asm.Rel)
				found = append(found, reference{
					field: uint32(field)<<3 | uint32(end-field-4), target: target, jump: branch && in.Op != x86asm.CALL,
				})
			}
		}
		at += in.Len
	}
	return found, nil
}

// sizesIn returns the sizes of functions and parts of them by address, from the data for unwinding.
func sizesIn(f *usdt.File) (map[uint64]int, error) {
	file, err := elf.Open(f.Path())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	header, frames := file.Section(".eh_frame_hdr"), file.Section(".eh_frame")
	if header == nil || frames == nil {
		return nil, fmt.Errorf("%s has no data for unwinding", f.Name())
	}
	table, err := header.Data()
	if err != nil {
		return nil, err
	}
	data, err := frames.Data()
	if err != nil {
		return nil, err
	}
	starts, err := f.FunctionStarts()
	if err != nil {
		return nil, err
	}
	sizes := make(map[uint64]int)
	for i, start := range starts {
		le := binary.LittleEndian
		at := header.Addr + uint64(int64(int32(le.Uint32(table[12+8*i+4:])))) - frames.Addr
		sizes[start] = int(le.Uint32(data[at+12:])) // after its length, a pointer and the address
	}
	return sizes, nil
}

// writeCodes writes the table of package samecode. It has the builds for x86-64 among the
// executables, and keeps the others.
func writeCodes(out string, executables []string) error {
	all := samecode.Codes()
	for _, path := range executables {
		c, err := codeIn(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = slices.DeleteFunc(all, func(old samecode.Code) bool { return old.ID == c.ID })
		if c.Machine == elf.EM_X86_64 {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b samecode.Code) int { return cmp.Compare(a.ID, b.ID) })
	text, err := codeSource(all)
	if err != nil {
		return err
	}
	return os.WriteFile(out, text, 0o644)
}

// codeIn returns the code of the build that an executable is.
func codeIn(path string) (samecode.Code, error) {
	f, err := usdt.Open(path)
	if err != nil {
		return samecode.Code{}, err
	}
	defer f.Close()
	known, err := buildOf(f)
	if err != nil {
		return samecode.Code{}, err
	}
	if f.Machine() != elf.EM_X86_64 {
		return samecode.Code{ID: known.id, Machine: f.Machine()}, nil
	}
	return trace(f, known)
}

// codeSource returns the table of package samecode as a file of Go.
func codeSource(all []samecode.Code) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("// Code generated by go run ./internal/beam/standins; DO NOT EDIT.\n\npackage samecode\n\nimport \"debug/elf\"\n\n")
	b.WriteString("// codes returns the codes that are known.\nfunc codes() []Code {\nreturn []Code{\n")
	for _, c := range all {
		fmt.Fprintf(&b, "{\nID: %q,\nMachine: elf.%s,\nFunctions: []Function{\n", c.ID, c.Machine)
		for _, f := range c.Functions {
			fmt.Fprintf(&b, "{Name: %q", f.Name)
			if f.Symbol != "" {
				fmt.Fprintf(&b, ", Symbol: %q", f.Symbol)
			} else {
				fmt.Fprintf(&b, ", From: %d, Field: %d, Into: %d", f.From, f.Field, f.Into)
			}
			fmt.Fprintf(&b, ", Address: %#x, Size: %d, Digest: %q", f.Address, f.Size, f.Digest)
			if f.Callers != "" {
				fmt.Fprintf(&b, ", Callers: %q", f.Callers)
			}
			if f.Shows != nil {
				fmt.Fprintf(&b, ", Shows: %#v", f.Shows)
			}
			if f.Fields != nil {
				b.WriteString(", Fields: []uint32{")
				for i, field := range f.Fields {
					if i > 0 {
						b.WriteString(", ")
					}
					fmt.Fprintf(&b, "%#x", field)
				}
				b.WriteString("}")
			}
			b.WriteString("},\n")
		}
		b.WriteString("},\nSources: []Source{\n")
		for _, s := range c.Sources {
			fmt.Fprintf(&b, "{Name: %q, First: %q, Last: %q, Sizes: %q},\n", s.Name, s.First, s.Last, s.Sizes)
		}
		b.WriteString("},\nVariables: []Variable{\n")
		for _, v := range c.Variables {
			fmt.Fprintf(&b, "{Name: %q, Function: %d, Field: %d},\n", v.Name, v.Function, v.Field)
		}
		b.WriteString("},\n},\n")
	}
	b.WriteString("}\n}\n")
	return format.Source(b.Bytes())
}
