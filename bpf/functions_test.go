package bpf_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// waiter is an Erlang expression that starts a process with a named function, which takes messages.
const waiter = `
	{ok, T, _} = erl_scan:string("-module(waiter). -export([loop/0]). loop() -> receive _ -> loop() end."),
	Forms = fun F([], _, All) -> lists:reverse(All);
		F([{dot, _} = D | Rest], Form, All) -> {ok, P} = erl_parse:parse_form(lists:reverse([D | Form])), F(Rest, [], [P | All]);
		F([X | Rest], Form, All) -> F(Rest, [X | Form], All) end,
	{ok, waiter, Code} = compile:forms(Forms(T, [], [])),
	{module, waiter} = code:load_binary(waiter, "waiter.erl", Code)`

// The function of a process is known as long as it lives, however many others start and end
// meanwhile, because ended processes are dropped.
func TestFunctionsOfProcessesThatLast(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	vmtest.Eval(t, vm, waiter)
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{builtin(t, "mailbox", bpf.GroupByMFA)}})
	c.Observe(vm)
	const lives, atOnce = 140_000, 1000 // more than there is room for
	c.Call(vm, "erlang", "apply", vmtest.Fun(fmt.Sprintf(`
		register(waiter, spawn(waiter, loop, [])),
		[%d = vm_load:lives(lists:duplicate(%[1]d, 0)) || _ <- lists:seq(1, %d)],
		[waiter ! N || N <- lists:seq(1, 100)], ok`, atOnce, lives/atOnce)))
	if g := groupsOf(c, 0)["waiter:loop/0"]; g.Successes != 100 {
		t.Errorf("%d messages of waiter:loop/0, want 100", g.Successes)
	}
}

// Born returns new processes of OTP's behaviours. They are counted with the function that is set
// for them then.
func TestSetFunction(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{builtin(t, "mailbox", bpf.GroupByMFA)}, Window: int64(time.Hour)})
	c.Observe(vm)
	born := func() (all []uint64) {
		t.Helper()
		err := c.Born(func(pid int, process uint64) {
			if pid != vm.PID() {
				t.Errorf("a process of VM %d, want %d", pid, vm.PID())
			}
			all = append(all, process)
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	number := func(expressions string) uint64 {
		t.Helper()
		return uint64(vmtest.Integers(t, vmtest.Eval(t, vm, expressions))[1]) // <0.number.serial>
	}
	server := number(`{ok, P} = gen_event:start(), register(server, P), pid_to_list(P)`)
	if got := born(); len(got) != 1 || got[0]&0xffffffff != server {
		t.Fatalf("%v were born, want %d", got, server)
	} else if err := c.SetFunction(vm.PID(), got[0], "a function"); err != nil {
		t.Fatal(err)
	}
	if got := born(); len(got) > 0 {
		t.Errorf("Born returns %v twice", got)
	}
	vmtest.Eval(t, vm, `[gen_event:sync_notify(server, ping) || _ <- lists:seq(1, 10)], ok`)
	counts, _, err := c.Read(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range counts[0].Groups {
		if g.Text == "a function" && g.Successes == 10 {
			return
		}
	}
	t.Errorf("no group of the function: %+v", counts[0].Groups)
}
