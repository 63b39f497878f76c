package explain

import (
	"strings"
	"testing"
)

// A pool waits for a worker, to which it gives the request later. The earlier activity of the
// worker is unknown: it does not wait for the pool.
func TestWorkerBusyBeforeItIsTracked(t *testing.T) {
	const events = `
		0 watch 1
		10 start 1 7
		20 send 1>2 4 ~1
		20 watch 2
		22 out 1 wait
		25 in 2 @2
		26 queued 2 4 #1 ~1
		27 receive 2 4 #1 ~1
		28 out 2 wait @2
		30000 send 3>2 unwatched 5 ~2
		30001 able 2
		30005 in 2 @2
		30006 queued 2 5 #1 ~2
		30007 receive 2 5 #1 ~2
		30010 send 2>3 6 ~3
		30010 watch 3
		30011 out 2 wait @2
		30020 in 3 @3
		30021 queued 3 6 #1 ~3
		30022 receive 3 6 #1 ~3
		30030 out 3 timer @3
		60000 able 3 over
		60005 in 3 over @3
		60010 send 3>1 7 ~4
		60011 able 1
		60012 out 3 wait @3
		60020 in 1
		60021 queued 1 7 #1 ~4
		60022 receive 1 7 #1 ~4
		60030 end 1 7`
	const want = `
		10-22 running 1
		22-60010 waiting 3 inferred by 3>1 60010..60022
			22-30010 waiting 2 inferred by 2>3 30010..30022
				22-25 ready 2 inferred
				25-28 running 2 inferred
				28-30000 waiting 3 inferred by 3>2 30000..30007: ` + whyNotWatched + `
				30000-30005 ready 2 inferred
				30005-30010 running 2 inferred
			30010-30020 ready 3 inferred
			30020-30030 running 3 inferred
			30030-60000 timer 3 inferred` + sleeps + `
			60000-60005 ready 3 inferred
			60005-60010 running 3 inferred
		60010-60020 ready 1
		60020-60030 running 1`
	for _, s := range []scenario{{
		name:   "inferred",
		events: strings.NewReplacer("~1", "", "~2", "", "~3", "", "~4", "").Replace(events), want: want,
	}, {
		name:   "with tokens",
		events: strings.NewReplacer("~1", "~9.0.1", "~2", "~9.1.2", "~3", "~9.2.3", "~4", "~9.3.4").Replace(events), want: strings.ReplaceAll(want, " inferred", ""),
	}} {
		t.Run(s.name, func(t *testing.T) {
			s.start, s.end = 10, 60030
			s.run(t)
		})
	}
}

// Processes wait for each other only if each has called the other, waits, and no message is on
// its way between them.
func TestWaitForEachOther(t *testing.T) {
	const calls = `
		0 watch 1
		0 watch 2
		1 in 2 @2
		10 start 1 7
		15 monitor 2>1 @2
		16 send 2>1 9 @2
		17 out 2 timer @2
		18 monitor 1>2
		19 send 1>2 9
		20 queued 1 9 #1
		21 out 1 timer
		24 queued 2 9 #1 @2
		25 in 2 @2
		26 out 2 timer @2`
	for _, s := range []scenario{{
		name: "each has called the other one", events: calls, end: 90000,
		want: `
			10-21 running 1
			21-90000 waiting 2 inferred by 1>2 19..0: ` + reasonAssumed + `
				21-25 waiting 1 inferred by 2>1 16..0: ` + reasonAssumed + `
					21-25 unexplained 1 inferred: ` + reasonOnWay + `
				25-26 running 2 inferred
				26-90000 waiting 1 inferred by 2>1 16..0: ` + reasonAssumed + `; ` + reasonCycle,
	}, {
		name: "an answer is on its way", events: `
		0 watch 1
		0 watch 2
		1 in 2 @2
		2 out 2 ever @2
		10 start 1 7
		18 monitor 1>2
		19 send 1>2 9
		21 out 1 wait
		24 queued 2 9 #1 @2
		25 in 2 @2
		26 receive 2 9 #1 @2
		28 monitor 2>1 @2
		29 send 2>1 9 @2
		30 queued 1 9 #1
		31 in 1
		32 out 1 wait
		33 send 2>1 0 alias @2
		34 out 2 timer @2`, end: 90000,
		want: `
			10-21 running 1
			21-31 waiting 2 inferred by 1>2 19..26: ` + reasonAssumed + `
				21-25 ready 2 inferred
				25-31 running 2 inferred
			31-32 running 1
			32-90000 waiting 2 inferred by 1>2 19..26: ` + reasonAssumed + `
				32-34 running 2 inferred
				34-90000 waiting 1 inferred by 2>1 29..0: ` + reasonAssumed + `
					34-90000 unexplained 1 inferred: ` + reasonOnWay,
	}, {
		name: "what the other one waits for is not certain", events: `
		0 watch 1
		0 watch 2
		1 in 2 @2
		2 out 2 ever @2
		10 start 1 7
		18 monitor 1>2
		19 send 1>2 9
		21 out 1 wait
		24 queued 2 9 #1 @2
		25 in 2 @2
		26 receive 2 9 #1 @2
		30 send 2>1 3 @2
		31 out 2 ever @2
		35 in 1
		36 queued 1 3 #1
		37 out 1 wait`, end: 90000,
		want: `
			10-21 running 1
			21-35 waiting 2 inferred by 1>2 19..26: ` + reasonAssumed + `
				21-25 ready 2 inferred
				25-31 running 2 inferred
				31-35 waiting 1 inferred by 2>1 30..0: ` + reasonAssumed + `
					31-35 ready 1 inferred
			35-37 running 1
			37-90000 waiting 2 inferred by 1>2 19..26: ` + reasonAssumed + `
				37-90000 waiting 1 inferred by 2>1 30..0: ` + reasonAssumed + `
					37-90000 unexplained 1 inferred: ` + reasonCircle,
	}, {
		name: "a server that has answered another one is idle", events: `
		0 watch 1
		0 watch 2
		0 watch 3
		1 in 2 @2
		2 out 2 ever @2
		3 in 3 @3
		4 monitor 3>2 @3
		5 send 3>2 8 @3
		6 out 3 ever @3
		10 start 1 7
		18 monitor 1>2
		19 send 1>2 9
		21 out 1 wait
		24 queued 2 8 #2 @2
		24 queued 2 9 #2 @2
		25 in 2 @2
		26 receive 2 8 #2 @2
		27 receive 2 9 #1 @2
		30 send 2>3 0 alias @2
		31 out 2 ever @2`, end: 90000,
		want: `
			10-21 running 1
			21-90000 waiting 2 inferred by 1>2 19..27: ` + reasonAssumed + `
				21-27 mailbox 2 inferred behind 1 by 1>2 19..27
				27-31 running 2 inferred
				31-90000 unexplained 2 inferred: ` + reasonNothing,
	}} {
		t.Run(s.name, func(t *testing.T) {
			s.start = 10
			s.run(t)
		})
	}
}
