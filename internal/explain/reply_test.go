package explain

import (
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/trace"
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
			20-80000 waiting 2 inferred by 2>1 30000..80007
				20-25 ready 2 inferred
				25-80000 running 2 inferred
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
			20-80000 waiting 2 inferred by 2>1 30000..80007
				20-25 ready 2 inferred
				25-40000 running 2 inferred
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
		exact        int64 // time of others that is exact
	}{
		{name: "the VM says when it is ready", events: `
			80000 able 1`, exact: 80000 - 20},
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
				30000 send 2>1 0 ~9.1.0 alias`+s.events+`
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

// A process that has sent a message may be kept from its processor before the message is in
// the mailbox. Where the VM says when the receiver is ready, it is not before.
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
