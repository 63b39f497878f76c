package bpf_test

import (
	"fmt"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// Arguments of user_trace__nN by the names of its documentation.
const (
	argPID = iota
	argTag
	argI1
	argI2
	argI3
	argI4
	argS1
	argS2
	argS3
	argS4
	userTraceArgs
)

// The streamed fields of an instance: its id, its parent and its class.
const (
	argID      = argI1
	argEvent   = argI2
	argVersion = argI3
	argParent  = argI4
	argName    = argS1
	argClass   = argS2
)

// All ten arguments of a user_trace probe can be read. The programs use eight of them. So the test
// puts each argument, one after the other, in the place of one that the stream shows: integers in
// place of the parent, and strings in place of the class.
func TestAllArguments(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	const i4 = -(1 << 40)
	strings := map[int]string{argTag: "the tag", argS1: "load", argS2: "two", argS3: "three", argS4: "four"}
	integers := map[int]int64{argI1: 77, argI2: 1, argI3: 1, argI4: i4}

	for arg := range userTraceArgs {
		t.Run(fmt.Sprint(arg), func(t *testing.T) {
			c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{streamed(load(endless))}})
			target := vmtest.Target(t, vm)
			place := argClass
			if _, isInteger := integers[arg]; isInteger {
				place = argParent
			}
			target.Probes = moved(t, target.Probes, map[int]int{place: arg})
			if _, err := c.Attach(t.Context(), target); err != nil {
				t.Fatal(err)
			}
			stop := c.Streamed()

			self := vmtest.Eval(t, vm, fmt.Sprintf(`
				dyntrace:put_tag(<<"the tag">>),
				[true = dyntrace:pn(%d, 77, Event, 1, %d, <<"load">>, <<"two">>, <<"three">>, <<"four">>)
					|| Event <- [1, 3]], self()`, bpf.Label("load"), i4))
			c.ReadAll()

			instances := stop()
			if len(instances) != 1 {
				t.Fatalf("streamed %+v, want one instance", instances)
			}
			i := instances[0]
			if want, ok := integers[arg]; ok && int64(i.Parent) != want {
				t.Errorf("the argument is %d, want %d", int64(i.Parent), want)
			}
			want := strings[arg]
			if arg == argPID {
				want = self
			}
			if place == argClass && i.Class != want {
				t.Errorf("the argument is %q, want %q", i.Class, want)
			}
		})
	}
}

// moved returns the user_trace probe of load with some arguments in the places of
// others.
func moved(t *testing.T, probes []usdt.Probe, from map[int]int) []usdt.Probe {
	t.Helper()
	for _, p := range probes {
		if p.Name != probeOf("load") {
			continue
		}
		site := p.Sites[0]
		if len(p.Sites) != 1 || len(site.Args) != userTraceArgs {
			t.Fatalf("%s has %d sites and %d arguments", p.Name, len(p.Sites), len(site.Args))
		}
		args := append([]usdt.Arg(nil), site.Args...)
		for to, from := range from {
			args[to] = site.Args[from]
		}
		site.Args = args
		return []usdt.Probe{{Provider: p.Provider, Name: p.Name, Sites: []usdt.Site{site}}}
	}
	t.Fatalf("no probe %s", probeOf("load"))
	return nil
}

// Arguments can be read from any place of a site. Those of message__send are in registers that
// differ between its sites. Here these sites serve as sites of fail_span, with constants for
// arguments that a message does not have. So each message fails the span whose id is the message's
// size, with the receiver as the class, and the sender's name as the outcome's name.
func TestArgumentsInRegistersAndConstants(t *testing.T) {
	const n = 50
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	sink := vmtest.Eval(t, vm, "P = spawn(timer, sleep, [infinity]), register(sink, P), P")
	self := vmtest.Eval(t, vm, fmt.Sprintf(`
		P = spawn(fun() -> receive go ->
			Self = list_to_binary(pid_to_list(self())),
			Label = 1 + erlang:crc32(Self) rem 950,
			[begin
				Size = N + 1,
				true = dyntrace:pn(Label, Size, 1, 1, 0, Self),
				sink ! list_to_tuple(lists:seq(1, N))
			end || N <- lists:seq(1, %d)] end end),
		register(sender, P), P`, n))
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{streamed(named(self, endless))}})
	target := vmtest.Target(t, vm)
	target.Probes = []usdt.Probe{withMessages(t, target.Probes, self)}
	if _, err := c.Attach(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	stop := c.Streamed()

	vmtest.Eval(t, vm, "M = monitor(process, sender), sender ! go, receive {'DOWN', M, _, _, _} -> ok end")
	c.ReadAll()

	// Evaluating the loop makes the sender send some messages of its own.
	if got := c.Total(0, vm.PID()); got.Starts != n || got.Failures != n || got.Ends != n+got.Orphans+got.Lates {
		t.Errorf("counted %+v, want %d starts and failures, and all other ends orphans or late", got, n)
	}
	instances := byID(t, stop())
	for size := uint64(2); size <= n+1; size++ {
		if i := instances[size]; i.Status != bpf.Failure || i.Class != sink {
			t.Errorf("the message of %d words gave %+v, want a failure of class %s", size, i, sink)
		}
	}
}

// withMessages returns the user_trace probe of a name with its own sites and those of
// message__send, which get the arguments of fail_span.
func withMessages(t *testing.T, probes []usdt.Probe, name string) usdt.Probe {
	t.Helper()
	const sender, receiver, size = 0, 1, 2 // arguments of message__send

	both := usdt.Probe{Provider: "erlang", Name: probeOf(name)}
	for _, p := range probes {
		switch p.Name {
		case probeOf(name):
			both.Sites = append(both.Sites, p.Sites...)
		case "message__send":
			for _, site := range p.Sites {
				args := make([]usdt.Arg, argClass+1)
				args[argID], args[argName], args[argClass] = site.Args[size], site.Args[sender], site.Args[receiver]
				args[argEvent], args[argVersion] = constant(3), constant(1)
				site.Args = args
				both.Sites = append(both.Sites, site)
			}
		}
	}
	if len(both.Sites) < 3 {
		t.Fatalf("%d sites of %s and message__send", len(both.Sites), probeOf(name))
	}
	return both
}

func constant(v int64) usdt.Arg {
	return usdt.Arg{Kind: usdt.ArgConst, Size: 8, Base: usdt.NoRegister, Index: usdt.NoRegister, Disp: v}
}
