package bpf_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/procname"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// onEachTable runs a test on VMs of each release, with process tables of several sizes: since OTP
// 26 the pid in a term depends on the size. It passes further arguments of erl to the test.
func onEachTable(t *testing.T, test func(t *testing.T, otp erlang.OTP, args []string)) {
	vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
		for _, size := range []string{"", "5000000"} {
			var args []string
			if size != "" {
				args = []string{"+P", size}
			}
			t.Run("table "+size, func(t *testing.T) { test(t, otp, args) })
		}
	})
}

// Processes are the same, whether a probe reports them as text or a stand-in as a term, or a span has its
// process. In a large table they have large pids, and names.
func TestPidsInTerms(t *testing.T) {
	onEachTable(t, func(t *testing.T, otp erlang.OTP, args []string) {
		const spawned = 2000
		vm := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes, Args: args})
		if args != nil {
			vmtest.SpawnMany(t, vm)
		}
		lifetime, run := builtin(t, "lifetime", bpf.GroupByPID), builtin(t, "run", bpf.GroupByPID)
		c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{lifetime, run, streamed(load(endless))}, Window: int64(time.Second / 2)})
		c.Observe(vm)
		stream := c.Streamed()
		answer := newAnswer(t, c.Call(vm, "erlang", "apply", vmtest.Fun(fmt.Sprintf(`
			[begin
				{Pid, Ref} = spawn_monitor(fun() -> beamscope:with_span(<<"load">>, fun() -> erlang:yield() end) end),
				receive {_, Ref, _, _, _} -> Pid end
			end || _ <- lists:seq(1, %d)]`, spawned))))
		c.ReadAll()
		spans := stream()
		for i := range c.Opts.Outcomes {
			nothingLost(t, c, i, vm)
		}
		if len(spans) != spawned {
			t.Fatalf("%d spans, want %d", len(spans), spawned)
		}

		lived, ran := groupsOf(c, 0), groupsOf(c, 1)
		first := 0 // slices that were not seen
		for i := range spawned {
			process := answer.process()
			if spans[i].Process != process {
				t.Fatalf("span %d is of %s, want %s", i, pidText(spans[i].Process), pidText(process))
			}
			if n := lived[process].Successes; n != 1 {
				t.Fatalf("%s lived %d times", pidText(process), n)
			}
			switch n := ran[process].Successes; n { // it yields once, and ends
			case 0:
				t.Fatalf("%s did not run", pidText(process))
			case 1:
				first++
			}
			delete(ran, process)
		}
		if first > runtime.NumCPU() { // one for each scheduler that waited when we attached
			t.Errorf("%d processes ran once, want 2 times", first)
		}
		alive := newAnswer(t, c.Call(vm, "erlang", "processes", "[]"))
		for len(alive.left) > 0 {
			delete(ran, alive.process())
		}
		if len(ran) > 20 { // some come and go beside
			t.Errorf("%d processes ran that were never there", len(ran))
		}
		hasName(t, vm)
	})
}

// hasName checks that the memory of a VM has the name of a new process.
func hasName(t *testing.T, vm *erlang.VM) {
	t.Helper()
	const name = "named"
	process := newAnswer(t, vmtest.Eval(t, vm, `P = spawn(timer, sleep, [infinity]), true = register(`+name+`, P), P`)).process()
	r, err := new(procname.Layouts).Open(t.Context(), vm.PID())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		got, err := r.Lookup(uint32(process), uint32(uint16(process>>32)))
		if errors.Is(err, procname.ErrUnsettled) {
			continue
		}
		if err != nil || got.Registered != name {
			t.Errorf("%s: %+v, error %v, want %s", pidText(process), got, err, name)
		}
		return
	}
}

func pidText(process uint64) string {
	return fmt.Sprintf("<%d.%d.%d>", process>>48, uint32(process), uint16(process>>32))
}

// Calls begin with a process as a term, continue with it as text, and end with it as a term.
func TestCallsOnEachRelease(t *testing.T) {
	onEachTable(t, func(t *testing.T, otp erlang.OTP, args []string) {
		const n = 50
		vm := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes, Args: append([]string{"+C", "multi_time_warp"}, args...)})
		c, streamed := collected(t, vm, builtin(t, "call", bpf.GroupByPID))
		var calls string
		for range n {
			calls += ",{0,infinity}"
		}
		a := vmLoad(t, c, vm, "calls", "[["+calls[1:]+"]]")
		instances := streamed()
		nothingLost(t, c, 0, vm)
		process := a.process()
		if got := groupsOf(c, 0)[process].Successes; got != n {
			t.Errorf("%d calls of %s, want %d", got, pidText(process), n)
		}
		within(t, instancesOf(instances, 0, process), a.intervals(n))
	})
}

// A condition on a process as a term selects the process with this pid.
func TestTermConditions(t *testing.T) {
	vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
		vm := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
		pids := newAnswer(t, vmtest.Eval(t, vm, `
			[spawn(fun F() -> receive {From, go} -> From ! gone, F() end end) || _ <- lists:seq(1, 3)]`))
		var outcomes []bpf.Outcome
		var processes []uint64
		for range 3 {
			p := pids.process()
			processes = append(processes, p)
			outcomes = append(outcomes, ruled(dtrace.Rule{
				Start: expr(t, fmt.Sprintf("process-in[pid=%q]", pidText(p))),
				End:   expr(t, fmt.Sprintf("process-out[pid=%q]", pidText(p))),
				Key:   dtrace.Key{Start: "pid", End: "pid"},
			}, 10*time.Second))
			outcomes[len(outcomes)-1].Name = fmt.Sprintf("of_%d", len(outcomes))
		}
		c, streamed := collected(t, vm, outcomes...)
		c.Call(vm, "erlang", "apply", vmtest.Fun(fmt.Sprintf(`
			[begin
				list_to_pid(%q) ! {self(), go},
				receive gone -> ok end
			end || _ <- lists:seq(1, 10)]`, pidText(processes[1]))))
		all := streamed()
		for i, p := range processes {
			of := ofOutcome(all, i)
			wrong := slices.ContainsFunc(of, func(x bpf.Instance) bool { return x.Process != p })
			if ran := len(of) >= 10; ran != (i == 1) || wrong {
				t.Errorf("process %d ran %d times, others among them: %v", i, len(of), wrong)
			}
		}
	})
}
