package bpf_test

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// The costs of hits are measured on probes of our own, which are then removed. A single-stepped
// instruction and a return cost more.
func TestMeasureTraps(t *testing.T) {
	vmtest.NeedEBPF(t)
	for range 2 {
		traps, err := bpf.MeasureTraps()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", traps)
		if traps.Probe <= 0 || traps.Return <= traps.Probe || traps.Stepped <= traps.Probe {
			t.Errorf("%+v", traps)
		}
	}
}

func TestTrapsCost(t *testing.T) {
	traps := bpf.Traps{Probe: 2, Return: 5, Stepped: 20}
	for _, test := range []struct {
		hits bpf.Hits
		want time.Duration
	}{
		{bpf.Hits{}, 0},
		{bpf.Hits{All: 10}, 20},
		{bpf.Hits{All: 10, Returns: 4}, 6*2 + 4*5},
		{bpf.Hits{All: 10, Stepped: 4}, 6*2 + 4*20},
		{bpf.Hits{All: 10, Traced: 4}, 6 * 2},
		{bpf.Hits{All: 10, Traced: 4, Stepped: 3, Returns: 2}, 1*2 + 3*20 + 2*5},
		{bpf.Hits{All: 10, Traced: 10}, 0},
	} {
		if got := traps.Cost(test.hits); got != test.want {
			t.Errorf("%+v: %d, want %d", test.hits, got, test.want)
		}
	}
}

// The cost of hits is known for each site: the probe at a stand-in function is not at a
// single-stepped instruction even if the function begins with one, and programs count their kind of
// site.
func TestKindsOfHits(t *testing.T) {
	vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
		vm := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
		hits := func(change func(*bpf.Target), outcomes ...bpf.Outcome) bpf.Hits {
			c := vmtest.NewCollector(t, bpf.Options{Outcomes: outcomes})
			target := vmtest.Target(t, vm)
			change(&target)
			if _, err := c.Attach(t.Context(), target); err != nil {
				t.Fatal(err)
			}
			if err := c.ObserveThreads(vm.PID()); err != nil {
				t.Fatal(err)
			}
			c.Call(vm, "erlang", "apply", vmtest.Fun("[erlang:yield() || _ <- lists:seq(1, 1000)]"))
			c.ReadAll()
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			return c.Others().Hits
		}
		asItIs := func(*bpf.Target) {}
		run := hits(asItIs, builtin(t, "run", ""))
		if run.Returns < 1000 || run.All-run.Returns < 1000 || run.Stepped != 0 || run.Traced != 0 {
			t.Errorf("run: %+v", run)
		}
		waits := hits(asItIs, builtin(t, "os-wait", ""))
		if waits.Returns != 0 || waits.Stepped != 0 || waits.Traced != waits.All {
			t.Errorf("os-wait: %+v", waits)
		}
		stepped := hits(func(target *bpf.Target) {
			for i, p := range target.Probes {
				if p.Name == "process__out" {
					target.Probes[i].Sites[0].Stepped = true // as if it were one
				}
			}
		}, builtin(t, "run", ""))
		if stepped.Stepped < 1000 || stepped.Stepped+stepped.Returns != stepped.All {
			t.Errorf("stepped: %+v", stepped)
		}
	})
}
