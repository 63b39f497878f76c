package dtrace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRuleValidate(t *testing.T) {
	gc := Rule{Start: events("gc_minor-start"), End: events("gc_minor-end"), Key: Key{Thread, Thread}, Pairing: Last}
	change := func(f func(*Rule)) Rule {
		r := gc
		f(&r)
		return r
	}
	call := Rule{
		Start: events("message-send"), End: events("process-demonitor"), Key: Key{"sender", "pid"},
		Arm: events("process-monitor"), Armed: "target", ArmedBy: "receiver",
	}
	for _, test := range []struct {
		name string
		rule Rule
		want string // "": valid
	}{
		{"a key that is there", gc, ""},
		{"the subject in place of the key", change(func(r *Rule) { r.Start, r.Key = events("message-queued"), Key{"pid", "pid"} }), ""},
		{"via", change(func(r *Rule) { r.Via, r.Pairing, r.Key = events("message-queued"), FIFO, Key{"pid", "pid"} }), ""},
		{"arm", call, ""},
		{"amount", change(func(r *Rule) { r.Amount = "reclaimed" }), ""},
		{"run queue", Rule{RunQueue: true}, ""},

		{"nothing", Rule{}, "an outcome has both start and end"},
		{"no end", change(func(r *Rule) { r.End = nil }), "an outcome has both start and end"},
		{"no such pairing", change(func(r *Rule) { r.Pairing = 3 }), "there is no pairing 3"},
		{"run queue with events", change(func(r *Rule) { r.RunQueue = true }), "the waits of scheduler threads have no events, no key and no amount"},
		{"run queue with key", Rule{RunQueue: true, Key: Key{Start: Thread}}, "the waits of scheduler threads have no events, no key and no amount"},
		{"via without FIFO", change(func(r *Rule) { r.Via = events("message-queued") }), "via goes with the pairing fifo only, not last"},
		{
			"no key", change(func(r *Rule) { r.End, r.Key = events("gc_minor-end or port-busy"), Key{"pid", "pid"} }),
			`end: port-busy has no argument "pid" to be its key: it has port (port), or take thread`,
		},
		{
			"empty key", change(func(r *Rule) { r.Start, r.End, r.Key = events("port-busy"), events("port-not_busy"), Key{} }),
			`start: port-busy has no argument "" to be its key: it has port (port), or take thread`,
		},
		{
			"keys of two kinds", change(func(r *Rule) { r.Key.End = "pid" }),
			"end: the key of gc_minor-end is a pid, and that of the start a thread: they are never the same",
		},
		{
			"keys of two types", change(func(r *Rule) { r.Key = Key{"need", "pid"} }),
			"end: the key of gc_minor-end is a pid, and that of the start an integer: they are never the same",
		},
		{
			"via of another kind", change(func(r *Rule) { r.Via, r.Pairing, r.Key = events("port-busy"), FIFO, Key{"pid", "pid"} }),
			`via: port-busy has no argument "pid" to be its key: it has port (port), or take thread`,
		},
		{
			"armed by nothing", change(func(r *Rule) { r.Armed = "pid" }),
			"arm: there are arguments to compare, but no events",
		},
		{
			"no argument to arm", Rule{Start: call.Start, End: call.End, Key: call.Key, Arm: call.Arm, Armed: "receiver", ArmedBy: "receiver"},
			`arm: process-monitor has no argument "receiver": it has type (int), pid (pid), target (pid)`,
		},
		{
			"no argument to be armed by", Rule{Start: call.Start, End: call.End, Key: call.Key, Arm: call.Arm, Armed: "target", ArmedBy: "target"},
			`start: message-send has no argument "target": it has sender (pid), receiver (pid), size (words), label (int), prev (int), cur (int)`,
		},
		{
			"armed by another type", Rule{Start: call.Start, End: call.End, Key: call.Key, Arm: call.Arm, Armed: "type", ArmedBy: "receiver"},
			"start: receiver of message-send is a pid, and type of process-monitor an integer: they are never the same",
		},
		{"no amount", change(func(r *Rule) { r.Amount = "need" }), `end: gc_minor-end has no argument "need": it has pid (pid), reclaimed (words)`},
		{"amount of text", change(func(r *Rule) { r.Amount = "pid" }), "end: pid of gc_minor-end is a pid, and cannot be added up"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if err := test.rule.Validate(); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRuleProbes(t *testing.T) {
	for name, want := range map[string][]string{
		"gc":       {"gc_minor-start", "gc_major-start", "gc_minor-end", "gc_major-end"},
		"message":  {"message-send", "message-receive", "message-queued"},
		"call":     {"message-send", "process-demonitor", "process-monitor"},
		"run-wait": {"process-out", "process-in"},
		"os-wait":  nil,
	} {
		b, _ := LookupBuiltin(name)
		var got []string
		for _, p := range b.Rule.Probes() {
			got = append(got, p.DTraceName())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	again := Rule{Start: events("gc_minor-start[need>1] or gc_minor-start"), End: events("gc_minor-end")}
	if n := len(again.Probes()); n != 2 {
		t.Errorf("%d probes, want each once", n)
	}
}
