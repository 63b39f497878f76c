package procname

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/usdt"
)

// offsets returns what the compiler itself says about a fixture's layout, in the order
// of layout.members.
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

// A layout is as the compiler says, whatever compiler, version and compression.
func TestReadLayout(t *testing.T) {
	for _, name := range []string{"dwarf5.so", "dwarf4-compressed.so", "clang.so", "dwarf5.debug"} {
		l, err := readLayout(filepath.Join("testdata", name))
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
		if diff := cmp.Diff(offsets(t, strings.Replace(filepath.Join("testdata", name), ".debug", ".so", 1)), got); diff != "" {
			t.Errorf("%s: (-compiler +read)\n%s", name, diff)
		}
	}
}

// What is missing is named.
func TestReadLayoutRefused(t *testing.T) {
	for name, want := range map[string]string{
		"stripped.so":   "no debugging information",
		"missing.so":    "does not tell of atom.name",
		"other-size.so": "does not tell of proc_dict.data: it has 2 bytes, not 8",
		"structures.c":  "bad magic number",
		"nothing":       "no such file",
	} {
		_, err := readLayout(filepath.Join("testdata", name))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
	if _, err := readLayout(filepath.Join("testdata", "stripped.so")); !errors.Is(err, errNoDebugInfo) {
		t.Errorf("stripped: error %v", err)
	}
}

// The layout of an executable has the addresses of its tables, is read once, and where
// there is none the error names the executable.
func TestLayoutOfExecutable(t *testing.T) {
	var layouts Layouts
	of := func(name string) (layout, error) {
		path := filepath.Join("testdata", name)
		f, err := usdt.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return layouts.of(usdt.Process{PID: os.Getpid()}, usdt.MappedFile{Path: path, Name: "/usr/bin/" + name}, f)
	}
	l, err := of("dwarf5.so")
	if err != nil || l.procs == 0 || l.allAtoms == 0 || l.procs == l.allAtoms {
		t.Errorf("%+v, error %v", l, err)
	}
	if apart, err := separateLayout("testdata/dwarf5.debug"); err != nil || apart != l {
		t.Errorf("kept apart: %+v, error %v", apart, err)
	}
	if again, err := of("dwarf5.so"); err != nil || again != l || len(layouts.known) != 1 {
		t.Errorf("again: %+v, error %v, %d known", again, err, len(layouts.known))
	}
	if _, err := of("stripped.so"); !errors.Is(err, ErrNoLayout) || !strings.Contains(err.Error(), "/usr/bin/stripped.so has been stripped") {
		t.Errorf("stripped: error %v", err)
	}
	if _, err := of("missing.so"); !errors.Is(err, ErrNoLayout) {
		t.Errorf("of another kind: error %v", err)
	}
}

// Debugging information that is kept apart is found by the build ID, and is of the
// same build.
func TestDebugFile(t *testing.T) {
	data, err := os.ReadFile("testdata/dwarf5.debug")
	if err != nil {
		t.Fatal(err)
	}
	f, err := usdt.Open("testdata/dwarf5.so")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	id := f.BuildID()
	empty, root := t.TempDir(), t.TempDir()
	for _, other := range []string{id, "0123456789"} {
		path := filepath.Join(root, debugRoot, other[:2], other[2:]+".debug")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := filepath.Join(root, debugRoot, id[:2], id[2:]+".debug")
	if path, ok := debugFile(id, empty, root); !ok || path != want {
		t.Errorf("%s, %v", path, ok)
	}
	for _, id := range []string{"", "01", "0123456789", "9876543210"} {
		if path, ok := debugFile(id, empty, root); ok {
			t.Errorf("build ID %q: %s", id, path)
		}
	}
}

// FuzzReadLayout reads damaged files: the input replaces a part of a fixture.
func FuzzReadLayout(f *testing.F) {
	fixture, err := os.ReadFile("testdata/dwarf5.so")
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
		l, err := readLayout(path)
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
