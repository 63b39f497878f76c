package outcome

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
}

// A VMSource observes running Erlang VMs with eBPF: the spans of the wrapper,
// paired and counted in the kernel.
type VMSource struct {
	cfg       VMConfig
	collector *bpf.Collector
	meter     *meter
	files     map[file]*bpf.Attachment
	vms       map[int]*observedVM
	ids       sync.Map              // the VMs' ids by pid, for Stream, which runs beside the rest
	refused   map[usdt.Process]bool // VMs that cannot be observed, which was noted
	notices   []Notice
	hits      uint64 // since the cost was last asked for

	// Where we came too late: windows read in advance, by number; the number
	// below which windows that are not ready were not observed; and what is lost.
	ready      map[uint64][]bpf.Counts
	unobserved uint64
	stray      []bpf.Counts

	scanned int64 // when VMs were last looked for
}

// A file is an executable that is attached to: for a single VM only that one's
// process, otherwise all of them.
type file struct {
	device, inode uint64
	pid           int
}

type observedVM struct {
	id    VM
	watch *vm.Exit // nil where it was gone before it could be watched
	died  int64    // 0 while it runs
}

func (o *observedVM) close() error {
	if o.watch == nil {
		return nil
	}
	return o.watch.Close()
}

// NewVMSource finds the VMs and attaches to them. It fails where there is no VM
// that the target means, or none of them has the probes; the caller closes the
// source.
func NewVMSource(cfg VMConfig) (*VMSource, error) {
	vms, err := vm.Find(cfg.Target)
	if err != nil {
		return nil, err
	}
	s := &VMSource{
		cfg:     cfg,
		files:   make(map[file]*bpf.Attachment),
		vms:     make(map[int]*observedVM),
		refused: make(map[usdt.Process]bool),
		ready:   make(map[uint64][]bpf.Counts),
	}
	opts := bpf.Options{Start: cfg.Plan.From, Window: int64(cfg.Plan.Window)}
	for _, spec := range cfg.Plan.Specs {
		opts.Outcomes = append(opts.Outcomes, bpf.Outcome{
			Name:      spec.Span,
			DMax:      int64(spec.DMax()),
			BinWidth:  int64(spec.BinWidth),
			Bins:      spec.Bins,
			Stream:    spec.Detail == Everything,
			ExitFails: spec.ExitFails,
		})
	}
	if s.collector, err = bpf.New(opts); err != nil {
		return nil, err
	}
	if err := s.observe(vms); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.scanned = monotonic.Now()
	if s.meter, err = newMeter(s.collector, s.scanned); err != nil {
		s.note("what a hit costs is not known: %v", err)
		s.meter = nil
	}
	return s, nil
}

// observe attaches to the VMs that are new. Only where there is none that it can
// observe is that an error; otherwise it is noted.
func (s *VMSource) observe(vms []vm.VM) error {
	var errs []error
	for _, v := range vms {
		if _, known := s.vms[v.PID()]; known || s.refused[v.Process] {
			continue
		}
		if err := s.attach(v); err != nil {
			s.refused[v.Process] = true
			errs = append(errs, err)
			continue
		}
		watch, err := v.Watch()
		if errors.Is(err, unix.ESRCH) {
			continue // gone already: adopt sees to it, if it did anything
		}
		if err != nil {
			s.note("the end of pid %d will not be noticed: %v", v.PID(), err)
		}
		id := VM{PID: v.PID(), Node: v.Node}
		s.add(&observedVM{id: id, watch: watch})
		s.note("observing %s", id)
	}
	if len(s.vms) == 0 && len(errs) > 0 {
		return errs[0]
	}
	for _, err := range errs {
		s.note("%v", err)
	}
	return nil
}

// attach attaches to the executable of a VM, unless that was done for another.
func (s *VMSource) attach(v vm.VM) error {
	f := file{device: v.Exe.Device, inode: v.Exe.Inode}
	if s.cfg.Target.Single() {
		f.pid = v.PID()
	}
	if _, attached := s.files[f]; attached {
		return nil
	}
	probes, err := v.Probes()
	if err != nil {
		return err
	}
	a, err := s.collector.Attach(bpf.Target{Path: v.Exe.Path, Inode: v.Exe.Inode, PID: f.pid, Probes: probes})
	if err != nil {
		return fmt.Errorf("pid %d: %w", v.PID(), err)
	}
	s.files[f] = a
	return nil
}

// adopt takes note of a VM that was counted before it was found: it runs an
// executable that is attached to, and is new, or gone already.
func (s *VMSource) adopt(pid int) {
	if vms, err := vm.Find(vm.Target{PID: pid}); err == nil && s.observe(vms) == nil && s.vms[pid] != nil {
		return
	}
	s.add(&observedVM{id: VM{PID: pid}, died: monotonic.Now()})
	s.note("%s has come and gone", VM{PID: pid})
}

func (s *VMSource) add(o *observedVM) {
	s.vms[o.id.PID] = o
	s.ids.Store(o.id.PID, o.id)
}

// id returns what is known of a VM, in any goroutine: its pid at least.
func (s *VMSource) id(pid int) VM {
	if id, ok := s.ids.Load(pid); ok {
		return id.(VM)
	}
	return VM{PID: pid}
}

func (s *VMSource) note(format string, args ...any) {
	s.notices = append(s.notices, Notice{Time: monotonic.Now(), Text: fmt.Sprintf(format, args...)})
}

// Plan implements [Source].
func (s *VMSource) Plan(Plan) error { return errors.ErrUnsupported }

// Collect implements [Source].
func (s *VMSource) Collect(_ context.Context, w Window) (Batch, error) {
	n := s.cfg.Plan.Number(w.From)
	read, err := s.read(n)
	if err != nil {
		return Batch{}, err
	}
	for _, c := range read {
		if _, known := s.vms[c.PID]; !known && c.PID != 0 {
			s.adopt(c.PID)
		}
	}
	batch := Batch{Window: w, Time: monotonic.Wall(w.To), Counts: s.counts(read), Cost: s.cost()}
	if n < s.unobserved {
		for i := range batch.Counts {
			batch.Counts[i].Unobserved = true
		}
	}
	if err := s.bury(w); err != nil {
		return Batch{}, err
	}
	if s.cfg.Target.PID != 0 && len(s.vms) == 0 {
		return batch, fmt.Errorf("%s has exited: %w", s.cfg.Target, ErrEnded)
	}
	return batch, nil
}

// read returns what the kernel counted in window n. Where we come so late that
// later windows had no room, it reads those that had at once, and gives up the
// others up to the present: all that they hold is loss, because it is the part of
// what happened that found room, and as a rule the timeouts.
func (s *VMSource) read(n uint64) ([]bpf.Counts, error) {
	if counts, ok := s.ready[n]; ok {
		delete(s.ready, n)
		return counts, nil
	}
	if n < s.unobserved {
		if _, err := s.collector.Sweep(s.cfg.Plan.At(n).To); err != nil {
			return nil, err
		}
		more, err := s.collector.Stray()
		counts := append(s.stray, more...)
		s.stray = nil
		return counts, err
	}
	if s.cfg.Plan.Number(monotonic.Now()) < n+bpf.Windows {
		return s.readWindow(n)
	}
	for m := n; m < n+bpf.Windows; m++ {
		counts, err := s.readWindow(m)
		if err != nil {
			return nil, err
		}
		for i, c := range counts {
			s.stray = append(s.stray, bpf.Counts{Outcome: c.Outcome, PID: c.PID, Stray: c.Stray})
			counts[i].Stray = bpf.Counters{}
		}
		s.ready[m] = counts
	}
	s.unobserved = s.cfg.Plan.Number(monotonic.Now()) + 1
	skipped, err := s.collector.Skip(s.unobserved)
	if err != nil {
		return nil, err
	}
	s.stray = append(s.stray, skipped...)
	s.note("we did not get the processor: %d windows were not observed", s.unobserved-n-bpf.Windows)
	return s.read(n)
}

func (s *VMSource) readWindow(n uint64) ([]bpf.Counts, error) {
	if _, err := s.collector.Sweep(s.cfg.Plan.At(n).To); err != nil {
		return nil, err
	}
	counts, others, err := s.collector.Read(n)
	s.hits += others.Hits
	if others.Foreign > 0 {
		s.note("%d user_trace events on our labels were not from version 1 of the wrapper: ignored", others.Foreign)
	}
	return counts, err
}

// cost returns what observing cost since it was last asked for.
func (s *VMSource) cost() Cost {
	c := Cost{Events: s.hits}
	s.hits = 0
	if s.meter == nil {
		return c
	}
	var err error
	if c.PerEvent, err = s.meter.read(monotonic.Now(), c.Events); err != nil {
		s.note("what a hit costs is no longer measured: %v", err)
		s.meter = nil
	}
	return c
}

// Watch implements [Source]: it finds VMs that have come, and those that have gone.
func (s *VMSource) Watch() []Notice {
	if err := s.watch(); err != nil {
		s.note("%v", err)
	}
	notices := s.notices
	s.notices = nil
	return notices
}

// watch notes which VMs have come and gone.
func (s *VMSource) watch() error {
	now := monotonic.Now()
	for _, o := range s.vms {
		if o.died == 0 && o.watch != nil && o.watch.Happened() {
			o.died = now
			s.note("%s has exited", o.id)
		}
	}
	if s.cfg.Target.PID != 0 || now-s.scanned < int64(rescan) {
		return nil
	}
	s.scanned = now
	vms, err := vm.Find(s.cfg.Target)
	if errors.Is(err, vm.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.observe(vms); err != nil {
		s.note("%v", err)
	}
	return nil
}

// bury gives up the VMs that have ended and have no span that can still time out.
func (s *VMSource) bury(w Window) error {
	for pid, o := range s.vms {
		if o.died == 0 || w.From <= o.died {
			continue
		}
		open, err := s.collector.OpenSpans(pid)
		if err != nil {
			return err
		}
		if open > 0 {
			continue
		}
		if err := s.collector.Forget(pid); err != nil {
			return err
		}
		delete(s.vms, pid)
		s.ids.Delete(pid)
		if err := errors.Join(o.close(), s.detach(pid)); err != nil {
			return err
		}
	}
	return nil
}

// detach takes off the probes of a single VM. Those of an executable stay: a VM
// that starts later is observed from its first span on.
func (s *VMSource) detach(pid int) error {
	for f, a := range s.files {
		if f.pid == pid {
			delete(s.files, f)
			return a.Detach()
		}
	}
	return nil
}

// counts turns what the kernel counted into one entry for each outcome and VM.
func (s *VMSource) counts(read []bpf.Counts) []Counts {
	var out []Counts
	for i := range s.cfg.Plan.Specs {
		out = append(out, s.countsOf(i, read)...)
	}
	return out
}

// crowd is what the VMs are called that found no slot.
const crowd = "further VMs"

// countsOf returns the entries of one outcome, one at least.
func (s *VMSource) countsOf(i int, read []bpf.Counts) []Counts {
	spec := s.cfg.Plan.Specs[i]
	byPID := make(map[int]Counts)
	for pid, o := range s.vms {
		byPID[pid] = Counts{Outcome: spec.Name, VM: o.id, Bins: make([]uint64, spec.Bins)}
	}
	var crowded uint64
	for _, c := range read {
		if c.Outcome != i {
			continue
		}
		if c.PID == 0 {
			crowded += settled(c.Counters) + unsettled(c.Counters) + settled(c.Stray) + unsettled(c.Stray)
			continue
		}
		sum := byPID[c.PID].Add(fromKernel(c)) // what is lost may come in parts
		sum.Outcome, sum.VM, sum.Bins = spec.Name, s.vms[c.PID].id, c.Bins
		if sum.Bins == nil {
			sum.Bins = make([]uint64, spec.Bins)
		}
		byPID[c.PID] = sum
	}
	if crowded > 0 {
		byPID[0] = Counts{Outcome: spec.Name, VM: VM{Node: crowd}, Bins: make([]uint64, spec.Bins), Loss: Loss{Crowded: crowded}}
	}
	if len(byPID) == 0 {
		byPID[0] = Counts{Outcome: spec.Name, Bins: make([]uint64, spec.Bins)}
	}
	out := make([]Counts, 0, len(byPID))
	for _, c := range byPID {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Counts) int { return cmp.Compare(a.VM.PID, b.VM.PID) })
	return out
}

func fromKernel(c bpf.Counts) Counts {
	return Counts{
		Starts:     c.Starts,
		Ends:       c.Ends,
		Successes:  c.Successes,
		Failures:   c.Failures,
		Timeouts:   c.Timeouts,
		Orphans:    c.Orphans,
		Lates:      c.Lates,
		Unstreamed: c.RingFull + c.Stray.RingFull,
		Loss: Loss{
			Unreadable: c.ReadErrors + c.Stray.ReadErrors,
			NoRoom:     c.MapFull + c.Stray.MapFull,
			Cut:        c.Cut + c.Stray.Cut,
			Missed:     settled(c.Stray),
			Exits:      c.ExitsLost + c.Stray.ExitsLost,
		},
	}
}

// settled counts the instances that ended, unsettled what was lost of others.
func settled(c bpf.Counters) uint64   { return c.Successes + c.Failures + c.Timeouts }
func unsettled(c bpf.Counters) uint64 { return c.ReadErrors + c.MapFull + c.Cut }

// Stream passes on the instances of outcomes with [Everything].
func (s *VMSource) Stream(ctx context.Context, fn func([]Instance)) error {
	statuses := map[bpf.Status]Status{bpf.Success: Success, bpf.Failure: Failure, bpf.Timeout: Timeout}
	var batch []Instance
	return s.collector.Stream(ctx, func(instances []bpf.Instance) {
		batch = batch[:0]
		for _, i := range instances {
			batch = append(batch, Instance{
				Outcome: s.cfg.Plan.Specs[i.Outcome].Name,
				VM:      s.id(i.PID),
				Status:  statuses[i.Status],
				Start:   i.Start,
				End:     i.End,
				ID:      i.ID,
				Parent:  i.Parent,
				Process: PID(i.Process),
				Class:   i.Class,
			})
		}
		fn(batch)
	})
}

// Close detaches from the VMs.
func (s *VMSource) Close() error {
	var errs []error
	for _, o := range s.vms {
		errs = append(errs, o.close())
	}
	errs = append(errs, s.meter.close())
	if s.collector != nil {
		errs = append(errs, s.collector.Close())
	}
	return errors.Join(errs...)
}
