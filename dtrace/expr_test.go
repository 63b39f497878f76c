package dtrace

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// probe returns the probe with a name.
func probe(t interface{ Fatalf(string, ...any) }, name string) Probe {
	p, ok := Lookup(name)
	if !ok {
		t.Fatalf("no probe %s", name)
	}
	return p
}

func TestParseExpr(t *testing.T) {
	const sender, receiver, size, label = 0, 1, 2, 3
	send := probe(t, "message__send")
	where := func(c Condition) Expr { return Expr{{Probe: send, Where: c}} }
	for _, test := range []struct {
		text  string
		want  Expr
		again string // canonical text; "" if it equals the input
	}{
		{"message-send", where(nil), ""},
		{"message__send", where(nil), "message-send"},
		{" \t\r\nmessage-send\n", where(nil), "message-send"},
		{"gc_minor-start or gc_major__start", Expr{{Probe: probe(t, "gc_minor__start")}, {Probe: probe(t, "gc_major__start")}}, "gc_minor-start or gc_major-start"},
		{"message-send or message-send", Expr{{Probe: send}, {Probe: send}}, ""},
		{"process-out[reductions>=4000]", Expr{{probe(t, "process__out"), Test{Arg: 1, Op: GreaterEqual, Number: 4000}}}, ""},
		{"process-scheduled", Expr{{Probe: probe(t, "process__scheduled")}}, ""}, // fires only on dirty schedulers

		{"message-send[size=1]", where(Test{Arg: size, Number: 1}), ""},
		{"message-send [ size == 1 ]", where(Test{Arg: size, Number: 1}), "message-send[size=1]"},
		{"message-send[size!=1]", where(Test{Arg: size, Op: Unequal, Number: 1}), ""},
		{"message-send[size<1]", where(Test{Arg: size, Op: Less, Number: 1}), ""},
		{"message-send[size<=1]", where(Test{Arg: size, Op: LessEqual, Number: 1}), ""},
		{"message-send[size>1]", where(Test{Arg: size, Op: Greater, Number: 1}), ""},
		{"message-send[size>=1]", where(Test{Arg: size, Op: GreaterEqual, Number: 1}), ""},
		{"message-send[size<0xFF_ff]", where(Test{Arg: size, Op: Less, Number: 0xffff}), "message-send[size<65535]"},
		{"message-send[size<007]", where(Test{Arg: size, Op: Less, Number: 7}), "message-send[size<7]"},
		{"message-send[size=4_294_967_295]", where(Test{Arg: size, Number: 4294967295}), "message-send[size=4294967295]"},
		{"message-send[label=-2147483648]", where(Test{Arg: label, Number: math.MinInt32}), ""},
		{"message-send[label=-0x8000000000000000]", where(Test{Arg: label, Number: math.MinInt64}), "message-send[label=-9223372036854775808]"},
		{"message-send[label=9223372036854775807]", where(Test{Arg: label, Number: math.MaxInt64}), ""},

		{"message-send[sender=<0.12.3>]", where(Test{Arg: sender, Text: "<0.12.3>"}), `message-send[sender="<0.12.3>"]`},
		{"message-send[sender!=<0.12.3>]", where(Test{Arg: sender, Op: Unequal, Text: "<0.12.3>"}), `message-send[sender!="<0.12.3>"]`},
		{`message-send[receiver="<0.*"]`, where(Test{Arg: receiver, Text: "<0.", Prefix: true}), ""},
		{`message-send[receiver="<0.1*"]`, where(Test{Arg: receiver, Text: "<0.1", Prefix: true}), ""},
		{`message-send[receiver="<0.12.3>*"]`, where(Test{Arg: receiver, Text: "<0.12.3>", Prefix: true}), ""},
		{`message-send[receiver="{logger,*"]`, where(Test{Arg: receiver, Text: "{logger,", Prefix: true}), ""},
		{"message-send[sender=#Port<0.7>]", where(Test{Arg: sender, Text: "#Port<0.7>"}), `message-send[sender="#Port<0.7>"]`},
		{"port-busy[port=#Port<0.7>]", Expr{{probe(t, "port__busy"), Test{Text: "#Port<0.7>"}}}, `port-busy[port="#Port<0.7>"]`},
		{"nif-entry[mfa=lists:seq/2]", Expr{{probe(t, "nif__entry"), Test{Arg: 1, Text: "lists:seq/2"}}}, `nif-entry[mfa="lists:seq/2"]`},
		{"nif-entry[mfa='Elixir.Enum':map/2]", Expr{{probe(t, "nif__entry"), Test{Arg: 1, Text: "'Elixir.Enum':map/2"}}}, `nif-entry[mfa="'Elixir.Enum':map/2"]`},
		{"nif-entry[mfa=MyApp.Worker:map/2]", Expr{{probe(t, "nif__entry"), Test{Arg: 1, Text: "'Elixir.MyApp.Worker':map/2"}}}, `nif-entry[mfa="'Elixir.MyApp.Worker':map/2"]`},
		{`nif-entry[mfa="Enum:map/2"]`, Expr{{probe(t, "nif__entry"), Test{Arg: 1, Text: "'Elixir.Enum':map/2"}}}, `nif-entry[mfa="'Elixir.Enum':map/2"]`},
		{`nif-entry[mfa="MyApp.*"]`, Expr{{probe(t, "nif__entry"), Test{Arg: 1, Text: "'Elixir.MyApp.", Prefix: true}}}, `nif-entry[mfa="'Elixir.MyApp.*"]`},
		{`nif-entry[mfa="prim_file:*"]`, Expr{{probe(t, "nif__entry"), Test{Arg: 1, Text: "prim_file:", Prefix: true}}}, ""},
		{`process-exit[reason="a \"quoted\" \\ \* ü*"]`, Expr{{probe(t, "process__exit"), Test{Arg: 1, Text: `a "quoted" \ * ü`, Prefix: true}}}, ""},
		{`process-exit[reason=""]`, Expr{{probe(t, "process__exit"), Test{Arg: 1}}}, ""},
		{`process-exit[reason="\*"]`, Expr{{probe(t, "process__exit"), Test{Arg: 1, Text: "*"}}}, ""},

		{"message-send[size=1 and label=2 or size=3 and not label=4]", where(Any{
			All{Test{Arg: size, Number: 1}, Test{Arg: label, Number: 2}},
			All{Test{Arg: size, Number: 3}, Not{Test{Arg: label, Number: 4}}},
		}), "message-send[(size=1 and label=2) or (size=3 and not label=4)]"},
		{"message-send[size=1 and (label=2 or size=3)]", where(All{
			Test{Arg: size, Number: 1}, Any{Test{Arg: label, Number: 2}, Test{Arg: size, Number: 3}},
		}), ""},
		{"message-send[not not (size=1 or size=2)]", where(Not{Not{Any{Test{Arg: size, Number: 1}, Test{Arg: size, Number: 2}}}}), ""},
		{"message-send[((size=1))]", where(Test{Arg: size, Number: 1}), "message-send[size=1]"},
		{"message-send[not(size=1)]", where(Not{Test{Arg: size, Number: 1}}), "message-send[not size=1]"},
	} {
		got, err := ParseExpr(test.text)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.text, diff)
		}
		again := test.again
		if again == "" {
			again = test.text
		}
		if got.String() != again {
			t.Errorf("%s is written %s, want %s", test.text, got, again)
		}
	}
}

func TestParseExprErrors(t *testing.T) {
	const of = "sender (pid), receiver (pid), size (words), label (int), prev (int), cur (int)"
	deep := "message-send[" + strings.Repeat("(", 40) + "size=1" + strings.Repeat(")", 40) + "]"
	many := "message-send[size=0" + strings.Repeat(" or size=1", MaxTests) + "]"
	crowd := "message-send" + strings.Repeat(" or process-exit", maxEvents)
	long := `process-exit[reason="` + strings.Repeat("x", MaxText+1) + `"]`
	for _, test := range []struct {
		text, marked, message string // marked: the text from the marked position on
	}{
		{"", "", "here must be the name of a probe, such as message-receive"},
		{"  ", "", "here must be the name of a probe, such as message-receive"},
		{"message-send or", "", "here must be the name of a probe, such as message-receive"},
		{"message-send, gc_minor-start", ", gc_minor-start", `here may be "or" and another probe, or a condition in brackets`},
		{"message-send and gc_minor-start", "and gc_minor-start", `here may be "or" and another probe, or a condition in brackets`},
		{"message-send[size=1] message-send", "message-send", `here may be "or" and another probe, or a condition in brackets`},

		{"process_spawn", "process_spawn", "there is no probe process_spawn: did you mean process-spawn?"},
		{"message-recieve", "message-recieve", "there is no probe message-recieve: did you mean message-receive?"},
		{"Message-Send", "Message-Send", "there is no probe Message-Send: did you mean message-send?"},
		{"gc-start", "gc-start", "there is no probe gc-start: did you mean gc_major-start or gc_minor-start?"},
		{"port_unblocked", "port_unblocked", "there is no probe port_unblocked: beamscope probes lists them"},
		{"syscall", "syscall", "there is no probe syscall: beamscope probes lists them"},
		{"message-send or user_trace-n7", "user_trace-n7", "user_trace probes carry spans: an outcome of theirs has span: and the name of the span"},
		{"user_trace-n", "user_trace-n", "user_trace probes carry spans: an outcome of theirs has span: and the name of the span"},
		{"user_trace-i4s4", "user_trace-i4s4", "user_trace probes carry spans: an outcome of theirs has span: and the name of the span"},
		{"bif-entry", "bif-entry", "bif-entry is declared, but VMs do not have it"},
		{"local-function-entry", "local-function-entry", "local-function-entry never fires in a VM that compiles just in time"},
		{"process-port_unblocked", "process-port_unblocked", "process-port_unblocked harms the VM: " + probe(t, "process__port_unblocked").Hazard},

		{"message-send[", "", "here must be an argument of message-send: " + of},
		{"message-send[]", "]", "here must be an argument of message-send: " + of},
		{"message-send[size=1 and]", "]", "here must be an argument of message-send: " + of},
		{"message-send[or size=1]", "or size=1]", "here must be an argument of message-send: " + of},
		{"message-send[size=1 or from=<0.1.0>]", "from=<0.1.0>]", "message-send has no argument from: it has " + of},
		{"message-send[size=1", "", `here must be "and", "or" or the closing bracket`},
		{"message-send[size=1)]", ")]", `here must be "and", "or" or the closing bracket`},
		{"message-send[(size=1]", "]", "here must be the parenthesis that closes the one at character 14"},
		{"message-send[size]", "]", "here must be a comparison: = != < <= > >="},
		{"message-send[sender]", "]", "here must be a comparison: = !="},
		{"message-send[size ~ 1]", "~ 1]", "here must be a comparison: = != < <= > >="},
		{"message-send[sender < <0.1.0>]", "< <0.1.0>]", "sender is a pid, and has only the comparisons = !="},
		{"message-send[sender>=<0.1.0>]", ">=<0.1.0>]", "sender is a pid, and has only the comparisons = !="},

		{"message-send[size=]", "]", "size is an integer, and here must be one: write it as 42, -1, 4_000 or 0xff"},
		{`message-send[size="1"]`, `"1"]`, "size is an integer, and here must be one: write it as 42, -1, 4_000 or 0xff"},
		{"message-send[size=1k]", "1k]", "size is an integer, and here must be one: write it as 42, -1, 4_000 or 0xff"},
		{"message-send[label=+1]", "+1]", "label is an integer, and here must be one: write it as 42, -1, 4_000 or 0xff"},
		{"message-send[label=--1]", "--1]", "label is an integer, and here must be one: write it as 42, -1, 4_000 or 0xff"},
		{"message-send[size=1_]", "1_]", "size is an integer, and here must be one: write it as 42, -1, 4_000 or 0xff"},
		{"message-send[size=1__0]", "1__0]", "size is an integer, and here must be one: write it as 42, -1, 4_000 or 0xff"},
		{"message-send[label=9223372036854775808]", "9223372036854775808]", "label is an integer, and here must be one: 9223372036854775808 does not fit into 64 bits with a sign"},
		{"message-send[size = -1]", "-1]", "sizes are never negative: one that the VM does not know shows as 4294967295"},

		{"process-exit[reason=normal]", "normal]", `reason is text, and here must be such in double quotes: "a" or, for what begins so, "a*"`},
		{"process-exit[reason=]", "]", `reason is text, and here must be such in double quotes: "a" or, for what begins so, "a*"`},
		{`process-exit[reason="normal]`, `"normal]`, "the text has no closing double quote"},
		{`process-exit[reason="a*b"]`, `*b"]`, `a star stands only at the end of a text, where it means "begins with"; the character itself is written \*`},
		{`process-exit[reason="*"]`, `"*"]`, "every text begins with nothing: leave out the test"},
		{`process-exit[reason="a\n"]`, `\n"]`, "a backslash stands only before a double quote, a star or a backslash"},
		{`process-exit[reason="a\`, `\`, "a backslash stands only before a double quote, a star or a backslash"},
		{"process-exit[reason=\"ü\t\"]", "\t\"]", "a text has no control characters, and is UTF-8"},
		{"process-exit[reason=\"\xff\"]", "\xff\"]", "a text has no control characters, and is UTF-8"},
		{"message-send[sender=self]", "self]", `sender is a pid: write <0.123.0>, or the beginning of one, as in "<0.*"; a name of another node is "{name,node}"`},
		{"message-send[sender=<0.1>]", "<0.1>]", `sender is a pid: write <0.123.0>, or the beginning of one, as in "<0.*"; a name of another node is "{name,node}"`},
		{`message-send[sender="<0.1.2>x*"]`, `"<0.1.2>x*"]`, `sender is a pid: write <0.123.0>, or the beginning of one, as in "<0.*"; a name of another node is "{name,node}"`},
		{"port-busy[port=7]", "7]", `port is a port: write #Port<0.7>, or the beginning of one, as in "#Port<0.*"`},
		{"nif-entry[mfa=lists:seq]", "lists:seq]", `mfa is an mfa: write lists:seq/2, or the beginning of one, as in "lists:*"`},
		{`nif-entry[mfa="Lists.seq/2"]`, `"Lists.seq/2"]`, `mfa is an mfa: write lists:seq/2, or the beginning of one, as in "lists:*"`},

		{deep, deep[len("message-send[")+maxDepth:], "conditions are nested up to 32 deep"},
		{many, "size=1]", "a condition has at most 16 tests"},
		{crowd, "process-exit", "an expression has at most 16 events"},
		{long, long[len("process-exit[reason="):], "the text has 128 bytes, and there is room for 127: compare with its beginning"},
	} {
		_, err := ParseExpr(test.text)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%q: %v", test.text, err)
			continue
		}
		want := SyntaxError{Text: test.text, Offset: len(test.text) - len(test.marked), Message: test.message}
		if diff := cmp.Diff(want, *syntax); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.text, diff)
		}
	}
}

func TestSyntaxError(t *testing.T) {
	_, err := ParseExpr("process-exit[reason=\"ü\"\tand\npid=self]")
	want := `pid is a pid: write <0.123.0>, or the beginning of one, as in "<0.*"; a name of another node is "{name,node}"
process-exit[reason="ü" and pid=self]
                                ^`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}

// The text of an expression is canonical.
func TestExprText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawExpr(t)
		got, err := ParseExpr(want.String())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", want, diff)
		}
	})
}

// drawExpr draws an expression that can be parsed.
func drawExpr(t *rapid.T) Expr {
	var usable []Probe
	for _, p := range Catalogue() {
		if refusal(p) == "" {
			usable = append(usable, p)
		}
	}
	var expr Expr
	for range rapid.IntRange(1, 3).Draw(t, "events") {
		event := Event{Probe: rapid.SampledFrom(usable).Draw(t, "probe")}
		if rapid.Bool().Draw(t, "conditional") {
			event.Where = drawCondition(t, event.Probe, 5, MaxTests)
		}
		expr = append(expr, event)
	}
	return expr
}

// drawCondition draws a condition with a maximum depth and number of tests.
func drawCondition(t *rapid.T, p Probe, depth, tests int) Condition {
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	if depth == 0 || tests < 3 {
		kind = 0
	}
	switch kind {
	case 1:
		return Not{drawCondition(t, p, depth-1, tests)}
	case 2, 3:
		var list []Condition
		for range rapid.IntRange(2, 3).Draw(t, "operands") {
			list = append(list, drawCondition(t, p, depth-1, tests/3))
		}
		if kind == 2 {
			return All(list)
		}
		return Any(list)
	}
	return drawTest(t, p)
}

func drawTest(t *rapid.T, p Probe) Test {
	test := Test{Arg: rapid.IntRange(0, len(p.Args)-1).Draw(t, "arg")}
	of := p.Args[test.Arg].Type
	if !of.IsText() {
		test.Op = rapid.SampledFrom([]Op{Equal, Unequal, Less, LessEqual, Greater, GreaterEqual}).Draw(t, "op")
		test.Number = rapid.Int64().Draw(t, "number")
		if of.Unit() != "" {
			test.Number = rapid.Int64Min(0).Draw(t, "size")
		}
		return test
	}
	test.Op = rapid.SampledFrom([]Op{Equal, Unequal}).Draw(t, "op")
	test.Prefix = rapid.Bool().Draw(t, "prefix")
	texts := map[Type][2]string{ // complete texts, and prefixes
		PID:  {`<\d{1,4}\.\d{1,4}\.\d>|#Port<0\.\d{1,3}>`, `<(\d{1,4}(\.\d{0,4})?)?|#Port<`},
		Port: {`#Port<0\.\d{1,5}>`, `#Po|#Port<0\.\d{0,5}`},
		MFA:  {`[a-z][a-zA-Z0-9_@]{0,9}:('[^'\\\pC]{0,9}'|[a-z]{1,9})/\d{1,3}`, `[a-z]{1,9}:?|m:f/\d?|'[^'\\\pC]{0,9}`},
	}
	shapes, ok := texts[of]
	if !ok {
		shapes = [2]string{`[^\pC]{0,31}`, `[^\pC]{1,31}`}
	}
	shape := shapes[0]
	if test.Prefix {
		shape = shapes[1]
	}
	test.Text = rapid.StringMatching(shape).Draw(t, "text")
	return test
}

// The text of a parsed expression is parsed as the same expression. An error points at a position
// of the text.
func FuzzParseExpr(f *testing.F) {
	for _, seed := range []string{
		"message-send", "gc_minor-start or gc_major__start", "x", "message-send[", `message-send[receiver="<0.*"]`,
		"message-send[not (size<0xff and label!=-1) or sender=<0.1.2>]", `process-exit[reason="\"\\\*ü*"]`,
		"nif-entry[mfa=lists:seq/2]", "nif-entry[mfa='Elixir.A':b/0]", "nif-entry[mfa='\x00':a/0]", "nif-entry[mfa='\xff':a/0]", "port-busy[port=#Port<0.7>]", "process-exit[reason=\"\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		expr, err := ParseExpr(text)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(text) || syntax.Text != text {
				t.Fatalf("%q: %#v", text, err)
			}
			if lines := strings.Split(err.Error(), "\n"); len(lines) != 3 || strings.Trim(lines[2], " ") != "^" {
				t.Fatalf("%q: %q", text, err)
			}
			return
		}
		again, err := ParseExpr(expr.String())
		if err != nil {
			t.Fatalf("%q is written %q: %v", text, expr, err)
		}
		if diff := cmp.Diff(expr, again); diff != "" {
			t.Fatalf("%q (-first +again):\n%s", text, diff)
		}
	})
}
