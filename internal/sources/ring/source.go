// Package ring observes spans that the Erlang application beamscope records in the memory of its
// VM. It needs no probes, no changes of the VM and no eBPF.
//
// The application keeps an array of words with a ring of records for each scheduler. A [Source]
// finds the array in the VM's memory. It writes only one word for each ring, which contains the end
// of its lease and the spans that it wants. It reads the records several times a second, pairs
// starts and ends, and counts instances by outcome and window. If a collector dies, its lease runs out within
// about a second, and spans record nothing any more.
//
// # Exactness
//
// A record counts only if all of its words belong to the lap of the ring in which its slot was
// taken. The reader looks again at a slot whose record is not complete. An end takes its slot
// before it reads the clock. So a reader that has seen all slots taken up to some time knows all
// ends up to that time. Only then does it let a span without an end time out. If a ring was full
// before it was read, the reader counts the overwritten records by their slots. Spans that may have
// lost their end there count as missed when they reach dMax, never as a timeout.
//
// # Contents of a record
//
// A record is two words: the time with the name, and the event with the span. Less common data is
// in a third word, the extension of the slot: the process that starts a span and the class of a
// failure. Extensions have a table of their own. So a record always takes one slot, and the number
// of overwritten slots is the number of lost records. The application records processes if the
// control word asks for that. A [Source] does so if it needs single instances.
//
// # Counts
//
// Starts and Ends are the records of a window. Orphans are ends whose start was recorded before the
// ring was found. Lates are ends of spans that had ended. Instances have the ID of their span,
// which is unique within the VM, the ID of the parent if the parent is in the ring too, and the
// process that started them. If programs in the kernel count the parent, it has another ID there.
//
// # Explained spans
//
// Programs in the kernel follow the process of a span that is to be explained. The application shows
// them such a span by a probe or a call, and records it too, with a mark. So a collector without
// these programs counts it, also if another collector has it explained. A collector whose programs are
// attached to the VM counts it there and not here. While programs are being attached, they may see a
// span or not: windows with such spans are not observed. If a VM is left out, its spans count here
// again, after the windows that contain the counts lost in the kernel.
//
// # Several collectors
//
// The control word contains the requests of all collectors. A collector that finds another word than
// its own keeps the requests in it. So no request may look like the collector's own: if the new word
// would be the one that another collector wrote, its lease is one unit longer.
package ring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/intake"
	"github.com/beamscope/beamscope/internal/sources/ledger"
	"github.com/beamscope/beamscope/usdt"
)

const (
	// busyPeriod is the time between reads of a ring that had new records, and idlePeriod of one
	// that had none. If reading costs too much, the time is at most slowPeriod.
	busyPeriod = 10 * time.Millisecond
	idlePeriod = 20 * time.Millisecond
	slowPeriod = 100 * time.Millisecond

	// searchPeriod is the interval between searches for rings in VMs without a known ring. VMs are
	// searched for at the same interval. If programs in the kernel also observe them, the interval
	// is kernelPeriod: examining all processes takes milliseconds, and another source does it too.
	// The first lease of a new VM is longer than both intervals together.
	searchPeriod = time.Second
	kernelPeriod = 3 * time.Second

	// searchPatience limits how long a search delays others, and scanPatience how long it may take: a long
	// one uses a twentieth of a processor.
	// firstSearch limits how long [New] waits for the first search.
	searchPatience = 2 * time.Second
	scanPatience   = 5 * time.Minute
	firstSearch    = 2 * time.Second

	// firstSwap is the time until memory that is swapped out is searched again. Each time is four times
	// the previous one, up to lastSwap.
	firstSwap = 3 * time.Second
	lastSwap  = 5 * time.Minute

	// patience is the total time that windows wait for the VMs of a user whose memory answers late,
	// and the time that Close waits. A quarter of the elapsed time is credited again. A VM that
	// owes an answer for longer is no longer read.
	patience = 2 * time.Second

	// maxVMs limits the number of VMs that are read, and maxNames the number of names discovered in
	// the VMs of each user.
	maxVMs   = 64
	maxNames = 1024
)

// ErrPlan means that a plan cannot be followed.
var ErrPlan = ledger.ErrPlan

var errClosed = fmt.Errorf("closed: %w", outcome.ErrEnded)

// A Config describes a [Source].
type Config struct {
	Target vm.Target
	Plan   outcome.Plan // the first; each spec has a Span

	// Discover has the names of spans noted that no spec of the plan has, for
	// [Source.Discovered].
	Discover bool

	// Kernel is not nil if programs in the kernel observe the same outcomes by the VMs' probes. If an
	// outcome needs these programs, because its spans are explained, grouped, or fail when their
	// process exits, all spans are shown to the programs too, as far as these see them. The programs
	// count such spans, so the source does not. The programs also count spans that fire the probes
	// because the application's environment says so.
	Kernel Kernel

	// Explain means that spans of discovered names will be explained, until a plan explains nothing any more.
	Explain bool

	maxScan uint64 // see the constant, which applies if this is 0
}

// A Source reads the rings of VMs. The methods of [outcome.Source] and [outcome.Discoverer]
// are called from one goroutine, Status from any.
type Source struct {
	cfg     Config
	now     func() int64
	begun   int64 // nanoseconds of CLOCK_MONOTONIC
	finder  vm.Finder
	target  usdt.Process // with a PID as the target: the process that it meant at first
	guard   guard.Guard
	budget  *intake.Budget
	notices *intake.Notices
	cancel  context.CancelFunc
	running sync.WaitGroup

	patience time.Duration // see the constant

	mu       sync.Mutex // not held while a VM's memory is read or written
	closed   bool
	schedule ledger.Schedule
	next     int64 // beginning of the window that is collected next
	vms      map[int]*station
	former   []*station              // VMs that have ended, and whose PIDs other VMs have: their last windows are not collected yet
	names    map[int]map[string]bool // discovered names, by user

	toldFull  map[string]bool // reasons for the lack of a place that notices have given
	toldSpecs map[string]bool // notices that were given about outcomes of the plan

	allowance *allowance            // of searches
	searching map[int]bool          // users whose VMs are searched
	waited    map[int]time.Duration // time that windows have waited for VMs, by user
	forgiven  int64                 // when waiting time was last credited again
	room      *room                 // for open spans
	rooms     map[int]*room         // likewise, by user
	left      []*reading            // of dropped VMs that have not ended yet
	unplaced  []outcome.VM          // VMs for which there is no place, see noteUnplaced
}

// A station is a VM and the state of its ring.
type station struct {
	vm       vm.VM
	id       outcome.VM
	exit     *vm.Exit
	reading  *reading // nil until its ring is found
	stuck    bool     // its memory does not answer
	notified bool     // a notice has said why it is no longer read
	told     topic    // topics of notices that were given
	lost     uint64   // number of lost records that no notice has given
	toldLost int64    // when a notice last gave it, nanoseconds of CLOCK_MONOTONIC; 0: never
	unread   string   // why its spans are not read; "" if they are, or if it has no ring
	stopped  string   // why the VM does not run; "" if it runs
	ended    bool

	forbidden error // why this user may not look for its ring; wraps [fs.ErrPermission]

	swap schedule // when to search swapped memory; used by the searching goroutine

	absence absence // while no ring is found
}

// A schedule repeats something at growing intervals.
type schedule struct {
	next   int64 // nanoseconds of CLOCK_MONOTONIC
	period time.Duration
}

// due reports whether it is time, and then schedules the next time.
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

// New looks for VMs and their rings, for two seconds at most. An error wraps [ErrPlan] if the
// source cannot follow the plan, and [vm.ErrNone] if no VM matches the target. A VM in which no
// span has started has no ring yet; the source finds the ring later. The caller closes the source.
func New(ctx context.Context, cfg Config) (*Source, error) {
	s := newSource(cfg)
	cfg.Plan.Specs = slices.Clone(cfg.Plan.Specs)
	var err error
	if s.schedule, err = ledger.Schedule(nil).With(cfg.Plan, cfg.Plan.From, cfg.Plan.From, nameOf); err != nil {
		return nil, err
	}
	s.noteKernel()
	vms, _, err := s.finder.Find(ctx, cfg.Target)
	if err != nil {
		return nil, err
	}
	s.target = vms[0].Process
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

// newSource returns a source without a schedule and without searches.
func newSource(cfg Config) *Source {
	cfg.maxScan = cmp.Or(cfg.maxScan, maxScan)
	return &Source{
		cfg:      cfg,
		now:      monotonic.Now,
		begun:    monotonic.Now(),
		budget:   intake.NewBudget(intake.MaxKept),
		notices:  intake.NewNotices(monotonic.Now),
		cancel:   func() {},
		patience: patience,
		next:     cfg.Plan.From,
		vms:      make(map[int]*station),
		names:    make(map[int]map[string]bool),
		toldFull: make(map[string]bool),

		allowance: newAllowance(),
		searching: make(map[int]bool),
		waited:    make(map[int]time.Duration),
		room:      newRoom(nil, maxAllRoom),
		rooms:     make(map[int]*room),
	}
}

// nameOf is a [ledger.Namer].
func nameOf(s outcome.Spec) (string, error) {
	if s.Span == "" {
		return "", errors.New("its instances are no spans")
	}
	return s.Span, nil
}

// control returns the requests to programs according to the schedule.
func (s *Source) control() control {
	c := control{sample: 0xffff}
	for _, e := range s.schedule {
		if s.cfg.Kernel != nil && (s.cfg.Explain || slices.ContainsFunc(e.Plan.Specs, needsKernel)) {
			c.explain = 0xffff
		}
		c.process = c.process || slices.ContainsFunc(e.Plan.Specs, needsProcess)
	}
	return c
}

func isExplained(s outcome.Spec) bool { return s.Explain }

// needsKernel reports whether only programs in the kernel can observe an outcome in full.
func needsKernel(s outcome.Spec) bool { return s.Explain || s.ExitFails || s.Group != "" }

// needsProcess reports whether an outcome needs the processes that start its instances, as single
// instances do.
func needsProcess(s outcome.Spec) bool { return s.Detail != outcome.CountsOnly }

// search looks for VMs and their rings until the context is done. It closes first after the first
// search.
func (s *Source) search(ctx context.Context, vms []vm.VM, first chan<- struct{}) {
	looked := s.now() // last search for VMs
	s.admit(ctx, vms)
	for {
		s.searchAll(ctx)
		s.noteStopped()
		if first != nil {
			close(first)
			first = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.pause()):
		}
		if s.now()-looked < int64(s.lookPeriod()) {
			continue
		}
		looked = s.now()
		found, _, err := s.finder.Find(ctx, s.cfg.Target)
		if err != nil && !errors.Is(err, vm.ErrNone) && ctx.Err() == nil {
			s.notices.Add("%v", err)
			continue
		}
		s.admit(ctx, s.ofTarget(found))
	}
}

// ofTarget removes VMs that got the PID of the target after its process had ended.
func (s *Source) ofTarget(vms []vm.VM) []vm.VM {
	if s.cfg.Target.PID == 0 {
		return vms
	}
	return slices.DeleteFunc(vms, func(v vm.VM) bool { return v.Process != s.target })
}

// lookPeriod returns the maximum interval between searches for VMs.
func (s *Source) lookPeriod() time.Duration {
	if s.cfg.Kernel != nil {
		return kernelPeriod
	}
	return searchPeriod / 2 // the time between two searches is up to a searchPeriod
}

// admit adds new VMs, those of users with few VMs first. vms are all that a search has found.
func (s *Source) admit(_ context.Context, vms []vm.VM) {
	s.mu.Lock()
	defer s.mu.Unlock()
	users := s.places()
	vms = slices.Clone(vms)
	slices.SortStableFunc(vms, func(a, b vm.VM) int { return cmp.Compare(users[a.Account], users[b.Account]) })
	s.unplaced = s.unplaced[:0]
	for _, v := range vms {
		if st := s.vms[v.PID()]; st != nil && st.vm.Process == v.Process {
			continue
		}
		if why := s.full(v.Account); why != "" {
			s.noteFull(why)
			if s.vms[v.PID()] == nil {
				s.noteUnplaced(outcome.VM{PID: v.PID(), Node: v.Node})
			}
			continue
		}
		exit, err := v.Watch()
		if err != nil {
			continue // the process has ended
		}
		st := &station{vm: v, id: outcome.VM{PID: v.PID(), Node: v.Node}, exit: exit, swap: schedule{s.now(), firstSwap}, absence: absence{found: s.now()}}
		if old := s.vms[v.PID()]; old != nil {
			s.replace(old)
		}
		s.vms[v.PID()] = st
	}
}

// replace removes a VM that has ended, because another one has its PID. Its last windows and the loss of
// its open spans are still collected.
func (s *Source) replace(old *station) {
	if old.reading == nil {
		s.drop(old)
		return
	}
	old.ended = true
	delete(s.vms, old.vm.PID())
	s.former = append(s.former, old)
}

// places returns the number of places that VMs of each user have.
func (s *Source) places() map[int]int {
	s.left = slices.DeleteFunc(s.left, (*reading).hasEnded)
	users := make(map[int]int)
	for _, st := range s.vms {
		users[st.vm.Account]++
	}
	for _, st := range s.former {
		users[st.vm.Account]++
	}
	for _, r := range s.left {
		users[r.user]++
	}
	return users
}

// full returns why another VM of a user cannot be added, or "". Any user can start many VMs, so no
// user gets more than half of the places, and users with many give way to those with few.
func (s *Source) full(user int) string {
	users := s.places()
	if users[user] >= maxVMs/2 {
		return fmt.Sprintf("more than %d VMs of user %d", maxVMs/2, user)
	}
	if s.taken() < maxVMs {
		return ""
	}
	if st := s.displaced(users, users[user]); st != nil {
		s.notices.Add("the spans of %v of user %d are no longer read: VMs of users with fewer VMs need the place", st.id, st.vm.Account)
		s.drop(st)
		s.noteUnplaced(st.id)
	}
	if s.taken() < maxVMs {
		return ""
	}
	return fmt.Sprintf("more than %d VMs", maxVMs)
}

// taken returns the number of places that VMs have.
func (s *Source) taken() int { return len(s.vms) + len(s.former) + len(s.left) }

// displaced returns the VM that gives way to one of a user with n VMs, or nil. It belongs to the user with
// the most VMs, who has still no fewer than the other user then. One whose ring is not read goes first,
// and then the newest.
func (s *Source) displaced(users map[int]int, n int) *station {
	if len(s.left)+len(s.former) > 0 {
		return nil // a place becomes free soon
	}
	all := slices.DeleteFunc(slices.Collect(maps.Values(s.vms)), func(st *station) bool { return users[st.vm.Account] < n+2 })
	if len(all) == 0 {
		return nil
	}
	isRead := func(st *station) int {
		if st.reading != nil {
			return 1
		}
		return 0
	}
	return slices.MinFunc(all, func(a, b *station) int {
		return cmp.Or(
			cmp.Compare(users[b.vm.Account], users[a.vm.Account]),
			cmp.Compare(isRead(a), isRead(b)),
			cmp.Compare(b.vm.Process.StartTime, a.vm.Process.StartTime),
			cmp.Compare(b.vm.PID(), a.vm.PID()),
		)
	})
}

// noteStopped records which VMs are stopped. With programs in the kernel, another source reports
// that.
func (s *Source) noteStopped() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.vms))
	s.mu.Unlock()
	for _, st := range all {
		now := st.vm.Stopped()
		s.mu.Lock()
		switch {
		case s.cfg.Kernel != nil || now == st.stopped:
		case now == "":
			s.notices.Add("%v runs again", st.id)
		default:
			s.notices.Add("%v is %s: nothing happens in it", st.id, now)
		}
		st.stopped = now
		s.mu.Unlock()
	}
}

// drop removes a VM.
func (s *Source) drop(st *station) {
	_ = st.exit.Close()
	if st.reading != nil {
		st.reading.cancel()
		s.left = append(s.left, st.reading)
	}
	if s.vms[st.vm.PID()] == st {
		delete(s.vms, st.vm.PID())
	}
	s.former = slices.DeleteFunc(s.former, func(f *station) bool { return f == st })
}

// searchAll searches for rings, for at most searchPatience. It searches the VMs of a user one after
// the other, and different users in parallel.
func (s *Source) searchAll(ctx context.Context) {
	var users sync.WaitGroup
	for user, all := range s.searched() {
		users.Add(1)
		s.running.Go(func() {
			defer users.Done()
			for _, st := range all {
				s.searchOne(ctx, st)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.searching, user)
		})
	}
	done := make(chan struct{})
	go func() {
		users.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(searchPatience):
	}
}

// searched returns the VMs to search for rings, by user, and marks their users as being searched.
// It leaves out users whose previous search is still running.
func (s *Source) searched() map[int][]*station {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[int][]*station)
	for _, st := range s.vms {
		if st.reading == nil && !st.ended && !s.searching[st.vm.Account] {
			all[st.vm.Account] = append(all[st.vm.Account], st)
		}
	}
	for user := range all {
		s.searching[user] = true
	}
	s.allowance.share(max(len(all), len(s.searching)), s.now())
	return all
}

// searchOne searches for the ring of a VM, within the processor time allowed for its user.
func (s *Source) searchOne(ctx context.Context, st *station) {
	v, id := st.vm, st.id
	s.lookAtProbes(ctx, st)
	if !s.allowance.allows(v.Account, s.now()) {
		return
	}
	now := s.now()
	swap := st.swap.due(now, lastSwap)
	f, err := guard.Do(ctx, &s.guard, v.User, scanPatience, func(ctx context.Context) (f finding, err error) {
		s.allowance.spend(v.Account, s.now, func(pace func(context.Context) error) {
			f, err = find(ctx, v, id, area{swap, s.cfg.maxScan, pace}, s.now())
		})
		return f, err
	})
	s.mu.Lock()
	again := st.absence.note(now, err, f.whole)
	s.mu.Unlock()
	switch {
	case again:
	case err == nil:
		s.follow(ctx, st, f.observed)
	case ctx.Err() != nil, errors.Is(err, usdt.ErrProcessGone):
	case errors.Is(err, ErrNone) && !errors.Is(err, ErrLayout) && !errors.Is(err, ErrTooLarge):
		s.mu.Lock()
		st.unread = ""
		s.mu.Unlock()
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		if errors.Is(err, fs.ErrPermission) {
			st.forbidden = err
		}
		s.noteUnread(st, err)
	}
}

// A finding is the result of a search of a VM's memory.
type finding struct {
	observed *observed
	whole    bool // no memory was left out because it is swapped out
}

// Close closes the memory of a VM that will not be read.
func (f finding) Close() error { return f.observed.memory.Close() }

// find searches for the ring of a VM. now is the present time, nanoseconds of CLOCK_MONOTONIC.
func find(ctx context.Context, v vm.VM, id outcome.VM, in area, now int64) (f finding, err error) {
	memory, err := v.Process.WritableMemory(v.Exe, v.User)
	if err != nil {
		return finding{}, err
	}
	defer func() {
		if err != nil {
			memory.Close()
		}
	}()
	r, whole, err := findReader(ctx, v, memory, in, now)
	if err != nil {
		return finding{whole: whole}, err
	}
	return finding{newObserved(id, v.Account, r, memory), whole}, nil
}

// findReader searches a VM's memory for its ring, and returns a reader of the ring. whole reports that no
// memory was left out because it is swapped out.
func findReader(ctx context.Context, v vm.VM, memory Memory, in area, now int64) (r *reader, whole bool, err error) {
	pid, err := v.Process.InnerPID()
	if err != nil {
		return nil, false, err
	}
	offset, err := v.Process.ClockOffset()
	if err != nil {
		return nil, false, err
	}
	scanner, err := newScanner(v.Process, memory, in)
	if err != nil {
		return nil, false, err
	}
	defer scanner.close()
	address, searched, err := scanner.find(ctx, pid)
	if err != nil {
		return nil, !scanner.skipped, err
	}
	r, err = open(memory, address, offset, now)
	if err != nil {
		return nil, false, err
	}
	if !contain(searched, address, r.header.words*wordSize) {
		return nil, false, fmt.Errorf("%w: the memory of the process ends before it does", ErrLayout)
	}
	return r, true, nil
}

// follow starts reading the ring of a VM. It does not wait for the first lease, because the memory
// of the VM may not answer.
func (s *Source) follow(ctx context.Context, st *station, o *observed) {
	s.mu.Lock()
	o.control = s.control()
	s.mu.Unlock()
	o.kernel.sight = func() int64 { return s.cfg.Kernel.of(st.vm, o.reader.header) }
	o.kernel.since = o.kernel.sight()
	o.kernel.changed = func(seen bool) { s.noteSeen(st.id, seen) }
	_, err := guard.Do(ctx, &s.guard, o.user, searchPatience, func(context.Context) (finding, error) {
		return finding{observed: o}, o.begin(s.now)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	dropped := s.vms[st.vm.PID()] != st
	if err != nil || dropped || s.closed || ctx.Err() != nil {
		if err != nil && !dropped && ctx.Err() == nil {
			s.noteUnread(st, err)
		}
		o.memory.Close()
		return
	}
	st.unread = ""
	o.discover = s.cfg.Discover
	o.open(ledger.NewBook(st.id, s.next, s.budget))
	o.plan(s.schedule, s.control())
	if o.reader.born() >= s.begun {
		o.miss()
	}
	switch {
	case s.control().explain == 0:
	case o.kernel.since == 0 && st.absence.fires(o.reader.header):
		s.noteSeen(st.id, false)
	case o.kernel.since == 0:
		s.tell(st, notShown, "spans of %v are counted, but neither explained nor grouped, and they do not fail when their process exits: this VM has no probes, and no function is known to stand in for them", st.id)
	}
	ctx, cancel := context.WithCancel(ctx)
	st.reading = newReading(o, s.now, cancel)
	o.pairer.room = s.roomOf(o.user)
	o.rate = s.rate(o.user)
	o.credit = maxBurst * o.rate
	s.notices.Add("reading the spans of %v", st.id)
	s.running.Go(func() { st.reading.run(ctx, o) })
}

// noteSeen adds a notice that programs in the kernel see the explained spans of a VM from now on, or no
// longer do.
func (s *Source) noteSeen(id outcome.VM, seen bool) {
	if seen {
		s.notices.Add("programs in the kernel observe %v now: its spans are explained, grouped, and fail when their process exits, where outcomes ask for that", id)
		return
	}
	s.notices.Add("spans of %v are counted, but neither explained nor grouped, and they do not fail when their process exits: programs in the kernel do not observe this VM at present", id)
}

// roomOf returns the room for open spans in the VMs of a user.
func (s *Source) roomOf(user int) *room {
	if s.rooms[user] == nil {
		s.rooms[user] = newRoom(s.room, maxRoom)
	}
	return s.rooms[user]
}

// rate returns the number of slots that may be read per second from a ring of one of a user's VMs.
func (s *Source) rate(user int) float64 {
	rings := make(map[int]int)
	for _, st := range s.stations() {
		rings[st.reading.user]++
	}
	return maxRate / float64(max(1, len(rings))*max(1, rings[user]))
}

// do queues work on the observed state of a VM.
func (s *Source) do(st *station, work func(*observed)) {
	if !st.stuck && !st.reading.do(work) {
		s.giveUp(st)
	}
}

// giveUp stops reading a VM whose memory does not answer.
func (s *Source) giveUp(st *station) {
	st.stuck, st.unread = true, "its memory does not answer"
	st.reading.cancel()
	s.notices.Add("the memory of %v does not answer: its spans are not read any more", st.id)
}

// stations returns the VMs with a reading, by pid. A VM that has ended precedes the one with its PID.
func (s *Source) stations() []*station {
	all := slices.Clone(s.former)
	for _, pid := range slices.Sorted(maps.Keys(s.vms)) {
		if s.vms[pid].reading != nil {
			all = append(all, s.vms[pid])
		}
	}
	slices.SortStableFunc(all, func(a, b *station) int { return cmp.Compare(a.vm.PID(), b.vm.PID()) })
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
	changed, err := s.schedule.With(p, s.next, s.now(), nameOf)
	if err != nil {
		return err
	}
	if last := s.schedule[len(s.schedule)-1].Plan.Specs; slices.ContainsFunc(last, isExplained) && !slices.ContainsFunc(p.Specs, isExplained) {
		s.cfg.Explain = false // explanations were given up
	}
	s.schedule = changed
	s.noteKernel()
	control := s.control()
	for _, st := range s.stations() {
		s.do(st, func(o *observed) {
			o.book.Replan(changed, p.From)
			o.plan(changed, control)
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
	s.forgive()
	owners := s.owners()
	asked := s.stations()
	for _, st := range asked { // all first, so that they answer in parallel
		if !st.stuck && !st.reading.ask(e, w, s.rate(st.reading.user)) {
			s.giveUp(st)
		}
	}
	var pages [][]intake.Cell
	for _, st := range asked {
		pages = append(pages, s.collectOne(st, e))
	}
	s.next = w.To
	batch := e.Batch(w, merge(append(pages, s.absent(e, w)...)))
	batch.Owners = owners
	if len(pages) == 0 && s.hidden(w) {
		for i := range batch.Counts {
			batch.Counts[i].Unobserved = true
		}
	}
	s.shorten(w.To)
	if s.cfg.Target.PID != 0 && len(s.vms) == 0 {
		return batch, fmt.Errorf("%s has exited: %w", s.cfg.Target, outcome.ErrEnded)
	}
	return batch, nil
}

// owners returns the owners of all VMs.
func (s *Source) owners() map[outcome.VM]string {
	all := make(map[outcome.VM]string)
	for _, st := range slices.AppendSeq(slices.Clone(s.former), maps.Values(s.vms)) {
		all[st.id] = outcome.UserOwner(st.vm.Account)
	}
	return all
}

// merge merges the cells of VMs that look the same: one has ended, and the other has its PID and its
// name. If one of them was not observed, neither was their sum.
func merge(pages [][]intake.Cell) [][]intake.Cell {
	merged := pages[:0]
	for _, page := range pages {
		i := slices.IndexFunc(merged, func(m []intake.Cell) bool {
			return len(m) > 0 && len(m) == len(page) && m[0].Counts.VM == page[0].Counts.VM
		})
		if i < 0 {
			merged = append(merged, page)
			continue
		}
		for n := range page {
			merged[i][n] = sum(merged[i][n], page[n])
		}
	}
	return merged
}

// sum returns the sum of two cells.
func sum(a, b intake.Cell) intake.Cell {
	n := a.Counts.Add(b.Counts)
	n.Bins = slices.Clone(a.Counts.Bins)
	for i, count := range b.Counts.Bins {
		n.Bins[i] += count
	}
	c := intake.Cell{Counts: n, Kept: slices.Concat(a.Kept, b.Kept)}
	if n.Unobserved {
		return ledger.Unobserved(c)
	}
	return c
}

// forgive credits a quarter of the elapsed time to the time that windows may wait.
func (s *Source) forgive() {
	now := s.now()
	back := time.Duration(now-s.forgiven) / 4
	s.forgiven = now
	for user := range s.waited {
		if s.waited[user] -= back; s.waited[user] <= 0 {
			delete(s.waited, user)
		}
	}
}

// collectOne returns the cells of a VM for a requested window. If the VM does not answer in time,
// the window is not observed.
func (s *Source) collectOne(st *station, e *ledger.Era) []intake.Cell {
	if a := s.answer(st); a != nil {
		if a.stopped && st.ended {
			s.drop(st)
		}
		return a.cells
	}
	if st.stuck && st.exit.Happened() {
		s.drop(st)
	}
	return unobserved(st.id, e)
}

// answer returns the answer of a VM to the last request, or nil if it is late. It drops answers to
// earlier requests, which are too late for their windows.
func (s *Source) answer(st *station) *answer {
	if st.stuck {
		return nil
	}
	r := st.reading
	for {
		begun := s.now()
		a := r.next(s.patience - s.waited[r.user])
		if waited := time.Duration(s.now() - begun); waited >= time.Millisecond {
			s.waited[r.user] += waited
		}
		if a == nil {
			s.late(st)
			return nil
		}
		s.note(st, a)
		if r.owed == 0 {
			r.late = 0
			return a
		}
	}
}

// late records that a VM has not answered in time.
func (s *Source) late(st *station) {
	if st.reading.late++; st.reading.isSilent(s.patience) {
		s.giveUp(st)
		return
	}
	s.tell(st, tooLate, "the memory of %v answers late: windows that it holds up are not observed", st.id)
}

// note adds notices about what a VM's answer reports besides its counts.
func (s *Source) note(st *station, a *answer) {
	s.noteLost(st, a.lost)
	if a.nameless > 0 {
		s.tell(st, noNames, "%v has too many different span names and failure classes: some spans have no name. An outcome whose name beamscope has not seen is not observed in windows with such spans. Does a name contain a value that changes, such as an id?", st.id)
	}
	if a.unclassed > 0 {
		s.tell(st, noClasses, "%v has too many different classes of failures: its table is full until the VM restarts, and a failure of a new class is shown without its class. Does a class contain a value that changes, such as an id or the arguments of a call?", st.id)
	}
	if a.err == nil || st.ended || st.notified {
		return
	}
	st.notified = true
	if st.exit.Happened() {
		st.ended = true
		return
	}
	st.unread = a.err.Error()
	s.notices.Add("the spans of %v are not read any more: %v", st.id, a.err)
}

// shorten drops eras that are over.
func (s *Source) shorten(at int64) {
	rest := s.schedule.Since(at)
	if len(rest) == len(s.schedule) {
		return
	}
	s.schedule = rest
	control := s.control()
	for _, st := range s.stations() {
		s.do(st, func(o *observed) { o.plan(rest, control) })
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
		if st.reading == nil {
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
		for _, name := range st.reading.discovered() {
			if s.discover(st, name) {
				found = append(found, outcome.Discovery{Name: name, User: st.reading.user})
			}
		}
	}
	return found
}

// discover adds a name, and reports whether the name is new and there is room for it.
func (s *Source) discover(st *station, name string) bool {
	user := st.reading.user
	if s.names[user][name] {
		return false
	}
	if s.names[user] == nil {
		s.names[user] = make(map[string]bool)
	}
	if len(s.names[user]) == maxNames {
		s.tell(st, manyNames, "spans of %v of user %d have too many names, more than %d with those of other VMs of that user: what came later is not discovered", st.id, user, maxNames)
		return false
	}
	s.names[user][name] = true
	return true
}

// A Status describes the state of the ring of a VM.
type Status struct {
	VM      outcome.VM
	Exe     string // path of its executable
	Found   bool   // its ring was found
	Since   int64  // it is read since, nanoseconds of CLOCK_MONOTONIC
	Probes  bool   // the VM also has probes
	Stopped string // why nothing happens in it, see [vm.VM.Stopped]
	Ended   bool
	Refused string // why its ring is not read, "" if it is read or does not exist
}

// Found reports whether the ring of a VM is read.
func (s *Source) Found() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.stations()) > 0
}

// Forbidden returns why this user may not read the spans of a VM, or nil if there is no such VM. The
// error names the missing capabilities and wraps [fs.ErrPermission].
func (s *Source) Forbidden() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range slices.Sorted(maps.Keys(s.vms)) {
		if err := s.vms[pid].forbidden; err != nil {
			return err
		}
	}
	return nil
}

// Status returns the VMs, by pid. It may be called from any goroutine.
func (s *Source) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Status
	for _, st := range s.vms {
		status := Status{VM: st.id, Exe: st.vm.Exe.Name, Ended: st.ended, Stopped: st.stopped, Found: st.reading != nil, Refused: st.unread}
		if r := st.reading; r != nil {
			status.Probes, status.Since = r.probes, r.since
		}
		all = append(all, status)
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.VM.PID, b.VM.PID) })
	return all
}

// Close ends reading. Spans are recorded until the lease has run out, after about a second. If the
// memory of a VM does not answer, Close leaves a goroutine behind.
func (s *Source) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for _, st := range slices.AppendSeq(slices.Clone(s.former), maps.Values(s.vms)) {
		_ = st.exit.Close()
	}
	s.mu.Unlock()
	s.cancel()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(s.patience):
	}
	return nil
}
