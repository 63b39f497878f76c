package ring

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
	"github.com/beamscope/beamscope/internal/sources/ledger"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// A gatedMemory is a ring whose memory does not answer while its gate is closed, and is gone when its
// process has ended.
type gatedMemory struct {
	*fakeRing
	gate  sync.RWMutex
	ended atomic.Bool
}

func (m *gatedMemory) ReadAt(data []byte, address int64) (int, error) {
	m.gate.RLock()
	defer m.gate.RUnlock()
	if m.ended.Load() {
		return 0, io.EOF
	}
	return m.fakeRing.ReadAt(data, address)
}

func (m *gatedMemory) WriteAt(data []byte, address int64) (int, error) {
	m.gate.RLock()
	defer m.gate.RUnlock()
	return m.fakeRing.WriteAt(data, address)
}

func (m *gatedMemory) Close() error { return nil }

// newFakeSource returns a source that reads rings, one for each user, with windows of 100 ms of the
// outcome "a" from now on. The PID of the VM of user n is n.
func newFakeSource(t *testing.T, rings ...*gatedMemory) *Source {
	t.Helper()
	s := newSource(Config{})
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel, s.next = cancel, s.now()
	var err error
	s.schedule, err = ledger.Schedule(nil).With(outcome.Plan{From: s.next, Window: 100 * time.Millisecond, Specs: []outcome.Spec{spec("a", time.Minute)}}, s.next, 0, nameOf)
	if err != nil {
		t.Fatal(err)
	}
	self, err := usdt.OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for user, m := range rings {
		exit, err := vm.VM{Process: self}.Watch()
		if err != nil {
			t.Fatal(err)
		}
		st := &station{vm: vm.VM{Process: usdt.Process{PID: user}, Account: user}, id: outcome.VM{PID: user}, exit: exit}
		s.vms[user] = st
		r, err := open(m, m.address, 0, s.now())
		if err != nil {
			t.Fatal(err)
		}
		s.follow(ctx, st, newObserved(st.id, user, r, m))
	}
	return s
}

// A stage collects the windows of a source. In each window, a span is in each ring.
type stage struct {
	*Source
	t     *testing.T
	rings []*gatedMemory
	n     uint64 // number of the next window
}

func newStage(t *testing.T, rings int) *stage {
	t.Helper()
	g := &stage{t: t}
	for range rings {
		m := &gatedMemory{fakeRing: newFakeRing(1, minLogSlots)}
		m.text(1, "a")
		g.rings = append(g.rings, m)
	}
	g.Source = newFakeSource(t, g.rings...)
	g.patience = 300 * time.Millisecond
	g.collect(nil) // the rings were found during the first window
	return g
}

// collect returns the counts of the next window by VM. It calls before directly before it collects.
func (g *stage) collect(before func()) []outcome.Counts {
	g.t.Helper()
	w := g.schedule[0].Plan.At(g.n)
	g.n++
	for _, m := range g.rings {
		m.end(0, m.start(0, 1, w.From+1), 1, w.From+2)
	}
	vmtest.WaitUntil(w.To)
	if before != nil {
		before()
	}
	b, err := g.Collect(g.t.Context(), w)
	if err != nil {
		g.t.Fatal(err)
	}
	return b.Counts
}

// close closes the source, and checks that no goroutine is left once all memory answers.
func (g *stage) close(answer func()) {
	g.t.Helper()
	if err := g.Close(); err != nil {
		g.t.Error(err)
	}
	answer()
	g.running.Wait()
	for _, st := range g.vms {
		if !st.reading.hasEnded() {
			g.t.Errorf("the ring of %v is still read", st.id)
		}
	}
}

// If the memory of a VM does not answer, its windows are not observed. It delays neither the
// windows of other VMs nor the end of the source.
func TestMemoryThatDoesNotAnswer(t *testing.T) {
	g := newStage(t, 2)
	silence := g.rings[0].gate.Lock
	for range 4 {
		counts := g.collect(silence)
		silence = nil
		if c := counts[0]; !c.Unobserved || c.Instances() != 0 {
			t.Errorf("window %d of the VM that does not answer: %+v", g.n-1, c)
		}
		if c := counts[1]; c.Unobserved || c.Successes != 1 {
			t.Errorf("window %d of the other VM: %+v", g.n-1, c)
		}
	}
	if st := g.Status(); st[0].Refused == "" || st[1].Refused != "" {
		t.Errorf("%+v", st)
	}
	g.close(g.rings[0].gate.Unlock)
}

// A batch names the users of its VMs, also of one whose last window it is.
func TestOwners(t *testing.T) {
	g := newStage(t, 2)
	g.rings[1].ended.Store(true)
	w := g.schedule[0].Plan.At(g.n)
	vmtest.WaitUntil(w.To)
	b, err := g.Collect(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	want := map[outcome.VM]string{{PID: 0}: "user 0", {PID: 1}: "user 1"}
	if diff := cmp.Diff(want, b.Owners); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	g.close(func() {})
}

// The status of a VM whose ring broke, or cannot be read, says why.
func TestStatusOfABrokenRing(t *testing.T) {
	g := newStage(t, 2)
	if c := g.collect(func() { g.rings[0].ended.Store(true) })[0]; !c.Unobserved {
		t.Errorf("the window in which it broke: %+v", c)
	}
	if st := g.Status(); !strings.Contains(st[0].Refused, "EOF") || st[1].Refused != "" {
		t.Errorf("broken: %+v", st)
	}
	g.close(func() {})
	g.vms[7] = &station{id: outcome.VM{PID: 7}, unread: "unsupported layout"}
	if st := g.Status(); st[2].Found || st[2].Refused != "unsupported layout" {
		t.Errorf("never read: %+v", st[2])
	}
}

// If the memory of a VM answers late, the delayed window is not observed, and the next ones are.
func TestMemoryThatAnswersLate(t *testing.T) {
	g := newStage(t, 1)
	if c := g.collect(g.rings[0].gate.Lock)[0]; !c.Unobserved || c.Instances() != 0 {
		t.Errorf("late: %+v", c)
	}
	g.patience = time.Minute
	if c := g.collect(g.rings[0].gate.Unlock)[0]; c.Unobserved || c.Successes != 1 {
		t.Errorf("in time again: %+v", c)
	}
	if st := g.Status(); st[0].Refused != "" {
		t.Errorf("%+v", st)
	}
	g.close(func() {})
}

// If a VM has ended and another one has its PID, the open spans of the first one are cut. That does not
// depend on when the other one is found.
func TestOpenSpansOfReplacedVM(t *testing.T) {
	self, err := usdt.OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, foundFirst := range []bool{true, false} {
		g := newStage(t, 1)
		old, m := g.vms[0], g.rings[0]
		delete(g.vms, 0)
		old.vm.Process = usdt.Process{PID: self.PID, StartTime: 1}
		g.vms[self.PID] = old
		g.collect(func() {
			for range 3 {
				m.start(0, 1, g.now())
			}
		})
		m.ended.Store(true)
		admit := func() { g.admit(t.Context(), []vm.VM{{Process: self, Node: "next"}}) }
		if foundFirst {
			admit()
		}
		var sum outcome.Counts
		for n := range 4 {
			for _, c := range g.collect(nil) {
				if c.VM == old.id {
					sum = sum.Add(c)
				}
			}
			if n == 0 && !foundFirst {
				admit()
			}
		}
		if sum.Loss != (outcome.Loss{Cut: 3}) || sum.Instances() != 0 || !sum.Unobserved {
			t.Errorf("the other VM is found first: %v: %+v", foundFirst, sum)
		}
		if st := g.Status(); len(st) != 1 || st[0].VM.Node != "next" || len(g.former) != 0 {
			t.Errorf("%+v, and %d VMs that ended", st, len(g.former))
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		g.running.Wait()
	}
}

// If a VM has the PID and the name of one that has ended, they look like one VM. Its windows are only
// observed if both were.
func TestCellsOfReplacedVM(t *testing.T) {
	id, other := outcome.VM{PID: 7}, outcome.VM{PID: 8}
	page := func(c outcome.Counts) []intake.Cell { return []intake.Cell{{Counts: c}} }
	before := outcome.Counts{VM: id, Bins: []uint64{0, 0}, Loss: outcome.Loss{Cut: 3}}
	after := outcome.Counts{VM: id, Bins: []uint64{1, 1}, Successes: 2, Starts: 2, Ends: 2}
	for _, seen := range []bool{true, false} {
		before.Unobserved = !seen
		want := outcome.Counts{VM: id, Bins: []uint64{1, 1}, Successes: 2, Starts: 2, Ends: 2, Loss: outcome.Loss{Cut: 3}}
		if !seen {
			want = outcome.Counts{VM: id, Bins: []uint64{0, 0}, Starts: 2, Ends: 2, Loss: outcome.Loss{Cut: 3, Missed: 2}, Unobserved: true}
		}
		got := merge([][]intake.Cell{page(before), page(after), page(outcome.Counts{VM: other})})
		if diff := cmp.Diff([][]intake.Cell{page(want), page(outcome.Counts{VM: other})}, got); diff != "" {
			t.Errorf("observed %v, -want +got:\n%s", seen, diff)
		}
	}
}

// A notice reports spans without a name, even if names are not discovered.
func TestNoticeOfSpansWithoutName(t *testing.T) {
	g := newStage(t, 1)
	g.Watch(t.Context())
	counts := g.collect(func() { g.rings[0].start(0, maxTexts-1, g.schedule[0].Plan.At(g.n-1).From+3) })
	if c := counts[0]; c.Unobserved || c.Successes != 1 { // the name of its spans is known
		t.Errorf("%+v", c)
	}
	if n := g.Watch(t.Context()); len(n) != 1 || !strings.Contains(n[0].Text, "some spans have no name") {
		t.Errorf("%+v", n)
	}
	g.close(func() {})
}

// The names of one user's spans leave those of another user to be discovered.
func TestNamesOfTwoUsers(t *testing.T) {
	s := &Source{names: make(map[int]map[string]bool)}
	one, two := &station{reading: &reading{user: 1}}, &station{reading: &reading{user: 2}}
	for i, test := range []struct {
		st   *station
		want bool
	}{{one, true}, {one, false}, {two, true}, {two, false}} {
		if got := s.discover(test.st, "checkout"); got != test.want {
			t.Errorf("call %d: new %v, want %v", i, got, test.want)
		}
	}
}

// If beamscope could not find out whether a VM has probes, the VM's windows count as not observed.
func TestUnknownVMIsNotObserved(t *testing.T) {
	w := outcome.Window{From: 1, To: 2}
	for _, test := range []struct {
		absence
		want bool
	}{
		{absence{}, false}, // found a moment ago
		{absence{unknown: true}, true},
		{absence{looked: true}, true},
		{absence{looked: true, until: 2}, false},
		{absence{looked: true, probes: true}, false},
		{absence{looked: true, probes: true, found: w.To - int64(searchGrace)}, false},
		{absence{looked: true, probes: true, found: w.To - int64(searchGrace) - 1}, true}, // its search is late
		{absence{found: w.To - int64(searchGrace) - 1}, true},
		{absence{looked: true, probes: true, found: w.To - int64(searchGrace) - 1, until: 1}, false},
	} {
		if got := test.hides(w); got != test.want {
			t.Errorf("%+v hides: %v", test.absence, got)
		}
	}
}

// Windows of VMs without a place are not observed. Beyond some VMs, one row stands for all others.
func TestUnplacedVMs(t *testing.T) {
	s := newSource(Config{})
	var vms []vm.VM
	for pid := range maxVMs/2 + maxUnplaced + 3 {
		process := usdt.Process{PID: 1 + pid, StartTime: 1}
		s.vms[1+pid] = &station{vm: vm.VM{Process: process, User: 1}, id: outcome.VM{PID: 1 + pid}}
		if vms = append(vms, s.vms[1+pid].vm); pid >= maxVMs/2 {
			delete(s.vms, 1+pid)
		}
	}
	schedule, err := ledger.Schedule(nil).With(outcome.Plan{Window: time.Second, Specs: []outcome.Spec{spec("a", time.Second)}}, 0, 0, nameOf)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.admit(t.Context(), vms)
		var got []outcome.VM
		for _, page := range s.absent(&schedule[0], outcome.Window{To: int64(time.Second)}) {
			if len(page) != 1 || !page[0].Counts.Unobserved {
				t.Errorf("%+v", page)
			}
			got = append(got, page[0].Counts.VM)
		}
		if len(got) != maxUnplaced+1 || got[0] != (outcome.VM{PID: 1 + maxVMs/2}) || got[maxUnplaced] != (outcome.VM{Node: crowd}) {
			t.Errorf("not observed: %v", got)
		}
	}
	s.admit(t.Context(), vms[:1])
	if pages := s.absent(&schedule[0], outcome.Window{To: int64(time.Second)}); len(pages) != 0 {
		t.Errorf("the others have ended: %v", pages)
	}
}

// If all places are taken, the VM of a user with few VMs gets that of a user with many. Users with as many
// as others do not displace each other.
func TestPlacesAreFair(t *testing.T) {
	s := &Source{vms: make(map[int]*station), notices: intake.NewNotices(func() int64 { return 0 })}
	self, err := usdt.OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	pid := 1
	add := func(user int) {
		exit, err := vm.VM{Process: self}.Watch()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = exit.Close() })
		s.vms[pid] = &station{vm: vm.VM{Process: usdt.Process{PID: pid, StartTime: uint64(pid)}, Account: user}, id: outcome.VM{PID: pid}, exit: exit}
		pid++
	}
	for range maxVMs / 2 {
		add(1)
		add(2)
	}
	if why := s.full(1); why == "" {
		t.Error("a user gets more than half of the places")
	}
	for n := range maxVMs / 3 {
		if why := s.full(3); why != "" {
			t.Fatalf("VM %d of another user: %s", n, why)
		}
		add(3)
	}
	users := s.places()
	if users[1]+users[2]+users[3] != maxVMs || users[1]-users[2] > 1 || users[2]-users[1] > 1 {
		t.Errorf("places %v", users)
	}
	if why := s.full(3); users[3] >= users[1]-1 && why == "" {
		t.Errorf("a user with %d VMs displaces one of those with %d and %d", users[3], users[1], users[2])
	}
	if s.vms[1] == nil || s.vms[2] == nil {
		t.Error("an old VM gave way to a new one")
	}
}

// A notice reports once for a VM that there is no room for classes of failures.
func TestClassesWithoutRoomAreNoted(t *testing.T) {
	s := &Source{notices: intake.NewNotices(func() int64 { return 0 })}
	for _, st := range []*station{{id: outcome.VM{PID: 7}}, {id: outcome.VM{PID: 8}}} {
		for _, unclassed := range []uint64{0, 3, 1} {
			s.note(st, &answer{unclassed: unclassed})
		}
	}
	notices := s.notices.Take()
	if len(notices) != 2 || !strings.Contains(notices[0].Text, "pid 7 has too many different classes of failures") ||
		!strings.Contains(notices[1].Text, "pid 8") {
		t.Errorf("%+v", notices)
	}
}
