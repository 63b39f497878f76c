package outcome

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/procname"
)

// crowdOf returns groups of so many processes, that which took longest first, and a rest.
func crowdOf(processes int) []Group {
	var groups []Group
	for n := range processes {
		p := PID(n + 1)
		groups = append(groups, Group{Key: p.String(), Process: p, Successes: 1, Total: time.Duration(1000 - n)})
	}
	return append(groups, Group{Successes: 5, Total: 7})
}

// spawnedAs names processes: every second one is a server, of the others nothing is known.
func spawnedAs(p PID) (procname.Name, bool) {
	if p%2 == 0 {
		return procname.Name{}, false
	}
	return procname.Name{Initial: "server:init/1", Spawned: "proc_lib:init_p/5"}, true
}

// By function every row is a function: processes of which none is known are in the rest,
// be it that they ended or that there are too many to be named.
func TestGroupByFunctionName(t *testing.T) {
	groups := append([]Group{{Key: "lists:seq/2", Successes: 1, Total: time.Hour}}, crowdOf(namedMost+50)...)
	var all Group
	for _, g := range groups {
		all = all.Add(g)
	}
	asked := 0
	nobody := func(PID) string { return "" }
	got := groupByFunction(groups, time.Second, nobody, func(p PID) (procname.Name, bool) {
		asked++
		return spawnedAs(p)
	})
	if asked != namedMost {
		t.Errorf("%d names were read, want %d", asked, namedMost)
	}
	instances := map[string]uint64{}
	var sum Group
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

// By process all stay, and those that took longest have names.
func TestNameProcesses(t *testing.T) {
	groups := crowdOf(namedMost + 50)
	nameProcesses(groups, func(p PID) (procname.Name, bool) { return procname.Name{Registered: fmt.Sprint(p)}, true })
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

// A process that never succeeds comes before those that succeed quickly: its timeouts took
// dMax each. Otherwise it would be among the rest, without a name.
func TestTimeoutsComeFirst(t *testing.T) {
	read := []bpf.Group{
		{Process: 1, Successes: 90, Total: int64(time.Millisecond)},
		{Process: 2, Timeouts: 90},
		{Process: 3, Timeouts: 1, Successes: 1, Total: int64(time.Second)},
	}
	var order []PID
	for _, g := range appendGroups(nil, read, 500*time.Millisecond) {
		order = append(order, g.Process)
	}
	if diff := cmp.Diff([]PID{2, 3, 1}, order); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
