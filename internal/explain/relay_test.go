package explain

import "testing"

// In passedOn, process 1 starts a span and asks process 2, which passes the request on to 3.
const passedOn = `
	0 watch 1
	10 start 1 7
	20 send 1>2 4
	20 watch 2
	22 out 1 wait
	25 in 2 @2
	26 queued 2 4 #1
	27 receive 2 4 #1
	10000 send 2>3 4
	10000 watch 3`

// A process that passes on a request has the time until then, although another process answers,
// which is not tracked before.
func TestRelay(t *testing.T) {
	for _, s := range []scenario{{
		name: "over one process", events: `
			0 watch 1
			10 start 1 7
			20 send 1>2 4
			20 watch 2
			22 out 1 wait
			25 in 2 @2
			26 queued 2 4 #1
			27 receive 2 4 #1
			28 out 2 timer @2
			30000 able 2 over
			30005 in 2 over @2
			30010 send 2>3 4
			30010 watch 3
			30011 out 2 wait @2
			30020 in 3 @2
			30021 queued 3 4 #1
			30022 receive 3 4 #1
			35000 send 3>1 4
			35001 out 3 wait @2
			35005 in 1
			35006 queued 1 4 #1
			35007 receive 1 4 #1
			35010 end 1 7`,
		start: 10, end: 35010, want: `
			10-22 running 1
			22-35000 waiting 3 inferred by 3>1 35000..35007
				22-30010 waiting 2 inferred by 2>3 30010..30022
					22-25 ready 2 inferred
					25-28 running 2 inferred
					28-30000 timer 2 inferred` + sleeps + `
					30000-30005 ready 2 inferred
					30005-30010 running 2 inferred
				30010-30020 ready 3 inferred
				30020-35000 running 3 inferred
			35000-35005 ready 1
			35005-35010 running 1`,
	}, {
		name: "over two processes", events: passedOn + `
			10001 out 2 wait @2
			10005 in 3 @2
			10006 queued 3 4 #1
			10007 receive 3 4 #1
			20000 send 3>4 4
			20000 watch 4
			20001 out 3 wait @2
			20005 in 4 @2
			20006 queued 4 4 #1
			20007 receive 4 4 #1
			30000 send 4>1 4
			30005 in 1
			30006 queued 1 4 #1
			30007 receive 1 4 #1
			30010 end 1 7`,
		start: 10, end: 30010, want: `
			10-22 running 1
			22-30000 waiting 4 inferred by 4>1 30000..30007
				22-20000 waiting 3 inferred by 3>4 20000..20007
					22-10000 waiting 2 inferred by 2>3 10000..10007
						22-25 ready 2 inferred
						25-10000 running 2 inferred
					10000-10005 ready 3 inferred
					10005-20000 running 3 inferred
				20000-20005 ready 4 inferred
				20005-30000 running 4 inferred
			30000-30005 ready 1
			30005-30010 running 1`,
	}, {
		name: "by an answer to an alias", events: passedOn + `
			10005 in 3 @2
			10006 queued 3 4 #1
			10007 receive 3 4 #1
			20000 send 3>1 alias
			20000 able 1
			30005 in 1
			30006 queued 1 4 #1
			30007 receive 1 4 #1
			30010 end 1 7`,
		start: 10, end: 30010, want: `
			10-22 running 1
			22-20000 waiting 3 inferred by 3>1 20000..30007
				22-10000 waiting 2 inferred by 2>3 10000..10007
					22-25 ready 2 inferred
					25-10000 running 2 inferred
				10000-10005 ready 3 inferred
				10005-20000 running 3 inferred
			20000-30005 ready 1
			30005-30010 running 1`,
	}, {
		name: "one that is not tracked, and takes no message before it answers", events: passedOn + `
			10010 send 3>1 4
			10011 out 3 wait @3
			10015 in 1
			10016 queued 1 4 #1
			10017 receive 1 4 #1
			10020 in 3 @3
			10021 queued 3 4 #1
			10022 receive 3 4 #1
			10030 end 1 7`,
		start: 10, end: 10030, want: `
			10-22 running 1
			22-10010 waiting 3 inferred by 3>1 10010..10017
				22-10000 waiting 3 inferred: what it did is not known: beamscope did not track it then
				10000-10010 running 3 inferred
			10010-10015 ready 1
			10015-10030 running 1`,
	}} {
		t.Run(s.name, s.run)
	}
}

// A process that is still in a receive with a timeout at the end is known to be in it. It waits for
// a process that it asked only if that one has ever answered.
func TestAsleepAtTheEnd(t *testing.T) {
	const (
		before = `
			0 watch 1
			0 watch 2
			5 monitor 1>2
			10 start 1 7
			20 send 1>2 4
			22 out 1 timer
			25 in 2 @2
			26 queued 2 4 #1
			27 receive 2 4 #1
			28 send 2>9 4
			30 `
		after = ` @2
			40000 able 1 over
			40005 in 1 over
			40010 end 1 7`
	)
	for _, s := range []scenario{
		{name: "with a time", events: "out 2 timer", want: "unexplained 2 inferred: it waits in a receive with a time, which is not over"},
		{name: "without a time", events: "out 2 wait", want: "waiting 9 inferred by 2>9 28..0: " + reasonAssumed + "; " + whyNotWatched},
		{name: "it is not known whether with a time", events: "out 2 reds=100", want: "waiting 9 inferred by 2>9 28..0: inferred from its reductions; " + reasonAssumed + "; " + whyNotWatched},
	} {
		s.events = before + s.events + after
		s.start, s.end = 10, 40010
		s.want = `
			10-22 running 1
			22-40000 waiting 2 inferred by 1>2 20..27: the call timed out: no answer came in time
				22-25 ready 2 inferred
				25-30 running 2 inferred
				30-40000 ` + s.want + `
			40000-40005 ready 1
			40005-40010 running 1`
		t.Run(s.name, s.run)
	}
}

// A process that is still in a receive with a timeout may wait for a process that has answered
// before.
func TestTimedQuestion(t *testing.T) {
	scenario{events: `
		0 watch 1
		10 start 1 7
		11 send 1>9 4
		12 send 9>1 4 unwatched
		13 queued 1 4 #1
		14 receive 1 4 #1
		20 send 1>9 4
		22 out 1 timer
		40000 start 8 9`, start: 10, end: 30000, want: `
		10-22 running 1
		22-30000 waiting 9 inferred by 1>9 20..0: ` + reasonAssumed + "; " + whyNotWatched}.run(t)
}
