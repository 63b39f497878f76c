package hits

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// sites returns the sites of probes in an executable.
func sites(t *testing.T, path string, names ...string) [][]usdt.Site {
	t.Helper()
	probes, err := vm.Probes(path)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]usdt.Site
	for _, name := range names {
		i := slices.IndexFunc(probes, func(p usdt.Probe) bool { return p.Name == name })
		if i < 0 {
			t.Fatalf("no probe %s", name)
		}
		out = append(out, probes[i].Sites)
	}
	return out
}

func counted(t *testing.T, path string, places ...Place) *Counter {
	t.Helper()
	c, err := New(path, places)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func read(t *testing.T, c *Counter) []Count {
	t.Helper()
	counts, err := c.Read()
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

// Hits between the marks, and of the marks themselves, are counted as inside. A probe without an
// attached counter does not fire.
func TestMarks(t *testing.T) {
	vmtest.NeedEBPF(t)
	vmtest.NeedKind(t, vmtest.WithProbes)
	otp := vmtest.Private(t)
	s := sites(t, otp.Emulator(), "user_trace__n1", "user_trace__n2", "user_trace__n3")
	c := counted(t, otp.Emulator(), Place{Sites: s[0], Mark: Begins}, Place{Sites: s[1], Mark: Ends}, Place{Sites: s[2]})
	beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes}) // started after the counter was attached

	before := read(t, c) // starting a VM may have fired them
	if diff := cmp.Diff([]Count{{}, {}, {}}, before); diff != "" {
		t.Error(diff)
	}
	got := vmtest.Eval(t, beam, `[dyntrace:pn(N) || N <- [3, 3, 1, 3, 3, 3, 2, 3, 2, 1, 4, 2, 3]]`)
	const want = "[true,true,true,true,true,true,true,true,true,true,false,true,true]"
	if got != want {
		t.Errorf("pn returns %s, want %s", got, want)
	}
	counts := read(t, c)
	if diff := cmp.Diff([]Count{{Inside: 2}, {Inside: 2, Outside: 1}, {Inside: 3, Outside: 4}}, counts); diff != "" {
		t.Error(diff)
	}
	if got := counts[2].Sub(Count{Inside: 1, Outside: 2}); got != (Count{Inside: 2, Outside: 2}) || got.All() != 4 {
		t.Errorf("the difference is %+v", got)
	}
}

// Entries and returns of a function are counted separately.
func TestFunctions(t *testing.T) {
	vmtest.NeedEBPF(t)
	vmtest.NeedKind(t, vmtest.WithProbes)
	otp := vmtest.Private(t)
	file, err := usdt.Open(otp.Emulator())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, offset, err := file.Symbol("erts_garbage_collect_nobump")
	if err != nil {
		t.Fatal(err)
	}
	place := []usdt.Site{{Offset: offset}}
	c := counted(t, otp.Emulator(), Place{Sites: place}, Place{Sites: place, Return: true})
	vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	counts := read(t, c)
	if counts[0].All() == 0 || counts[0] != counts[1] {
		t.Errorf("entered %+v, returned %+v", counts[0], counts[1])
	}
}

func TestNoFile(t *testing.T) {
	vmtest.NeedEBPF(t)
	if c, err := New("/no/such/file", []Place{{Sites: []usdt.Site{{Offset: 1}}}}); err == nil {
		t.Error("no error")
		_ = c.Close()
	}
}

func TestNothing(t *testing.T) {
	vmtest.NeedEBPF(t)
	if got := read(t, counted(t, "/proc/self/exe")); len(got) != 0 {
		t.Errorf("%d counts", len(got))
	}
}
