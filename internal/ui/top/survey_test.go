package top

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/beam/procname"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
	"github.com/beamscope/beamscope/internal/host/guard"
)

// A fakeMemory is the memory of VMs with processes. Their functions are "f0" and "f1". Those of
// processes whose number is a multiple of ten are unknown.
type fakeMemory struct {
	figures map[int][]procname.Figures
	err     map[int]error
}

func (f *fakeMemory) Survey(vm int, from uint32, most int) (all []procname.Figures, next uint32, err error) {
	if f.err[vm] != nil {
		return nil, 0, f.err[vm]
	}
	all = f.figures[vm]
	end := min(int(from)+most, len(all))
	if next = uint32(end); end == len(all) {
		next = 0
	}
	return all[from:end], next, nil
}

func (*fakeMemory) ProcessName(vm int, p outcome.PID) string { return fmt.Sprintf("%d of %d", p, vm) }

func (*fakeMemory) ProcessFunction(_ int, p outcome.PID) string {
	if p%10 == 0 {
		return ""
	}
	return fmt.Sprint("f", uint64(p%2))
}

// processes returns n processes. Each has as many messages in its queue as its number.
func processes(n int) []procname.Figures {
	var all []procname.Figures
	for i := range n {
		all = append(all, procname.Figures{Number: uint32(i), Waiting: int64(i), Memory: 1000, Reductions: uint64(i), Function: "m:f/1"})
	}
	return all
}

// A survey contains all processes of all VMs, and names of those with most waiting messages.
func TestReadSurvey(t *testing.T) {
	memory := &fakeMemory{figures: map[int][]procname.Figures{shop.PID: processes(1200), store.PID: processes(3)}}
	r := reading{surveyor: memory, noticed: make(map[outcome.VM]bool)}
	for round := range 2 {
		s, why := r.read(t.Context(), []outcome.VM{shop, store}, outcome.GroupPID)
		if len(why) > 0 || len(s.Rows) != 1203 || len(s.Names) != waitingMost || s.Total.Processes != 1203 || s.Total.Waiting != 1199*1200/2+3 || s.Total.Memory != 1203000 {
			t.Fatalf("%d rows, %d names, %+v, %q", len(s.Rows), len(s.Names), s.Total, why)
		}
		id := ID{shop, "<0.1199.0>"}
		if n := s.Names[id]; n.name != "1199 of 1801" || n.process != 1199 {
			t.Errorf("%+v", n)
		}
		if row := s.Rows[id]; row.Waiting != 1199 || row.Rated != (round > 0) || row.Reductions != 0 || row.Function != "m:f/1" {
			t.Errorf("round %d: %+v", round, row)
		}
	}
}

// Processes with large heaps have a row, also if they do nothing and no message waits.
func TestLargeHeapsAreNamed(t *testing.T) {
	var all []procname.Figures
	for i := range 2 * largestMost {
		all = append(all, procname.Figures{Number: uint32(i + 1), Memory: largeHeaps - 1 + int64(i)})
	}
	all[2*largestMost-1].Waiting = 1 // it has one of the rows for waiting messages too
	r := reading{surveyor: &fakeMemory{figures: map[int][]procname.Figures{shop.PID: all}}, noticed: make(map[outcome.VM]bool)}
	s, _ := r.read(t.Context(), []outcome.VM{shop}, outcome.GroupPID)
	if len(s.Names) != largestMost {
		t.Errorf("%d names", len(s.Names))
	}
	for i, want := range map[int]string{2 * largestMost: "100 of 1801", largestMost + 1: "51 of 1801", largestMost: "", 1: ""} {
		if n := s.Names[ID{shop, fmt.Sprintf("<0.%d.0>", i)}]; n.name != want {
			t.Errorf("process %d: %+v", i, n)
		}
	}
	all = all[:2]
	r.surveyor = &fakeMemory{figures: map[int][]procname.Figures{shop.PID: all}}
	s, _ = r.read(t.Context(), []outcome.VM{shop}, outcome.GroupPID)
	if n := s.Names[ID{shop, "<0.2.0>"}]; len(s.Names) != 1 || n.name != "2 of 1801" {
		t.Errorf("%+v", s.Names)
	}
}

// Grouped by function, processes are added up. Processes with an unknown function are the rest.
func TestReadSurveyByFunction(t *testing.T) {
	memory := &fakeMemory{figures: map[int][]procname.Figures{shop.PID: processes(21)}}
	r := reading{surveyor: memory, noticed: make(map[outcome.VM]bool)}
	s, _ := r.read(t.Context(), []outcome.VM{shop}, outcome.GroupMFA)
	if odd := s.Rows[ID{shop, "f1"}]; odd.Processes != 10 || odd.Waiting != 100 || odd.Memory != 10000 || odd.Function != "m:f/1" || odd.Messages {
		t.Errorf("%+v", odd)
	}
	if len(s.Rows) != 2 || s.Rest.Processes != 3 || s.Rest.Waiting != 30 || s.Total.Waiting != 210 {
		t.Errorf("%d rows, rest %+v, total %+v", len(s.Rows), s.Rest, s.Total)
	}
}

// If a VM's memory cannot be read, one notice gives the reason, and the columns show that the
// data is unknown. A temporary failure gives no notice.
func TestSurveyUnknown(t *testing.T) {
	memory := &fakeMemory{
		figures: map[int][]procname.Figures{store.PID: processes(3)},
		err:     map[int]error{shop.PID: fmt.Errorf("%w: stripped", procname.ErrNoLayout)},
	}
	r := reading{surveyor: memory, noticed: make(map[outcome.VM]bool)}
	for round := range 3 {
		s, why := r.read(t.Context(), []outcome.VM{shop, store}, outcome.GroupPID)
		if len(s.Rows) != 3 || (len(why) == 1) != (round == 0) || round == 0 && !strings.Contains(why[0], "shop@host (pid 1801): waiting messages, memory, reductions and functions of processes are not known: ") {
			t.Errorf("round %d: %d rows, %q", round, len(s.Rows), why)
		}
	}
	for _, passing := range []error{procname.ErrStarting, guard.ErrNoAnswer} {
		memory.err[store.PID] = passing
		if _, why := r.read(t.Context(), []outcome.VM{store}, outcome.GroupPID); len(why) > 0 {
			t.Errorf("%v: %q", passing, why)
		}
	}
	none := new(Cells)
	for _, c := range []Column{ByWaiting, ByOldest, ByMemory, ByReductions, ByFunction, ByCPU, ByDirty} {
		if text := c.cell(none, new([kinds]time.Duration)); text != "-" {
			t.Errorf("%v: %q", c, text)
		}
	}
}

// In a window without a survey, older data is not a figure of the window. JSON has null, a table
// shows the age of the data, and the ages and growth of queues are unknown.
func TestWindowWithoutSurvey(t *testing.T) {
	m := NewModel(outcome.GroupPID, price.Limit{Share: price.DefaultShare})
	p := plan(Everything, outcome.GroupPID)
	m.Configure(p)
	queue := []load{{key: "<0.44.0>", pid: 44, waiting: 500, more: 500}}
	for n := range 3 {
		if err := see(m, p, n, queue, shop); err != nil {
			t.Fatal(err)
		}
	}
	if seen := rowOf(t, m.Table(), "<0.44.0>").Seen; seen.Stale || seen.Waiting != 1500 || !seen.Growing || seenFor(&seen) == nil {
		t.Fatalf("in a window with a survey: %+v", seen)
	}
	for n, late := range []bool{3: false, 4: true, 5: false} {
		if n < 3 {
			continue
		}
		if late { // its window ended while it was being made
			m.Survey(surveyAt(p, n-1, queue, shop))
		}
		if _, err := m.Add(batch(p, n, shop)); err != nil {
			t.Fatal(err)
		}
		table := m.Table()
		for name, seen := range map[string]Seen{"row": rowOf(t, table, "<0.44.0>").Seen, "total": table.Total.Seen} {
			if !seen.Stale || seen.Growing || seen.Aged || seenFor(&seen) != nil || !math.IsNaN(seen.age()) {
				t.Errorf("window %d, %s: %+v", n, name, seen)
			}
		}
		if text := printed(t, table); table.Stale < p.Window || !strings.Contains(text, "waiting, memory, reds/s and function: read "+figures.Delay(table.Stale)+" before the end of this window\n") {
			t.Errorf("window %d: %v\n%s", n, table.Stale, text)
		}
		if waits := m.live.windows[len(m.live.windows)-1].waiting; waits != nil {
			t.Errorf("window %d: the trend has %v", n, waits)
		}
	}
	if err := see(m, p, 6, queue, shop); err != nil {
		t.Fatal(err)
	}
	if table := m.Table(); table.Stale != 0 || rowOf(t, table, "<0.44.0>").Seen.Stale {
		t.Errorf("stale for %v after a survey", table.Stale)
	}
}

// The next survey begins as soon as allowed, shortly before the end of a window and never in the
// first half of one.
func TestBeforeEnd(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := outcome.Plan{From: rapid.Int64Range(0, 1e12).Draw(r, "begins"), Window: time.Duration(rapid.Int64Range(100e6, 10e9).Draw(r, "window"))}
		from := rapid.Int64Range(0, 2e12).Draw(r, "from")
		took := time.Duration(rapid.Int64Range(0, 1e9).Draw(r, "took"))
		due := beforeEnd(p, from, took)
		left := p.From - due // time left in the last window before the plan
		if due >= p.From {
			left = p.At(p.Number(due)).To - due
		}
		if due < from || left > int64(p.Window/2) || left < min(int64(2*took), int64(p.Window/2)) || left < int64(p.Window/10) {
			r.Fatalf("from %d: at %d, %d before the end of a window", from, due, left)
		}
		if from >= p.From && due-from > int64(p.Window) {
			r.Fatalf("from %d: at %d, a window is left out", from, due)
		}
	})
}

// Surveys take at most a twentieth of the time, plus saved time. A single long survey does not
// make top skip a window if the others are short.
func TestAllowance(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var a allowance
		now, begun, all := int64(1), int64(1), int64(0)
		for range rapid.IntRange(1, 50).Draw(r, "surveys") {
			if all*surveyShare > now-begun+surveyShare*int64(surveySaved) {
				r.Fatalf("%d of %d", all, now-begun)
			}
			took := rapid.Int64Range(0, 1e9).Draw(r, "took")
			free := a.survey(now, now+took)
			all += took
			if free < now+took {
				r.Fatalf("free at %d, and it ends at %d", free, now+took)
			}
			now = free + rapid.Int64Range(0, 2e9).Draw(r, "pause")
		}
	})
	var a allowance
	for n := range int64(20) {
		from, took := n*1e9+1, int64(5e6)
		if n == 10 {
			took = 150e6
		}
		if free := a.survey(from, from+took); free > from+1e9 {
			t.Errorf("survey %d: the next one is %v later", n, time.Duration(free-from))
		}
	}
}

// The operating system's figure covers the time between two readings, and is unknown without
// them.
func TestProcessors(t *testing.T) {
	used := map[int]time.Duration{shop.PID: 10 * time.Second, store.PID: time.Second}
	p := processors{of: func(pid int) (time.Duration, int, error) {
		u, ok := used[pid]
		if !ok {
			return 0, 0, errors.New("no such process")
		}
		return u, 4, nil
	}}
	vms := []outcome.VM{shop, store}
	if u := p.read(vms, 1e9); u.Known {
		t.Errorf("at first: %+v", u)
	}
	used[shop.PID] += time.Second
	used[store.PID] += time.Second / 2
	if u := p.read(vms, 2e9); u != (Used{Known: true, Share: 1.5, Processors: 4}) {
		t.Errorf("%+v", u)
	}
	delete(used, store.PID)
	if u := p.read(vms, 3e9); u.Known {
		t.Errorf("one has gone: %+v", u)
	}
	if u := p.read(vms[:1], 5e9); u != (Used{Known: true, Share: 0, Processors: 4}) {
		t.Errorf("%+v", u)
	}
}

// The processor time of this process is its used time, and grows.
func TestProcessorOf(t *testing.T) {
	before, n, err := ProcessorOf(os.Getpid())
	if err != nil || n < 1 || before <= 0 {
		t.Fatalf("%v, %d, error %v", before, n, err)
	}
	for after := before; after <= before; {
		if after, _, err = ProcessorOf(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := ProcessorOf(1 << 30); err == nil {
		t.Error("for a process that does not exist")
	}
}
