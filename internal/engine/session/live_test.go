package session_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long to wait for an event that is certain to come.
const patience = 90 * time.Second

// An observerLog records what an observer gets, and lets a test wait for it.
type observerLog struct {
	mu      sync.Mutex
	frames  []*scope.Frame
	notices []string      // from the source, and about snapshots
	changed chan struct{} // closed when something is added
}

func newObserverLog() *observerLog { return &observerLog{changed: make(chan struct{})} }

// Configured implements [scope.Observer].
func (*observerLog) Configured(*scope.System, outcome.Plan) error { return nil }

// Framed implements [scope.Observer].
func (f *observerLog) Framed(_ *outcome.Batch, frame *scope.Frame) error {
	c := frame.Clone()
	f.add(func() { f.frames = append(f.frames, c) })
	return nil
}

// Noticed implements [scope.Observer].
func (f *observerLog) Noticed(n outcome.Notice) error {
	f.notify(n)
	return nil
}

func (f *observerLog) notify(n outcome.Notice) {
	f.add(func() { f.notices = append(f.notices, n.Text) })
}

func (f *observerLog) add(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what()
	close(f.changed)
	f.changed = make(chan struct{})
}

// allFrames returns the frames so far.
func (f *observerLog) allFrames() frameList {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.frames)
}

// snapshots returns the number of written snapshots.
func (f *observerLog) snapshots() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, text := range f.notices {
		if strings.HasPrefix(text, "snapshot: ") {
			n++
		}
	}
	return n
}

// await waits until so returns true.
func (f *observerLog) await(t *testing.T, what string, so func() bool) {
	t.Helper()
	timeout := time.After(patience)
	for {
		f.mu.Lock()
		changed := f.changed
		f.mu.Unlock()
		if so() {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("waited %v for %s\n%v", patience, what, f)
		}
	}
}

// String returns the last frames for messages.
func (f *observerLog) String() string {
	var b strings.Builder
	all := f.allFrames()
	for _, frame := range all[max(0, len(all)-10):] {
		fmt.Fprintf(&b, "%d: fired %v, %q\n", frame.Number, frame.Fired, frame.NoticeTexts())
		for i := range frame.Outcomes {
			p := &frame.Outcomes[i]
			fmt.Fprintf(&b, "  %s: %d ok, %d failed, %d timed out, %+v %s\n", p.Name, p.Counts.Successes, p.Counts.Failures, p.Counts.Timeouts, p.Divergence, p.Insufficient)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return b.String() + strings.Join(f.notices, "\n")
}

// A rig is an oscilloscope that observes its own VM.
type rig struct {
	*session.Session
	*observerLog
	t      *testing.T
	vm     *erlang.VM
	config config.Config
	stop   func() // ends the run and closes the session; the cleanup calls it too

	tooExpensive bool       // the run may end with ErrPrice
	over         chan error // receives the error of the run
}

// start starts a system in a VM, and observes it with a scope file without a target. Snapshots go
// to a temporary folder.
func start(t *testing.T, system []string, scopeFile string, opts session.Options) *rig {
	t.Helper()
	return startVM(t, erlang.Options{Main: system}, scopeFile, opts)
}

// startVM is start for a VM with these options.
func startVM(t *testing.T, options erlang.Options, scopeFile string, opts session.Options) *rig {
	t.Helper()
	vmtest.NeedEBPF(t)
	vm := vmtest.Start(t, options)
	vmtest.Favour(t, vm)
	return observe(t, vm, scopeFile, opts)
}

func observe(t *testing.T, vm *erlang.VM, scopeFile string, opts session.Options) *rig {
	t.Helper()
	return observeTarget(t, vm, fmt.Sprintf("{pid: %d}", vm.PID()), scopeFile, opts)
}

// observeTarget observes the given target, which includes the VM.
func observeTarget(t *testing.T, vm *erlang.VM, target, scopeFile string, opts session.Options) *rig {
	t.Helper()
	r := &rig{observerLog: newObserverLog(), t: t, vm: vm, over: make(chan error, 1)}
	r.config = parse(t, fmt.Sprintf("target: %s\n%s", target, scopeFile))
	r.config.Dir = t.TempDir()
	opts.Observers = append(opts.Observers, r.observerLog)
	opts.Notify = r.notify
	var err error
	if r.Session, err = session.Open(t.Context(), r.config, opts); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := r.Run(ctx, 0)
		r.over <- err
		ended <- err
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		err := <-ended
		if r.tooExpensive && errors.Is(err, session.ErrPrice) {
			err = nil
		}
		if err := errors.Join(err, r.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func parse(t *testing.T, scopeFile string) config.Config {
	t.Helper()
	c, err := config.Parse("scope.yaml", []byte(scopeFile))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// folder returns the folder of the snapshots.
func (r *rig) folder() string { return filepath.Join(r.config.Dir, r.config.Snapshots.Dir) }

func (r *rig) set(key, value string) {
	r.t.Helper()
	if err := r.vm.Set(r.t.Context(), key, value); err != nil {
		r.t.Fatal(err)
	}
}

// apply applies another scope file without a target.
func (r *rig) apply(scopeFile string) {
	r.t.Helper()
	c := parse(r.t, scopeFile)
	c.Dir, c.Target = r.config.Dir, r.config.Target
	if err := r.Apply(r.t.Context(), c); err != nil {
		r.t.Fatal(err)
	}
}

// next waits for n frames of windows that have not begun yet, and returns them. Everything that
// was set or applied before is in force in all of them.
func (r *rig) next(n int) frameList {
	r.t.Helper()
	const lead = 100 * time.Millisecond // applying takes some of it
	from := monotonic.Now() + int64(lead)
	var frames frameList
	r.await(r.t, fmt.Sprintf("%d frames", n), func() bool {
		frames = r.allFrames().since(from)
		return len(frames) >= n
	})
	return frames[:n]
}

// fires waits until a trigger has fired, and returns the frame in which it did.
func (r *rig) fires(trigger string) *scope.Frame {
	r.t.Helper()
	var at *scope.Frame
	r.await(r.t, trigger, func() bool {
		at = r.allFrames().firing(trigger)
		return at != nil
	})
	return at
}

// A frameList is a sequence of frames.
type frameList []*scope.Frame

// firing returns the first frame in which a trigger fired, or nil.
func (r frameList) firing(trigger string) *scope.Frame {
	for _, f := range r {
		if slices.ContainsFunc(f.Fired, func(x scope.Firing) bool { return x.Trigger == trigger }) {
			return f
		}
	}
	return nil
}

// noticed reports whether a frame has a notice.
func (r frameList) noticed(text string) bool {
	return slices.ContainsFunc(r, func(f *scope.Frame) bool { return slices.Contains(f.NoticeTexts(), text) })
}

// fired returns everything that fired, in order.
func (r frameList) fired() []scope.Firing {
	var all []scope.Firing
	for _, f := range r {
		all = append(all, f.Fired...)
	}
	return all
}

// since returns the frames of the windows that began at or after a time.
func (r frameList) since(from int64) frameList {
	first := len(r)
	for first > 0 && r[first-1].Window.From >= from {
		first--
	}
	return r[first:]
}

// last returns the last frame's row of an outcome.
func (r frameList) last(name string) *scope.Outcome { return outcomeOf(r[len(r)-1], name) }

// pooled returns the observed delays of an outcome in all windows together.
func (r frameList) pooled(t *testing.T, name string) *dq.Observed {
	t.Helper()
	var sum outcome.Counts
	var bins []uint64
	for _, f := range r {
		p := outcomeOf(f, name)
		sum = sum.Add(p.Counts)
		bins = append(bins, make([]uint64, len(p.Counts.Bins)-min(len(bins), len(p.Counts.Bins)))...)
		for i, n := range p.Counts.Bins {
			bins[i] += n
		}
	}
	grid, err := dq.NewGrid(outcomeOf(r[0], name).Spec.BinWidth, len(bins))
	if err != nil {
		t.Fatal(err)
	}
	o, err := dq.FromCounts(grid, bins, sum.Failures, sum.Timeouts)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// median returns the median of the pooled delays of an outcome.
func (r frameList) median(t *testing.T, name string) time.Duration {
	t.Helper()
	m, ok := r.pooled(t, name).QuantileFigure(0.5)
	if !ok {
		t.Fatalf("%s: no median", name)
	}
	return m
}

// outcomeOf returns the row of an outcome of one VM.
func outcomeOf(f *scope.Frame, name string) *scope.Outcome {
	for i := range f.Outcomes {
		if f.Outcomes[i].Name == name {
			return &f.Outcomes[i]
		}
	}
	panic("no outcome " + name)
}
