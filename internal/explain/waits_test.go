package explain

import (
	"strings"
	"testing"

	"github.com/beamscope/beamscope/bpf"
)

const (
	sleeps = ": its receive timed out: it slept, or the message that it waited for did not come"
	either = ": its receive timed out, or a message came before it could run again: the VM does not tell which"
)

// A wait that a timer ends is not a wait for a message that comes meanwhile and is taken later.
func TestTimeout(t *testing.T) {
	for _, s := range []scenario{{
		name: "a sleep, and then a message that came meanwhile", events: `
			0 watch 1
			10 start 1 7
			20 out 1 timer
			40000 send 5>1 unwatched 4
			40001 able 1
			40005 in 1
			40006 out 1 timer
			90000 able 1 over
			90010 in 1 over
			90020 queued 1 4 #1
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-20 running 1
			20-40005 timer 1` + sleeps + `
			40005-40006 running 1
			40006-90000 timer 1` + sleeps + `
			90000-90010 ready 1
			90010-90030 running 1`,
	}, {
		name: "the message comes when the time is over already, and it has not yet run", events: `
			0 watch 1
			10 start 1 7
			20 out 1 timer
			40000 able 1 over
			50000 send 5>1 unwatched 4
			90010 in 1 over
			90020 queued 1 4 #1
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-20 running 1
			20-40000 timer 1 inferred` + either + `
			40000-90010 ready 1 inferred
			90010-90030 running 1`,
	}, {
		name: "the time is over when a message has made it ready", events: `
			0 watch 1
			10 start 1 7
			20 out 1 timer
			40000 send 5>1 unwatched 4
			40001 able 1
			90010 in 1 over
			90020 queued 1 4 #1
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-20 running 1
			20-40000 timer 1 inferred` + either + `
			40000-90010 ready 1 inferred
			90010-90030 running 1`,
	}, {
		name: "the time is over after a message has made it ready, and before it runs", events: `
			0 watch 1
			10 start 1 7
			20 out 1 timer
			40000 send 5>1 unwatched 4
			40001 able 1
			70000 able 1 over
			90010 in 1 over
			90020 queued 1 4 #1
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-20 running 1
			20-70000 timer 1 inferred` + either + `
			70000-90010 ready 1 inferred
			90010-90030 running 1`,
	}, {
		name: "it has no processor until it looks at a message, nor while it does", events: `
			0 watch 1
			10 start 1 7
			20 out 1 timer
			40000 send 5>1 unwatched 4
			40001 able 1
			50000 off @1 40100 40100
			50005 in 1
			60000 off @1 50006 50006
			60006 out 1 timer
			90000 able 1 over
			90005 off @1 90001 90001
			90010 in 1 over
			90020 queued 1 4 #1
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-20 running 1
			20-50005 timer 1` + sleeps + `
			50005-50006 running 1
			50006-60000 timer 1` + sleeps + `
			60000-60006 running 1
			60006-90000 timer 1` + sleeps + `
			90000-90001 ready 1
			90001-90005 oswait 1
			90005-90010 ready 1
			90010-90030 running 1`,
	}, {
		name: "a call that times out, and then a message that came meanwhile", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			2 out 2 wait @2
			10 start 1 7
			19 monitor 1>2
			20 send 1>2 9
			22 out 1 timer
			30 in 2 @2
			31 queued 2 9 #1
			32 receive 2 9 #1
			40000 send 5>1 unwatched 4
			40005 in 1
			40006 queued 1 4 #1
			40007 out 1 timer
			90000 able 1 over
			90010 in 1 over
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-22 running 1
			22-40005 waiting 2 inferred by 1>2 20..32: ` + reasonTimeout + `
				22-30 ready 2 inferred
				30-40005 running 2 inferred
			40005-40007 running 1
			40007-90000 waiting 2 inferred by 1>2 20..32: ` + reasonTimeout + `
				40007-90000 running 2 inferred
			90000-90010 ready 1
			90010-90030 running 1`,
	}, {
		name: "a call of another node that times out", events: `
			0 watch 1
			10 start 1 7
			19 monitor 1>0
			20 send 1>281474976710661 9
			22 out 1 timer
			90000 able 1 over
			90010 in 1 over
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-22 running 1
			22-90000 waiting 281474976710661 inferred by 1>281474976710661 20..0: ` + reasonTimeout + `; a process of another node
			90000-90010 ready 1
			90010-90030 running 1`,
	}, {
		name: "a call that is answered, and then a sleep", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			2 out 2 wait @2
			10 start 1 7
			19 monitor 1>2
			20 send 1>2 9
			22 out 1 timer
			30 in 2 @2
			31 queued 2 9 #1
			32 receive 2 9 #1
			33 send 2>1 4
			34 out 2 wait
			40 in 1
			41 queued 1 4 #1
			42 receive 1 4 #1
			50 out 1 timer
			90000 able 1 over
			90010 in 1 over
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-22 running 1
			22-33 waiting 2 inferred by 2>1 33..42
				22-30 ready 2 inferred
				30-33 running 2 inferred
			33-40 ready 1
			40-50 running 1
			50-90000 timer 1` + sleeps + `
			90000-90010 ready 1
			90010-90030 running 1`,
	}, {
		name: "a call that times out, and then a sleep", events: `
			0 watch 1
			10 start 1 7
			19 monitor 1>2
			20 send 1>2 9
			22 out 1 timer
			40000 able 1 over
			40010 in 1 over
			40020 out 1 timer
			90000 able 1 over
			90010 in 1 over
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-22 running 1
			22-40000 waiting 2 inferred by 1>2 20..0: ` + reasonTimeout + `; what it did is not known: beamscope did not track it then
			40000-40010 ready 1
			40010-40020 running 1
			40020-90000 timer 1` + sleeps + `
			90000-90010 ready 1
			90010-90030 running 1`,
	}, {
		name: "a cast, and then a sleep", events: `
			0 watch 1
			0 watch 2
			10 start 1 7
			20 send 1>2 9
			22 out 1 timer
			90000 able 1 over
			90010 in 1 over
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-22 running 1
			22-90000 timer 1` + sleeps + `
			90000-90010 ready 1
			90010-90030 running 1`,
	}, {
		name: "it waits for ever, as a variable says", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			10 start 1 7
			20 send 1>2 9
			22 out 1 ever
			31 queued 2 9 #1
			32 receive 2 9 #1
			80000 send 2>1 4
			80005 in 1 over
			80006 queued 1 4 #1
			80007 receive 1 4 #1
			80010 end 1 7`,
		start: 10, end: 80010, want: `
			10-22 running 1
			22-80000 waiting 2 inferred by 2>1 80000..80007
				22-32 mailbox 2 inferred behind 0 by 1>2 20..32
				32-80000 running 2 inferred
			80000-80005 ready 1
			80005-80010 running 1`,
	}, {
		name: "it is watched only since it waits, and for how long is not told", events: `
			0 watch 9
			10 watch 1
			80000 send 5>1 unwatched 4
			80005 in 1 over
			80006 queued 1 4 #1
			80007 receive 1 4 #1
			80010 end 1 7`,
		start: 10, end: 80010, want: `
			10-80000 waiting 5 inferred by 5>1 80000..80007: what it did is not known: beamscope did not track it then
			80000-80005 ready 1
			80005-80010 running 1`,
	}, {
		name: "not told: it slept, and took a message later that came before it slept on", events: `
			0 watch 1
			10 start 1 7
			20 out 1 wait
			40000 send 5>1 unwatched 4
			40005 in 1 untold
			40006 out 1 wait
			90000000 send 6>1 unwatched 1
			300000000 in 1 untold
			300000020 queued 1 4 #2
			300000020 queued 1 1 #2
			300000021 receive 1 4 #2
			300000030 end 1 7`,
		start: 10, end: 300000030, want: `
			10-20 running 1
			20-40005 unexplained 1 inferred: ` + reasonUntold + `
			40005-40006 running 1
			40006-90000000 unexplained 1 inferred: ` + reasonUntold + `
			90000000-300000000 ready 1 inferred
			300000000-300000030 running 1`,
	}, {
		name: "not told: a call times out, and a message is taken that it had fetched before", events: `
			0 watch 1
			0 watch 2
			10 start 1 7
			20 send 1>2 9
			22 out 1 wait
			40000 send 5>1 unwatched 4
			40005 in 1 untold
			40006 queued 1 4 #1
			40007 out 1 wait
			90010 in 1 untold
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-22 running 1
			22-40005 unexplained 1 inferred: ` + reasonUntold + `
			40005-40007 running 1
			40007-90010 unexplained 1 inferred: ` + reasonUntold + `
			90010-90030 running 1`,
	}} {
		t.Run(s.name, func(t *testing.T) { s.run(t) })
	}
}

// A process that is woken by one message and takes another one, which comes before it blocks again,
// has waited for the latter.
func TestOvertaken(t *testing.T) {
	const before = `
		0 watch 1
		0 watch 2
		1 in 2 @2
		2 out 2 wait @2
		10 start 1 7
		20 send 1>2 9
		22 out 1 wait
		30 in 2 @2
		31 queued 2 9 #1
		32 receive 2 9 #1
		80000 send 2>1 4
		80001 able 1`
	// It waited until a time at which the message had not been sent or the scan began.
	explained := func(until, taken, rest string) string {
		return "10-22 running 1\n22-" + until + " waiting 2 inferred by 2>1 " + taken +
			"\n\t22-30 ready 2 inferred\n\t30-" + until + " running 2 inferred\n" + until + "-" + rest
	}
	for _, s := range []scenario{{
		name: "a report just before the answer", events: before + `
			90000 send 2>1 5
			95000 in 1
			95001 queued 1 4 #2
			95001 queued 1 5 #2
			95002 receive 1 5 #2
			95010 end 1 7`,
		start: 10, end: 95010, want: explained("90000", "90000..95002", "95000 ready 1 inferred\n95000-95010 running 1"),
	}, {
		name: "the answer comes when it runs already", events: before + `
			80100 in 1
			80101 queued 1 4 #1
			90000 send 2>1 5
			90001 queued 1 5 #2
			90002 receive 1 5 #2
			95010 end 1 7`,
		start: 10, end: 95010, want: explained("80100", "90000..90002", "95010 running 1"),
	}, {
		name: "the answer comes when it runs and has not yet looked", events: before + `
			80100 in 1
			89000 send 2>1 5
			90001 queued 1 4 #2
			90001 queued 1 5 #2
			90002 receive 1 5 #2
			95010 end 1 7`,
		start: 10, end: 95010, want: explained("80100", "89000..90002", "95010 running 1"),
	}, {
		name: "not told: a report just before the answer", events: before + `
			90000 send 2>1 5
			95000 in 1 untold
			95001 queued 1 4 #2
			95001 queued 1 5 #2
			95002 receive 1 5 #2
			95010 end 1 7`,
		start: 10, end: 95010, want: explained("90000", "90000..95002", "95000 ready 1 inferred\n95000-95010 running 1"),
	}} {
		t.Run(s.name, func(t *testing.T) { s.run(t) })
	}
}

// A wake without a seen cause in another process has its own reason.
func TestWoken(t *testing.T) {
	const before = `
		0 watch 1
		10 start 1 7
		20 out 1 wait`
	const after = `
		80000 able 1
		80005 in 1
		80006 queued 1 4 #1
		80007 receive 1 4 #1 `
	const rest = "\n80000-80005 ready 1\n80005-80010 running 1"
	for _, s := range []scenario{
		{name: "by a timer", events: after + "atom=1", want: "20-80000 timer 1: the message of a timer ended the wait"},
		{name: "by the VM", events: after + "atom=2", want: "20-80000 vm 1 [a message of the VM or of a native function]"},
		{name: "by the VM, with an atom", events: after + "atom=2 tag=4", want: "20-80000 vm 1 [a message of the VM or of a native function]"},
		{name: "by a socket", events: after + "atom=2 tag=7", want: "20-80000 external 1 [a socket]"},
		{name: "by a file descriptor", events: after + "atom=2 tag=6", want: "20-80000 external 1 [a file descriptor that a native function selected]"},
		{name: "by a native function that sends what looks so", events: after + "atom=3 tag=7", want: "20-80000 vm 1 [a message of a native function]"},
		{name: "by a native function", events: after + "atom=3", want: "20-80000 vm 1 [a message of a native function]"},
		{name: "by another node", events: after + "atom=4", want: "20-80000 external 1 [the node other@host]"},
		{name: "by something whose name is not known", events: after + "atom=5", want: "20-80000 unexplained 1: " + reasonUnread},
		{name: "by a port", events: after + "port=6", want: "20-80000 external 1 [#Port<0.6>]"},
		{name: "by itself", events: after + "from=1", want: "20-80000 vm 1 [a message that the VM sent in the name of the receiver]"},
		{name: "it is not told", events: after, want: "20-80000 unexplained 1: " + reasonUnseen},
		{name: "by a process that is not watched", events: after + "from=5",
			want: "20-80000 waiting 5 by 5>1 0..80007: " + reasonSender + "; what it did is not known: beamscope did not track it then"},
		{name: "by the end of a process", events: after + "down=5", want: "20-80000 waiting 5 by 5>1 0..80007: " + reasonDown + "; what it did is not known: beamscope did not track it then"},
		{name: "by the end of a process that is watched", events: `
			15 send 1>5 3
			15 watch 5
			30 in 5
			31 queued 5 3 #1
			32 receive 5 3 #1
			79000 exit 5` + after + "down=5", want: "20-80000 waiting 5 by 5>1 0..80007: " + reasonDown +
			"\n\t20-30 ready 5\n\t30-32 running 5\n\t32-79000 running 5 inferred\n\t79000-80000 waiting 5 inferred: " + reasonExiting},
	} {
		t.Run(s.name, func(t *testing.T) {
			s.start, s.end = 10, 80010
			s.want = "10-20 running 1\n" + s.want + rest
			l := Log{Atom: func(vm int, index uint64) string {
				if vm != vmPID || index > 7 {
					return ""
				}
				return []string{"some", "clock_service", "system", "undefined", "other@host", "", "select", "'$socket'"}[index]
			}}
			l.Add(script(t, before+s.events), bpf.Loss{})
			s.explain(t, &l)
		})
	}
}

// A late answer comes to an inactive alias, and the VM drops it: the process keeps waiting for the
// message that wakes it.
func TestWokenByLateAnswer(t *testing.T) {
	const before = `
		0 watch 1
		0 watch 2
		1 in 2 @2
		10 start 1 7
		20 out 1 wait
		30000 send 2>1 4 alias`
	for _, s := range []scenario{{
		name: "then a timer", events: before + `
			80000 able 1
			80005 in 1
			80006 queued 1 4 #1
			80007 receive 1 4 #1 atom=1
			80010 end 1 7`,
		want: "10-20 running 1\n20-80000 timer 1: the message of a timer ended the wait\n80000-80005 ready 1\n80005-80010 running 1",
	}, {
		name: "then the end of a process, which the VM does not tell at once", events: before + `
			80005 in 1
			80006 queued 1 4 #1
			80007 receive 1 4 #1 down=5
			80010 end 1 7`,
		want: "10-20 running 1\n20-80005 waiting 5 inferred by 5>1 0..80007: " + reasonDown + "; what it did is not known: beamscope did not track it then\n80005-80010 running 1",
	}, {
		name: "and the alias is one", events: before + `
			80000 able 1
			80001 out 2 wait @2
			80005 in 1
			80006 queued 1 4 #1
			80007 receive 1 4 #1 from=2
			80010 end 1 7`,
		want: `
			10-20 running 1
			20-30000 waiting 2 inferred by 2>1 30000..80007
				20-30000 running 2 inferred
			30000-80000 waiting 2 inferred by 2>1 30000..80007: ` + reasonCopied + `
				30000-80000 running 2 inferred
			80000-80005 ready 1
			80005-80010 running 1`,
	}} {
		t.Run(s.name, func(t *testing.T) {
			s.start, s.end = 10, 80010
			for _, events := range []string{s.events, strings.ReplaceAll(s.events, "#1", "#1 !7")} {
				l := Log{Atom: func(int, uint64) string { return "clock_service" }}
				l.Add(script(t, events), bpf.Loss{})
				s.explain(t, &l)
			}
		})
	}
}

// If either of two messages may have been taken, the VM reports the sender of the taken one.
func TestWokenByOneOf(t *testing.T) {
	scenario{events: `
		0 watch 1
		0 watch 2
		1 in 2 @2
		0 watch 3
		1 in 3 @3
		10 start 1 7
		20 out 1 wait
		80 send 2>1 4
		81 send 3>1 4
		85 in 1
		86 queued 1 4 #2
		86 queued 1 4 #2
		87 receive 1 4 #2 from=3
		88 receive 1 4 #1 from=2
		90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-80 waiting 3 inferred by 3>1 0..87
				20-80 running 3 inferred
			80-85 ready 1 inferred
			85-90 running 1`}.run(t)
}

// A message from another process than the reported sender is a different message.
func TestWokenByAnother(t *testing.T) {
	scenario{events: `
		0 watch 1
		0 watch 2
		1 in 2 @2
		10 start 1 7
		20 out 1 wait
		80 send 2>1 4
		85 in 1
		86 queued 1 4 #2
		87 receive 1 4 #2 port=6
		90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-80 external 1 [#Port<0.6>]
			80-85 ready 1
			85-90 running 1`}.run(t)
}

// An exit signal ends a wait, and the process.
func TestWokenByExit(t *testing.T) {
	scenario{events: `
		0 watch 1
		10 start 1 7
		20 out 1 timer
		80 in 1
		81 exit 1`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-80 unexplained 1: an exit signal ended the process
			80-81 running 1
			81-90 unexplained 1: it had exited`}.run(t)
}

// A process that was given to a scheduler and has not run yet may have any cause for its wake.
func TestWokenOpen(t *testing.T) {
	scenario{events: `
		0 watch 1
		10 start 1 7
		20 out 1 timer
		80 able 1`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-80 unexplained 1: it could go on; beamscope did not see what woke it
			80-90 ready 1 inferred`}.run(t)
}

// The VM may collect the garbage of a waiting process, which then keeps waiting unless something
// has come meanwhile.
func TestCollectedWhileItWaits(t *testing.T) {
	const before = `
		0 watch 1
		10 start 1 7
		20 out 1 timer
		30 gc+ 1 @2
		40 gc- 1 @2`
	scenario{events: before + `
		80 able 1 over
		82 in 1 over
		90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-30 timer 1` + sleeps + `
			30-40 gc 1
			40-80 timer 1` + sleeps + `
			80-82 ready 1
			82-90 running 1`}.run(t)
	scenario{events: before + `
		35 send 5>1 unwatched 4
		36 able 1
		80 in 1
		81 queued 1 4 #1
		82 receive 1 4 #1
		90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-30 waiting 5 inferred by 5>1 35..82: what it did is not known: beamscope did not track it then
			30-40 gc 1
			40-80 ready 1
			80-90 running 1`}.run(t)
}

// The report of a wake may come just before the process stops running.
func TestReadyBeforeItWaits(t *testing.T) {
	scenario{events: `
		0 watch 1
		10 start 1 7
		19 able 1
		20 out 1 wait
		80 in 1
		90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-80 ready 1
			80-90 running 1`}.run(t)
}
