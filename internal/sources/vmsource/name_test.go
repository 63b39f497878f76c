package vmsource

import (
	"fmt"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/beam/procname"
)

// crowdOf returns groups of this many processes, those with the longest time first, and a rest.
func crowdOf(processes int) []outcome.Group {
	var groups []outcome.Group
	for n := range processes {
		p := outcome.PID(n + 1)
		groups = append(groups, outcome.Group{Key: p.String(), Process: p, Successes: 1, Total: time.Duration(1000 - n)})
	}
	return append(groups, outcome.Group{Successes: 5, Total: 7})
}

// spawnedAs returns the names of processes: every second one is a server, and the others are
// unknown.
func spawnedAs(p outcome.PID) (procname.Name, bool) {
	if p%2 == 0 {
		return procname.Name{}, false
	}
	return procname.Name{Initial: "server:init/1", Spawned: "proc_lib:init_p/5"}, true
}

// Grouped by function, every row is a function. Processes with an unknown function are in the
// rest, either because they ended or because there are too many to name.
func TestGroupByFunctionName(t *testing.T) {
	groups := append([]outcome.Group{{Key: "lists:seq/2", Successes: 1, Total: time.Hour}}, crowdOf(namedMost+50)...)
	var all outcome.Group
	for _, g := range groups {
		all = all.Add(g)
	}
	asked := 0
	nobody := func(outcome.PID) string { return "" }
	got := groupByFunction(groups, time.Second, nobody, func(p outcome.PID) (procname.Name, bool) {
		asked++
		return spawnedAs(p)
	})
	if asked != namedMost {
		t.Errorf("%d names were read, want %d", asked, namedMost)
	}
	instances := map[string]uint64{}
	var sum outcome.Group
	for _, g := range got {
		instances[g.Key] = g.Instances()
		sum = sum.Add(g)
		if g.Process != 0 || g.Name != "" {
			t.Errorf("%+v is a process", g)
		}
	}
	if diff := cmp.Diff(map[string]uint64{"lists:seq/2": 1, "server:init/1": namedMost / 2, "": namedMost/2 + 50 + 5}, instances); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if sum.Instances() != all.Instances() || sum.Total != all.Total {
		t.Errorf("%d instances and %v in groups, want %d and %v", sum.Instances(), sum.Total, all.Instances(), all.Total)
	}
	if last := got[len(got)-1]; last.Key != "" {
		t.Errorf("%s comes after the rest", last.Key)
	}
}

// Grouped by process, all rows stay, and those with the longest time have names.
func TestNameProcesses(t *testing.T) {
	groups := crowdOf(namedMost + 50)
	nameProcesses(groups, func(p outcome.PID) (procname.Name, bool) { return procname.Name{Registered: fmt.Sprint(p)}, true })
	for i, g := range groups {
		want := ""
		if i < namedMost {
			want = g.Key
		}
		if g.Name != want {
			t.Errorf("group %d %s is named %q", i, g.Key, g.Name)
		}
	}
}

// A process that never succeeds comes before those that succeed quickly, because each of its
// timeouts counts as dMax. Otherwise it would be in the rest, without a name.
func TestTimeoutsComeFirst(t *testing.T) {
	read := []bpf.Group{
		{Process: 1, Successes: 90, Total: int64(time.Millisecond)},
		{Process: 2, Timeouts: 90},
		{Process: 3, Timeouts: 1, Successes: 1, Total: int64(time.Second)},
	}
	var order []outcome.PID
	for _, g := range appendGroups(nil, read, 500*time.Millisecond) {
		order = append(order, g.Process)
	}
	if diff := cmp.Diff([]outcome.PID{2, 3, 1}, order); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
