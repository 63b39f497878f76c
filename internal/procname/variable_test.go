package procname

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/usdt"
)

func messagesIn(t testing.TB, path string) (map[uint64]usdt.Arg, *usdt.File, error) {
	t.Helper()
	f, err := usdt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	at, err := findMessages(path, f)
	return at, f, err
}

// Variables are found where the compiler put them by its own account: the fixture's probes
// have them for an argument.
func TestFindMessages(t *testing.T) {
	for _, name := range []string{"variables5.so", "variables4.so"} {
		got, f, err := messagesIn(t, filepath.Join("testdata", name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		probes, err := f.Probes("erlang")
		if err != nil {
			t.Fatal(err)
		}
		want := make(map[uint64]usdt.Arg)
		for _, p := range probes {
			for _, s := range p.Sites {
				want[s.Address] = s.Args[0]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) != 2 {
			t.Errorf("%s: -compiler +found\n%s", name, diff)
		}
	}
}

// Where a variable is in no register, or nothing tells, there is an error.
func TestFindMessagesRefused(t *testing.T) {
	for name, want := range map[string]error{
		"variables-gone.so":     errVariable,
		"variables-stripped.so": errNoDebugInfo,
	} {
		if _, _, err := messagesIn(t, filepath.Join("testdata", name)); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", name, err, want)
		}
	}
}

// Layouts remember what they found, and say of which executable nothing is known.
func TestMessagesOfExecutable(t *testing.T) {
	var layouts Layouts
	of := func(name string) (map[uint64]usdt.Arg, error) {
		return layouts.Messages(usdt.Process{PID: os.Getpid()}, usdt.MappedFile{Path: filepath.Join("testdata", name), Name: name})
	}
	first, err := of("variables5.so")
	if err != nil || len(first) != 2 {
		t.Fatalf("%v, error %v", first, err)
	}
	again, err := of("variables5.so")
	if diff := cmp.Diff(first, again, cmpopts.EquateEmpty()); err != nil || diff != "" || len(layouts.known) != 1 {
		t.Errorf("again: %s, error %v, %d known", diff, err, len(layouts.known))
	}
	if _, err := of("variables-stripped.so"); !errors.Is(err, ErrNoLayout) {
		t.Errorf("stripped: error %v", err)
	}
}

// Damaged debugging information has an error, or a register; it does not hang and does not
// panic.
func TestFindMessagesDamaged(t *testing.T) {
	data, err := os.ReadFile("testdata/variables5.so")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "damaged.so")
	f, err := usdt.Open("testdata/variables5.so")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rapid.Check(t, func(t *rapid.T) {
		damaged := append([]byte(nil), data...)
		for range rapid.IntRange(1, 20).Draw(t, "bytes") {
			damaged[rapid.IntRange(0, len(data)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if at, err := findMessages(path, f); err == nil && len(at) != 2 {
			t.Errorf("%v, and no error", at)
		}
	})
}

// Lists of locations are read to their end at most.
func FuzzLocations(f *testing.F) {
	f.Add([]byte{baseAddress, 0, 1, 0, 0, 0, 0, 0, 0, offsetPair, 0, 16, 1, 0x5f, endOfList}, uint64(0x108), true)
	f.Add([]byte{startOfLength, 0, 1, 0, 0, 0, 0, 0, 0, 16, 1, 0x53}, uint64(0x108), true)
	f.Add([]byte{anywhere, 2, 0x70, 0}, uint64(7), true)
	f.Add([]byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0x50, 0, 0, 0, 0, 0, 0, 0, 0}, uint64(0x180), false)
	f.Fuzz(func(t *testing.T, section []byte, pc uint64, five bool) {
		l, next := list{order: binary.LittleEndian, pc: pc}, (*list).next4
		if five {
			next = (*list).next5
		}
		n, err := l.find(section, 0, next)
		if err == nil && n > 31 {
			t.Errorf("register %d", n)
		}
		if err != nil && !errors.Is(err, errVariable) {
			t.Errorf("error %v", err)
		}
	})
}
