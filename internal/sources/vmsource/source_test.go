package vmsource_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A source is a Source whose windows are driven by the test.
type source struct {
	*vmsource.Source
	t        *testing.T
	plans    []outcome.Plan
	plan     outcome.Plan  // the last plan
	nextFrom int64         // beginning of the next window
	first    outcome.Batch // the first batch of a completely observed window
	batches  []outcome.Batch
	seen     []string // notices
}

// newSource observes the outcome load with a short dMax.
func newSource(t *testing.T, target vm.Target) *source {
	t.Helper()
	return newSourceEvery(t, target, 200*time.Millisecond, []outcome.Spec{{
		Name: "outcome", Span: "load", BinWidth: 10 * time.Millisecond, Bins: 50, Detail: outcome.Everything,
	}})
}

// newSourceEvery observes with windows of this length.
func newSourceEvery(t *testing.T, target vm.Target, window time.Duration, specs []outcome.Spec) *source {
	t.Helper()
	return newSourceOf(t, vmsource.Config{Target: target, Plan: outcome.Plan{Window: window, Specs: specs}})
}

// newSourceOf observes according to a configuration, from now on.
func newSourceOf(t *testing.T, cfg vmsource.Config) *source {
	t.Helper()
	vmtest.NeedEBPF(t)
	cfg.Plan.From = monotonic.Now()
	s := &source{t: t, plans: []outcome.Plan{cfg.Plan}, plan: cfg.Plan, nextFrom: cfg.Plan.From}
	var err error
	s.Source, err = vmsource.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.collectUntil("the first window that is observed as a whole", func() bool {
		n := len(s.batches)
		return n > 0 && !slices.ContainsFunc(s.batches[n-1].Counts, func(c outcome.Counts) bool { return c.Unobserved })
	})
	s.first, s.batches = s.batches[len(s.batches)-1], nil
	return s
}

// window returns the next window to be collected.
func (s *source) window() outcome.Window {
	i := len(s.plans) - 1
	for s.nextFrom < s.plans[i].From {
		i--
	}
	return s.plans[i].At(s.plans[i].Number(s.nextFrom))
}

// collect collects the next window when it is due.
func (s *source) collect() error {
	w := s.window()
	vmtest.WaitUntil(w.To + int64(min(w.Duration(), s.plan.Window)))
	s.nextFrom = w.To
	s.watch()
	batch, err := s.Collect(s.t.Context(), w)
	s.watch()
	s.batches = append(s.batches, clone(batch))
	return err
}

// clone copies a batch, which is otherwise valid only until the next one.
func clone(b outcome.Batch) outcome.Batch {
	b.Counts, b.Instances = slices.Clone(b.Counts), slices.Clone(b.Instances)
	for i, c := range b.Counts {
		b.Counts[i].Bins = slices.Clone(c.Bins)
	}
	return b
}

// collectUntil collects windows until done returns true. It fails if that takes too long.
func (s *source) collectUntil(what string, done func() bool) {
	s.t.Helper()
	const patience = 20 * time.Second
	for begin := monotonic.Now(); !done(); {
		if monotonic.Now()-begin > int64(patience) {
			s.t.Fatalf("waited %v for %s; notices: %q", patience, what, s.notices())
		}
		if err := s.collect(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// collectDuring collects windows while do runs. Windows would be lost without it if do takes
// longer than windows are kept, for example to start a VM on a busy machine.
func (s *source) collectDuring(do func()) {
	s.t.Helper()
	done := make(chan struct{})
	collected := make(chan error, 1)
	go func() {
		for {
			select {
			case <-done:
				collected <- nil
				return
			default:
			}
			if err := s.collect(); err != nil {
				collected <- err
				return
			}
		}
	}()
	defer func() {
		close(done)
		if err := <-collected; err != nil {
			s.t.Error(err)
		}
	}()
	do()
}

// collectNow collects windows up to the present.
func (s *source) collectNow() {
	s.t.Helper()
	now := monotonic.Now()
	s.collectUntil("the present", func() bool { return s.nextFrom > now })
}

func (s *source) watch() {
	for _, n := range s.Watch(s.t.Context()) {
		s.seen = append(s.seen, n.Text)
	}
}

func (s *source) notices() []string { return s.seen }

func (s *source) noticed(text string) func() bool {
	return func() bool { return slices.Contains(s.notices(), text) }
}

// timedOut returns a function that reports whether n instances have timed out.
func (s *source) timedOut(n uint64) func() bool {
	return func() bool {
		var got uint64
		for _, c := range s.totals() {
			got += c.Timeouts
		}
		return got >= n
	}
}

// totals returns the sums over all windows, by VM.
func (s *source) totals() map[outcome.VM]outcome.Counts {
	sums := make(map[outcome.VM]outcome.Counts)
	for _, b := range s.batches {
		for _, c := range b.Counts {
			c.Bins = nil
			sum, ok := sums[c.VM]
			if !ok {
				sum = outcome.Counts{Outcome: c.Outcome, VM: c.VM}
			}
			sums[c.VM] = sum.Add(c)
		}
	}
	return sums
}

func succeeded(v outcome.VM, n uint64) outcome.Counts {
	return outcome.Counts{Outcome: "outcome", VM: v, Starts: n, Ends: n, Successes: n}
}

func run(t *testing.T, vm *erlang.VM, n int) {
	t.Helper()
	vmtest.Call(t, vm, "span_load", "run", fmt.Sprintf("[#{spans => %d}]", n))
}

// exe returns the target of the private emulator that a VM runs.
func exe(t *testing.T, v *erlang.VM) vm.Target {
	t.Helper()
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", v.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return vm.Target{Exe: name}
}

// node returns the options of a VM that has a node name but uses no name server.
func node(name string, port int) erlang.Options {
	return erlang.Options{Carrier: erlang.Probes, Args: []string{
		"-sname", name, "-start_epmd", "false", "-erl_epmd_port", fmt.Sprint(port),
	}}
}

// Two VMs that run the same executable are counted separately, each under the name of its node.
func TestTwoVMs(t *testing.T) {
	otp := vmtest.Private(t)
	a := vmtest.StartOn(t, otp, node("first@localhost", 43701))
	b := vmtest.StartOn(t, otp, node("second@localhost", 43702))
	s := newSource(t, exe(t, a))

	run(t, a, 1000)
	run(t, b, 300)
	vmtest.Call(t, b, "span_load", "failing", "[#{spans => 40}]")
	vmtest.Call(t, a, "span_load", "open", "[#{spans => 5}]")
	s.collectNow()
	s.collectUntil("5 timeouts", s.timedOut(5))

	first := outcome.VM{PID: a.PID(), Node: "first@localhost"}
	second := outcome.VM{PID: b.PID(), Node: "second@localhost"}
	wantFirst, wantSecond := succeeded(first, 1000), succeeded(second, 300)
	wantFirst.Starts, wantFirst.Timeouts = 1005, 5
	wantSecond.Starts, wantSecond.Ends, wantSecond.Failures = 340, 340, 40
	want := map[outcome.VM]outcome.Counts{first: wantFirst, second: wantSecond}
	if diff := cmp.Diff(want, s.totals()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, text := range []string{"observing " + first.String(), "observing " + second.String()} {
		if !slices.Contains(s.notices(), text) {
			t.Errorf("no notice %q among %q", text, s.notices())
		}
	}
}

// One node is observed alone, without the other node that runs the same executable.
func TestNodeTarget(t *testing.T) {
	otp := vmtest.Private(t)
	a := vmtest.StartOn(t, otp, node("wanted@localhost", 43703))
	b := vmtest.StartOn(t, otp, node("unwanted@localhost", 43704))
	s := newSource(t, vm.Target{Node: "wanted@localhost"})

	run(t, a, 70)
	run(t, b, 30)
	s.collectNow()

	id := outcome.VM{PID: a.PID(), Node: "wanted@localhost"}
	if diff := cmp.Diff(map[outcome.VM]outcome.Counts{id: succeeded(id, 70)}, s.totals()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := vmtest.Eval(t, b, `beamscope:start_span(<<"load">>)`); got != "{undefined,ignore}" {
		t.Errorf("in the other VM start_span gives %s", got)
	}
}

// After a VM exits and another one starts, the source reports both and observes the new one from
// its first span on. Open instances of the old one are lost.
func TestVMComesBack(t *testing.T) {
	otp := vmtest.Private(t)
	old := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	s := newSource(t, exe(t, old))
	oldID := outcome.VM{PID: old.PID()}

	run(t, old, 100)
	vmtest.Call(t, old, "span_load", "open", "[#{spans => 7}]")
	if err := old.Stop(); err != nil {
		t.Fatal(err)
	}
	s.collectUntil("the exit", s.noticed(oldID.String()+" has exited"))

	var again *erlang.VM
	s.collectDuring(func() { again = vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes}) })
	againID := outcome.VM{PID: again.PID()}
	run(t, again, 20)
	s.collectUntil("the new VM", s.noticed("observing "+againID.String()))
	run(t, again, 3)
	s.collectNow()

	wantOld := succeeded(oldID, 100)
	wantOld.Starts, wantOld.Loss.Cut = 107, 7
	want := map[outcome.VM]outcome.Counts{oldID: wantOld, againID: succeeded(againID, 23)}
	got := s.totals()
	delete(got, outcome.VM{}) // windows without a VM
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Notices report that a VM is stopped, at the start and later, and that it runs again.
func TestVMStopped(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	signal := func(s syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(v.PID(), s); err != nil {
			t.Fatal(err)
		}
	}
	defer signal(syscall.SIGCONT)
	signal(syscall.SIGSTOP)
	s := newSource(t, vm.Target{PID: v.PID()})
	id := outcome.VM{PID: v.PID()}.String()
	stopped, again := id+" is stopped by a signal (SIGSTOP or SIGTSTP): nothing happens in it", id+" runs again"
	s.collectUntil("that it is stopped", s.noticed(stopped))
	signal(syscall.SIGCONT)
	s.collectUntil("that it runs again", s.noticed(again))
	signal(syscall.SIGSTOP)
	s.collectUntil("that it is stopped again", func() bool { return len(s.notices()) >= 4 })
	if diff := cmp.Diff([]string{"observing " + id, stopped, again, stopped}, s.notices()); diff != "" {
		t.Errorf("notices, -want +got:\n%s", diff)
	}
}

// A source of one process ends with it, once nothing can be open any more.
func TestPIDTargetEnds(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	s := newSource(t, vm.Target{PID: v.PID()})
	id := outcome.VM{PID: v.PID()}

	run(t, v, 100)
	vmtest.Call(t, v, "span_load", "open", "[#{spans => 7}]")
	if err := v.Stop(); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 100 {
		if err = s.collect(); err != nil {
			break
		}
	}
	if !errors.Is(err, outcome.ErrEnded) {
		t.Fatalf("error %v, want %v", err, outcome.ErrEnded)
	}
	want := succeeded(id, 100)
	want.Starts, want.Loss.Cut = 107, 7
	if diff := cmp.Diff(map[outcome.VM]outcome.Counts{id: want}, s.totals()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"observing " + id.String(), id.String() + " has exited"}, s.notices()); diff != "" {
		t.Errorf("notices, -want +got:\n%s", diff)
	}
}

// A batch contains every instance if the spec requests all, with the same names as in the counts.
func TestEverything(t *testing.T) {
	v := vmtest.StartOn(t, vmtest.Private(t), node("streamer@localhost", 43705))
	s := newSource(t, vm.Target{PID: v.PID()})

	vmtest.Call(t, v, "span_load", "failing", "[#{spans => 30, procs => 1}]")
	s.collectNow()

	var all []outcome.Instance
	for _, b := range s.batches {
		all = append(all, b.Instances...)
	}
	if len(all) != 30 {
		t.Fatalf("%d instances, want 30", len(all))
	}
	for _, i := range all {
		want := outcome.Instance{
			Outcome: "outcome", VM: outcome.VM{PID: v.PID(), Node: "streamer@localhost"},
			Status: outcome.Failure, Class: "load",
			Start: i.Start, End: i.End, ID: i.ID, Process: all[0].Process,
		}
		if diff := cmp.Diff(want, i); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	}
	if pid := all[0].Process.String(); !regexp.MustCompile(`^<0\.\d+\.\d+>$`).MatchString(pid) {
		t.Errorf("the process is %s", pid)
	}
}

// New refuses with the reason if there is nothing to observe.
func TestNothingToObserve(t *testing.T) {
	vmtest.NeedEBPF(t)
	for _, test := range []struct {
		target vm.Target
		want   error
	}{
		{vm.Target{PID: os.Getpid()}, vm.ErrNotVM},
		{vm.Target{Exe: "/no/such/executable"}, vm.ErrNone},
		{vm.Target{Node: "nobody@nowhere"}, vm.ErrNone},
	} {
		s, err := vmsource.New(t.Context(), vmsource.Config{
			Target: test.target,
			Plan: outcome.Plan{From: 1, Window: time.Second, Specs: []outcome.Spec{
				{Name: "a", Span: "a", BinWidth: 1, Bins: 1},
			}},
		})
		if !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, want %v", test.target, err, test.want)
		}
		if err == nil {
			s.Close()
		}
	}
}

// A collector gets no processor time for more windows than there is room for. What it could not
// see is loss, in windows that are marked as unobserved. No window shows its remaining timeouts
// as if nothing else had happened.
func TestLateCollectorInventsNothing(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	s := newSource(t, exe(t, vm))
	run(t, vm, 50)
	s.collectNow()

	run(t, vm, 10) // in windows that are read late but had room
	late := s.plan.Number(monotonic.Now()) + 12
	vmtest.WaitUntil(s.plan.At(late).From)
	vmtest.Call(t, vm, "span_load", "open", "[#{spans => 20}]")
	run(t, vm, 100)
	vmtest.WaitUntil(s.plan.At(late + 5).From) // their dMax is over
	s.collectNow()
	s.collectNow()
	run(t, vm, 30)
	s.collectNow()

	var seen, missed uint64
	for n, b := range s.batches {
		for _, c := range b.Counts {
			if c.Unobserved && c.Instances() > 0 {
				t.Errorf("window %d is unobserved and has %d instances", n, c.Instances())
			}
			if c.Timeouts > 0 {
				t.Errorf("window %d has %d timeouts of spans whose neighbours were lost", n, c.Timeouts)
			}
			if !c.Unobserved && c.Loss != (outcome.Loss{}) {
				t.Errorf("window %d lost %+v and is not unobserved", n, c.Loss)
			}
			seen += c.Successes
			missed += c.Loss.Missed
		}
	}
	if seen != 90 || missed != 120 {
		t.Errorf("%d seen and %d missed, want 90 and 120", seen, missed)
	}
	if !slices.ContainsFunc(s.notices(), func(n string) bool { return strings.Contains(n, "were not observed") }) {
		t.Errorf("no notice about it: %q", s.notices())
	}
}

// Windows that began before the source was attached are unobserved and contain only loss. Later
// windows are observed.
func TestFirstWindowsAreNotObserved(t *testing.T) {
	vmtest.NeedEBPF(t)
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	spec := outcome.Spec{Name: "outcome", Span: "load", BinWidth: 10 * time.Millisecond, Bins: 50}
	plan := outcome.Plan{From: monotonic.Now(), Window: 200 * time.Millisecond, Specs: []outcome.Spec{spec}}
	s, err := vmsource.New(t.Context(), vmsource.Config{Target: vm.Target{PID: v.PID()}, Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run(t, v, 1000)
	last := plan.Number(monotonic.Now())
	var ok, lost uint64
	begun := false
	for n := range last + 1 {
		w := plan.At(n)
		vmtest.WaitUntil(w.To + int64(plan.Window))
		b, err := s.Collect(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		c := b.Counts[0]
		if n == 0 && !c.Unobserved || c.Unobserved && (begun || c.Instances() > 0) {
			t.Errorf("window %d: unobserved %v, after one that is not %v; %d instances", n, c.Unobserved, begun, c.Instances())
		}
		begun = begun || !c.Unobserved
		ok += c.Successes
		lost += c.Loss.Total()
	}
	if ok+lost != 1000 {
		t.Errorf("%d successes and %d lost of 1000 spans", ok, lost)
	}
}
