package debuginfo_test

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/beamscope/beamscope/internal/beam/debuginfo"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// fixtures returns the paths of files by different compilers, of different DWARF versions and
// compressions.
func fixtures(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("../../../testdata/executables/*.so")
	if err != nil || len(paths) == 0 {
		t.Fatal("no fixtures", err)
	}
	return paths
}

// The offset and size of each structure member equal those that debug/dwarf of the standard library
// reads.
func TestAsTheStandardLibrary(t *testing.T) {
	for _, path := range append(fixtures(t), vmtest.OTP(t).Emulator()) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			want := structures(t, path)
			f, err := usdt.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			data, err := debuginfo.Read(t.Context(), f)
			if errors.Is(err, debuginfo.ErrNone) && want == nil {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for name := range want {
				names = append(names, name)
			}
			found, err := data.Structs(names...)
			if err != nil {
				t.Fatal(err)
			}
			members := 0
			for name, s := range want {
				for _, field := range s.Field {
					if field.Name == "" || field.BitSize > 0 {
						continue
					}
					members++
					offset, size, err := found[name].Member(field.Name, 1<<30)
					if wantSize := sizeOf(field.Type); err != nil || offset != uint64(field.ByteOffset) || size != wantSize {
						t.Errorf("%s.%s: at %d, %d bytes, error %v; want %d, %d", name, field.Name, offset, size, err, field.ByteOffset, wantSize)
					}
				}
			}
			t.Logf("%d members of %d structures", members, len(want))
		})
	}
}

// structures returns the structures that are described at the top level of units: only C units, and
// the first structure of each name.
func structures(t *testing.T, path string) map[string]*dwarf.StructType {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if file.Section(".debug_info") == nil {
		return nil
	}
	data, err := file.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]*dwarf.StructType)
	ofC, r := false, data.Reader()
	for {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			return found
		}
		if e.Tag == dwarf.TagCompileUnit {
			const cPlusPlus14 = 0x21
			language, _ := e.Val(dwarf.AttrLanguage).(int64)
			ofC = language != cPlusPlus14
			continue
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		declaration, _ := e.Val(dwarf.AttrDeclaration).(bool)
		if ofC && found[name] == nil && name != "" && !declaration && (e.Tag == dwarf.TagStructType || e.Tag == dwarf.TagTypedef) {
			typ, err := data.Type(e.Offset)
			if err != nil {
				t.Fatal(err)
			}
			if s, ok := resolved(typ).(*dwarf.StructType); ok && s.Kind == "struct" && len(s.Field) > 0 {
				found[name] = s
			}
		}
		r.SkipChildren()
	}
}

// resolved follows typedefs and qualifiers to the type itself.
func resolved(t dwarf.Type) dwarf.Type {
	for {
		switch x := t.(type) {
		case *dwarf.TypedefType:
			t = x.Type
		case *dwarf.QualType:
			t = x.Type
		default:
			return t
		}
	}
}

// sizeOf returns the size of a type, or the size of an element if it is an array.
func sizeOf(t dwarf.Type) uint64 {
	if array, ok := resolved(t).(*dwarf.ArrayType); ok {
		t = array.Type
	}
	return uint64(t.Size())
}

// FuzzRead reads damaged files: the input replaces a part of a fixture.
func FuzzRead(f *testing.F) {
	var files [][]byte
	for _, path := range fixtures(f) {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		files = append(files, data)
	}
	f.Add(uint8(0), uint16(0), []byte{})
	f.Add(uint8(1), uint16(0x1100), []byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, which uint8, at uint16, part []byte) {
		data := append([]byte(nil), files[int(which)%len(files)]...)
		copy(data[int(at)%len(data):], part)
		file, err := usdt.NewFile(bytes.NewReader(data))
		if err != nil {
			return
		}
		d, err := debuginfo.Read(t.Context(), file)
		if err != nil {
			return
		}
		found, err := d.Structs("process", "ErtsPTab", "proc_dict")
		if err != nil {
			return
		}
		for _, s := range found {
			for _, path := range []string{"r.o.max", "heap", "data"} {
				if offset, _, err := s.Member(path, 2048); err == nil && offset > 2048 {
					t.Errorf("%s is at %d", path, offset)
				}
			}
		}
	})
}
