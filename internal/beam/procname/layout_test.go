package procname

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/beam/debuginfo"
	"github.com/beamscope/beamscope/usdt"
)

// offsets returns the offsets in a fixture according to the compiler, in the order of
// layout.members.
func offsets(t *testing.T, path string) []uint64 {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name != "offsets" {
			continue
		}
		data := make([]byte, s.Size)
		if _, err := f.Section(".rodata").ReadAt(data, int64(s.Value-f.Section(".rodata").Addr)); err != nil {
			t.Fatal(err)
		}
		all := make([]uint64, s.Size/wordSize)
		for i := range all {
			all[i] = binary.LittleEndian.Uint64(data[i*wordSize:])
		}
		return all
	}
	t.Fatal("no offsets")
	return nil
}

// read reads the layout from a file.
func read(t testing.TB, path string) (layout, error) {
	f, err := usdt.Open(path)
	if err != nil {
		return layout{}, err
	}
	defer f.Close()
	return readLayout(t.Context(), f)
}

// A layout agrees with the compiler, for each compiler, DWARF version and compression.
func TestReadLayout(t *testing.T) {
	for _, name := range []string{"dwarf5.so", "dwarf4-compressed.so", "dwarf5-zstd.so", "clang.so", "dwarf5.debug"} {
		l, err := read(t, filepath.Join("../../../testdata/executables", name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []uint64
		for _, m := range l.members() {
			got = append(got, *m.offset)
			if m.end != nil && *m.end < *m.offset+m.size {
				t.Errorf("%s: %s.%s ends at %d, and %d bytes are read", name, m.of, m.path, *m.offset+m.size, *m.end)
			}
		}
		if diff := cmp.Diff(offsets(t, strings.Replace(filepath.Join("../../../testdata/executables", name), ".debug", ".so", 1)), got); diff != "" {
			t.Errorf("%s: (-compiler +read)\n%s", name, diff)
		}
	}
}

// The error names what is missing.
func TestReadLayoutRefused(t *testing.T) {
	for name, want := range map[string]string{
		"stripped.so":   "no debugging information",
		"missing.so":    "does not tell of atom.name",
		"other-size.so": "does not tell of proc_dict.data: it has 2 bytes, not 8",
		"structures.c":  "no ELF magic number",
		"nothing":       "no such file",
	} {
		_, err := read(t, filepath.Join("../../../testdata/executables", name))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
	if _, err := read(t, filepath.Join("../../../testdata/executables", "stripped.so")); !errors.Is(err, debuginfo.ErrNone) {
		t.Errorf("stripped: error %v", err)
	}
}

// The layout of an executable has the addresses of its tables, and is read once. If there is none,
// the error names the executable.
func TestLayoutOfExecutable(t *testing.T) {
	var layouts Layouts
	self, err := usdt.OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string) (layout, error) {
		path := filepath.Join("../../../testdata/executables", name)
		f, err := usdt.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return layouts.of(t.Context(), self, f)
	}
	l, err := of("dwarf5.so")
	if err != nil || l.procs == 0 || l.allAtoms == 0 || l.procs == l.allAtoms {
		t.Errorf("%+v, error %v", l, err)
	}
	apart, err := usdt.Open("../../../testdata/executables/dwarf5.debug")
	if err != nil {
		t.Fatal(err)
	}
	defer apart.Close()
	if again, err := layoutOf(t.Context(), nil, apart); err != nil || !sameLayout(again, l) {
		t.Errorf("kept apart: %+v, error %v", again, err)
	}
	if again, err := of("dwarf5.so"); err != nil || again != l || len(layouts.known) != 1 {
		t.Errorf("again: %+v, error %v, %d known", again, err, len(layouts.known))
	}
	if _, err := of("stripped.so"); !errors.Is(err, ErrNoLayout) || !strings.Contains(err.Error(), "testdata/executables/stripped.so: it has been stripped") {
		t.Errorf("stripped: error %v", err)
	}
	if _, err := of("missing.so"); !errors.Is(err, ErrNoLayout) {
		t.Errorf("of another kind: error %v", err)
	}
}

// sameLayout reports whether two layouts are equal, with the texts of their errors.
func sameLayout(a, b layout) bool {
	if fmt.Sprint(a.noFigures, a.noCode) != fmt.Sprint(b.noFigures, b.noCode) {
		return false
	}
	a.noFigures, a.noCode = b.noFigures, b.noCode
	return a == b
}

// FuzzReadLayout reads damaged files: the input replaces a part of a fixture.
func FuzzReadLayout(f *testing.F) {
	fixture, err := os.ReadFile("../../../testdata/executables/dwarf5.so")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint16(0), []byte{})
	f.Add(uint16(0x1100), []byte{0xff, 0xff, 0xff, 0xff})
	path := filepath.Join(f.TempDir(), "damaged")
	f.Fuzz(func(t *testing.T, at uint16, part []byte) {
		data := append([]byte(nil), fixture...)
		copy(data[int(at)%len(data):], part)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := read(t, path)
		if err != nil {
			return
		}
		for _, m := range l.members() {
			if *m.offset+m.size > maxStruct {
				t.Errorf("%s.%s is at %d", m.of, m.path, *m.offset)
			}
		}
	})
}
