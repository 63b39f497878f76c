package dtrace

import (
	"errors"
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// scriptOutcomes returns the built-in outcomes that scripts support.
func scriptOutcomes() []ScriptOutcome {
	var outcomes []ScriptOutcome
	for _, b := range Builtins() {
		if !b.Rule.RunQueue {
			outcomes = append(outcomes, ScriptOutcome{strings.ReplaceAll(b.Name, "-", "_"), &b.Rule})
		}
	}
	return outcomes
}

// conditions returns an outcome with conditions of every kind.
func conditions(t *testing.T) ScriptOutcome {
	start, err := ParseExpr(`message-receive[(label=-9223372036854775808 or cur!=3) and not (size<4 or receiver=<0.12.3>)]
		or process-exit[reason="a \"quoted\" \\ 100% \*" or reason!="{*"]
		or process-in[pid="<0.8*" or pid=<0.12.3> or not pid="<0.12.*"]
		or process-out[pid="<*" and pid!=#Port<0.7> and reductions>=4000]`)
	if err != nil {
		t.Fatal(err)
	}
	return ScriptOutcome{"conditions", &Rule{Start: start, End: start, Key: Key{"pid", "pid"}, Pairing: FIFO}}
}

func TestScriptGolden(t *testing.T) {
	target := ScriptTarget{Exe: "/opt/otp 25/erts-13.1.5/bin/beam.smp", PID: 4711, Releases: []int{25}, Terms: byNumber}
	for name, outcomes := range map[string][]ScriptOutcome{
		"builtins":   scriptOutcomes(),
		"conditions": {conditions(t)},
	} {
		for format, suffix := range map[Format]string{FormatD: ".d", FormatBPFtrace: ".bt"} {
			var script strings.Builder
			if err := WriteScript(&script, format, outcomes, target); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			golden(t, name+suffix, script.String())
		}
	}
}

// golden compares with a file in testdata, or writes the file if UPDATE_GOLDEN is set.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestScriptErrors(t *testing.T) {
	gc, _ := LookupBuiltin("gc")
	wait, _ := LookupBuiltin("os-wait")
	exit := Rule{Start: events("process-exit"), End: events("process-exit"), Key: Key{"reason", "reason"}}
	long := exit
	long.Key = Key{"pid", "pid"}
	long.Start = events(`process-exit[reason="` + strings.Repeat("x", 63) + `"]`)
	function := Rule{Start: events("nif-entry"), End: events("nif-return"), Key: Key{"mfa", "mfa"}}
	node := Rule{Start: events("dist-monitor"), End: events("dist-monitor"), Key: Key{"remote", "remote"}}
	const cut = "a: bpftrace cuts texts behind 63 bytes, where %s may be another one: take a key that is a process, a port, an integer or thread, or a script for dtrace"
	target := ScriptTarget{Exe: "/beam.smp", PID: 1, Releases: []int{25}, Terms: byNumber}
	for _, test := range []struct {
		format   Format
		outcomes []ScriptOutcome
		target   ScriptTarget
		want     string
	}{
		{FormatD, nil, target, "there is no outcome to write a script for"},
		{FormatD, []ScriptOutcome{{"a", &gc.Rule}, {"b", &wait.Rule}}, target, "b: scripts cannot tell the waits of scheduler threads, for no probe of the VM does"},
		{FormatD, []ScriptOutcome{{"a b", &gc.Rule}}, target, "a b: scripts name outcomes with ASCII letters, digits and underscores: give it such a name"},
		{FormatD, []ScriptOutcome{{"ä", &gc.Rule}}, target, "ä: scripts name outcomes with ASCII letters, digits and underscores: give it such a name"},
		{FormatD, []ScriptOutcome{{"", &gc.Rule}}, target, ": scripts name outcomes with ASCII letters, digits and underscores: give it such a name"},
		{FormatD, []ScriptOutcome{{"a", &Rule{}}}, target, "a: an outcome has both start and end"},
		{FormatD, []ScriptOutcome{{"a", &exit}}, target, "a: reason of process-exit may have spaces in it, and cannot be a field of a script's lines"},
		{2, []ScriptOutcome{{"a", &gc.Rule}}, target, "there is no script format 2"},
		{FormatBPFtrace, []ScriptOutcome{{"a", &gc.Rule}}, ScriptTarget{Exe: "/beam.smp", Releases: []int{25}, Terms: byNumber}, "a bpftrace script is for one process: its pid is needed, for the probes of others stay off"},
		{FormatBPFtrace, []ScriptOutcome{{"a", &gc.Rule}}, ScriptTarget{PID: 1, Releases: []int{25}, Terms: byNumber}, "a bpftrace script needs the path of the VM's executable"},
		{FormatBPFtrace, []ScriptOutcome{{"a", &gc.Rule}}, ScriptTarget{Exe: "/a:b", PID: 1, Releases: []int{25}, Terms: byNumber}, `bpftrace does not take the path "/a:b" as it is: link it to one without any of "\:*?[],{}`},
		{FormatBPFtrace, []ScriptOutcome{{"a", &function}}, target, fmt.Sprintf(cut, "mfa of nif-return")},
		{FormatBPFtrace, []ScriptOutcome{{"a", &node}}, target, fmt.Sprintf(cut, "remote of dist-monitor")},
		{FormatBPFtrace, []ScriptOutcome{{"a", &long}}, target, fmt.Sprintf("a: bpftrace looks at 62 bytes of a text, and %q is longer: compare with its beginning", strings.Repeat("x", 63))},
	} {
		var script strings.Builder
		err := WriteScript(&script, test.format, test.outcomes, test.target)
		if err == nil || err.Error() != test.want || script.Len() > 0 {
			t.Errorf("%v, want %s; %d bytes written", err, test.want, script.Len())
		}
	}
}

func TestParseFormat(t *testing.T) {
	for _, f := range []Format{FormatD, FormatBPFtrace} {
		if got, err := ParseFormat(f.String()); got != f || err != nil {
			t.Errorf("%s: %s, %v", f, got, err)
		}
	}
	if _, err := ParseFormat("perl"); err == nil || err.Error() != `there is no script format "perl": take d or bpftrace` {
		t.Error(err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

func TestScriptWriteError(t *testing.T) {
	if err := WriteScript(failing{}, FormatD, scriptOutcomes(), ScriptTarget{Releases: Releases(), Terms: byNumber}); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// The expressions of scripts have the same values as the conditions. They are evaluated as Go
// constants: the operators are the same as in C.
func TestScriptConditions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		expr := drawExpr(t)
		terms := drawTerms(t)
		values := drawValues(t, expr[0], terms)
		text, err := scriptor{constants(values), terms}.condition(scriptLine{event: expr[0]})
		if err != nil {
			t.Fatal(err)
		}
		got := true
		if text != "" {
			value, err := types.Eval(token.NewFileSet(), nil, token.NoPos, text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			got = constant.BoolVal(value.Value)
		}
		if want := holds(expr[0].Probe, expr[0].Where, values); got != want {
			t.Fatalf("%s of %+v is %v: %s", expr, values, got, text)
		}
	})
}

// A value is a possible value of an argument.
type value struct {
	text   string
	number int64
	term   uint64 // the term whose text form is text
}

// drawValues draws the arguments of an event, most of them close to the tested values.
func drawValues(t *rapid.T, event Event, terms Terms) []value {
	values := make([]value, len(event.Probe.Args))
	for i := range values {
		values[i] = drawPID(t, terms, rapid.Uint64().Draw(t, "number"), rapid.Uint64Max(3).Draw(t, "serial"))
	}
	for _, test := range tests(event.Where) {
		v := &values[test.Arg]
		switch {
		case rapid.Bool().Draw(t, "far"):
		case event.Probe.isTerm(test.Arg):
			var number, serial uint64
			fmt.Sscanf(test.Text, "<0.%d.%d", &number, &serial)
			digit := rapid.Uint64Max(9).Draw(t, "digit")
			longer := rapid.SampledFrom([]uint64{number, number*10 + digit, number/10 + digit}).Draw(t, "near")
			*v = drawPID(t, terms, longer, serial)
		default:
			v.text = test.Text + rapid.SampledFrom([]string{"", "", "0", ">"}).Draw(t, "more")
			v.number = test.Number + rapid.Int64Range(-1, 1).Draw(t, "beside")
		}
	}
	return values
}

func drawPID(t *rapid.T, terms Terms, number, serial uint64) value {
	numberBits, serialBits := terms.numberBits()
	number &= uint64(mask(numberBits))
	serial &= uint64(mask(serialBits))
	return value{
		text:   fmt.Sprintf("<0.%d.%d>", number, serial),
		number: rapid.Int64().Draw(t, "integer"),
		term:   pidTerm(terms, number, serial),
	}
}

// holds evaluates a condition in the simplest way.
func holds(p Probe, c Condition, values []value) bool {
	switch c := c.(type) {
	case nil:
		return true
	case Not:
		return !holds(p, c.Condition, values)
	case All:
		for _, operand := range c {
			if !holds(p, operand, values) {
				return false
			}
		}
		return true
	case Any:
		for _, operand := range c {
			if holds(p, operand, values) {
				return true
			}
		}
		return false
	}
	test := c.(Test)
	v := values[test.Arg]
	if p.Args[test.Arg].Type.IsText() {
		equal := v.text == test.Text || test.Prefix && strings.HasPrefix(v.text, test.Text)
		return equal == (test.Op == Equal)
	}
	switch test.Op {
	case Equal:
		return v.number == test.Number
	case Unequal:
		return v.number != test.Number
	case Less:
		return v.number < test.Number
	case LessEqual:
		return v.number <= test.Number
	case Greater:
		return v.number > test.Number
	}
	return v.number >= test.Number
}

// constants is a language with constants in place of variables.
type constants []value

func (c constants) number(_ Probe, arg int) string { return fmt.Sprint(c[arg].number) }
func (c constants) term(_ Probe, arg int) string   { return fmt.Sprint(c[arg].term) }
func (c constants) text(_ Probe, arg int) string   { return fmt.Sprintf("%q", c[arg].text) }
func (constants) integer() string                  { return "%d" }
func (constants) time() string                     { return "now" }

func (constants) compare(text, with string, prefix bool) (string, error) {
	text, err := strconv.Unquote(text)
	if prefix {
		return strconv.FormatBool(strings.HasPrefix(text, with)), err
	}
	return strconv.FormatBool(text == with), err
}
