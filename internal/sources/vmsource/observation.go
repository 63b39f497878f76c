package vmsource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// An observation is a collector, its attachments, and results that were read ahead. There are two
// observations while one takes over from the other.
type observation struct {
	collector *bpf.Collector
	files     map[file]*bpf.Attachment

	// For late collection: windows read in advance, by number; the number below which windows
	// that are not ready were not observed; and what was lost.
	ready      map[uint64][]bpf.Counts
	unobserved uint64
	stray      []bpf.Counts

	stream streamed
	record *record
	names  *names  // names of the VMs' processes
	census *census // functions of the processes; nil without grouping by function
	stop   func()  // stops following the stream; nil while it is not followed
}

// beginAt gives up the windows that began before now, when nothing was attached yet.
func (o *observation) beginAt(now int64) error {
	if from, _ := o.collector.Window(0); now <= from {
		return nil
	}
	o.unobserved = o.collector.Number(now) + 1
	var err error
	o.stray, err = o.collector.Skip(o.unobserved)
	return err
}

// newObservation makes an observation that begins with a plan. According to cfg it discovers
// names and prepares for explanations. It has slots for at least the given number of VMs.
func newObservation(p outcome.Plan, cfg Config, names *names, vms int) (*observation, error) {
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
		record:    newRecord(&names.callers, names.atom),
		names:     names,
	}, nil
}

// MaxVMs is the largest number of VMs that can be observed at a time.
const MaxVMs = 64

// slotsFor returns the number of slots for the current number of VMs. More slots take memory for
// each outcome.
func slotsFor(vms int) int {
	const least = 8
	return min(max(least, vms+vms/2), MaxVMs)
}

// progress reports the progress of attaching, if cfg requests it.
func (cfg *Config) progress(loaded, all int) {
	if cfg.Progress != nil {
		cfg.Progress(Progress{Loaded: loaded, All: all})
	}
}

// kernelOutcomes returns the outcomes that the kernel counts for our specs.
func kernelOutcomes(specs []outcome.Spec) ([]bpf.Outcome, error) {
	var outcomes []bpf.Outcome
	for _, spec := range ours(specs) {
		o, err := kernelOutcome(spec)
		if err != nil {
			return nil, fmt.Errorf("outcome %s: %w", spec.Name, err)
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

// kernelOutcome returns the kernel's outcome for a spec.
func kernelOutcome(s outcome.Spec) (bpf.Outcome, error) {
	streaming := map[outcome.Detail]bpf.Streaming{outcome.CountsOnly: bpf.StreamNone, outcome.Worst: bpf.StreamWorst, outcome.Everything: bpf.StreamAll}
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

// kernelID returns the ID of the kernel's outcome for a spec.
func kernelID(s outcome.Spec) string {
	if s.Span != "" {
		return s.Span
	}
	return bpf.RuleID(s.Name)
}

// attach attaches to a file, unless that is done already. missing describes what cannot be
// explained there.
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

// covering returns the attachment to a VM's file, for all VMs or for this one, or nil.
func (o *observation) covering(f file) *bpf.Attachment {
	if a := o.files[f.ofAll()]; a != nil {
		return a
	}
	return o.files[f]
}

// attachLike attaches to the files of another observation, as far as possible, until the context
// is done. pids returns the processes for each file; 0 means all.
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

// detachFile detaches from a file.
func (o *observation) detachFile(f file) error {
	a := o.files[f]
	if a == nil {
		return nil
	}
	delete(o.files, f)
	return a.Detach()
}

// detach detaches from a single VM. Attachments for a whole executable stay for some time, so that a
// VM that starts again is observed from its first span on.
func (o *observation) detach(pid int) error {
	for f, a := range o.files {
		if f.pid == pid {
			delete(o.files, f)
			return a.Detach()
		}
	}
	return nil
}

// keep stores the counts of a window until Collect needs them. It stores stray losses separately.
func (o *observation) keep(n uint64, counts []bpf.Counts) {
	counts = slices.Clone(counts)
	for i, c := range counts {
		o.stray = append(o.stray, bpf.Counts{Outcome: c.Outcome, PID: c.PID, Stray: c.Stray})
		counts[i].Stray = bpf.Counters{}
	}
	o.keepWhole(n, counts)
}

// keepWhole stores the counts of a window until Collect needs them.
func (o *observation) keepWhole(n uint64, counts []bpf.Counts) {
	counts = slices.Clone(counts)
	for i, c := range counts {
		counts[i].Bins = slices.Clone(c.Bins)
		counts[i].Groups = slices.Clone(c.Groups)
	}
	o.ready[n] = counts
}

// finish gives up all open instances. It returns as stray what ended or was given up since the
// last window that was read.
func (o *observation) finish() ([]bpf.Counts, error) {
	now := monotonic.Now()
	if err := o.collector.CutOpen(now); err != nil {
		return nil, err
	}
	all := slices.Clone(o.stray)
	for _, counts := range o.ready { // these windows now belong to another observation
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

// streamPeriod is the interval at which the stream is emptied. The programs do not wake up a
// reader, because that would triple the cost of a hit. The ring buffer has room for the instances
// of one period at a million a second. Shorter intervals cost more than they gain.
const streamPeriod = 40 * time.Millisecond

// follow starts or stops a goroutine that empties the stream and the events.
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
				return // the goroutine that takes the instances gets the same error
			}
		}
	})
	o.stop = func() {
		cancel()
		running.Wait()
	}
}

// followEvents reads recorded events, and reads the names of new processes in them at once,
// because the processes may end soon.
func (o *observation) followEvents() error {
	if err := o.record.read(o.collector); err != nil {
		return err
	}
	for _, w := range o.record.takeWatched() {
		o.names.of(w.vm, w.process)
	}
	return nil
}

// keepMost is the largest number of instances that wait for their windows.
const keepMost = 1 << 18

// streamed are instances that wait for their window to be collected.
type streamed struct {
	mu    sync.Mutex
	kept  []bpf.Instance
	from  int64                // instances that ended earlier were collected already
	over  map[streamKey]uint64 // number of instances without room
	taken taken
}

// A streamKey identifies a counter of instances without room.
type streamKey struct {
	outcome, pid int
	window       uint64
}

// taken are the instances of a window, and the number of instances without room by outcome and
// VM.
type taken struct {
	instances []bpf.Instance
	over      map[streamKey]uint64
}

// keepStreamed stores instances for their windows.
func (o *observation) keepStreamed(batch []bpf.Instance) {
	s := &o.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range batch {
		switch {
		case i.End < s.from: // so late that it counts as missed
		case len(s.kept) < keepMost:
			s.kept = append(s.kept, i)
		default:
			s.over[streamKey{i.Outcome, i.PID, o.collector.Number(i.End)}]++
		}
	}
}

// take returns the instances that ended in the next window to be read. They are valid until the
// next call.
func (o *observation) take(w outcome.Window) (*taken, error) {
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
