package scope_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// Setting returns what ParseTrigger accepts. Other settings are rejected with advice.
func TestParseTrigger(t *testing.T) {
	for _, tc := range []struct{ kind, setting, want string }{
		{"load", "5000", "5000"},
		{"load", "0", "0"},
		{"qta", "true", "true"},
		{"failure", "0.050", "0.05"},
		{"hazard", "true", "true"},
		{"hazard", "0.1", "0.1"},
		{"divergence", "true", "true"},
		{"divergence", "0.05", "true"},
		{"divergence", "0.2", "0.2"},
		{"loss", "true", "true"},
		{"loss", "10", "10"},
		{"condition", "p99 > 20*ms && n > 100", "p99 > 20*ms && n > 100"},
		{"silence", "true", "true"},
		{"silence", "10s", "10s"},
		{"silence", "1500ms", "1.5s"},
		{"rate", "< 50", "< 50"},
		{"rate", "<0.50", "< 0.5"},
	} {
		trigger, err := scope.ParseTrigger(tc.kind, tc.setting)
		if err != nil {
			t.Errorf("%s: %s: %v", tc.kind, tc.setting, err)
			continue
		}
		if trigger.Kind() != tc.kind || trigger.Setting() != tc.want {
			t.Errorf("%s: %s was parsed as %s: %s", tc.kind, tc.setting, trigger.Kind(), trigger.Setting())
		}
	}
	for _, tc := range []struct{ kind, setting, want string }{
		{"load", "-1", "write how many"},
		{"load", "true", "write how many"},
		{"qta", "0.5", "under qta"},
		{"failure", "1", "0.05"},
		{"failure", "NaN", "0.05"},
		{"hazard", "0", "write true"},
		{"divergence", "0", "write true"},
		{"divergence", "-0.1", "write true"},
		{"loss", "0", "write true"},
		{"condition", "p98 > 3", "p98"},
		{"condition", "n", "bool"},
		{"condition", "all(1..1000, {all(1..1000, {# > 0})})", "all"},
		{"condition", "let x = n; x > 1", "not allowed here"},
		{"condition", "n in 1..3", "not allowed here"},
		{"condition", "len('a') > n", "len"},
		{"condition", "[n][0] > 1", "not allowed here"},
		{"condition", "", "write a condition"},
		{"condition", strings.Repeat("n > 1 || ", 1000) + "n > 1", "at most"},
		{"silence", "0s", "write true"},
		{"silence", "-1s", "write true"},
		{"silence", "10", "write true"},
		{"rate", "50", "did you mean < 50?"},
		{"rate", "< 0", "as in < 50"},
		{"rate", "< NaN", "as in < 50"},
		{"rate", "< Inf", "as in < 50"},
		{"rate", "> 50", "as in < 50"},
		{"surprise", "true", "condition, divergence, failure, hazard, load, loss, qta, rate, silence"},
	} {
		_, err := scope.ParseTrigger(tc.kind, tc.setting)
		if !errors.Is(err, scope.ErrTrigger) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %.20s: %v", tc.kind, tc.setting, err)
		}
	}
	for _, kind := range scope.TriggerNames() {
		if trigger, err := scope.ParseTrigger(kind, "false"); trigger != nil || err != nil {
			t.Errorf("%s: false: %v, %v", kind, trigger, err)
		}
	}
}

// watching returns a system of one outcome with these triggers. Its QTA requires a half within 1 ms
// and 0.9 in total.
func watching(t *testing.T, settings ...string) *scope.System {
	t.Helper()
	s := system(t, "", spec("a", 4))
	qta, err := dq.NewQTA(0.1, dq.Step{T: ms, P: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	s.Outcomes[0].QTA = &qta
	s.Outcomes[0].Triggers = triggers(t, settings...)
	s.Samples = 10
	return s
}

func failing(c outcome.Counts, n uint64) outcome.Counts {
	c.Failures += n
	return c
}

func losing(c outcome.Counts, n uint64) outcome.Counts {
	c.Loss.NoRoom += n
	return c
}

func started(c outcome.Counts, n uint64) outcome.Counts {
	c.Starts += n
	return c
}

// Each trigger fires for what it is meant for, gives the cause, and stays quiet at its limit.
func TestTriggersFire(t *testing.T) {
	for _, tc := range []struct {
		kind, setting string
		quiet, alarm  outcome.Counts
		cause         string
	}{
		{"load", "20", counts("a", 20, 0, 0, 0), counts("a", 21, 0, 0, 0), "21 instances in a window, more than 20"},
		{"qta", "true", counts("a", 10, 10, 0, 0), counts("a", 9, 0, 11, 0),
			"the observed ΔQ violates the QTA: 45 % succeed within 1ms, 50 % have to"},
		{"qta", "true", failing(counts("a", 18, 0, 0, 0), 2), failing(counts("a", 17, 0, 0, 0), 3),
			"the observed ΔQ violates the QTA: 85 % succeed, 90 % have to"},
		{"qta", "true", failing(counts("a", 9000, 0, 0, 0), 1000), failing(counts("a", 8996, 0, 0, 0), 1004),
			"the observed ΔQ violates the QTA: 89.96 % succeed, 90 % have to"},
		{"hazard", "0.05", failing(counts("a", 9500, 0, 0, 0), 500), failing(counts("a", 9498, 0, 0, 0), 502),
			"the observed ΔQ has a slack of 0.0498 in probability, less than 0.05"},
		{"failure", "0.1", failing(counts("a", 18, 0, 0, 0), 2), failing(counts("a", 17, 0, 0, 0), 3), "15 % failed or timed out, more than 10 %"},
		{"hazard", "true", counts("a", 10, 10, 0, 0), counts("a", 9, 0, 11, 0),
			"the observed ΔQ violates the QTA: 45 % succeed within 1ms, 50 % have to"},
		{"hazard", "0.05", counts("a", 12, 8, 0, 0), counts("a", 10, 10, 0, 0),
			"the observed ΔQ has a slack of 0 in probability, less than 0.05"},
		{"hazard", "0.1", counts("a", 20, 0, 0, 0), failing(counts("a", 19, 0, 0, 0), 1),
			"the observed ΔQ has a slack of 0.05 in probability, less than 0.1"},
		{"condition", "slack < 0.1", counts("a", 20, 0, 0, 0), failing(counts("a", 19, 0, 0, 0), 1),
			"slack < 0.1: n 20, failure 0.05, p50 1ms, p99 ∞"},
		{"loss", "true", counts("a", 20, 0, 0, 0), losing(counts("a", 20, 0, 0, 0), 1), "1 lost, more than 0"},
		{"loss", "5", losing(counts("a", 20, 0, 0, 0), 5), losing(counts("a", 20, 0, 0, 0), 6), "6 lost, more than 5"},
		{"loss", "5", counts("a", 20, 0, 0, 0), outcome.Counts{Outcome: "a", VM: beam, Unobserved: true},
			"the window was not observed as a whole; 0 lost besides"},
		{"condition", "p50 > 1*ms && n >= 20", counts("a", 10, 9, 0, 0), counts("a", 9, 11, 0, 0),
			"p50 > 1*ms && n >= 20: n 20, failure 0, p50 2ms, p99 2ms"},
		{"rate", "< 20", counts("a", 20, 0, 0, 0), counts("a", 19, 0, 0, 0), "19 instances a second, less than 20"},
		{"silence", "true", failing(counts("a"), 1), counts("a"), "no instance has ended for 3s"},
		{"silence", "2.5s", counts("a", 1, 0, 0, 0), started(counts("a"), 4), "no instance has ended for 3s, 4 started in this window"},
		{"condition", "silent >= 3*s", counts("a", 1, 0, 0, 0), counts("a"), "silent >= 3*s: n 0, failure 0, p50 unknown, p99 unknown"},
		{"condition", "p99 > 1*s", counts("a", 10, 0, 0, 0), failing(counts("a", 1, 0, 0, 0), 1),
			"p99 > 1*s: n 2, failure 0.5, p50 1ms, p99 ∞"},
	} {
		t.Run(tc.kind+" "+tc.setting, func(t *testing.T) {
			p := newPlay(t, watching(t, tc.kind, tc.setting))
			for range 5 {
				if f := p.step(tc.quiet); len(f.Fired) > 0 {
					t.Fatalf("fired within the limit: %+v", f.Fired)
				}
			}
			var got []scope.Firing
			for range 5 {
				f := p.step(tc.alarm)
				got = append(got, f.Fired...)
			}
			want := []scope.Firing{{Trigger: tc.kind, Setting: tc.setting, Outcome: "a", VM: beam, Cause: tc.cause}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A slack equal to the setting is enough, although most of these decimals have no exact binary
// form. A smaller slack is not.
func TestHazardAtRequiredSlack(t *testing.T) {
	for percent := 1; percent <= 99; percent++ {
		slack := float64(percent) / 100
		qta, err := dq.NewQTA(slack, dq.Step{T: ms, P: 1 - slack}, dq.Step{T: 2 * ms, P: float64(100-percent) / 100})
		if err != nil {
			t.Fatal(err)
		}
		s := watching(t, "hazard", strconv.FormatFloat(slack, 'g', -1, 64), "condition", fmt.Sprintf("slack < %v", slack))
		s.Outcomes[0].QTA = &qta
		for _, trigger := range s.Outcomes[0].Triggers {
			if err := trigger.Possible(&s.Outcomes[0], false); err != nil {
				t.Errorf("slack %v: %s: %v", slack, trigger.Kind(), err)
			}
		}
		p := newPlay(t, s)
		for range 5 {
			if f := p.step(counts("a", 100, 0, 0, 0)); len(f.Fired) > 0 {
				t.Fatalf("slack %v: fired at the required slack: %+v", slack, f.Fired)
			}
		}
		var got []string
		for range 5 {
			got = append(got, fired(p.step(failing(counts("a", 199, 0, 0, 0), 1)))...)
		}
		slices.Sort(got)
		if diff := cmp.Diff([]string{"condition a", "hazard a"}, got); diff != "" {
			t.Errorf("slack %v: %s", slack, diff)
		}
	}
}

// A window with too few instances or with loss fires no trigger, and has the reason.
func TestInsufficient(t *testing.T) {
	for _, kind := range [][]string{{"qta", "true"}, {"hazard", "true"}, {"failure", "0.1"}} {
		p := newPlay(t, watching(t, kind...))
		for why, c := range map[string]outcome.Counts{
			"too few instances": failing(counts("a", 0, 0, 0, 0), 9),
			"loss":              losing(failing(counts("a", 0, 0, 0, 0), 90), 1),
			"no instances":      counts("a", 0, 0, 0, 0),
			"not observed":      {Outcome: "a", VM: beam, Unobserved: true},
		} {
			for range 5 {
				f := p.step(c)
				if got := outcomeOf(t, f, "a").Insufficient; got != why || len(f.Fired) > 0 {
					t.Errorf("%s: %q, fired %+v; want %q", kind[0], got, f.Fired, why)
				}
			}
		}
	}
}

// An incident fires once, even if it flickers or has insufficient windows. After it has been over
// for a while, the next one fires again.
func TestOneIncident(t *testing.T) {
	s := watching(t, "qta", "true")
	s.HoldOff = 5 * time.Second
	p := newPlay(t, s)
	good, bad, few := counts("a", 20, 0, 0, 0), counts("a", 0, 0, 20, 0), counts("a", 0, 0, 1, 0)
	const (
		quiet = iota
		fires
		active
	)
	for i, tc := range []struct {
		counts outcome.Counts
		want   int
	}{
		{good, quiet}, {bad, fires}, {bad, active}, {good, active}, {good, active}, {bad, active}, // flickers
		{few, active}, {few, active}, {few, active}, {few, active}, // the end is not certain
		{good, active}, {good, active}, {good, quiet}, // over after three quiet windows
		{bad, fires}, {good, active}, {good, active}, {good, active}, {good, active}, {good, quiet}, // not over before the hold-off
		{bad, fires},
	} {
		f := p.step(tc.counts)
		a := outcomeOf(t, f, "a")
		if (len(f.Fired) == 1) != (tc.want == fires) || (len(a.Active) == 1) != (tc.want != quiet) {
			t.Errorf("window %d: fired %v, active %v", i, fired(f), a.Active)
		}
	}
}

// Unchanged triggers keep their incident when the system changes. New triggers start without one.
func TestIncidentSurvivesConfigure(t *testing.T) {
	p := newPlay(t, watching(t, "load", "5", "failure", "0.1"))
	busy := failing(counts("a", 10, 0, 0, 0), 10)
	if diff := cmp.Diff([]string{"load a", "failure a"}, fired(p.step(busy))); diff != "" {
		t.Fatal(diff)
	}
	if err := p.engine.Configure(watching(t, "load", "5", "failure", "0.2")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"failure a"}, fired(p.step(busy))); diff != "" {
		t.Error(diff)
	}
}

// composed returns a system with an outcome x that is calculated from a and b and has these
// triggers.
func composed(t *testing.T, settings ...string) *scope.System {
	t.Helper()
	s := system(t, "x = a -> b;", spec("a", 20), spec("b", 20), spec("x", 40))
	s.Outcomes[2].Triggers = triggers(t, settings...)
	s.Samples = 10
	return s
}

// at returns counts with n instances in each of some bins.
func at(name string, bins int, n uint64, where ...int) outcome.Counts {
	c := make([]uint64, bins)
	for _, k := range where {
		c[k] += n
	}
	return counts(name, c...)
}

// Two outcomes are slow at the same time. Calculated as if they were independent, their sequence
// takes 2, 11 or 20 ms, but the observed one takes 2 or 20 ms. The distance is a quarter. The
// trigger fires after three windows and names the delay. It does not fire if the outcomes are
// independent.
func TestDivergence(t *testing.T) {
	a, b := at("a", 20, 400, 1, 10), at("b", 20, 400, 1, 10)
	p := newPlay(t, composed(t, "divergence", "true"))
	for range 20 {
		if f := p.step(a, b, at("x", 40, 200, 2, 11, 11, 20)); len(f.Fired) > 0 {
			t.Fatalf("fired on independent outcomes: %+v", f.Fired)
		}
	}
	p = newPlay(t, composed(t, "divergence", "true"))
	dependent := at("x", 40, 400, 2, 20)
	for i := range 3 {
		f := p.step(a, b, dependent)
		d := outcomeOf(t, f, "x").Divergence
		if d.Distance.Lo > 0.25 || d.Distance.Lo < 0.25-1e-9 || d.Chance > 0.01 {
			t.Errorf("window %d: %+v", i, d)
		}
		if want := i == 2; (len(f.Fired) == 1) != want {
			t.Errorf("window %d: fired %+v", i, f.Fired)
		} else if want && !strings.Contains(f.Fired[0].Cause, "0.375 apart at 3ms, at least 0.25 whatever") {
			t.Errorf("cause %q", f.Fired[0].Cause)
		}
	}
	lossy := p.step(losing(a, 1), b, dependent)
	if outcomeOf(t, lossy, "x").CalculatedInsufficient != "loss" {
		t.Errorf("with loss: %q", outcomeOf(t, lossy, "x").CalculatedInsufficient)
	}
}

// The calculated ΔQ shows a hazard although x itself has not been observed.
func TestCalculatedHazard(t *testing.T) {
	s := composed(t, "hazard", "true", "qta", "true")
	qta, err := dq.NewQTA(0.1, dq.Step{T: 5 * ms, P: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	s.Outcomes[2].QTA = &qta
	p := newPlay(t, s)
	var got []scope.Firing
	for range 3 {
		got = append(got, p.step(at("a", 20, 50, 4), at("b", 20, 50, 4), at("x", 40, 0)).Fired...)
	}
	want := []scope.Firing{{Trigger: "hazard", Setting: "true", Outcome: "x", VM: beam,
		Cause: "the calculated ΔQ violates the QTA: 0 % succeed within 5ms, 50 % have to"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Windows before the beginning of the observation are not an incident. A window that is missed
// later is.
func TestBeginningIsNoLoss(t *testing.T) {
	p := newPlay(t, watching(t, "loss", "true"))
	missed := outcome.Counts{Outcome: "a", VM: beam, Unobserved: true, Loss: outcome.Loss{Missed: 3}}
	for range 2 {
		if f := p.step(missed); len(f.Fired) > 0 {
			t.Errorf("fired before the beginning: %v", fired(f))
		}
	}
	p.step(counts("a", 1, 0, 0, 0))
	if diff := cmp.Diff([]string{"loss a"}, fired(p.step(missed))); diff != "" {
		t.Error(diff)
	}
}

// Silence counts from the last instance, or from the first observed window. A window that was not
// completely observed or lost something may have had instances, so silence counts anew after it.
func TestSilence(t *testing.T) {
	p := newPlay(t, watching(t, "silence", "3s"))
	nothing, missed := counts("a"), outcome.Counts{Outcome: "a", VM: beam, Unobserved: true}
	for i, tc := range []struct {
		counts outcome.Counts
		silent time.Duration
		fires  bool
	}{
		{missed, 0, false},
		{nothing, time.Second, false},
		{nothing, 2 * time.Second, false},
		{missed, 0, false},
		{nothing, time.Second, false},
		{losing(nothing, 1), 0, false},
		{nothing, time.Second, false},
		{nothing, 2 * time.Second, false},
		{started(nothing, 1), 3 * time.Second, true},
		{nothing, 4 * time.Second, false},
		{failing(nothing, 1), 0, false},
		{nothing, time.Second, false},
	} {
		f := p.step(tc.counts)
		a := outcomeOf(t, f, "a")
		if a.Silent != tc.silent || (len(f.Fired) == 1) != tc.fires {
			t.Errorf("window %d: silent for %v, fired %v", i, a.Silent, fired(f))
		}
		if want := i >= 5; a.Seen != want { // a loss counts as seen
			t.Errorf("window %d: seen: %v", i, a.Seen)
		}
	}
}

// A silence goes on when the VM ends, while none runs, and when one comes back. It is one incident.
func TestSilenceSurvivesVM(t *testing.T) {
	in := func(node string, pid int, done uint64) outcome.Counts {
		c := counts("a", done, 0, 0, 0)
		c.VM = outcome.VM{PID: pid, Node: node}
		return c
	}
	none := in("", 0, 0)
	unobserved := in("x@host", 9, 0)
	unobserved.Unobserved = true
	type window struct {
		counts outcome.Counts
		silent time.Duration
		fires  bool
	}
	for name, windows := range map[string][]window{
		"no VM, then another one": {
			{in("", 7, 1), 0, false}, {none, time.Second, false}, {none, 2 * time.Second, false}, {none, 3 * time.Second, true},
			{in("", 8, 0), 4 * time.Second, false}, {none, 5 * time.Second, false}, {in("", 9, 1), 0, false}, {in("", 9, 0), time.Second, false},
		},
		"a node that crashes again and again": {
			{in("x@host", 7, 1), 0, false}, {in("x@host", 8, 0), time.Second, false}, {in("x@host", 9, 0), 2 * time.Second, false}, {in("x@host", 10, 0), 3 * time.Second, true},
		},
		"the end of the VM was not observed": {
			{in("x@host", 9, 1), 0, false}, {in("x@host", 9, 0), time.Second, false}, {unobserved, 0, false}, {none, time.Second, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t, watching(t, "silence", "3s"))
			for i, w := range windows {
				f := p.step(w.counts)
				if got := f.Outcomes[0].Silent; len(f.Outcomes) != 1 || got != w.silent || (len(f.Fired) == 1) != w.fires {
					t.Errorf("window %d: silent for %v, want %v; fired %v", i, got, w.silent, fired(f))
				}
			}
		})
	}
}

// Beside VMs that go on, only a VM of the same node goes on with the silence of one that ended.
func TestSilenceBesideOtherVM(t *testing.T) {
	in := func(node string, pid int, done uint64) outcome.Counts {
		c := counts("a", done, 0, 0, 0)
		c.VM = outcome.VM{PID: pid, Node: node}
		return c
	}
	p := newPlay(t, watching(t, "silence", "3s"))
	other := in("b@host", 1, 1)
	p.step(other, in("a@host", 7, 1))
	p.step(other)
	f := p.step(other, in("a@host", 8, 0), in("c@host", 9, 0))
	for i, want := range []time.Duration{0, 2 * time.Second, time.Second} {
		if got := f.Outcomes[i].Silent; got != want {
			t.Errorf("%v: silent for %v, want %v", f.Outcomes[i].VM, got, want)
		}
	}
}

// A definition without its own spans is silent while its parts are.
func TestSilenceOfADefinition(t *testing.T) {
	s := system(t, "whole = a -> b", spec("whole", 2), spec("a", 2), spec("b", 2))
	s.Outcomes[0].Triggers = triggers(t, "silence", "3s")
	p := newPlay(t, s)
	nothing := func() *scope.Frame { return p.step(counts("whole", 0, 0), counts("a", 0, 0), counts("b", 0, 0)) }
	for range 5 {
		if f := p.step(counts("whole", 0, 0), counts("a", 1, 0), counts("b", 1, 0)); len(f.Fired) != 0 || outcomeOf(t, f, "whole").Silent != 0 {
			t.Errorf("its parts have instances: %v", fired(f))
		}
	}
	for n := range 3 {
		if f := nothing(); (len(f.Fired) == 1) != (n == 2) {
			t.Errorf("silent window %d: %v", n+1, fired(f))
		}
	}
	// Once it has its own spans, only these count.
	p.step(counts("whole", 1, 0), counts("a", 1, 0), counts("b", 1, 0))
	for range 2 {
		p.step(counts("whole", 0, 0), counts("a", 1, 0), counts("b", 1, 0))
	}
	if f := p.step(counts("whole", 0, 0), counts("a", 1, 0), counts("b", 1, 0)); outcomeOf(t, f, "whole").Silent != 3*time.Second {
		t.Errorf("silent for %v", outcomeOf(t, f, "whole").Silent)
	}
}

// A change of the scale does not end a silence. Other events do.
func TestSilenceSurvivesAnotherScale(t *testing.T) {
	p := newPlay(t, system(t, "", spec("a", 4)))
	p.step(counts("a", 1, 0, 0, 0))
	p.step(counts("a"))
	if err := p.engine.Configure(system(t, "", spec("a", 8))); err != nil {
		t.Fatal(err)
	}
	if a := outcomeOf(t, p.step(counts("a")), "a"); a.Silent != 2*time.Second || !a.Seen {
		t.Errorf("on another scale: silent for %v, seen: %v", a.Silent, a.Seen)
	}
	other := spec("a", 8)
	other.Span = "b"
	if err := p.engine.Configure(system(t, "", other)); err != nil {
		t.Fatal(err)
	}
	if a := outcomeOf(t, p.step(counts("a")), "a"); a.Silent != time.Second || a.Seen {
		t.Errorf("of other spans: silent for %v, seen: %v", a.Silent, a.Seen)
	}
}

// Lost instances may be the missing ones, so it is unknown whether the rate fell.
func TestFallingRateWithLoss(t *testing.T) {
	p := newPlay(t, watching(t, "rate", "< 20"))
	for range 5 {
		if f := p.step(losing(counts("a", 15, 0, 0, 0), 5)); len(f.Fired) > 0 {
			t.Fatalf("fired, although 20 may have ended: %v", fired(f))
		}
	}
	var got []string
	for range 3 {
		got = append(got, fired(p.step(losing(counts("a", 15, 0, 0, 0), 4)))...)
	}
	if diff := cmp.Diff([]string{"rate a"}, got); diff != "" {
		t.Error(diff)
	}
}

// A condition on the divergence uses the distance that the bins cannot hide, here 0.25. It does
// not use that of the middles, here 0.375.
func TestDivergenceInACondition(t *testing.T) {
	for condition, want := range map[string]bool{"divergence > 0.3": false, "divergence > 0.2": true, "divergence >= 0.25": true} {
		p := newPlay(t, composed(t, "condition", condition))
		var f *scope.Frame
		for range 5 {
			if f = p.step(at("a", 20, 400, 1, 10), at("b", 20, 400, 1, 10), at("x", 40, 400, 2, 20)); len(f.Fired) > 0 {
				break
			}
		}
		if got := len(f.Fired) > 0; got != want {
			t.Errorf("%s fires: %v", condition, got)
		}
	}
}

// A history of three windows covers only the last three windows, even if some of them have no
// instances.
func TestHistoryCoversLastWindows(t *testing.T) {
	s := composed(t)
	s.History = 3
	p := newPlay(t, s)
	const instances = "XX...XXXX.X..." // X marks windows with instances
	for i, want := range []int{1, 2, 2, 1, 0, 1, 2, 3, 3, 2, 2, 1, 1, 0} {
		n := uint64(0)
		if instances[i] == 'X' {
			n = 400
		}
		x := outcomeOf(t, p.step(at("a", 20, n, 1, 10), at("b", 20, n, 1, 10), at("x", 40, n, 2, 20)), "x")
		if x.Mean.Windows != want || x.CalculatedMean.Windows != want {
			t.Errorf("window %d: means of %d observed and %d calculated windows, want %d", i, x.Mean.Windows, x.CalculatedMean.Windows, want)
		}
		if (x.Divergence != nil) != (want > 0) || x.DivergenceWindows > want {
			t.Errorf("window %d: a divergence over %d windows, want at most %d", i, x.DivergenceWindows, want)
		}
	}
}
