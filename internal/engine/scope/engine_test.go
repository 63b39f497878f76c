package scope_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dq"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// A frame contains the ΔQ of the counts, with quantiles over all instances.
func TestObserved(t *testing.T) {
	c := counts("a", 1, 2, 0, 3)
	c.Failures, c.Timeouts = 1, 1
	f := newPlay(t, system(t, "", spec("a", 4))).step(c)
	p := outcomeOf(t, f, "a")
	got := []string{fmt.Sprint(p.Observed.Instances(), p.Rate()) + p.Insufficient}
	for _, q := range scope.Quantiles() {
		d, ok := p.Observed.QuantileFigure(q)
		got = append(got, fmt.Sprint(d, ok))
	}
	// Of 8 instances, the 2nd is in bin 1, the 4th and the 6th are in bin 3, and the 8th failed.
	want := []string{"8 8", "2ms true", "4ms true", "4ms true", "0s false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if p.Calculated != nil || p.Divergence != nil || p.Judgement != nil {
		t.Error("the frame has something that was not requested")
	}
}

// The diagram's results, calculated by hand. Outcome a takes 1 to 2 ms or fails, each with a
// probability of a half. Outcome b takes 0 to 1 ms. So their sequence is done after 1 to 3 ms
// with a probability of a half. Both are done after 1 to 2 ms with a probability of a half. One
// of them is certainly done after 0 to 1 ms.
func TestCalculated(t *testing.T) {
	s := system(t, "seq = a -> b; both = a:both(a, b); one = f:one(a, b);",
		spec("a", 4), spec("b", 4), spec("seq", 8), spec("both", 4), spec("one", 4))
	a := counts("a", 0, 10, 0, 0)
	a.Failures = 10
	f := newPlay(t, s).step(a, counts("b", 5, 0, 0, 0))
	for _, tc := range []struct {
		name   string
		lo, hi []float64 // values at 0, 1, 2, 3 ms
	}{
		{"seq", []float64{0, 0, 0, 0.5}, []float64{0, 0.5, 0.5, 0.5}},
		{"both", []float64{0, 0, 0.5, 0.5}, []float64{0, 0.5, 0.5, 0.5}},
		{"one", []float64{0, 1, 1, 1}, []float64{1, 1, 1, 1}},
	} {
		p := outcomeOf(t, f, tc.name)
		if p.Calculated.Empty() {
			t.Fatalf("%s: nothing was calculated", tc.name)
		}
		for k := range 4 {
			b := p.Calculated.At(min(k, p.Calculated.Bins()))
			if math.Abs(b.Lo-tc.lo[k]) > 1e-12 || math.Abs(b.Hi-tc.hi[k]) > 1e-12 {
				t.Errorf("%s at %d ms: %v, want %v to %v", tc.name, k, b, tc.lo[k], tc.hi[k])
			}
		}
		if p.CalculatedFrom != 5 || p.CalculatedMean.Windows != 1 || p.VM != beam && p.VM != (outcome.VM{}) {
			t.Errorf("%s: from %d instances, mean of %d windows, of %v", tc.name, p.CalculatedFrom, p.CalculatedMean.Windows, p.VM)
		}
	}
}

// If a branch of a choice has no instances in a window, it may be anything. The bounds are wider
// by its share, but a verdict is still possible. A branch with few instances counts by its share:
// 3 instances of a branch of 1 % are as good as 30000, and 100 of one of 99 % are as good as 102.
func TestCalculatedWithoutARareBranch(t *testing.T) {
	s := system(t, "probe = p:pick[0.99, 0.01](often, rare)", spec("often", 4), spec("rare", 4), spec("probe", 4), spec("pick", 4))
	s.Samples = 10
	qta, err := dq.NewQTA(0.05, dq.Step{T: ms, P: 0.9})
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Outcomes {
		s.Outcomes[i].QTA = &qta
	}
	p := newPlay(t, s)
	for _, tt := range []struct {
		rare    outcome.Counts
		lo, hi  float64 // bounds within 4 ms
		from    uint64
		verdict string
	}{
		{counts("rare", 0, 0, 0, 0), 0.99, 1, 102, ""},
		{counts("rare", 0, 0, 3, 0), 1, 1, 102, ""},
		{losing(counts("rare", 0, 0, 3, 0), 1), 1, 1, 102, "loss"},
	} {
		f := p.step(counts("often", 100, 0, 0, 0), tt.rare)
		row := outcomeOf(t, f, "probe")
		if row.Calculated.Empty() {
			t.Fatalf("%v: nothing is calculated", tt.rare.Bins)
		}
		b, _ := row.Calculated.Success()
		if math.Abs(b.Lo-tt.lo) > 1e-12 || math.Abs(b.Hi-tt.hi) > 1e-12 {
			t.Errorf("%v: success %v, want %v to %v", tt.rare.Bins, b, tt.lo, tt.hi)
		}
		if row.CalculatedFrom != tt.from || row.CalculatedInsufficient != tt.verdict || row.CalculatedJudgement.Met != dq.Yes {
			t.Errorf("%v: from %d, insufficient %q, met %v", tt.rare.Bins, row.CalculatedFrom, row.CalculatedInsufficient, row.CalculatedJudgement.Met)
		}
	}
	row := outcomeOf(t, p.step(counts("often", 0, 0, 0, 0), counts("rare", 0, 0, 0, 0)), "probe")
	if !row.Calculated.Empty() || row.CalculatedInsufficient != "no instances" {
		t.Errorf("no branch has instances: %v, insufficient %q", row.Calculated, row.CalculatedInsufficient)
	}
}

// An outcome without counts, such as a new operator in a replay, has rows for the VMs with counts,
// or a row without a VM if there are none.
func TestNotCounted(t *testing.T) {
	other := outcome.VM{PID: 8, Node: "c@d"}
	elsewhere := counts("a", 1)
	elsewhere.VM = other
	p := newPlay(t, system(t, "x = a -> a;", spec("a", 1), spec("x", 2)))
	for i, tt := range []struct {
		counts []outcome.Counts
		want   []outcome.VM
	}{
		{nil, []outcome.VM{{}}},
		{[]outcome.Counts{counts("a", 1)}, []outcome.VM{beam}},
		{[]outcome.Counts{counts("a", 1), elsewhere}, []outcome.VM{beam, other}},
	} {
		f := p.step(tt.counts...)
		var got []outcome.VM
		for i := range f.Outcomes {
			if x := &f.Outcomes[i]; x.Name == "x" {
				got = append(got, x.VM)
				if len(tt.counts) > 0 && x.Calculated.Empty() {
					t.Errorf("nothing is calculated for %v", x.VM)
				}
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%d: -want +got:\n%s", i, diff)
		}
	}
}

// If an outcome has no instances, the names that contain it are not calculated, and the frame
// shows the reason. Other names are.
func TestPartlyCalculated(t *testing.T) {
	s := system(t, "ab = a -> b; bc = b -> c;", spec("a", 2), spec("b", 2), spec("c", 2), spec("ab", 4), spec("bc", 4))
	f := newPlay(t, s).step(counts("a", 0, 0), counts("b", 1, 0), counts("c", 1, 0), counts("ab", 1, 0, 0, 0), counts("bc", 1, 0, 0, 0))
	if p := outcomeOf(t, f, "ab"); !p.Calculated.Empty() || p.CalculatedInsufficient == "" || p.Divergence != nil {
		t.Errorf("ab: %v, %q", p.Calculated, p.CalculatedInsufficient)
	}
	if p := outcomeOf(t, f, "bc"); p.Calculated.Empty() || p.CalculatedInsufficient != "" || p.Divergence == nil {
		t.Errorf("bc: %v, %q", p.Calculated, p.CalculatedInsufficient)
	}
}

// If one outcome has few instances and another one none, nothing is calculated, and the engine
// continues.
func TestFewAndNone(t *testing.T) {
	s := system(t, "ab = a -> b", spec("a", 4), spec("b", 4), spec("ab", 8))
	s.Samples = 50
	f := newPlay(t, s).step(counts("a", 0, 3, 0, 0), counts("b", 0, 0, 0, 0), counts("ab", 0, 0, 60, 0, 0, 0, 0, 0))
	if p := outcomeOf(t, f, "ab"); !p.Calculated.Empty() || p.CalculatedInsufficient != "no instances" || p.Divergence != nil {
		t.Errorf("ab: %v, %q, %v", p.Calculated, p.CalculatedInsufficient, p.Divergence)
	}
}

// There is a frame whatever outcomes have instances in a window, however many, and in whatever
// VMs.
func TestAnyCounts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := system(t, "abc = a -> f:bc(b, c); twice = s:abc -> p:pick[0.9, 0.1](a, b -> c)",
			spec("a", 4), spec("b", 4), spec("c", 8), spec("abc", 8), spec("bc", 8), spec("pick", 8))
		s.Samples = rapid.Uint64Range(0, 20).Draw(r, "samples")
		p := newPlay(t, s)
		for range rapid.IntRange(1, 6).Draw(r, "windows") {
			var all []outcome.Counts
			for _, x := range s.Outcomes {
				c := counts(x.Spec.Name, make([]uint64, x.Spec.Bins)...)
				c.Successes = rapid.Uint64Range(0, 30).Draw(r, "successes") * rapid.Uint64Range(0, 1).Draw(r, "any")
				c.VM.PID = rapid.IntRange(7, 9).Draw(r, "VM")
				c.Bins[rapid.IntRange(0, x.Spec.Bins-1).Draw(r, "bin")] = c.Successes
				if c.Successes > 0 {
					c.Failures, c.Timeouts = rapid.Uint64Range(0, 2).Draw(r, "failures"), rapid.Uint64Range(0, 2).Draw(r, "timeouts")
				}
				c.Loss.Missed = rapid.Uint64Range(0, 1).Draw(r, "missed")
				c.Unobserved = rapid.Bool().Draw(r, "unobserved")
				all = append(all, c)
			}
			p.step(all...)
		}
	})
}

// Each VM is calculated separately. An outcome that only one VM has takes part in all of them.
func TestCalculatedForEachVM(t *testing.T) {
	of := func(vm outcome.VM, c outcome.Counts) outcome.Counts { c.VM = vm; return c }
	one, two, remote := outcome.VM{PID: 1}, outcome.VM{PID: 2}, outcome.VM{Node: "10.0.0.5"}
	s := system(t, "sum = a -> b;", spec("a", 2), spec("b", 2), spec("sum", 4))
	f := newPlay(t, s).step(
		of(one, counts("a", 1, 0)), of(two, counts("a", 0, 1)),
		of(remote, counts("b", 1, 0)),
		of(one, counts("sum", 1, 0, 0, 0)), of(two, counts("sum", 1, 0, 0, 0)))
	got := make(map[outcome.VM]float64)
	for _, p := range f.Outcomes {
		if p.Name == "sum" {
			got[p.VM] = p.Calculated.At(2).Lo // certainly done within 2 ms
		}
	}
	if diff := cmp.Diff(map[outcome.VM]float64{one: 1, two: 0}, got); diff != "" {
		t.Error(diff)
	}
}

// The mean covers the windows with instances among the last ones, and drops older ones.
func TestMean(t *testing.T) {
	s := system(t, "", spec("a", 2))
	s.History = 3
	p := newPlay(t, s)
	early, late, none := counts("a", 4, 0), counts("a", 0, 4), counts("a", 0, 0)
	for i, tc := range []struct {
		counts  outcome.Counts
		windows int
		mean    float64 // mean at 1 ms
	}{
		{early, 1, 1}, {late, 2, 0.5}, {late, 3, 1.0 / 3}, {late, 3, 0}, {none, 2, 0}, {none, 1, 0}, {none, 0, 0}, {early, 1, 1},
	} {
		m := outcomeOf(t, p.step(tc.counts), "a").Mean
		if m.Windows != tc.windows || m.Windows > 0 && math.Abs(m.Band.Mean[1]-tc.mean) > 1e-12 {
			t.Errorf("window %d: mean of %d windows, want %d of %v: %v", i, m.Windows, tc.windows, tc.mean, m.Band.Mean)
		}
	}
}

// A change of bins begins a new history for that outcome and for the names calculated from it, with
// a notice. Other outcomes keep theirs.
func TestConfigureKeepsHistory(t *testing.T) {
	first := system(t, "sum = a -> b;", spec("a", 2), spec("b", 2), spec("sum", 4), spec("c", 2))
	second := system(t, "sum = a -> b;", spec("a", 4), spec("b", 2), spec("sum", 4), spec("c", 2))
	p := newPlay(t, first)
	for range 5 {
		p.step(counts("a", 1, 0), counts("b", 1, 0), counts("sum", 1, 0, 0, 0), counts("c", 1, 0))
	}
	if err := p.engine.Configure(second); err != nil {
		t.Fatal(err)
	}
	f := p.step(counts("a", 1, 0, 0, 0), counts("b", 1, 0), counts("sum", 1, 0, 0, 0), counts("c", 1, 0))
	got := make(map[string][]int)
	for _, p := range f.Outcomes {
		got[p.Name] = []int{p.Mean.Windows, p.CalculatedMean.Windows, p.DivergenceWindows}
	}
	want := map[string][]int{"a": {1, 0, 0}, "b": {6, 0, 0}, "sum": {6, 1, 1}, "c": {6, 0, 0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(f.Notices) != 1 || !strings.Contains(f.Notices[0].Text, "a: 4 bins of 1ms instead of 2 of 1ms") {
		t.Errorf("notices %q", f.NoticeTexts())
	}
	if f := p.step(); len(f.Notices) != 0 {
		t.Errorf("notices again: %q", f.NoticeTexts())
	}
}

// A new diagram begins all calculated histories anew. A new window length begins every history
// anew.
func TestConfigureDiagramAndWindow(t *testing.T) {
	batch := []outcome.Counts{counts("a", 1, 0), counts("b", 1, 0), counts("x", 1, 0, 0, 0)}
	specs := []outcome.Spec{spec("a", 2), spec("b", 2), spec("x", 4)}
	p := newPlay(t, system(t, "x = a -> b;", specs...))
	p.step(batch...)
	if err := p.engine.Configure(system(t, "x = f:x(a, b);", specs...)); err != nil {
		t.Fatal(err)
	}
	f := p.step(batch...)
	if x := outcomeOf(t, f, "x"); x.Mean.Windows != 2 || x.CalculatedMean.Windows != 1 || len(f.Notices) != 1 {
		t.Errorf("another diagram: means of %d and %d windows, %q", x.Mean.Windows, x.CalculatedMean.Windows, f.NoticeTexts())
	}
	slow := system(t, "x = f:x(a, b);", specs...)
	slow.Window = 2 * time.Second
	if err := p.engine.Configure(slow); err != nil {
		t.Fatal(err)
	}
	f = p.step(batch...)
	if x := outcomeOf(t, f, "x"); x.Mean.Windows != 1 || x.CalculatedMean.Windows != 1 || len(f.Notices) != 1 {
		t.Errorf("another window: means of %d and %d windows, %q", x.Mean.Windows, x.CalculatedMean.Windows, f.NoticeTexts())
	}
}

// An invalid system is rejected and changes nothing.
func TestConfigureRefuses(t *testing.T) {
	good := system(t, "", spec("a", 2))
	p := newPlay(t, good)
	for name, bad := range map[string]*scope.System{
		"no bins":              system(t, "", spec("a", 0)),
		"a missing outcome":    system(t, "x = a -> b;", spec("a", 2), spec("x", 2)),
		"bins without a width": {Outcomes: []scope.OutcomeSystem{{Spec: outcome.Spec{Name: "a", Bins: 2}}}},
		"too many bins":        system(t, "", spec("a", dq.MaxBins+1)),
	} {
		if err := p.engine.Configure(bad); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if p.engine.System() != good {
		t.Error("another system is in use")
	}
	p.step(counts("a", 1, 0))
}

// A VM that has gone leaves neither a row nor a history.
func TestVMsComeAndGo(t *testing.T) {
	p := newPlay(t, system(t, "", spec("a", 2)))
	for range 3 {
		p.step(counts("a", 1, 0))
	}
	if f := p.step(); len(f.Outcomes) != 1 || f.Outcomes[0].VM != (outcome.VM{}) || !f.Outcomes[0].Observed.Empty() {
		t.Errorf("without VMs: %+v", f.Outcomes)
	}
	if m := outcomeOf(t, p.step(counts("a", 1, 0)), "a").Mean.Windows; m != 4 {
		t.Errorf("away for a window, and come back with the mean of %d windows", m)
	}
	for range scope.DefaultHistory {
		p.step()
	}
	if m := outcomeOf(t, p.step(counts("a", 1, 0)), "a").Mean.Windows; m != 1 {
		t.Errorf("another one, with the mean of %d windows", m)
	}
}

// A VM that is missing in a window does not begin another incident afterwards.
func TestIncidentSurvivesAbsence(t *testing.T) {
	s := system(t, "", spec("a", 2))
	s.Outcomes[0].Triggers = triggers(t, "load", "0")
	p := newPlay(t, s)
	var all []string
	for range 6 {
		all = append(all, fired(p.step(counts("a", 1, 0)))...)
		all = append(all, fired(p.step())...)
	}
	if diff := cmp.Diff([]string{"load a"}, all); diff != "" {
		t.Error(diff)
	}
}

// Each VM that a source sees has a row for each outcome, even for outcomes that happen only in
// another VM. A diagram over both VMs takes each outcome from where it happens.
func TestCalculatedAcrossVMs(t *testing.T) {
	one, two := outcome.VM{PID: 1}, outcome.VM{PID: 2}
	of := func(vm outcome.VM, c outcome.Counts) outcome.Counts { c.VM = vm; return c }
	p := newPlay(t, system(t, "sum = a -> b;", spec("a", 2), spec("b", 2), spec("sum", 4)))
	var f *scope.Frame
	for range 2 {
		f = p.step(of(one, counts("a", 1, 0)), of(two, counts("a", 0, 0)),
			of(one, counts("b", 0, 0)), of(two, counts("b", 1, 0)),
			of(one, counts("sum", 1, 0, 0, 0)), of(two, counts("sum", 0, 0, 0, 0)))
	}
	for _, p := range f.Outcomes {
		if p.Name == "sum" && (p.Calculated.Empty() || p.Calculated.At(2).Lo != 1) {
			t.Errorf("of VM %v: %v", p.VM, p.Calculated)
		}
	}
}

// Notices about changes are in the order of the outcomes, and occur once each.
func TestNoticesInOrder(t *testing.T) {
	for range 20 {
		p := newPlay(t, system(t, "", spec("a", 2), spec("b", 2), spec("c", 2)))
		other := counts("a", 1, 0)
		other.VM = outcome.VM{PID: 9}
		p.step(counts("a", 1, 0), other, counts("b", 1, 0), counts("c", 1, 0))
		next := system(t, "", spec("a", 4), spec("b", 2), spec("c", 4))
		next.Outcomes[1].Spec.Span = "another"
		if err := p.engine.Configure(next); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"a: 4 bins of 1ms instead of 2 of 1ms: a new history begins",
			"b is observed in another way: a new history begins",
			"c: 4 bins of 1ms instead of 2 of 1ms: a new history begins",
		}
		if diff := cmp.Diff(want, p.step().NoticeTexts()); diff != "" {
			t.Fatal(diff)
		}
	}
}

// If the bins of an outcome are very narrow compared with the length of what is calculated from
// it, the result has wider bins.
func TestManyBins(t *testing.T) {
	s := system(t, "x = a -> b;", spec("a", 2), spec("b", 2), spec("x", 100))
	for i := range 2 {
		s.Outcomes[i].Spec.BinWidth = time.Microsecond
	}
	f := newPlay(t, s).step(counts("a", 1, 0), counts("b", 1, 0), at("x", 100, 1, 3))
	if x := outcomeOf(t, f, "x"); x.CalculatedMean.Width <= time.Microsecond || x.CalculatedMean.Windows != 1 {
		t.Errorf("the mean is of bins of %v and %d windows", x.CalculatedMean.Width, x.CalculatedMean.Windows)
	}
}

// Instances are assigned to their outcome and VM, the worst first.
func TestInstances(t *testing.T) {
	at := func(id uint64, s outcome.Status, elapsed int64) outcome.Instance {
		return outcome.Instance{Outcome: "a", VM: beam, ID: id, Status: s, End: elapsed}
	}
	other := at(9, outcome.Timeout, 9)
	other.VM = outcome.VM{PID: 1}
	f := newPlay(t, system(t, "", spec("a", 2))).batch(outcome.Batch{
		Counts: []outcome.Counts{counts("a", 1, 0)},
		Instances: []outcome.Instance{
			at(1, outcome.Success, 5), at(2, outcome.Timeout, 3), other,
			at(3, outcome.Failure, 9), at(4, outcome.Success, 7), at(5, outcome.Timeout, 4),
		},
	})
	var got []uint64
	for _, i := range outcomeOf(t, f, "a").Instances {
		got = append(got, i.ID)
	}
	if diff := cmp.Diff([]uint64{5, 2, 3, 4, 1}, got); diff != "" {
		t.Error(diff)
	}
}

// A clone does not change when the next frame is made.
func TestClone(t *testing.T) {
	s := system(t, "x = a -> b;", spec("a", 2), spec("b", 2), spec("x", 4))
	qta, err := dq.NewQTA(0.1, dq.Step{T: ms, P: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	s.Outcomes[2].QTA = &qta
	s.Outcomes[2].Triggers = triggers(t, "load", "0")
	p := newPlay(t, s)
	groups := make([]outcome.Group, 1)
	play := func(k uint64) *scope.Frame {
		x := counts("x", k, 0, 0, 1)
		groups[0] = outcome.Group{Key: "g", Successes: k, Delays: delays(uint32(k), ms)}
		x.Groups = groups
		return p.batch(outcome.Batch{
			Counts:    []outcome.Counts{counts("a", k, 1), counts("b", 1, k), x},
			Instances: []outcome.Instance{{Outcome: "x", VM: beam, ID: k}},
		})
	}
	frame := play(1)
	clone := frame.Clone()
	opts := cmp.Exporter(func(reflectType) bool { return true })
	if diff := cmp.Diff(frame, clone, opts); diff != "" {
		t.Fatalf("the clone is different: %s", diff)
	}
	again := clone.Clone()
	for k := range uint64(5) {
		play(k + 2)
	}
	if diff := cmp.Diff(again, clone, opts); diff != "" {
		t.Errorf("the clone has changed: %s", diff)
	}
}

// In the steady state a window needs no allocation.
func TestStepAllocatesNothing(t *testing.T) {
	s := system(t, "x = a -> b; y = f:y(a, b); z = p:z[0.4, 0.6](s:x, s:y);",
		spec("a", 100), spec("b", 100), spec("x", 200), spec("y", 100), spec("z", 200))
	qta, err := dq.Quartiles(ms, 2*ms, 3*ms, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Outcomes {
		s.Outcomes[i].QTA = &qta
		s.Outcomes[i].Triggers = triggers(t, "load", "1000000", "failure", "0.5", "hazard", "true", "loss", "true", "divergence", "0.9")
	}
	p := newPlay(t, s)
	bins := make([]uint64, 200)
	bins[3], bins[40] = 20, 5
	batch := outcome.Batch{Counts: []outcome.Counts{
		counts("a", bins[:100]...), counts("b", bins[:100]...), counts("x", bins...), counts("y", bins[:100]...), counts("z", bins...),
	}, Instances: []outcome.Instance{{Outcome: "a", VM: beam}, {Outcome: "x", VM: beam}}}
	for range 40 { // until everything has its memory
		p.batch(batch)
	}
	if n := testing.AllocsPerRun(100, func() { p.batch(batch) }); n > 0 {
		t.Errorf("%v allocations a window", n)
	}
}

// Equally bad instances are in the order of their ends, for explanations too.
func TestEquallyBadInstances(t *testing.T) {
	p := newPlay(t, system(t, "", spec("a", 1)))
	at := func(id uint64, end int64) outcome.Instance {
		return outcome.Instance{Outcome: "a", VM: beam, ID: id, Start: end - 5, End: end}
	}
	f := p.batch(outcome.Batch{Counts: []outcome.Counts{counts("a", 3)}, Instances: []outcome.Instance{at(1, 30), at(3, 20), at(2, 20)}})
	var ids []uint64
	for _, i := range outcomeOf(t, f, "a").Instances {
		ids = append(ids, i.ID)
	}
	if diff := cmp.Diff([]uint64{2, 3, 1}, ids); diff != "" {
		t.Error(diff)
	}
}

// If no branch of a choice is known completely, nothing is calculated, and the engine continues.
// Otherwise the frame would fail, because there is nothing to compare.
func TestCalculatedWithoutACompleteBranch(t *testing.T) {
	p := newPlay(t, system(t, "probe = p:pick[0.9, 0.1](hit, back -> late)",
		spec("hit", 4), spec("back", 4), spec("late", 4), spec("pick", 8), spec("probe", 8)))
	for _, name := range []string{"pick", "probe"} {
		f := p.step(counts("hit", 0, 0, 0, 0), counts("back", 10, 0, 0, 0), counts("late", 0, 0, 0, 0), counts(name, 10, 0, 0, 0, 0, 0, 0, 0))
		row := outcomeOf(t, f, name)
		if !row.Calculated.Empty() || row.CalculatedFrom != 0 || row.CalculatedInsufficient != "no instances" || row.Divergence != nil {
			t.Errorf("%s: %v, from %d, insufficient: %q, divergence %v", name, row.Calculated, row.CalculatedFrom, row.CalculatedInsufficient, row.Divergence)
		}
	}
	lost := counts("back", 10, 0, 0, 0)
	lost.Loss.NoRoom = 1
	row := outcomeOf(t, p.step(counts("hit", 0, 0, 0, 0), lost, counts("late", 0, 0, 0, 0)), "pick")
	if row.CalculatedFrom != 0 || row.CalculatedInsufficient != "loss" {
		t.Errorf("with loss: from %d, insufficient: %q", row.CalculatedFrom, row.CalculatedInsufficient)
	}
}

// If it is ambiguous in which VM a branch of a choice is, the engine continues. The calculated ΔQ
// allows all possibilities of the branch, and there is no verdict.
func TestCalculatedWithABranchOfSeveralVMs(t *testing.T) {
	p := newPlay(t, system(t, "probe = p:pick[0.75, 0.25](here, there)", spec("here", 4), spec("there", 4), spec("pick", 4)))
	second, third := counts("there", 10, 0, 0, 0), counts("there", 0, 0, 0, 10)
	second.VM, third.VM = outcome.VM{PID: 8}, outcome.VM{PID: 9}
	for here, from := range map[uint64]uint64{9: 16, 0: 0} {
		row := outcomeOf(t, p.step(counts("here", here, 0, 0, 0), second, third, counts("pick", 10, 0, 0, 0)), "pick")
		if row.CalculatedFrom != from || row.CalculatedInsufficient != "nothing to calculate from" || row.Divergence != nil {
			t.Errorf("%d: from %d, insufficient: %q, divergence %v", here, row.CalculatedFrom, row.CalculatedInsufficient, row.Divergence)
		}
		success, ok := row.Calculated.Success()
		if ok != (here > 0) || ok && (math.Abs(success.Lo-0.75) > 1e-12 || success.Hi < 1) {
			t.Errorf("%d: success %v %v, want 0.75 to 1", here, success, ok)
		}
	}
}

// If several reasons prevent a verdict, the frame shows the first one that is worse than too few
// instances, wherever it is.
func TestWorstReasonOfSeveral(t *testing.T) {
	of := map[string]func(name string) outcome.Counts{
		"":                  func(name string) outcome.Counts { return counts(name, 50) },
		"too few instances": func(name string) outcome.Counts { return counts(name, 2) },
		"loss":              func(name string) outcome.Counts { return losing(counts(name, 50), 1) },
		"not observed": func(name string) outcome.Counts {
			c := counts(name, 50)
			c.Unobserved = true
			return c
		},
	}
	for a, first := range of {
		for b, second := range of {
			s := system(t, "ab = a -> b", spec("a", 1), spec("b", 1), spec("ab", 2))
			s.Samples = 10
			want := a
			if a == "" || a == "too few instances" && b != "" {
				want = b
			}
			if got := outcomeOf(t, newPlay(t, s).step(first("a"), second("b")), "ab").CalculatedInsufficient; got != want {
				t.Errorf("%q and %q: %q, want %q", a, b, got, want)
			}
		}
	}
}

// Instances of a branch with a tiny probability count as more, but at most as the largest
// possible number.
func TestInstancesOfARareBranch(t *testing.T) {
	s := system(t, "x = p:pick[0.999999999999999, 1e-30](often, rare)", spec("often", 1), spec("rare", 1), spec("x", 1))
	if row := outcomeOf(t, newPlay(t, s).step(counts("often", 0), counts("rare", 3)), "x"); row.CalculatedFrom != dq.MaxInstances {
		t.Errorf("from %d, want %d", row.CalculatedFrom, uint64(dq.MaxInstances))
	}
}

// The least number of instances for a verdict suffices.
func TestJustEnoughInstances(t *testing.T) {
	for n, want := range map[uint64]string{9: "too few instances", 10: "", 11: ""} {
		s := system(t, "", spec("a", 1))
		s.Samples = 10
		if got := outcomeOf(t, newPlay(t, s).step(counts("a", n)), "a").Insufficient; got != want {
			t.Errorf("%d instances: %q, want %q", n, got, want)
		}
	}
}
