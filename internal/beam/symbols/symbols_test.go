package symbols_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/beam/symbols"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// fixture is a shared object with symbols and debugging information.
const fixture = "../../../testdata/executables/dwarf5.so"

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// separated returns a stripped executable, open, and the path of the file with the stripped data,
// each in its own folder.
func separated(t *testing.T, buildID bool) (exe *usdt.File, debug string) {
	t.Helper()
	return separatedOf(t, fixture, buildID)
}

func separatedOf(t *testing.T, file string, buildID bool) (exe *usdt.File, debug string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "beam.smp")
	debug = filepath.Join(t.TempDir(), "beam.smp.debug")
	copyTo(t, file, path)
	if !buildID {
		vmtest.NeedProgram(t, "objcopy")
		if out, err := exec.Command("objcopy", "--remove-section=.note.gnu.build-id", path).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	vmtest.Separate(t, path, debug)
	exe, err := usdt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { exe.Close() })
	if exe.HasSymbols() || (exe.BuildID() != "") != buildID {
		t.Fatalf("symbols %v, build ID %q", exe.HasSymbols(), exe.BuildID())
	}
	return exe, debug
}

// found reports whether a store finds symbols of an executable, and checks that they are the
// stripped ones.
func found(t *testing.T, s *symbols.Store, exe *usdt.File) bool {
	t.Helper()
	f, err := s.Find(t.Context(), exe)
	if err != nil {
		return false
	}
	if !f.HasSymbols() || !filepath.IsAbs(f.Name()) {
		t.Errorf("%s has no symbols", f.Name())
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	return true
}

// Symbols are found in a named folder, in each of the places where tools put them.
func TestFolder(t *testing.T) {
	exe, debug := separated(t, true)
	id := exe.BuildID()
	for _, name := range []string{
		filepath.Join(".build-id", id[:2], id[2:]+".debug"),
		filepath.Join(id[:2], id[2:]+".debug"),
		id + ".debug",
		filepath.Join("usr/lib/debug/.build-id", id[:2], id[2:]+".debug"),
		filepath.Join(id, "debuginfo"),
		"beam.smp.debug",
	} {
		dir := t.TempDir()
		if found(t, symbols.New(dir), exe) {
			t.Fatal("found in an empty folder")
		}
		copyTo(t, debug, filepath.Join(dir, name))
		if !found(t, symbols.New(t.TempDir(), dir), exe) {
			t.Errorf("%s is not found", name)
		}
	}
	if found(t, nil, exe) || found(t, symbols.New("/no/such/folder"), exe) {
		t.Error("found nowhere")
	}
}

// Find accepts only a file of the same build, which the checksum determines if the executable has
// no build ID.
func TestOtherBuild(t *testing.T) {
	for _, buildID := range []bool{true, false} {
		exe, debug := separated(t, buildID)
		store := symbols.New(filepath.Dir(debug))
		if !found(t, store, exe) {
			t.Errorf("build ID %v: not found", buildID)
		}
		if buildID {
			copyTo(t, "../../../testdata/executables/clang.so", debug)
		} else {
			file, err := os.OpenFile(debug, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := file.Write([]byte{0}); err != nil {
				t.Fatal(err)
			}
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if found(t, store, exe) {
			t.Errorf("build ID %v: found in a file of another build", buildID)
		}
	}
}

// Beside the executable, Find looks for the name in .gnu_debuglink.
func TestBesideExecutable(t *testing.T) {
	exe, debug := separated(t, true)
	dir := filepath.Dir(exe.Name())
	for _, name := range []string{"beam.smp.debug", ".debug/beam.smp.debug"} {
		path := filepath.Join(dir, name)
		copyTo(t, debug, path)
		if !found(t, nil, exe) {
			t.Errorf("%s is not found", name)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// A process chooses the name of its executable: in a mount namespace of its own, a user can show the file
// anywhere. So the folder of that name counts only if the executable is there for beamscope too.
func TestBesideOtherName(t *testing.T) {
	exe, debug := separated(t, true)
	info, err := exe.Stat()
	if err != nil {
		t.Fatal(err)
	}
	m := usdt.MappedFile{Name: filepath.Join(t.TempDir(), "beam.smp"), Path: exe.Name()}
	m.Device, m.Inode = usdt.Identity(info)
	copyTo(t, debug, filepath.Join(filepath.Dir(m.Name), "beam.smp.debug"))
	shown, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer shown.Close()
	if found(t, nil, shown) {
		t.Error("found, and nothing is there")
	}
	copyTo(t, exe.Name(), m.Name)
	if found(t, nil, shown) {
		t.Error("found, and another file is there")
	}
	if err := errors.Join(os.Remove(m.Name), os.Link(exe.Name(), m.Name)); err != nil {
		t.Fatal(err)
	}
	if !found(t, nil, shown) {
		t.Error("not found, and the executable is there")
	}
}

// besideIn puts an executable and the file of its symbols into a folder, changes that, and reports whether the
// file is found.
func besideIn(t *testing.T, dir string, change func(exe, debug string) error) bool {
	t.Helper()
	stripped, symbols := separated(t, true)
	path, file := filepath.Join(dir, "beam.smp"), filepath.Join(dir, "beam.smp.debug")
	copyTo(t, stripped.Name(), path)
	copyTo(t, symbols, file)
	if err := change(path, file); err != nil {
		t.Fatal(err)
	}
	exe, err := usdt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	return found(t, nil, exe)
}

// Beside the executable, a file counts only if others can neither write to it nor replace it. Links do not count.
func TestBesideUntrusted(t *testing.T) {
	for name, test := range map[string]struct {
		change func(dir, debug string) error
		want   bool
	}{
		"unchanged":                  {func(_, _ string) error { return nil }, true},
		"others write to the folder": {func(dir, _ string) error { return os.Chmod(dir, 0o757) }, false},
		"the group, to the folder":   {func(dir, _ string) error { return os.Chmod(dir, 0o775) }, false},
		"all to one such as /tmp":    {func(dir, _ string) error { return os.Chmod(dir, 0o777|os.ModeSticky) }, false},
		"others write to the file":   {func(_, debug string) error { return os.Chmod(debug, 0o646) }, false},
		"the group, to the file":     {func(_, debug string) error { return os.Chmod(debug, 0o664) }, false},
		"a link": {func(_, debug string) error {
			return errors.Join(os.Rename(debug, debug+".2"), os.Symlink(debug+".2", debug))
		}, false},
		"a link to the folder": {func(dir, debug string) error {
			sub := filepath.Join(dir, "sub")
			return errors.Join(os.Mkdir(sub, 0o755), os.Rename(debug, filepath.Join(sub, "beam.smp.debug")), os.Symlink(sub, filepath.Join(dir, ".debug")))
		}, false},
		"a pipe": {func(_, debug string) error { return errors.Join(os.Remove(debug), unix.Mkfifo(debug, 0o644)) }, false},
	} {
		if got := besideIn(t, t.TempDir(), func(exe, debug string) error { return test.change(filepath.Dir(exe), debug) }); got != test.want {
			t.Errorf("%s: found %v", name, got)
		}
	}
}

// Beside the executable, a file of another user does not count, nor one in another user's folder, even if the
// executable belongs to that user.
func TestBesideOfOtherUser(t *testing.T) {
	for name, test := range map[string]struct {
		give func(dir, exe, debug string) []string
		want bool
	}{
		"the executable": {func(_, exe, _ string) []string { return []string{exe} }, true},
		"the folder":     {func(dir, _, _ string) []string { return []string{dir} }, false},
		"the file":       {func(_, exe, debug string) []string { return []string{exe, debug} }, false},
	} {
		dir := otheruser.Dir(t)
		got := besideIn(t, dir, func(exe, debug string) error {
			if err := os.Chown(dir, 0, 0); err != nil {
				return err
			}
			otheruser.Give(t, test.give(dir, exe, debug)...)
			return nil
		})
		if got != test.want {
			t.Errorf("%s of another user: found %v", name, got)
		}
	}
}

// Links may lead to files within the folder only. Files that are not regular are refused without
// blocking.
func TestLinks(t *testing.T) {
	exe, debug := separated(t, true)
	dir := t.TempDir()
	path := filepath.Join(dir, "beam.smp.debug")
	inside := filepath.Join(dir, "sub", "file")
	copyTo(t, debug, inside)
	for name, test := range map[string]struct {
		make func() error
		want bool
	}{
		"a link within":         {func() error { return os.Symlink("sub/file", path) }, true},
		"a link out":            {func() error { return os.Symlink(debug, path) }, false},
		"a link up and out":     {func() error { return os.Symlink("../../../../../../.."+debug, path) }, false},
		"a link to this folder": {func() error { return os.Symlink(inside, path) }, false},
		"a link to itself":      {func() error { return os.Symlink(path, path) }, false},
		"a pipe":                {func() error { return unix.Mkfifo(path, 0o644) }, false},
		"a folder":              {func() error { return os.Mkdir(path, 0o755) }, false},
		"nothing in it":         {func() error { return os.WriteFile(path, nil, 0o644) }, false},
	} {
		if err := test.make(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := found(t, symbols.New(dir), exe); got != test.want {
			t.Errorf("%s: found %v", name, got)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// Symbols of a user who is neither root nor the executable's owner are refused.
func TestOtherUser(t *testing.T) {
	exe, debug := separated(t, true)
	dir := otheruser.Dir(t)
	path := filepath.Join(dir, "beam.smp.debug")
	copyTo(t, debug, path)
	store := symbols.New(dir)
	if !found(t, store, exe) {
		t.Fatal("not found")
	}
	otheruser.Give(t, path)
	if found(t, store, exe) {
		t.Error("another user's file is taken")
	}
	otheruser.Give(t, exe.Name())
	if !found(t, store, exe) {
		t.Error("a file of the executable's owner is not taken")
	}
}

// With the symbols of another file, stripped functions are found, and exported functions are found
// as before.
func TestUseSymbols(t *testing.T) {
	whole, err := usdt.Open(fixture)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	exe, debug := separated(t, true)
	const hidden = "erts_proc" // a variable of the fixture
	want, err := whole.Variable(hidden)
	if err != nil {
		t.Fatal(err)
	}
	f, err := usdt.Open(debug)
	if err != nil {
		t.Fatal(err)
	}
	exe.UseSymbols(f)
	if got, err := exe.Variable(hidden); err != nil || got != want {
		t.Errorf("%#x, %v; want %#x", got, err, want)
	}
	if !exe.AllSymbols() || exe.HasSymbols() || exe.SymbolsFrom() != debug {
		t.Errorf("all %v, own %v, from %q", exe.AllSymbols(), exe.HasSymbols(), exe.SymbolsFrom())
	}
}

// The place of a function in another file counts only if the function begins there. A breakpoint anywhere else
// would crash the process.
func TestMovedFunction(t *testing.T) {
	const exported, function = "taken", "hidden" // the fixture exports all of its functions
	path, debug := filepath.Join(t.TempDir(), "beam.smp"), filepath.Join(t.TempDir(), "beam.smp.debug")
	copyTo(t, "../../../testdata/executables/variables5.so", path)
	whole, err := usdt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := whole.Symbol(exported)
	if err := errors.Join(err, whole.Close()); err != nil {
		t.Fatal(err)
	}
	vmtest.Separate(t, path, debug)
	if out, err := exec.Command("objcopy", "--redefine-sym", exported+"="+function, debug).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for by, ok := range map[int64]bool{0: true, 1: false, 3: false, -1: false, 1 << 40: false} {
		moved := filepath.Join(t.TempDir(), "moved.debug")
		copyTo(t, debug, moved)
		move(t, moved, function, by)
		exe, err := usdt.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := usdt.Open(moved)
		if err != nil {
			t.Fatal(err)
		}
		exe.UseSymbols(f)
		got, _, err := exe.Symbol(function)
		if ok && (got != want || err != nil) || !ok && !errors.Is(err, usdt.ErrNoSymbol) {
			t.Errorf("moved by %d: %#x, %v; it is at %#x", by, got, err, want)
		}
		if err := exe.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// move changes the address of a symbol in a file.
func move(t *testing.T, path, name string, by int64) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	all, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(s elf.Symbol) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("%s has no symbol %q", path, name)
	}
	const entry, value = 24, 8 // sizes of an entry, and of what is before the address; all omits the first entry
	at := int(f.SectionByType(elf.SHT_SYMTAB).Offset) + (i+1)*entry + value
	binary.LittleEndian.PutUint64(data[at:], uint64(int64(all[i].Value)+by))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The error names each file at the right place that is not the wanted one, and says why.
func TestRefusedFiles(t *testing.T) {
	exe, debug := separated(t, true)
	place := filepath.Join(t.TempDir(), "beam.smp.debug")
	store := symbols.New(filepath.Dir(place))
	for _, test := range []struct{ content, says string }{
		{"", ""},
		{"../../../testdata/executables/clang.so", place + ": it is of another build"},
		{"/dev/null", place + ": ELF header"},
		{"symbols_test.go", place + ": malformed"},
	} {
		if test.content != "" {
			copyTo(t, test.content, place)
		}
		_, err := store.Find(t.Context(), exe)
		if !errors.Is(err, symbols.ErrNone) || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), ";") != (test.says != "") {
			t.Errorf("%s: %v, want %s", test.content, err, test.says)
		}
	}
	copyTo(t, debug, place)
	if !found(t, store, exe) {
		t.Error("the right file is not found")
	}
}

// A file that has the build ID of the executable and other places of its functions is refused.
func TestShiftedFunctions(t *testing.T) {
	for _, buildID := range []bool{true, false} {
		exe, debug := separatedOf(t, "../../../testdata/executables/variables5.so", buildID)
		store := symbols.New(filepath.Dir(debug))
		if !found(t, store, exe) {
			t.Fatal("not found")
		}
		shiftFunctions(t, debug, 6)
		if _, err := store.Find(t.Context(), exe); !errors.Is(err, symbols.ErrNone) || buildID != strings.Contains(err.Error(), "functions are where the executable has none") {
			t.Errorf("build ID %v: error %v", buildID, err)
		}
	}
}

// shiftFunctions moves all functions in the table of symbols of a file.
func shiftFunctions(t *testing.T, path string, by uint64) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table := f.SectionByType(elf.SHT_SYMTAB)
	data, err := table.Data()
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(data); at += elf.Sym64Size {
		if symbol := data[at:]; elf.ST_TYPE(symbol[4]) == elf.STT_FUNC {
			binary.LittleEndian.PutUint64(symbol[8:], binary.LittleEndian.Uint64(symbol[8:])+by)
		}
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt(data, int64(table.Offset))
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}
