package sampled

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/beam/procname"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/budget"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/usdt"
)

// ErrEnded means that there were VMs and none is left.
var ErrEnded = errors.New("no VM is left")

// DefaultRate is the number of samples a second on each processor. It is not a divisor of a
// frequency that programs usually have.
const DefaultRate = 99

// MaxRate is the largest rate.
const MaxRate = 1000

// The maximum number of sampled VMs, in all and of one user. Any user can start processes that look
// like VMs.
const (
	maxVMs     = 64
	maxOfAUser = 16
)

const (
	// lookEvery is the interval between searches for VMs.
	lookEvery = 3 * time.Second

	// grace is the time after the end of a window at which its samples are read. By then, programs
	// that had begun to count have ended.
	grace = 10 * time.Millisecond

	// leadTime is the time from attaching to the beginning of the first window, which the program
	// must know before.
	leadTime = 10 * time.Millisecond
)

// A Config configures a [Source].
type Config struct {
	Target vm.Target
	Window time.Duration
	Rate   int // samples a second on each processor, 1 to [MaxRate]
}

// A Source takes samples of VMs, window by window. One goroutine uses it.
type Source struct {
	config  Config
	sampler *bpf.Sampler
	plan    outcome.Plan // of the windows
	next    uint64       // number of the window that is read next

	finder   vm.Finder
	guard    guard.Guard
	layouts  procname.Layouts
	machines map[usdt.Process]*machine
	budgets  map[int]*budget.Budget // for reading code, by user
	perEvent time.Duration          // that a sample costs; 0: not known
	own      time.Duration          // processor time of this process, as last read
	notes    []outcome.Notice
	seen     bool // there was a VM
	beyond   int  // number of VMs beyond the maximum, at the last search

	looking sync.WaitGroup
	stop    context.CancelFunc
	found   chan look // what VMs there are, time after time
}

// A look is the result of one search for VMs.
type look struct {
	vms []vm.VM
	err error
}

// Open begins to take samples of the present VMs, and of VMs that start later. The error wraps
// [vm.ErrNone] if there are none, and the errors of [bpf.NewSampler]. The caller closes the source.
func Open(ctx context.Context, c Config) (s *Source, err error) {
	vms, _, err := new(vm.Finder).Find(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	perEvent, notMeasured := bpf.MeasureSample()
	if notMeasured != nil && ctx.Err() == nil && errors.Is(notMeasured, bpf.ErrPermission) {
		return nil, notMeasured
	}
	sampler, err := bpf.NewSampler(bpf.SamplerOptions{Rate: c.Rate, Window: int64(c.Window)})
	if err != nil {
		return nil, err
	}
	looks, stop := context.WithCancel(context.WithoutCancel(ctx))
	s = &Source{
		config: c, sampler: sampler, machines: make(map[usdt.Process]*machine),
		budgets:  make(map[int]*budget.Budget),
		layouts:  procname.Layouts{Symbols: c.Target.Symbols},
		perEvent: perEvent, own: processorTime(), stop: stop, found: make(chan look),
	}
	if notMeasured != nil {
		s.note("%v", notMeasured)
	}
	s.startSampling(ctx, look{vms: vms})
	s.plan = outcome.Plan{From: monotonic.Now() + int64(leadTime), Window: c.Window}
	if err := sampler.Begin(s.plan.From); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.looking.Go(func() { s.look(looks) })
	return s, nil
}

// Close closes the source.
func (s *Source) Close() error {
	s.stop()
	s.looking.Wait()
	var errs []error
	for _, m := range s.machines {
		errs = append(errs, m.close())
	}
	return errors.Join(append(errs, s.sampler.Close())...)
}

// look looks for VMs until the context is done.
func (s *Source) look(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
		vms, _, err := s.finder.Find(ctx, s.config.Target)
		select {
		case <-ctx.Done():
			return
		case s.found <- look{vms, err}:
		}
	}
}

// note adds a notice to the next window.
func (s *Source) note(format string, args ...any) {
	s.notes = append(s.notes, outcome.Notice{Time: monotonic.Now(), Text: fmt.Sprintf(format, args...)})
}

// startSampling starts sampling the VMs that were found.
func (s *Source) startSampling(ctx context.Context, l look) {
	if l.err != nil {
		if !errors.Is(l.err, vm.ErrNone) {
			s.note("%v", l.err)
		}
		return
	}
	ofUser := make(map[int]int)
	for _, m := range s.machines {
		ofUser[m.vm.Account]++
	}
	var wanted []vm.VM
	beyond := 0
	for _, v := range l.vms {
		switch {
		case s.machines[v.Process] != nil:
		case len(s.machines)+len(wanted) >= maxVMs, ofUser[v.Account] >= maxOfAUser:
			beyond++
		default:
			wanted = append(wanted, v)
			ofUser[v.Account]++
		}
	}
	opened, errs := make([]*machine, len(wanted)), make([]error, len(wanted))
	var opening sync.WaitGroup // in parallel, since a VM may take long to answer
	for i, v := range wanted {
		opening.Go(func() { opened[i], errs[i] = newMachine(ctx, v, &s.guard, &s.layouts) })
	}
	opening.Wait()
	for i, m := range opened {
		err := errs[i]
		if err == nil {
			err = s.begin(m)
		}
		if err != nil && ctx.Err() == nil {
			s.note("pid %d: %v", wanted[i].PID(), err)
		}
	}
	if beyond > 0 && beyond != s.beyond {
		s.note("%d VMs are not sampled: at most %d are, and at most %d of each user", beyond, maxVMs, maxOfAUser)
	}
	s.beyond = beyond
}

// begin starts sampling a VM. A previous VM with the same pid is forgotten.
func (s *Source) begin(m *machine) error {
	err := s.forget(m.id.PID)
	if err == nil {
		err = s.sampler.Add(m.id.PID, m.data)
	}
	if err != nil {
		return errors.Join(err, m.close())
	}
	s.machines[m.vm.Process] = m
	s.budgetOf(m).Spend(m.used)
	s.seen = true
	return nil
}

// Next returns the next window, when it is over. The error is [ErrEnded] if no VM is left, and the
// context's cause if the context ends before.
func (s *Source) Next(ctx context.Context) (*Window, error) {
	if s.seen && len(s.machines) == 0 {
		return nil, ErrEnded
	}
	over := s.plan.At(s.next)
	due := time.NewTimer(time.Duration(over.To + int64(grace) - monotonic.Now()))
	defer due.Stop()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case l := <-s.found:
			s.startSampling(ctx, l)
		case <-due.C:
			waiting = false
		}
	}
	w := &Window{Window: over, Time: monotonic.Wall(over.To), Processors: s.sampler.Processors()}
	samples, err := s.sampler.Read(s.next, monotonic.Now())
	s.next++
	switch {
	case errors.Is(err, bpf.ErrStale):
		w.Stale = true
		s.note("a window was read too late: nothing is known of it")
	case err != nil:
		return nil, err
	default:
		w.Taken = samples.Taken
		w.Missing = missing(samples.Taken, s.config.Rate, w.Processors, s.config.Window)
		s.attribute(ctx, w, samples)
	}
	for _, m := range s.machines {
		w.VMs = append(w.VMs, m.id)
	}
	slices.SortFunc(w.VMs, func(a, b outcome.VM) int { return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Node, b.Node)) })
	if err := s.leave(); err != nil {
		return nil, err
	}
	own := processorTime()
	w.Cost.PerEvent, w.Cost.Collector, s.own = s.perEvent, own-s.own, own
	w.Notices, s.notes = s.notes, nil
	return w, nil
}

// missing returns the number of samples that were due in a window and were not taken, such as on
// idle processors. The processors sample at different times, so each may have one sample more or
// less.
func missing(taken uint64, rate, processors int, window time.Duration) uint64 {
	due := float64(rate) * window.Seconds() * float64(processors)
	if n := due - float64(taken); n > float64(processors) {
		return uint64(n)
	}
	return 0
}

// attribute makes the cells of a window.
func (s *Source) attribute(ctx context.Context, w *Window, all bpf.Samples) {
	samples := make(map[int][]bpf.Sample)
	for _, sample := range all.Samples {
		samples[sample.PID] = append(samples[sample.PID], sample)
		w.Cost.Events += sample.Count
	}
	more := s.refresh(ctx)
	for _, m := range s.machines {
		pid := m.id.PID
		w.Cost.Events += all.NoRoom[pid]
		cells := m.cells(m.id, samples[pid], all.NoRoom[pid])
		m.name(cells)
		w.Cells = append(w.Cells, cells...)
		for _, text := range m.notices() {
			s.note("%s", text)
		}
		if more[m] {
			if err := s.sampler.Add(pid, m.data); err != nil {
				s.note("%v", err)
			}
		}
	}
}

// refresh reads the code of all VMs, as far as the budgets of their users allow. It returns the VMs
// with new data for the sampler.
func (s *Source) refresh(ctx context.Context) map[*machine]bool {
	var reading sync.WaitGroup
	found := make(map[*machine]*bool)
	now := monotonic.Now()
	for _, m := range s.machines {
		if !s.budgetOf(m).Allows(now) {
			m.skip()
			continue
		}
		more := new(bool)
		found[m] = more
		reading.Go(func() { *more = m.refresh(ctx) })
	}
	reading.Wait()
	all := make(map[*machine]bool)
	for m, more := range found {
		s.budgetOf(m).Spend(m.used)
		all[m] = *more
	}
	s.shrink()
	return all
}

// budgetOf returns the budget of a VM's user.
func (s *Source) budgetOf(m *machine) *budget.Budget {
	b := s.budgets[m.vm.Account]
	if b == nil {
		b = budget.New(budgetShare, budgetBurst, monotonic.Now())
		s.budgets[m.vm.Account] = b
	}
	return b
}

// shrink drops the code of a user's VMs, the largest first, while they have too many functions.
func (s *Source) shrink() {
	for user := range s.budgets {
		var theirs []*machine
		var sizes []int
		for _, m := range s.machines {
			if m.vm.Account == user && m.reader != nil && !m.silent {
				theirs, sizes = append(theirs, m), append(sizes, m.after.Len())
			}
		}
		for at := largest(sizes, maxFunctions); at >= 0; at = largest(sizes, maxFunctions) {
			if err := theirs[at].drop(); err != nil {
				s.note("%v", err)
			}
			sizes[at] = 0
		}
	}
}

// forget stops sampling the VM that previously had a pid.
func (s *Source) forget(pid int) error {
	for p, m := range s.machines {
		if m.id.PID == pid {
			delete(s.machines, p)
			return errors.Join(s.sampler.Remove(pid), m.close())
		}
	}
	return nil
}

// leave stops sampling VMs that have ended.
func (s *Source) leave() error {
	for p, m := range s.machines {
		if !m.ended() {
			continue
		}
		delete(s.machines, p)
		if err := errors.Join(s.sampler.Remove(m.id.PID), m.close()); err != nil {
			return err
		}
		s.note("%s has ended", m.id)
	}
	return nil
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
