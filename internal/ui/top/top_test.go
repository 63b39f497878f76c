package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/beam/procname"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
)

// A fakeSource delivers the data of the shop for any plan. One goroutine calls its methods.
type fakeSource struct {
	plans  []outcome.Plan
	vms    func(n int) []outcome.VM            // in window n
	change func(n int, b *outcome.Batch) error // changes the batch of window n
	n      int
	closed bool
	refuse error // error for all plans except the first
	most   int   // limit on the specs of the first plan; 0: none
}

func (s *fakeSource) Plan(_ context.Context, p outcome.Plan) error {
	if s.refuse != nil {
		return s.refuse
	}
	s.plans = append(s.plans, p)
	return nil
}

func (s *fakeSource) Collect(_ context.Context, w outcome.Window) (outcome.Batch, error) {
	p := s.plans[0]
	for _, next := range s.plans {
		if next.From <= w.From {
			p = next
		}
	}
	vms := []outcome.VM{shop}
	if s.vms != nil {
		vms = s.vms(s.n)
	}
	b := batch(p, int(p.Number(w.From)), vms...)
	if len(vms) == 0 {
		for _, spec := range p.Specs {
			b.Counts = append(b.Counts, outcome.Counts{Outcome: spec.Name})
		}
	}
	b.Cost = outcome.Cost{Events: 10, PerEvent: time.Microsecond}
	var err error
	if s.change != nil {
		err = s.change(s.n, b)
	}
	s.n++
	return *b, err
}

// Status returns that the shop is observed, and that another VM is not.
func (*fakeSource) Status() []outcome.VMStatus {
	return []outcome.VMStatus{{VM: shop}, {VM: store, Refused: "no probes"}}
}

func (*fakeSource) Watch(context.Context) []outcome.Notice { return nil }

func (s *fakeSource) Close() error {
	s.closed = true
	return nil
}

// An output contains the tables and notices of a Top.
type output struct {
	tables  []*Table
	notices []string
}

const testWindow = 20 * time.Millisecond

// open opens a Top on a source, with short windows.
func open(t *testing.T, s *fakeSource) (*Top, *output) {
	t.Helper()
	before := goleak.IgnoreCurrent() // of screens of other tests that ended while they were drawing
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	said := &output{}
	if s.most == 0 {
		s.most = int(Everything)
	}
	x, err := Open(t.Context(), Options{
		Window: testWindow, By: outcome.GroupPID, Sort: ByCPU, Limit: price.Limit{Share: price.DefaultShare},
		Source: func(_ context.Context, p outcome.Plan) (outcome.Source, error) {
			if len(p.Specs) > s.most {
				return nil, fmt.Errorf("pid 1: %w: erts_schedule", bpf.ErrNoProbe)
			}
			s.plans = append(s.plans, p)
			return s, nil
		},
		Tabled: func(t *Table) error {
			said.tables = append(said.tables, t)
			return nil
		},
		Noticed: func(n outcome.Notice) { said.notices = append(said.notices, n.Text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	x.model.guard.Patience = 2 * testWindow
	t.Cleanup(func() {
		if err := x.Close(); err != nil || !s.closed {
			t.Errorf("close: error %v, closed: %v", err, s.closed)
		}
	})
	return x, said
}

// levels returns the levels of tables, without repetitions in a row.
func levels(tables []*Table) []Level {
	var all []Level
	for _, t := range tables {
		all = append(all, t.Level)
	}
	return slices.Compact(all)
}

// Top requests less and less from a source that costs too much, and finally closes it.
func TestFallsBack(t *testing.T) {
	s := &fakeSource{change: func(_ int, b *outcome.Batch) error {
		b.Cost.Events = 3000 // in 20 ms: 15 % of a core
		return nil
	}}
	x, said := open(t, s)
	err := x.Run(t.Context(), 0)
	if want := "too many events, even of gc alone: 150k events/s = 15.0% of a core, limit 10.0%. Detached; --rate allows more"; !errors.Is(err, ErrLimit) || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	if got := levels(said.tables); !slices.Equal(got, []Level{3, 2, 1}) {
		t.Errorf("levels %v", got)
	}
	if len(said.notices) != 2 || !strings.HasPrefix(said.notices[0], "gave up run: 150k") || !strings.HasPrefix(said.notices[1], "gave up mailbox: 150k") {
		t.Errorf("notices %q", said.notices)
	}
	var planned []string
	for _, p := range s.plans {
		names := ""
		for _, spec := range p.Specs {
			names += spec.Name + "/" + spec.Group + " "
		}
		planned = append(planned, names)
	}
	if want := []string{"gc/pid mailbox/pid run/pid ", "gc/pid mailbox/pid ", "gc/pid "}; !slices.Equal(planned, want) {
		t.Errorf("plans %q", planned)
	}
}

// The user can request what was given up again, and another kind of rows.
func TestRequestAgain(t *testing.T) {
	s := &fakeSource{}
	s.change = func(n int, b *outcome.Batch) error {
		if n < 3 {
			b.Cost.Events = 3000
		}
		return nil
	}
	x, said := open(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	inner := x.opts.Tabled
	x.opts.Tabled = func(table *Table) error {
		if table.Level == 2 {
			go x.Do(func(m *Model) {
				m.Retry()
				m.GroupBy(outcome.GroupMFA)
			})
		}
		if table.By == outcome.GroupMFA {
			cancel()
		}
		return inner(table)
	}
	if err := x.Run(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if got := levels(said.tables); !slices.Equal(got, []Level{3, 2, 3}) {
		t.Errorf("levels %v", got)
	}
	if last := said.tables[len(said.tables)-1]; last.By != outcome.GroupMFA || last.GaveUp != "" {
		t.Errorf("by %s, %q", last.By, last.GaveUp)
	}
}

// If a VM has no probes for run time, the other kinds are observed, with a notice, and run time
// is not requested again.
func TestWithoutRunProbes(t *testing.T) {
	s := &fakeSource{most: int(Run)}
	x, said := open(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	inner := x.opts.Tabled
	x.opts.Tabled = func(table *Table) error {
		if len(said.tables) == 0 {
			x.Do((*Model).Retry)
		} else {
			cancel()
		}
		return inner(table)
	}
	if err := x.Run(ctx, 0); err != nil {
		t.Fatal(err)
	}
	const why = "pid 1: no such probe: erts_schedule"
	if want := []string{"without run: " + why}; !slices.Equal(said.notices, want) {
		t.Errorf("notices %q, want %q", said.notices, want)
	}
	if len(s.plans) != 1 || len(s.plans[0].Specs) != int(Run) {
		t.Errorf("plans %+v", s.plans)
	}
	table := said.tables[len(said.tables)-1]
	if text, reason := table.givenUpText(); text != "without run" || reason != why || table.Most != table.Level || table.Sort != ByGC {
		t.Errorf("%q: %q, level %d of %d, sorted by %v", text, reason, table.Level, table.Most, table.Sort)
	}
}

// If the other probes are missing too, Open returns the error.
func TestWithoutProbes(t *testing.T) {
	_, err := Open(t.Context(), Options{
		Window: testWindow, By: outcome.GroupPID,
		Source: func(context.Context, outcome.Plan) (outcome.Source, error) { return nil, bpf.ErrNoProbe },
	})
	if !errors.Is(err, bpf.ErrNoProbe) {
		t.Errorf("error %v", err)
	}
}

// A plan that the source refuses changes nothing, and a notice reports it.
func TestRefused(t *testing.T) {
	s := &fakeSource{refuse: errors.New("no room")}
	x, said := open(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	inner := x.opts.Noticed
	x.opts.Noticed = func(n outcome.Notice) {
		inner(n)
		cancel()
	}
	x.Do(func(m *Model) { m.GroupBy(outcome.GroupMFA) })
	if err := x.Run(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if len(said.notices) != 1 || said.notices[0] != "observation continues unchanged: no room" {
		t.Errorf("notices %q", said.notices)
	}
	if _, by := x.model.Wanted(); by != outcome.GroupPID {
		t.Errorf("by %s is still wanted", by)
	}
}

// Top ends when no VM is left. Before the first VM it waits.
func TestNoVMLeft(t *testing.T) {
	s := &fakeSource{vms: func(n int) []outcome.VM {
		if n < 2 || n > 4 {
			return nil
		}
		return []outcome.VM{shop}
	}}
	x, said := open(t, s)
	if err := x.Run(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if s.n != 6 || !slices.Contains(said.notices, "no VM is left") {
		t.Errorf("ended after window %d, notices %q", s.n, said.notices)
	}
}

// The end of the only VM ends Top too.
func TestSourceEnds(t *testing.T) {
	s := &fakeSource{change: func(n int, _ *outcome.Batch) error {
		if n == 2 {
			return fmt.Errorf("pid 1: %w", outcome.ErrEnded)
		}
		return nil
	}}
	x, said := open(t, s)
	if err := x.Run(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if len(said.tables) != 3 {
		t.Errorf("%d tables, want 3", len(said.tables))
	}
}

// Windows before attaching are not shown, and do not count against the limit.
func TestAttachesLate(t *testing.T) {
	s := &fakeSource{change: func(n int, b *outcome.Batch) error {
		for i := range b.Counts {
			b.Counts[i].Unobserved = n < 3
		}
		return nil
	}}
	x, said := open(t, s)
	if err := x.Run(t.Context(), 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if s.n != 8 || len(said.tables) != 5 || said.tables[0].Partial {
		t.Errorf("%d windows, %d tables, want 8 and 5", s.n, len(said.tables))
	}
}

// The first table already has the figures of the operating system and of the VM's memory.
func TestFirstTable(t *testing.T) {
	x, said := open(t, &fakeSource{})
	var used time.Duration
	x.processors.of = func(int) (time.Duration, int, error) {
		used += time.Millisecond
		return used, 4, nil
	}
	x.opts.Surveyor = &fakeMemory{figures: map[int][]procname.Figures{shop.PID: {{Number: 44, Waiting: 7}}}}
	if err := x.Run(t.Context(), testWindow); err != nil {
		t.Fatal(err)
	}
	first := said.tables[0]
	if !first.Used.Known || first.Used.Share <= 0 || first.Used.Processors != 4 {
		t.Errorf("processors: %+v", first.Used)
	}
	if seen := first.Total.Seen; !seen.Known || seen.Waiting != 7 {
		t.Errorf("memory: %+v", seen)
	}
}

// An error in writing a table ends Top.
func TestWriteFails(t *testing.T) {
	x, _ := open(t, &fakeSource{})
	broken := errors.New("broken pipe")
	x.opts.Tabled = func(*Table) error { return broken }
	if err := x.Run(t.Context(), 0); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}
