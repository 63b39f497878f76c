package scope_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// A spell is a part of an instance's time.
type spell struct {
	kind    trace.Kind
	process trace.PID // 1 is the process of the instance
	name    string
	time    time.Duration
	mark    trace.Mark
	reason  string
}

// explainedBy returns an instance that began at 0, with a trace of these parts.
func explainedBy(name string, id uint64, spells ...spell) outcome.Instance {
	t := &trace.Trace{Spans: []trace.Span{{Parent: -1, Kind: trace.Root, Process: 1}}}
	at := int64(0)
	for _, s := range spells {
		t.Spans = append(t.Spans, trace.Span{Kind: s.kind, Start: at, End: at + int64(s.time), Process: s.process, Name: s.name, Mark: s.mark, Reason: s.reason})
		at += int64(s.time)
	}
	t.Spans[0].End = at
	return outcome.Instance{Outcome: name, VM: beam, ID: id, End: at, Process: 1, Trace: t}
}

// queued returns an instance of 100 ms that waited for the given time in the mailbox of queue_2.
func queued(name string, wait time.Duration) outcome.Instance {
	return explainedBy(name, 7, spell{trace.Running, 1, "", 100*ms - wait, trace.Exact, ""}, spell{trace.Mailbox, 2, "queue_2", wait, trace.Exact, ""})
}

// noon is the end of the first window of a play.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// explain plays a window in which n instances of a ended, including these.
func (p *play) explain(n uint64, instances ...outcome.Instance) *scope.Frame {
	p.t.Helper()
	return p.batch(outcome.Batch{Time: noon.Add(time.Duration(p.next)), Counts: []outcome.Counts{counts("a", n)}, Instances: instances})
}

// explained returns the explanation of an outcome, and fails if there is none.
func explained(t testing.TB, f *scope.Frame, name string) *scope.Explained {
	t.Helper()
	x := outcomeOf(t, f, name).Explained
	if x == nil {
		t.Fatalf("window %d of %s is not explained", f.Number, name)
	}
	return x
}

func TestExplainedShares(t *testing.T) {
	p := newPlay(t, system(t, "", spec("a", 1)))
	f := p.batch(outcome.Batch{Counts: []outcome.Counts{counts("a", 3)}, Instances: []outcome.Instance{
		explainedBy("a", 1, spell{trace.Running, 1, "client", 2 * ms, trace.Exact, ""}, spell{trace.Mailbox, 5, "queue_2", 60 * ms, trace.Exact, ""}, spell{trace.Running, 9, "", 8 * ms, trace.Exact, ""}),
		explainedBy("a", 2, spell{trace.Running, 1, "", 1 * ms, trace.Exact, ""}, spell{trace.Mailbox, 6, "queue_2", 29 * ms, trace.Exact, ""}),
		{Outcome: "a", VM: beam, ID: 3, End: int64(time.Second)},
	}})
	want := &scope.Explained{Instances: 2, Total: 100 * ms, Shares: []scope.Share{
		{Cause: scope.Cause{Kind: trace.Mailbox, Name: "queue_2"}, Time: 89 * ms, Of: 0.89},
		{Cause: scope.Cause{Kind: trace.Running, Process: 9}, Time: 8 * ms, Of: 0.08},
		{Cause: scope.Cause{Kind: trace.Running, Own: true}, Time: 3 * ms, Of: 0.03},
	}}
	got := explained(t, f, "a")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, want := got.Sentence(), "89 % of the time of 2 instances was waiting in the mailbox of queue_2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if x := outcomeOf(t, p.step(counts("a", 3)), "a").Explained; x != nil {
		t.Errorf("a window without traces is explained by %+v", x)
	}
}

// Only the largest shares are listed separately. All shares add up to the total time.
func TestManyCauses(t *testing.T) {
	var spells []spell
	for n := range 40 {
		spells = append(spells, spell{trace.Running, trace.PID(2 + n), "", time.Duration(100 - n), trace.Exact, ""})
	}
	x := explained(t, newPlay(t, system(t, "", spec("a", 1))).explain(1, explainedBy("a", 1, spells...)), "a")
	if len(x.Shares) != scope.MaxShares || x.Causes != 40-scope.MaxShares || x.Shares[15].Time != 85 {
		t.Errorf("%d shares, %d others: %+v", len(x.Shares), x.Causes, x.Shares)
	}
	if want := time.Duration((84 + 61) * 24 / 2); x.Others != want {
		t.Errorf("the others are %v, want %v", x.Others, want)
	}
}

// The usual share of others is the rest of the quiet windows after the present shares.
func TestUsualShareOfOthers(t *testing.T) {
	var many []spell
	for n := range 40 {
		many = append(many, spell{trace.Running, trace.PID(2 + n), "", time.Duration(100 - n), trace.Exact, ""})
	}
	p := newPlay(t, system(t, "", spec("a", 1)))
	x := explained(t, p.explain(1, explainedBy("a", 1, many...)), "a")
	if x.UsualOthers() != 0 {
		t.Errorf("%v is usual without a quiet window", x.UsualOthers())
	}
	x = explained(t, p.explain(1, explainedBy("a", 1, many...)), "a")
	if got, want := x.UsualOthers(), float64(x.Others)/float64(x.Total); math.Abs(got-want) > 1e-9 {
		t.Errorf("%v is usual where nothing has changed, want %v", got, want)
	}
	x = explained(t, p.explain(1, explainedBy("a", 1, spell{trace.Running, 2, "", 100, trace.Exact, ""})), "a")
	if got, want := x.UsualOthers(), 1-100/float64((100+61)*40/2); math.Abs(got-want) > 1e-9 {
		t.Errorf("%v is usual, want %v", got, want)
	}
}

// For any traces, the shares of a window add up to the time of its instances to the nanosecond,
// and their fractions add up to 1.
func TestSharesAddUp(t *testing.T) {
	s := system(t, "", spec("a", 1))
	rapid.Check(t, func(r *rapid.T) {
		p := newPlay(t, s)
		for range rapid.IntRange(1, 10).Draw(r, "windows") {
			var instances []outcome.Instance
			var total time.Duration
			for id := range rapid.IntRange(0, 16).Draw(r, "instances") {
				instances = append(instances, anyInstance(r, uint64(id)))
				total += instances[id].Elapsed()
			}
			f := p.batch(outcome.Batch{Time: noon, Counts: []outcome.Counts{counts("a", 16)}, Instances: instances})
			x := outcomeOf(t, f, "a").Explained
			if total == 0 {
				if x != nil {
					r.Fatalf("no time is explained by %+v", x)
				}
				continue
			}
			sum, last := x.Others, total
			for _, share := range x.Shares {
				if share.Time <= 0 || share.Time > last || share.Of != float64(share.Time)/float64(total) || share.Usual < 0 || share.Usual > 1 {
					r.Fatalf("after %v of %v comes %+v", last, total, share)
				}
				last = share.Time
				sum += share.Time
			}
			if sum != total || x.Total != total || x.Instances != len(instances) {
				r.Fatalf("the shares of %d instances add up to %v of %v, want %v of %d", x.Instances, sum, x.Total, total, len(instances))
			}
			if s := x.Shift; s != nil && (s.To-s.From < 0.05-1e-9 || s.Since.After(f.Time)) {
				r.Fatalf("a shift %+v", s)
			}
		}
	})
}

// anyInstance draws an instance with a trace of few processes and kinds.
func anyInstance(r *rapid.T, id uint64) outcome.Instance {
	var spells []spell
	for range rapid.IntRange(0, 30).Draw(r, "parts") {
		n := rapid.IntRange(0, 30).Draw(r, "process")
		name := ""
		if n%3 == 0 {
			name = fmt.Sprint("named ", n)
		}
		spells = append(spells, spell{
			trace.Kind(rapid.IntRange(1, int(trace.Kinds)-1).Draw(r, "kind")), trace.PID(n), name,
			time.Duration(rapid.Int64Range(0, 1e12).Draw(r, "time")), trace.Exact, "",
		})
	}
	return explainedBy("a", id, spells...)
}

// settling is the number of windows in a row that a shift takes.
const settling = 5

// A shift shows which share has grown, since when, and compared with what.
func TestShift(t *testing.T) {
	p := newPlay(t, system(t, "", spec("a", 1)))
	for range 9 {
		if x := explained(t, p.explain(1, queued("a", 4*ms)), "a"); x.Shift != nil {
			t.Errorf("after %d windows: shift %v", x.Quiet, x.Shift)
		}
	}
	for range settling {
		if x := explained(t, p.explain(1, queued("a", 77*ms)), "a"); x.Shift != nil || x.Quiet < 9 {
			t.Errorf("after nine windows: shift %v", x.Shift)
		}
	}

	p = newPlay(t, system(t, "", spec("a", 1)))
	for range 10 {
		p.explain(1, queued("a", 4*ms))
	}
	if x := explained(t, p.explain(1, queued("a", 13*ms)), "a"); x.Shift != nil {
		t.Errorf("growth by 9 points is a shift: %v", x.Shift)
	}
	p.explain(1, queued("a", 4*ms))
	p.step(counts("a", 1)) // a window without information
	began := noon.Add(time.Duration(p.next))
	for n := range 30 {
		x := explained(t, p.explain(1, queued("a", 77*ms)), "a")
		if n < settling-1 {
			if x.Shift != nil {
				t.Errorf("after %d windows: shift %v", n+1, x.Shift)
			}
			continue
		}
		want := &scope.Shift{Cause: scope.Cause{Kind: trace.Mailbox, Name: "queue_2"}, Since: began, From: (11*4 + 13) / 1200.0, To: 0.77}
		if diff := cmp.Diff(want, x.Shift); diff != "" {
			t.Fatalf("%d windows later: %s", n, diff)
		}
		if got, want := x.Sentence(), "since "+began.Format("15:04:05")+" UTC waiting in the mailbox of queue_2 grew from 5 % to 77 %"; got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	for range 60 { // until it has become usual
		p.explain(1, queued("a", 77*ms))
	}
	if x := explained(t, p.explain(1, queued("a", 77*ms)), "a"); x.Shift != nil || x.Quiet != 60 {
		t.Errorf("after %d such windows: shift %v", x.Quiet, x.Shift)
	}
}

// The text of a frame is the same on any machine in any time zone.
func TestShiftElsewhere(t *testing.T) {
	here := time.Local
	t.Cleanup(func() { time.Local = here })
	time.Local = time.FixedZone("UTC+9", 9*60*60)
	s := scope.Shift{Cause: scope.Cause{Kind: trace.GC, Own: true}, Since: noon.Local(), From: 0.04, To: 0.77}
	if got, want := s.String(), "since 12:00:00 UTC garbage collection of its own process grew from 4 % to 77 %"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A shift begins at the first window whose share is closer to the present one than to the earlier
// one.
func TestShiftBegins(t *testing.T) {
	p := newPlay(t, system(t, "", spec("a", 1)))
	for range 20 {
		p.explain(1, queued("a", 0))
	}
	p.explain(1, queued("a", 90*ms)) // a single window
	p.explain(1, queued("a", 0))
	p.explain(1, queued("a", 30*ms))
	began := noon.Add(time.Duration(p.next))
	for range settling - 1 {
		p.explain(1, queued("a", 60*ms))
	}
	x := explained(t, p.explain(1, queued("a", 80*ms)), "a")
	if x.Shift == nil || !x.Shift.Since.Equal(began) || x.Shift.To != 0.6 {
		t.Errorf("since %v, want %v", x.Shift, began)
	}
}

// A quiet window that belongs to the shift is not part of the earlier share, however few earlier
// windows there are.
func TestShiftBeganQuietly(t *testing.T) {
	p := newPlay(t, system(t, "", spec("a", 1)))
	for range 10 {
		p.explain(1, queued("a", 4*ms))
	}
	for range settling - 1 {
		p.explain(1, queued("a", 77*ms))
	}
	if s := explained(t, p.explain(1, queued("a", 77*ms)), "a").Shift; s == nil || s.From != 0.04 || !s.Since.Equal(noon.Add(10*time.Second)) {
		t.Errorf("shift %v", s)
	}
}

// Windows in which a trigger fires or is active never count as usual. A firing shows at once
// which share has grown in its window.
func TestShiftWithTrigger(t *testing.T) {
	s := system(t, "", spec("a", 1))
	s.Outcomes[0].Triggers = triggers(t, "load", "5")
	p := newPlay(t, s)
	for range 10 {
		p.explain(1, queued("a", 4*ms))
	}
	began := noon.Add(time.Duration(p.next))
	for n := range 200 {
		f := p.explain(9, queued("a", 77*ms))
		x := explained(t, f, "a")
		if n == 0 {
			want := "since 12:00:10 UTC waiting in the mailbox of queue_2 grew from 4 % to 77 %; 77 % of a #7 was waiting in the mailbox of <0.2.0> (queue_2); 23 % was running of its own process"
			if len(f.Fired) != 1 || f.Fired[0].Explanation != want {
				t.Errorf("%+v fired, want the explanation %q", f.Fired, want)
			}
		}
		if n < settling-1 {
			continue
		}
		if x.Shift == nil || !x.Shift.Since.Equal(began) || x.Shift.From != 0.04 || x.Quiet != 10 {
			t.Fatalf("%d windows later: shift %v compared with %d quiet windows, want since %v", n, x.Shift, x.Quiet, began)
		}
	}
}

// An outcome that is only calculated is explained by the slowest outcome behind it.
func TestExplanationOfCalculated(t *testing.T) {
	s := system(t, "both = b -> a;", spec("a", 1), spec("b", 1), spec("both", 1), spec("else", 1))
	s.Outcomes[2].Triggers = triggers(t, "load", "5")
	s.Outcomes[3].Triggers = triggers(t, "load", "5")
	p := newPlay(t, s)
	f := p.batch(outcome.Batch{Time: noon, Counts: []outcome.Counts{counts("a", 1), counts("b", 1), counts("both", 9), counts("else", 9)},
		Instances: []outcome.Instance{queued("a", 60*ms), explainedBy("b", 1, spell{trace.GC, 1, "", 99 * ms, trace.Exact, ""})}})
	if diff := cmp.Diff([]string{"load both", "load else"}, fired(f)); diff != "" {
		t.Fatal(diff)
	}
	if got := f.Fired[0].Explanation; !strings.HasPrefix(got, "a: 60 % of a #7 was waiting in the mailbox") {
		t.Errorf("both is explained by %q", got)
	}
	if got := f.Fired[1].Explanation; got != "" {
		t.Errorf("else is explained by %q", got)
	}
}

// Usual shares are dropped like other histories. Switching explanations on or off does not begin
// a new history.
func TestConfigureDropsUsualShares(t *testing.T) {
	s := system(t, "", spec("a", 1))
	p := newPlay(t, s)
	for range 6 {
		p.explain(1, queued("a", 4*ms))
	}
	on := system(t, "", spec("a", 1))
	on.Outcomes[0].Spec.Explain = true
	if err := p.engine.Configure(on); err != nil {
		t.Fatal(err)
	}
	if f := p.explain(1, queued("a", 4*ms)); explained(t, f, "a").Quiet != 6 || len(f.Notices) > 0 {
		t.Errorf("compared with %d windows; %q", explained(t, f, "a").Quiet, f.NoticeTexts())
	}
	wider := system(t, "", spec("a", 1))
	wider.Outcomes[0].Spec.BinWidth = 2 * ms
	if err := p.engine.Configure(wider); err != nil {
		t.Fatal(err)
	}
	if x := explained(t, p.explain(1, queued("a", 77*ms)), "a"); x.Quiet != 0 || x.Shift != nil {
		t.Errorf("with other bins compared with %d windows", x.Quiet)
	}
}

// The same windows give the same explanations, and a copy of a frame does not change.
func TestExplainedAgain(t *testing.T) {
	var first []*scope.Explained
	for range 2 {
		p := newPlay(t, system(t, "", spec("a", 1)))
		for n := range 40 {
			f := p.explain(1, queued("a", time.Duration(n*n%97)*ms), explainedBy("a", uint64(n), spell{trace.GC, 1, "", ms, trace.Exact, ""}, spell{trace.Port, 3, "", ms, trace.Exact, ""})).Clone()
			switch x := explained(t, f, "a"); {
			case len(first) < 40:
				first = append(first, x)
			default:
				if diff := cmp.Diff(first[n], x); diff != "" {
					t.Fatalf("window %d: %s", n, diff)
				}
			}
		}
	}
}

// A process that gets its name later or loses it counts as the same process, so no share seems to
// grow.
func TestNameComesLater(t *testing.T) {
	waited := func(name string) outcome.Instance {
		return explainedBy("a", 1, spell{trace.Running, 1, "", 10 * ms, trace.Exact, ""}, spell{trace.Mailbox, 2, name, 90 * ms, trace.Exact, ""})
	}
	for _, unnamed := range [][]int{{0}, {0, 1, 2}, {7}, {0, 6, 7}} {
		p := newPlay(t, system(t, "", spec("a", 1)))
		for n := range 12 {
			name := "queue_2"
			if slices.Contains(unnamed, n) {
				name = ""
			}
			x := explained(t, p.explain(1, waited(name)), "a")
			if x.Shift != nil {
				t.Errorf("unnamed in %v: window %d: shift %v", unnamed, n, x.Shift)
			}
			if most := x.Shares[0]; n > 0 && most.Cause.Name == "queue_2" && most.Usual != 0.9 {
				t.Errorf("unnamed in %v: in window %d it was %v usually", unnamed, n, most.Usual)
			}
		}
	}
}

// The process of a shift may get its name while the shift lasts.
func TestNameComesWithinShift(t *testing.T) {
	p := newPlay(t, system(t, "", spec("a", 1)))
	for range 10 {
		p.explain(1, queued("a", 0))
	}
	began := noon.Add(time.Duration(p.next))
	for n, name := range []string{"", "", "", "", "", "", "queue_2", ""} {
		x := explained(t, p.explain(1, explainedBy("a", 1, spell{trace.Running, 1, "", 10 * ms, trace.Exact, ""}, spell{trace.Mailbox, 9, name, 90 * ms, trace.Exact, ""})), "a")
		if n >= settling-1 && (x.Shift == nil || !x.Shift.Since.Equal(began) || x.Shift.From != 0 || x.Shift.To != 0.9) {
			t.Errorf("window %d: shift %v, want since %v", n, x.Shift, began)
		}
	}
}

// Within a tally the name may come from any instance.
func TestTallyNames(t *testing.T) {
	named := explainedBy("a", 1, spell{trace.Mailbox, 2, "queue_2", 5 * ms, trace.Exact, ""}, spell{trace.GC, 3, "queue_2", ms, trace.Exact, ""})
	unnamed := explainedBy("a", 2, spell{trace.Mailbox, 2, "", 3 * ms, trace.Exact, ""}, spell{trace.GC, 2, "", ms, trace.Exact, ""}, spell{trace.GC, 4, "", ms, trace.Exact, ""})
	want := []scope.Share{
		{Cause: scope.Cause{Kind: trace.Mailbox, Name: "queue_2"}, Time: 8 * ms, Of: 8.0 / 11},
		{Cause: scope.Cause{Kind: trace.GC, Name: "queue_2"}, Time: 2 * ms, Of: 2.0 / 11},
		{Cause: scope.Cause{Kind: trace.GC, Process: 4}, Time: ms, Of: 1.0 / 11},
	}
	for _, order := range [][]outcome.Instance{{named, unnamed}, {unnamed, named}} {
		var together, apart scope.Tally
		together.Add(order)
		apart.Add(order[:1])
		apart.Add(order[1:])
		for _, tally := range []*scope.Tally{&together, &apart} {
			shares, _ := tally.Shares()
			if diff := cmp.Diff(want, shares); diff != "" || tally.Causes() != 3 {
				t.Errorf("%d causes: %s", tally.Causes(), diff)
			}
		}
	}
}

// The share of a window has the mark of its least certain part, and texts about it show that.
func TestMarks(t *testing.T) {
	waited := func(wait time.Duration, mark trace.Mark) outcome.Instance {
		return explainedBy("a", 7, spell{trace.Mailbox, 2, "queue_2", wait, mark, ""}, spell{trace.Running, 1, "", 100*ms - wait, trace.Exact, ""})
	}
	p := newPlay(t, system(t, "", spec("a", 1)))
	x := explained(t, p.explain(2, waited(80*ms, trace.Inferred), waited(90*ms, trace.Exact)), "a")
	want := []scope.Share{
		{Cause: scope.Cause{Kind: trace.Mailbox, Name: "queue_2"}, Doubt: scope.Doubt{Mark: trace.Inferred}, Time: 170 * ms, Of: 0.85},
		{Cause: scope.Cause{Kind: trace.Running, Own: true}, Time: 30 * ms, Of: 0.15},
	}
	if diff := cmp.Diff(want, x.Shares); diff != "" {
		t.Error(diff)
	}
	if got, want := x.Sentence(), "85 % of the time of 2 instances was waiting in the mailbox of queue_2, inferred from the order of messages"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := x.Shares[0].String(), "waiting in the mailbox of queue_2 (inferred)"; got != want {
		t.Errorf("the share is %q, want %q", got, want)
	}
	if got, want := x.Shares[1].String(), "running of its own process"; got != want {
		t.Errorf("the share is %q, want %q", got, want)
	}
	for range 10 {
		p.explain(1, waited(0, trace.Exact))
	}
	for range settling {
		p.explain(1, waited(90*ms, trace.Inferred))
	}
	x = explained(t, p.explain(1, waited(90*ms, trace.Ambiguous)), "a")
	if x.Shift == nil || x.Shift.Mark != trace.Ambiguous || !strings.Contains(x.Shift.String(), " waiting in the mailbox of queue_2 (ambiguous) grew from ") {
		t.Errorf("the shift is %+v: %v", x.Shift, x.Shift)
	}

	// If causes turn out to be the same, the mark of the least certain one counts.
	var tally scope.Tally
	tally.Add([]outcome.Instance{explainedBy("a", 1, spell{trace.Mailbox, 2, "", ms, trace.Inferred, ""})})
	tally.Add([]outcome.Instance{explainedBy("a", 2, spell{trace.Mailbox, 3, "queue_2", ms, trace.Exact, ""}, spell{trace.GC, 2, "queue_2", 3 * ms, trace.Exact, ""})})
	if shares, _ := tally.Shares(); len(shares) != 2 || shares[0].Mark != trace.Exact || shares[1].Mark != trace.Inferred {
		t.Errorf("%+v", shares)
	}
}

// Unexplained time has the reason of its longest part, and shows if there are other reasons.
func TestReasons(t *testing.T) {
	const timer, signal = "woken by a timer", "woken by a signal"
	lost := func(id uint64, reason string, time time.Duration) outcome.Instance {
		return explainedBy("a", id, spell{trace.Unexplained, 1, "", time, trace.Exact, reason}, spell{trace.Running, 1, "", 100*ms - time, trace.Exact, ""})
	}
	for _, test := range []struct {
		instances      []outcome.Instance
		reason, phrase string
	}{
		{[]outcome.Instance{lost(1, timer, 80*ms), lost(2, timer, 90*ms)}, timer, "is unexplained: woken by a timer"},
		{[]outcome.Instance{lost(1, timer, 80*ms), lost(2, signal, 90*ms)}, signal + ", at least in part", "is unexplained: woken by a signal, at least in part"},
		{[]outcome.Instance{lost(1, timer, 90*ms), lost(2, signal, 80*ms), lost(3, timer, 85*ms)}, timer + ", at least in part", "is unexplained: woken by a timer, at least in part"},
		{[]outcome.Instance{lost(1, "", 90*ms), lost(2, signal, 80*ms)}, "", "is unexplained"},
		{[]outcome.Instance{lost(1, "\x1b[2J", 90*ms)}, "\x1b[2J", "is unexplained: \\u001b[2J"},
	} {
		x := explained(t, newPlay(t, system(t, "", spec("a", 1))).explain(9, test.instances...), "a")
		if got := x.Shares[0].Reason; got != test.reason {
			t.Errorf("the reason is %q, want %q", got, test.reason)
		}
		if got := x.Sentence(); !strings.HasSuffix(got, " "+test.phrase) {
			t.Errorf("got %q, want %q", got, test.phrase)
		}
	}
	s := scope.Share{Cause: scope.Cause{Kind: trace.Unexplained, Own: true}, Doubt: scope.Doubt{Mark: trace.Inferred, Reason: timer}}
	if got, want := s.String(), "unexplained (inferred: woken by a timer)"; got != want {
		t.Errorf("a share is %q, want %q", got, want)
	}
	s.Mark = trace.Exact
	if got, want := s.String(), "unexplained (woken by a timer)"; got != want {
		t.Errorf("a share is %q, want %q", got, want)
	}
	p := newPlay(t, system(t, "", spec("a", 1)))
	for range 10 {
		p.explain(1, lost(1, "", 0))
	}
	for range settling - 1 {
		p.explain(1, lost(1, timer, 80*ms))
	}
	if x := explained(t, p.explain(1, lost(1, timer, 80*ms)), "a"); x.Shift == nil || !strings.Contains(x.Shift.String(), " unexplained (woken by a timer) grew from ") {
		t.Errorf("the shift is %v", x.Shift)
	}
}
