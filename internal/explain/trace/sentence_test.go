package trace_test

import (
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/explain/trace"
)

func TestSentence(t *testing.T) {
	const whole = 100 * ms
	own, other := pid(10), pid(123)
	for _, tt := range []struct {
		span trace.Span
		want string
	}{
		{trace.Span{Kind: trace.Running, Process: own}, "100 % of probe #12 was running of its own process"},
		{trace.Span{Kind: trace.Running, Process: other}, "100 % of probe #12 was running of <0.123.0>"},
		{trace.Span{Kind: trace.Ready, Process: own}, "100 % of probe #12 was waiting to run"},
		{
			trace.Span{Kind: trace.Ready, Process: own, Other: pid(99), OtherName: "neighbour"},
			"100 % of probe #12 was waiting to run, while <0.99.0> (neighbour) ran on the scheduler",
		},
		{
			trace.Span{Kind: trace.Ready, Process: other, Name: "server", Other: pid(99)},
			"100 % of probe #12 was waiting to run of <0.123.0> (server), while <0.99.0> ran on the scheduler",
		},
		{trace.Span{Kind: trace.GC, Process: own}, "100 % of probe #12 was garbage collection of its own process"},
		{
			trace.Span{Kind: trace.Mailbox, Process: other, Name: "queue_2", Behind: 812},
			"100 % of probe #12 was waiting in the mailbox of <0.123.0> (queue_2), behind 812 messages",
		},
		{
			trace.Span{Kind: trace.Ready, Process: other, Name: "'Elixir.MyApp.Worker':init/1", Other: pid(99), OtherName: "'Elixir.MyApp.Repo'"},
			"100 % of probe #12 was waiting to run of <0.123.0> (MyApp.Worker:init/1), while <0.99.0> (MyApp.Repo) ran on the scheduler",
		},
		{
			trace.Span{Kind: trace.NIF, Process: own, Detail: "'Elixir.MyApp.Native':hash/1"},
			"100 % of probe #12 was the dirty function MyApp.Native:hash/1 of its own process",
		},
		{trace.Span{Kind: trace.Mailbox, Process: other, Behind: 1}, "100 % of probe #12 was waiting in the mailbox of <0.123.0>, behind 1 message"},
		{trace.Span{Kind: trace.Mailbox, Process: other, Behind: 1, Overtaken: 4}, "100 % of probe #12 was waiting in the mailbox of <0.123.0>, behind 1 message, overtaken by 4"},
		{trace.Span{Kind: trace.Mailbox, Process: other, Behind: 2, Overtaken: 1}, "100 % of probe #12 was waiting in the mailbox of <0.123.0>, behind 2 messages, overtaken by 1"},
		{trace.Span{Kind: trace.Mailbox, Process: other, Overtaken: 1}, "100 % of probe #12 was waiting in the mailbox of <0.123.0>, overtaken by 1 message"},
		{trace.Span{Kind: trace.Mailbox, Process: other, Overtaken: 5}, "100 % of probe #12 was waiting in the mailbox of <0.123.0>, overtaken by 5 messages"},
		{trace.Span{Kind: trace.Mailbox, Process: other}, "100 % of probe #12 was waiting in the mailbox of <0.123.0>"},
		{
			trace.Span{Kind: trace.NIF, Process: own, Detail: "prim_file:read_nif/2"},
			"100 % of probe #12 was the dirty function prim_file:read_nif/2 of its own process",
		},
		{trace.Span{Kind: trace.NIF, Process: other}, "100 % of probe #12 was dirty function of <0.123.0>"},
		{
			trace.Span{Kind: trace.Port, Process: own, Detail: "#Port<0.7>"},
			"100 % of probe #12 was port stall of its own process at #Port<0.7>",
		},
		{trace.Span{Kind: trace.Port, Process: own}, "100 % of probe #12 was port stall of its own process"},
		{
			trace.Span{Kind: trace.VMWait, Process: own, Detail: "persistent terms"},
			"100 % of probe #12 was waiting for the VM: persistent terms",
		},
		{trace.Span{Kind: trace.VMWait, Process: other}, "100 % of probe #12 was waiting of <0.123.0> for the VM"},
		{
			trace.Span{Kind: trace.Suspended, Process: other, Other: pid(5), OtherName: "debugger"},
			"100 % of probe #12 was suspension of <0.123.0>, by <0.5.0> (debugger)",
		},
		{trace.Span{Kind: trace.Blocked, Process: own, Detail: "futex"}, "100 % of probe #12 was the scheduler's thread being blocked in futex"},
		{trace.Span{Kind: trace.Blocked, Process: other}, "100 % of probe #12 was the scheduler's thread of <0.123.0> being blocked"},
		{trace.Span{Kind: trace.Stopped, Process: own, Detail: "by a signal"}, "100 % of probe #12 was the VM being stopped by a signal"},
		{trace.Span{Kind: trace.Stopped, Process: other}, "100 % of probe #12 was the VM being stopped"},
		{trace.Span{Kind: trace.Suspended, Process: own}, "100 % of probe #12 was suspension of its own process"},
		{
			trace.Span{Kind: trace.Waiting, Process: pid(77), Name: "holder", Reason: "beamscope did not track it then"},
			"100 % of probe #12 was waiting for <0.77.0> (holder): beamscope did not track it then",
		},
		{trace.Span{Kind: trace.Waiting}, "100 % of probe #12 was waiting for another process"},
		{trace.Span{Kind: trace.OSWait, Process: own}, "100 % of probe #12 was waiting for a processor of the machine"},
		{
			trace.Span{Kind: trace.OSWait, Process: other, Name: "server"},
			"100 % of probe #12 was <0.123.0> (server) waiting for a processor of the machine",
		},
		{
			trace.Span{Kind: trace.Timer, Process: own, Reason: "the message of a timer ended the wait"},
			"100 % of probe #12 was waiting for a timer: the message of a timer ended the wait",
		},
		{trace.Span{Kind: trace.Timer, Process: other, Name: "server"}, "100 % of probe #12 was <0.123.0> (server) waiting for a timer"},
		{trace.Span{Kind: trace.External, Process: own, Detail: "#Port<0.7>"}, "100 % of probe #12 was waiting for #Port<0.7>"},
		{trace.Span{Kind: trace.External, Process: other}, "100 % of probe #12 was <0.123.0> waiting for a port or another node"},
		{
			trace.Span{Kind: trace.Unexplained, Process: own, Reason: "woken by a timer"},
			"100 % of probe #12 is unexplained: woken by a timer",
		},
		{
			trace.Span{Kind: trace.Unexplained, Process: other, Reason: "woken by a timer", Mark: trace.Inferred},
			"100 % of probe #12 is unexplained time of <0.123.0>, inferred: woken by a timer",
		},
		{
			trace.Span{Kind: trace.Waiting, Process: other, Mark: trace.Ambiguous},
			"100 % of probe #12 was waiting for <0.123.0>, ambiguous: more than one message may be the one",
		},
		{
			trace.Span{Kind: trace.GC, Process: other, Name: "a\x1b[2Jb"},
			"100 % of probe #12 was garbage collection of <0.123.0> (a\\u001b[2Jb)",
		},
	} {
		tt.span.End = whole
		tr := trace.Trace{Spans: []trace.Span{{Parent: -1, End: whole, Process: own}, tt.span}}
		if got := tr.Sentence("probe #12"); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// The sentence mentions the second share if that is large.
func TestSentenceOfTwo(t *testing.T) {
	want := "70 % of probe #4711 was waiting in the mailbox of <0.20.0> (queue_2), behind 812 messages, inferred from the order of messages; " +
		"21 % was running of <0.30.0>, through <0.20.0> (queue_2), inferred from the order of messages"
	if got := call().Sentence("probe #4711"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	short := call()
	short.Spans[7].End -= 2 * ms // 19 % instead of 21
	short.Spans[8].Start -= 2 * ms
	want = "70 % of probe #4711 was waiting in the mailbox of <0.20.0> (queue_2), behind 812 messages, inferred from the order of messages"
	if got := short.Sentence("probe #4711"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := (&trace.Trace{Spans: []trace.Span{{Parent: -1}}}).Sentence("probe"); got != "" {
		t.Errorf("of an instance without a duration it says %q", got)
	}
}

func TestPercent(t *testing.T) {
	for _, tt := range []struct {
		part, whole int64
		want        string
	}{
		{0, 10, "0 %"}, {1, 1000, "<1 %"}, {50, 10000, "<1 %"}, {5, 1000, "<1 %"}, {51, 10000, "1 %"}, {91, 100, "91 %"}, {9999, 10000, ">99 %"}, {7, 7, "100 %"},
	} {
		if got := trace.Percent(tt.part, tt.whole); got != tt.want {
			t.Errorf("%d of %d is shown as %s, want %s", tt.part, tt.whole, got, tt.want)
		}
	}
}

// An instance has the name from the file.
func TestForeignInstance(t *testing.T) {
	const foreign = "probe\x1b[2J #1"
	if got := call().Sentence(foreign); !strings.HasPrefix(got, "70 % of probe\\u001b[2J #1 was ") {
		t.Errorf("the sentence %q", got)
	}
	var b strings.Builder
	if err := call().WriteText(&b, foreign, false); err != nil {
		t.Fatal(err)
	}
	if line, _, _ := strings.Cut(b.String(), "\n"); !strings.HasSuffix(line, "▏ probe\\u001b[2J #1") {
		t.Errorf("the line %q", line)
	}
}
