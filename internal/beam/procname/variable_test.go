package procname

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/beam/debuginfo"
	"github.com/beamscope/beamscope/usdt"
)

func messagesIn(t testing.TB, path string) (map[uint64]Message, *usdt.File, error) {
	t.Helper()
	f, err := usdt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	at, err := findMessages(t.Context(), f, f)
	return at, f, err
}

// Variables are found where the compiler put them: the fixture's probes have the variables as
// arguments.
func TestFindMessages(t *testing.T) {
	for _, name := range []string{"variables5.so", "variables4.so", "variables-spilled.so", "variables-framed.so"} {
		got, f, err := messagesIn(t, filepath.Join("../../../testdata/executables", name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		probes, err := f.Probes("erlang")
		if err != nil {
			t.Fatal(err)
		}
		want := make(map[uint64]Message)
		for _, p := range probes {
			for _, s := range p.Sites {
				want[s.Address] = Message{Arg: s.Args[0]}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) != 2 {
			t.Errorf("%s: -compiler +found\n%s", name, diff)
		}
	}
}

// A variable without a place, or without debugging information, is an error.
func TestFindMessagesRefused(t *testing.T) {
	for name, want := range map[string]error{
		"variables-gone.so":     debuginfo.ErrVariable,
		"variables-stripped.so": debuginfo.ErrNone,
	} {
		if _, _, err := messagesIn(t, filepath.Join("../../../testdata/executables", name)); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", name, err, want)
		}
	}
}

// Layouts cache their results, and name the executable in errors.
func TestMessagesOfExecutable(t *testing.T) {
	var layouts Layouts
	self, err := usdt.OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string) (map[uint64]Message, error) {
		f, err := usdt.Open(filepath.Join("../../../testdata/executables", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return layouts.Messages(t.Context(), self, f)
	}
	first, err := of("variables5.so")
	if err != nil || len(first) != 2 {
		t.Fatalf("%v, error %v", first, err)
	}
	again, err := of("variables5.so")
	if diff := cmp.Diff(first, again, cmpopts.EquateEmpty()); err != nil || diff != "" || len(layouts.known) != 1 {
		t.Errorf("again: %s, error %v, %d known", diff, err, len(layouts.known))
	}
	if _, err := of("variables-stripped.so"); !errors.Is(err, ErrNoMessages) || errors.Is(err, ErrNoLayout) {
		t.Errorf("stripped: error %v", err)
	}
}

// Damaged debugging information and damaged frames cause an error or a place; nothing hangs or
// panics.
func TestFindMessagesDamaged(t *testing.T) {
	for _, name := range []string{"variables5.so", "variables-framed.so"} {
		data, err := os.ReadFile(filepath.Join("../../../testdata/executables", name))
		if err != nil {
			t.Fatal(err)
		}
		f, err := usdt.NewFile(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			damaged := append([]byte(nil), data...)
			for range rapid.IntRange(1, 20).Draw(t, "bytes") {
				damaged[rapid.IntRange(0, len(data)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
			}
			other, err := usdt.NewFile(bytes.NewReader(damaged))
			if err != nil {
				return
			}
			if at, err := findMessages(t.Context(), f, other); err == nil && len(at) != 2 {
				t.Errorf("%v, and no error", at)
			}
			if at, err := findMessages(t.Context(), other, f); err != nil && len(at) > 0 {
				t.Errorf("%v, and error %v", at, err)
			}
		})
	}
}
