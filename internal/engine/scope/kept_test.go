package scope_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// memory collects the addresses of all slices and pointers in a value, at any depth, by the path
// to them. It leaves out traces, which never change, and the system's contents.
func memory(path string, v reflect.Value, all map[string]uintptr) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || strings.Contains(v.Type().String(), "trace.") {
			return
		}
		all[path] = v.Pointer()
		memory(path, v.Elem(), all)
	case reflect.Slice:
		if v.Cap() > 0 {
			all[path] = v.Pointer()
		}
		for i := range v.Len() {
			memory(fmt.Sprint(path, "[", i, "]"), v.Index(i), all)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			memory(path+"."+v.Type().Field(i).Name, v.Field(i), all)
		}
	}
}

// A clone shares no memory with the frame.
func TestCloneSharesNothing(t *testing.T) {
	s := system(t, "x = a -> b;", spec("a", 2), spec("b", 2), spec("x", 4))
	qta, err := dq.NewQTA(0.1, dq.Step{T: ms, P: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	s.Outcomes[2].QTA = &qta
	s.Outcomes[2].Triggers = triggers(t, "load", "0")
	p := newPlay(t, s)
	x := counts("x", 2, 0, 0, 1)
	x.Groups = []outcome.Group{{Key: "g", Successes: 2, Delays: delays(2, ms)}}
	frame := p.batch(outcome.Batch{
		Counts:    []outcome.Counts{counts("a", 2, 1), counts("b", 1, 2), x},
		Instances: []outcome.Instance{explainedBy("x", 1, spell{}), {Outcome: "x", VM: beam, ID: 1}},
	})
	frame.Notices = append(frame.Notices, outcome.Notice{Text: "a notice"})
	own, shared := map[string]uintptr{}, map[string]uintptr{}
	memory("frame", reflect.ValueOf(frame).Elem(), shared)
	memory("frame", reflect.ValueOf(frame.Clone()).Elem(), own)
	if len(own) < 25 || len(frame.Fired) == 0 || len(outcomeOf(t, frame, "x").Active) == 0 {
		t.Errorf("only %d places refer to memory", len(own))
	}
	for path, at := range own {
		if shared[path] == at {
			t.Errorf("%s is shared", path)
		}
	}
}

// Each VM beyond the limit is counted as left out.
func TestVMsLeftOut(t *testing.T) {
	p := newPlay(t, system(t, "", spec("a", 1)))
	var all []outcome.Counts
	for i := range scope.MaxVMs + 44 {
		c := counts("a", 1)
		c.VM = outcome.VM{PID: i + 1}
		all = append(all, c)
	}
	if f := p.step(all...); len(f.Outcomes) != scope.MaxVMs || len(f.Notices) != 1 || !strings.HasPrefix(f.Notices[0].Text, "44 outcomes of VMs") {
		t.Errorf("%d rows, notices %q", len(f.Outcomes), f.NoticeTexts())
	}
	if f := p.step(all[:scope.MaxVMs]...); len(f.Outcomes) != scope.MaxVMs || len(f.Notices) != 1 || !strings.Contains(f.Notices[0].Text, "shown again") {
		t.Errorf("%d rows, notices %q", len(f.Outcomes), f.NoticeTexts())
	}
	if f := p.step(all[:1]...); len(f.Notices) != 0 {
		t.Errorf("%q", f.NoticeTexts())
	}
}

// A branch counts by its share. Ten instances of a branch with a share of a half are as good as
// forty, and the required number for a verdict is compared with that.
func TestFewInstancesOfABranch(t *testing.T) {
	for samples, want := range map[uint64]string{40: "", 41: "too few instances"} {
		s := system(t, "probe = p:pick[0.5, 0.5](one, other)", spec("one", 4), spec("other", 4), spec("probe", 4), spec("pick", 4))
		s.Samples = samples
		row := outcomeOf(t, newPlay(t, s).step(counts("one", 10, 0, 0, 0), counts("other", 0, 100, 0, 0)), "pick")
		if row.CalculatedInsufficient != want || row.CalculatedFrom != 40 {
			t.Errorf("%d samples: %q, from %d", samples, row.CalculatedInsufficient, row.CalculatedFrom)
		}
	}
}

// Any number above 0 selects standard errors as bounds.
func TestBoundsOfMeans(t *testing.T) {
	width := func(b scope.MeanBounds) float64 {
		s := system(t, "", spec("a", 2))
		s.Bounds = b
		p := newPlay(t, s)
		p.step(counts("a", 30, 10))
		band := outcomeOf(t, p.step(counts("a", 10, 30)), "a").Mean.Band
		return band.Hi[1] - band.Lo[1]
	}
	// With shares of 3/4 and 1/4 the standard deviation is 1/4, and the standard error is that
	// divided by √2.
	if got, want := width(scope.MeanBounds{StandardErrors: 0.5}), 0.25/1.4142135623730951; got < want-1e-12 || got > want+1e-12 {
		t.Errorf("half a standard error to either side: %v, want %v", got, want)
	}
	if got := width(scope.MeanBounds{Confidence: 0.95}); got < 0.9 {
		t.Errorf("95 %% of two windows: %v", got)
	}
}

// A window that ends before it begins is rejected. The error shows both times.
func TestStepRefusesAWindow(t *testing.T) {
	e, err := scope.NewEngine(system(t, "", spec("a", 1)))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []outcome.Window{{From: 7, To: 7}, {From: 7, To: 6}} {
		_, err := e.Step(&outcome.Batch{Window: w})
		if want := fmt.Sprintf("from 7 to %d ns", w.To); !errors.Is(err, scope.ErrWindow) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A lateSource rejects each plan as too late, and records when it would have begun.
type lateSource struct {
	*script
	begins []int64
}

func (s *lateSource) Plan(_ context.Context, p outcome.Plan) error {
	s.begins = append(s.begins, p.From)
	return outcome.ErrLate
}

// If a source is too late for a plan, the time for preparation is doubled, up to some seconds.
// After that the change is refused.
func TestApplyToALateSource(t *testing.T) {
	first := system(t, "", spec("a", 4))
	first.Window = 5 * ms
	source := &lateSource{script: newScript()}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := newScope(t, source, first)
	refused, start := make(chan error, 1), monotonic.Now()
	go func() {
		refused <- s.Apply(ctx, system(t, "", spec("a", 8)))
		cancel()
	}()
	if err := s.Run(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !errors.Is(err, outcome.ErrLate) || len(source.begins) != 5 {
		t.Fatalf("%v after %v", err, source.begins)
	}
	for i, got := range source.begins {
		if want := 250 * ms << i; got-start < int64(want) {
			t.Errorf("plan %d begins %v after the change, want %v at least", i+1, time.Duration(got-start), want)
		}
	}
}

// Each window has the processor time that the run used in it.
func TestCostOfCollector(t *testing.T) {
	first := system(t, "", spec("a", 4))
	first.Window = 5 * ms
	var used time.Duration
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sum := 0
	s := newScope(t, newScript(), first, watcher{framed: func(b *outcome.Batch, _ *scope.Frame) error {
		if used += b.Cost.Collector; used > 0 {
			cancel() // run no longer; windows that are already over still get their frames
			return nil
		}
		for i := range 1 << 20 {
			sum += i % 7
		}
		return nil
	}})
	if err := s.Run(ctx, 0); err != nil || used <= 0 || used > time.Minute {
		t.Errorf("%v of processor time, %v, %d", used, err, sum)
	}
}

// A result that is calculated from few instances may deviate by chance, however many instances of
// the outcome are observed. A part without instances contributes nothing to that.
func TestChanceOfFewInstancesBehind(t *testing.T) {
	for _, tt := range []struct {
		n            uint64
		least, most  float64
		insufficient string
	}{{5000, 0, 1e-9, ""}, {4, 0.1, 1, "too few instances"}} {
		s := system(t, "x = a -> b;", spec("a", 4), spec("b", 4), spec("x", 8))
		s.Samples = 10
		p := newPlay(t, s)
		x := outcomeOf(t, p.step(counts("a", tt.n, tt.n, 0, 0), counts("b", tt.n, tt.n, 0, 0), counts("x", 2500, 0, 2500, 0, 5000, 0, 0, 0)), "x")
		if x.CalculatedInsufficient != tt.insufficient || x.Divergence == nil {
			t.Fatalf("%d instances: %q, %+v", tt.n, x.CalculatedInsufficient, x.Divergence)
		}
		if c := x.Divergence.Chance; c < tt.least || c > tt.most || x.Divergence.Distance.Lo < 0.1 {
			t.Errorf("%d instances: %+v, want a chance of %v to %v", tt.n, x.Divergence, tt.least, tt.most)
		}
	}
}

// The mean of calculated ΔQs has bins as wide as those of the algebra's results.
func TestCalculatedInWiderBins(t *testing.T) {
	const bins = 40000
	s := system(t, "x = a -> b;", spec("a", bins), spec("b", bins), spec("x", bins))
	s.History = 2
	last := func(name string) outcome.Counts { return at(name, bins, 1, 0, bins-1) }
	p := newPlay(t, s)
	for n := range 2 {
		x := outcomeOf(t, p.step(last("a"), last("b"), last("x")), "x")
		if x.Calculated.Width() != 2*ms || x.CalculatedMean.Width != 2*ms || x.CalculatedMean.Windows != n+1 {
			t.Errorf("calculated in bins of %v, the mean of %d windows in bins of %v", x.Calculated.Width(), x.CalculatedMean.Windows, x.CalculatedMean.Width)
		}
	}
	// A result in narrower bins joins the same mean again.
	first := func(name string) outcome.Counts { return at(name, bins, 2, 0) }
	if x := outcomeOf(t, p.step(first("a"), first("b"), first("x")), "x"); x.CalculatedMean.Width != 2*ms || x.CalculatedMean.Windows != 2 {
		t.Errorf("the mean of %d windows in bins of %v", x.CalculatedMean.Windows, x.CalculatedMean.Width)
	}
}

// The slowest instance with a trace behind an outcome counts, in any order.
func TestExplanationByTheSlowestTrace(t *testing.T) {
	untraced := outcome.Instance{Outcome: "b", VM: beam, ID: 3, End: int64(time.Second)}
	a := []outcome.Instance{queued("a", 60*ms), explainedBy("a", 8, spell{})}
	b := []outcome.Instance{explainedBy("b", 1, spell{time: 99 * ms}), explainedBy("b", 2, spell{time: 5 * ms}), untraced}
	for _, definition := range []string{"both = b -> a;", "both = a -> b;"} {
		s := system(t, definition, spec("a", 1), spec("b", 1), spec("both", 1))
		s.Outcomes[2].Triggers = triggers(t, "load", "5")
		f := newPlay(t, s).batch(outcome.Batch{Time: noon, Counts: []outcome.Counts{counts("a", 2), counts("b", 3), counts("both", 9)},
			Instances: append(a[:2:2], b...)})
		if len(f.Fired) != 1 || !strings.HasPrefix(f.Fired[0].Explanation, "a: ") {
			t.Errorf("%s explained by %+v", definition, f.Fired)
		}
	}
}

// Each change that begins histories anew has one notice.
func TestNoticesOfAnotherSystem(t *testing.T) {
	p := newPlay(t, system(t, "x = a -> b;", spec("a", 2), spec("b", 2), spec("x", 4), spec("c", 2)))
	batch := []outcome.Counts{counts("a", 1, 0), counts("b", 1, 0), counts("x", 1, 0, 0, 0), counts("c", 1, 0)}
	p.step(batch...)
	other := system(t, "x = f:x(a, b);", spec("a", 2), spec("b", 2), spec("x", 4), spec("c", 3))
	other.Window, other.History = 2*time.Second, 7
	other.Outcomes[0].Spec.Span = "another"
	other.Outcomes[1].Spec.Explain = true // changes nothing
	if err := p.engine.Configure(other); err != nil {
		t.Fatal(err)
	}
	batch[3] = counts("c", 1, 0, 0)
	want := []string{
		"windows of 2s instead of 1s: every history begins anew",
		"a history of 7 windows instead of 30: every history begins anew",
		"another diagram: every calculated history begins anew",
		"a is observed in another way: a new history begins",
		"c: 3 bins of 1ms instead of 2 of 1ms: a new history begins",
	}
	if f := p.step(batch...); strings.Join(f.NoticeTexts(), "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, want %q", f.NoticeTexts(), want)
	}
	if f := p.step(batch...); len(f.Notices) != 0 {
		t.Errorf("repeated: %q", f.NoticeTexts())
	}
	// A diagram is added, and removed again.
	for _, source := range []string{"", "x = a -> b;"} {
		next := system(t, source, spec("a", 2), spec("b", 2), spec("x", 4), spec("c", 3))
		next.Window, next.History = other.Window, other.History
		next.Outcomes[0].Spec.Span = "another"
		if err := p.engine.Configure(next); err != nil {
			t.Fatal(err)
		}
		if f := p.step(batch...); len(f.Notices) != 1 || f.Notices[0].Text != want[2] {
			t.Errorf("diagram %q: %q", source, f.NoticeTexts())
		}
	}
}

// Silence continues if the same events are counted differently, and begins anew with other
// events.
func TestSilenceOfTheSameEvents(t *testing.T) {
	s := system(t, "", spec("a", 2))
	p := newPlay(t, s)
	p.step(counts("a", 1, 0))
	for range 3 {
		p.step(counts("a", 0, 0))
	}
	wider := system(t, "", spec("a", 4))
	if err := p.engine.Configure(wider); err != nil {
		t.Fatal(err)
	}
	if a := outcomeOf(t, p.step(counts("a", 0, 0, 0, 0)), "a"); a.Silent != 4*time.Second || !a.Seen {
		t.Errorf("in other bins: silent for %v, seen %v", a.Silent, a.Seen)
	}
	another := system(t, "", spec("a", 4))
	another.Outcomes[0].Spec.Span = "another"
	if err := p.engine.Configure(another); err != nil {
		t.Fatal(err)
	}
	if a := outcomeOf(t, p.step(counts("a", 0, 0, 0, 0)), "a"); a.Silent != time.Second || a.Seen {
		t.Errorf("of other events: silent for %v, seen %v", a.Silent, a.Seen)
	}
}

// A VM without a row keeps its history for the number of windows of a history or for the
// hold-off, whichever is longer.
func TestForget(t *testing.T) {
	for _, tt := range []struct {
		history int
		holdOff time.Duration
		absent  int
		windows int // windows of the mean when the VM comes back
	}{
		{5, time.Second, 3, 2}, {5, time.Second, 4, 1}, // windows in the history, without expired ones
		{2, 10 * time.Second, 1, 1},
	} {
		s := system(t, "", spec("a", 2))
		s.History, s.HoldOff = tt.history, tt.holdOff
		p := newPlay(t, s)
		p.step(counts("a", 1, 0))
		for range tt.absent {
			other := counts("a", 1, 0)
			other.VM = outcome.VM{PID: 99}
			p.step(other)
		}
		f := p.step(counts("a", 1, 0))
		if a := outcomeOf(t, f, "a"); a.Mean.Windows != tt.windows {
			t.Errorf("%+v: a mean of %d windows", tt, a.Mean.Windows)
		}
	}
	// An incident survives absence for the hold-off.
	for absent, again := range map[int]int{5: 0, 12: 1} {
		s := system(t, "", spec("a", 2))
		s.History, s.HoldOff = 2, 10*time.Second
		s.Outcomes[0].Triggers = triggers(t, "load", "0")
		p := newPlay(t, s)
		if f := p.step(counts("a", 1, 0)); len(f.Fired) != 1 {
			t.Fatalf("%+v", f.Fired)
		}
		for range absent {
			other := counts("a", 0, 0)
			other.VM = outcome.VM{PID: 99}
			p.step(other)
		}
		if f := p.step(counts("a", 1, 0)); len(f.Fired) != again {
			t.Errorf("after %d windows without it: %+v", absent, f.Fired)
		}
	}
}

// If the outcome with the widest bins has no delays, the mean of the calculated ΔQs uses these
// bins nevertheless, because the outcome may have delays in the next window.
func TestMeanInTheWidestBinsBehind(t *testing.T) {
	for _, definition := range []string{"x = a -> b;", "x = b -> a;"} {
		t.Run(definition, func(t *testing.T) { meanInTheWidestBins(t, definition) })
	}
}

func meanInTheWidestBins(t *testing.T, definition string) {
	s := system(t, definition, spec("a", 8), spec("b", 4), spec("x", 16))
	s.Outcomes[1].Spec.BinWidth = 2 * ms
	failed := outcome.Counts{Outcome: "b", VM: beam, Bins: make([]uint64, 4), Starts: 3, Ends: 3, Failures: 3}
	p := newPlay(t, s)
	for n, b := range []outcome.Counts{failed, counts("b", 1, 0, 1, 0), failed} {
		x := outcomeOf(t, p.step(counts("a", 1, 0, 1, 0, 0, 0, 0, 0), b, at("x", 16, 1, 3)), "x")
		if x.CalculatedMean.Width != 2*ms || x.CalculatedMean.Windows != n+1 {
			t.Errorf("window %d: a mean of %d windows in bins of %v", n, x.CalculatedMean.Windows, x.CalculatedMean.Width)
		}
	}
}

// A quantile of a mean is the first edge that reaches it, possibly the very first one.
func TestQuantileOfMean(t *testing.T) {
	m := scope.Mean{Windows: 2, Width: ms, Band: dq.Band{Mean: []float64{0.5, 0.75, 0.9}, Lo: []float64{0, 0.5, 0.8}, Hi: []float64{0.75, 1, 1}}}
	for p, want := range map[float64][3]time.Duration{
		0.5: {0, 0, ms}, 0.75: {ms, 0, 2 * ms}, 0.9: {2 * ms, ms, dq.Unreached}, 1: {dq.Unreached, ms, dq.Unreached},
	} {
		if at, within := m.Quantile(p); at != want[0] || within != (dq.Interval{Lo: want[1], Hi: want[2]}) {
			t.Errorf("%v: %v, %v, want %v", p, at, within, want)
		}
	}
	m.Windows = 1
	if at, within := m.Quantile(0.5); at != 0 || within != (dq.Interval{}) {
		t.Errorf("of one window: %v, %v", at, within)
	}
}

// With the default number of samples, a distribution is known to within 0.2 at the default
// confidence.
func TestDefaultSamplesSuffice(t *testing.T) {
	if e, err := dq.Epsilon(scope.DefaultSamples, 1-scope.DefaultConfidence); err != nil || e > 0.2 || e < 0.19 {
		t.Errorf("known to within %v, %v", e, err)
	}
}

// A quantile that may never be reached, because a branch is unknown, is infinite.
func TestQuantileBehindAnUnknownBranch(t *testing.T) {
	s := system(t, "x = p:pick[0.9, 0.1](often, rare)", spec("often", 4), spec("rare", 4), spec("x", 4))
	s.Outcomes[2].Triggers = triggers(t, "condition", "calculated_p99 > 1e12*s && calculated_p50 == 1*ms")
	if f := newPlay(t, s).step(counts("often", 10, 0, 0, 0), counts("rare", 0, 0, 0, 0)); len(f.Fired) != 1 {
		t.Errorf("fired: %v", fired(f))
	}
}

// If an outcome is only calculated, its explanation is that of an outcome from which it is calculated, in
// the same VM. If two took
// equally long, it describes the first one in the diagram.
func TestExplanationByOutcomesBehind(t *testing.T) {
	other := counts("b", 3)
	other.VM = outcome.VM{PID: 8}
	zero := explainedBy("a", 1, spell{trace.Running, 1, "", 0, trace.Exact, ""})
	here := counts("b", 3)
	for _, tt := range []struct {
		b         outcome.Counts
		instances []outcome.Instance
		want      string
	}{
		{other, []outcome.Instance{queued("z", 60*ms)}, ""},
		{other, []outcome.Instance{queued("z", 60*ms), zero}, ""},
		{here, []outcome.Instance{queued("z", 60*ms), zero, queued("b", 60*ms)}, "b: "},
		{here, []outcome.Instance{queued("z", 60*ms), queued("b", 60*ms), queued("a", 60*ms)}, "a: "},
		{here, []outcome.Instance{queued("b", 60*ms), queued("a", 70*ms)}, "a: "},
	} {
		s := system(t, "x = a -> b;", spec("z", 1), spec("a", 1), spec("b", 1), spec("x", 1))
		s.Outcomes[3].Triggers = triggers(t, "load", "5")
		f := newPlay(t, s).batch(outcome.Batch{Time: noon, Counts: []outcome.Counts{counts("z", 3), counts("a", 3), tt.b, counts("x", 9)}, Instances: tt.instances})
		if len(f.Fired) != 1 {
			t.Fatalf("fired: %+v", f.Fired)
		}
		if got := f.Fired[0].Explanation; !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("explained by %q, want %q", got, tt.want)
		}
	}
}

// Another history length and other bins begin a new history. So does an outcome that was left out in
// between.
func TestConfigureBeginsAnew(t *testing.T) {
	for what, tt := range map[string]struct {
		change func(s *scope.System)
		notice string
	}{
		"history": {func(s *scope.System) { s.History++ }, "a history of 31 windows instead of 30: every history begins anew"},
		"width":   {func(s *scope.System) { s.Outcomes[0].Spec.BinWidth = 2 * ms }, "a: 4 bins of 2ms instead of 4 of 1ms: a new history begins"},
		"bins":    {func(s *scope.System) { s.Outcomes[0].Spec.Bins = 5 }, "a: 5 bins of 1ms instead of 4 of 1ms: a new history begins"},
		"left":    {func(s *scope.System) { s.Outcomes = s.Outcomes[1:] }, ""},
	} {
		next := system(t, "", spec("a", 4), spec("b", 4))
		tt.change(next)
		p := newPlay(t, system(t, "", spec("a", 4), spec("b", 4)))
		p.step(counts("a", 1, 0, 0, 0))
		if err := p.engine.Configure(next); err != nil {
			t.Fatal(err)
		}
		if what == "left" {
			if err := p.engine.Configure(system(t, "", spec("a", 4), spec("b", 4))); err != nil {
				t.Fatal(err)
			}
		}
		c := counts("a", 1, 0, 0, 0)
		if what == "bins" {
			c.Bins = append(c.Bins, 0)
		}
		f := p.step(c)
		if n := outcomeOf(t, f, "a").Mean.Windows; n != 1 {
			t.Errorf("%s: the mean is of %d windows, want 1", what, n)
		}
		if got := strings.Join(f.NoticeTexts(), "\n"); got != tt.notice {
			t.Errorf("%s: %q, want %q", what, got, tt.notice)
		}
	}
}

// A replay from the first window has no earlier windows. A replay from a later window has.
func TestStartAt(t *testing.T) {
	for number, attaching := range map[uint64]bool{0: true, 1: false, 7: false} {
		p := newPlay(t, system(t, "", spec("a", 1)))
		p.engine.StartAt(number)
		c := counts("a", 0)
		c.Unobserved = true
		if f := p.step(c); f.Number != number || f.Attaching != attaching {
			t.Errorf("frame %d, want %d, attaching: %v", f.Number, number, f.Attaching)
		}
	}
}
