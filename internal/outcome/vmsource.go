package outcome

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/guard"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/usdt"
)

// rescan is how often VMs are looked for: at most that late is said that one has
// started. Its spans are counted from the first on all the same, where the target
// is an executable.
const rescan = time.Second

// VMConfig describes a [VMSource].
type VMConfig struct {
	Target vm.Target
	Plan   Plan // the first

	// Discover has the names of spans noted that no spec of the plan has, for
	// [VMSource.Discovered]. It makes the start of every span of the VMs an event.
	Discover bool

	// Explain has everything ready for specs with Explain that come with a later plan:
	// otherwise what is open when the first one comes is lost as cut.
	Explain bool

	// Progress, where it is not nil, is called while it attaches, which may take seconds:
	// also by [VMSource.Watch] and [VMSource.Plan], where there is something new. One call
	// is over when the next one begins; they may come from other goroutines.
	Progress func(Progress)
}

// Progress says how far attaching to VMs is.
type Progress struct {
	Loaded, All int // programs, of those that are needed
}

// A VMSource observes running Erlang VMs with eBPF: the spans of the wrapper,
// and the events of their own probes, paired and counted in the kernel. Other specs are
// those of other sources; a plan may have no other, and then nothing is observed.
type VMSource struct {
	cfg   VMConfig
	meter *meter
	vms   map[int]*observedVM
	left  map[int]*leftVM      // VMs that are left out, by pid
	loud  map[usdt.Process]int // how often running VMs were left out

	strangers strangers
	oneByOne  bool // VMs are attached to one by one: one was left out, there was a stranger, or others may be hidden

	refused map[usdt.Process]VMStatus // VMs that cannot be observed, which was noted
	gone    []VMStatus                // VMs that have ended and were given up, the last ones
	notices []Notice
	hits    hits

	// The first of each is that of the window that was collected last; others are
	// there while they wait for their first window.
	stages       []stage
	observations []*observation
	cut          []bpf.Counts // given up with the observation before

	finder  vm.Finder
	scanned int64           // when VMs were last looked for
	scans   chan scan       // of VMs that were looked for beside everything else; nil while they are not
	stop    func()          // ends what goes on beside everything else
	running context.Context // done when that is to end

	preparing map[usdt.Process]bool // VMs whose executables are being read
	prepared  chan *preparedVM      // what comes of it
	prepares  sync.WaitGroup
	turns     chan struct{} // has room for those who read at a time
	guard     guard.Guard
	guesses   map[file]guesses // of the files that are attached to: see preparedVM

	unlooked int   // processes that could not be looked at at the last scan
	swept    int64 // when exits were last made room for

	batch assembly

	placeless map[int]bool // pids of VMs that have no place
	toldCrowd map[int]int  // how many of a user's VMs have no place, as was said

	crowded       map[string]lossRun // of events that found no room, by outcome
	unrecorded    lossRun            // of events for explanations
	toldUnwatched bool               // that there was no room to watch a process

	names     *names       // of the VMs' processes
	functions *registry    // that they were started with
	unnamed   map[int]bool // VMs of which it was said that they tell no names
	discovery discovery
	status    statusBoard
}

// A stage is a plan on its observation.
type stage struct {
	Plan
	observation *observation
	first       uint64      // number of the plan's first window there
	specs       []Spec      // ours of the plan
	index       map[int]int // of the specs, by the number of the outcome there
}

func newStage(p Plan, o *observation) stage {
	st := stage{Plan: p, observation: o, first: o.collector.Number(p.From), specs: ours(p.Specs), index: make(map[int]int)}
	for i, spec := range st.specs {
		st.index[o.collector.Outcome(spec.kernelID())] = i
	}
	return st
}

// ours returns the specs that this source looks after.
func ours(specs []Spec) []Spec {
	return slices.DeleteFunc(slices.Clone(specs), func(s Spec) bool { return !s.OfVM() })
}

// A file is an executable that is attached to: for a single VM only that one's
// process, otherwise all of them.
type file struct {
	device, inode uint64
	pid           int
}

type observedVM struct {
	id    VM
	file  file
	exe   string // path of its executable, "" where it was gone before it could be looked at
	since int64
	watch *vm.Exit // nil where it was gone before it could be watched
	died  int64    // 0 while it runs

	process vm.VM  // the zero value where it was gone before it could be looked at
	stopped string // why nothing happens in it, as far as was noted; "" while it runs

	guessed guesses
}

func (o *observedVM) close() error {
	if o.watch == nil {
		return nil
	}
	return o.watch.Close()
}

// NewVMSource finds the VMs and attaches to them, which takes some tenths of a second:
// windows of the plan that have begun by then were not observed as a whole. It fails where there is no VM
// that the target means, none of them has the probes, or the context is done before; the
// caller closes the source.
func NewVMSource(ctx context.Context, cfg VMConfig) (*VMSource, error) {
	s := &VMSource{
		cfg:       cfg,
		vms:       make(map[int]*observedVM),
		left:      make(map[int]*leftVM),
		loud:      make(map[usdt.Process]int),
		refused:   make(map[usdt.Process]VMStatus),
		unnamed:   make(map[int]bool),
		strangers: strangers{doubts: make(map[int]*doubt), known: make(map[int]bool)},
		names:     newNames(),

		functions: new(registry),
		crowded:   make(map[string]lossRun),
		toldCrowd: make(map[int]int),

		preparing: make(map[usdt.Process]bool),
		prepared:  make(chan *preparedVM),
		turns:     make(chan struct{}, prepareMost),
		guesses:   make(map[file]guesses),
	}
	// In a container, VMs outside may run the same executable. They cannot be seen, and are
	// not to pay for what happens here.
	host, err := bpf.InHostPIDs()
	if err != nil {
		return nil, err
	}
	s.oneByOne = !host
	s.running, s.stop = context.WithCancel(context.Background())
	vms, skipped, err := s.finder.Find(ctx, cfg.Target)
	if err != nil {
		s.stop()
		return nil, err
	}
	s.noteSkipped(skipped)
	o, err := newObservation(cfg.Plan, cfg, s.names, len(vms))
	if err != nil {
		s.stop()
		return nil, err
	}
	s.observations = []*observation{o}
	s.prepare(ctx, vms)
	if err := s.await(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.begin(cfg.Plan, o)
	if s.groups() {
		s.awaitNames(firstNames)
	}
	if o.census != nil {
		if err := o.census.catchUp(firstCensus); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	s.scanned = monotonic.Now()
	s.hits.begin(s.scanned)
	if err := o.beginAt(s.scanned); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if s.meter, err = newMeter(o.collector, s.scanned); err != nil {
		s.note("what a hit costs is not known: %v", err)
		s.meter = nil
	}
	s.updateStatus()
	return s, nil
}

// noteGuesses says of which VMs that run something is only guessed, where something is
// explained.
func (s *VMSource) noteGuesses() {
	explained := slices.ContainsFunc(s.observations, s.explains)
	ordered := slices.ContainsFunc(s.stages, func(st stage) bool { return slices.ContainsFunc(st.specs, takesMessages) })
	for _, pid := range slices.Sorted(maps.Keys(s.vms)) {
		v := s.vms[pid]
		if explained && v.guessed.states != nil && v.died == 0 {
			s.note("pid %d: %v: whether a process waits or was preempted is inferred from its reductions", pid, v.guessed.states)
			v.guessed.states = nil
		}
		if ordered && v.guessed.messages != nil && v.died == 0 {
			s.note("pid %d: %v: messages in mailboxes are paired in their order. Where a mailbox is not empty for longer than dMax, that order is not trusted: messages then count as unpaired", pid, v.guessed.messages)
			v.guessed.messages = nil
		}
	}
}

// takesMessages reports whether the instances of a spec end when a process takes a message.
func takesMessages(s Spec) bool {
	if s.VM == (Events{}) {
		return false
	}
	r, err := s.VM.Rule()
	return err == nil && r.Pairing == dtrace.FIFO && slices.ContainsFunc(r.End, func(e dtrace.Event) bool { return e.Probe.Name == "message__receive" })
}

// fileOf returns what is attached to for a VM.
func (s *VMSource) fileOf(v vm.VM) file {
	f := file{device: v.Exe.Device, inode: v.Exe.Inode}
	if s.cfg.Target.Single() || s.oneByOne {
		f.pid = v.PID()
	}
	return f
}

// adoptPatience is how long the processes may take, together, to say what they are that were
// counted before they were found: windows wait meanwhile.
const adoptPatience = 200 * time.Millisecond

func (s *VMSource) add(o *observedVM) {
	if o.exe != "" {
		delete(s.strangers.doubts, o.id.PID)
		delete(s.strangers.known, o.id.PID)
	}
	s.vms[o.id.PID] = o
	s.observeThreads(o.id.PID)
	for _, ob := range s.observations {
		if ob.census != nil {
			ob.census.add(o.id.PID)
		}
	}
	s.openNames()
}

// observeThreads has the collectors observe the threads of a VM.
func (s *VMSource) observeThreads(pid int) {
	for _, ob := range s.observations {
		if err := ob.collector.ObserveThreads(pid); err != nil {
			s.note("%v", err)
		}
	}
}

// forget has the collectors forget a VM that they cannot observe.
func (s *VMSource) forget(pid int) {
	for _, ob := range s.observations {
		if err := ob.collector.Forget(pid); err != nil {
			s.note("%v", err)
		}
	}
}

// openNames begins to open the VMs where something is explained, or may be later, and where
// something is grouped by process. That takes some tenths of a second, and a process that has
// no name in one window and has one in the next would be two.
func (s *VMSource) openNames() {
	if !s.groups() && !slices.ContainsFunc(s.observations, func(o *observation) bool { return o.collector.Explains() }) {
		return
	}
	for pid := range s.vms {
		s.namerOf(pid)
	}
}

// groups reports whether a plan groups something.
func (s *VMSource) groups() bool {
	grouped := func(p Plan) bool {
		return slices.ContainsFunc(ours(p.Specs), func(s Spec) bool { return s.Group != "" })
	}
	if len(s.stages) == 0 {
		return grouped(s.cfg.Plan)
	}
	return slices.ContainsFunc(s.stages, func(st stage) bool { return grouped(st.Plan) })
}

// awaitNames waits until the VMs are open, for so long at most.
func (s *VMSource) awaitNames(limit time.Duration) {
	end := time.Now().Add(limit)
	for pid := range s.vms {
		s.names.wait(pid, time.Until(end))
	}
}

// note adds a notice of one line, unless one that says the same waits to be taken.
func (s *VMSource) note(format string, args ...any) {
	text := oneLine(fmt.Sprintf(format, args...))
	if !slices.ContainsFunc(s.notices, func(n Notice) bool { return n.Text == text }) {
		s.notices = append(s.notices, Notice{Time: monotonic.Now(), Text: text})
	}
}

// oneLine returns the first line of a text, such as that of several errors joined, and how many
// others it has that differ.
func oneLine(text string) string {
	lines := strings.Split(text, "\n")
	first := lines[0]
	slices.Sort(lines)
	if others := len(slices.Compact(lines)) - 1; others > 0 {
		return fmt.Sprintf("%s (errors beside this one: %d)", first, others)
	}
	return first
}

// Plan implements [Source]. Where a plan needs more room than there is, or comes
// while windows of before the last one are still to be collected, everything that
// is open when it begins is lost as cut, and its ends are orphans.
func (s *VMSource) Plan(ctx context.Context, p Plan) error {
	if last := s.stages[len(s.stages)-1]; p.From <= last.From || last.At(last.Number(p.From)).From != p.From {
		return fmt.Errorf("change what is observed: no window begins at %d ns", p.From)
	}
	o := s.observations[len(s.observations)-1]
	outcomes, err := kernelOutcomes(p.Specs)
	if err != nil {
		return fmt.Errorf("change what is observed: %w", err)
	}
	var missing error
	if apart := s.toSeparate(); len(apart) > 0 {
		o, missing, err = s.takeOver(ctx, o, p, apart)
	} else {
		missing, err = o.collector.Change(ctx, p.From, int64(p.Window), outcomes)
		if errors.Is(err, bpf.ErrPending) || errors.Is(err, bpf.ErrNoRoom) {
			o, missing, err = s.takeOver(ctx, o, p, nil)
		}
	}
	if errors.Is(err, bpf.ErrLate) {
		return fmt.Errorf("change what is observed: %w: %w", ErrLate, err)
	}
	if err != nil {
		return fmt.Errorf("change what is observed: %w", err)
	}
	if missing != nil {
		s.note("%v", missing)
	}
	s.begin(p, o)
	s.updateStatus()
	return nil
}

// takeOver has another observation begin with a plan, where the one until now ends. It
// attaches to the VMs of some executables one by one.
func (s *VMSource) takeOver(ctx context.Context, old *observation, p Plan, apart []file) (o *observation, missing, err error) {
	if len(apart) > 0 {
		if err := s.leaveCrowd(); err != nil {
			return nil, nil, err
		}
	}
	if o, err = newObservation(p, s.cfg, s.names, len(s.vms)); err != nil {
		return nil, nil, err
	}
	for pid := range s.vms {
		missing = errors.Join(missing, o.collector.ObserveThreads(pid))
	}
	missing = errors.Join(missing, o.attachLike(ctx, old, func(f file) []int {
		if !slices.Contains(apart, f) {
			return []int{f.pid}
		}
		return s.runningIn(f)
	}))
	if ctx.Err() != nil {
		return nil, nil, errors.Join(context.Cause(ctx), o.close())
	}
	if monotonic.Now() >= p.From {
		return nil, nil, errors.Join(bpf.ErrLate, o.close())
	}
	if err := old.collector.End(p.From); err != nil {
		return nil, nil, errors.Join(err, o.close())
	}
	s.observations = append(s.observations, o)
	for _, f := range apart {
		s.separate(f)
	}
	s.oneByOne = s.oneByOne || len(apart) > 0
	s.note("the plan needs another collector: what is open when it begins is cut")
	return o, missing, nil
}

// begin notes a plan that begins.
func (s *VMSource) begin(p Plan, o *observation) {
	s.stages = append(s.stages, newStage(p, o))
	s.openNames()
	s.follow()
}

// follow has the stream of each observation followed where it is of use.
func (s *VMSource) follow() {
	for _, o := range s.observations {
		o.follow(slices.ContainsFunc(s.stages, func(st stage) bool {
			return st.observation == o && slices.ContainsFunc(st.specs, func(s Spec) bool { return s.Detail != CountsOnly })
		}))
		s.takeCensus(o)
	}
}

// takeCensus has the functions of processes found out where an observation groups by them.
func (s *VMSource) takeCensus(o *observation) {
	wanted := slices.ContainsFunc(s.stages, func(st stage) bool {
		return st.observation == o && slices.ContainsFunc(st.specs, func(s Spec) bool { return s.Group == GroupMFA })
	})
	switch {
	case wanted && o.census == nil:
		o.census = newCensus(o.collector, s.names, s.functions)
		for pid := range s.vms {
			o.census.add(pid)
		}
	case !wanted && o.census != nil:
		o.census.close()
		o.census = nil
	}
}

// advance gives up what was before the window, and returns its stage.
func (s *VMSource) advance(w Window) (*stage, error) {
	for len(s.stages) > 1 && w.From >= s.stages[1].From {
		old := s.stages[0].observation
		s.stages = slices.Delete(s.stages, 0, 1)
		if s.stages[0].observation != old {
			if err := s.retire(); err != nil {
				return nil, err
			}
		}
		s.follow()
	}
	return &s.stages[0], nil
}

// retire ends the first observation. What it still has open is cut.
func (s *VMSource) retire() error {
	old := s.observations[0]
	s.observations = slices.Delete(s.observations, 0, 1)
	cut, err := old.finish()
	for _, c := range cut {
		s.cut = append(s.cut, bpf.Counts{
			Outcome:  s.observations[0].collector.Outcome(old.collector.ID(c.Outcome)),
			PID:      c.PID,
			Counters: bpf.Counters{Cut: settled(c.Stray) + c.Stray.Cut},
		})
	}
	if s.meter != nil {
		err = errors.Join(err, s.meter.move(s.observations[0].collector))
	}
	return errors.Join(err, old.close())
}

// Collect implements [Source].
func (s *VMSource) Collect(_ context.Context, w Window) (Batch, error) {
	st, err := s.advance(w)
	if err != nil {
		return Batch{}, err
	}
	o := st.observation
	if _, err := o.collector.Sweep(w.To); err != nil {
		return Batch{}, err
	}
	// First the instances: what the sweep has ended is among them.
	streamed, err := o.take(w)
	if err != nil {
		return Batch{}, err
	}
	read, observed, err := s.read(o, st.first+st.Number(w.From))
	if err != nil {
		return Batch{}, err
	}
	read, s.cut = append(read, s.cut...), s.cut[:0]
	read = slices.DeleteFunc(read, func(c bpf.Counts) bool { return s.isLeftOut(c.PID) })
	s.adoptAll(read)
	if err := s.shareOut(o, read); err != nil {
		s.note("%v", err)
	}
	read = slices.DeleteFunc(read, func(c bpf.Counts) bool { return s.isLeftOut(c.PID) })
	streamed.instances = slices.DeleteFunc(streamed.instances, func(i bpf.Instance) bool { return s.isLeftOut(i.PID) })
	s.batch.assemble(st, s.vms, read, streamed)
	s.nameGroups(st)
	s.noteNoRoom(s.batch.counts)
	batch := Batch{Window: w, Time: monotonic.Wall(w.To), Counts: s.batch.counts, Instances: s.batch.instances}
	batch.Cost, batch.Loads = s.cost(w)
	s.settleStrangers(w, &batch)
	if !observed {
		batch.Instances = nil // they are part of what is lost
		for i := range batch.Counts {
			batch.Counts[i].Unobserved = true
		}
	}
	if err := s.explain(st, w, batch.Instances); err != nil {
		return Batch{}, err
	}
	if err := s.bury(w); err != nil {
		return Batch{}, err
	}
	if s.cfg.Target.PID != 0 && len(s.vms) == 0 {
		return batch, fmt.Errorf("%s has exited: %w", s.cfg.Target, ErrEnded)
	}
	return batch, nil
}

// read returns what the kernel counted in window n, which is swept, and whether that
// is all that happened. Where we come so late that later windows had no room, it
// reads those that had at once, and gives up the others up to the present: all that
// they hold is loss, because it is the part of what happened that found room, and as
// a rule the timeouts.
func (s *VMSource) read(o *observation, n uint64) (counts []bpf.Counts, observed bool, err error) {
	if counts, ok := o.ready[n]; ok {
		delete(o.ready, n)
		return counts, true, nil
	}
	if n < o.unobserved {
		more, err := o.collector.Stray()
		counts := append(o.stray, more...)
		o.stray = nil
		return counts, false, err
	}
	if o.collector.Number(monotonic.Now()) < n+bpf.Windows {
		counts, err := s.readWindow(o, n)
		return counts, true, err
	}
	for m := n; m < n+bpf.Windows; m++ {
		_, to := o.collector.Window(m)
		if _, err := o.collector.Sweep(to); err != nil {
			return nil, false, err
		}
		counts, err := s.readWindow(o, m)
		if err != nil {
			return nil, false, err
		}
		o.keep(m, counts)
	}
	o.unobserved = o.collector.Number(monotonic.Now()) + 1
	skipped, err := o.collector.Skip(o.unobserved)
	if err != nil {
		return nil, false, err
	}
	o.stray = append(o.stray, skipped...)
	s.note("we did not get the processor: %d windows were not observed", o.unobserved-n-bpf.Windows)
	return s.read(o, n)
}

func (s *VMSource) readWindow(o *observation, n uint64) ([]bpf.Counts, error) {
	counts, others, err := o.collector.Read(n)
	s.hits.read(monotonic.Now(), others.Hits, o.collector.VMHits())
	s.noteOthers(others)
	s.noteUnwatched(others)
	return counts, err
}

// cost returns what observing cost in a window, and the VMs' parts in it.
func (s *VMSource) cost(w Window) (c Cost, loads []Load) {
	hits := s.hits.within(w)
	c.Events = hits.All
	for pid, v := range s.vms {
		if v.exe != "" && v.died == 0 {
			loads = append(loads, Load{VM: v.id, User: v.process.User, Events: s.hits.of(pid, w)})
		}
	}
	s.hits.forget(w.To)
	if s.meter == nil {
		return c, loads
	}
	var err error
	if c.PerEvent, err = s.meter.read(monotonic.Now(), hits); err != nil {
		s.note("what a hit costs is no longer measured: %v", err)
		s.meter = nil
	}
	return c, loads
}

// Watch implements [Source]: it finds VMs that have come, and those that have gone.
func (s *VMSource) Watch(ctx context.Context) []Notice {
	if err := s.watch(ctx); err != nil {
		s.note("%v", err)
	}
	s.noteGuesses()
	s.updateStatus()
	notices := s.notices
	s.notices = nil
	return notices
}

// watch notes which VMs have come and gone.
func (s *VMSource) watch(ctx context.Context) error {
	now := monotonic.Now()
	for _, o := range s.vms {
		if o.died == 0 && o.watch != nil && o.watch.Happened() {
			o.died = now
			s.note("%s has exited", o.id)
		}
		s.noteStopped(o)
	}
	if err := s.sweepExits(now); err != nil {
		return err
	}
	if err := s.readmit(now); err != nil {
		return err
	}
	s.admitReady(ctx)
	vms, err := s.scan(now)
	if vms == nil || err != nil {
		return err
	}
	maps.DeleteFunc(s.refused, func(p usdt.Process, _ VMStatus) bool {
		return !slices.ContainsFunc(vms, func(v vm.VM) bool { return v.Process == p })
	})
	s.prepare(ctx, vms)
	return nil
}

// noteStopped says when a VM is stopped, and when it goes on.
func (s *VMSource) noteStopped(o *observedVM) {
	if o.died != 0 || o.process.PID() == 0 {
		return
	}
	now := o.process.Stopped()
	switch {
	case now == o.stopped:
		return
	case now == "":
		s.note("%s runs again", o.id)
	default:
		s.note("%s is %s: nothing happens in it", o.id, now)
	}
	o.stopped = now
}

// A scan is what was found when VMs were looked for.
type scan struct {
	vms     []vm.VM
	skipped usdt.Skipped
	err     error
}

// scan returns the VMs that a scan has found since it was last called, not nil but perhaps
// empty; nil where there was none. It begins another one where it is time to. Processes
// that do not answer hold up nothing but the scan.
func (s *VMSource) scan(now int64) ([]vm.VM, error) {
	if s.scans == nil {
		if s.cfg.Target.PID == 0 && now-s.scanned >= int64(rescan) {
			s.scanned, s.scans = now, make(chan scan, 1)
			go func(found chan<- scan) {
				vms, skipped, err := s.finder.Find(s.running, s.cfg.Target)
				found <- scan{vms, skipped, err}
			}(s.scans)
		}
		return nil, nil
	}
	select {
	case found := <-s.scans:
		s.scans = nil
		s.noteSkipped(found.skipped)
		if found.err != nil && !errors.Is(found.err, vm.ErrNone) {
			return nil, found.err
		}
		return append([]vm.VM{}, found.vms...), nil
	default:
		return nil, nil
	}
}

// noteSkipped says how many processes could not be looked at, when there are more than at
// the last scan.
func (s *VMSource) noteSkipped(skipped usdt.Skipped) {
	if skipped.Count > s.unlooked {
		s.note("%s: whether they are VMs is not known", skipped)
	}
	s.unlooked = skipped.Count
}

// Exits are swept about so often, also where windows are longer: there is room for
// those of some seconds. What is swept is so long ago that no program can still be
// about to count it, which is also why a window is swept when it has been over for
// some time.
const sweepPeriod, sweepLag = time.Second, time.Second

// sweepExits makes room for further exits of processes.
func (s *VMSource) sweepExits(now int64) error {
	if now-s.swept < int64(sweepPeriod) {
		return nil
	}
	s.swept = now
	for _, st := range s.stages {
		fails := slices.ContainsFunc(st.specs, func(s Spec) bool { return s.ExitFails })
		if !fails || st.Window <= sweepPeriod {
			continue
		}
		if _, err := st.observation.collector.Sweep(now - int64(sweepLag)); err != nil {
			return err
		}
	}
	return nil
}

// bury gives up the VMs that have ended and have no span that can still time out.
func (s *VMSource) bury(w Window) error {
	for pid, v := range s.vms {
		if v.died == 0 || w.From <= v.died {
			continue
		}
		open, err := s.openSpans(pid)
		if err != nil {
			return err
		}
		if open > 0 {
			continue
		}
		s.gone = append(s.gone, VMStatus{VM: v.id, Exe: v.exe, Since: v.since, Ended: true})
		s.gone = s.gone[max(0, len(s.gone)-goneMost):]
		delete(s.loud, v.process.Process)
		errs := []error{v.close(), s.giveUp(pid)}
		for _, o := range s.observations {
			errs = append(errs, o.collector.Forget(pid))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// giveUp gives up what there is of a VM, and detaches where it is attached to by itself. What
// the programs know of it stays.
func (s *VMSource) giveUp(pid int) error {
	delete(s.vms, pid)
	delete(s.unnamed, pid)
	delete(s.discovery.told, pid)
	errs := []error{s.names.close(pid)}
	for _, o := range s.observations {
		errs = append(errs, o.detach(pid))
		o.record.forgetVM(pid)
		if o.census != nil {
			o.census.forget(pid)
		}
	}
	s.functions.forgetVM(pid)
	s.names.callers.remove(pid)
	return errors.Join(errs...)
}

// openSpans returns how many spans of a VM may still end.
func (s *VMSource) openSpans(pid int) (int, error) {
	sum := 0
	for _, o := range s.observations {
		open, err := o.collector.OpenSpans(pid)
		if err != nil {
			return 0, err
		}
		sum += open
	}
	return sum, nil
}

// Close detaches from the VMs.
func (s *VMSource) Close() error {
	s.stop()
	if s.scans != nil {
		<-s.scans
	}
	s.prepares.Wait()
	var errs []error
	for _, o := range s.observations {
		errs = append(errs, o.close())
	}
	for pid, v := range s.vms {
		errs = append(errs, v.close(), s.names.close(pid))
	}
	for _, l := range s.left {
		errs = append(errs, l.close())
	}
	return errors.Join(append(errs, s.meter.close())...)
}
