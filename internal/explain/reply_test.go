package explain

import (
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// The event of a message to an alias comes before the VM copies the message, which takes long
// if the message is large. The receiver is not ready before the message is there: until then
// it waits for the sender.
func TestLargeReplyToAlias(t *testing.T) {
	const before = `
		0 watch 1
		0 watch 2
		1 in 2 @2
		2 out 2 wait @2
		10 start 1 7
		15 monitor 1>2
		16 send 1>2 9
		20 out 1 timer
		25 in 2 @2
		26 queued 2 9 #1
		27 receive 2 9 #1
		30000 send 2>1 0 alias`
	const rest = `
		80005 in 1
		80006 queued 1 4 #1
		80007 receive 1 4 #1 from=2
		80010 end 1 7`
	const copying = `
			10-20 running 1
			20-30000 waiting 2 inferred by 2>1 30000..80007
				20-25 ready 2 inferred
				25-30000 running 2 inferred
			30000-80000 waiting 2 inferred by 2>1 30000..80007: ` + reasonCopied + `
				30000-80000 running 2 inferred
			80000-80005 ready 1
			80005-80010 running 1`
	for _, s := range []scenario{{
		name: "the VM says when it is ready", events: before + `
			80000 able 1
			80001 out 2 wait @2` + rest,
		want: copying,
	}, {
		name: "its sender goes on to compute", events: before + `
			80000 able 1` + rest,
		want: copying,
	}, {
		name: "its sender has no processor meanwhile", events: before + `
			70000 off @2 40000 40000
			80000 able 1
			80001 out 2 wait @2` + rest,
		want: `
			10-20 running 1
			20-30000 waiting 2 inferred by 2>1 30000..80007
				20-25 ready 2 inferred
				25-30000 running 2 inferred
			30000-80000 waiting 2 inferred by 2>1 30000..80007: ` + reasonCopied + `
				30000-40000 running 2 inferred
				40000-70000 oswait 2 inferred
				70000-80000 running 2 inferred
			80000-80005 ready 1
			80005-80010 running 1`,
	}, {
		name: "the VM does not say it, and its sender does something else", events: before + `
			70000 out 2 wait @2` + rest,
		want: `
			10-20 running 1
			20-30000 waiting 2 inferred by 2>1 30000..80007
				20-25 ready 2 inferred
				25-30000 running 2 inferred
			30000-70000 waiting 2 inferred by 2>1 30000..80007: ` + reasonCopied + `
				30000-70000 running 2 inferred
			70000-80005 ready 1
			80005-80010 running 1`,
	}, {
		name: "the VM does not say it, and nothing else was seen of its sender", events: before + rest,
		want: `
			10-20 running 1
			20-30000 waiting 2 inferred by 2>1 30000..80007
				20-25 ready 2 inferred
				25-30000 running 2 inferred
			30000-80005 waiting 2 inferred by 2>1 30000..80007: ` + reasonCopied + `
				30000-80005 running 2 inferred
			80005-80010 running 1`,
	}, {
		name: "another message wakes it meanwhile", events: before + `
			50000 send 5>1 unwatched 3
			50001 able 1
			50005 in 1
			50006 queued 1 3 #1
			50010 out 1 timer
			80000 able 1
			80001 out 2 wait @2
			80005 in 1
			80006 queued 1 4 #2
			80007 receive 1 4 #2 from=2
			80010 end 1 7`,
		want: `
			10-20 running 1
			20-50005 waiting 2 inferred by 2>1 0..80007
				20-25 ready 2 inferred
				25-50005 running 2 inferred
			50005-50010 running 1
			50010-80000 waiting 2 inferred by 2>1 0..80007
				50010-80000 running 2 inferred
			80000-80005 ready 1 inferred
			80005-80010 running 1`,
	}, {
		name: "another message has woken it, and it does not run before the reply is there", events: before + `
			50000 send 5>1 unwatched 3
			50001 able 1
			80000 out 2 wait @2
			90005 in 1
			90006 queued 1 3 #1
			90006 queued 1 4 #2
			90007 receive 1 4 #2 from=2
			90010 end 1 7`,
		end: 90010,
		want: `
			10-20 running 1
			20-50000 waiting 2 inferred by 2>1 0..90007
				20-25 ready 2 inferred
				25-50000 running 2 inferred
			50000-90005 ready 1 inferred
			90005-90010 running 1`,
	}, {
		name: "it waits still", events: before,
		end: 80010,
		want: `
			10-20 running 1
			20-80010 waiting 2 inferred by 1>2 16..27: ` + reasonAssumed + `
				20-25 ready 2 inferred
				25-80010 running 2 inferred`,
	}} {
		t.Run(s.name, func(t *testing.T) {
			s.start = 10
			if s.end == 0 {
				s.end = 80010
			}
			s.run(t)
		})
	}
}

// Time is exact only if it is known to be the receiver's own, also with tokens.
func TestLargeReplyWithToken(t *testing.T) {
	for _, s := range []struct {
		name, events string
		exact        int64 // exact time of other processes
	}{
		{name: "the VM says when it is ready", events: `
			80000 able 1`, exact: 30000 - 20},
		{name: "the VM does not say it", events: `
			70000 out 2 wait @2`, exact: 30000 - 20},
	} {
		t.Run(s.name, func(t *testing.T) {
			var l Log
			l.Add(script(t, `
				0 watch 1
				0 watch 2
				1 in 2 @2
				10 start 1 7
				20 out 1 timer
				30000 send 2>1 0 ~9.1.2 alias`+s.events+`
				80005 in 1
				80006 queued 1 4 #1 ~9.1.2
				80007 receive 1 4 #1 ~9.1.2
				80010 end 1 7`), bpf.Loss{})
			i := Instance{VM: vmPID, ID: 7, Start: 10, End: 80010, Owner: 1}
			tr := l.Explain(i)
			checked(t, tr, i)
			var exact int64
			for _, sp := range tr.Leaves() {
				if sp.Process == 2 && sp.Mark == trace.Exact {
					exact += sp.Duration()
				}
				if sp.Kind == trace.Ready && sp.Start < 70000 {
					t.Errorf("ready before the message was there")
				}
			}
			if exact != s.exact {
				t.Errorf("%d ns of the sender are exact, want %d", exact, s.exact)
			}
			if t.Failed() {
				t.Log(drawn(tr))
			}
		})
	}
}

// A sender may lose its processor before its message is in the mailbox. If the VM reports when the
// receiver is ready, the message is not there before.
func TestSenderHeldUp(t *testing.T) {
	scenario{events: `
		0 watch 1
		0 watch 2
		1 in 2 @2
		2 out 2 wait @2
		10 start 1 7
		15 send 1>2 9
		20 out 1 wait
		25 in 2 @2
		26 queued 2 9 #1
		27 receive 2 9 #1
		30000 send 2>1 4
		70000 off @2 30001 30001
		80000 able 1
		80001 out 2 wait @2
		80005 in 1
		80006 queued 1 4 #1
		80007 receive 1 4 #1 from=2
		80010 end 1 7`,
		start: 10, end: 80010, want: `
			10-20 running 1
			20-80000 waiting 2 inferred by 2>1 30000..80007
				20-25 ready 2 inferred
				25-30001 running 2 inferred
				30001-70000 oswait 2 inferred
				70000-80000 running 2 inferred
			80000-80005 ready 1
			80005-80010 running 1`}.run(t)
}

// The VM reports the receiver of a message to an alias as ready only when a scheduler turns to it.
// The message is there earlier, at the latest at its sender's next action. From then on the
// receiver waits to run and not for another process.
func TestReplyToAliasWaitsForScheduler(t *testing.T) {
	const before = `
		0 watch 1
		0 watch 2
		1 in 2 @2
		2 out 2 ever @2
		10 start 1 7
		15 monitor 1>2
		16 send 1>2 9
		20 out 1 wait @2
		25 queued 2 9 #1 @2
		26 in 2 @2
		27 receive 2 9 #1 from=1 @2
		30000 send 2>1 0 alias @2
		30002 out 2 ever @2`
	const rest = `
		60000 able 1 @2
		60001 queued 1 4 #1 @2
		60002 in 1 @2
		60003 receive 1 4 #1 from=2 @2
		60010 end 1 7 @2`
	for _, s := range []scenario{{
		name: "its scheduler runs others", events: before + rest,
		want: `
			10-20 running 1
			20-30002 waiting 2 inferred by 2>1 30000..60003
				20-26 ready 2 inferred
				26-30002 running 2 inferred
			30002-60000 ready 1 inferred
			60000-60002 ready 1
			60002-60010 running 1`,
	}, {
		name: "its scheduler has no processor", events: before + `
			59999 off @2 30010 30010` + rest,
		want: `
			10-20 running 1
			20-30002 waiting 2 inferred by 2>1 30000..60003
				20-26 ready 2 inferred
				26-30002 running 2 inferred
			30002-30010 ready 1 inferred
			30010-59999 oswait 1 inferred
			59999-60000 ready 1 inferred
			60000-60002 ready 1
			60002-60010 running 1`,
	}, {
		name: "it sends the next request at once", events: before + `
			60000 able 1 @2
			60001 queued 1 4 #1 @2
			60002 in 1 @2
			60003 receive 1 4 #1 from=2 @2
			60004 monitor 1>2 @2
			60005 send 1>2 9 @2
			60006 out 1 wait @2
			60008 queued 2 9 #1 @2
			60009 in 2 @2
			60010 receive 2 9 #1 from=1 @2
			90000 send 2>1 0 alias @2
			90002 out 2 ever @2
			99000 able 1 @2
			99001 queued 1 4 #1 @2
			99002 in 1 @2
			99003 receive 1 4 #1 from=2 @2
			99010 end 1 7 @2`,
		end: 99010,
		want: `
			10-20 running 1
			20-30002 waiting 2 inferred by 2>1 30000..60003
				20-26 ready 2 inferred
				26-30002 running 2 inferred
			30002-60000 ready 1 inferred
			60000-60002 ready 1
			60002-60006 running 1
			60006-90002 waiting 2 inferred by 2>1 90000..99003
				60006-60009 ready 2 inferred
				60009-90002 running 2 inferred
			90002-99000 ready 1 inferred
			99000-99002 ready 1
			99002-99010 running 1`,
	}} {
		t.Run(s.name, func(t *testing.T) {
			s.start = 10
			if s.end == 0 {
				s.end = 60010
			}
			s.run(t)
		})
	}
}
