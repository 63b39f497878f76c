package bpf_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/pairing"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// signal is a probe that a test fires with arguments of its choice, which a rule examines.
func signal() dtrace.Probe {
	return dtrace.Probe{
		Name: "user_trace__n950",
		Args: []dtrace.Arg{
			{Name: "pid", Type: dtrace.PID},
			{Name: "tag", Type: dtrace.Text},
			{Name: "kind", Type: dtrace.Int},
			{Name: "key", Type: dtrace.Int},
			{Name: "label", Type: dtrace.Int},
			{Name: "cur", Type: dtrace.Int},
			{Name: "text", Type: dtrace.Text},
			{Name: "more", Type: dtrace.Text},
		},
		Subject: "pid",
	}
}

// Arguments of signal.
const (
	argKind    = 2
	argKey     = 3
	argMessage = 4 // of messageSignals
	argText    = 6
)

// Kinds of signals, in the order of pairing.Kind.
var kinds = []pairing.Kind{pairing.Start, pairing.Via, pairing.Arm, pairing.End}

func signals(kind pairing.Kind) dtrace.Expr {
	return dtrace.Expr{{Probe: signal(), Where: dtrace.Test{Arg: argKind, Number: int64(kind)}}}
}

// ruled is an outcome of signals.
func ruled(r dtrace.Rule, dMax time.Duration) bpf.Outcome {
	return bpf.Outcome{Name: "signals", Rule: &r, DMax: int64(dMax), BinWidth: int64(dMax / 10), Bins: 10}
}

// signalAll makes the VM fire signals, in order.
func signalAll(t *testing.T, c *vmtest.Collector, vm *erlang.VM, events []pairing.Event) {
	t.Helper()
	c.Call(vm, "erlang", "apply", vmtest.Fun(signalsOf(events)))
}

// signalsOf returns the Erlang expression that fires signals.
func signalsOf(events []pairing.Event) string {
	var terms []string
	for _, e := range events {
		label := e.Token.Label
		if e.Message != 0 {
			label = int64(e.Message)
		}
		terms = append(terms, fmt.Sprintf("{%d,%s,%d,%d,<<%q>>}", e.Kind, e.Key, label, e.Token.Cur, e.Text))
	}
	return fmt.Sprintf(
		`lists:foreach(fun({Kind, Key, Label, Cur, Text}) -> true = dyntrace:pn(950, Kind, Key, Label, Cur, Text) end, [%s])`,
		strings.Join(terms, ","))
}

// messageSignals are signals with a label as the address of a message, as if the debugging
// information gave it.
func messageSignals(kind pairing.Kind) dtrace.Expr {
	p := signal()
	p.Args[argMessage].Name, p.Args[argMessage+1].Name = "address", "nothing"
	return dtrace.Expr{{Probe: p, Where: dtrace.Test{Arg: argKind, Number: int64(kind)}}}
}

// observeMessages attaches to a VM whose signals have the address of a message.
func observeMessages(t *testing.T, c *vmtest.Collector, vm *erlang.VM) {
	t.Helper()
	target := vmtest.Target(t, vm)
	target.Messages = make(map[uint64]bpf.Message)
	for _, p := range target.Probes {
		if p.Name == signal().Name {
			for _, site := range p.Sites {
				target.Messages[site.Address] = bpf.Message{Arg: site.Args[argMessage]}
			}
		}
	}
	if _, err := c.Attach(t.Context(), target); err != nil {
		t.Fatal(err)
	}
}

// The programs count random events that have the address of their message as the model
// does. Some messages wait, some never started, and some addresses are used again.
func TestMessagesAreAsTheModel(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	plain := dtrace.Rule{
		Start: messageSignals(pairing.Start), End: messageSignals(pairing.End),
		Key: dtrace.Key{Start: "key", End: "key"}, Pairing: dtrace.FIFO,
	}
	staged := plain
	staged.Via = messageSignals(pairing.Via)
	for name, rule := range map[string]dtrace.Rule{"mailbox": plain, "staged": staged} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			for range 4 {
				events := randomEvents(rng, rule)
				for i := range events {
					events[i].Token = pairing.Token{}
					if events[i].Kind != pairing.Start || len(rule.Via) == 0 {
						events[i].Message = uint64(1 + rng.IntN(4))
					}
				}
				c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{ruled(rule, time.Hour)}})
				observeMessages(t, c, vm)
				signalAll(t, c, vm, events)
				want := counted(rule, events)
				want.Dropped += otherKinds(rule, events)
				if diff := cmp.Diff(want, c.Total(0, vm.PID()).Counters); diff != "" {
					t.Fatalf("-want +got:\n%s\n%v", diff, events)
				}
			}
		})
	}
}

// counted returns the model's counts of events.
func counted(r dtrace.Rule, events []pairing.Event) bpf.Counters {
	engine := pairing.New(pairing.ConfigOf(&r, time.Hour))
	var facts []pairing.Fact
	for i, e := range events {
		e.Time = int64(i + 1)
		facts = engine.Add(facts, e)
	}
	var c bpf.Counters
	for _, f := range facts {
		switch f.What {
		case pairing.Started:
			c.Starts++
		case pairing.Ended:
			c.Ends++
		case pairing.Succeeded:
			c.Successes++
			if f.Inferred {
				c.Inferred++
			}
		case pairing.Orphaned:
			c.Orphans++
		case pairing.Dropped:
			c.Dropped++
		case pairing.Unpaired:
			c.Unpaired++
		}
	}
	return c
}

// Random events of every kind of rule are counted as the model counts them.
func TestRulesAreAsTheModel(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	key := dtrace.Key{Start: "key", End: "key"}
	plain := dtrace.Rule{Start: signals(pairing.Start), End: signals(pairing.End), Key: key}
	with := func(change func(r *dtrace.Rule)) dtrace.Rule {
		r := plain
		change(&r)
		return r
	}
	for name, rule := range map[string]dtrace.Rule{
		"first":     plain,
		"last":      with(func(r *dtrace.Rule) { r.Pairing = dtrace.Last }),
		"loose":     with(func(r *dtrace.Rule) { r.Pairing, r.Loose = dtrace.Last, true }),
		"overtaken": with(func(r *dtrace.Rule) { r.Pairing, r.Overtaken = dtrace.Last, true }),
		"fifo":      with(func(r *dtrace.Rule) { r.Pairing = dtrace.FIFO }),
		"via":       with(func(r *dtrace.Rule) { r.Pairing, r.Via = dtrace.FIFO, signals(pairing.Via) }),
		"armed": with(func(r *dtrace.Rule) {
			r.Pairing, r.Arm, r.Armed, r.ArmedBy = dtrace.Last, signals(pairing.Arm), "text", "text"
		}),
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			for range 4 {
				events := randomEvents(rng, rule)
				c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{ruled(rule, time.Hour)}})
				c.Observe(vm)
				signalAll(t, c, vm, events)
				got := c.Total(0, vm.PID()).Counters
				want := counted(rule, events)
				want.Dropped += otherKinds(rule, events)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("-want +got:\n%s\n%v", diff, events)
				}
			}
		})
	}
}

// randomEvents draws events of a few keys; some have tokens where they count.
func randomEvents(rng *rand.Rand, rule dtrace.Rule) []pairing.Event {
	use := []pairing.Kind{pairing.Start, pairing.End}
	if len(rule.Via) > 0 {
		use = append(use, pairing.Via)
	}
	if len(rule.Arm) > 0 {
		use = append(use, pairing.Arm, pairing.Arm)
	}
	var events []pairing.Event
	for range 200 {
		e := pairing.Event{
			Kind: use[rng.IntN(len(use))],
			Key:  fmt.Sprint(rng.IntN(3)),
			Text: [...]string{"a", "b"}[rng.IntN(2)],
		}
		if rule.Pairing == dtrace.FIFO && rng.IntN(4) == 0 {
			e.Token = pairing.Token{Label: 7, Cur: int64(rng.IntN(3))}
		}
		events = append(events, e)
	}
	return events
}

// otherKinds counts the events that do not satisfy the condition of an expression: at this probe,
// every expression sees all events.
func otherKinds(rule dtrace.Rule, events []pairing.Event) (n uint64) {
	uses := map[pairing.Kind]bool{
		pairing.Start: true,
		pairing.End:   true,
		pairing.Via:   len(rule.Via) > 0,
		pairing.Arm:   len(rule.Arm) > 0,
	}
	for _, e := range events {
		for _, kind := range kinds {
			if uses[kind] && e.Kind != kind {
				n++
			}
		}
	}
	return n
}

// Instances without an end time out, and later ends are late. In a queue a late end does not take
// another instance's place.
func TestRulesTimeOut(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	for name, p := range map[string]dtrace.Pairing{"last": dtrace.Last, "fifo": dtrace.FIFO} {
		t.Run(name, func(t *testing.T) {
			const dMax = 300 * time.Millisecond
			rule := dtrace.Rule{
				Start: signals(pairing.Start), End: signals(pairing.End),
				Key: dtrace.Key{Start: "key", End: "key"}, Pairing: p,
			}
			c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{ruled(rule, dMax)}})
			c.Observe(vm)
			event := func(k pairing.Kind, key int) pairing.Event {
				return pairing.Event{Kind: k, Key: fmt.Sprint(key)}
			}
			signalAll(t, c, vm, []pairing.Event{event(pairing.Start, 1), event(pairing.Start, 2)})
			c.ReadTo(monotonic.Now() + int64(2*dMax))
			signalAll(t, c, vm, []pairing.Event{
				event(pairing.End, 1), event(pairing.End, 1),
				event(pairing.Start, 2),
			})
			want := bpf.Counters{Starts: 3, Ends: 2, Timeouts: 2, Lates: 1, Orphans: 1, Dropped: 5}
			if diff := cmp.Diff(want, c.Total(0, vm.PID()).Counters); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
		})
	}
}

// A message that is never fetched disturbs the order until the receiver has fetched and handled
// later messages: then it is given up, and the others are right.
func TestQueuesGetInStepAgain(t *testing.T) {
	const syncs = 9 // a kind of signals
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	rule := dtrace.Rule{
		Start: signals(pairing.Start), End: signals(pairing.End), Sync: signals(syncs),
		Key: dtrace.Key{Start: "key", End: "key"}, Pairing: dtrace.FIFO,
	}
	o := ruled(rule, time.Hour)
	o.Stream = bpf.StreamAll
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{o}})
	stop := c.Streamed()
	c.Observe(vm)
	// The events are further apart than the 100 µs for which a message may be on its way.
	lot := func(kinds ...pairing.Kind) {
		for _, k := range kinds {
			vmtest.Eval(t, vm, signalsOf([]pairing.Event{{Kind: k, Key: "1"}}))
			vmtest.WaitUntil(monotonic.Now() + int64(time.Millisecond))
		}
	}
	lot(pairing.Start, pairing.End, syncs)
	lot(pairing.Start, pairing.Start, pairing.End, syncs) // one is never fetched
	lot(pairing.Start, pairing.End, syncs)                // and given up here
	lot(pairing.Start, pairing.End, syncs)
	c.ReadTo(monotonic.Now())
	got := c.Total(0, vm.PID()).Counters
	got.Dropped = 0
	want := bpf.Counters{Starts: 5, Ends: 4, Successes: 4, Inferred: 4, Unpaired: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	instances := stop()
	for i := 1; i < len(instances); i++ {
		if instances[i].Start < instances[i-1].End {
			t.Errorf("instance %d starts before the one before it has ended", i)
		}
	}
}

// A past deadline counts even without a sweep since: a start finds a timeout in its place, not an
// instance that it replaces or joins.
func TestDeadlinesBetweenSweeps(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	for name, p := range map[string]dtrace.Pairing{"first": dtrace.First, "last": dtrace.Last} {
		t.Run(name, func(t *testing.T) {
			const dMax = 200 * time.Millisecond
			rule := dtrace.Rule{
				Start: signals(pairing.Start), End: signals(pairing.End),
				Key: dtrace.Key{Start: "key", End: "key"}, Pairing: p,
			}
			c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{ruled(rule, dMax)}, Window: int64(time.Hour)})
			c.Observe(vm)
			start, end := pairing.Event{Kind: pairing.Start, Key: "1"}, pairing.Event{Kind: pairing.End, Key: "1"}
			vmtest.Eval(t, vm, signalsOf([]pairing.Event{start}))
			vmtest.WaitUntil(monotonic.Now() + int64(2*dMax))
			vmtest.Eval(t, vm, signalsOf([]pairing.Event{start, end, end}))
			counts, _, err := c.Read(0)
			if err != nil {
				t.Fatal(err)
			}
			want := bpf.Counters{Starts: 2, Ends: 2, Successes: 1, Timeouts: 1, Lates: 1, Dropped: 4}
			if diff := cmp.Diff(want, counts[0].Counters); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// conditions are tests of all kinds and their combinations, with their meanings.
func conditions() map[string]struct {
	where dtrace.Condition
	holds func(key int, text string) bool
} {
	number := func(op dtrace.Op, n int64) dtrace.Test { return dtrace.Test{Arg: argKey, Op: op, Number: n} }
	text := func(op dtrace.Op, s string, prefix bool) dtrace.Test {
		return dtrace.Test{Arg: argText, Op: op, Text: s, Prefix: prefix}
	}
	long := strings.Repeat("abcdefgh", 15) + "abcdefg" // dtrace.MaxText bytes
	return map[string]struct {
		where dtrace.Condition
		holds func(key int, text string) bool
	}{
		"=":           {number(dtrace.Equal, -3), func(k int, _ string) bool { return k == -3 }},
		"!=":          {number(dtrace.Unequal, 5), func(k int, _ string) bool { return k != 5 }},
		"<":           {number(dtrace.Less, 0), func(k int, _ string) bool { return k < 0 }},
		"<=":          {number(dtrace.LessEqual, 0), func(k int, _ string) bool { return k <= 0 }},
		">":           {number(dtrace.Greater, -3), func(k int, _ string) bool { return k > -3 }},
		">=":          {number(dtrace.GreaterEqual, 5), func(k int, _ string) bool { return k >= 5 }},
		"text":        {text(dtrace.Equal, "lists:seq/2", false), func(_ int, s string) bool { return s == "lists:seq/2" }},
		"no text":     {text(dtrace.Unequal, "lists:seq/2", false), func(_ int, s string) bool { return s != "lists:seq/2" }},
		"prefix":      {text(dtrace.Equal, "lists:", true), func(_ int, s string) bool { return strings.HasPrefix(s, "lists:") }},
		"no prefix":   {text(dtrace.Unequal, "lists:s", true), func(_ int, s string) bool { return !strings.HasPrefix(s, "lists:s") }},
		"empty":       {text(dtrace.Equal, "", false), func(_ int, s string) bool { return s == "" }},
		"long":        {text(dtrace.Equal, long, false), func(_ int, s string) bool { return s == long }},
		"long prefix": {text(dtrace.Equal, long, true), func(_ int, s string) bool { return strings.HasPrefix(s, long) }},
		"not": {dtrace.Not{Condition: dtrace.All{number(dtrace.Greater, 0), text(dtrace.Equal, "lists:", true)}},
			func(k int, s string) bool { return !(k > 0 && strings.HasPrefix(s, "lists:")) }},
		"nested": {
			dtrace.Any{
				dtrace.All{number(dtrace.Less, 0), dtrace.Not{Condition: text(dtrace.Equal, "a", false)}},
				dtrace.All{number(dtrace.Greater, 0), dtrace.Any{text(dtrace.Equal, "a", false), text(dtrace.Equal, "lists:", true)}},
			},
			func(k int, s string) bool {
				return k < 0 && s != "a" || k > 0 && (s == "a" || strings.HasPrefix(s, "lists:"))
			},
		},
	}
}

// Every fired event is counted once: if it satisfies the condition it is a start, and otherwise it
// is dropped.
func TestConditionsDropExactly(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	long := strings.Repeat("abcdefgh", 15) + "abcdefg"
	keys := []int{-3, 0, 5, 1 << 40}
	texts := []string{"", "a", "lists:", "lists:seq/2", "lists:seq/22", "lists:map/2", "abcdefgh", long, long + "h", long[:100]}
	var events []pairing.Event
	for _, k := range keys {
		for _, s := range texts {
			events = append(events, pairing.Event{Key: fmt.Sprint(k), Text: s})
		}
	}
	for name, test := range conditions() {
		t.Run(name, func(t *testing.T) {
			var holds uint64
			for _, k := range keys {
				for _, s := range texts {
					if test.holds(k, s) {
						holds++
					}
				}
			}
			rule := dtrace.Rule{
				Start: dtrace.Expr{{Probe: signal(), Where: test.where}},
				End:   dtrace.Expr{{Probe: signal(), Where: dtrace.Test{Arg: argKind, Number: 99}}},
				Key:   dtrace.Key{Start: "key", End: "key"},
			}
			c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{ruled(rule, time.Hour)}})
			c.Observe(vm)
			signalAll(t, c, vm, events)
			fired := uint64(len(events))
			want := bpf.Counters{Starts: holds, Dropped: fired - holds + fired} // no end satisfies its condition
			if diff := cmp.Diff(want, c.Total(0, vm.PID()).Counters); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// builtin returns the built-in outcome with a name, grouped.
func builtin(t testing.TB, name, group string) bpf.Outcome {
	t.Helper()
	b, ok := dtrace.LookupBuiltin(name)
	if !ok {
		t.Fatalf("no built-in outcome %s", name)
	}
	return bpf.Outcome{
		Name: name, Rule: &b.Rule, Group: group,
		DMax: int64(10 * time.Second), BinWidth: int64(10 * time.Second / 1000), Bins: 1000,
	}
}

// groupsOf returns the sums of an outcome's groups over all windows, by process and text; process 0
// stands for the rest.
func groupsOf(c *vmtest.Collector, outcome int) map[any]bpf.Group {
	sums := make(map[any]bpf.Group)
	for _, w := range c.Windows {
		for _, counts := range w.Counts {
			if counts.Outcome != outcome {
				continue
			}
			for _, g := range counts.Groups {
				var key any = g.Process
				if g.Text != "" {
					key = g.Text
				}
				sum := sums[key]
				sum.Successes += g.Successes
				sum.Failures += g.Failures
				sum.Timeouts += g.Timeouts
				sum.Total += g.Total
				sum.Amount += g.Amount
				sum.Rest = g.Rest
				sums[key] = sum
			}
		}
	}
	return sums
}

// Every built-in outcome loads and attaches, with and without groups, and its groups contain all
// instances.
func TestBuiltinsAttach(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	for _, b := range dtrace.Builtins() {
		for _, group := range []string{"", bpf.GroupByPID} {
			o := builtin(t, b.Name, group)
			if err := bpf.CheckOutcome(o); err != nil {
				continue
			}
			t.Run(b.Name+" "+group, func(t *testing.T) {
				c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{o}})
				c.Observe(vm)
				if err := c.ObserveThreads(vm.PID()); err != nil {
					t.Fatal(err)
				}
				c.Call(vm, "erlang", "apply", vmtest.Fun(
					`lists:foreach(fun(N) -> spawn(fun() -> file:read_file_info("/tmp"), N end) end, lists:seq(1,100))`))
				total := c.Total(0, vm.PID())
				var grouped uint64
				for _, g := range groupsOf(c, 0) {
					grouped += g.Successes
				}
				if group != "" && grouped != total.Successes {
					t.Errorf("%d successes, %d in groups", total.Successes, grouped)
				}
				if total.ReadErrors+total.MapFull > 0 {
					t.Errorf("%+v", total)
				}
			})
		}
	}
}

// If there are more groups than there is room for, the rest is counted together, and nothing is
// lost.
func TestGroupsAreBounded(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	rule := dtrace.Rule{
		Start: signals(pairing.Start), End: signals(pairing.End),
		Key: dtrace.Key{Start: "key", End: "key"},
	}
	o := ruled(rule, time.Hour)
	o.Group = "text"
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{o}, Groups: 16, Window: int64(time.Hour)})
	c.Observe(vm)
	var events []pairing.Event
	for i := range 100 {
		e := pairing.Event{Key: fmt.Sprint(i), Text: fmt.Sprintf("group %d", i)}
		events = append(events, e)
		e.Kind = pairing.End
		events = append(events, e)
	}
	vmtest.Eval(t, vm, signalsOf(events))
	counts, _, err := c.Read(0)
	if err != nil {
		t.Fatal(err)
	}
	var own, rest uint64
	for _, g := range counts[0].Groups {
		if g.Rest {
			rest += g.Successes
		} else {
			own++
		}
	}
	if own+rest != 100 || own < 8 || own > 20 {
		t.Errorf("%d groups of their own, %d instances in the rest, of 100", own, rest)
	}
}
