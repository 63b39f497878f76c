package outcome

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain"
	"github.com/beamscope/beamscope/internal/monotonic"
)

// An observation is a collector, what it is attached to, and what was read of it
// before it was asked for. There are two while one takes over from the other.
type observation struct {
	collector *bpf.Collector
	files     map[file]*bpf.Attachment

	// Where we came too late: windows read in advance, by number; the number
	// below which windows that are not ready were not observed; and what is lost.
	ready      map[uint64][]bpf.Counts
	unobserved uint64
	stray      []bpf.Counts

	stream streamed
	record record
	names  *names  // of the VMs' processes
	census *census // of their functions; nil where it groups by none
	stop   func()  // ends that the stream is followed; nil while it is not
}

// beginAt gives up the windows that have begun by a time at which nothing was
// attached to before.
func (o *observation) beginAt(now int64) error {
	if from, _ := o.collector.Window(0); now <= from {
		return nil
	}
	o.unobserved = o.collector.Number(now) + 1
	var err error
	o.stray, err = o.collector.Skip(o.unobserved)
	return err
}

// newObservation makes an observation that begins with a plan, and discovers names and
// is ready to explain where it is to. It has room for so many VMs and some more.
func newObservation(p Plan, cfg VMConfig, names *names, vms int) (*observation, error) {
	outcomes, err := kernelOutcomes(p.Specs)
	if err != nil {
		return nil, err
	}
	c, err := bpf.New(bpf.Options{
		Start: p.From, Window: int64(p.Window), Outcomes: outcomes, Discover: cfg.Discover, Explain: cfg.Explain,
		Progress: cfg.progress, VMs: slotsFor(vms),
	})
	if err != nil {
		return nil, err
	}
	return &observation{
		collector: c,
		files:     make(map[file]*bpf.Attachment),
		ready:     make(map[uint64][]bpf.Counts),
		stream:    streamed{over: make(map[streamKey]uint64)},
		record:    record{most: recordMost, callers: &names.callers, log: explain.Log{Atom: names.atom}},
		names:     names,
	}, nil
}

// MaxVMs is how many VMs can be observed at a time.
const MaxVMs = 64

// slotsFor returns how many VMs to have room for where there are some: room takes memory
// for each outcome.
func slotsFor(vms int) int {
	const least = 8
	slots := least
	for slots < MaxVMs && slots < vms+vms/2 {
		slots *= 2
	}
	return slots
}

// progress tells how far attaching is, where somebody wants to know.
func (cfg *VMConfig) progress(loaded, all int) {
	if cfg.Progress != nil {
		cfg.Progress(Progress{Loaded: loaded, All: all})
	}
}

// kernelOutcomes returns what is to be counted for the specs that are ours.
func kernelOutcomes(specs []Spec) ([]bpf.Outcome, error) {
	var outcomes []bpf.Outcome
	for _, spec := range ours(specs) {
		o, err := spec.kernelOutcome()
		if err != nil {
			return nil, fmt.Errorf("outcome %s: %w", spec.Name, err)
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

func (s Spec) kernelOutcome() (bpf.Outcome, error) {
	streaming := map[Detail]bpf.Streaming{CountsOnly: bpf.StreamNone, Worst: bpf.StreamWorst, Everything: bpf.StreamAll}
	o := bpf.Outcome{
		Name:      s.Span,
		DMax:      int64(s.DMax()),
		BinWidth:  int64(s.BinWidth),
		Bins:      s.Bins,
		Stream:    streaming[s.Detail],
		ExitFails: s.ExitFails,
		Group:     s.Group,
		Explain:   s.Explain && s.Span != "",
		Accounts:  s.Accounts,
	}
	if s.Span != "" {
		return o, nil
	}
	o.Name = s.Name
	var err error
	o.Rule, err = s.VM.Rule()
	return o, err
}

// kernelID returns the ID of the outcome that is counted for a spec that is ours.
func (s Spec) kernelID() string {
	if s.Span != "" {
		return s.Span
	}
	return bpf.RuleID(s.Name)
}

// attach attaches to a file, unless it is attached to. missing says what cannot be
// explained of what happens there.
func (o *observation) attach(ctx context.Context, f file, target bpf.Target) (missing, err error) {
	if o.covering(f) != nil {
		return nil, nil
	}
	a, err := o.collector.Attach(ctx, target)
	if err != nil {
		return nil, err
	}
	o.files[f] = a
	return a.Missing(), nil
}

// covering returns what is attached to a VM's file, for all VMs or for that one; nil where
// nothing is.
func (o *observation) covering(f file) *bpf.Attachment {
	if a := o.files[f.ofAll()]; a != nil {
		return a
	}
	return o.files[f]
}

// attachLike attaches to what another observation is attached to, where it can, until the
// context is done: for each file to the processes with these pids, 0 for all of them.
func (o *observation) attachLike(ctx context.Context, other *observation, pids func(file) []int) (missing error) {
	var errs []error
	for f, a := range other.files {
		for _, pid := range pids(f) {
			f, target := f, a.Target()
			f.pid, target.PID = pid, pid
			missing, err := o.attach(ctx, f, target)
			errs = append(errs, missing, err)
		}
	}
	return errors.Join(errs...)
}

// detach takes off the probes of a single VM. Those of an executable stay: a VM
// that starts later is observed from its first span on.
func (o *observation) detach(pid int) error {
	for f, a := range o.files {
		if f.pid == pid {
			delete(o.files, f)
			return a.Detach()
		}
	}
	return nil
}

// keep keeps what was read of a window until it is asked for, and what is lost
// apart from it.
func (o *observation) keep(n uint64, counts []bpf.Counts) {
	counts = slices.Clone(counts)
	for i, c := range counts {
		o.stray = append(o.stray, bpf.Counts{Outcome: c.Outcome, PID: c.PID, Stray: c.Stray})
		counts[i].Stray = bpf.Counters{}
		counts[i].Bins = slices.Clone(c.Bins)
		counts[i].Groups = slices.Clone(c.Groups)
	}
	o.ready[n] = counts
}

// finish gives up all that is open and returns what ended or was given up since the
// last window that was read, as stray.
func (o *observation) finish() ([]bpf.Counts, error) {
	now := monotonic.Now()
	if err := o.collector.CutOpen(now); err != nil {
		return nil, err
	}
	all := slices.Clone(o.stray)
	for _, counts := range o.ready { // of windows that are another's
		for _, c := range counts {
			all = append(all, bpf.Counts{Outcome: c.Outcome, PID: c.PID, Stray: c.Counters})
		}
	}
	for _, read := range []func() ([]bpf.Counts, error){
		func() ([]bpf.Counts, error) { return o.collector.Skip(o.collector.Number(now) + 1) },
		o.collector.Stray,
	} {
		counts, err := read()
		if err != nil {
			return nil, err
		}
		all = append(all, counts...)
	}
	return all, nil
}

func (o *observation) close() error {
	o.follow(false)
	if o.census != nil {
		o.census.close()
	}
	return o.collector.Close()
}

// streamPeriod is how often the stream is emptied. The programs wake nobody up,
// because that would triple the price of a hit. In this time the ring buffer has room
// for a million instances a second, and to look more often costs more than it is
// worth.
const streamPeriod = 40 * time.Millisecond

// follow has the stream and the events emptied beside everything else, or no longer.
func (o *observation) follow(on bool) {
	if on == (o.stop != nil) {
		return
	}
	if !on {
		o.stop()
		o.stop = nil
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(streamPeriod)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if o.collector.Drain(o.keepStreamed) != nil || o.collector.Explains() && o.followEvents() != nil {
				return // whoever takes the instances finds out why
			}
		}
	})
	o.stop = func() {
		cancel()
		running.Wait()
	}
}

// followEvents reads what was recorded, and names the processes that are new in it: when
// they are asked for, they may have ended.
func (o *observation) followEvents() error {
	if err := o.record.read(o.collector.Events); err != nil {
		return err
	}
	for _, w := range o.record.takeWatched() {
		o.names.of(w.vm, w.process)
	}
	return nil
}

// keepMost is how many instances are kept for windows that are not collected yet.
const keepMost = 1 << 18

// streamed are instances that wait for their window to be collected.
type streamed struct {
	mu    sync.Mutex
	kept  []bpf.Instance
	from  int64                // what ended before was collected
	over  map[streamKey]uint64 // instances that were too many
	taken taken
}

// A streamKey identifies what instances that were too many are counted at.
type streamKey struct {
	outcome, pid int
	window       uint64
}

// taken are the instances of a window, and how many there were too many by outcome
// and VM.
type taken struct {
	instances []bpf.Instance
	over      map[streamKey]uint64
}

// keepStreamed keeps instances for their windows.
func (o *observation) keepStreamed(batch []bpf.Instance) {
	s := &o.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range batch {
		switch {
		case i.End < s.from: // so late that it is among what was missed
		case len(s.kept) < keepMost:
			s.kept = append(s.kept, i)
		default:
			s.over[streamKey{i.Outcome, i.PID, o.collector.Number(i.End)}]++
		}
	}
}

// take returns the instances that ended in a window, the next one to be read. They
// hold until the next call.
func (o *observation) take(w Window) (*taken, error) {
	s := &o.stream
	t := &s.taken
	t.instances = t.instances[:0]
	t.over = nil
	if !o.collector.Streams() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.kept = s.kept[:0]
		return t, nil
	}
	if err := o.collector.Drain(o.keepStreamed); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from = w.To
	s.kept = slices.DeleteFunc(s.kept, func(i bpf.Instance) bool {
		if w.Contains(i.End) {
			t.instances = append(t.instances, i)
		}
		return i.End < w.To
	})
	if len(s.over) > 0 {
		t.over = maps.Clone(s.over)
		n := o.collector.Number(w.From)
		maps.DeleteFunc(t.over, func(k streamKey, _ uint64) bool { return k.window != n })
		maps.DeleteFunc(s.over, func(k streamKey, _ uint64) bool { return k.window <= n })
	}
	return t, nil
}
