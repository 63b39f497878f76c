package outcome_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/internal/vmtest"
)

// spec is an outcome called as its span.
func spec(name string, bins int, detail outcome.Detail) outcome.Spec {
	return outcome.Spec{Name: name, Span: name, BinWidth: time.Second / time.Duration(bins), Bins: bins, Detail: detail}
}

// planned observes a VM by a plan.
func planned(t *testing.T, v *erlang.VM, specs ...outcome.Spec) *source {
	t.Helper()
	return newSourceEvery(t, vm.Target{PID: v.PID()}, 200*time.Millisecond, specs)
}

// change changes the plan soon, and collects windows until it holds.
func (s *source) change(window time.Duration, specs ...outcome.Spec) {
	s.t.Helper()
	s.plans = append(s.plans, s.announce(window, specs...))
	for s.plan = s.plans[len(s.plans)-1]; s.nextFrom < s.plan.From; {
		if err := s.collect(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// announce tells the source of a plan that begins soon.
func (s *source) announce(window time.Duration, specs ...outcome.Spec) outcome.Plan {
	s.t.Helper()
	const soon, latest = 700 * time.Millisecond, 10 * time.Second // another collector takes some time to make
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

// consistent checks every batch against its plan: outcomes in their order, bins of
// their grid, which hold the successes, and instances of the window in order.
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

// load has the VM start and end spans of these names, round and round, until the
// returned function is called, which returns how many of each there were. One is
// kept open for some time.
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

// Windows, grids and outcomes change in a row while spans flow. What stays as it
// is loses nothing; of what changes only what was open is cut; what is not observed
// is not counted.
func TestPlansInARow(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{})
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
		if open := got.Starts - got.Successes - got.Loss.Cut; open > 1 { // when it went
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

// A plan that does not fit has another collector take over: nothing is counted
// twice, and nothing lost but what was open, which is cut.
func TestTakeOver(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{})
	small, large := spec("small", 20, outcome.Everything), spec("large", 4000, outcome.CountsOnly)
	s := planned(t, v, small)
	vmtest.Eval(t, v, `persistent_term:put(kept, [beamscope:start_span(<<"small">>) || _ <- lists:seq(1, 70)])`)
	rounds := load(t, v, "small", "large")

	s.change(200*time.Millisecond, small, large)
	s.change(100*time.Millisecond, large, small)
	s.collectNow()
	if !s.noticed("the plan needs another collector: what is open when it begins is cut")() {
		t.Errorf("nothing took over: %q", s.notices())
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

// A plan may follow while windows of before the last one are still to be collected.
func TestPlansPileUp(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{})
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

// A plan of other sources' outcomes alone is kept alive, and gets ours later.
func TestPlanOfOthers(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{})
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

// A plan that begins in the past, or not with a window, is refused, and the one
// before goes on.
func TestPlanRefused(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{})
	s := planned(t, v, spec("load", 10, outcome.CountsOnly))
	s.collectNow()
	for _, from := range []int64{s.plan.From, s.plan.At(1).From, s.plan.At(100).From + 1} {
		if err := s.Plan(t.Context(), outcome.Plan{From: from, Window: time.Second}); err == nil {
			t.Errorf("a plan from %d is taken", from)
		}
	}
	run(t, v, 100)
	s.collectNow()
	if got := s.of("load"); got.Successes != 100 {
		t.Errorf("%+v", got)
	}
}

// The worst instances of a window are the worst of all that were counted in it:
// timeouts, then failures, then successes in the last bins.
func TestWorstAreTheWorst(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{})
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

// Of instances that are more than there is room for, each is delivered or counted
// as not streamed.
func TestTooManyInstances(t *testing.T) {
	const n = 400_000
	v := vmtest.Start(t, erlang.Options{})
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

// A batch's memory is used for the next: what is allocated does not grow with the
// outcomes and their bins.
func TestCollectAllocates(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{})
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
