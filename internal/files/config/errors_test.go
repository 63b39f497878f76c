package config_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/files/config"
)

// Every error shows its place and gives advice. Each one is printed in this form, after the name
// of the file.
func TestErrors(t *testing.T) {
	many := func(n int) string {
		text := ""
		for i := range n {
			text += fmt.Sprintf(" -> a%d", i)
		}
		return text
	}
	entries := func(n int) string {
		text := "outcomes:\n"
		for i := range n {
			text += fmt.Sprintf("  o%d: {}\n", i)
		}
		return text
	}
	qta := func(text string) string { return "outcomes:\n  a:\n    qta: " + text }
	triggers := func(text string) string { return "outcomes:\n  a:\n    triggers: " + text }
	events := func(start, end, more string) string {
		return "outcomes:\n  a:\n    start: " + start + "\n    end: " + end + "\n    " + more
	}
	const (
		unit = `: write a number and a unit (ns, us, ms, s, m, h), as in 500ms, from `
		good = "outcomes: {a: {}}\n"
	)
	long := strings.Repeat("a", 200)
	for _, test := range []struct{ text, want string }{
		{"", `: empty: write outcomes, see docs/reference/scope-file.md`},
		{"# nothing", `: empty: write outcomes, see docs/reference/scope-file.md`},
		{"outcomes: [", ``}, // the message of the YAML parser; see below
		{"just a text", `:1: "just a text" where keys and values are expected, as in {key: value}`},
		{"- a list", `:1: a list where keys and values are expected, as in {key: value}`},
		{"window: 1s", `:1: no outcomes: name what to observe, as in outcomes: {worker_1: {span: worker_1}}`},
		{good + "outcome: {}", `:2: outcome: unknown key: use one of base, confidence, diagram, explain, history, hold_off, outcomes, samples, snapshots, standard_errors, target, window, wrapper`},
		{good + "window: 1s\nwindow: 2s", `:3: window: is on line 2 already: remove one of the two`},
		{good + "{a: b}: c", ``},
		{good + `"a\nb": c`, `:2: "a\nb": unknown key: use one of base, confidence, diagram, explain, history, hold_off, outcomes, samples, snapshots, standard_errors, target, window, wrapper`},
		{`outcomes: {"\e[2J": {}}`, `:1: outcomes."\x1b[2J": a name consists of letters, digits and underscores, has at most 255 bytes, and does not begin with a digit`},
		{good + `"": c`, `:2: a key that is not a word`},

		{good + "---\nfoo: 1", ":2: a second YAML document: write one"},
		{good + "window: soon", `:2: window: "soon" is not a duration` + unit + `100ms to 10s`},
		{good + "window: 5", `:2: window: "5" is not a duration` + unit + `100ms to 10s`},
		{good + "window: -1s", `:2: window: "-1s" is not a duration` + unit + `100ms to 10s`},
		{good + "window: [1s]", `:2: window: a list is not a duration` + unit + `100ms to 10s`},
		{good + "window: 99ms", `:2: window: "99ms" is out of range` + unit + `100ms to 10s`},
		{good + "window: 11s", `:2: window: "11s" is out of range` + unit + `100ms to 10s`},
		{good + "window: 99999999999999s", `:2: window: "99999999999999s" is not a duration` + unit + `100ms to 10s`},
		{good + "base: 999ns", `:2: base: "999ns" is out of range` + unit + `1us to 1h`},

		{good + "target: beam.smp", `:2: target: "beam.smp" where keys and values are expected, as in {key: value}`},
		{good + "target: {}", `:2: target: give one of exe, pid and node`},
		{good + "target: {pid: 1, exe: a}", `:2: target: give one of exe, pid and node`},
		{good + "target: {node: a@b, exe: a, user: b}", `:2: target: give one of exe, pid and node`},
		{good + "target: {pid: 1, user: a}", `:2: target: user: a process has one user: give it with exe or node, or alone`},
		{good + "target: {user: ''}", `:2: target.user: empty, where a name is expected`},
		{good + "target: {pid: 0}", `:2: target.pid: "0" is not a whole number from 1 to 2147483647`},
		{good + "target: {pid: one}", `:2: target.pid: "one" is not a whole number from 1 to 2147483647`},
		{good + "target: {pid: [1]}", `:2: target.pid: a list is not a whole number from 1 to 2147483647`},
		{good + "target: {node: shop}", `:2: target.node: "shop" is not the name of a node: write name@host`},
		{good + "target: {node: '@db1'}", `:2: target.node: "@db1" is not the name of a node: write name@host`},
		{good + "target: {exe: ''}", `:2: target.exe: empty, where a name is expected`},
		{good + "target: {exe: }", `:2: target.exe: nothing where a text is expected`},
		{good + "target: {host: a}", `:2: target.host: unknown key: use one of exe, node, pid, user`},

		{good + "diagram: {a: b}", `:2: diagram: keys and values where a text is expected`},
		{good + "diagram: missing.dq", `:2: diagram: "missing.dq" cannot be read: no such file or directory`},
		{good + `diagram: "a\tb.dq"`, `:2: diagram: "a\tb.dq" cannot be read: no such file or directory`},

		{"outcomes:", `:1: outcomes: nothing where keys and values are expected, as in {key: value}`},
		{"outcomes: a", `:1: outcomes: "a" where keys and values are expected, as in {key: value}`},
		{"outcomes:\n  a: {}\n  a: {}", `:3: outcomes.a: is on line 2 already: rename or remove one of the two`},
		{"outcomes:\n  a: {vm: gc, vm: gc}", `:2: outcomes.a.vm: is on line 2 already: remove one of the two`},
		{"outcomes:\n  " + long + ": {}\n  " + long + ": {}", `:3: outcomes.` + long[:40] + `…: is on line 2 already: rename or remove one of the two`},
		{"outcomes:\n  " + long + ": {span: x}\n  b: {span: x}", `:3: outcomes.b: span "x" is observed by ` + long[:40] + `… already: an instance belongs to one outcome`},
		{"outcomes:\n  a: {}\n  b: {span: a}", `:3: outcomes.b: span "a" is observed by a already: an instance belongs to one outcome`},
		{"outcomes: {a-b: {}}", `:1: outcomes.a-b: a name consists of letters, digits and underscores, has at most 255 bytes, and does not begin with a digit`},
		{"outcomes: {1a: {}}", `:1: outcomes.1a: a name consists of letters, digits and underscores, has at most 255 bytes, and does not begin with a digit`},
		{"outcomes: {a: b}", `:1: outcomes.a: "b" where keys and values are expected, as in {key: value}`},
		{"outcomes:\n  a:\n    dmx: 1ms", `:3: outcomes.a.dmx: unknown key: use one of bins, dmax, end, exit, explain, exponent, fitted, group, key, pair, qta, span, start, triggers, vm, wrapper`},
		{"outcomes: {a: {vm: gc, span: x}}", `:1: outcomes.a: span and vm contradict each other: give one of them`},
		{"outcomes: {a: {vm: gc, wrapper: x}}", `:1: outcomes.a: wrapper and vm contradict each other: give one of them`},
		{"outcomes: {a: {vm: gc, start: x, end: y}}", `:1: outcomes.a: vm and start contradict each other: give one of them`},
		{"outcomes: {a: {vm: gc, key: x}}", `:1: outcomes.a: vm and key contradict each other: give one of them`},
		{"outcomes: {a: {vm: gc, pair: last}}", `:1: outcomes.a: vm and pair contradict each other: give one of them`},
		{"outcomes: {a: {span: x, start: y}}", `:1: outcomes.a: span and start contradict each other: give one of them`},
		{"outcomes: {a: {wrapper: x, end: y}}", `:1: outcomes.a: wrapper and end contradict each other: give one of them`},
		{"outcomes: {a: {start: x}}", `:1: outcomes.a: no end: write which events of the VM are ends, as in end: message-receive`},
		{"outcomes: {a: {end: x, key: y}}", `:1: outcomes.a: no start: write which events of the VM are starts, as in start: message-send`},
		{"outcomes: {a: {group: port}}",
			`:1: outcomes.a.group: spans are grouped by pid, the process that starts them, or by mfa, its function`},
		{"wrapper: {listen: '127.0.0.1:8080'}\noutcomes: {a: {wrapper: a, group: pid}}",
			`:2: outcomes.a.group: spans that come over TCP do not name their processes: leave group out`},
		{"outcomes: {a: {group: ''}}", `:1: outcomes.a.group: empty, where a name is expected`},
		{"outcomes:\n  a:\n    vm: gcc", `:3: outcomes.a.vm: "gcc" is not a built-in outcome: use one of gc, gc-minor, gc-major, hop, mailbox, message, call, lifetime, dirty-nif, file-io, port-busy, dist-busy, run, run-wait, os-wait`},
		{events("port-busy", "port-not_busy", ""), `:3: outcomes.a: port-busy belongs to no process: write the argument by which an end finds its start, as in key: port`},
		{events("process-spawn", "port-open", "key: thred"), `:5: outcomes.a.key: no event has an argument "thred": use one of pid, mfa, name, port, thread`},
		{events("message-send", "message-receive", "key: {start: label}"), `:5: outcomes.a.key: give both, as in {start: sender, end: receiver}`},
		{events("message-send", "message-receive", "key: {start: label, stop: label}"), `:5: outcomes.a.key.stop: unknown key: use one of end, start`},
		{events("message-send", "message-receive", "key: {start: '', end: label}"), `:5: outcomes.a.key.start: empty, where a name is expected`},
		{events("message-send", "message-receive", "key: [label]"), `:5: outcomes.a.key: a list where keys and values are expected, as in {key: value}`},
		{events("message-send", "message-receive", "key: {start: label, end: receiver}"),
			`:5: outcomes.a.key: end: the key of message-receive is a pid, and that of the start an integer: they are never the same`},
		{events("message-send", "message-receive", "pair: lifo"), `:5: outcomes.a.pair: "lifo" is not first, last or fifo`},
		{events("message-send", "message-receive", "pair: [last]"), `:5: outcomes.a.pair: a list is not first, last or fifo`},
		{events("message-send", "message-receive", "group: port"), `:5: outcomes.a.group: no start has an argument "port": use one of pid, mfa, sender, receiver, size, label, prev, cur`},
		{events("port-busy", "port-not_busy", "{key: port, group: mfa}"), ``},
		{"outcomes: {a: {start: [x], end: message-receive}}", `:1: outcomes.a.start: a list where a text is expected`},
		{"outcomes: {a: {end: message-receive, start: " + strings.Repeat("x", 4097) + "}}", `:1: outcomes.a.start: an expression has at most 4096 bytes`},
		{"outcomes: {a: {vm: port-busy, group: pid}}", `:1: outcomes.a.group: port-busy, a start, has no "pid": use one of port`},
		{"outcomes: {a: {vm: port-busy, group: thread}}", `:1: outcomes.a.group: port-busy, a start, has no "thread": use one of port`},
		{"outcomes: {a: {vm: os-wait, group: pid}}", `:1: outcomes.a.group: scheduler threads cannot be grouped: leave group out`},
		{good + "explain: yes", `:2: explain: "yes" is neither true nor false`},
		{"outcomes: {a: {explain: 1}}", `:1: outcomes.a.explain: "1" is neither true nor false`},
		{"outcomes:\n  a:\n    vm: gc\n    explain: true", `:4: outcomes.a.explain: only spans are explained, and this is an outcome of the VM: leave explain out`},
		{"outcomes: {a: {wrapper: a, explain: true}}",
			`:1: outcomes.a.explain: spans that come over TCP do not name their processes: write span instead of wrapper, or leave explain out`},
		{"outcomes: {a: {vm: gc, exit: failure}}", `:1: outcomes.a.exit: its key is not a process, so it cannot exit: leave exit out`},
		{"outcomes: {a: {vm: os-wait, exit: failure}}", `:1: outcomes.a.exit: its key is not a process, so it cannot exit: leave exit out`},
		{"outcomes: {a: {vm: lifetime, exit: failure}}", `:1: outcomes.a.exit: an exit ends its instances already: leave exit out`},
		{"outcomes: {a: {vm: gc, bins: 7}}", `:1: outcomes.a: invalid grid: dMax 20ms over 7 bins is not a whole number of nanoseconds a bin`},
		{"outcomes: {a: {vm: gc, qta: {p50: 21ms}}}", `:1: outcomes.a.qta.p50: "21ms" is above dMax, 20ms, where delays end: lower it, or raise dMax`},
		{"outcomes: {a: {vm: [gc]}}", `:1: outcomes.a.vm: a list where a text is expected`},

		{"outcomes: {a: {span: ''}}", `:1: outcomes.a.span: a span's name has 1 to 255 bytes and no NUL`},
		{"outcomes: {a: {span: \"x\\0\"}}", `:1: outcomes.a.span: a span's name has 1 to 255 bytes and no NUL`},
		{"outcomes: {a: {span: " + strings.Repeat("x", 256) + "}}", `:1: outcomes.a.span: a span's name has 1 to 255 bytes and no NUL`},
		{"outcomes: {a: {span: [x]}}", `:1: outcomes.a.span: a list where a text is expected`},
		{"outcomes: {a: {exit: crash}}", `:1: outcomes.a.exit: "crash" is neither timeout nor failure`},
		{"outcomes: {a: {exponent: 11}}", `:1: outcomes.a.exponent: "11" is not a whole number from -10 to 10`},
		{"outcomes: {a: {exponent: 0.5}}", `:1: outcomes.a.exponent: "0.5" is not a whole number from -10 to 10`},
		{"outcomes: {a: {bins: 0}}", `:1: outcomes.a.bins: "0" is not a whole number from 1 to 65536`},
		{"outcomes: {a: {bins: 65537}}", `:1: outcomes.a.bins: "65537" is not a whole number from 1 to 65536`},
		{"outcomes: {a: {bins: 123456789012345678901234567890123456789012345}}",
			`:1: outcomes.a.bins: "1234567890123456789012345678901234567890…" is not a whole number from 1 to 65536`},
		{"outcomes: {a: {dmax: 2h}}", `:1: outcomes.a.dmax: "2h" is out of range` + unit + `1us to 1h`},
		{"outcomes: {a: {dmax: 61m}}", `:1: outcomes.a.dmax: "61m" is out of range` + unit + `1us to 1h`},
		{"outcomes: {a: {dmax: 1ms, exponent: 1}}", `:1: outcomes.a: dmax and exponent contradict each other: give one of them`},
		{"outcomes: {a: {dmax: 1ms, bins: 3}}",
			`:1: outcomes.a: invalid grid: dMax 1ms over 3 bins is not a whole number of nanoseconds a bin`},
		{"outcomes: {a: {dmax: 10us, bins: 20}}", `:1: outcomes.a: invalid grid: bin width 500ns: want at least 1µs`},
		{"outcomes: {a: {bins: 1001}}", `:1: outcomes.a: invalid grid: 1001 bins: want 1 to 1000`},
		{"base: 1us\noutcomes: {a: {exponent: -1}}", `:2: outcomes.a: invalid grid: bin width 500ns: want at least 1µs`},
		{"base: 1us\noutcomes: {a: {exponent: -4}}",
			`:2: outcomes.a: invalid grid: base 1µs times 2^-4 is not a whole number of nanoseconds`},
		{"outcomes: {a: {qta: fast}}", `:1: outcomes.a.qta: "fast" where keys and values are expected, as in {key: value}`},

		{"outcomes: {" + strings.Repeat("a", 256) + ": {}}",
			`:1: outcomes.` + strings.Repeat("a", 40) + `…: a name consists of letters, digits and underscores, has at most 255 bytes, and does not begin with a digit`},
		{"outcomes:\n  a: {}\ndiagram: p = x\nwindow: 1s\noutcome: {}", `:5: outcome: unknown key: use one of base, confidence, diagram, explain, history, hold_off, outcomes, samples, snapshots, standard_errors, target, window, wrapper`},
		{"diagram: ''", `:1: no outcomes: name what to observe, as in outcomes: {worker_1: {span: worker_1}}`},
		{"diagram: p = " + strings.Repeat("a", 256), `:1: diagram: the name aaaaaaaaaaaaaaaaaaaa… is too long: an outcome's has at most 255 bytes`},
		{"window: 1s\ndiagram: p = a" + many(4200), `:2: diagram: diagram too large: 4202 outcomes, operators and sequences: at most 4096`},
		{entries(1001), `:2: outcomes: 1001 outcomes: at most 1000, with the names of the diagram`},
		{"diagram: p = a -> b\n" + entries(998), `:3: outcomes: 1001 outcomes: at most 1000, with the names of the diagram`},
		{"diagram: p = a" + many(1000), `:1: 1002 outcomes: at most 1000, with the names of the diagram`},
		{"diagram: p = a -> b\noutcomes:\n  x: {span: a}", `:3: outcomes.x: span "a" is that of a in the diagram too: give a an entry with a span of its own`},

		{good + "history: 0", `:2: history: "0" is not a whole number from 1 to 1024`},
		{good + "history: 1025", `:2: history: "1025" is not a whole number from 1 to 1024`},
		{good + "confidence: 1", `:2: confidence: "1" is not a number above 0 and below 1`},
		{good + "confidence: 0", `:2: confidence: "0" is not a number above 0 and below 1`},
		{good + "confidence: 95%", `:2: confidence: "95%" is not a number above 0 and below 1: did you mean 0.95?`},
		{good + "confidence: nan", `:2: confidence: "nan" is not a number above 0 and below 1`},
		{good + "confidence: 0x1p-1", `:2: confidence: "0x1p-1" is not a number above 0 and below 1`},
		{good + "standard_errors: 0", `:2: standard_errors: "0" is not a number above 0 and up to 100`},
		{good + "standard_errors: 101", `:2: standard_errors: "101" is not a number above 0 and up to 100`},
		{good + "standard_errors: 2\nconfidence: 0.9", `:1: confidence and standard_errors: give one of them, as the bounds of a mean are of one kind`},
		{good + "confidence: {}", `:2: confidence: keys and values is not a number above 0 and below 1`},
		{good + "samples: 0", `:2: samples: "0" is not a whole number from 1 to 1000000`},
		{good + "hold_off: 2h", `:2: hold_off: "2h" is out of range` + unit + `0s to 1h`},

		{good + "wrapper: 127.0.0.1:8080", `:2: wrapper: "127.0.0.1:8080" where keys and values are expected, as in {key: value}`},
		{good + "wrapper: {port: 1}", `:2: wrapper.port: unknown key: use one of connect, listen, remote`},
		{good + "wrapper: {remote: maybe}", `:2: wrapper.remote: "maybe" is neither true nor false`},
		{good + "wrapper: {listen: '8080'}", `:2: wrapper.listen: "8080" is not an address: write host:port, as in 127.0.0.1:8080`},
		{good + "wrapper: {listen: ':8080'}", `:2: wrapper.listen: ":8080" is not an address: write host:port, as in 127.0.0.1:8080`},
		{good + "wrapper: {listen: 'localhost:0'}", `:2: wrapper.listen: "localhost:0" is not an address: write host:port, as in 127.0.0.1:8080`},
		{good + "wrapper: {listen: 'localhost:65536'}", `:2: wrapper.listen: "localhost:65536" is not an address: write host:port, as in 127.0.0.1:8080`},
		{good + "wrapper: {listen: 'a b:1'}", `:2: wrapper.listen: "a b:1" is not an address: write host:port, as in 127.0.0.1:8080`},
		{good + "wrapper: {listen: [a]}", `:2: wrapper.listen: a list where a text is expected`},
		{good + "wrapper: {listen: '0.0.0.0:8080'}", `:2: wrapper.listen: "0.0.0.0:8080" is open to other machines, and the protocol has neither encryption nor passwords: write remote: true beside it to allow this`},
		{good + "wrapper: {listen: '[::]:8080'}", `:2: wrapper.listen: "[::]:8080" is open to other machines, and the protocol has neither encryption nor passwords: write remote: true beside it to allow this`},
		{good + "wrapper: {connect: 127.0.0.1:8081}", `:2: wrapper.connect: "127.0.0.1:8081" where a list is expected, as in [a, b]`},
		{good + "wrapper:\n  connect:\n  - db1:8081", `:4: wrapper.connect: "db1:8081" is open to other machines, and the protocol has neither encryption nor passwords: write remote: true beside it to allow this`},
		{good + "wrapper: {connect: ['localhost:1', 'localhost:1']}", `:2: wrapper.connect: "localhost:1" is there already: remove one`},
		{"outcomes: {a: {wrapper: x, span: x}}", `:1: outcomes.a: span and wrapper contradict each other: give one of them`},
		{"outcomes: {a: {wrapper: ''}}", `:1: outcomes.a.wrapper: a span's name has 1 to 255 bytes and no NUL`},
		{"outcomes:\n  a:\n    wrapper: x\n    exit: failure",
			`:4: outcomes.a.exit: exits of processes are not seen over TCP: write span instead of wrapper, or leave exit out`},
		{"outcomes:\n  a: {wrapper: x}\n  b: {wrapper: x}", `:3: outcomes.b: wrapper "x" is observed by a already: an instance belongs to one outcome`},

		{good + "snapshots: false", `:2: snapshots: "false" where keys and values are expected, as in {key: value}`},
		{good + "snapshots: {folder: a}", `:2: snapshots.folder: unknown key: use one of after, before, dir, keep, size`},
		{good + "snapshots: {dir: ''}", `:2: snapshots.dir: empty, where a name is expected`},
		{good + "snapshots: {before: 1025}", `:2: snapshots.before: "1025" is not a whole number from 0 to 1024`},
		{good + "snapshots: {after: 11m}", `:2: snapshots.after: "11m" is out of range` + unit + `0s to 10m`},
		{good + "snapshots: {keep: 0}", `:2: snapshots.keep: "0" is not a whole number from 1 to 100000`},
		{good + "snapshots: {size: 100MB}", `:2: snapshots.size: "100MB" is not a size from 1MiB to 1024GiB: write a whole number and a unit (KiB, MiB, GiB), as in 100MiB`},
		{good + "snapshots: {size: 1KiB}", `:2: snapshots.size: "1KiB" is not a size from 1MiB to 1024GiB: write a whole number and a unit (KiB, MiB, GiB), as in 100MiB`},
		{good + "snapshots: {size: 1025GiB}", `:2: snapshots.size: "1025GiB" is not a size from 1MiB to 1024GiB: write a whole number and a unit (KiB, MiB, GiB), as in 100MiB`},

		{qta("{}"), `:3: outcomes.a.qta: empty: write what is required, as in {p50: 12ms, failure: 0.05}`},
		{qta("{p0: 1ms}"), `:3: outcomes.a.qta.p0: unknown key: use failure, points, or p and a number above 0 and below 100, as in p50`},
		{qta("{p100: 1ms}"), `:3: outcomes.a.qta.p100: unknown key: use failure, points, or p and a number above 0 and below 100, as in p50`},
		{qta("{q50: 1ms}"), `:3: outcomes.a.qta.q50: unknown key: use failure, points, or p and a number above 0 and below 100, as in p50`},
		{qta("{failure: 10%}"), `:3: outcomes.a.qta.failure: "10%" is not a number from 0 to 1: did you mean 0.1?`},
		{qta("{failure: 1.1}"), `:3: outcomes.a.qta.failure: "1.1" is not a number from 0 to 1`},
		{qta("{p50: soon}"), `:3: outcomes.a.qta.p50: "soon" is not a duration` + unit + `0s to 50ms`},
		{qta("{p50: 51ms}"), `:3: outcomes.a.qta.p50: "51ms" is above dMax, 50ms, where delays end: lower it, or raise dMax`},
		{qta("\n      p25: 6ms\n      p50: 5ms"), `:5: outcomes.a.qta.p50: 5ms is less than the 6ms of p25: a larger share takes as long at least`},
		{qta("\n      p50: 6ms\n      points: {0.25: 7ms}"), `:4: outcomes.a.qta.p50: 6ms is less than the 7ms of 0.25: a larger share takes as long at least`},
		{qta("{p50: 6ms, p50.0: 7ms}"), `:3: outcomes.a.qta.p50.0: the same as p50 on line 3: remove one`},
		{qta("{points: {}}"), `:3: outcomes.a.qta.points: empty: write probabilities and delays, as in {0.9: 20ms}`},
		{qta("{points: [1ms]}"), `:3: outcomes.a.qta.points: a list where keys and values are expected, as in {key: value}`},
		{qta("{points: {0: 1ms}}"), `:3: outcomes.a.qta.points.0: not a probability: write a number above 0, up to 1`},
		{qta("{points: {1.5: 1ms}}"), `:3: outcomes.a.qta.points.1.5: not a probability: write a number above 0, up to 1`},
		{qta("{points: {p50: 1ms}}"), `:3: outcomes.a.qta.points.p50: not a probability: write a number above 0, up to 1`},
		{qta("{points: {0.5: 1h}}"), `:3: outcomes.a.qta.points.0.5: "1h" is above dMax, 50ms, where delays end: lower it, or raise dMax`},

		{triggers("true"), `:3: outcomes.a.triggers: "true" where keys and values are expected, as in {key: value}`},
		{triggers("{lod: 1}"), `:3: outcomes.a.triggers.lod: unknown key: use one of condition, divergence, failure, hazard, load, loss, qta, rate, silence`},
		{triggers("{load: }"), `:3: outcomes.a.triggers.load: nothing where a text is expected`},
		{triggers("{load: [1]}"), `:3: outcomes.a.triggers.load: a list where a text is expected`},
		{triggers("{load: many}"), `:3: outcomes.a.triggers.load: "many": write how many instances a window may have, as in 5000`},
		{triggers("{failure: 7.5%}"), `:3: outcomes.a.triggers.failure: "7.5%": write the share of instances that may fail or time out, from 0 to below 1, as in 0.05: did you mean 0.075?`},
		{triggers("{failure: 2}"), `:3: outcomes.a.triggers.failure: "2": write the share of instances that may fail or time out, from 0 to below 1, as in 0.05`},
		{triggers("{condition: p98 > 1}"),
			`:3: outcomes.a.triggers.condition: unknown name p98 (1:1): write a condition such as p99 > 20*ms && n > 100`},
		{triggers(`{condition: "n > \e"}`),
			`:3: outcomes.a.triggers.condition: unrecognized character: U+001B (1:5): write a condition such as p99 > 20*ms && n > 100`},
		{triggers("{qta: true}"), `:3: outcomes.a.triggers.qta: nothing is required of a: write qta beside triggers, as in qta: {p50: 12ms}`},
		{"outcomes: {a: {dmax: 50ms, qta: {p99: 40ms, failure: 0.02}, triggers: {hazard: 0.05}}}",
			`:1: outcomes.a.triggers.hazard: with this QTA the slack is 0.01 where everything succeeds at once: write less, or true`},
		{triggers("{condition: 1 < 2}"), `:3: outcomes.a.triggers.condition: it uses no figure of the window, such as n or p99`},
		{triggers("{condition: 20*ms > 1}"), `:3: outcomes.a.triggers.condition: it uses no figure of the window, such as n or p99`},
		{triggers("{condition: slack < 0}"), `:3: outcomes.a.triggers.condition: nothing is required of a: write qta beside triggers, as in qta: {p50: 12ms}`},
		{triggers("{condition: calculated_p50 > 1}"), `:3: outcomes.a.triggers.condition: a is not calculated: only the definitions and operators of a diagram are`},
		{triggers("{hazard: true}"), `:3: outcomes.a.triggers.hazard: nothing is required of a: write qta beside triggers, as in qta: {p50: 12ms}`},
		{triggers("{divergence: true}"), `:3: outcomes.a.triggers.divergence: a is not calculated: only the definitions and operators of a diagram are`},
		{"diagram: p = a\n" + triggers("{divergence: true}"),
			`:4: outcomes.a.triggers.divergence: a is not calculated: only the definitions and operators of a diagram are`},
	} {
		_, err := config.Parse("f", []byte(test.text))
		var placed *config.Error
		if !errors.As(err, &placed) || !errors.Is(err, config.ErrInvalid) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error %v, want a config.Error of one line", test.text, err)
			continue
		}
		if got := strings.TrimPrefix(err.Error(), "f"); test.want != "" && got != test.want {
			t.Errorf("%q:\n got %s\nwant %s", test.text, got, test.want)
		}
		if test.want == "" && placed.Line == 0 {
			t.Errorf("%q: no line: %v", test.text, err)
		}
	}
}

// An error of an expression has its place in the scope file and two more lines: the expression,
// and a mark below the wrong character.
func TestExpressionErrors(t *testing.T) {
	for text, want := range map[string]string{
		"outcomes:\n  a:\n    start: message-recieve\n    end: message-send": "f:3: outcomes.a.start: there is no probe message-recieve: did you mean message-receive?\nmessage-recieve\n^",
		"outcomes:\n  a:\n    start: message-send\n    end: message-receive[sendr=3]": "f:4: outcomes.a.end: message-receive has no argument sendr: " +
			"it has receiver (pid), size (words), qlen (int), label (int), prev (int), cur (int)\nmessage-receive[sendr=3]\n                ^",
		"outcomes:\n  a:\n    start: \"message-send[\\nsize=\\e\"\n    end: message-receive": "f:3: outcomes.a.start: size is an integer, and here must be one: write it as 42, -1, 4_000 or 0xff\nmessage-send[ size= \n                   ^",
	} {
		_, err := config.Parse("f", []byte(text))
		var syntax *dtrace.SyntaxError
		if !errors.Is(err, config.ErrInvalid) || !errors.As(err, &syntax) || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

// All errors of a diagram are reported at once, each with its place: in the scope file if the
// diagram is there, and otherwise in its own file.
func TestDiagramErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "system.dq")
	write(t, dir, map[string]string{"system.dq": "p = a\n  -> s:q;\nr = f:x(a);\n", "empty.dq": ""})
	for text, want := range map[string]string{
		"window: 1s\ndiagram: |\n\n  # first\n  p = a -> s:q;\n  r = f:x(a);\nbase: 1ms": "SCOPE:5: diagram: s:q is not defined\np = a -> s:q;\n           ^\n" +
			"SCOPE:6: diagram: f:x has one component: want two or more\nr = f:x(a);\n    ^^^",
		"diagram: |2-\n    p = a b":                 "SCOPE:2: diagram: unexpected \"b\": want ';', '->' or the end\n  p = a b\n        ^",
		"diagram: >\n  x = a;\n  y = s:q;":          "SCOPE:1: diagram: s:q is not defined\nx = a; y = s:q;\n             ^",
		"window: 1s\ndiagram: p = s:q":              "SCOPE:2: diagram: s:q is not defined\np = s:q\n      ^",
		"window: 1s\ndiagram: \"p = a;\\nq = s:r\"": "SCOPE:2: diagram: s:r is not defined\nq = s:r\n      ^",
		"window: 1s\ndiagram: system.dq": file + ":2:8: s:q is not defined\n  -> s:q;\n       ^\n" +
			file + ":3:5: f:x has one component: want two or more\nr = f:x(a);\n    ^^^",
		"diagram: " + file: file + ":2:8: s:q is not defined\n  -> s:q;\n       ^\n" +
			file + ":3:5: f:x has one component: want two or more\nr = f:x(a);\n    ^^^",
		"diagram: system.txt": "SCOPE:1: diagram: unexpected character '.'\nsystem.txt\n      ^",
		"diagram: empty.dq":   "SCOPE:1: no outcomes: name what to observe, as in outcomes: {worker_1: {span: worker_1}}",
		"diagram: .dq":        "SCOPE:1: diagram: \".dq\" cannot be read: no such file or directory",
	} {
		scope := filepath.Join(dir, "scope.yaml")
		_, err := config.Parse(scope, []byte(text))
		if want := strings.ReplaceAll(want, "SCOPE", scope); !errors.Is(err, config.ErrInvalid) || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

// The name of a file stays on one line in an error, whatever characters it has.
func TestErrorsWithOddFileNames(t *testing.T) {
	const name, want = "a\x1b[31m\nb", `a\u001b[31m\nb:1`
	_, inDiagram := config.ParseDiagram(name, "p = s:q")
	_, inScope := config.Parse(name, []byte("window: x"))
	for _, err := range []error{inDiagram, inScope} {
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %q, want one that begins with %q", err, want)
		}
	}
}

// The errors of a diagram are available individually.
func TestDiagramErrorUnwraps(t *testing.T) {
	_, err := config.ParseDiagram("system.dq", "p = s:q")
	var errs diagram.Errors
	if !errors.As(err, &errs) || len(errs) != 1 || errs[0].Pos != (diagram.Pos{Line: 1, Column: 7}) {
		t.Errorf("error %#v", err)
	}
}
