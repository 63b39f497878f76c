package bpf_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// discoverer observes a VM with discovery, and these outcomes.
func discoverer(t *testing.T, vm *erlang.VM, outcomes ...bpf.Outcome) *vmtest.Collector {
	t.Helper()
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: outcomes, Discover: true})
	c.Observe(vm)
	return c
}

// starts makes the VM start a span of each name through the wrapper, in order.
func starts(t *testing.T, vm *erlang.VM, names ...string) {
	t.Helper()
	terms := make([]string, len(names))
	for i, name := range names {
		terms[i] = erlangBinary(name)
	}
	vmtest.Eval(t, vm, fmt.Sprintf("[beamscope:start_span(N) || N <- [%s]], ok", strings.Join(terms, ",")))
}

// erlangBinary writes a binary in Erlang syntax, byte by byte.
func erlangBinary(text string) string {
	bytes := make([]string, len(text))
	for i, b := range []byte(text) {
		bytes[i] = fmt.Sprint(b)
	}
	return "<<" + strings.Join(bytes, ",") + ">>"
}

// discovered returns the new names in alphabetical order. They must belong to one VM.
func discovered(t *testing.T, c *vmtest.Collector, vm *erlang.VM) []string {
	t.Helper()
	all, beyond := c.Discovered()
	if len(beyond) != 0 {
		t.Errorf("%v names found no room", beyond)
	}
	var names []string
	for _, n := range all {
		if n.PID != vm.PID() {
			t.Errorf("%q was seen in VM %d, want %d", n.Name, n.PID, vm.PID())
		}
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

// Complete names are found, with any characters and shared labels, each once, and only if no
// outcome has them.
func TestDiscover(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := discoverer(t, vm, named("known", endless))
	names := append(sameLabel(12), // more than are compared on one label
		"x", "größe", "日本語", "a b\n\"c\"", "\xff\xfe", strings.Repeat("ä", 127)+"x")
	for _, n := range []int{7, 8, 9, 62, 63, 64, 65, 125, 126, 127, 189, 251, 252, 253, 254, 255} {
		names = append(names, strings.Repeat("y", n-1)+"z", strings.Repeat("y", n-1)+"w")
	}
	for range 3 {
		starts(t, vm, append(names, "known")...)
	}
	want := slices.Sorted(slices.Values(names))
	if diff := cmp.Diff(want, discovered(t, c, vm)); diff != "" {
		t.Errorf("discovered, -want +got:\n%s", diff)
	}
	starts(t, vm, names...)
	if again := discovered(t, c, vm); len(again) > 0 {
		t.Errorf("discovered again: %q", again)
	}
	c.ReadTo(monotonic.Now())
	checkTotal(t, c, 0, vm.PID(), vmtest.Total{Counters: bpf.Counters{Starts: 3}})
	events := uint64(4*len(names) + 3)
	if diff := cmp.Diff(bpf.Others{Hits: bpf.Hits{All: events}}, c.Others()); diff != "" {
		t.Errorf("others, -want +got:\n%s", diff)
	}
}

// Events that are not from the wrapper, or have a name that no outcome can have, are counted and
// give no name.
func TestDiscoverIgnores(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := discoverer(t, vm)
	vmtest.Eval(t, vm, `
		Long = binary:copy(<<"x">>, 256),
		true = dyntrace:pn(7, 1, 1, 2, 0, <<"version">>, <<>>),
		true = dyntrace:pn(7, 1, 4, 1, 0, <<"event">>, <<>>),
		true = dyntrace:pn(8, 1, 1, 1, 0, Long, <<>>),
		true = dyntrace:pn(8, 1, 1, 1, 0, <<>>, <<>>),
		true = dyntrace:pn(9, 1, 2, 1, 0, <<"end">>, <<>>),
		true = dyntrace:pn(9, 1, 1, 1, 0, <<"start">>, <<>>)`)
	if diff := cmp.Diff([]string{"start"}, discovered(t, c, vm)); diff != "" {
		t.Errorf("discovered, -want +got:\n%s", diff)
	}
	c.ReadAll()
	if diff := cmp.Diff(bpf.Others{Hits: bpf.Hits{All: 6}, Foreign: 2, Nameless: 2}, c.Others()); diff != "" {
		t.Errorf("others, -want +got:\n%s", diff)
	}
}

// Names without room are counted, each once. If there are very many, those whose places are taken
// are counted by their starts.
func TestDiscoverTooMany(t *testing.T) {
	const names, flood = bpf.MaxNames + 200, 20_000
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := discoverer(t, vm)
	run := func(n int) {
		vmtest.Eval(t, vm, fmt.Sprintf(`[beamscope:start_span(<<"name_", (integer_to_binary(I))/binary>>) || I <- lists:seq(1, %d)], ok`, n))
	}
	run(names)
	run(names)
	found, beyond := c.Discovered()
	seen := make(map[string]bool)
	for _, n := range found {
		seen[n.Name] = true
	}
	if len(found) != bpf.MaxNames || len(seen) != bpf.MaxNames || beyond[vm.PID()] != names-bpf.MaxNames {
		t.Errorf("discovered %d names, %d different ones, and %d beyond", len(found), len(seen), beyond)
	}

	run(flood)
	more, beyond := c.Discovered()
	c.ReadAll()
	if told := c.Others(); len(more) != 0 || beyond[vm.PID()] == 0 || told.Unnoted == 0 || bpf.MaxNames+beyond[vm.PID()]+told.Unnoted != flood {
		t.Errorf("%d names more and %d beyond in all, and %d starts that were not told apart, want %d together", len(more), beyond, told.Unnoted, flood)
	}
}

// A discovered name becomes an outcome while its spans flow. From then on no span is lost or
// counted twice, and earlier spans are not counted.
func TestDiscoveredIsObserved(t *testing.T) {
	const n = 20_000
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := discoverer(t, vm)
	keep(t, vm, "load", 10)
	c.Call(vm, "span_load", "run", spans(2, n))
	if diff := cmp.Diff([]string{"load"}, discovered(t, c, vm)); diff != "" {
		t.Fatalf("discovered, -want +got:\n%s", diff)
	}

	from := change(t, c, 250*time.Millisecond, load(endless))
	vmtest.WaitUntil(from)
	endKept(t, vm)
	c.Call(vm, "span_load", "run", spans(2, n))
	c.ReadAll()

	want := succeeded(n)
	want.Ends, want.Orphans = n+10, 10
	checkTotal(t, c, 0, vm.PID(), want)
	if again := discovered(t, c, vm); len(again) > 0 {
		t.Errorf("discovered again: %q", again)
	}
}

// Discovery holds the semaphores of all labels, also during changes, and releases them when it
// ends.
func TestDiscoverHoldsSemaphores(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Discover: true})
	a, err := c.Attach(t.Context(), vmtest.Target(t, vm))
	if err != nil {
		t.Fatal(err)
	}
	held := func(want uint16) {
		t.Helper()
		for _, label := range []int{1, 475, 950} {
			if n := vmtest.Semaphore(t, vm.PID(), fmt.Sprintf("user_trace__n%d", label)); n != want {
				t.Errorf("the semaphore of label %d is %d, want %d", label, n, want)
			}
		}
	}
	held(1)
	settle(c, change(t, c, 250*time.Millisecond, load(endless)))
	held(1)
	settle(c, change(t, c, 250*time.Millisecond))
	held(1)
	if err := a.Detach(); err != nil {
		t.Fatal(err)
	}
	held(0)
	c.Observe(vm)
	held(1)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	held(0)
}
