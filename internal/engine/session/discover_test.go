package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/autorange"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/export"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// emptyScope observes only discovered outcomes.
const emptyScope = "window: 200ms\noutcomes: {}\n"

// discovering starts a system, and observes it with discovery only.
func discovering(t *testing.T, system ...string) *rig {
	t.Helper()
	return start(t, system, emptyScope, session.Options{Discover: true})
}

// spans returns the names of the spans that have outcomes.
func (r *rig) spans() []string { return slices.Sorted(slices.Values(r.Config().Spans())) }

// load makes the VM start and end n spans of each name.
func (r *rig) load(n int, names ...string) {
	r.t.Helper()
	for _, name := range names {
		vmtest.Call(r.t, r.vm, "span_load", "run", fmt.Sprintf("[#{procs => 1, spans => %d, name => <<%q/utf8>>}]", n, name))
	}
}

// scaleOf returns the scale of the outcome with a name.
func (r *rig) scaleOf(name string) config.Scale {
	c := r.Config()
	i := slices.IndexFunc(c.Outcomes, func(o config.Outcome) bool { return o.Name == name })
	if i < 0 {
		r.t.Fatalf("no outcome %s", name)
	}
	return c.Outcomes[i].Scale
}

// sum returns the sum of the counts of an outcome, which may be absent from some frames.
func (r frameList) sum(name string) outcome.Counts {
	var sum outcome.Counts
	for _, f := range r {
		for i := range f.Outcomes {
			if p := &f.Outcomes[i]; p.Name == name {
				sum = sum.Add(p.Counts)
			}
		}
	}
	return sum
}

// The spans of a system are discovered and become outcomes. Their scales fit, and the
// configuration can be saved and loaded.
func TestDiscovery(t *testing.T) {
	for _, carrier := range []erlang.Carrier{erlang.Ring, erlang.Probes} {
		t.Run(string(carrier), func(t *testing.T) {
			t.Parallel()
			testDiscovery(t, carrier)
		})
	}
}

func testDiscovery(t *testing.T, carrier erlang.Carrier) {
	r := startVM(t, erlang.Options{Carrier: carrier, Main: []string{"ftf"}}, emptyScope, session.Options{Discover: true})
	r.await(t, "three outcomes", func() bool { return len(r.spans()) == 3 })
	if diff := cmp.Diff([]string{"probe", "worker_1", "worker_2"}, r.spans()); diff != "" {
		t.Errorf("discovered, -want +got:\n%s", diff)
	}
	r.await(t, "a fitted scale for each outcome", func() bool {
		for _, name := range r.spans() {
			if s := r.scaleOf(name); s == autorange.Start(time.Millisecond) {
				return false
			}
		}
		return true
	})
	frames := r.next(5)
	for _, f := range frames {
		for i := range f.Outcomes {
			p := &f.Outcomes[i]
			if p.Counts.Instances() == 0 || p.Counts.Timeouts > p.Counts.Instances()/10 {
				t.Errorf("frame %d: %+v", f.Number, p.Counts)
			}
		}
		if probed := f.Cost.Events > 0; probed != (carrier == erlang.Probes) {
			t.Errorf("frame %d: %d events at probes", f.Number, f.Cost.Events)
		}
	}

	path := filepath.Join(r.config.Dir, "saved.yaml")
	saved := r.Config()
	if err := saved.Save(path); err != nil {
		t.Fatal(err)
	}
	loaded, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(saved, loaded); diff != "" {
		t.Errorf("saved and loaded, -want +got:\n%s", diff)
	}
}

// Once a name has an outcome, every instance is counted exactly once.
func TestDiscoveredExactly(t *testing.T) {
	t.Parallel()
	const n = 5000
	r := discovering(t)
	names := []string{"a", "größe", strings.Repeat("x", 255)}
	r.load(1, names...)
	r.await(t, "frames with the outcomes", func() bool {
		frames := r.allFrames()
		return len(frames) > 0 && len(frames[len(frames)-1].Outcomes) == len(names)
	})
	r.load(n, names...)
	for _, o := range r.Config().Outcomes {
		r.await(t, o.Name, func() bool { return r.allFrames().sum(o.Name).Ends >= n })
	}
	r.stop()
	for _, o := range r.Config().Outcomes {
		p := r.allFrames().sum(o.Name)
		if p.Starts != n || p.Ends != n || p.Instances()+p.Loss.Cut != n || p.Loss.Total() != p.Loss.Cut {
			t.Errorf("%s: %+v", o.Name, p)
		}
	}
}

// Applied changes and simultaneous discoveries are both kept. Outcomes that the user removes stay
// away, and scales that the user sets stay unchanged.
func TestDiscoveryBesideApply(t *testing.T) {
	t.Parallel()
	r := discovering(t)
	r.load(100, "a", "b")
	r.await(t, "two outcomes", func() bool { return len(r.spans()) == 2 })

	mine := r.Config()
	r.load(100, "c")
	r.await(t, "a notice of the third outcome", func() bool { return r.noticed(`discovered: "c"`) })
	mine.Outcomes = slices.DeleteFunc(slices.Clone(mine.Outcomes), func(o config.Outcome) bool { return o.Name == "a" })
	mine.Outcomes[0].Scale = config.Scale{Bins: 777}
	mine.HoldOff = time.Minute
	if err := r.Apply(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b", "c"}, r.spans()); diff != "" {
		t.Errorf("after it was applied, -want +got:\n%s", diff)
	}

	for range 5 { // so that there is something to fit and to discover
		r.load(1000, "a", "b", "c")
		r.next(2)
	}
	r.load(100, "d")
	r.await(t, "a notice of the fourth outcome", func() bool { return r.noticed(`discovered: "d"`) })
	r.await(t, "a scale that fits", func() bool { return r.scaleOf("c") != autorange.Start(time.Millisecond) })
	if diff := cmp.Diff([]string{"b", "c", "d"}, r.spans()); diff != "" {
		t.Errorf("in the end, -want +got:\n%s", diff)
	}
	if c := r.Config(); r.scaleOf("b") != (config.Scale{Bins: 777}) || c.HoldOff != time.Minute {
		t.Errorf("the applied configuration is not in force:\n%s", c.Format())
	}
}

// noticed reports whether the source gave a notice.
func (f *observerLog) noticed(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.notices, func(n string) bool { return strings.Contains(n, text) })
}

// Rare spans that are longer than the first scale get a scale into which they fit.
func TestDiscoveryOfLongSpans(t *testing.T) {
	t.Parallel()
	r := discovering(t)
	vmtest.Eval(t, r.vm, `spawn(fun Loop() -> beamscope:with_span(<<"s3">>, fun() -> timer:sleep(3000) end), Loop() end), ok`)
	r.await(t, "a success", func() bool { return r.allFrames().sum("s3").Successes > 0 })
	if s := r.scaleOf("s3"); s.DMax < 3*time.Second {
		t.Errorf("scale %+v", s)
	}
}

// A VM without spans shows outcomes of the VM at once, and more of them while there are no spans.
// Their scales are fitted.
func TestVMWithoutSpans(t *testing.T) {
	t.Parallel()
	vmtest.NeedEvents(t)
	r := start(t, nil, "window: 200ms\noutcomes: {gc: {vm: gc}}\n", session.Options{Discover: true, Look: []string{"run", "message"}})
	vmtest.Eval(t, r.vm, `spawn(fun Loop() -> erlang:garbage_collect(), self() ! x, receive x -> ok end, timer:sleep(1), Loop() end), ok`)
	for _, name := range []string{"gc", "run", "message"} {
		r.await(t, name, func() bool { return r.allFrames().sum(name).Successes > 0 })
	}
	scale, _ := config.BuiltinScale("gc")
	r.await(t, "a scale that fits", func() bool { return r.scaleOf("gc") != scale })
	if r.noticed("has been seen") {
		t.Error("a notice reports an outcome as missing that was not requested")
	}
}

// If there are spans, the more expensive outcomes of the VM are not added.
func TestNoOutcomesOfVMBesideSpans(t *testing.T) {
	t.Parallel()
	vmtest.NeedEvents(t)
	r := start(t, []string{"ftf"}, "window: 200ms\noutcomes: {gc: {vm: gc}}\n", session.Options{Discover: true, Look: []string{"run"}})
	r.await(t, "three outcomes of spans", func() bool { return len(r.spans()) == 3 })
	r.next(10)
	names := func() []string {
		var all []string
		for _, o := range r.Config().Outcomes {
			all = append(all, o.Name)
		}
		return all
	}()
	if len(names) != 4 || names[3] != "gc" {
		t.Errorf("outcomes %q, want those of the spans and then gc", names)
	}
}

// Above the price limit, the most expensive outcome is given up, with a notice. If none is left,
// the run ends.
func TestPriceIsBounded(t *testing.T) {
	t.Parallel()
	vmtest.NeedEvents(t)
	r := start(t, nil, "window: 200ms\noutcomes: {gc: {vm: gc}, message: {vm: message}}\n", session.Options{Limit: price.Limit{Rate: 100}})
	r.tooExpensive = true
	vmtest.Eval(t, r.vm, `spawn(fun Loop() -> erlang:garbage_collect(), [self() ! x || _ <- lists:seq(1, 10)], [receive x -> ok end || _ <- lists:seq(1, 10)], timer:sleep(1), Loop() end), ok`)
	r.await(t, "a notice that messages are given up", func() bool { return r.noticed("message is not observed any more: ") })
	r.await(t, "frames without messages", func() bool {
		frames := r.allFrames()
		return len(frames) > 0 && len(frames[len(frames)-1].Outcomes) == 1
	})
	if err := <-r.over; !errors.Is(err, session.ErrPrice) {
		t.Errorf("error %v, want %v", err, session.ErrPrice)
	}
}

// Discovered spans have been seen, even if none has ended since.
func TestDiscoveredOnce(t *testing.T) {
	t.Parallel()
	r := discovering(t)
	r.load(1, "s30", "other")
	r.await(t, "two outcomes", func() bool { return len(r.spans()) == 2 })
	r.next(10) // twice the number of windows after which a name is reported as missing
	if r.noticed("has been seen") {
		t.Error("a discovered span is reported as missing")
	}
}

// The number of discovered outcomes is limited. A notice names some of the spans without an
// outcome, and the status has all of them.
func TestDiscoveryOfTooMany(t *testing.T) {
	t.Parallel()
	r := discovering(t)
	vmtest.Eval(t, r.vm, `[beamscope:start_span(<<"name_", (integer_to_binary(I))/binary>>) || I <- lists:seq(1, 250)], ok`)
	r.await(t, "the outcomes", func() bool { return len(r.spans()) == session.MaxFound })
	r.await(t, "all others", func() bool { return len(r.Status().Beyond) == 50 })
	all := append(r.spans(), r.Status().Beyond...)
	for i := range 250 {
		if name := fmt.Sprintf("name_%d", i+1); !slices.Contains(all, name) {
			t.Errorf("%s is neither observed nor beyond", name)
		}
	}
	r.await(t, "a notice", func() bool {
		return r.noticed("beamscope observes at most 200 names of spans of VMs of user 0, and 4 with one label; ")
	})
	r.await(t, "their probes", func() bool {
		frames := r.allFrames()
		return len(frames) > 0 && len(frames[len(frames)-1].Outcomes) == session.MaxFound
	})
}

// Spans of a VM that starts later with the same executable are discovered as well.
func TestDiscoveryInLaterVM(t *testing.T) {
	t.Parallel()
	vmtest.NeedEvents(t)
	vmtest.NeedEBPF(t)
	otp := vmtest.Private(t)
	first := vmtest.StartOn(t, otp, erlang.Options{})
	vms, _, err := vm.Find(t.Context(), vm.Target{PID: first.PID()})
	if err != nil {
		t.Fatal(err)
	}
	r := observeTarget(t, first, fmt.Sprintf("{exe: %q}", vms[0].Exe.Name), emptyScope, session.Options{Discover: true})
	r.next(1)
	second, err := erlang.StartVM(t.Context(), otp, erlang.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.Stop() })
	vmtest.Call(t, second, "span_load", "run", `[#{procs => 1, spans => 1, name => <<"first">>}]`)
	r.await(t, "its outcome", func() bool { return slices.Contains(r.spans(), "first") })
	r.await(t, "its status", func() bool {
		return slices.ContainsFunc(r.Status().VMs, func(v outcome.VMStatus) bool { return v.VM.PID == second.PID() && len(v.Probes) > 0 })
	})
}

// A recording that begins without outcomes and gets some later replays to the same frames. Output
// code also handles frames without probes.
func TestReplayOfDiscovery(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	r := start(t, []string{"ftf"}, emptyScope, session.Options{Discover: true, Record: recordTo(&file)})
	r.await(t, "a scale that fits", func() bool { return r.noticed("worker_2: fitted to") })
	r.next(3)
	r.stop()
	live := r.allFrames()
	if len(live[0].Outcomes) != 0 {
		t.Errorf("the first frame has probes: %+v", live[0].Outcomes)
	}
	sameFrames(t, "recording", live, replay(t, file.Bytes(), session.Replay{}))
	if err := errors.Join(export.NewText(io.Discard).Frame(live[0]), export.NewJSON(io.Discard).Frame(live[0])); err != nil {
		t.Error(err)
	}
}

// Short delays get narrow bins, in as few changes as the scales in between allow. After that
// nothing changes any more.
func TestAutoRange(t *testing.T) {
	t.Parallel()
	r := discovering(t)
	stop := r.repeatedly("short")
	r.await(t, "a scale of microseconds", func() bool {
		if !r.noticed("short: fitted to") {
			return false
		}
		// Fitting may set the exponent or dMax.
		grid, err := r.scaleOf("short").Grid(r.Config().Base)
		return err == nil && grid.Width() < time.Millisecond
	})
	r.await(t, "frames with an unchanged scale", func() bool {
		const frames = 20
		all := r.allFrames()
		last := all[max(0, len(all)-frames):]
		return len(last) == frames && !slices.ContainsFunc(last, func(f *scope.Frame) bool {
			// No other outcome is observed.
			return len(f.Outcomes) != 1 || f.Outcomes[0].Spec != last.last("short").Spec
		})
	})
	stop()
	if fitted := r.count("short: fitted to"); fitted == 0 || fitted > 4 {
		t.Errorf("fitted %d times", fitted)
	}
}

// repeatedly makes the VM start and end spans of a name, 50 in each millisecond, until stop is called.
// A ring is read fast enough for that; spans without a pause may be too many.
func (r *rig) repeatedly(name string) (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			_, err := r.vm.Call(r.t.Context(), "span_load", "paced", fmt.Sprintf("[#{procs => 1, spans => 50, name => <<%q>>}, 20]", name))
			if err != nil {
				r.t.Error(err)
				return
			}
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	r.t.Cleanup(stop)
	return stop
}

// count returns how often a notice with this text was given.
func (f *observerLog) count(text string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, notice := range f.notices {
		if strings.Contains(notice, text) {
			n++
		}
	}
	return n
}

// The status contains VMs, their attached probes with purposes, and wrappers. Wrappers can be
// stopped and started. The status is available whatever the run is doing.
func TestStatus(t *testing.T) {
	t.Parallel()
	vmtest.NeedEvents(t)
	address := freeAddress(t)
	r := start(t, []string{"ftf"}, fmt.Sprintf("window: 200ms\nwrapper: {listen: %q}\noutcomes: {tcp: {wrapper: x}}\n", address), session.Options{Discover: true})
	asked := make(chan struct{})
	defer func() { <-asked }()
	go func() {
		defer close(asked)
		for range 1000 {
			r.Status()
		}
	}()
	r.await(t, "an outcome's probe", func() bool {
		vms := r.Status().VMs
		return len(vms) == 1 && slices.ContainsFunc(vms[0].Probes, func(p outcome.ProbeStatus) bool {
			return slices.Contains(p.Outcomes, "worker_1")
		})
	})
	st := r.Status()
	if v := st.VMs[0]; v.VM.PID != r.vm.PID() || v.Ended || v.Since == 0 || filepath.Base(v.Exe) != "beam.smp" {
		t.Errorf("%+v", v)
	}
	if w := st.Wrappers; w == nil || w.Listen != address || !w.Started || len(w.Peers) != 0 || !r.HasWrappers() {
		t.Fatalf("%+v", w)
	}
	r.StopWrappers()
	if r.Status().Wrappers.Started {
		t.Error("wrappers have the order to send after StopWrappers")
	}
	r.StartWrappers()
	if !r.Status().Wrappers.Started {
		t.Error("wrappers do not have the order to send after StartWrappers")
	}
}

// Without discovery, a session must have something to observe.
func TestNothingToObserve(t *testing.T) {
	c := parse(t, emptyScope)
	c.Dir = t.TempDir()
	if s, err := session.Open(t.Context(), c, session.Options{}); err == nil {
		s.Close()
		t.Error("a session that observes nothing was opened")
	}
}
