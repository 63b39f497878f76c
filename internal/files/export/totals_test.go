package export_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/seen"
	"github.com/beamscope/beamscope/internal/files/export"
)

// totalsOf returns the lines of the totals of frames of one outcome with these counts.
func totalsOf(t *testing.T, all ...outcome.Counts) []string {
	t.Helper()
	var out strings.Builder
	text := export.NewText(&out)
	for i, c := range all {
		if c.Outcome = "checkout"; c.VM == (outcome.VM{}) {
			c.VM = outcome.VM{PID: 7}
		}
		f := scope.Frame{
			Window: outcome.Window{From: int64(i) * 1e9, To: int64(i+1) * 1e9}, Attaching: true, // writes no table
			Outcomes: []scope.Outcome{{Name: "checkout", VM: c.VM, Window: outcome.Window{From: int64(i) * 1e9, To: int64(i+1) * 1e9}, Counts: c, Spec: outcome.Spec{Name: "checkout", Span: "checkout", BinWidth: time.Second, Bins: 1}}},
		}
		if err := text.Frame(&f); err != nil {
			t.Fatal(err)
		}
	}
	if err := text.Close(); err != nil {
		t.Fatal(err)
	}
	_, totals, _ := strings.Cut(out.String(), "totals\n")
	return strings.Split(strings.TrimSuffix(totals, "\n"), "\n")[1:]
}

// The totals list losses before the first whole window separately from later losses.
func TestTotalsWhileAttaching(t *testing.T) {
	attaching := outcome.Counts{Starts: 50, Unobserved: true, Loss: outcome.Loss{Missed: 42}}
	whole := outcome.Counts{Starts: 50, Ends: 50, Successes: 50}
	blind := outcome.Counts{Unobserved: true}
	missed := attaching
	missed.Loss.Missed = 5
	const beside = "+ beside lost: beamscope did not observe all of the time, so more may be missing"
	for name, test := range map[string]struct {
		counts []outcome.Counts
		want   []string
	}{
		"at the beginning": {[]outcome.Counts{attaching, attaching, whole}, []string{
			" checkout   pid 7      50      50      50       0       0       0       0       0",
			"not observed, and not in the table: up to 2s before the first whole window of an outcome; lost then: 84 of checkout in pid 7",
		}},
		"later": {[]outcome.Counts{whole, missed}, []string{
			" checkout   pid 7     100      50      50       0       0      5+       0       0",
			beside,
		}},
		"both": {[]outcome.Counts{attaching, whole, missed, whole}, []string{
			" checkout   pid 7     150     100     100       0       0      5+       0       0",
			"not observed, and not in the table: up to 1s before the first whole window of an outcome; lost then: 42 of checkout in pid 7",
			beside,
		}},
		"a ring that could not be read at first": {[]outcome.Counts{blind, blind, blind, whole}, []string{
			" checkout   pid 7      50      50      50       0       0       0       0       0",
			"not observed, and not in the table: up to 3s before the first whole window of an outcome",
		}},
		"a ring that broke": {[]outcome.Counts{blind, whole, blind}, []string{
			" checkout   pid 7      50      50      50       0       0      0+       0       0",
			"not observed, and not in the table: up to 1s before the first whole window of an outcome",
			beside,
		}},
		"a ring that was never read": {[]outcome.Counts{blind, blind}, []string{
			" checkout   pid 7       0       0       0       0       0      0+       0       0",
			beside,
		}},
		"always": {[]outcome.Counts{attaching, attaching}, []string{
			" checkout   pid 7     100       0       0       0       0     84+       0       0",
			beside,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := totalsOf(t, test.counts...); strings.Join(got, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// Windows that were not observed, of a VM that is not known, have totals with a mark.
func TestTotalsWithoutVM(t *testing.T) {
	var out strings.Builder
	text := export.NewText(&out)
	f := scope.Frame{Window: outcome.Window{To: 1e9}, Attaching: true, Outcomes: []scope.Outcome{
		{Name: "hidden", Window: outcome.Window{To: 1e9}, Counts: outcome.Counts{Outcome: "hidden", Unobserved: true}},
		{Name: "idle", Window: outcome.Window{To: 1e9}, Counts: outcome.Counts{Outcome: "idle"}},
	}}
	if err := errors.Join(text.Frame(&f), text.Close()); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "  hidden   no VM       0       0       0       0       0      0+") || strings.Contains(got, "idle   no VM") {
		t.Error(got)
	}
}

// The time before the VM of an outcome was known is not a row of its own.
func TestTotalsBeforeVM(t *testing.T) {
	var out strings.Builder
	text := export.NewText(&out)
	for i, c := range []outcome.Counts{{Unobserved: true}, {VM: outcome.VM{PID: 7}, Starts: 3}} {
		c.Outcome = "buy"
		w := outcome.Window{From: int64(i) * 1e9, To: int64(i+1) * 1e9}
		f := scope.Frame{Window: w, Attaching: true, Outcomes: []scope.Outcome{{Name: "buy", Window: w, Counts: c}}}
		if err := text.Frame(&f); err != nil {
			t.Fatal(err)
		}
	}
	if err := text.Close(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Contains(got, "no VM") || !strings.Contains(got, "\nnot observed, and not in the table: up to 1s before") {
		t.Error(got)
	}
}

// A frame without a table says why the events of its outcomes are not seen, each reason once.
func TestWhyNothingIsWhole(t *testing.T) {
	var out strings.Builder
	text := export.NewText(&out)
	text.TellSights(func() export.SightFunc {
		return func(s outcome.Spec, _ outcome.VM) seen.Sight {
			if s.Name == "gc" {
				return seen.By(seen.Probe)
			}
			return seen.Not("the ring is broken")
		}
	})
	f := scope.Frame{Window: outcome.Window{To: 1e9}, Attaching: true}
	for _, name := range []string{"gc", "buy", "sell"} {
		f.Outcomes = append(f.Outcomes, scope.Outcome{Name: name, Spec: outcome.Spec{Name: name}, Window: f.Window, Counts: outcome.Counts{Outcome: name, Unobserved: true}})
	}
	if err := text.Frame(&f); err != nil {
		t.Fatal(err)
	}
	if want := "not observed: no window was observed as a whole yet; the ring is broken\n"; !strings.Contains(out.String(), want) {
		t.Errorf("without %q:\n%s", want, &out)
	}
}

// Rows without events are left out, but each outcome has a row.
func TestTotalsWithoutEvents(t *testing.T) {
	var out strings.Builder
	text := export.NewText(&out)
	f := scope.Frame{Window: outcome.Window{To: int64(time.Second)}, Attaching: true} // writes no table
	for _, c := range []struct {
		outcome string
		pid     int
		starts  uint64
	}{{"idle", 7, 0}, {"idle", 8, 0}, {"busy", 7, 0}, {"busy", 8, 3}} {
		f.Outcomes = append(f.Outcomes, scope.Outcome{Name: c.outcome, Counts: outcome.Counts{Outcome: c.outcome, VM: outcome.VM{PID: c.pid}, Starts: c.starts}})
	}
	if err := text.Frame(&f); err != nil {
		t.Fatal(err)
	}
	if err := text.Close(); err != nil {
		t.Fatal(err)
	}
	_, totals, _ := strings.Cut(out.String(), "totals\n")
	got := regexp.MustCompile(`(?m)^ *(idle|busy) +pid \d`).FindAllString(totals, -1)
	for i := range got {
		got[i] = strings.Join(strings.Fields(got[i]), " ")
	}
	if want := []string{"idle pid 7", "busy pid 8"}; !slices.Equal(got, want) || !strings.Contains(totals, "\nrows without events that are left out: 2\n") {
		t.Errorf("%q, want %q:\n%s", got, want, totals)
	}
}

// The line of the cost shows who pays if no program runs in the VM, and gives no price then.
func TestCostLine(t *testing.T) {
	spans := outcome.Counts{Starts: 50, Ends: 50, Successes: 50}
	span, overTCP := outcome.Spec{Name: "a", Span: "a", BinWidth: time.Second, Bins: 1}, outcome.Spec{Name: "a", Wrapper: "a", BinWidth: time.Second, Bins: 1}
	const collector = 10 * time.Millisecond
	for name, test := range map[string]struct {
		spec   outcome.Spec
		counts outcome.Counts
		cost   outcome.Cost
		want   string
	}{
		"programs":           {span, spans, outcome.Cost{Events: 100, PerEvent: 2 * time.Microsecond}, "100 events/s × 2.00µs = 0.02 % of a core in the VM"},
		"a price not known":  {span, spans, outcome.Cost{Events: 100}, "100 events/s, price not measured"},
		"nothing happens":    {span, outcome.Counts{}, outcome.Cost{PerEvent: 2 * time.Microsecond}, "0 events/s × 2.00µs = 0.00 % of a core in the VM"},
		"nothing yet":        {span, outcome.Counts{}, outcome.Cost{}, "no program ran in the VM"},
		"spans in a ring":    {span, spans, outcome.Cost{}, "no program ran in the VM; its other costs are not measured (see docs/reference/run.md)"},
		"ring, and programs": {span, spans, outcome.Cost{PerEvent: 2 * time.Microsecond}, "no program ran in the VM; its other costs are not measured (see docs/reference/run.md)"},
		"over TCP":           {overTCP, spans, outcome.Cost{}, "paid by the application that sends over TCP, not known here"},
	} {
		t.Run(name, func(t *testing.T) {
			test.cost.Collector = collector
			test.counts.Outcome, test.counts.VM = "a", outcome.VM{PID: 7}
			f := scope.Frame{
				Window: outcome.Window{To: 1e9}, Cost: test.cost, Attaching: true, // writes no table
				Outcomes: []scope.Outcome{{Name: "a", VM: test.counts.VM, Counts: test.counts, Spec: test.spec}},
			}
			var out strings.Builder
			if err := export.NewText(&out).Frame(&f); err != nil {
				t.Fatal(err)
			}
			if want := "cost: " + test.want + "; collector 1.00 %\n"; !strings.Contains(out.String(), want) {
				t.Errorf("without %q:\n%s", want, out.String())
			}
		})
	}
}
