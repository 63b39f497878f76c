package vmsource_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// spec returns an outcome with the same name as its span.
func spec(name string, bins int, detail outcome.Detail) outcome.Spec {
	return outcome.Spec{Name: name, Span: name, BinWidth: time.Second / time.Duration(bins), Bins: bins, Detail: detail}
}

// planned observes a VM according to a plan.
func planned(t *testing.T, v *erlang.VM, specs ...outcome.Spec) *source {
	t.Helper()
	return newSourceEvery(t, vm.Target{PID: v.PID()}, 200*time.Millisecond, specs)
}

// change changes the plan soon, and collects windows until the new plan holds.
func (s *source) change(window time.Duration, specs ...outcome.Spec) {
	s.t.Helper()
	s.plans = append(s.plans, s.announce(window, specs...))
	for s.plan = s.plans[len(s.plans)-1]; s.nextFrom < s.plan.From; {
		if err := s.collect(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// announce passes the source a plan that begins soon.
func (s *source) announce(window time.Duration, specs ...outcome.Spec) outcome.Plan {
	s.t.Helper()
	const soon, latest = 700 * time.Millisecond, 10 * time.Second // making another collector takes some time
	last := s.plans[len(s.plans)-1]
	for lead := soon; ; lead *= 2 {
		p := outcome.Plan{
			From:   last.At(last.Number(max(monotonic.Now()+int64(lead), last.From)) + 1).From,
			Window: window,
			Specs:  specs,
		}
		err := s.Plan(s.t.Context(), p)
		if err == nil {
			return p
		}
		if !errors.Is(err, outcome.ErrLate) || lead > latest {
			s.t.Fatal(err)
		}
	}
}

// of returns the sum over all windows of one outcome.
func (s *source) of(name string) outcome.Counts {
	var sum outcome.Counts
	for _, b := range s.batches {
		for _, c := range b.Counts {
			if c.Outcome == name {
				sum.Outcome, sum.VM = c.Outcome, c.VM
				sum = sum.Add(c)
			}
		}
	}
	return sum
}

// consistent checks every batch against its plan. Outcomes are in the order of the plan. Bins
// match the grid and add up to the successes. Instances belong to the window and are sorted.
func (s *source) consistent() {
	s.t.Helper()
	for _, b := range s.batches {
		i := len(s.plans) - 1
		for b.Window.From < s.plans[i].From {
			i--
		}
		var names []string
		for _, c := range b.Counts {
			names = append(names, c.Outcome)
			spec := s.plans[i].Specs[slices.IndexFunc(s.plans[i].Specs, func(s outcome.Spec) bool { return s.Name == c.Outcome })]
			var sum uint64
			for _, n := range c.Bins {
				sum += n
			}
			if len(c.Bins) != spec.Bins || sum != c.Successes {
				s.t.Errorf("%s of %v has %d bins of %d successes, want %d of %d", c.Outcome, b.Window, len(c.Bins), sum, spec.Bins, c.Successes)
			}
		}
		var want []string
		for _, spec := range s.plans[i].Specs {
			want = append(want, spec.Name)
		}
		if diff := cmp.Diff(want, names); diff != "" {
			s.t.Errorf("outcomes of %v, -want +got:\n%s", b.Window, diff)
		}
		if !slices.IsSortedFunc(b.Instances, func(i, j outcome.Instance) int { return int(i.End - j.End) }) ||
			slices.ContainsFunc(b.Instances, func(i outcome.Instance) bool { return !b.Window.Contains(i.End) }) {
			s.t.Errorf("instances of %v: %+v", b.Window, b.Instances)
		}
	}
}

// load makes the VM start and end spans with these names in turn, until the returned function is
// called. That function returns how many of each there were. One span stays open for some time.
func load(t *testing.T, v *erlang.VM, names ...string) func() uint64 {
	t.Helper()
	list := ""
	for i, name := range names {
		if i > 0 {
			list += ", "
		}
		list += fmt.Sprintf("<<\"%s\">>", name)
	}
	vmtest.Eval(t, v, fmt.Sprintf(`
		Names = [%s],
		Round = fun(Round, N) ->
			Spans = [beamscope:start_span(Name) || Name <- Names],
			receive {stop, From} -> [beamscope:end_span(C, S) || {C, S} <- Spans], From ! {rounds, N + 1}
			after 1 -> [beamscope:end_span(C, S) || {C, S} <- lists:reverse(Spans)], Round(Round, N + 1) end
		end,
		register(load, spawn(fun() -> Round(Round, 0) end)), ok`, list))
	return func() uint64 {
		n := vmtest.Eval(t, v, "load ! {stop, self()}, receive {rounds, N} -> N end")
		return uint64(vmtest.Integers(t, n)[0])
	}
}

// Windows, grids and outcomes change repeatedly while spans flow. Unchanged outcomes lose
// nothing. Changed outcomes lose only open instances, as cut. Outcomes that are not observed are
// not counted.
func TestPlansInARow(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	same := spec("same", 40, outcome.Everything)
	s := planned(t, v, same, spec("changes", 40, outcome.CountsOnly))
	rounds := load(t, v, "same", "changes", "comes")

	s.change(100*time.Millisecond, spec("changes", 40, outcome.Worst), same)
	s.change(300*time.Millisecond, same, spec("changes", 25, outcome.Worst), spec("comes", 10, outcome.CountsOnly))
	s.change(150*time.Millisecond, spec("comes", 10, outcome.Everything), same)
	s.change(200*time.Millisecond, same, spec("changes", 30, outcome.CountsOnly))
	s.collectNow()
	n := rounds()
	s.collectNow()

	s.consistent()
	id := outcome.VM{PID: v.PID()}
	want := outcome.Counts{Outcome: "same", VM: id, Starts: n, Ends: n, Successes: n}
	if diff := cmp.Diff(want, s.of("same")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for name, most := range map[string]uint64{"changes": 1, "comes": 0} {
		got := s.of(name)
		if got.Loss.Cut > most || got.Loss.Total() != got.Loss.Cut || got.Successes == 0 || got.Timeouts+got.Failures != 0 {
			t.Errorf("%+v", got)
		}
		if open := got.Starts - got.Successes - got.Loss.Cut; open > 1 { // open at the time of the change
			t.Errorf("%s: %d neither ended nor cut: %+v", name, open, got)
		}
	}
	if got := s.instances("same"); uint64(got) != n {
		t.Errorf("%d instances, want %d", got, n)
	}
}

func (s *source) instances(name string) int {
	n := 0
	for _, b := range s.batches {
		for _, i := range b.Instances {
			if i.Outcome == name {
				n++
			}
		}
	}
	return n
}

// If a plan needs more room, another collector takes over. Nothing is counted twice. Only open
// instances are lost, as cut.
func TestTakeOver(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	small, large := spec("small", 20, outcome.Everything), spec("large", 4000, outcome.CountsOnly)
	s := planned(t, v, small)
	vmtest.Eval(t, v, `persistent_term:put(kept, [beamscope:start_span(<<"small">>) || _ <- lists:seq(1, 70)])`)
	rounds := load(t, v, "small", "large")

	s.change(200*time.Millisecond, small, large)
	s.change(100*time.Millisecond, large, small)
	s.collectNow()
	if !s.noticed("what is observed has changed, so programs are attached anew: instances that are open at that moment are lost")() {
		t.Errorf("no other collector took over: %q", s.notices())
	}
	n := rounds() + 70
	vmtest.Eval(t, v, "[beamscope:end_span(C, S) || {C, S} <- persistent_term:get(kept)]")
	s.collectNow()

	s.consistent()
	got := s.of("small")
	if got.Starts != n || got.Successes+got.Timeouts+got.Loss.Cut != n || got.Loss.Cut < 70 || got.Loss.Cut > 71 || got.Loss.Total() != got.Loss.Cut {
		t.Errorf("of %d: %+v", n, got)
	}
	if s.instances("small") != int(got.Successes+got.Timeouts) {
		t.Errorf("%d instances of %d", s.instances("small"), got.Successes)
	}
}

// No window is lost while another collector takes long to make. That collector is made only once.
func TestTakeOverThatTakesLong(t *testing.T) {
	const window = 100 * time.Millisecond
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	small, large := spec("small", 20, outcome.CountsOnly), spec("large", 4000, outcome.CountsOnly)
	var slow, made atomic.Int64
	s := newSourceOf(t, vmsource.Config{
		Target: vm.Target{PID: v.PID()}, Plan: outcome.Plan{Window: window, Specs: []outcome.Spec{small}},
		Progress: func(p vmsource.Progress) {
			if p.Loaded == 1 && slow.Load() != 0 {
				made.Add(1)
				vmtest.WaitUntil(monotonic.Now() + int64(20*window))
			}
		},
	})
	rounds := load(t, v, "small", "large")
	slow.Store(1)
	s.change(window, small, large)
	slow.Store(0)
	s.collectNow()
	n := rounds()
	s.collectNow()
	if made.Load() != 1 || !s.noticed("what is observed has changed, so programs are attached anew: instances that are open at that moment are lost")() {
		t.Errorf("%d collectors were made: %q", made.Load(), s.notices())
	}
	for _, b := range s.batches {
		for _, c := range b.Counts {
			if c.Unobserved {
				t.Errorf("%s of %v was not observed", c.Outcome, b.Window)
			}
		}
	}
	s.consistent()
	if got := s.of("small"); got.Starts != n || got.Successes+got.Loss.Cut != n || got.Loss.Cut > 1 || got.Loss.Total() != got.Loss.Cut {
		t.Errorf("of %d: %+v", n, got)
	}
}

// A collector that was made for a late plan takes over if the same plan is requested again soon,
// and is closed otherwise.
func TestLateSuccessor(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	small, large := spec("small", 20, outcome.CountsOnly), spec("large", 4000, outcome.CountsOnly)
	var begin atomic.Int64
	s := newSourceOf(t, vmsource.Config{
		Target: vm.Target{PID: v.PID()}, Plan: outcome.Plan{Window: 200 * time.Millisecond, Specs: []outcome.Spec{small}},
		// The plan has begun before its collector is made.
		Progress: func(vmsource.Progress) { vmtest.WaitUntil(begin.Load()) },
	})
	late := func() {
		t.Helper()
		last := s.plans[len(s.plans)-1]
		p := outcome.Plan{From: last.At(last.Number(monotonic.Now()) + 1).From, Window: 50 * time.Millisecond, Specs: []outcome.Spec{small, large}}
		begin.Store(p.From)
		if err := s.Plan(t.Context(), p); !errors.Is(err, outcome.ErrLate) {
			t.Fatalf("error %v, want %v", err, outcome.ErrLate)
		}
	}
	late()
	s.watch()
	if !s.HasSuccessor() {
		t.Error("the collector of a plan that was late a moment ago was closed")
	}
	s.AgeSuccessor()
	s.watch()
	if s.HasSuccessor() {
		t.Error("the collector of a plan that is no longer requested still exists")
	}
	late()
	s.change(100*time.Millisecond, small, large)
	s.collectNow()
	run(t, v, 3)
	s.collectNow()
	s.consistent()
	if s.HasSuccessor() {
		t.Error("another successor exists after the takeover")
	}
}

// A plan may follow while windows before the last plan still have to be collected.
func TestPlansPileUp(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	s := planned(t, v, spec("load", 20, outcome.CountsOnly))
	rounds := load(t, v, "load")
	for bins := 30; bins < 60; bins += 10 {
		s.plans = append(s.plans, s.announce(150*time.Millisecond, spec("load", bins, outcome.CountsOnly)))
	}
	s.plan = s.plans[len(s.plans)-1]
	s.collectNow()
	n := rounds()
	s.collectNow()

	s.consistent()
	got := s.of("load")
	if got.Starts != n || got.Successes+got.Loss.Cut != n || got.Loss.Cut > 3 || got.Loss.Total() != got.Loss.Cut {
		t.Errorf("of %d: %+v", n, got)
	}
}

// A plan with outcomes of other sources only keeps the source running, and may get ours later.
func TestPlanOfOthers(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	other := outcome.Spec{Name: "other", Wrapper: "load", BinWidth: 1, Bins: 1}
	s := planned(t, v, other)
	if got := vmtest.Eval(t, v, `beamscope:start_span(<<"load">>)`); got != "{undefined,ignore}" {
		t.Errorf("start_span gives %s", got)
	}
	s.change(200*time.Millisecond, other, spec("load", 10, outcome.CountsOnly))
	run(t, v, 100)
	s.collectNow()
	if got := s.of("load"); got.Successes != 100 || s.of("other").Outcome != "" {
		t.Errorf("%+v, %+v", got, s.of("other"))
	}
}

// A plan that begins in the past, or not at the beginning of a window, is refused. The previous
// plan stays in force.
func TestPlanRefused(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	s := planned(t, v, spec("load", 10, outcome.CountsOnly))
	s.collectNow()
	for _, from := range []int64{s.plan.From, s.plan.At(1).From, s.plan.At(100).From + 1} {
		if err := s.Plan(t.Context(), outcome.Plan{From: from, Window: time.Second}); err == nil {
			t.Errorf("a plan from %d is accepted", from)
		}
	}
	run(t, v, 100)
	s.collectNow()
	if got := s.of("load"); got.Successes != 100 {
		t.Errorf("%+v", got)
	}
}

// The worst instances of a window are the worst of all counted ones: timeouts, then failures,
// then successes in the last bins.
func TestWorstAreTheWorst(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	s := planned(t, v, spec("load", 50, outcome.Worst))
	run(t, v, 20_000)
	vmtest.Call(t, v, "span_load", "failing", "[#{spans => 10}]")
	vmtest.Call(t, v, "span_load", "open", "[#{spans => 500}]")
	s.collectNow()
	s.collectUntil("500 timeouts", s.timedOut(500))

	for _, b := range s.batches {
		c := b.Counts[0]
		if uint64(len(b.Instances)) != min(c.Instances(), outcome.MaxWorst) || c.Unstreamed > 0 {
			t.Errorf("%d instances of %+v", len(b.Instances), c)
		}
		var timeouts, failures uint64
		bins := make([]uint64, len(c.Bins))
		for _, i := range b.Instances {
			switch i.Status {
			case outcome.Timeout:
				timeouts++
			case outcome.Failure:
				failures++
			default:
				bins[min(int(i.Elapsed()/(time.Second/50)), 49)]++
			}
		}
		left := uint64(outcome.MaxWorst)
		expect := func(what string, got, there uint64) {
			if got != min(there, left) {
				t.Errorf("%d of %d %s among the worst", got, there, what)
			}
			left -= min(there, left)
		}
		expect("timeouts", timeouts, c.Timeouts)
		expect("failures", failures, c.Failures)
		for bin := len(bins) - 1; bin >= 0; bin-- {
			expect(fmt.Sprintf("successes in bin %d", bin), bins[bin], c.Bins[bin])
		}
	}
}

// If there are more instances than room for them, each is delivered or counted as not streamed.
func TestTooManyInstances(t *testing.T) {
	const n = 400_000
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	s := newSourceEvery(t, vm.Target{PID: v.PID()}, 3*time.Second, []outcome.Spec{spec("load", 10, outcome.Everything)})
	run(t, v, n)
	s.collectNow()

	s.consistent()
	got := s.of("load")
	if got.Successes+got.Timeouts != n || uint64(s.instances("load"))+got.Unstreamed != n {
		t.Errorf("%d instances of %+v", s.instances("load"), got)
	}
	for _, b := range s.batches {
		if uint64(len(b.Instances))+b.Counts[0].Unstreamed != b.Counts[0].Instances() {
			t.Errorf("%d instances of %+v", len(b.Instances), b.Counts[0])
		}
	}
	t.Logf("%d unstreamed", got.Unstreamed)
}

// A batch reuses memory of the previous one. Allocations do not grow with the outcomes and their
// bins.
func TestCollectAllocates(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	const outcomes = 100
	var specs []outcome.Spec
	for i := range outcomes {
		specs = append(specs, spec(fmt.Sprint("outcome ", i), 1000, outcome.CountsOnly))
	}
	specs[0].Detail = outcome.Worst
	s := planned(t, v, specs...)
	collect := func() {
		w := s.window()
		vmtest.WaitUntil(w.To)
		s.nextFrom = w.To
		if _, err := s.Collect(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	collect()
	if n := testing.AllocsPerRun(5, collect); n >= outcomes {
		t.Errorf("%v allocations", n)
	}
}
