package script

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/pairing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ms = int64(time.Millisecond)

// spec returns a built-in outcome with bins of 1 ms.
func spec(builtin string, bins int) outcome.Spec {
	return outcome.Spec{Name: strings.ReplaceAll(builtin, "-", "_"), VM: outcome.Events{Builtin: builtin}, BinWidth: time.Millisecond, Bins: bins}
}

// plan returns a plan with windows of 100 ms.
func plan(from int64, specs ...outcome.Spec) outcome.Plan {
	return outcome.Plan{From: from, Window: 100 * time.Millisecond, Specs: specs}
}

// A tape is a source whose windows the test collects in order.
type tape struct {
	*Source
	t    testing.TB
	plan outcome.Plan
}

// play opens a source whose present time is now.
func play(t testing.TB, cfg Config, now int64) *tape {
	t.Helper()
	s, err := newSource(cfg, func() int64 { return now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &tape{Source: s, t: t, plan: cfg.Plan}
}

// recorded opens a source for a text with the header. The times in the text are those of the
// plan, from the first line on.
func recorded(t testing.TB, p outcome.Plan, lines ...string) *tape {
	t.Helper()
	text := header + "\n" + strings.Join(lines, "\n") + "\n"
	return play(t, Config{Text: io.NopCloser(strings.NewReader(text)), Recorded: true, Plan: p}, 0)
}

// at makes a line from its beginning and a time in ms.
func at(begin string, t float64, rest ...string) string {
	return strings.Join(append([]string{begin, fmt.Sprint(int64(t * float64(ms)))}, rest...), " ")
}

// window returns the batch of the next window.
func (p *tape) window() (outcome.Batch, error) {
	w := p.plan.At(p.plan.Number(p.next))
	return p.Collect(p.t.Context(), w)
}

// want compares the counts of the next window. Expected counts without a VM belong to the pid 7.
func (p *tape) want(want ...outcome.Counts) outcome.Batch {
	p.t.Helper()
	from := p.next
	b, err := p.window()
	if err != nil {
		p.t.Fatalf("window at %d ms: %v", from/ms, err)
	}
	p.compare(from, want, b.Counts)
	return b
}

func (p *tape) compare(from int64, want, got []outcome.Counts) {
	p.t.Helper()
	for i := range want {
		if want[i].VM == (outcome.VM{}) {
			want[i].VM.PID = 7
		}
		if want[i].Outcome == "" {
			want[i].Outcome = p.plan.Specs[i].Name
		}
		if want[i].Bins == nil && i < len(got) {
			want[i].Bins = make([]uint64, len(got[i].Bins))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Errorf("window at %d ms (-want +got):\n%s", from/ms, diff)
	}
}

// wantEnd compares the counts of the last window.
func (p *tape) wantEnd(want ...outcome.Counts) {
	p.t.Helper()
	from := p.next
	b, err := p.window()
	if !errors.Is(err, outcome.ErrEnded) {
		p.t.Errorf("window at %d ms: error %v, want %v", from/ms, err, outcome.ErrEnded)
	}
	p.compare(from, want, b.Counts)
	if b, err := p.window(); !errors.Is(err, outcome.ErrEnded) || b.Counts != nil {
		p.t.Errorf("after the end: %v, %+v", err, b)
	}
}

func bins(n int, at ...int) []uint64 {
	b := make([]uint64, n)
	for _, i := range at {
		b[i]++
	}
	return b
}

// Events become instances of the windows in which they end.
func TestCounts(t *testing.T) {
	lines := []string{
		"t 0",
		at("s gc 7 12", 10), at("e gc 7 12", 12.5, "=30"),
		at("s gc 7 13", 20), at("e gc 7 12", 21, "=9"), at("e gc 7 13", 20.5, "=4"),
		at("s gc 7 12", 50), at("e gc 7 12", 71, "=9"),
		at("s gc 7 12", 90),
		at("s gc 7 13", 98), at("e gc 7 13", 100, "=1"),
		at("e gc 7 12", 115, "=2"),
		at("t", 1000),
	}
	p := recorded(t, plan(0, spec("gc", 20)), lines...)
	p.want(outcome.Counts{Starts: 5, Ends: 4, Successes: 2, Timeouts: 1, Orphans: 1, Lates: 1, Amount: 34, Bins: bins(20, 2, 0)})
	p.want(outcome.Counts{Ends: 2, Successes: 1, Timeouts: 1, Lates: 1, Amount: 1, Bins: bins(20, 2)})
	p.want(outcome.Counts{})
}

// Lines in a different order than their times are sorted, provided that no more than half a
// second of the script's time has passed. The results are those of the engine.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hop := spec("hop", 30)
		rule, err := hop.VM.Rule()
		if err != nil {
			rt.Fatal(err)
		}
		engine := pairing.New(pairing.ConfigOf(rule, hop.DMax()))
		var facts []pairing.Fact
		type entry struct {
			line    string
			arrives float64 // time at which the line arrives, ms
		}
		entries := []entry{}
		now := 1.0
		for range rapid.IntRange(0, 50).Draw(rt, "events") {
			now += float64(rapid.IntRange(1, 20_000).Draw(rt, "pause")) / 1000
			ev := pairing.Event{
				Kind: rapid.SampledFrom([]pairing.Kind{pairing.Start, pairing.End, pairing.Sync}).Draw(rt, "kind"),
				Key:  rapid.SampledFrom([]string{"<0.1.0>", "<0.2.0>"}).Draw(rt, "key"),
				Time: int64(now * float64(ms)),
			}
			facts = engine.Add(facts, ev)
			begin := map[pairing.Kind]string{pairing.Start: "s", pairing.End: "e", pairing.Sync: "y"}[ev.Kind] + " hop 7 " + ev.Key
			entries = append(entries, entry{at(begin, now), now + float64(rapid.IntRange(0, 499).Draw(rt, "late"))})
		}
		for beat := 100.0; beat < now+1000; beat += 100 {
			entries = append(entries, entry{at("t", beat), beat})
		}
		slices.SortStableFunc(entries, func(a, b entry) int {
			switch {
			case a.arrives < b.arrives:
				return -1
			case a.arrives > b.arrives:
				return 1
			}
			return 0
		})
		lines := []string{"t 0"}
		for _, e := range entries {
			lines = append(lines, e.line)
		}
		want := outcome.Counts{Bins: make([]uint64, 30)}
		for _, f := range engine.Advance(facts, int64(now)*ms+100*ms) {
			switch f.What {
			case pairing.Started:
				want.Starts++
			case pairing.Ended:
				want.Ends++
			case pairing.Succeeded:
				want.Successes++
				want.Inferred++
				want.Bins[min(29, (f.Time-f.Start)/ms)]++
			case pairing.TimedOut:
				want.Timeouts++
			case pairing.Orphaned:
				want.Orphans++
			case pairing.Late:
				want.Lates++
			case pairing.Unpaired:
				want.Loss.Unpaired++
			}
		}
		p := recorded(t, plan(0, hop), lines...)
		defer p.Close()
		got := outcome.Counts{Bins: make([]uint64, 30)}
		for range int(now)/100 + 2 {
			b, err := p.window()
			if err != nil {
				rt.Fatal(err)
			}
			for _, c := range b.Counts {
				n := c
				n.Outcome, n.VM = "", outcome.VM{}
				sum := got.Add(n)
				sum.Bins = got.Bins
				for i, k := range n.Bins {
					sum.Bins[i] += k
				}
				got = sum
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Errorf("-want +got:\n%s\n%s", diff, strings.Join(lines, "\n"))
		}
	})
}

// Events that arrive later are counted as missed, and only open instances of the same key are lost.
func TestLate(t *testing.T) {
	p, write := live(t, 5000*ms, plan(4000*ms, spec("gc", 20)))
	write(header, at("t", 4000), at("s gc 7 12", 4040), at("s gc 7 13", 4040), at("t", 4545), at("t", 4555))
	p.Watch(t.Context()) // processes everything before 4055 ms
	write(at("e gc 7 12", 4044), at("e gc 7 13", 4055), at("t", 4600), at("t", 5000))
	p.want(outcome.Counts{Starts: 2, Ends: 1, Successes: 1, Bins: bins(20, 15), Loss: outcome.Loss{Missed: 1, Cut: 1}})
	p.want(outcome.Counts{})
}

// If a fetch leaves instances of a receiver behind, they are lost at the receiver's next fetch.
func TestSync(t *testing.T) {
	p := recorded(t, plan(0, spec("hop", 20)), "t 0",
		at("s hop 7 <0.1.0>", 10), at("s hop 7 <0.1.0>", 11), at("e hop 7 <0.1.0>", 12), at("y hop 7 <0.1.0>", 13),
		at("s hop 7 <0.1.0>", 14), at("e hop 7 <0.1.0>", 17), at("t", 1000))
	p.want(outcome.Counts{Starts: 3, Ends: 2, Successes: 2, Inferred: 2, Bins: bins(20, 2, 3), Loss: outcome.Loss{Unpaired: 1}})
}

// A sync that comes too late is ignored, and nothing is lost.
func TestLateSync(t *testing.T) {
	p, write := live(t, 5000*ms, plan(4000*ms, spec("hop", 20)))
	write(header, at("t", 4000), at("s hop 7 <0.1.0>", 4040), at("t", 4545), at("t", 4555))
	p.Watch(t.Context()) // processes everything before 4055 ms
	write(at("y hop 7 <0.1.0>", 4044), at("e hop 7 <0.1.0>", 4055), at("t", 4600), at("t", 5000))
	p.want(outcome.Counts{Starts: 1, Ends: 1, Successes: 1, Inferred: 1, Bins: bins(20, 15)})
}

// If lines are missing, open instances are given up and do not time out. The same holds for
// instances that started before the loss was reported. Instances that start later are unaffected.
func TestLost(t *testing.T) {
	p := recorded(t, plan(0, spec("gc", 20), spec("file-io", 20)),
		"t 0", at("s gc 7 12", 10), at("s gc 7 13", 70), at("e gc 7 13", 71), at("s gc 7 13", 73), at("t", 75),
		"Lost 17 events",
		at("s gc 7 14", 76), at("s file_io 7 15", 74), at("e gc 7 14", 78), at("e gc 7 13", 79), at("s gc 7 14", 80), at("t", 1000))
	p.want(
		outcome.Counts{Starts: 5, Ends: 3, Successes: 2, Orphans: 1, Bins: bins(20, 1, 2), Loss: outcome.Loss{Missed: 17, Cut: 2}},
		outcome.Counts{Starts: 1, Loss: outcome.Loss{Missed: 17, Cut: 1}},
	)
	p.want(outcome.Counts{Timeouts: 1}, outcome.Counts{})
	if n := p.Watch(t.Context()); len(n) != 2 || n[0].Text != "the tracer dropped 17 lines for lack of space" {
		t.Errorf("%v", n)
	}
}

// A line that cannot be understood is rejected, and counts as a loss of its outcome, because its
// meaning is unknown.
func TestRejected(t *testing.T) {
	p := recorded(t, plan(0, spec("gc", 20), spec("file-io", 20)),
		"t 0", at("s gc 7 12", 10), at("s file_io 7 12", 10), "nonsense", "", "e gc 7 ", at("t", 1000))
	b := p.want(
		outcome.Counts{Starts: 1, Loss: outcome.Loss{Rejected: 1, Cut: 1}},
		outcome.Counts{Starts: 1, Timeouts: 1},
	)
	want := outcome.Rejected{Count: 2, Last: `"e gc 7 ": ` + errKey.Error()}
	if b.Rejected != want {
		t.Errorf("got %+v, want %+v", b.Rejected, want)
	}
	b = p.want(outcome.Counts{}, outcome.Counts{})
	if b.Rejected.Count != 0 {
		t.Errorf("counted again: %+v", b.Rejected)
	}
	if n := p.Watch(t.Context()); len(n) != 2 || n[1].Text != "2 lines rejected, the last one "+want.Last {
		t.Errorf("%v", n)
	}
}

// An event in the far future and an event of an unwanted outcome are reported and have no other
// effect.
func TestFutureAndUnwantedEvents(t *testing.T) {
	p := recorded(t, plan(0, spec("gc", 20)),
		"t 0", at("s gc 7 12", 20_000), at("s hop 7 <0.1.0>", 10), at("t", 1000))
	b := p.want(outcome.Counts{Loss: outcome.Loss{Rejected: 1}})
	if b.Rejected.Count != 1 || !strings.HasSuffix(b.Rejected.Last, errAhead.Error()) {
		t.Errorf("%+v", b.Rejected)
	}
	var texts []string
	for _, n := range p.Watch(t.Context()) {
		texts = append(texts, n.Text)
	}
	if !slices.Contains(texts, `the script tells of an outcome "hop", which the scope file does not have`) {
		t.Errorf("%q", texts)
	}
}

// A time far ahead counts only after a second one that is not earlier confirms it. One bad line
// makes no other line late, and does not extend the observation beyond the end of the text.
func TestLeap(t *testing.T) {
	p := recorded(t, plan(0, spec("gc", 20)),
		"t 0", at("t", 30_000_000), at("s gc 7 12", 10), at("e gc 7 12", 12.5), at("t", 100), at("s gc 7 12", 110), at("e gc 7 12", 112.5), at("t", 120), at("t", 30_000_000))
	b := p.want(outcome.Counts{Starts: 1, Ends: 1, Successes: 1, Bins: bins(20, 2)})
	if want := fmt.Sprintf("%q: %v", at("t", 30_000_000), errLeap); b.Rejected.Count != 2 || b.Rejected.Last != want {
		t.Errorf("%+v", b.Rejected)
	}
	p.wantEnd(outcome.Counts{Starts: 1, Ends: 1, Successes: 1, Bins: bins(20, 2)})
}

// After a real pause time continues.
func TestPause(t *testing.T) {
	p := recorded(t, outcome.Plan{Window: 20 * time.Second, Specs: []outcome.Spec{spec("gc", 20)}},
		"t 0", at("t", 19_900), at("t", 20_000), at("s gc 7 12", 20_010), at("e gc 7 12", 20_012.5), at("t", 20_100), at("t", 21_000))
	p.wantNone(false)
	p.wantEnd(outcome.Counts{Starts: 1, Ends: 1, Successes: 1, Bins: bins(20, 2)})
}

// Waiting records are limited, by the length of their texts too. Further records are processed
// early, and none is lost.
func TestWaitingBytes(t *testing.T) {
	p := recorded(t, plan(0, spec("gc", 20)), "t 0")
	p.window()
	n := maxWaitingBytes/maxKey + 100
	for i := range n {
		key := fmt.Sprintf("%0*d", maxKey, i)
		p.enter(record{kind: event, outcome: "gc", pid: 7, event: pairing.Event{Kind: pairing.Start, Key: key, Time: int64(200*ms) + int64(i)}})
		if p.waiting.bytes > maxWaitingBytes {
			t.Fatalf("%d bytes wait", p.waiting.bytes)
		}
	}
	if len := p.waiting.len(); len < n/2 || len >= n {
		t.Errorf("%d of %d wait", len, n)
	}
	p.settle(300 * ms)
	if p.waiting.len() != 0 || p.waiting.bytes != 0 {
		t.Errorf("%d wait, with %d bytes", p.waiting.len(), p.waiting.bytes)
	}
}

// Reports of lost lines wait too, and their number is limited as well.
func TestWaitingLost(t *testing.T) {
	p := recorded(t, plan(0, spec("gc", 20)), "t 0")
	p.window()
	for range maxWaiting + 10 {
		p.enter(record{kind: lost, count: 1})
	}
	if p.waiting.len() > maxWaiting {
		t.Errorf("%d wait", p.waiting.len())
	}
}

// VMs are distinguished up to a limit, and further ones are counted together.
func TestVMs(t *testing.T) {
	lines := []string{"t 0"}
	for pid := 1; pid <= maxVMs+2; pid++ {
		lines = append(lines, fmt.Sprintf("s gc %d 5 %d", pid, ms), fmt.Sprintf("e gc %d 5 %d", pid, 2*ms-1))
	}
	p := recorded(t, plan(0, spec("gc", 20)), append(lines, at("t", 1000))...)
	want := []outcome.Counts{{Outcome: "gc", VM: outcome.VM{Node: "further VMs"}, Loss: outcome.Loss{Crowded: 2}}}
	for pid := 1; pid <= maxVMs; pid++ {
		want = append(want, outcome.Counts{Outcome: "gc", VM: outcome.VM{PID: pid}, Starts: 1, Ends: 1, Successes: 1, Bins: bins(20, 0)})
	}
	p.want(want...)
}

// Single instances are delivered as the outcome requests, sorted by their ends, with the process
// from the key.
func TestInstances(t *testing.T) {
	life := spec("lifetime", 50)
	life.Detail = outcome.Everything
	p := recorded(t, plan(0, life),
		"t 0", at("s lifetime 7 <0.88.2>", 1), at("s lifetime 7 <0.89.0>", 2), at("e lifetime 7 <0.89.0>", 4), at("e lifetime 7 <0.88.2>", 5), at("t", 1000))
	b := p.want(outcome.Counts{Starts: 2, Ends: 2, Successes: 2, Bins: bins(50, 2, 4)})
	want := []outcome.Instance{
		{Outcome: "lifetime", VM: outcome.VM{PID: 7}, Start: 2 * ms, End: 4 * ms, Process: 89},
		{Outcome: "lifetime", VM: outcome.VM{PID: 7}, Start: ms, End: 5 * ms, Process: 88 | 2<<32},
	}
	if diff := cmp.Diff(want, b.Instances); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A key that is a process is parsed as one.
func TestProcess(t *testing.T) {
	for key, want := range map[string]outcome.PID{
		"<0.12.3>": 12 | 3<<32, "<5.12.3>": 12 | 3<<32 | 5<<48,
		"4711": 0, "<0.12>": 0, "<0.12.3": 0, "<a.12.3>": 0, "<0.12.99999>": 0, "<0.1.2.3>": 0, "": 0,
	} {
		if got := process(key); got != want {
			t.Errorf("%q: %v, want %v", key, got, want)
		}
	}
}

// At the end of the text open instances are given up, and windows continue up to there.
func TestEnd(t *testing.T) {
	p := recorded(t, plan(0, spec("gc", 20)),
		"t 0", at("s gc 7 12", 10), at("s gc 7 12", 150), at("t", 160))
	p.want(outcome.Counts{Starts: 1, Timeouts: 1})
	p.wantEnd(outcome.Counts{Starts: 1, Loss: outcome.Loss{Cut: 1}})
}

// An incomplete line at the end of the text is rejected.
func TestHalfLine(t *testing.T) {
	text := header + "\nt 0\ns gc 7 12 10"
	p := play(t, Config{Text: io.NopCloser(strings.NewReader(text)), Recorded: true, Plan: plan(0, spec("gc", 20))}, 0)
	b, err := p.window()
	if !errors.Is(err, outcome.ErrEnded) || b.Rejected.Count != 1 || !strings.HasSuffix(b.Rejected.Last, errHalf.Error()) {
		t.Errorf("%v, %+v", err, b.Rejected)
	}
}

// Lines of the tracer before the header are skipped. A text without a header is invalid.
func TestHeader(t *testing.T) {
	collect := func(text string) error {
		p := play(t, Config{Text: io.NopCloser(strings.NewReader(text)), Recorded: true, Plan: plan(0, spec("gc", 20))}, 0)
		_, err := p.window()
		return err
	}
	if err := collect("Attaching 12 probes...\n\n" + header + "\r\nt 0\nt 1000000000\n"); err != nil {
		t.Error(err)
	}
	for what, text := range map[string]string{
		"nothing":         "",
		"another version": "beamscope events 2\nt 0\n",
		"another text":    strings.Repeat("GET / HTTP/1.1\n", maxBanner),
	} {
		if err := collect(text); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: error %v, want %v", what, err, ErrFormat)
		}
	}
	if err := collect(header + "\n"); !errors.Is(err, outcome.ErrEnded) {
		t.Errorf("nothing but the header: error %v, want %v", err, outcome.ErrEnded)
	}
	broken := errors.New("broken")
	p := play(t, Config{Text: io.NopCloser(io.MultiReader(strings.NewReader(header+"\nt 0\n"), failing{broken})), Recorded: true, Plan: plan(0, spec("gc", 20))}, 0)
	if _, err := p.window(); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// live opens a source of a live text, and returns a function that writes lines to it.
func live(t testing.TB, now int64, p outcome.Plan) (*tape, func(...string)) {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	return play(t, Config{Text: r, Plan: p}, now), func(lines ...string) {
		t.Helper()
		// A write to the pipe returns when everything was read. After the write of one more line,
		// the previous text has become a chunk.
		for _, text := range []string{strings.Join(lines, "\n") + "\n", "\n"} {
			if _, err := io.WriteString(w, text); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// wantNone expects a window of the outcome gc before any VM was seen.
func (p *tape) wantNone(unobserved bool) {
	p.t.Helper()
	b, err := p.window()
	if err != nil {
		p.t.Fatal(err)
	}
	if diff := cmp.Diff([]outcome.Counts{{Outcome: "gc", Bins: bins(20), Unobserved: unobserved}}, b.Counts); diff != "" {
		p.t.Errorf("-want +got:\n%s", diff)
	}
}

// If the clock is ours it is not converted. Windows that began before the script are unobserved,
// and instances that ended in them are missed. Nothing waits for the script before it begins.
func TestOwnClock(t *testing.T) {
	p, write := live(t, 5000*ms, plan(4000*ms, spec("gc", 20)))
	p.wantNone(true)
	write(header, at("t", 4150), at("s gc 7 12", 4151), at("e gc 7 12", 4151.5), at("s gc 7 12", 4210), at("e gc 7 12", 4210.5), at("t", 5000))
	p.want(outcome.Counts{Unobserved: true, Loss: outcome.Loss{Missed: 1}})
	p.want(outcome.Counts{Starts: 1, Ends: 1, Successes: 1, Bins: bins(20, 0)})
}

// A foreign clock is related to ours once.
func TestForeignClock(t *testing.T) {
	for _, first := range []float64{5001, 987654321} {
		p, write := live(t, 5000*ms, plan(4900*ms, spec("gc", 20)))
		write(header, at("t", first), at("s gc 7 12", first+110), at("e gc 7 12", first+110.5), at("t", first+1000))
		p.wantNone(true)
		p.wantNone(false)
		p.want(outcome.Counts{Starts: 1, Ends: 1, Successes: 1, Bins: bins(20, 0)})
		if n := p.Watch(t.Context()); len(n) == 0 || n[0].Text != "the script's clock is not that of this machine: beamscope treats the script as if it began now" {
			t.Errorf("%v", n)
		}
	}
}

// Before the first window, the first time in the text corresponds to the beginning of that
// window, so that nothing is lost.
func TestForeignClockEarly(t *testing.T) {
	p, write := live(t, 4000*ms, plan(4900*ms, spec("gc", 20)))
	write(header, at("t", 77000), at("s gc 7 12", 77003), at("e gc 7 12", 77003.5), at("t", 78000))
	p.want(outcome.Counts{Starts: 1, Ends: 1, Successes: 1, Bins: bins(20, 0)})
}

// Waiting for a script that no longer reports times is limited. Its windows are unobserved.
func TestStall(t *testing.T) {
	p, write := live(t, 5000*ms, plan(4000*ms, spec("gc", 20)))
	write(header, at("t", 4000), at("s gc 7 12", 4010), at("e gc 7 12", 4010.5), at("t", 4600), at("e gc 7 12", 4150))
	p.want(outcome.Counts{Starts: 1, Ends: 1, Successes: 1, Bins: bins(20, 0)})
	p.want(outcome.Counts{Unobserved: true})
	p.want(outcome.Counts{Unobserved: true})
	n := p.Watch(t.Context())
	if text := "the script has printed no time for a while: is it still running? (2 times)"; len(n) != 2 || n[1].Text != text {
		t.Errorf("%v", n)
	}
	write(at("t", 5000))
	p.want(outcome.Counts{})
}

// If a plan changes an outcome, its open instances are cut. An unchanged outcome continues, even
// if the detail of its instances changes.
func TestPlan(t *testing.T) {
	p := recorded(t, plan(0, spec("gc", 40), spec("file-io", 40), spec("dirty-nif", 40)),
		"t 0", at("s gc 7 1", 90), at("s file_io 7 1", 90), at("s dirty_nif 7 1", 90),
		at("e gc 7 1", 110.5), at("e file_io 7 1", 110.5), at("e dirty_nif 7 1", 110.5), at("t", 2000))
	same, other := spec("gc", 40), spec("file-io", 50)
	same.Detail = outcome.Worst
	next := plan(100*ms, other, same)
	if err := p.Plan(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	p.want(outcome.Counts{Starts: 1}, outcome.Counts{Starts: 1}, outcome.Counts{Starts: 1})
	p.plan = next
	p.want(
		outcome.Counts{Dropped: 1, Loss: outcome.Loss{Cut: 1}},
		outcome.Counts{Ends: 1, Successes: 1, Bins: bins(40, 20)},
	)
}

// A plan that begins while the script is silent takes effect when the script continues. Open
// instances are cut, and ended ones are counted on the new grid. Open instances of a removed
// outcome disappear.
func TestPlanInSilence(t *testing.T) {
	p, write := live(t, 10_000*ms, plan(4000*ms, spec("gc", 1000), spec("file-io", 1000)))
	write(header, at("t", 4000), at("s gc 7 1", 4050), at("s file_io 7 1", 4050), at("t", 4600))
	p.want(outcome.Counts{Starts: 1}, outcome.Counts{Starts: 1})
	changed := plan(4200*ms, spec("file-io", 20))
	if err := p.Plan(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	p.want(outcome.Counts{Unobserved: true}, outcome.Counts{Unobserved: true})
	p.plan = changed
	p.want(outcome.Counts{Unobserved: true})
	write(at("s file_io 7 1", 4310), at("e file_io 7 1", 4340), at("s file_io 7 1", 4350), at("e file_io 7 1", 4352), at("t", 6000))
	p.want(outcome.Counts{Starts: 2, Ends: 2, Successes: 1, Timeouts: 1, Lates: 1, Bins: bins(20, 2), Loss: outcome.Loss{Cut: 1}})
	if len(p.eras) != 1 {
		t.Errorf("%d eras are kept", len(p.eras))
	}
}

// A plan that begins exactly where counting has arrived takes effect at once. So does a plan that
// replaces it.
func TestPlanAtOnce(t *testing.T) {
	for _, plans := range [][]outcome.Plan{
		{plan(100*ms, spec("file-io", 20))},
		{plan(100*ms, spec("gc", 40)), plan(100*ms, spec("file-io", 20))},
	} {
		p := recorded(t, plan(0, spec("gc", 40), spec("file-io", 40)),
			"t 0", at("s gc 7 1", 90), at("s file_io 7 1", 90), at("s file_io 7 1", 110), at("e file_io 7 1", 135), at("t", 2000))
		p.want(outcome.Counts{Starts: 1}, outcome.Counts{Starts: 1})
		for _, next := range plans {
			if err := p.Plan(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			p.plan = next
		}
		cut := outcome.Loss{Cut: 1}
		if len(plans) > 1 {
			cut = outcome.Loss{} // lost with the plan that does not contain it
		}
		p.want(outcome.Counts{Starts: 1, Ends: 1, Timeouts: 1, Lates: 1, Bins: bins(20), Loss: cut})
	}
}

// No plan begins before a window that was already collected, even if the script is behind that
// window.
func TestPlanBehind(t *testing.T) {
	p, write := live(t, 10_000*ms, plan(4000*ms, spec("gc", 20)))
	write(header, at("t", 4000), at("s gc 7 1", 4050), at("t", 4600))
	p.want(outcome.Counts{Starts: 1, Timeouts: 1})
	p.want(outcome.Counts{Unobserved: true})
	if err := p.Plan(t.Context(), plan(4100*ms, spec("gc", 30))); !errors.Is(err, outcome.ErrLate) {
		t.Errorf("error %v, want %v", err, outcome.ErrLate)
	}
}

// A plan that has not begun is replaced without effect.
func TestReplacedPlan(t *testing.T) {
	p := recorded(t, plan(0, spec("gc", 40)), "t 0", at("s gc 7 1", 90), at("e gc 7 1", 110.5), at("t", 2000))
	for _, next := range []outcome.Plan{plan(100*ms, spec("gc", 30)), plan(100*ms, spec("gc", 40))} {
		if err := p.Plan(t.Context(), next); err != nil {
			t.Fatal(err)
		}
	}
	p.want(outcome.Counts{Starts: 1})
	p.want(outcome.Counts{Ends: 1, Successes: 1, Bins: bins(40, 20)})
}

// Plans that cannot be followed are refused, and change nothing.
func TestPlanRefused(t *testing.T) {
	gc := spec("gc", 20)
	with := func(change func(*outcome.Spec)) outcome.Plan {
		s := gc
		change(&s)
		return plan(200*ms, s)
	}
	refused := map[string]outcome.Plan{
		"threads":         with(func(s *outcome.Spec) { s.VM.Builtin = "os-wait" }),
		"groups":          with(func(s *outcome.Spec) { s.Group = outcome.GroupPID }),
		"exits":           with(func(s *outcome.Spec) { s.ExitFails = true }),
		"no such outcome": with(func(s *outcome.Spec) { s.VM.Builtin = "no" }),
		"no bins":         with(func(s *outcome.Spec) { s.Bins = 0 }),
		"twice":           plan(200*ms, gc, gc),
		"no window":       {From: 200 * ms, Specs: []outcome.Spec{gc}},
		"within a window": plan(250*ms, gc),
	}
	p := recorded(t, plan(0, gc), "t 0", at("s gc 7 1", 190), at("e gc 7 1", 200.5), at("t", 2000))
	for what, next := range refused {
		if err := p.Plan(t.Context(), next); !errors.Is(err, ErrPlan) {
			t.Errorf("%s: error %v, want %v", what, err, ErrPlan)
		}
		if what == "within a window" {
			continue
		}
		if _, err := New(Config{Plan: next}); !errors.Is(err, ErrPlan) {
			t.Errorf("%s, at first: error %v, want %v", what, err, ErrPlan)
		}
	}
	p.wantNone(false)
	if err := p.Plan(t.Context(), plan(0, gc)); !errors.Is(err, outcome.ErrLate) {
		t.Errorf("in the past: error %v, want %v", err, outcome.ErrLate)
	}
	p.want(outcome.Counts{Starts: 1})
	p.want(outcome.Counts{Ends: 1, Successes: 1, Bins: bins(20, 10)})
}

// Outcomes that are not outcomes of the VM get no events, whatever the text contains.
func TestSilent(t *testing.T) {
	p := recorded(t, plan(0, outcome.Spec{Name: "gc", Span: "gc", BinWidth: time.Millisecond, Bins: 20}),
		"t 0", at("s gc 7 1", 10), "Lost 3 events", at("t", 2000))
	p.wantNone(false)
	for _, spec := range []outcome.Spec{{Span: "gc"}, {Wrapper: "gc"}} {
		if err := Check(spec); !errors.Is(err, ErrPlan) {
			t.Errorf("%+v: error %v, want %v", spec, err, ErrPlan)
		}
	}
}

// Windows are collected in order, and none after the end.
func TestWrongWindow(t *testing.T) {
	p := recorded(t, plan(0, spec("gc", 40)), "t 0", at("t", 2000))
	for _, w := range []outcome.Window{{From: 100 * ms, To: 200 * ms}, {From: 0, To: 50 * ms}} {
		if _, err := p.Collect(t.Context(), w); err == nil {
			t.Errorf("%+v is collected", w)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.window(); !errors.Is(err, outcome.ErrEnded) {
		t.Errorf("error %v, want %v", err, outcome.ErrEnded)
	}
	if err := p.Plan(t.Context(), p.plan); !errors.Is(err, outcome.ErrEnded) {
		t.Errorf("error %v, want %v", err, outcome.ErrEnded)
	}
}

// For any text, windows follow each other to its end, and the counts add up.
func FuzzSource(f *testing.F) {
	for _, text := range []string{
		"t 0\ns gc 7 12 10000000\ne gc 7 12 12000000 =5\nt 1000000000\n",
		"t 0\ns hop 7 <0.1.0> 1 #0.0\ne hop 7 <0.1.0> 2 #1.2\nLost 3 events\nt 900000000",
		"s call 7 <0.1.0> 9 <0.2.0>\na call 7 <0.1.0> <0.2.0> 8\nt 1\nnonsense\ns gc\ne gc 7 4611686018427387903 4611686018427387903\n",
		"t 0\ns hop 7 k 10\ne hop 7 k 200000\ny hop 7 k 200001\ns hop 7 k 250000\ne hop 7 k 300000\nt 900000000\ny hop 7 k 5\n",
		"t 4611686018427387903\nt 0\nv message 7 k 10\nt 4611686018427387903\n",
	} {
		f.Add(text, int64(0), true)
		f.Add(text, int64(1<<40), false)
	}
	f.Fuzz(func(t *testing.T, text string, now int64, fromFile bool) {
		now &= 1<<50 - 1
		specs := []outcome.Spec{spec("gc", 20), spec("hop", 20), spec("message", 20), spec("call", 20)}
		p := play(t, Config{Text: io.NopCloser(strings.NewReader(header + "\n" + text)), Recorded: fromFile, Plan: plan(now, specs...)}, now)
		for range 10 {
			b, err := p.window()
			for _, c := range b.Counts {
				var binned uint64
				for _, n := range c.Bins {
					binned += n
				}
				if binned != c.Successes || c.Successes+c.Lates+c.Orphans != c.Ends || c.Inferred > c.Successes {
					t.Errorf("%+v", c)
				}
			}
			if err != nil {
				return
			}
		}
	})
}

// BenchmarkSource measures reading and pairing a line.
func BenchmarkSource(b *testing.B) {
	r, w := io.Pipe()
	s, err := newSource(Config{Text: r, Recorded: true, Plan: outcome.Plan{Window: time.Hour, Specs: []outcome.Spec{spec("hop", 100)}}}, func() int64 { return 0 })
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.ReportAllocs()
	go func() {
		defer w.Close()
		var text strings.Builder
		text.WriteString(header + "\nt 0\n")
		for i := range b.N {
			kind := "se"[i%2]
			fmt.Fprintf(&text, "%c hop 7 <0.%d.0> %d #0.0\n", kind, i/2%50, int64(i)*1000)
			if i%100 == 0 {
				fmt.Fprintf(&text, "t %d\n", int64(i)*1000)
			}
			if text.Len() > 4000 {
				if _, err := io.WriteString(w, text.String()); err != nil {
					return
				}
				text.Reset()
			}
		}
		io.WriteString(w, text.String())
	}()
	if _, err := s.Collect(b.Context(), s.eras[0].At(0)); !errors.Is(err, outcome.ErrEnded) {
		b.Fatal(err)
	}
}
