package scope_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// A recording may claim new VMs in each window, with as many bins as fit into a few bytes of a
// batch. The engine limits its memory, and reports what it leaves out.
func TestHistoriesAreBounded(t *testing.T) {
	const bins = 1 << 16
	p := newPlay(t, system(t, "", spec("a", bins)))
	zeros := make([]uint64, bins)
	var said string
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for window := range 4 {
		var all []outcome.Counts
		for i := range 100 {
			c := outcome.Counts{Outcome: "a", VM: outcome.VM{PID: 1000*window + i + 1}, Bins: zeros}
			c.Starts, c.Ends, c.Failures = 1, 1, 1
			all = append(all, c)
		}
		f := p.step(all...)
		said += strings.Join(f.NoticeTexts(), "\n")
		if want := scope.MaxHistories / ((bins + 1) * 8 * 10); window == 0 && len(f.Outcomes) != want {
			t.Errorf("%d VMs have room, want %d", len(f.Outcomes), want)
		}
		if window > 0 && len(f.Outcomes) != 0 {
			t.Errorf("window %d: %d VMs have room that others still take", window, len(f.Outcomes))
		}
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 5*scope.MaxHistories/4 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	if !strings.Contains(said, " outcomes of VMs are not shown, because there is room for 256 VMs and for histories of 192 MiB") {
		t.Errorf("notices %q", said)
	}
}

// If there is room for rows but not for their histories, the rows stay, and histories begin anew. Their counts are
// exact, and a notice says what was dropped.
func TestHistoriesBeginAnew(t *testing.T) {
	const bins, vms = 1 << 16, 30
	s := system(t, "", spec("a", bins))
	p := newPlay(t, s)
	full := make([]uint64, bins)
	for i := range full {
		full[i] = 1
	}
	said := ""
	for window := range 8 {
		var all []outcome.Counts
		for i := range vms {
			all = append(all, outcome.Counts{Outcome: "a", VM: outcome.VM{PID: i + 1}, Successes: bins, Ends: bins, Starts: bins, Bins: full})
		}
		f := p.step(all...)
		said += strings.Join(f.NoticeTexts(), "\n")
		if len(f.Outcomes) != vms || f.Omitted != 0 {
			t.Fatalf("window %d: %d rows, and %d are left out", window, len(f.Outcomes), f.Omitted)
		}
		for _, o := range f.Outcomes {
			if o.Observed.Successes() != bins || o.Mean.Windows < 1 || o.Mean.Windows > window+1 {
				t.Fatalf("window %d: %d successes, the mean of %d windows", window, o.Observed.Successes(), o.Mean.Windows)
			}
		}
	}
	if !strings.Contains(said, " outcomes of VMs begin anew, because there is room for histories of 192 MiB") {
		t.Errorf("notices %q", said)
	}
}

// Data that fits is shown as usual. Data that was left out returns when there is room again.
func TestRoomComesBack(t *testing.T) {
	s := system(t, "", spec("a", 1<<16))
	s.History, s.HoldOff = 3, time.Second
	p := newPlay(t, s)
	crowd := func(first, n int) (all []outcome.Counts) {
		for i := range n {
			c := counts("a")
			c.VM, c.Bins = outcome.VM{PID: first + i}, make([]uint64, 1<<16)
			all = append(all, c)
		}
		return all
	}
	if f := p.step(crowd(1, 200)...); len(f.Outcomes) >= 200 || len(f.Notices) != 1 {
		t.Fatalf("%d rows, %q", len(f.Outcomes), f.NoticeTexts())
	}
	var said []string
	for range 6 {
		f := p.step(crowd(1000, 3)...)
		said = append(said, fmt.Sprint(len(f.Outcomes), f.NoticeTexts()))
	}
	if last := said[len(said)-1]; !strings.HasPrefix(last, "3 ") {
		t.Errorf("%q", said)
	}
}

// The product of outcomes and VMs may exceed the memory of any machine.
func TestRowsAreBounded(t *testing.T) {
	var specs []outcome.Spec
	for i := range 3000 {
		specs = append(specs, spec(fmt.Sprintf("a%d", i), 1))
	}
	p := newPlay(t, system(t, "", specs...))
	var all []outcome.Counts
	for i := range 3000 {
		c := counts("other", 1)
		c.VM = outcome.VM{PID: i + 1}
		all = append(all, c)
	}
	if f := p.step(all...); len(f.Outcomes) != scope.MaxRows || len(f.Notices) != 1 {
		t.Errorf("%d rows, %q", len(f.Outcomes), f.NoticeTexts())
	}
}

// A VM with many outcomes does not take the room of other VMs: they take turns. Outcomes with events come first.
func TestVMsTakeTurns(t *testing.T) {
	const bins = 1 << 16
	var specs []outcome.Spec
	for i := range 40 {
		specs = append(specs, spec(fmt.Sprintf("many%d", i), bins))
	}
	specs = append(specs, spec("one", bins))
	p := newPlay(t, system(t, "", specs...))
	many, one := outcome.VM{PID: 1}, outcome.VM{PID: 2}
	shown := func(vms ...outcome.VM) (rows []string) {
		var all []outcome.Counts
		for _, s := range specs {
			for _, vm := range vms {
				c := outcome.Counts{Outcome: s.Name, VM: vm, Bins: make([]uint64, bins)}
				if (s.Name == "one") == (vm == one) {
					c.Starts, c.Ends, c.Failures = 1, 1, 1
				}
				all = append(all, c)
			}
		}
		for _, o := range p.step(all...).Outcomes {
			if o.VM == one && o.Seen {
				rows = append(rows, o.Name)
			}
		}
		return rows
	}
	shown(many) // takes all of the room
	for range 2 {
		if got := shown(many, one); len(got) != 1 || got[0] != "one" {
			t.Fatalf("of the other VM %q is shown", got)
		}
	}
}

// The number of bins of a frame is bounded, and observers get the counts of its rows only.
func TestBinsAreBounded(t *testing.T) {
	const bins, outcomes, vms = 1 << 10, 200, 50
	var specs []outcome.Spec
	for i := range outcomes {
		specs = append(specs, spec(fmt.Sprintf("a%d", i), bins))
	}
	s := system(t, "", specs...)
	s.History = 1
	p := newPlay(t, s)
	var all []outcome.Counts
	for _, s := range specs {
		for pid := range vms {
			all = append(all, outcome.Counts{Outcome: s.Name, VM: outcome.VM{PID: pid + 1}, Bins: make([]uint64, bins)})
		}
	}
	f := p.step(all...)
	if f.Omitted != outcomes*vms-len(f.Outcomes) || len(f.Outcomes) != scope.MaxHistories/((bins+1)*8*10) || bins*len(f.Outcomes) > scope.MaxBins {
		t.Errorf("%d rows, and %d are left out", len(f.Outcomes), f.Omitted)
	}
}
