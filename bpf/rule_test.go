package bpf_test

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/vmtest"
)

// builtin is the built-in outcome of this name, grouped.
func builtin(t *testing.T, name, group string) bpf.Outcome {
	t.Helper()
	b, ok := dtrace.LookupBuiltin(name)
	if !ok {
		t.Fatalf("no built-in outcome %s", name)
	}
	return bpf.Outcome{
		Name: name, Rule: &b.Rule, Group: group,
		DMax: int64(10 * time.Second), BinWidth: int64(10 * time.Second / 1000), Bins: 1000,
	}
}

// groupsOf returns the sums of an outcome's groups over all windows, by process and text.
func groupsOf(c *vmtest.Collector, outcome int) map[any]bpf.Group {
	sums := make(map[any]bpf.Group)
	for _, w := range c.Windows {
		for _, counts := range w.Counts {
			if counts.Outcome != outcome {
				continue
			}
			for _, g := range counts.Groups {
				var key any = g.Process
				if g.Text != "" {
					key = g.Text
				}
				sum := sums[key]
				sum.Successes += g.Successes
				sum.Failures += g.Failures
				sum.Timeouts += g.Timeouts
				sum.Total += g.Total
				sum.Amount += g.Amount
				sums[key] = sum
			}
		}
	}
	return sums
}

// Every built-in outcome loads and attaches.
func TestBuiltinsAttach(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{})
	for _, b := range dtrace.Builtins() {
		for _, group := range []string{"", bpf.GroupByPID} {
			if b.Rule.RunQueue && group != "" {
				continue
			}
			t.Run(b.Name+" "+group, func(t *testing.T) {
				o := builtin(t, b.Name, group)
				if b.Name == "port-busy" || b.Name == "dist-busy" {
					o.Group = ""
				}
				c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{o}})
				c.Observe(vm)
				if err := c.ObserveThreads(vm.PID()); err != nil {
					t.Fatal(err)
				}
				vmtest.Eval(t, vm, `lists:foreach(fun(N) -> spawn(fun() -> file:read_file_info("/tmp"), N end) end, lists:seq(1,100))`)
				c.ReadTo(monotonic.Now())
				t.Logf("%+v", c.Total(0, vm.PID()))
			})
		}
	}
}
