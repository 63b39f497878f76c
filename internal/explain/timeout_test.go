package explain

import "testing"

// In called, process 1 starts a span and calls process 2, in a receive with a time.
const called = `
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
`

// A process whose receive has timed out looks for messages when it runs again. If one that it waits
// for has come since it last looked, it takes it, and the time does not matter.
func TestTakenAfterTimeout(t *testing.T) {
	// It waited for the answer until a time.
	answered := func(until string) string {
		return "10-22 running 1\n22-" + until + " waiting 2 inferred by 2>1 " + until + "..90021" +
			"\n\t22-30 ready 2 inferred\n\t30-" + until + " running 2 inferred\n" + until + "-90010 ready 1 inferred" +
			"\n90010-90030 running 1"
	}
	// The call lasted until a time.
	call := func(until, reason, ready string) string {
		return "10-22 running 1\n22-" + until + " waiting 2 inferred by 1>2 20..32" + reason +
			"\n\t22-30 ready 2 inferred\n\t30-" + until + " running 2 inferred\n" + until + "-90010 ready 1" + ready +
			"\n90010-90030 running 1"
	}
	const timedOut = ": " + reasonTimeout
	const blockedAgain = `
			10-22 running 1
			22-40005 waiting 2 inferred by 1>2 20..32` + timedOut + `
				22-30 ready 2 inferred
				30-40005 running 2 inferred
			40005-40010 running 1
			40010-90000 waiting 2 inferred by 1>2 20..32` + timedOut + `
				40010-90000 running 2 inferred
			90000-90010 ready 1
			90010-90030 running 1`
	for _, s := range []scenario{{
		name: "the answer to a call comes when the time is over, before it runs", events: called + `
			40000 able 1 over
			70000 send 2>1 alias
			70001 out 2 wait @2
			90010 in 1 over
			90020 queued 1 4 #1
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: answered("70000"),
	}, {
		name: "the time is over after the answer, before it runs", events: called + `
			40000 send 2>1 4
			40001 able 1
			40002 out 2 wait @2
			70000 able 1 over
			90010 in 1 over
			90020 queued 1 4 #1
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: answered("40000"),
	}, {
		name: "the time is over after the answer, which nothing shows until it runs", events: called + `
			40000 send 2>1 alias
			40001 out 2 wait @2
			90010 in 1 over
			90020 queued 1 4 #1
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: answered("40000"),
	}, {
		name: "the answer was looked at and not taken: it was another message of that process", events: called + `
			40000 send 2>1 4
			40001 able 1
			40005 in 1
			40006 queued 1 4 #1
			40010 out 1 timer
			90000 able 1 over
			90010 in 1 over
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: blockedAgain,
	}, {
		name: "nothing is taken", events: called + `
			40000 able 1 over
			90010 in 1 over
			90030 end 1 7`,
		start: 10, end: 90030, want: call("40000", timedOut, ""),
	}, {
		name: "it waits again before it takes the answer", events: called + `
			40000 able 1 over
			70000 send 2>1 4
			90010 in 1 over
			90012 out 1 wait
			90015 in 1
			90020 queued 1 4 #1
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-22 running 1
			22-40000 waiting 2 inferred by 1>2 20..32` + timedOut + `
				22-30 ready 2 inferred
				30-40000 running 2 inferred
			40000-90010 ready 1
			90010-90012 running 1
			90012-90015 ready 1 inferred
			90015-90030 running 1`,
	}, {
		name: "it sends a message before it takes the answer", events: called + `
			40000 able 1 over
			70000 send 2>1 4
			90010 in 1 over
			90015 send 1>3 4
			90020 queued 1 4 #1
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: call("40000", timedOut, ""),
	}, {
		name: "the answer comes when it runs", events: called + `
			40000 able 1 over
			90010 in 1 over
			100000 send 2>1 4
			100020 queued 1 4 #1
			100021 receive 1 4 #1
			100030 end 1 7`,
		start: 10, end: 90030, want: call("40000", timedOut, ""),
	}, {
		name: "a message whose sender is known from its receipt", events: called + `
			40000 able 1 over
			90010 in 1 over
			90020 queued 1 4 #1
			90021 receive 1 4 #1 from=2
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-22 running 1
			22-40000 waiting 2 inferred by 2>1 0..90021: ` + reasonSender + `
				22-30 ready 2 inferred
				30-40000 running 2 inferred
			40000-90010 ready 1 inferred
			90010-90030 running 1`,
	}, {
		name: "a message of an unknown sender", events: called + `
			40000 able 1 over
			90010 in 1 over
			90020 queued 1 4 #1
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: call("40000", either, " inferred"),
	}, {
		name: "a message of an unknown sender, fetched before it waited on", events: called + `
			40005 in 1
			40006 queued 1 4 #1
			40010 out 1 timer
			90000 able 1 over
			90010 in 1 over
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: blockedAgain,
	}, {
		name: "one that it had before it was tracked, and nothing has come", events: called + `
			40000 able 1 over
			90010 in 1 over
			90021 receive 1 4 #3
			90030 end 1 7`,
		start: 10, end: 90030, want: call("40000", timedOut, ""),
	}, {
		name: "one that it had before it was tracked, or one that has come", events: called + `
			40000 able 1 over
			90010 in 1 over
			90020 queued 1 4 #3
			90021 receive 1 4 #3
			90030 end 1 7`,
		start: 10, end: 90030, want: call("40000", either, " inferred"),
	}, {
		name: "one that it did not take before it waited on, although another has come", events: called + `
			40000 send 5>1 unwatched 4
			40001 able 1
			40005 in 1
			40006 queued 1 4 #1
			40010 out 1 timer
			90000 able 1 over
			90010 in 1 over
			90020 queued 1 8 #2
			90021 receive 1 4 #2
			90030 end 1 7`,
		start: 10, end: 90030, want: blockedAgain,
	}, {
		name: "one that was perhaps on its way when it waited on", events: called + `
			40001 able 1
			40005 in 1
			40008 send 5>1 unwatched 4
			40010 out 1 timer
			90000 able 1 over
			90010 in 1 over
			90020 queued 1 4 #1
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-22 running 1
			22-40005 waiting 2 inferred by 1>2 20..32` + either + `
				22-30 ready 2 inferred
				30-40005 running 2 inferred
			40005-40010 running 1
			40010-90000 waiting 2 inferred by 1>2 20..32` + either + `
				40010-90000 running 2 inferred
			90000-90010 ready 1 inferred
			90010-90030 running 1`,
	}, {
		name: "one that was seen before it waited on, and another has come", events: called + `
			40001 able 1
			40005 in 1
			40006 queued 1 4 #1
			40010 out 1 timer
			90000 able 1 over
			90010 in 1 over
			90020 queued 1 8 #2
			90021 receive 1 4 #2
			90030 end 1 7`,
		start: 10, end: 90030, want: blockedAgain,
	}, {
		name: "the answer, or an equal message that it had before it waited on", events: `
			0 watch 1
			0 watch 2
			10 start 1 7
			12 send 5>1 unwatched 4
			13 queued 1 4 #1
			19 monitor 1>2
			20 send 1>2 9
			22 out 1 timer
			30 in 2 @2
			31 queued 2 9 #1
			32 receive 2 9 #1
			40000 able 1 over
			70000 send 2>1 4
			90010 in 1 over
			90020 queued 1 4 #2
			90021 receive 1 4 #2
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-22 running 1
			22-40000 waiting 0 ambiguous: it waited for a message of <0.2.0> or <0.5.0>
			40000-90010 ready 1 inferred
			90010-90030 running 1`,
	}, {
		name: "its garbage is collected after the answer, before it looks", events: called + `
			40000 send 2>1 alias
			40001 out 2 wait @2
			50000 gc+ 1
			50010 gc- 1
			90010 in 1 over
			90020 queued 1 4 #1
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-22 running 1
			22-40000 waiting 2 inferred by 2>1 40000..90021
				22-30 ready 2 inferred
				30-40000 running 2 inferred
			40000-50000 ready 1 inferred
			50000-50010 gc 1
			50010-90010 ready 1 inferred
			90010-90030 running 1`,
	}, {
		name: "not told when messages are fetched: one that was there when it waited on", events: called + `
			40001 able 1
			40005 in 1
			40006 send 5>1 unwatched direct !9
			40007 send 5>6 unwatched 4
			40010 out 1 timer
			90000 able 1 over
			90010 in 1 over
			90021 receive 1 direct !9 from=5
			90030 end 1 7`,
		start: 10, end: 90030, want: blockedAgain,
	}, {
		name: "the called process has ended", events: called + `
			40000 able 1 over
			90010 in 1 over
			90020 queued 1 4 #1
			90021 receive 1 4 #1 down=2
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-22 running 1
			22-40000 waiting 2 inferred by 2>1 0..90021: ` + reasonDown + `
				22-30 ready 2 inferred
				30-40000 running 2 inferred
			40000-90010 ready 1 inferred
			90010-90030 running 1`,
	}, {
		name: "a message of another process", events: called + `
			40000 able 1 over
			70000 send 5>1 unwatched 4
			90010 in 1 over
			90020 queued 1 4 #1
			90021 receive 1 4 #1
			90030 end 1 7`,
		start: 10, end: 90030, want: call("40000", either, " inferred"),
	}, {
		name: "two that may have answered", events: called + `
			40000 able 1 over
			70000 send 2>1 4
			70001 send 5>1 unwatched 4
			90010 in 1 over
			90020 queued 1 4 #2
			90020 queued 1 4 #2
			90021 receive 1 4 #2
			90030 end 1 7`,
		start: 10, end: 90030, want: `
			10-22 running 1
			22-40000 waiting 0 ambiguous: it waited for a message of <0.2.0> or <0.5.0>
			40000-90010 ready 1 inferred
			90010-90030 running 1`,
	}, {
		name: "not told when messages are fetched: the answer", events: called + `
			40000 able 1 over
			70000 send 2>1 direct !9
			70001 out 2 wait @2
			90010 in 1 over
			90021 receive 1 direct !9 from=2
			90030 end 1 7`,
		start: 10, end: 90030, want: answered("70000"),
	}, {
		name: "not told when messages are fetched: it waited again after another message", events: called + `
			40000 send 5>1 unwatched direct !9
			40001 able 1
			40005 in 1
			40010 out 1 timer
			90000 able 1 over
			90010 in 1 over
			90021 receive 1 direct !9 from=5
			90030 end 1 7`,
		start: 10, end: 90030, want: blockedAgain,
	}, {
		name: "not told when messages are fetched: a message that was not seen to be sent", events: called + `
			40000 able 1 over
			90010 in 1 over
			90021 receive 1 direct !9 from=6
			90030 end 1 7`,
		start: 10, end: 90030, want: call("40000", either, " inferred"),
	}} {
		t.Run(s.name, func(t *testing.T) { s.run(t) })
	}
}
