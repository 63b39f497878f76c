package bpf

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

// A value is the value of an event's argument: a number or a text.
type value struct {
	number int64
	text   string
}

// isTrue evaluates a condition by its meaning.
func isTrue(c dtrace.Condition, args []value, types []dtrace.Arg) bool {
	switch c := c.(type) {
	case dtrace.All:
		return !slices.ContainsFunc(c, func(p dtrace.Condition) bool { return !isTrue(p, args, types) })
	case dtrace.Any:
		return slices.ContainsFunc(c, func(p dtrace.Condition) bool { return isTrue(p, args, types) })
	case dtrace.Not:
		return !isTrue(c.Condition, args, types)
	}
	t := c.(dtrace.Test)
	v := args[t.Arg]
	if types[t.Arg].Type.IsText() {
		same := v.text == t.Text || t.Prefix && strings.HasPrefix(v.text, t.Text)
		return same == (t.Op == dtrace.Equal)
	}
	order := big.NewInt(v.number).Cmp(big.NewInt(t.Number))
	return slices.Contains(map[dtrace.Op][]int{
		dtrace.Equal: {0}, dtrace.Unequal: {-1, 1}, dtrace.Less: {-1}, dtrace.LessEqual: {-1, 0}, dtrace.Greater: {1}, dtrace.GreaterEqual: {0, 1},
	}[t.Op], order)
}

// satisfies goes through compiled tests as the program of the same name in rule.bpf.h does,
// with the same numbers for operators.
func satisfies(s specialization, args []value) bool {
	at := uint8(0)
	for i := range s.rule.Tests {
		if i != at {
			continue
		}
		t := s.tests[i]
		if at = t.No; holds(t, args[t.Arg]) {
			at = t.Yes
		}
	}
	return at != 0xff
}

func holds(t kernelTest, v value) bool {
	if t.Form == uint8(kernelTestFormTEST_NUMBER) || t.Form == uint8(kernelTestFormTEST_TERM) {
		return []bool{v.number == t.Number, v.number != t.Number, v.number < t.Number, v.number <= t.Number, v.number > t.Number, v.number >= t.Number}[t.Op]
	}
	same := strings.HasPrefix(v.text, textOfTest(t))
	if t.Form == uint8(kernelTestFormTEST_TEXT) {
		same = v.text == textOfTest(t)
	}
	return same == (t.Op == 0)
}

// textOfTest returns the bytes of the words of a test, the lowest first.
func textOfTest(t kernelTest) string {
	var b []byte
	for i := range int(t.Length) {
		b = append(b, byte(t.Text[i/8]>>(8*(i%8))))
	}
	return string(b)
}

// conditionProbe has numbers and texts.
func conditionProbe() dtrace.Probe {
	return dtrace.Probe{Name: "some__probe", Subject: "pid", Args: []dtrace.Arg{
		{Name: "pid", Type: dtrace.PID}, {Name: "size", Type: dtrace.Int}, {Name: "name", Type: dtrace.Text}, {Name: "count", Type: dtrace.Int},
	}}
}

func drawTest(t *rapid.T) dtrace.Test {
	if rapid.Bool().Draw(t, "number") {
		return dtrace.Test{
			Arg:    rapid.SampledFrom([]int{1, 3}).Draw(t, "arg"),
			Op:     rapid.SampledFrom([]dtrace.Op{dtrace.Equal, dtrace.Unequal, dtrace.Less, dtrace.LessEqual, dtrace.Greater, dtrace.GreaterEqual}).Draw(t, "op"),
			Number: drawNumber(t),
		}
	}
	return dtrace.Test{
		Arg:    rapid.SampledFrom([]int{0, 2}).Draw(t, "arg"),
		Op:     rapid.SampledFrom([]dtrace.Op{dtrace.Equal, dtrace.Unequal}).Draw(t, "op"),
		Text:   drawText(t),
		Prefix: rapid.Bool().Draw(t, "prefix"),
	}
}

func drawNumber(t *rapid.T) int64 {
	return rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, 2, math.MaxInt64}).Draw(t, "value")
}

func drawText(t *rapid.T) string {
	long := strings.Repeat("abcdefgh", 15) + "abcdefg" // as long as there is room for
	text := rapid.SampledFrom([]string{long, "größe", "12345678"}).Draw(t, "text")
	return text[:rapid.SampledFrom([]int{0, 1, 4, len(text) - 1, len(text)}).Draw(t, "length")]
}

// drawCondition draws a condition with a limited number of tests.
func drawCondition(t *rapid.T, depth int, left *int) dtrace.Condition {
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	if depth == 0 || kind == 0 || *left <= 1 {
		*left--
		return drawTest(t)
	}
	if kind == 1 {
		return dtrace.Not{Condition: drawCondition(t, depth-1, left)}
	}
	var parts []dtrace.Condition
	for range rapid.IntRange(1, 4).Draw(t, "parts") {
		if *left > 0 {
			parts = append(parts, drawCondition(t, depth-1, left))
		}
	}
	if kind == 2 {
		return dtrace.All(parts)
	}
	return dtrace.Any(parts)
}

// A compiled condition gives the programs the condition's own result. All its jumps lead forward,
// because the programs go through it once.
func TestConditionsMeanTheSame(t *testing.T) {
	probe := conditionProbe()
	rapid.Check(t, func(t *rapid.T) {
		left := dtrace.MaxTests
		where := drawCondition(t, 4, &left)
		o := Outcome{Name: "o", Rule: &dtrace.Rule{
			Start: dtrace.Expr{{Probe: probe, Where: where}}, End: dtrace.Expr{{Probe: probe}}, Key: dtrace.Key{Start: "pid", End: "pid"},
		}}
		s, err := specialize(o, ruleEvent{kernelProgRuleStartProbe, o.Rule.Start[0]}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, test := range s.tests[:s.rule.Tests] {
			for _, to := range []uint8{test.Yes, test.No} {
				if to <= uint8(i) || to >= s.rule.Tests && to != 0xfe && to != 0xff {
					t.Fatalf("test %d of %d leads to %d: %#v", i, s.rule.Tests, to, where)
				}
			}
		}
		for range 5 {
			var args []value
			for range probe.Args {
				args = append(args, value{drawNumber(t), drawText(t)})
			}
			if got, want := satisfies(s, args), isTrue(where, args, probe.Args); got != want {
				t.Fatalf("%#v of %+v is %v, want %v", where, args, got, want)
			}
		}
	})
}

// A pid in a condition on terms equals the programs' form of that process's term. A pid that they
// cannot distinguish from another one is refused.
func TestPackPID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, bits int) *big.Int {
			most := uint64(1)<<bits - 1
			return new(big.Int).SetUint64(rapid.OneOf(rapid.Just(uint64(0)), rapid.Just(most), rapid.Uint64Range(0, most)).Draw(t, name))
		}
		number, serial, node := draw("number", 32), draw("serial", 16), draw("node", 16)
		want := new(big.Int).Lsh(node, 16)
		want.Add(want, serial).Lsh(want, 32).Add(want, number)
		text := fmt.Sprintf("<%d.%d.%d>", node, number, serial)
		if got, err := packPID(text); err != nil || got != want.Uint64() {
			t.Fatalf("%s is %#x, %v, want %#x", text, got, err, want)
		}
	})
	for _, bad := range []string{
		"", "<0.1>", "0.1.2", "<0.1.2", "<0.1.2>x", "<0.1.2.3>", "<a.1.2>", "<0.-1.2>", "<0.01.2>", "{name,node}", "#Port<0.1>",
		"<0.4294967296.0>", "<0.1.65536>", "<65536.1.0>", "<0.18446744073709551616.0>",
	} {
		if got, err := packPID(bad); err == nil {
			t.Errorf("%q is %#x", bad, got)
		}
	}
}

// ruleProbe returns a probe with these arguments.
func ruleProbe(name, subject string, args ...dtrace.Arg) dtrace.Probe {
	return dtrace.Probe{Name: name, Subject: subject, Args: args}
}

// fullRule has all kinds of events, and arguments at different places in each.
func fullRule() *dtrace.Rule {
	integer := func(name string) dtrace.Arg { return dtrace.Arg{Name: name, Type: dtrace.Int} }
	pid := func(name string) dtrace.Arg { return dtrace.Arg{Name: name, Type: dtrace.PID} }
	text := func(name string) dtrace.Arg { return dtrace.Arg{Name: name, Type: dtrace.Text} }
	only := func(p dtrace.Probe) dtrace.Expr { return dtrace.Expr{{Probe: p}} }
	return &dtrace.Rule{
		Start: only(ruleProbe("begin", "from", text("note"), pid("from"), integer("id"), integer("label"), integer("prev"), integer("cur"))),
		End:   only(ruleProbe("finish", "by", integer("ref"), integer("words"), pid("by"), text("note"))),
		Via:   only(ruleProbe("pass", "", integer("cur"), integer("ref"))),
		Sync:  only(ruleProbe("settle", "", text("note"), integer("ref"))),
		Arm:   only(ruleProbe("allow", "", text("why"), integer("other"), integer("id"))),
		Key:   dtrace.Key{Start: "id", End: "ref"}, Pairing: dtrace.FIFO,
		Armed: "why", ArmedBy: "note", Amount: "words",
	}
}

// operandOf returns an operand in the programs' form.
type operandOf struct {
	_    struct{}
	Kind kernelOperandKind
	Arg  uint8
}

// Each event of a rule gets what the programs need, by the places of its arguments, and nothing
// else.
func TestSpecialize(t *testing.T) {
	number := func(arg uint8) operandOf { return operandOf{Kind: kernelOperandKindOPERAND_NUMBER, Arg: arg} }
	text := func(arg uint8) operandOf { return operandOf{Kind: kernelOperandKindOPERAND_TEXT, Arg: arg} }
	pid := func(arg uint8) operandOf { return operandOf{Kind: kernelOperandKindOPERAND_PID, Arg: arg} }
	type special struct {
		Key, Arm, Owner, Group        operandOf
		Amount, Label, Serial         uint8
		Staged, Synced, Armed, Loose  bool
		BySpawn, Arrivals, Overtaken  bool
		Selective, Slices, OfMessages bool
		Pairing                       kernelPairing
	}
	const none = 0xff
	staged := func(key operandOf) special {
		return special{Key: key, Amount: none, Label: none, Serial: none, Staged: true, Synced: true, Armed: true, Pairing: kernelPairingPAIR_FIFO}
	}
	with := func(s special, change func(*special)) special {
		change(&s)
		return s
	}
	start := with(staged(number(2)), func(s *special) { s.Arm, s.Label, s.Serial = text(0), 3, 5 })
	for _, test := range []struct {
		name, program string
		change        func(*Outcome)
		want          special
	}{
		{"end", kernelProgRuleEndProbe, nil, with(staged(number(0)), func(s *special) { s.Amount = 1 })},
		{"end without an amount", kernelProgRuleEndProbe, func(o *Outcome) { o.Rule.Amount = "" }, staged(number(0))},
		{"via", kernelProgRuleViaProbe, nil, with(staged(number(1)), func(s *special) { s.Serial = 0 })},
		{"sync", kernelProgRuleSyncProbe, nil, staged(number(1))},
		{"arm", kernelProgRuleArmProbe, nil, with(staged(number(2)), func(s *special) { s.Arm = text(0) })},
		{"start", kernelProgRuleStartProbe, nil, start},
		{"not armed", kernelProgRuleStartProbe, func(o *Outcome) { o.Rule.Arm = nil },
			with(start, func(s *special) { s.Arm, s.Armed = operandOf{}, false })},
		{"streamed", kernelProgRuleStartProbe, func(o *Outcome) { o.Stream = StreamWorst }, with(start, func(s *special) { s.Owner = pid(1) })},
		{"exits", kernelProgRuleStartProbe, func(o *Outcome) { o.ExitFails = true }, with(start, func(s *special) { s.Owner = pid(1) })},
		{"streamed, of nobody", kernelProgRuleStartProbe, func(o *Outcome) { o.Stream, o.Rule.Start[0].Probe.Subject = StreamAll, "" }, start},
		{"by an argument", kernelProgRuleStartProbe, func(o *Outcome) { o.Group = "note" }, with(start, func(s *special) { s.Group = text(0) })},
		{"by a number", kernelProgRuleStartProbe, func(o *Outcome) { o.Group = "cur" }, with(start, func(s *special) { s.Group = number(5) })},
		{"by process", kernelProgRuleStartProbe, func(o *Outcome) { o.Group = "pid" }, with(start, func(s *special) { s.Group = pid(1) })},
		{"by function", kernelProgRuleStartProbe, func(o *Outcome) { o.Group = "mfa" },
			with(start, func(s *special) { s.Group, s.BySpawn = pid(1), true })},
		{"by the process of the key", kernelProgRuleStartProbe, func(o *Outcome) {
			o.Group, o.Rule.Key.Start, o.Rule.Start[0].Probe.Subject = "pid", "from", ""
		}, with(start, func(s *special) { s.Key, s.Group = pid(1), pid(1) })},
		{"starts of groups", kernelProgRuleStartProbe, func(o *Outcome) { o.Group, o.Accounts = "note", true },
			with(start, func(s *special) { s.Group, s.Arrivals = text(0), true })},
		{"starts of no groups", kernelProgRuleStartProbe, func(o *Outcome) { o.Accounts = true }, start},
		{"out of order", kernelProgRuleStartProbe, func(o *Outcome) { o.Group, o.Accounts, o.Rule.Pairing = "note", true, dtrace.Last },
			with(start, func(s *special) { s.Group, s.Pairing = text(0), kernelPairingPAIR_LAST })},
		{"the first", kernelProgRuleStartProbe, func(o *Outcome) { o.Rule.Pairing = dtrace.First },
			with(start, func(s *special) { s.Pairing = kernelPairingPAIR_FIRST })},
		{"no via", kernelProgRuleStartProbe, func(o *Outcome) { o.Rule.Via = nil }, with(start, func(s *special) { s.Staged = false })},
		{"no sync", kernelProgRuleStartProbe, func(o *Outcome) { o.Rule.Sync = nil }, with(start, func(s *special) { s.Synced = false })},
		{"loose", kernelProgRuleStartProbe, func(o *Outcome) { o.Rule.Loose = true }, with(start, func(s *special) { s.Loose = true })},
		{"overtaken", kernelProgRuleStartProbe, func(o *Outcome) { o.Rule.Overtaken = true }, with(start, func(s *special) { s.Overtaken = true })},
		{"selective", kernelProgRuleStartProbe, func(o *Outcome) { o.Rule.End[0].Probe.Name = "message__receive" },
			with(start, func(s *special) { s.Selective = true })},
		{"slices", kernelProgRuleStartProbe, func(o *Outcome) {
			o.Group, o.Accounts = "note", true
			o.Rule.Start[0].Probe.Name, o.Rule.End[0].Probe.Name = "process__in", "process__out"
		}, with(start, func(s *special) { s.Group, s.Arrivals, s.Slices = text(0), true, true })},
		{"of threads", kernelProgRuleEndProbe, func(o *Outcome) { o.Rule.Key.End = dtrace.Thread },
			with(staged(operandOf{Kind: kernelOperandKindOPERAND_THREAD}), func(s *special) { s.Amount = 1 })},
		{"of a function", kernelProgRuleEndProbe, func(o *Outcome) {
			o.Rule.Key.End, o.Rule.End[0].Probe.Function = "by", new(dtrace.Function)
		}, with(staged(operandOf{Kind: kernelOperandKindOPERAND_TERM, Arg: 2}), func(s *special) { s.Amount = 1 })},
		{"a number of a function", kernelProgRuleEndProbe, func(o *Outcome) { o.Rule.End[0].Probe.Function = new(dtrace.Function) },
			with(staged(number(0)), func(s *special) { s.Amount = 1 })},
	} {
		o := Outcome{Name: "o", Rule: fullRule()}
		if test.change != nil {
			test.change(&o)
		}
		all := ruleEvents(o.Rule)
		i := slices.IndexFunc(all, func(e ruleEvent) bool { return e.program == test.program })
		s, err := specialize(o, all[i], nil)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		r := s.rule
		got := special{
			Key: operandOf{Kind: kernelOperandKind(r.Key.Kind), Arg: r.Key.Arg}, Arm: operandOf{Kind: kernelOperandKind(r.Arm.Kind), Arg: r.Arm.Arg},
			Owner: operandOf{Kind: kernelOperandKind(r.Owner.Kind), Arg: r.Owner.Arg}, Group: operandOf{Kind: kernelOperandKind(r.Group.Kind), Arg: r.Group.Arg},
			Amount: r.Amount, Label: r.Label, Serial: r.Serial,
			Staged: r.Staged == 1, Synced: r.Synced == 1, Armed: r.Armed == 1, Loose: r.Loose == 1,
			BySpawn: r.BySpawn == 1, Arrivals: r.Arrivals == 1, Overtaken: r.Overtaken == 1,
			Selective: r.Selective == 1, Slices: r.Slices == 1, OfMessages: r.Message != none,
			Pairing: kernelPairing(r.Pairing),
		}
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(operandOf{})); diff != "" || r.Tests != 0 {
			t.Errorf("%s: %d tests, -want +got:\n%s", test.name, r.Tests, diff)
		}
	}
}

// Programs are attached to ends before starts, and to exits if processes take what ended.
func TestRuleEvents(t *testing.T) {
	names := func(r *dtrace.Rule) (all []string) {
		for _, e := range ruleEvents(r) {
			all = append(all, e.program+" "+e.event.Probe.Name)
		}
		return all
	}
	r := fullRule()
	r.Start = append(r.Start, r.Start[0])
	want := []string{
		kernelProgRuleEndProbe + " finish", kernelProgRuleViaProbe + " pass", kernelProgRuleStartProbe + " begin", kernelProgRuleStartProbe + " begin",
		kernelProgRuleSyncProbe + " settle", kernelProgRuleArmProbe + " allow",
	}
	if diff := cmp.Diff(want, names(r)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r.Key.End = "by"
	if diff := cmp.Diff(append(want, kernelProgRuleGoneProbe+" process__exit"), names(r)); diff != "" {
		t.Errorf("of processes: -want +got:\n%s", diff)
	}
}

// A rule that cannot be compiled is refused, with the probe and the reason.
func TestBadRules(t *testing.T) {
	probe := conditionProbe()
	test := func(t dtrace.Test) func(*Outcome) { return func(o *Outcome) { o.Rule.Start[0].Where = t } }
	many := func(n int) dtrace.Condition {
		all := make(dtrace.Any, n)
		for i := range all {
			all[i] = dtrace.Test{Arg: 1}
		}
		return all
	}
	term := func(t dtrace.Test) func(*Outcome) {
		return func(o *Outcome) { o.Rule.Start[0].Probe.Function, o.Rule.Start[0].Where = new(dtrace.Function), t }
	}
	for _, tt := range []struct {
		name   string
		change func(*Outcome)
		want   string // "" if it is accepted
	}{
		{"good", func(*Outcome) {}, ""},
		{"no key", func(o *Outcome) { o.Rule.Key.Start, o.Rule.Start[0].Probe.Subject = "key", "" }, "some-probe: has no argument key"},
		{"no key of ends", func(o *Outcome) { o.Rule.Key.End, o.Rule.End[0].Probe.Subject = "key", "" }, "some-probe: has no argument key"},
		{"no group", func(o *Outcome) { o.Group = "color" }, "some-probe: has no argument color to group by"},
		{"no process to group by", func(o *Outcome) {
			o.Group, o.Rule.Key.Start, o.Rule.Start[0].Probe.Subject = "mfa", "size", ""
		}, "some-probe: has no argument mfa to group by"},
		{"sixteen tests", func(o *Outcome) { o.Rule.Start[0].Where = many(16) }, ""},
		{"seventeen", func(o *Outcome) { o.Rule.Start[0].Where = many(17) }, "some-probe: has 17 comparisons: at most 16"},
		{"the last argument", test(dtrace.Test{Arg: 3}), ""},
		{"no such argument", test(dtrace.Test{Arg: 4}), "some-probe: has no argument 4, or 0 bytes of text are too many"},
		{"no argument", test(dtrace.Test{Arg: -1}), "some-probe: has no argument -1, or 0 bytes of text are too many"},
		{"longest text", test(dtrace.Test{Arg: 2, Text: strings.Repeat("x", 127)}), ""},
		{"long text", test(dtrace.Test{Arg: 2, Text: strings.Repeat("x", 128)}), "some-probe: has no argument 2, or 128 bytes of text are too many"},
		{"no condition", func(o *Outcome) { o.Rule.Start[0].Where = dtrace.Not{} }, "some-probe: unknown condition <nil>"},
		{"a term", term(dtrace.Test{Arg: 0, Text: "<0.1.2>"}), ""},
		{"part of a term", term(dtrace.Test{Arg: 0, Text: "<0.1.2>", Prefix: true}),
			`some-probe: its pid is compared with whole pids of this node only, not "<0.1.2>"`},
		{"no term", term(dtrace.Test{Arg: 0, Text: "{a,b}"}), `some-probe: its pid is compared with whole pids of this node only, not "{a,b}"`},
		{"a number of a function", term(dtrace.Test{Arg: 1, Number: 5}), ""},
		{"the first reason", func(o *Outcome) { o.Rule.Key.Start, o.Rule.Start[0].Probe.Subject, o.Group = "key", "", "color" },
			"some-probe: has no argument key"},
		{"threads", func(o *Outcome) { o.Rule = &dtrace.Rule{RunQueue: true} }, ""},
		{"groups of threads", func(o *Outcome) { o.Rule, o.Group = &dtrace.Rule{RunQueue: true}, "pid" },
			"waits for a processor are those of threads, which cannot be grouped by pid"},
	} {
		o := Outcome{Name: "o", Rule: &dtrace.Rule{Start: dtrace.Expr{{Probe: probe}}, End: dtrace.Expr{{Probe: probe}}, Key: dtrace.Key{Start: "pid", End: "pid"}}}
		tt.change(&o)
		got := ""
		err := CheckOutcome(o)
		if err != nil {
			got = strings.TrimPrefix(err.Error(), `bad collector options: outcome "o": bad rule: `)
		}
		if got != tt.want || err != nil && (!errors.Is(err, ErrOptions) || !errors.Is(err, errRule)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A text of any length up to the limit is in the words of a test, byte after byte.
func TestTextsAreWhole(t *testing.T) {
	probe := conditionProbe()
	var text string
	for n := range dtrace.MaxText + 1 {
		o := Outcome{Rule: &dtrace.Rule{
			Start: dtrace.Expr{{Probe: probe, Where: dtrace.Test{Arg: 2, Text: text, Prefix: n%2 == 1}}},
			End:   dtrace.Expr{{Probe: probe}}, Key: dtrace.Key{Start: "pid", End: "pid"},
		}}
		s, err := specialize(o, ruleEvents(o.Rule)[1], nil)
		if got := s.tests[0]; err != nil || int(got.Length) != n || textOfTest(got) != text || got.Arg != 2 {
			t.Errorf("%q became %q, %d bytes, error %v", text, textOfTest(got), got.Length, err)
		}
		text += string(rune('0' + n%64))
	}
}

// A pid in the condition of a function's arguments is compared as a term, by its number.
func TestTermTest(t *testing.T) {
	probe := conditionProbe()
	probe.Function = new(dtrace.Function)
	o := Outcome{Rule: &dtrace.Rule{
		Start: dtrace.Expr{{Probe: probe, Where: dtrace.Test{Arg: 0, Op: dtrace.Unequal, Text: "<1.2.3>"}}},
		End:   dtrace.Expr{{Probe: probe}}, Key: dtrace.Key{Start: "pid", End: "pid"},
	}}
	s, err := specialize(o, ruleEvents(o.Rule)[1], nil)
	want := kernelTest{Form: uint8(kernelTestFormTEST_TERM), Op: 1, Yes: 0xfe, No: 0xff, Number: 2 | 3<<32 | 1<<48}
	if err != nil || s.rule.Tests != 1 || s.tests[0] != want {
		t.Errorf("%d tests, %+v, error %v, want %+v", s.rule.Tests, s.tests[0], err, want)
	}
}

// Slices are the instances between process-in and process-out, whatever the source of these events,
// and groups have their accounts.
func TestOfSlices(t *testing.T) {
	in, out, other := dtrace.Event{Probe: dtrace.Probe{Name: "process__in"}}, dtrace.Event{Probe: dtrace.Probe{Name: "process__out"}}, dtrace.Event{Probe: conditionProbe()}
	whole := Outcome{Accounts: true, Group: "pid", Rule: &dtrace.Rule{Start: dtrace.Expr{in, in}, End: dtrace.Expr{out}}}
	with := func(change func(*Outcome)) Outcome {
		o := whole
		rule := *o.Rule
		o.Rule = &rule
		change(&o)
		return o
	}
	for _, tt := range []struct {
		o    Outcome
		want bool
	}{
		{whole, true},
		{with(func(o *Outcome) { o.Accounts = false }), false},
		{with(func(o *Outcome) { o.Group = "" }), false},
		{with(func(o *Outcome) { o.Rule = nil }), false},
		{with(func(o *Outcome) { o.Rule.Start = dtrace.Expr{in, other} }), false},
		{with(func(o *Outcome) { o.Rule.End = dtrace.Expr{in} }), false},
		{with(func(o *Outcome) { o.Rule.Start = nil }), false},
		{with(func(o *Outcome) { o.Rule.End = nil }), false},
	} {
		if got := tt.o.ofSlices(); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.o, got, tt.want)
		}
	}
}

// Messages are identified by address only if every site of every event that needs an address
// has one.
func TestIdentifies(t *testing.T) {
	event := func(name string) dtrace.Expr {
		p, ok := dtrace.Lookup(name)
		if !ok {
			t.Fatal(name)
		}
		return dtrace.Expr{{Probe: p}}
	}
	staged := dtrace.Rule{
		Start: event("message-send"), Via: event("message-queued"), End: event("message-receive"), Sync: event("process-in"),
		Key: dtrace.Key{Start: "receiver", End: "pid"}, Pairing: dtrace.FIFO,
	}
	direct, last := staged, staged
	direct.Via, last.Pairing = nil, dtrace.Last
	whole := Target{Release: 25}
	for i, name := range []string{"message__send", "message__queued", "message__receive"} {
		sites := []usdt.Site{{Address: uint64(10 * i)}, {Address: uint64(10*i + 1)}}
		whole.Probes = append(whole.Probes, usdt.Probe{Name: name, Sites: sites})
	}
	whole.Probes = append(whole.Probes, usdt.Probe{Name: "process__exit", Sites: []usdt.Site{{Address: 30}}})
	for _, tt := range []struct {
		name      string
		addresses []uint64 // of sites where the message is known
		probes    int      // how many there are
		rule      dtrace.Rule
		want      bool
	}{
		{"behind starts", []uint64{10, 11, 20, 21}, 4, staged, true},
		{"everywhere", []uint64{0, 1, 10, 11, 20, 21}, 4, staged, true},
		{"not in order", []uint64{0, 1, 10, 11, 20, 21}, 4, last, false},
		{"not at one end", []uint64{10, 11, 20}, 4, staged, false},
		{"not at one via", []uint64{11, 20, 21}, 4, staged, false},
		{"not at starts, where there is no via", []uint64{10, 11, 20, 21}, 4, direct, false},
		{"not at vias, where there are none", []uint64{0, 1, 20, 21}, 4, direct, true},
		{"no ends", []uint64{10, 11, 20, 21}, 2, staged, false},
	} {
		target := whole
		target.Probes = whole.Probes[:tt.probes]
		target.Messages = make(map[uint64]Message)
		for _, address := range tt.addresses {
			target.Messages[address] = Message{}
		}
		if got := target.identifies(&tt.rule); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
