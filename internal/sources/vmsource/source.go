// Package vmsource observes running Erlang VMs with eBPF. Its [Source] finds the VMs of a target,
// attaches to their probes, and reads the outcomes that the kernel pairs and counts: spans that fire
// probes, and outcomes of the VM itself. It makes the traces that explain instances, with the events
// that package explain puts together.
package vmsource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/host/budget"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/host/processor"
	"github.com/beamscope/beamscope/usdt"
)

// rescan is the interval between searches for VMs. A new VM is reported at most that late. If the
// target is an executable, its spans are counted from the first one on nevertheless.
const rescan = time.Second

// Config describes a [Source].
type Config struct {
	Target vm.Target
	Plan   outcome.Plan // the first plan

	// Discover makes the source collect names of spans that no spec of the plan has, for
	// [Source.Discovered]. It makes the start of every span of the VMs an event.
	Discover bool

	// Explain prepares for specs with Explain in later plans. Without it, open instances are lost
	// as cut when the first such spec comes.
	Explain bool

	// Progress, if not nil, is called during attaching, which may take seconds, also by
	// [Source.Watch] and [Source.Plan] if there is something new. The calls do not overlap, and
	// may come from other goroutines.
	Progress func(Progress)
}

// Progress is the progress of attaching to VMs.
type Progress struct {
	Loaded, All int // numbers of programs: loaded, and needed
}

// A Source observes running Erlang VMs with eBPF: spans of the application, and the events of
// their own probes, paired and counted in the kernel. It ignores specs of other sources. A plan may
// consist of those alone; then it observes nothing.
type Source struct {
	cfg   Config
	meter *meter
	vms   map[int]*observedVM
	left  map[int]*leftVM      // VMs that are left out, by pid
	loud  map[usdt.Process]int // number of times that each running VM was left out for its high cost

	leftUsers map[int]leftUser
	ignored   map[int]bool // pids of VMs that are counted although they are left out because of their user

	strangers strangers
	oneByOne  bool // VMs are attached to one by one, because one was left out, there was a stranger, or others may be hidden

	refused map[usdt.Process]refusal // VMs that cannot be observed, which a notice has reported
	gone    []outcome.VMStatus       // the last VMs that ended
	notices []outcome.Notice
	hits    hits
	usage   usage

	// The first one of each belongs to the window that was collected last. The others wait for
	// their first window.
	stages       []stage
	observations []*observation
	cut          []bpf.Counts // given up with the previous observation
	successor    *successor   // will take over; nil if there is none

	finder  vm.Finder
	scanned int64           // time of the last search for VMs
	scans   chan scan       // result of a search in the background; nil if there is none
	stop    func()          // stops the work in the background
	running context.Context // done when the work in the background must stop

	preparing map[usdt.Process]claim // VMs whose executables are being read
	prepared  chan *preparedVM       // the results
	ready     []*preparedVM          // results that wait for the next call of Watch
	prepares  sync.WaitGroup
	turns     *turns
	guard     guard.Guard
	files     map[file]*sharedFile   // files attached to for all processes
	apart     map[file]bool          // files whose VMs are attached to one by one
	named     file                   // the file that the target names by its path
	attaching map[int]*budget.Budget // time for attaching, by user

	unlooked int   // number of processes that the last search could not examine
	swept    int64 // time of the last sweep of exits

	batch assembly

	placeless map[int]bool // pids of VMs without a place
	toldCrowd map[int]int  // reported number of a user's VMs without a place

	noRoom        map[string]lossRun // events that found no room, by outcome
	unrecorded    lossRun            // lost events for explanations
	toldUnwatched bool               // a notice has reported that a process could not be watched

	names     *names       // names of the VMs' processes
	functions *registry    // functions with which they were started
	unnamed   map[int]bool // VMs without names, which a notice has reported
	discovery discovery
	status    statusBoard

	spanSights spanSights
}

// A stage is a plan together with its observation.
type stage struct {
	outcome.Plan
	observation *observation
	first       uint64         // number of the plan's first window in the observation
	specs       []outcome.Spec // the specs of the plan that are ours
	index       map[int]int    // indexes of specs by the number of the outcome in the observation
}

func newStage(p outcome.Plan, o *observation) stage {
	st := stage{Plan: p, observation: o, first: o.collector.Number(p.From), specs: ours(p.Specs), index: make(map[int]int)}
	for i, spec := range st.specs {
		st.index[o.collector.Outcome(kernelID(spec))] = i
	}
	return st
}

// ours returns the specs that this source observes.
func ours(specs []outcome.Spec) []outcome.Spec {
	return slices.DeleteFunc(slices.Clone(specs), func(s outcome.Spec) bool { return !s.OfVM() })
}

// A file is an executable that is attached to, for all its processes or, if pid is set, for one
// process.
type file struct {
	device, inode uint64
	pid           int
}

type observedVM struct {
	id    outcome.VM
	file  file
	exe   string // path of its executable, or "" if it exited before it could be examined
	begun int64  // when attaching to it began
	since int64
	watch *vm.Exit // nil if it exited before it could be watched
	died  int64    // 0 while it runs
	uncut bool     // it has ended, and what was open in it has still to be given up

	process vm.VM  // zero if it exited before it could be examined
	stopped string // why it does not run, as last reported; "" while it runs
	bound   bool   // it was reported that its cost is shown as the processor time that it used

	guessed  guesses
	compared bool          // guessed is known
	recheck  int64         // when it is checked again whether it is like other VMs with its executable; 0: never
	pause    time.Duration // before that
}

func (o *observedVM) close() error {
	if o.watch == nil {
		return nil
	}
	return o.watch.Close()
}

// New finds the VMs and attaches to them, which takes some tenths of a second. Windows of
// the plan that begin before that are not observed as a whole. It fails if no VM matches the
// target, if none of the VMs has the probes, or if the context ends first. The caller closes the
// source.
func New(ctx context.Context, cfg Config) (*Source, error) {
	s := &Source{
		cfg:       cfg,
		vms:       make(map[int]*observedVM),
		left:      make(map[int]*leftVM),
		loud:      make(map[usdt.Process]int),
		leftUsers: make(map[int]leftUser),
		ignored:   make(map[int]bool),
		refused:   make(map[usdt.Process]refusal),
		unnamed:   make(map[int]bool),
		strangers: strangers{doubts: make(map[int]*doubt), known: make(map[int]bool)},
		names:     newNames(cfg.Target.Symbols),

		functions: new(registry),
		noRoom:    make(map[string]lossRun),
		toldCrowd: make(map[int]int),

		preparing: make(map[usdt.Process]claim),
		prepared:  make(chan *preparedVM),
		turns:     newTurns(),
		apart:     make(map[file]bool),
		files:     make(map[file]*sharedFile),
		attaching: make(map[int]*budget.Budget),
	}
	// In a container, VMs outside may run the same executable. They are not visible here, and
	// must not pay for what is observed here.
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
	if cfg.Discover && !attachesApart() {
		s.note("before Linux 6.6 the names of spans that fire probes are not discovered: a scope file can name them. Spans in the ring are")
	}
	o, err := newObservation(cfg.Plan, cfg, s.names, len(vms))
	if err != nil {
		s.stop()
		return nil, err
	}
	s.observations = []*observation{o}
	s.prepare(ctx, vms)
	s.shareRoom(o)
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
	s.usage = usage{of: processor.Process}
	s.usage.read(s.scanned, s.vms)
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

// noteGuesses reports running VMs about which facts are guessed, if explanations or outcomes
// depend on these facts.
func (s *Source) noteGuesses() {
	explained := slices.ContainsFunc(s.observations, s.explains)
	ordered := slices.ContainsFunc(s.stages, func(st stage) bool { return slices.ContainsFunc(st.specs, takesMessages) })
	for _, pid := range slices.Sorted(maps.Keys(s.vms)) {
		v := s.vms[pid]
		if explained && v.guessed.states != nil && v.died == 0 {
			s.note("pid %d: %v: whether a process waits or was preempted is inferred from its reductions", pid, v.guessed.states)
			v.guessed.states = nil
		}
		if explained && v.guessed.unproven != nil && v.died == 0 {
			s.note("pid %d: %v: whether a process waits or was preempted is read from flags whose meaning is not proved yet", pid, v.guessed.unproven)
			v.guessed.unproven = nil
		}
		if ordered && v.guessed.messages != nil && v.died == 0 {
			s.note("pid %d: %v: messages in mailboxes are paired in their order. Where a mailbox is not empty for longer than dMax, that order is not trusted: messages then count as unpaired", pid, v.guessed.messages)
			v.guessed.messages = nil
		}
	}
}

// takesMessages reports whether the instances of a spec end when a process takes a message.
func takesMessages(s outcome.Spec) bool {
	if s.VM == (outcome.Events{}) {
		return false
	}
	r, err := s.VM.Rule()
	return err == nil && r.Pairing == dtrace.FIFO && slices.ContainsFunc(r.End, func(e dtrace.Event) bool { return e.Probe.Name == "message__receive" })
}

// fileOf returns the file to attach to for a VM.
func (s *Source) fileOf(v vm.VM) file {
	f := file{device: v.Exe.Device, inode: v.Exe.Inode}
	if s.cfg.Target.Single() || s.oneByOne || s.apart[f] {
		f.pid = v.PID()
	}
	return f
}

// adoptPatience is the total time limit for examining processes that were counted before they
// were found. Windows wait meanwhile.
const adoptPatience = 200 * time.Millisecond

func (s *Source) add(o *observedVM) {
	if o.exe != "" {
		delete(s.strangers.doubts, o.id.PID)
		delete(s.strangers.known, o.id.PID)
	}
	s.vms[o.id.PID] = o
	for _, ob := range s.observations {
		if ob.census != nil {
			ob.census.add(o.id.PID)
		}
	}
	s.openNames()
}

// observeThreads makes the collectors observe the threads of a VM.
func (s *Source) observeThreads(pid int) {
	for _, ob := range s.observations {
		if err := ob.collector.ObserveThreads(pid); err != nil {
			s.note("%v", err)
		}
	}
}

// forget makes the collectors drop a VM that they cannot observe.
func (s *Source) forget(pid int) {
	if err := s.forgetAll(pid); err != nil {
		s.note("%v", err)
	}
}

// openNames begins to open the VMs for names if an outcome is explained, may be explained later,
// or is grouped. That takes some tenths of a second, so it begins early: a process without a name
// in one window and with a name in the next would look like two.
func (s *Source) openNames() {
	if !s.groups() && !slices.ContainsFunc(s.observations, func(o *observation) bool { return o.collector.Explains() }) {
		return
	}
	for pid := range s.vms {
		s.namerOf(pid)
	}
}

// groups reports whether a plan groups any outcome.
func (s *Source) groups() bool {
	grouped := func(p outcome.Plan) bool {
		return slices.ContainsFunc(ours(p.Specs), func(s outcome.Spec) bool { return s.Group != "" })
	}
	if len(s.stages) == 0 {
		return grouped(s.cfg.Plan)
	}
	return slices.ContainsFunc(s.stages, func(st stage) bool { return grouped(st.Plan) })
}

// awaitNames waits until the VMs are open, or until the time limit.
func (s *Source) awaitNames(limit time.Duration) {
	end := time.Now().Add(limit)
	for pid := range s.vms {
		s.names.wait(pid, time.Until(end))
	}
}

// note adds a notice of one line, unless the same text is already waiting.
func (s *Source) note(format string, args ...any) {
	s.addNotice(outcome.PlainNotice, oneLine(fmt.Sprintf(format, args...)))
}

// noteError adds a notice of an error, if there is one.
func (s *Source) noteError(err error) {
	if err != nil {
		s.note("%v", err)
	}
}

func (s *Source) noteExit(id outcome.VM) {
	s.addNotice(outcome.ExitedNotice, id.String()+" has exited")
}

func (s *Source) addNotice(kind outcome.NoticeKind, text string) {
	if !slices.ContainsFunc(s.notices, func(n outcome.Notice) bool { return n.Text == text }) {
		s.notices = append(s.notices, outcome.Notice{Time: monotonic.Now(), Text: text, Kind: kind})
	}
}

// oneLine returns the first line of a text, such as that of several joined errors, and the number
// of further different lines.
func oneLine(text string) string {
	lines := strings.Split(text, "\n")
	first := lines[0]
	slices.Sort(lines)
	if others := len(slices.Compact(lines)) - 1; others > 0 {
		return fmt.Sprintf("%s (errors beside this one: %d)", first, others)
	}
	return first
}

// Plan implements [outcome.Source]. If a plan needs more room than there is, or comes while windows
// before the last plan still have to be collected, everything that is open when it begins is lost
// as cut, and its ends are orphans.
func (s *Source) Plan(ctx context.Context, p outcome.Plan) error {
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
		return fmt.Errorf("change what is observed: %w: %w", outcome.ErrLate, err)
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

// begin records a plan that begins.
func (s *Source) begin(p outcome.Plan, o *observation) {
	s.stages = append(s.stages, newStage(p, o))
	s.openNames()
	s.follow()
}

// needsProbes reports whether the VMs of a plan need probes: an outcome has events there, or none
// works without probes. Spans do not count, because other means observe them in a VM without probes.
func needsProbes(specs []outcome.Spec) bool {
	threads := false
	for _, spec := range ours(specs) {
		if spec.Span != "" {
			continue
		}
		if r, err := spec.VM.Rule(); err != nil || !r.RunQueue {
			return true
		}
		threads = true
	}
	return !threads
}

// follow follows the stream of each observation that delivers single instances.
func (s *Source) follow() {
	for _, o := range s.observations {
		o.follow(slices.ContainsFunc(s.stages, func(st stage) bool {
			return st.observation == o && slices.ContainsFunc(st.specs, func(s outcome.Spec) bool { return s.Detail != outcome.CountsOnly })
		}))
		s.takeCensus(o)
	}
}

// takeCensus runs a census while an observation groups by functions.
func (s *Source) takeCensus(o *observation) {
	wanted := slices.ContainsFunc(s.stages, func(st stage) bool {
		return st.observation == o && slices.ContainsFunc(st.specs, func(s outcome.Spec) bool { return s.Group == outcome.GroupMFA })
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

// advance drops the stages before the window, and returns the stage of the window.
func (s *Source) advance(w outcome.Window) (*stage, error) {
	for len(s.stages) > 1 && w.From >= s.stages[1].From {
		old, needed := s.stages[0].observation, needsProbes(s.stages[0].Specs)
		s.stages = slices.Delete(s.stages, 0, 1)
		if needed && !needsProbes(s.stages[0].Specs) {
			clear(s.refused) // VMs without probes may be observed now
		}
		if s.stages[0].observation != old {
			if err := s.retire(); err != nil {
				return nil, err
			}
		}
		s.follow()
	}
	return &s.stages[0], nil
}

// retire ends the first observation. Its open instances are cut.
func (s *Source) retire() error {
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

// Collect implements [outcome.Source].
func (s *Source) Collect(_ context.Context, w outcome.Window) (outcome.Batch, error) {
	st, err := s.advance(w)
	if err != nil {
		return outcome.Batch{}, err
	}
	o := st.observation
	if _, err := o.collector.Sweep(w.To); err != nil {
		return outcome.Batch{}, err
	}
	// The instances come first, and include those that the sweep has ended.
	streamed, err := o.take(w)
	if err != nil {
		return outcome.Batch{}, err
	}
	read, observed, err := s.read(o, st.first+st.Number(w.From))
	if err != nil {
		return outcome.Batch{}, err
	}
	read, s.cut = append(read, s.cut...), s.cut[:0]
	s.ignoreLater(o)
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
	batch := outcome.Batch{Window: w, Time: monotonic.Wall(w.To), Counts: s.batch.counts, Instances: s.batch.instances}
	batch.Owners, batch.Users = s.owners(), s.hits.ofUsers(w)
	batch.Cost, batch.Loads = s.cost(w)
	s.settleStrangers(w, &batch)
	if !observed {
		batch.Instances = nil // they are part of the loss
		for i := range batch.Counts {
			batch.Counts[i].Unobserved = true
		}
	}
	if err := s.explain(st, w, batch.Instances); err != nil {
		return outcome.Batch{}, err
	}
	if err := s.bury(w); err != nil {
		return outcome.Batch{}, err
	}
	if s.cfg.Target.PID != 0 && len(s.vms) == 0 {
		return batch, fmt.Errorf("%s has exited: %w", s.cfg.Target, outcome.ErrEnded)
	}
	return batch, nil
}

// read returns the kernel's counts of window n, which has been swept, and whether they are
// complete. If collection is so late that later windows had no room, it reads the windows that
// had room at once, and gives up the others up to the present. Everything in those is loss,
// because it is only the part of the instances that found room, usually the timeouts.
func (s *Source) read(o *observation, n uint64) (counts []bpf.Counts, observed bool, err error) {
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
	s.note("beamscope did not get a processor in time: %d windows were not observed", o.unobserved-n-bpf.Windows)
	return s.read(o, n)
}

func (s *Source) readWindow(o *observation, n uint64) ([]bpf.Counts, error) {
	counts, others, err := o.collector.Read(n)
	now := monotonic.Now()
	s.hits.read(now, others.Hits, o.collector.VMHits(), s.byAccount(o.collector.UserHits()))
	s.usage.read(now, s.vms)
	s.noteOthers(others)
	s.noteUnwatched(others)
	return counts, err
}

// byAccount returns numbers by account for numbers by user.
func (s *Source) byAccount(users map[int]uint64) map[int]uint64 {
	sums := make(map[int]uint64, len(users))
	for user, n := range users {
		sums[s.finder.Account(user)] += n
	}
	return sums
}

// cost returns the cost of observing in a window, and the shares of the VMs in it.
func (s *Source) cost(w outcome.Window) (c outcome.Cost, loads []outcome.Load) {
	hits := s.hits.within(w)
	c.Events = hits.All
	for pid, v := range s.vms {
		if v.exe != "" && v.died == 0 {
			loads = append(loads, outcome.Load{VM: v.id, User: v.process.Account, Events: s.hits.of(pid, w)})
		}
	}
	for pid, l := range s.left {
		loads = append(loads, outcome.Load{VM: l.id, User: l.process.Account, Events: s.hits.of(pid, w), Left: true})
	}
	s.hits.forget(w.To)
	defer s.usage.forget(w.To)
	if s.meter == nil {
		return c, loads
	}
	price, err := s.meter.read(monotonic.Now(), hits)
	if err != nil {
		s.note("what a hit costs is no longer measured: %v", err)
		s.meter = nil
	}
	var beyond []outcome.VM
	c.PerEvent, beyond = bound(price, c.Events, loads, func(pid int) (time.Duration, bool) { return s.usage.within(pid, w) })
	for _, vm := range beyond {
		s.noteBound(vm, price)
	}
	return c, loads
}

// noteBound says, once for each VM, that windows do not show the measured price.
func (s *Source) noteBound(vm outcome.VM, price time.Duration) {
	if v := s.vms[vm.PID]; v != nil && !v.bound {
		v.bound = true
		s.note("%s: by the measured price of %s an event, observing would cost more than the processor time that the VM used. Such windows show the time that it used as the cost",
			vm, figures.Delay(price))
	}
}

// Watch implements [outcome.Source]: it finds new VMs, and VMs that have ended.
func (s *Source) Watch(ctx context.Context) []outcome.Notice {
	if err := s.watch(ctx); err != nil {
		s.note("%v", err)
	}
	s.shareRoom(s.observations...)
	s.noteGuesses()
	s.updateStatus()
	notices := s.notices
	s.notices = nil
	return notices
}

// watch records which VMs have started and ended.
func (s *Source) watch(ctx context.Context) error {
	now := monotonic.Now()
	for _, o := range s.vms {
		if o.died == 0 && o.watch != nil && o.watch.Happened() {
			o.died, o.uncut = now, true
			s.noteExit(o.id)
		}
		s.noteStopped(o)
	}
	if err := s.cutOpen(now); err != nil {
		return err
	}
	if err := s.sweepExits(now); err != nil {
		return err
	}
	if err := errors.Join(s.readmit(now), s.dropLateSuccessor(now)); err != nil {
		return err
	}
	s.admitReady(ctx)
	s.checkAgain(now)
	vms, err := s.scan(now)
	if vms == nil || err != nil {
		return err
	}
	s.forgetEnded(vms)
	s.prepare(ctx, vms)
	return s.detachIdle(now, vms)
}

// forgetEnded drops what is remembered of processes that a search did not find any more.
func (s *Source) forgetEnded(found []vm.VM) {
	running := make(map[usdt.Process]bool)
	for _, v := range found {
		running[v.Process] = true
	}
	for _, l := range s.left {
		running[l.process.Process] = true // until it is readmitted
	}
	for _, v := range s.vms {
		running[v.process.Process] = true // until it is buried
	}
	maps.DeleteFunc(s.refused, func(p usdt.Process, _ refusal) bool { return !running[p] })
	maps.DeleteFunc(s.loud, func(p usdt.Process, _ int) bool { return !running[p] })
	placed := s.placed()
	maps.DeleteFunc(s.strangers.known, func(pid int, _ bool) bool { return !placed[pid] && !vm.Running(pid) })
}

// placed returns the pids that have places in any observation.
func (s *Source) placed() map[int]bool {
	placed := make(map[int]bool)
	for _, o := range s.observations {
		holders, _ := o.collector.Holders()
		for _, h := range holders {
			placed[h.PID] = true
		}
	}
	return placed
}

// noteStopped reports when a VM stops, and when it continues.
func (s *Source) noteStopped(o *observedVM) {
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

// A scan is the result of a search for VMs.
type scan struct {
	vms     []vm.VM
	named   file // to which the target's path leads
	skipped usdt.Skipped
	err     error
}

// scan returns the VMs that a finished search has found since the last call: not nil, but perhaps
// empty. It returns nil if no search has finished. It starts another search when that is due.
// Processes that do not answer delay nothing but the search.
func (s *Source) scan(now int64) ([]vm.VM, error) {
	if s.scans == nil {
		if s.cfg.Target.PID == 0 && now-s.scanned >= int64(rescan) {
			s.scanned, s.scans = now, make(chan scan, 1)
			go func(found chan<- scan) {
				vms, skipped, err := s.finder.Find(s.running, s.cfg.Target)
				found <- scan{vms, fileAt(s.cfg.Target), skipped, err}
			}(s.scans)
		}
		return nil, nil
	}
	select {
	case found := <-s.scans:
		s.scans, s.named = nil, found.named
		s.noteSkipped(found.skipped)
		if found.err != nil && !errors.Is(found.err, vm.ErrNone) {
			return nil, found.err
		}
		return append([]vm.VM{}, found.vms...), nil
	default:
		return nil, nil
	}
}

// noteSkipped reports how many processes could not be examined, if there are more than in the
// previous search.
func (s *Source) noteSkipped(skipped usdt.Skipped) {
	if skipped.Count > s.unlooked {
		s.note("%s. beamscope does not know whether VMs are among them", skipped)
	}
	s.unlooked = skipped.Count
}

// Exits are swept at this interval even if windows are longer, because there is room for the
// exits of some seconds. A sweep covers only older exits: every program that could count them has
// finished. For the same reason a window is swept only when it has been over for some time.
const sweepPeriod, sweepLag = time.Second, time.Second

// sweepExits makes room for further exits of processes.
func (s *Source) sweepExits(now int64) error {
	if now-s.swept < int64(sweepPeriod) {
		return nil
	}
	s.swept = now
	for _, st := range s.stages {
		fails := slices.ContainsFunc(st.specs, func(s outcome.Spec) bool { return s.ExitFails })
		if !fails || st.Window <= sweepPeriod {
			continue
		}
		if _, err := st.observation.collector.Sweep(now - int64(sweepLag)); err != nil {
			return err
		}
	}
	return nil
}

// cutOpen gives up what is open in VMs that have ended: no event will come that ends it. What began
// after the end of a VM belongs to another process with its pid.
func (s *Source) cutOpen(now int64) error {
	uncut := s.uncut()
	ended := make(map[int]int64)
	for _, v := range uncut {
		ended[v.id.PID] = v.died
	}
	if err := s.cutVMs(ended, now); err != nil {
		return err
	}
	for _, v := range uncut {
		v.uncut = false
	}
	return nil
}

// cutVMs gives up what began in VMs before a time for each of them, by pid.
func (s *Source) cutVMs(before map[int]int64, now int64) error {
	if len(before) == 0 {
		return nil
	}
	var errs []error
	for _, o := range s.observations {
		errs = append(errs, o.collector.CutVMs(before, now))
	}
	return errors.Join(errs...)
}

// uncut returns the VMs that have ended and may have open instances.
func (s *Source) uncut() []*observedVM {
	var all []*observedVM
	for _, v := range s.vms {
		if v.uncut {
			all = append(all, v)
		}
	}
	for _, l := range s.left {
		if l.uncut {
			all = append(all, l.observedVM)
		}
	}
	return all
}

// bury drops the VMs that have ended, when the window of their end was read. A process that only hit
// the probes and could not be examined is dropped when it has no open instance.
func (s *Source) bury(w outcome.Window) error {
	var due, unexamined []int
	for pid, v := range s.vms {
		switch {
		case v.died == 0 || v.uncut || w.From <= v.died:
		case v.exe == "":
			unexamined = append(unexamined, pid)
		default:
			due = append(due, pid)
		}
	}
	idle, err := s.idle(unexamined)
	if err != nil {
		return err
	}
	for _, pid := range append(due, idle...) {
		if err := s.buryOne(pid); err != nil {
			return err
		}
	}
	return nil
}

// buryOne drops a VM.
func (s *Source) buryOne(pid int) error {
	v := s.vms[pid]
	s.gone = append(s.gone, outcome.VMStatus{VM: v.id, Exe: v.exe, Since: v.since, Ended: true})
	s.gone = s.gone[max(0, len(s.gone)-goneMost):]
	delete(s.loud, v.process.Process)
	return errors.Join(v.close(), s.giveUp(pid), s.forgetAll(pid))
}

// forgetAll makes the collectors drop a VM, and returns their errors.
func (s *Source) forgetAll(pid int) error {
	var errs []error
	for _, o := range s.observations {
		errs = append(errs, o.collector.Forget(pid))
	}
	return errors.Join(errs...)
}

// giveUp drops what the source keeps for a VM, and detaches if the VM is attached to by itself.
// The data of the programs stays.
func (s *Source) giveUp(pid int) error {
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

// idle returns the processes that have no span that may still end.
func (s *Source) idle(pids []int) ([]int, error) {
	if len(pids) == 0 {
		return nil, nil
	}
	idle := slices.Clone(pids)
	for _, o := range s.observations {
		open, err := o.collector.OpenSpans(pids...)
		if err != nil {
			return nil, err
		}
		idle = slices.DeleteFunc(idle, func(pid int) bool { return open[pid] > 0 })
	}
	return idle, nil
}

// Close detaches from the VMs.
func (s *Source) Close() error {
	s.stop()
	if s.scans != nil {
		<-s.scans
	}
	s.prepares.Wait()
	errs := []error{s.dropSuccessor()}
	for _, p := range s.ready {
		errs = append(errs, p.Close())
	}
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
