// Package ring observes spans that the Erlang application beamscope records in the memory of
// its VM: no probe fires, nothing is built into the VM, and no eBPF is needed.
//
// The application keeps an array of words with a ring of records for each scheduler. A
// [Source] finds the array in the VM's memory, and writes one word of it: until when it reads,
// which is its lease, and which spans it wants. It reads the records some times in a second,
// pairs starts and ends, and counts instances by outcome and window. When a collector dies,
// its lease runs out within about a second, and spans fall silent.
//
// # Exactness
//
// A record counts where all of its words are of the lap of the ring in which its slot was
// taken. Slots whose record is not whole yet are looked at again. An end takes its slot before
// it reads the clock, so a reader that has seen all slots taken up to some time knows of all
// ends up to then. Only then a span times out that has none. Where a ring was filled before it
// was read, the records that were overwritten are counted by their slots: spans that may have
// lost their end there are counted as missed where they reach dMax, never as a timeout.
//
// # Counts
//
// Starts and Ends are the records of a window. Orphans are ends whose start was recorded
// before the ring was found; Lates are ends of spans that had ended. Instances have the ID of
// their span, which is unique within the VM, that of the parent where it is in the ring too,
// and the process that started them.
package ring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/guard"
	"github.com/beamscope/beamscope/internal/intake"
	"github.com/beamscope/beamscope/internal/ledger"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/usdt"
)

const (
	// busyPeriod and idlePeriod are how often a ring is read: while there is something in
	// it, and while there was nothing the last time.
	busyPeriod = 10 * time.Millisecond
	idlePeriod = 20 * time.Millisecond

	// searchPeriod is how often rings are looked for in VMs that have none yet. VMs are looked
	// for as often or, where programs in the kernel see most spans, every kernelPeriod: to look
	// at all processes takes milliseconds.
	searchPeriod = time.Second
	kernelPeriod = 3 * time.Second

	// searchPatience bounds a look at the places where the VM puts large blocks, and
	// scanPatience a look at all of its memory. firstSearch bounds how long [New] waits for
	// the first of them.
	searchPatience = 2 * time.Second
	scanPatience   = 30 * time.Second
	firstSearch    = 2 * time.Second

	// firstGlance and firstScan are when the likely places and all of a VM's memory are
	// looked at again; the time until the next time is four times as long each time, up to
	// lastGlance and lastScan. Memory that is new is looked at each time.
	firstGlance = searchPeriod
	lastGlance  = 30 * time.Second
	firstScan   = 3 * time.Second
	lastScan    = 5 * time.Minute

	// turnPatience is how long a window waits for a VM whose memory does not answer.
	turnPatience = 2 * time.Second

	// maxVMs bounds the VMs that are read, and maxNames the names that are discovered in the
	// VMs of each user.
	maxVMs   = 64
	maxNames = 1024
)

// ErrPlan says that a plan cannot be followed.
var ErrPlan = ledger.ErrPlan

var errClosed = fmt.Errorf("closed: %w", outcome.ErrEnded)

// A Config describes a [Source].
type Config struct {
	Target vm.Target
	Plan   outcome.Plan // the first; each spec has a Span

	// Discover has the names of spans noted that no spec of the plan has, for
	// [Source.Discovered].
	Discover bool

	// Kernel says that programs in the kernel observe the same outcomes by the VMs' probes.
	// Then spans that only these programs can follow fire the probes and are not recorded: spans
	// that are explained, grouped, or fail when their process exits.
	Kernel bool
}

// A Source reads the rings of VMs. The methods of [outcome.Source] and [outcome.Discoverer]
// are called from one goroutine, Status from any.
type Source struct {
	cfg     Config
	now     func() int64
	finder  vm.Finder
	guard   guard.Guard
	budget  *intake.Budget
	notices *intake.Notices
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	schedule ledger.Schedule
	next     int64 // where the window begins that is collected next
	vms      map[int]*station
	names    map[int]map[string]bool // that were discovered, by user
	seen     map[string]bool         // what was said once
}

// A station is a VM with what there is of its ring.
type station struct {
	vm       vm.VM
	id       outcome.VM
	exit     *vm.Exit
	observed *observed // nil until its ring was found
	stuck    bool      // its memory does not answer
	stopped  string    // why nothing happens in it, "" where it runs
	ended    bool

	// Of the goroutine that searches.
	glances, scans schedule
	known          []usdt.Range // of memory that was looked at
}

// A schedule says when something is done again that is done more and more rarely.
type schedule struct {
	next   int64 // nanoseconds of CLOCK_MONOTONIC
	period time.Duration
}

// due reports whether it is time to, and notes that it is done then.
func (s *schedule) due(now int64, longest time.Duration) bool {
	if now < s.next {
		return false
	}
	s.next, s.period = now+int64(s.period), min(4*s.period, longest)
	return true
}

var (
	_ outcome.Source     = (*Source)(nil)
	_ outcome.Discoverer = (*Source)(nil)
)

// New looks for VMs and their rings, for two seconds at most. An error wraps [ErrPlan] where
// the plan cannot be followed, and [vm.ErrNone] where there is no VM that the target means.
// A VM in which no span has started has no ring yet: it is found when it has. The caller
// closes the source.
func New(ctx context.Context, cfg Config) (*Source, error) {
	s := &Source{
		cfg:     cfg,
		now:     monotonic.Now,
		budget:  intake.NewBudget(intake.MaxKept),
		notices: intake.NewNotices(monotonic.Now),
		next:    cfg.Plan.From,
		vms:     make(map[int]*station),
		names:   make(map[int]map[string]bool),
		seen:    make(map[string]bool),
	}
	cfg.Plan.Specs = slices.Clone(cfg.Plan.Specs)
	var err error
	if s.schedule, err = ledger.Schedule(nil).With(cfg.Plan, cfg.Plan.From, nameOf); err != nil {
		return nil, err
	}
	s.noteKernel()
	vms, _, err := s.finder.Find(ctx, cfg.Target)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	first := make(chan struct{})
	s.running.Go(func() { s.search(running, vms, first) })
	select {
	case <-first:
	case <-time.After(firstSearch):
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), s.Close())
	}
	return s, nil
}

// nameOf is a [ledger.Namer].
func nameOf(s outcome.Spec) (string, error) {
	if s.Span == "" {
		return "", errors.New("its instances are no spans")
	}
	return s.Span, nil
}

// control returns what the programs are to do by the schedule.
func (s *Source) control() control {
	c := control{sample: 0xffff}
	for _, e := range s.schedule {
		if s.cfg.Kernel && slices.ContainsFunc(e.Plan.Specs, needsKernel) {
			c.explain = 0xffff
		}
	}
	return c
}

// needsKernel reports whether only programs in the kernel can observe an outcome in full.
func needsKernel(s outcome.Spec) bool { return s.Explain || s.ExitFails || s.Group != "" }

// noteKernel says what of the plan cannot be had.
func (s *Source) noteKernel() {
	if s.cfg.Kernel {
		return
	}
	for _, spec := range s.schedule.Specs() {
		for what, wanted := range map[string]bool{
			"are not explained": spec.Explain, "do not fail when their process exits": spec.ExitFails, "are not grouped": spec.Group != "",
		} {
			if wanted {
				s.once("spans of %s %s: that needs eBPF and a VM with probes", spec.Name, what)
			}
		}
	}
}

// once adds a notice that is given once.
func (s *Source) once(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !s.seen[text] {
		s.seen[text] = true
		s.notices.Add("%s", text)
	}
}

// search looks for VMs and their rings until the context is done. It closes first when it has
// looked once.
func (s *Source) search(ctx context.Context, vms []vm.VM, first chan<- struct{}) {
	looked := s.now() // when VMs were looked for
	for {
		s.admit(ctx, vms)
		vms = nil // they may end at any time
		for _, st := range s.searched() {
			s.searchOne(ctx, st)
		}
		s.noteStopped()
		if first != nil {
			close(first)
			first = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(searchPeriod):
		}
		if s.cfg.Kernel && s.now()-looked < int64(kernelPeriod) {
			continue
		}
		looked = s.now()
		found, _, err := s.finder.Find(ctx, s.cfg.Target)
		if err != nil && !errors.Is(err, vm.ErrNone) && ctx.Err() == nil {
			s.notices.Add("%v", err)
			continue
		}
		vms = found
	}
}

// admit notes VMs that are new.
func (s *Source) admit(_ context.Context, vms []vm.VM) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range vms {
		if st := s.vms[v.PID()]; st != nil && st.vm.Process == v.Process {
			continue
		}
		if why := s.full(v.User); why != "" {
			s.once("%s: the spans of those that came later are not read", why)
			continue
		}
		exit, err := v.Watch()
		if err != nil {
			continue // it is gone
		}
		if old := s.vms[v.PID()]; old != nil {
			s.drop(old)
		}
		s.vms[v.PID()] = &station{vm: v, id: outcome.VM{PID: v.PID(), Node: v.Node}, exit: exit,
			glances: schedule{s.now(), firstGlance}, scans: schedule{s.now() + int64(firstScan), firstScan}}
	}
}

// full says why there is no room for another VM of a user, "" where there is. Any user can start
// many, so nobody gets more than half of the room.
func (s *Source) full(user int) string {
	n := 0
	for _, st := range s.vms {
		if st.vm.User == user {
			n++
		}
	}
	switch {
	case n >= maxVMs/2:
		return fmt.Sprintf("more than %d VMs of user %d", maxVMs/2, user)
	case len(s.vms) >= maxVMs:
		return fmt.Sprintf("more than %d VMs", maxVMs)
	}
	return ""
}

// noteStopped notes which VMs are stopped. Programs in the kernel have a source that says so.
func (s *Source) noteStopped() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.vms))
	s.mu.Unlock()
	for _, st := range all {
		now := st.vm.Stopped()
		s.mu.Lock()
		switch {
		case s.cfg.Kernel || now == st.stopped:
		case now == "":
			s.notices.Add("%v runs again", st.id)
		default:
			s.notices.Add("%v is %s: nothing happens in it", st.id, now)
		}
		st.stopped = now
		s.mu.Unlock()
	}
}

// drop forgets a VM.
func (s *Source) drop(st *station) {
	_ = st.exit.Close()
	delete(s.vms, st.vm.PID())
}

// searched returns the VMs whose ring is to be looked for.
func (s *Source) searched() []*station {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*station
	for _, st := range s.vms {
		if st.observed == nil && !st.ended {
			all = append(all, st)
		}
	}
	return all
}

// searchOne looks for the ring of a VM, at the likely places and now and then everywhere.
func (s *Source) searchOne(ctx context.Context, st *station) {
	now := s.now()
	thorough := st.scans.due(now, lastScan)
	if st.glances.due(now, lastGlance) {
		st.known = nil
	}
	patience := searchPatience
	if thorough {
		patience = scanPatience
	}
	v, id, known := st.vm, st.id, st.known
	f, err := guard.Do(ctx, &s.guard, v.User, patience, func(ctx context.Context) (finding, error) {
		return s.find(ctx, v, id, known, thorough)
	})
	st.known = f.looked
	switch {
	case err == nil:
		s.follow(ctx, st, f.observed)
	case ctx.Err() != nil, errors.Is(err, usdt.ErrProcessGone):
	case errors.Is(err, ErrTooLarge) && s.cfg.Kernel: // as a rule its spans fire probes
	case errors.Is(err, ErrNone) && !errors.Is(err, ErrLayout) && !errors.Is(err, ErrTooLarge):
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.once("spans of %v: %v", st.id, err)
	}
}

// A finding is what a search of a VM's memory has found.
type finding struct {
	observed *observed
	looked   []usdt.Range // memory that was looked at
}

// Close closes the memory of a VM that is not going to be read.
func (f finding) Close() error { return f.observed.memory.Close() }

// find looks for the ring of a VM in memory that is not known yet, or in all of it.
func (s *Source) find(ctx context.Context, v vm.VM, id outcome.VM, known []usdt.Range, thorough bool) (f finding, err error) {
	p := v.Process
	pid, err := p.InnerPID()
	if err != nil {
		return finding{}, err
	}
	offset, err := p.ClockOffset()
	if err != nil {
		return finding{}, err
	}
	memory, err := p.WritableMemory()
	if err != nil {
		return finding{}, err
	}
	defer func() {
		if err != nil {
			memory.Close()
		}
	}()
	scanner, err := newScanner(p, memory)
	if err != nil {
		return finding{}, err
	}
	defer scanner.close()
	address, looked, err := scanner.find(ctx, pid, known, thorough)
	if err != nil {
		return finding{looked: looked}, err
	}
	r, err := open(memory, address, offset, s.now())
	if err != nil {
		return finding{}, err
	}
	return finding{newObserved(id, v.User, r, memory), looked}, nil
}

// follow has the ring of a VM read from now on.
func (s *Source) follow(ctx context.Context, st *station, o *observed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || ctx.Err() != nil {
		o.memory.Close()
		return
	}
	o.discover, o.kernel = s.cfg.Discover, s.cfg.Kernel
	o.open(ledger.NewBook(st.id, s.next, s.budget))
	o.plan(s.schedule, s.control())
	now := s.now()
	if err := o.begin(now); err != nil {
		s.notices.Add("spans of %v: %v", st.id, err)
		o.memory.Close()
		return
	}
	if o.control.explain != 0 && !o.reader.header.probes {
		s.once("spans of %v are counted, and neither explained nor grouped: this VM has no probes", st.id)
	}
	o.from = s.now()
	st.observed = o
	s.notices.Add("reading the spans of %v", st.id)
	s.running.Go(func() { s.read(ctx, o) })
}

// read reads a ring until the context is done, or it cannot be read.
func (s *Source) read(ctx context.Context, o *observed) {
	defer o.memory.Close()
	timer := time.NewTimer(busyPeriod)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		o.turn <- struct{}{}
		before := o.records
		o.poll(s.now())
		busy, over := o.records > before, o.err != nil
		<-o.turn
		switch {
		case over:
			return
		case busy:
			timer.Reset(busyPeriod)
		default:
			timer.Reset(idlePeriod)
		}
	}
}

// hold calls do while nothing else uses what is observed. It reports false, and do is not
// called, where the VM's memory does not answer.
func (s *Source) hold(st *station, do func(*observed)) (ok bool) {
	if st.stuck {
		return false
	}
	timer := time.NewTimer(turnPatience)
	defer timer.Stop()
	select {
	case st.observed.turn <- struct{}{}:
		defer func() { <-st.observed.turn }()
		do(st.observed)
		return true
	case <-timer.C:
		st.stuck = true
		s.notices.Add("the memory of %v does not answer: its spans are not read any more", st.id)
		return false
	}
}

// stations returns the VMs whose rings are read, by pid.
func (s *Source) stations() []*station {
	var all []*station
	for _, pid := range slices.Sorted(maps.Keys(s.vms)) {
		if s.vms[pid].observed != nil {
			all = append(all, s.vms[pid])
		}
	}
	return all
}

// Plan implements [outcome.Source]. The error wraps [ErrPlan].
func (s *Source) Plan(_ context.Context, p outcome.Plan) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	p.Specs = slices.Clone(p.Specs)
	changed, err := s.schedule.With(p, s.next, nameOf)
	if err != nil {
		return err
	}
	s.schedule = changed
	s.noteKernel()
	for _, st := range s.stations() {
		s.hold(st, func(o *observed) {
			o.book.Replan(changed, p.From)
			o.plan(changed, s.control())
		})
	}
	return nil
}

// Collect implements [outcome.Source].
func (s *Source) Collect(_ context.Context, w outcome.Window) (outcome.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return outcome.Batch{}, errClosed
	}
	e := s.schedule.At(w)
	if e == nil || w.From != s.next {
		return outcome.Batch{}, fmt.Errorf("%+v is not the window that follows %d", w, s.next)
	}
	var pages [][]intake.Cell
	for _, st := range s.stations() {
		pages = append(pages, s.collectOne(st, e, w))
	}
	s.next = w.To
	batch := e.Batch(w, pages)
	s.shorten(w.To)
	if s.cfg.Target.PID != 0 && len(s.vms) == 0 {
		return batch, fmt.Errorf("%s has exited: %w", s.cfg.Target, outcome.ErrEnded)
	}
	return batch, nil
}

// collectOne returns what a VM has of a window.
func (s *Source) collectOne(st *station, e *ledger.Era, w outcome.Window) (cells []intake.Cell) {
	var lost uint64
	ok := s.hold(st, func(o *observed) {
		o.poll(s.now())
		lost = o.lost()
		if o.hindered {
			s.once("another beamscope explains spans of %v: they fire the VM's probes meanwhile and are not seen here", st.id)
		}
		cells = o.collect(e, w)
		if o.stopped() && st.ended {
			s.drop(st)
		}
		if o.err != nil && !st.ended && !o.told {
			o.told = true
			if st.exit.Happened() {
				st.ended = true
			} else {
				s.notices.Add("%s", o.why())
			}
		}
	})
	if lost > 0 {
		s.notices.Add("%v: its ring was filled before it was read: %d records of spans are lost. The environment ring_slots of the application beamscope makes it larger", st.id, lost)
	}
	if ok {
		return cells
	}
	for _, c := range e.Courses { // it does not answer
		cells = append(cells, intake.Cell{Counts: outcome.Counts{Outcome: c.Spec.Name, VM: st.id, Bins: make([]uint64, c.Spec.Bins), Unobserved: true}})
	}
	if st.exit.Happened() {
		s.drop(st)
	}
	return cells
}

// shorten forgets eras that are over.
func (s *Source) shorten(at int64) {
	rest := s.schedule.Since(at)
	if len(rest) == len(s.schedule) {
		return
	}
	s.schedule = rest
	for _, st := range s.stations() {
		s.hold(st, func(o *observed) { o.plan(rest, s.control()) })
	}
}

// Watch implements [outcome.Source].
func (s *Source) Watch(context.Context) []outcome.Notice {
	s.mu.Lock()
	for _, st := range s.vms {
		if st.ended || !st.exit.Happened() {
			continue
		}
		st.ended = true
		if st.observed == nil {
			s.drop(st)
		}
	}
	s.mu.Unlock()
	return s.notices.Take()
}

// Discovered implements [outcome.Discoverer].
func (s *Source) Discovered() []outcome.Discovery {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []outcome.Discovery
	for _, st := range s.stations() {
		s.hold(st, func(o *observed) {
			for _, name := range o.found {
				if s.discover(o, name) {
					found = append(found, outcome.Discovery{Name: name, User: o.user})
				}
			}
			o.found = nil
			if o.nameless > 0 {
				s.once("%v has so many names of spans and classes of failures that some spans have none: is something in them that is another each time?", st.id)
			}
		})
	}
	return found
}

// discover notes a name, and reports whether it is new and there is room for it.
func (s *Source) discover(o *observed, name string) bool {
	for _, names := range s.names {
		if names[name] {
			return false
		}
	}
	if s.names[o.user] == nil {
		s.names[o.user] = make(map[string]bool)
	}
	if len(s.names[o.user]) == maxNames {
		s.once("spans of %v of user %d have too many names, more than %d with those of other VMs of that user: what came later is not discovered", o.id, o.user, maxNames)
		return false
	}
	s.names[o.user][name] = true
	return true
}

// A Status says how it stands with the ring of a VM.
type Status struct {
	VM      outcome.VM
	Exe     string // path of its executable
	Found   bool   // its ring was found
	Since   int64  // it is read since, nanoseconds of CLOCK_MONOTONIC
	Probes  bool   // the VM has probes besides
	Stopped string // why nothing happens in it, see [vm.VM.Stopped]
	Ended   bool
	Refused string // why its ring is not read any more, "" where it is
}

// Found reports whether the ring of a VM is read.
func (s *Source) Found() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.stations()) > 0
}

// Status returns the VMs, by pid. It may be called from any goroutine.
func (s *Source) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Status
	for _, st := range s.vms {
		status := Status{VM: st.id, Exe: st.vm.Exe.Name, Ended: st.ended, Stopped: st.stopped, Found: st.observed != nil}
		if o := st.observed; o != nil {
			status.Probes, status.Since = o.reader.header.probes, o.from
		}
		if st.stuck {
			status.Refused = "its memory does not answer"
		}
		all = append(all, status)
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.VM.PID, b.VM.PID) })
	return all
}

// Close ends reading. Spans are recorded until the lease has run out, after about a second.
func (s *Source) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	stuck := false
	for _, st := range s.vms {
		_ = st.exit.Close()
		stuck = stuck || st.stuck
	}
	s.mu.Unlock()
	s.cancel()
	if !stuck { // or it would be waited for without end
		s.running.Wait()
	}
	return nil
}
