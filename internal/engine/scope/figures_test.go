package scope

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// figured returns an outcome whose figures all differ: 1000 instances in bins of a millisecond, a
// hundredth of them up to 1 ms, a quarter up to 2 ms, a half up to 3 ms and so on.
func figured(t *testing.T) *Outcome {
	t.Helper()
	grid, err := dq.NewGrid(time.Millisecond, 8)
	if err != nil {
		t.Fatal(err)
	}
	p := &Outcome{Name: "x", Silent: 1500 * time.Millisecond, Window: outcome.Window{From: 0, To: int64(4 * time.Second)}}
	bins := []uint64{10, 240, 250, 0, 250, 0, 0, 240}
	p.Counts = outcome.Counts{Successes: 990, Failures: 3, Timeouts: 7, Bins: bins, Orphans: 11, Lates: 13,
		Loss: outcome.Loss{NoRoom: 2, Unpaired: 3}}
	if p.Observed, err = dq.FromCounts(grid, bins, 3, 7); err != nil {
		t.Fatal(err)
	}
	steps := []dq.Step{{T: 5 * time.Millisecond, P: 0.01}, {T: 10 * time.Millisecond, P: 0.5}, {T: 20 * time.Millisecond, P: 0.99}, {T: 30 * time.Millisecond, P: 0.995}}
	if p.Calculated, err = dq.Steps(grid, steps); err != nil {
		t.Fatal(err)
	}
	p.Divergence = &dq.Divergence{Distance: dq.Bounds{Lo: 0.2, Hi: 0.3}, Nominal: 0.25, Lasting: 0.1}
	p.Judgement = &dq.Judgement{Met: dq.Yes, Slack: &dq.Margin{Probability: 0.1 + 1e-14}}
	return p
}

func check(t *testing.T, p *Outcome, condition string) State {
	t.Helper()
	trigger, err := ParseTrigger("condition", condition)
	if err != nil {
		t.Fatal(err)
	}
	return trigger.Check(p)
}

// Each name in a condition has the value that the documentation describes.
func TestFiguresOfConditions(t *testing.T) {
	p := figured(t)
	for _, holds := range []string{
		"n == 1000", "ok == 990", "failed == 3", "timeout == 7", "rate == 250", "silent == 1.5", "failure == 0.01",
		"lost == 5", "orphan == 11", "late == 13", "p25 == 2*ms", "p50 == 3*ms", "p75 == 5*ms", "p99 == 8*ms",
		"calculated_p50 == 10*ms", "calculated_p99 == 20*ms", "calculated_failure == 0.005", "divergence == 0.2", "slack == 0.1",
		"n == 1000*s", "ms == 0.001", "us == 0.000001", "1000*us == ms", "2 ** 3 == 8", "7 % 4 == 3",
	} {
		if got := check(t, p, holds+" && n > 0"); got != Alarm {
			t.Errorf("%s: %v", holds, got)
		}
		if got := check(t, p, "not ("+holds+") && n > 0"); got != Quiet {
			t.Errorf("not %s: %v", holds, got)
		}
	}
	p.Judgement = &dq.Judgement{Met: dq.No, Hazard: &dq.Margin{Probability: 0.25}}
	if got := check(t, p, "slack == -0.25"); got != Alarm {
		t.Errorf("a hazard of 0.25 is no slack of -0.25: %v", got)
	}
	p.Counts.Unobserved = true
	if got := check(t, p, "n >= 0"); got != Insufficient {
		t.Errorf("not observed: %v", got)
	}
}

// Unknown values are NaN. The delay of instances that never succeed is infinite.
func TestUnknownFigures(t *testing.T) {
	grid, err := dq.NewGrid(time.Millisecond, 1)
	if err != nil {
		t.Fatal(err)
	}
	nothing, err := dq.NewObserved(grid)
	if err != nil {
		t.Fatal(err)
	}
	p := &Outcome{Observed: nothing, Window: outcome.Window{To: 1}}
	for _, name := range []string{"failure", "p25", "p50", "p75", "p99", "calculated_p50", "calculated_p99", "calculated_failure", "divergence", "slack"} {
		if got := check(t, p, fmt.Sprintf("%s < 1 || %s >= 1", name, name)); got != Quiet {
			t.Errorf("%s is known without anything: %v", name, got)
		}
	}
	if got := check(t, p, "n == 0 && rate == 0 && lost == 0"); got != Alarm {
		t.Errorf("counts of nothing: %v", got)
	}
	p.Counts.Failures = 1
	if got := check(t, p, "failure == 1"); got != Alarm {
		t.Errorf("one failure of one: %v", got)
	}
	if p.Observed, err = dq.FromCounts(grid, []uint64{0}, 1, 0); err != nil {
		t.Fatal(err)
	}
	p.Calculated = dq.Never()
	if got := check(t, p, "p50 > 1e300 && calculated_p50 > 1e300 && calculated_failure == 1"); got != Alarm {
		t.Errorf("nothing succeeds: %v", got)
	}
	cause := condition{source: "n > 0"}.Cause(p)
	if want := "n > 0: n 1, failure 1, p50 ∞, p99 ∞"; cause != want {
		t.Errorf("%q, want %q", cause, want)
	}
	if got := (condition{source: "n > 0"}).Cause(&Outcome{Observed: nothing}); got != "n > 0: n 0, failure 0, p50 unknown, p99 unknown" {
		t.Errorf("%q", got)
	}
	if got := (condition{source: "n > 0"}).Cause(figured(t)); got != "n > 0: n 1000, failure 0.01, p50 3ms, p99 8ms" {
		t.Errorf("%q", got)
	}
}

// A trigger is rejected if it could never fire, or if what it concerns does not exist.
func TestPossible(t *testing.T) {
	required, err := dq.NewQTA(0.2, dq.Step{T: time.Millisecond, P: 0.9})
	if err != nil {
		t.Fatal(err)
	}
	with, without := &OutcomeSystem{QTA: &required}, &OutcomeSystem{}
	with.Spec.Name, without.Spec.Name = "x", "x"
	for _, tt := range []struct {
		kind, setting string
		probe         *OutcomeSystem
		calculated    bool
		want          string // of the error; "" for no error
	}{
		{"condition", "1*s > 2", with, true, "uses no figure"},
		{"condition", "1*ms > 2", with, true, "uses no figure"},
		{"condition", "1*us > 2", with, true, "uses no figure"},
		{"condition", "s > ms && ms > us", with, true, "uses no figure"},
		{"condition", "1 > 2", with, true, "uses no figure"},
		{"condition", "n > 1*s", without, false, ""},
		{"condition", "p50 > ms", without, false, ""},
		{"condition", "slack > 0", without, true, "nothing is required of x"},
		{"condition", "slack > 0", with, false, ""},
		{"condition", "divergence > 0", with, false, "x is not calculated"},
		{"condition", "divergence > 0", without, true, ""},
		{"condition", "calculated_p50 > 0", with, false, "x is not calculated"},
		{"condition", "calculated_p50 > 0", without, true, ""},
		{"divergence", "true", with, false, "x is not calculated"},
		{"divergence", "true", without, true, ""},
		{"qta", "true", without, true, "nothing is required of x"},
		{"qta", "true", with, false, ""},
		{"hazard", "true", without, true, "nothing is required of x"},
		{"hazard", "true", with, false, ""},
		{"hazard", "0.1", with, false, ""},
		{"hazard", "0.1001", with, false, "slack is 0.1 where"},
		{"load", "1", without, false, ""},
		{"failure", "0.5", without, false, ""},
		{"loss", "1", without, false, ""},
		{"silence", "true", without, false, ""},
		{"rate", "< 1", without, false, ""},
	} {
		trigger, err := ParseTrigger(tt.kind, tt.setting)
		if err != nil {
			t.Fatal(err)
		}
		err = trigger.Possible(tt.probe, tt.calculated)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %s, calculated %v: %v, want %q", tt.kind, tt.setting, tt.calculated, err, tt.want)
		}
	}
}

// Settings at the limits of their ranges.
func TestSettingsAtTheirLimits(t *testing.T) {
	for _, tt := range []struct {
		kind, setting string
		ok            bool
	}{
		{"load", "9007199254740991", true}, {"load", "9007199254740992", false}, {"load", "0", true},
		{"loss", "9007199254740991", true}, {"loss", "9007199254740992", false}, {"loss", "1", true}, {"loss", "0", false},
		{"failure", "0", true}, {"failure", "0.9999999999999999", true}, {"failure", "1", false}, {"failure", "-0.1", false},
		{"hazard", "0.9999999999999999", true}, {"hazard", "1", false}, {"hazard", "1e-300", true},
		{"divergence", "0.9999999999999999", true}, {"divergence", "1", false}, {"divergence", "1e-300", true},
		{"rate", "< 1e12", true}, {"rate", "< 1.0001e12", false}, {"rate", "< 1e-300", true}, {"rate", "< 1e400", false},
		{"condition", "n > 0" + strings.Repeat(" ", 4091), true}, {"condition", "n > 0" + strings.Repeat(" ", 4092), false},
	} {
		if _, err := ParseTrigger(tt.kind, tt.setting); (err == nil) != tt.ok {
			t.Errorf("%s: %.30s: %v", tt.kind, tt.setting, err)
		}
	}
	for setting, want := range map[string]string{
		"5%": ": did you mean 0.05?", " 5 % ": ": did you mean 0.05?", "100%": ": did you mean 1?", "0%": ": did you mean 0?",
		"100.1%": "", "200%": "", "-1%": "", "5": "", "x%": "", "%": "", "NaN%": "",
	} {
		if got := Meant(setting); got != want {
			t.Errorf("%q: %q, want %q", setting, got, want)
		}
	}
	for setting, hint := range map[string]string{"50": "did you mean < 50?", "1e12": "did you mean < 1e+12?", "2e12": "", "0": "", "-1": "", "x": ""} {
		_, err := ParseTrigger("rate", setting)
		if err == nil || strings.Contains(err.Error(), "did you mean") != (hint != "") || !strings.Contains(err.Error(), hint) {
			t.Errorf("rate: %q: %v, want %q", setting, err, hint)
		}
	}
}

// A hazard is an alarm if either ΔQ gives one. It is quiet if one is quiet and none gives an
// alarm.
func TestHazardOfEither(t *testing.T) {
	judged := map[State]*dq.Judgement{
		Alarm:        {Met: dq.No, Hazard: &dq.Margin{Probability: 0.1}},
		Quiet:        {Met: dq.Yes, Slack: &dq.Margin{Probability: 0.2}},
		Insufficient: nil,
	}
	for observed, j := range judged {
		for calculated, k := range judged {
			want := Insufficient
			switch {
			case observed == Alarm || calculated == Alarm:
				want = Alarm
			case observed == Quiet || calculated == Quiet:
				want = Quiet
			}
			if got := (hazard{0.1}).Check(&Outcome{Judgement: j, CalculatedJudgement: k}); got != want {
				t.Errorf("observed %v, calculated %v: %v, want %v", observed, calculated, got, want)
			}
			// A ΔQ without a verdict has no effect.
			if got, same := (hazard{0.1}).Check(&Outcome{Judgement: j, CalculatedJudgement: k, Insufficient: fewInstances}),
				(hazard{0.1}).Check(&Outcome{CalculatedJudgement: k}); got != same {
				t.Errorf("observed insufficient, calculated %v: %v, want %v", calculated, got, same)
			}
		}
	}
	for slack, want := range map[float64]State{0.1: Quiet, 0.1 - 0.9e-12: Quiet, 0.1 - 1.1e-12: Alarm, 0.2: Quiet, 0: Alarm} {
		if got := (hazard{0.1}).Check(&Outcome{Judgement: &dq.Judgement{Met: dq.Yes, Slack: &dq.Margin{Probability: slack}}}); got != want {
			t.Errorf("a slack of %v: %v, want %v", slack, got, want)
		}
	}
	point := func(final bool) []dq.Point {
		return []dq.Point{{Required: dq.Step{T: time.Millisecond, P: 0.9}, Final: final, Probability: dq.Bounds{Lo: -0.4, Hi: -0.25}}}
	}
	violated := func(final bool) *dq.Judgement {
		return &dq.Judgement{Met: dq.No, Points: point(final), Hazard: &dq.Margin{Probability: 0.4}}
	}
	for want, p := range map[string]*Outcome{
		"the observed ΔQ violates the QTA: 65 % succeed within 1ms, 90 % have to":   {Judgement: violated(false)},
		"the calculated ΔQ violates the QTA: 65 % succeed, 90 % have to":            {Judgement: judged[Quiet], CalculatedJudgement: violated(true)},
		"the observed ΔQ has a slack of 0.05 in probability, less than 0.1":         {Judgement: &dq.Judgement{Met: dq.Yes, Slack: &dq.Margin{Probability: 0.05}}},
		"the calculated ΔQ violates the QTA: 65 % succeed within 1ms, 90 % have to": {Judgement: violated(true), Insufficient: withLoss, CalculatedJudgement: violated(false)},
	} {
		if got := (hazard{0.1}).Cause(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Triggers at their limits give the expected states.
func TestTriggersAtTheirLimits(t *testing.T) {
	window := outcome.Window{From: 0, To: int64(2 * time.Second)}
	of := func(ok, failed, lost uint64) *Outcome {
		return &Outcome{Window: window, Counts: outcome.Counts{Successes: ok, Failures: failed, Loss: outcome.Loss{NoRoom: lost}}}
	}
	unobserved := of(0, 0, 0)
	unobserved.Counts.Unobserved = true
	silent := func(ok, lost uint64, d time.Duration) *Outcome { p := of(ok, 0, lost); p.Silent = d; return p }
	for _, tt := range []struct {
		kind, setting string
		p             *Outcome
		want          State
	}{
		{"load", "10", of(10, 0, 5), Quiet}, {"load", "10", of(10, 1, 0), Alarm},
		{"failure", "0.25", of(3, 1, 0), Quiet}, {"failure", "0.25", of(2, 1, 0), Alarm}, {"failure", "0.9", of(0, 1, 0), Alarm},
		{"failure", "0", of(1, 0, 0), Quiet},
		{"loss", "2", of(0, 0, 2), Quiet}, {"loss", "2", of(0, 0, 3), Alarm}, {"loss", "true", of(0, 0, 0), Quiet}, {"loss", "true", of(0, 0, 1), Alarm},
		{"loss", "2", unobserved, Alarm},
		{"rate", "< 5", of(10, 0, 0), Quiet}, {"rate", "< 5", of(9, 0, 0), Alarm}, {"rate", "< 5", of(9, 0, 1), Insufficient},
		{"rate", "< 5", of(8, 0, 1), Alarm}, {"rate", "< 5", of(10, 0, 1), Quiet}, {"rate", "< 5", unobserved, Insufficient},
		{"silence", "3s", silent(0, 0, 3*time.Second), Alarm}, {"silence", "3s", silent(0, 0, 3*time.Second-1), Quiet},
		{"silence", "3s", silent(0, 1, 3*time.Second), Insufficient}, {"silence", "true", silent(0, 0, silentWindows*2*time.Second), Alarm},
		{"silence", "true", silent(0, 0, silentWindows*2*time.Second-1), Quiet},
		{"divergence", "0.1", &Outcome{Divergence: &dq.Divergence{Lasting: 0.1}}, Alarm},
		{"divergence", "0.1", &Outcome{Divergence: &dq.Divergence{Lasting: math.Nextafter(0.1, 0), Distance: dq.Bounds{Lo: 1, Hi: 1}}}, Quiet},
		{"divergence", "0.1", &Outcome{Divergence: &dq.Divergence{Lasting: 1}, Insufficient: fewInstances, CalculatedInsufficient: fewInstances}, Alarm},
		{"divergence", "0.1", &Outcome{Divergence: &dq.Divergence{Lasting: 1}, Insufficient: withLoss}, Insufficient},
		{"divergence", "0.1", &Outcome{Divergence: &dq.Divergence{Lasting: 1}, CalculatedInsufficient: noInstances}, Insufficient},
		{"divergence", "0.1", &Outcome{}, Insufficient},
		{"qta", "true", &Outcome{}, Insufficient},
		{"qta", "true", &Outcome{Judgement: &dq.Judgement{Met: dq.No}}, Alarm},
		{"qta", "true", &Outcome{Judgement: &dq.Judgement{Met: dq.CannotTell}}, Quiet},
		{"qta", "true", &Outcome{Judgement: &dq.Judgement{Met: dq.No}, Insufficient: withLoss}, Insufficient},
	} {
		trigger, err := ParseTrigger(tt.kind, tt.setting)
		if err != nil {
			t.Fatal(err)
		}
		if got := trigger.Check(tt.p); got != tt.want {
			t.Errorf("%s %s of %+v: %v, want %v", tt.kind, tt.setting, tt.p.Counts, got, tt.want)
		}
	}
	for want, got := range map[string]string{
		"11 instances in a window, more than 10":                 load{10}.Cause(of(11, 0, 0)),
		"25 % failed or timed out, more than 5 %":                failure{0.05}.Cause(&Outcome{Counts: outcome.Counts{Successes: 6, Failures: 1, Timeouts: 1}}),
		"3 lost, more than 2":                                    loss{2}.Cause(of(0, 0, 3)),
		"the window was not observed as a whole; 0 lost besides": loss{2}.Cause(unobserved),
		"4.5 instances a second, less than 5":                    fall{5}.Cause(of(9, 0, 0)),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The memory of a series stays within its estimated size: ten words for each edge, what its history holds, and five
// words for each window in the widest bins behind it if the diagram calculates the series.
func TestSizeOfASeries(t *testing.T) {
	file, err := diagram.Parse("x = a -> b;")
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string, width time.Duration, bins int) OutcomeSystem {
		return OutcomeSystem{Spec: outcome.Spec{Name: name, Span: name, BinWidth: width, Bins: bins}}
	}
	s := &System{Window: time.Second, History: 30, Diagram: file,
		Outcomes: []OutcomeSystem{of("a", time.Millisecond, 10), of("b", 2*time.Millisecond, 10), of("x", time.Millisecond, 100)}}
	e, err := NewEngine(s)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := e.size(&s.Outcomes[0], nil), int64(11*10*8); got != want {
		t.Errorf("a takes %d bytes, want %d", got, want)
	}
	// In bins of 2 ms, x has 50 bins and one more edge. It may have one bin more.
	own := int64(101 * 10 * 8)
	if got := e.size(&s.Outcomes[2], nil) - own; got < 51*(5*30+10)*8 || got > 52*(5*30+10)*8 {
		t.Errorf("x takes %d bytes for what is calculated", got)
	}
	// With 99 ms it also has 50 bins, because the last one is cut off.
	s.Outcomes[2].Spec.Bins = 99
	own = 100 * 10 * 8
	if got := e.size(&s.Outcomes[2], nil) - own; got < 51*(5*30+10)*8 || got > 52*(5*30+10)*8 {
		t.Errorf("x of 99 ms takes %d bytes for what is calculated", got)
	}
	s.Outcomes[2].Spec.Bins, s.Outcomes[2].Spec.BinWidth = 2, 1<<50
	if got := e.size(&s.Outcomes[2], nil) - 3*10*8; got != (dq.MaxBins+1)*160*8 {
		t.Errorf("x takes %d bytes for what is calculated in as many bins as there are", got)
	}
}

// Rows that fit exactly get room. One more does not.
func TestRoomForSome(t *testing.T) {
	of := func(bins int) *OutcomeSystem {
		return &OutcomeSystem{Spec: outcome.Spec{Name: "a", Span: "a", BinWidth: time.Millisecond, Bins: bins}}
	}
	const words = MaxHistories / 8 / 10 // of a bin's edges
	for _, test := range []struct {
		bins  []int
		fit   int
		title string
	}{
		{[]int{words/2 - 1, words - words/2 - 1}, 2, "two halves"},
		{[]int{words/2 - 1, words - words/2}, 1, "one bin too many"},
		{[]int{words}, 0, "larger than all"},
		{[]int{words, 1}, 1, "a small one after one that is larger than all"},
	} {
		e, err := NewEngine(&System{Window: time.Second, History: 30, Outcomes: []OutcomeSystem{*of(10)}})
		if err != nil {
			t.Fatal(err)
		}
		var claims []claim
		for i, bins := range test.bins {
			claims = append(claims, claim{p: of(bins), vm: outcome.VM{PID: i + 1}})
		}
		omitted := e.admit(claims)
		if fit := len(claims) - omitted; fit != test.fit {
			t.Errorf("%s: %d fit, want %d", test.title, fit, test.fit)
		}
	}
}

// Processes with the same name become one cause, in any order.
func TestRenameMergesCauses(t *testing.T) {
	n := names{1: "x", 2: "x", 3: "y"}
	cause := func(p uint64, name string) Cause { return Cause{Process: trace.PID(p), Name: name} }
	times := []causeTime{
		{cause: cause(1, ""), time: 1, longest: 1, reason: "r"}, {cause: cause(4, ""), time: 2}, {cause: cause(0, "x"), time: 4, longest: 4, reason: "s"},
		{cause: cause(3, ""), time: 8}, {cause: cause(2, ""), time: 16, longest: 16, reason: "t"}, {cause: cause(0, "z"), time: 32},
	}
	got := map[Cause]time.Duration{}
	for _, c := range n.rename(times) {
		if _, twice := got[c.cause]; twice {
			t.Errorf("%v is there twice", c.cause)
		}
		got[c.cause] = c.time
		if c.cause.Name == "x" && (c.reason != "t" || !c.mixed || c.longest != 16) {
			t.Errorf("%+v, want the reason of the longest, and that there are others", c)
		}
	}
	for want, of := range map[Cause]time.Duration{cause(0, "x"): 21, cause(4, ""): 2, cause(0, "y"): 8, cause(0, "z"): 32} {
		if got[want] != of {
			t.Errorf("%v took %v, want %v of %v", want, got[want], of, got)
		}
	}
	if len(got) != 4 {
		t.Errorf("%v", got)
	}
	first := []causeTime{{cause: cause(0, "x"), time: 1}, {cause: cause(1, ""), time: 2}}
	if all := n.rename(first); len(all) != 1 || all[0].time != 3 {
		t.Errorf("with the first: %+v", all)
	}
}

// A limited number of processes is known by name. One more drops all the others.
func TestNamesAreBounded(t *testing.T) {
	n, told := names{}, &trace.Trace{}
	for p := range maxNames {
		told.Spans = append(told.Spans, trace.Span{Process: trace.PID(p + 1), Name: "x"})
	}
	if !n.learn(told) || len(n) != maxNames {
		t.Fatalf("%d are known", len(n))
	}
	if n.learn(told) || len(n) != maxNames {
		t.Errorf("again: %d are known, and some of them are new", len(n))
	}
	one := &trace.Trace{Spans: []trace.Span{{Process: maxNames + 1, Name: "y"}, {Process: maxNames + 2}, {Name: "z"}}}
	if !n.learn(one) || len(n) != 1 || n[maxNames+1] != "y" {
		t.Errorf("one more: %v are known", n)
	}
}

// The programs of a VM are dropped with the VM.
func TestProgramsOfExitedVMs(t *testing.T) {
	file, err := diagram.Parse("x = a -> a;")
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string) OutcomeSystem {
		return OutcomeSystem{Spec: outcome.Spec{Name: name, Span: name, BinWidth: time.Millisecond, Bins: 2}}
	}
	e, err := NewEngine(&System{Window: time.Second, History: 1, Bounds: MeanBounds{StandardErrors: 1}, Diagram: file, Outcomes: []OutcomeSystem{of("a"), of("x")}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		at := int64(n) * int64(time.Second)
		b := outcome.Batch{Window: outcome.Window{From: at, To: at + int64(time.Second)}, Counts: []outcome.Counts{{Outcome: "a", VM: outcome.VM{PID: n + 1}, Bins: make([]uint64, 2)}}}
		if _, err := e.Step(&b); err != nil {
			t.Fatal(err)
		}
		if len(e.programs) != 1 || e.programs[outcome.VM{PID: n + 1}] == nil {
			t.Errorf("window %d: programs of %d VMs", n, len(e.programs))
		}
	}
}

// A series without rows is dropped after the number of windows of a history, and not before the
// hold-off has passed.
func TestWhenASeriesIsDropped(t *testing.T) {
	for _, tt := range []struct {
		history int
		holdOff time.Duration
		after   int // windows
	}{{3, time.Second, 3}, {1, 3 * time.Second, 4}, {2, 0, 2}, {3, 3 * time.Second, 4}, {1, 2500 * time.Millisecond, 3}, {1, 0, 1}} {
		p := OutcomeSystem{Spec: outcome.Spec{Name: "a", Span: "a", BinWidth: time.Millisecond, Bins: 1}}
		e, err := NewEngine(&System{Window: time.Second, History: tt.history, HoldOff: tt.holdOff, Bounds: MeanBounds{StandardErrors: 1}, Outcomes: []OutcomeSystem{p}})
		if err != nil {
			t.Fatal(err)
		}
		const seen = 5 // windows; the last one is number 4
		for n := range 12 {
			vm := outcome.VM{PID: 1}
			if n >= seen {
				vm.PID = 2
			}
			at := int64(n) * int64(time.Second)
			b := outcome.Batch{Window: outcome.Window{From: at, To: at + int64(time.Second)}, Counts: []outcome.Counts{{Outcome: "a", VM: vm, Bins: make([]uint64, 1)}}}
			if _, err := e.Step(&b); err != nil {
				t.Fatal(err)
			}
			if _, kept := e.series[seriesKey{"a", outcome.VM{PID: 1}}]; kept != (n-seen+1 < tt.after) {
				t.Errorf("history %d, hold-off %v: %d windows later it is kept: %v", tt.history, tt.holdOff, n-seen+1, kept)
			}
		}
	}
}

// Two specs have the same events if the spans, those of the wrapper and the events of the VM are
// equal.
func TestSameEvents(t *testing.T) {
	a := outcome.Spec{Name: "a", Span: "a", BinWidth: 1, Bins: 1}
	for _, tt := range []struct {
		b    outcome.Spec
		want bool
	}{
		{outcome.Spec{Name: "b", Span: "a", BinWidth: 2, Bins: 3, Group: "pid"}, true},
		{outcome.Spec{Name: "a", Span: "b"}, false},
		{outcome.Spec{Name: "a", Span: "a", Wrapper: "a"}, false},
		{outcome.Spec{Name: "a", Span: "a", VM: outcome.Events{Builtin: "gc"}}, false},
	} {
		if got := sameEvents(a, tt.b); got != tt.want {
			t.Errorf("%+v: %v", tt.b, got)
		}
	}
}

// Only outcomes of the system have series, whatever else has changed.
func TestSeriesOfTheSystem(t *testing.T) {
	of := func(window time.Duration, names ...string) *System {
		s := &System{Window: window, History: 1, Bounds: MeanBounds{StandardErrors: 1}}
		for _, name := range names {
			s.Outcomes = append(s.Outcomes, OutcomeSystem{Spec: outcome.Spec{Name: name, Span: name, BinWidth: time.Millisecond, Bins: 1}})
		}
		return s
	}
	for _, next := range []*System{of(time.Second, "a"), of(2*time.Second, "a")} {
		e, err := NewEngine(of(time.Second, "a", "b"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Step(&outcome.Batch{Window: outcome.Window{To: int64(time.Second)}}); err != nil {
			t.Fatal(err)
		}
		if err := e.Configure(next); err != nil {
			t.Fatal(err)
		}
		if len(e.series) != 1 {
			t.Errorf("windows of %v: series of %d probes, want 1", next.Window, len(e.series))
		}
	}
}
