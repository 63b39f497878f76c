package vmsource_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A spec's groups have the names that the kernel's outcomes use.
func TestGroupNames(t *testing.T) {
	if outcome.GroupPID != bpf.GroupByPID || outcome.GroupMFA != bpf.GroupByMFA {
		t.Errorf("groups %q and %q, want %q and %q", outcome.GroupPID, outcome.GroupMFA, bpf.GroupByPID, bpf.GroupByMFA)
	}
}

// grouped returns the built-in outcome of messages' waits in mailboxes, with groups.
func grouped(group string) outcome.Spec {
	return outcome.Spec{
		Name: "mailbox", VM: outcome.Events{Builtin: "mailbox"}, Group: group,
		BinWidth: 100 * time.Millisecond, Bins: 100,
	}
}

// sums adds the groups of all batches by key.
func (s *source) sums() map[string]outcome.Group {
	sums := make(map[string]outcome.Group)
	for _, b := range s.batches {
		for _, c := range b.Counts {
			for _, g := range c.Groups {
				sum := g
				if before, ok := sums[g.Key]; ok {
					sum = g.Add(before)
				}
				sums[g.Key] = sum
			}
		}
	}
	return sums
}

// receivers starts processes and sends them messages.
const receivers = `
	Loop = fun Loop() -> receive m -> Loop() end end,
	Registered = spawn(Loop),
	(catch register(taker_of_messages, Registered)),
	{ok, Manager} = gen_event:start(),
	[Registered ! m || _ <- lists:seq(1, 300)],
	[gen_event:sync_notify(Manager, ping) || _ <- lists:seq(1, 200)],
	ok`

// The groups are processes, with their names if they have any, and contain all instances.
func TestGroupsByPID(t *testing.T) {
	vmtest.NeedNames(t)
	onStockToo(t, groupsByPID)
}

// onStockToo runs a test on a VM with probes and on the distribution's VMs without probes.
func onStockToo(t *testing.T, test func(*testing.T, *erlang.VM)) {
	t.Run("probes", func(t *testing.T) { test(t, vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})) })
	for _, release := range vmtest.StockReleases() {
		t.Run(fmt.Sprintf("stock %d", release), func(t *testing.T) {
			test(t, vmtest.StartOn(t, vmtest.Stock(t, release), erlang.Options{}))
		})
	}
}

func groupsByPID(t *testing.T, v *erlang.VM) {
	s := newSourceEvery(t, vm.Target{PID: v.PID()}, 200*time.Millisecond, []outcome.Spec{grouped(outcome.GroupPID)})
	vmtest.Eval(t, v, receivers)
	s.collectNow()
	s.collectUntil("the names", func() bool { // the names are read in the background at first
		vmtest.Eval(t, v, `whereis(taker_of_messages) ! m`)
		for _, g := range s.sums() {
			if g.Name == "taker_of_messages" {
				return true
			}
		}
		return false
	})
	var all, instances uint64
	for key, g := range s.sums() {
		all += g.Instances()
		if g.Name == "taker_of_messages" && (g.Successes < 300 || g.Process.String() != key) {
			t.Errorf("%+v", g)
		}
	}
	for _, c := range s.totals() {
		instances += c.Instances()
	}
	if all != instances {
		t.Errorf("%d instances, %d in groups", instances, all)
	}
}

// The groups are functions. The function of an OTP process is the one that proc_lib calls.
func TestGroupsByMFA(t *testing.T) {
	vmtest.NeedNames(t)
	onStockToo(t, groupsByMFA)
}

func groupsByMFA(t *testing.T, v *erlang.VM) {
	s := newSourceEvery(t, vm.Target{PID: v.PID()}, 200*time.Millisecond, []outcome.Spec{grouped(outcome.GroupMFA)})
	const want = "gen_event:init_it/6"
	s.collectUntil(fmt.Sprintf("a group %s among groups", want), func() bool {
		vmtest.Eval(t, v, receivers)
		_, otp := s.sums()[want]
		_, fun := s.sums()["erlang:apply/2"]
		return otp && fun
	})
}

// startServers starts OTP processes, and stores them for pingServers.
const startServers = `
	Started = [begin {ok, P} = gen_event:start(), P end || _ <- lists:seq(1, %d)],
	persistent_term:put(servers, Started ++ persistent_term:get(servers, [])),
	ok`

// pingServers sends messages to all servers and waits for the answers, until each has got the
// same number.
const pingServers = `[gen_event:sync_notify(P, ping) || _ <- lists:seq(1, %d), P <- persistent_term:get(servers)], ok`

// pingOn does the same until pinging is no longer set.
const pingOn = `
	persistent_term:put(pinging, true),
	F = fun(F) ->
		[gen_event:sync_notify(P, ping) || P <- persistent_term:get(servers)],
		persistent_term:get(pinging, false) andalso F(F)
	end,
	F(F)`

// functionsOf returns the number of instances of each function in a batch.
func functionsOf(b outcome.Batch) map[string]uint64 {
	n := make(map[string]uint64)
	for _, c := range b.Counts {
		for _, g := range c.Groups {
			n[g.Key] += g.Instances()
		}
	}
	return n
}

// Functions are known from the first window on, for all existing processes. Those of processes
// that are spawned later are known as soon as the processes do anything.
func TestFunctionsOfManyProcesses(t *testing.T) {
	vmtest.NeedNames(t)
	onStockToo(t, functionsOfManyProcesses)
}

func functionsOfManyProcesses(t *testing.T, v *erlang.VM) {
	const servers, rounds, function = 400, 40, "gen_event:init_it/6"
	vmtest.Eval(t, v, fmt.Sprintf(startServers, servers))
	pinged := make(chan error, 1)
	go func() {
		_, err := v.Call(t.Context(), "erlang", "apply", vmtest.Fun(pingOn))
		pinged <- err
	}()
	vmtest.Eval(t, v, `F = fun(F) -> persistent_term:get(pinging, false) orelse (timer:sleep(1) =:= ok andalso F(F)) end, F(F)`)
	s := newSourceEvery(t, vm.Target{PID: v.PID()}, 200*time.Millisecond, []outcome.Spec{grouped(outcome.GroupMFA)})
	if n := functionsOf(s.first); n[""] > 0 || n[function] == 0 {
		t.Errorf("the first window: %v", n)
	}
	s.collectDuring(func() {
		vmtest.Eval(t, v, "persistent_term:erase(pinging)")
		if err := <-pinged; err != nil {
			t.Error(err)
		}
		vmtest.Eval(t, v, fmt.Sprintf(startServers, servers)+", "+fmt.Sprintf(pingServers, rounds))
	})
	s.collectNow()
	sums := s.sums()
	if n := sums[function].Successes; n < 2*servers*rounds {
		t.Errorf("%d messages of %s, want %d at least", n, function, 2*servers*rounds)
	}
	if n := sums[""].Instances(); n > 0 {
		t.Errorf("the function of %d messages is unknown", n)
	}
}

// Spans are grouped by the processes that start them.
func TestSpansByPID(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	spec := outcome.Spec{Name: "outcome", Span: "load", Group: outcome.GroupPID, BinWidth: 100 * time.Millisecond, Bins: 100}
	s := newSourceEvery(t, vm.Target{PID: v.PID()}, 200*time.Millisecond, []outcome.Spec{spec})
	vmtest.Call(t, v, "span_load", "run", "[#{spans => 100, procs => 4}]")
	s.collectNow()
	var all uint64
	sums := s.sums()
	for key, g := range sums {
		all += g.Successes
		if g.Process.String() != key || g.Successes != 25 {
			t.Errorf("%+v", g)
		}
	}
	if len(sums) != 4 || all != 100 {
		t.Errorf("%d groups of %d spans, want 4 of 100", len(sums), all)
	}
}
