package ring

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/usdt"
)

// A lyingMemory is a ring whose memory refuses each write, with another reason each time.
type lyingMemory struct {
	*fakeRing
	writes int
}

func (m *lyingMemory) WriteAt([]byte, int64) (int, error) {
	m.writes++
	return 0, fmt.Errorf("reason %d", m.writes)
}

func (m *lyingMemory) Close() error { return nil }

// stationOf adds a VM with a PID, whose process is this one.
func stationOf(t *testing.T, s *Source, pid int) *station {
	t.Helper()
	self, err := usdt.OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	exit, err := vm.VM{Process: self}.Watch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exit.Close() })
	st := &station{vm: vm.VM{Process: usdt.Process{PID: pid}}, id: outcome.VM{PID: pid}, exit: exit}
	s.vms[pid] = st
	return st
}

// A ring that cannot be read for another reason at each try gives one notice.
func TestNoticesOfFailingRing(t *testing.T) {
	s := newFakeSource(t)
	st := stationOf(t, s, 7)
	m := &lyingMemory{fakeRing: newFakeRing(1, minLogSlots)}
	for range 5 * 100 {
		r, err := open(m, m.address, 0, s.now())
		if err != nil {
			t.Fatal(err)
		}
		s.follow(t.Context(), st, newObserved(st.id, 7, r, m))
	}
	if got := s.notices.Take(); len(got) != 1 || !strings.Contains(got[0].Text, "spans of pid 7: ") {
		t.Errorf("%d notices: %+v", len(got), got)
	}
}

// A VM whose header changes all the time gives a notice for each kind of fault. Another VM gives its
// own, also one that gets the same PID later.
func TestNoticesOfChangingHeader(t *testing.T) {
	s := newFakeSource(t)
	m := newFakeRing(1, minLogSlots)
	for range 2 {
		st := stationOf(t, s, 7)
		total := 0
		for n := range 1000 {
			m.words[wordVersion] = uint64(100 + n)
			_, err := open(m, m.address, 0, 0)
			s.noteUnread(st, err)
			s.noteUnread(st, fmt.Errorf("%w: %d bytes", ErrTooLarge, n))
			s.noteUnread(st, fmt.Errorf("file %d: %w", n, fs.ErrPermission))
			s.noteUnread(st, fmt.Errorf("reason %d", n))
			total += len(s.notices.Take())
		}
		if total != 4 {
			t.Errorf("%d notices", total)
		}
		s.drop(st)
	}
}

// A VM that loses records all the time gives a notice a minute. Together they give the number.
func TestNoticesOfLostRecords(t *testing.T) {
	s := newFakeSource(t)
	now := s.now()
	s.now = func() int64 { return now }
	st := stationOf(t, s, 7)
	st.reading = &reading{}
	var all []outcome.Notice
	note := func(lost uint64) {
		s.note(st, &answer{lost: lost})
		all = append(all, s.notices.Take()...)
	}
	for n := range uint64(900) {
		note(1000 + n)
		now += int64(100 * time.Millisecond)
	}
	now += int64(time.Minute)
	note(0)
	var sum uint64
	for _, n := range all {
		var lost uint64
		_, after, _ := strings.Cut(n.Text, "read it: ")
		if _, err := fmt.Sscan(after, &lost); err != nil {
			t.Errorf("%q: %v", n.Text, err)
		}
		sum += lost
	}
	if want := uint64(900*1000 + 900*899/2); len(all) != 3 || sum != want {
		t.Errorf("%d notices of %d records, want 3 of %d", len(all), sum, want)
	}
}

// However many users have too many VMs, a limited number of them is remembered.
func TestNoticesOfManyUsers(t *testing.T) {
	s := newFakeSource(t)
	total := 0
	for user := range 3 * maxToldFull {
		s.noteFull(fmt.Sprintf("more than 32 VMs of user %d", user%(2*maxToldFull)))
		total += len(s.notices.Take())
	}
	if total != maxToldFull || len(s.toldFull) != maxToldFull {
		t.Errorf("%d notices, %d remembered", total, len(s.toldFull))
	}
}

// A notice about an outcome that needs eBPF is given once while the outcome is in the plan, and is
// forgotten with it.
func TestNoticesOfPlan(t *testing.T) {
	s := newFakeSource(t)
	for n := range 300 {
		p := s.schedule[len(s.schedule)-1].Plan
		p.From = p.At(1).From
		explained := spec(fmt.Sprintf("span %d", n/100), p.Window)
		explained.Explain = true
		p.Specs = []outcome.Spec{explained}
		if err := s.Plan(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if got := s.notices.Take(); len(got) != 1 && n%100 == 0 || len(got) != 0 && n%100 != 0 {
			t.Fatalf("plan %d: %+v", n, got)
		}
		s.schedule = s.schedule[len(s.schedule)-1:]
	}
	if len(s.toldSpecs) > 2 {
		t.Errorf("%d are remembered", len(s.toldSpecs))
	}
}
