package script

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/sources/pairing"
)

// eventRecord returns the record of an event of outcome o in the VM 7.
func eventRecord(ev pairing.Event) record {
	return record{kind: event, outcome: "o", pid: 7, event: ev}
}

// Each kind of line is parsed correctly.
func TestParse(t *testing.T) {
	for text, want := range map[string]record{
		"t 123":                            {kind: beat, event: pairing.Event{Time: 123}},
		"t 0\r":                            {kind: beat},
		"Lost 17 events":                   {kind: lost, count: 17},
		"dtrace: 5 drops on CPU 0":         {kind: lost, count: 5},
		"s o 7 <0.1.0> 99":                 eventRecord(pairing.Event{Kind: pairing.Start, Key: "<0.1.0>", Time: 99}),
		"s o 7 4711 99":                    eventRecord(pairing.Event{Kind: pairing.Start, Key: "4711", Time: 99}),
		"s o 7 4711 99 12":                 eventRecord(pairing.Event{Kind: pairing.Start, Key: "4711", Time: 99, Text: "12"}),
		"s o 7 #Port<0.3> 99 a b":          eventRecord(pairing.Event{Kind: pairing.Start, Key: "#Port<0.3>", Time: 99, Text: "a b"}),
		"s o 7 'a b':c/1 99 #0.0":          eventRecord(pairing.Event{Kind: pairing.Start, Key: "'a b':c/1", Time: 99}),
		"s o 7 k 99 x #-1.8":               eventRecord(pairing.Event{Kind: pairing.Start, Key: "k", Time: 99, Text: "x", Token: pairing.Token{Label: -1, Cur: 8}}),
		"s o 7 k 99 #Port<0.3>":            eventRecord(pairing.Event{Kind: pairing.Start, Key: "k", Time: 99, Text: "#Port<0.3>"}),
		"s o 7 k 99 x#1.8":                 eventRecord(pairing.Event{Kind: pairing.Start, Key: "k", Time: 99, Text: "x#1.8"}),
		"v o 7 k 99 #3.8":                  eventRecord(pairing.Event{Kind: pairing.Via, Key: "k", Time: 99, Token: pairing.Token{Label: 3, Cur: 8}}),
		"e o 7 k 99":                       eventRecord(pairing.Event{Kind: pairing.End, Key: "k", Time: 99}),
		"e o 7 k 99 =5":                    eventRecord(pairing.Event{Kind: pairing.End, Key: "k", Time: 99, Amount: 5}),
		"e o 7 k 99 =-1 #2.3":              eventRecord(pairing.Event{Kind: pairing.End, Key: "k", Time: 99, Amount: 1<<64 - 1, Token: pairing.Token{Label: 2, Cur: 3}}),
		"e o 7 k 99 =18446744073709551615": eventRecord(pairing.Event{Kind: pairing.End, Key: "k", Time: 99, Amount: 1<<64 - 1}),
		"y o 7 <0.1.0> 99":                 eventRecord(pairing.Event{Kind: pairing.Sync, Key: "<0.1.0>", Time: 99}),
		"a o 7 k <0.2.0> 99":               eventRecord(pairing.Event{Kind: pairing.Arm, Key: "k", Text: "<0.2.0>", Time: 99}),
		"a o 7 k a b 99":                   eventRecord(pairing.Event{Kind: pairing.Arm, Key: "k", Text: "a b", Time: 99}),
	} {
		if diff := cmp.Diff(want, parse(text), cmp.AllowUnexported(record{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// A record keeps none of its line's memory except its own content.
func TestParsePins(t *testing.T) {
	line := "s outcome 7 key 99 text"
	r := parse(line)
	within := func(part string) bool {
		begin, at := uintptr(unsafe.Pointer(unsafe.StringData(line))), uintptr(unsafe.Pointer(unsafe.StringData(part)))
		return begin <= at && at < begin+uintptr(len(line))
	}
	for _, part := range []string{r.outcome, r.event.Key, r.event.Text} {
		if part == "" || within(part) {
			t.Errorf("%q is a part of the line", part)
		}
	}
	if line = "s outcome 7 key x"; within(parse(line).outcome) {
		t.Error("the outcome of a rejected line is a part of the line")
	}
}

// Invalid lines are rejected with the reason, and with the outcome if that is certain.
func TestParseRejects(t *testing.T) {
	for _, test := range []struct {
		text  string
		want  error
		known bool
	}{
		{"x", errKind, false},
		{"Attaching 3 probes...", errKind, false},
		{"Lost many events", errKind, false},
		{"Lost 0 events", errKind, false},
		{"dtrace: 5 errors", errKind, false},
		{"t ", errTime, false},
		{"t -1", errTime, false},
		{"t 4611686018427387904", errTime, false},
		{"t 99999999999999999999", errTime, false},
		{"s ", errOutcome, false},
		{"s o", errOutcome, false},
		{"s  7 k 99", errOutcome, false},
		{"s o x k 99", errPID, false},
		{"s o 0 k 99", errPID, false},
		{"s o +7 k 99", errPID, false},
		{"s o 2147483648 k 99", errPID, false},
		{"s o 7", errPID, false},
		{"s o 7 k", errKey, true},
		{"s o 7  99", errKey, true},
		{"s o 7 " + strings.Repeat("k", maxKey+1) + " 99", errKey, true},
		{"s o 7 k l", errTime, true},
		{"s o 7 k 99 " + strings.Repeat("x", maxKey+1), errTail, true},
		{"v o 7 k 99 x", errTail, true},
		{"y o 7 k 99 x", errTail, true},
		{"y o 7 k 99 #1.2", errTail, true},
		{"e o 7 k 99 x", errTail, true},
		{"e o 7 k 99 =x", errTail, true},
		{"e o 7 k 99 =1 2", errTail, true},
		{"a o 7 k", errTime, true},
		{"a o 7 k 99", errKey, true},
		{"a o 7 k x y", errTime, true},
		{"s " + strings.Repeat("o", maxLine), errLong, false},
	} {
		r := parse(test.text)
		if r.kind != rejected || r.err != test.want || (r.outcome == "o" && r.pid == 7) != test.known || !test.known && r.outcome != "" {
			t.Errorf("%q: kind %d, %v, of outcome %q of %d", test.text, r.kind, r.err, r.outcome, r.pid)
		}
	}
}

// The content of any line is within the limits.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"t 1", "s o 7 k 99 x #1.2", "e o 7 k 99 =5 #1.2", "v o 7 k 99", "y o 7 k 99", "a o 7 k x 99",
		"Lost 17 events", "dtrace: 5 drops on CPU 0", "s o 7 k", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := parse(text)
		ev := r.event
		switch {
		case r.kind == rejected && (r.err == nil || len(r.text) > 80):
			t.Errorf("rejected %q: %v", r.text, r.err)
		case r.kind == lost && r.count == 0:
			t.Error("a loss of no lines")
		case r.kind == event && (r.outcome == "" || r.pid <= 0 || ev.Key == "" || len(ev.Key) > maxKey || len(ev.Text) > maxKey):
			t.Errorf("%+v", r)
		}
		if ev.Time < 0 || ev.Time >= maxTime {
			t.Errorf("at %d", ev.Time)
		}
	})
}
