package explain

import "testing"

// A request waits in the mailbox while its receiver does something else, whatever that is, and
// whether the receiver was tracked before the request came or not.
func TestBehindAnotherJob(t *testing.T) {
	const before = `
		0 watch 1
		10000 start 1 7
		20000 send 1>2 5 ~9.0.1
		20000 watch 2
		22000 out 1 wait`
	const after = `
		900000 send 2>1 6 ~9.1.2
		900100 able 1
		900200 in 1
		900300 queued 1 6 #1 ~9.1.2
		900400 receive 1 6 #1 ~9.1.2
		900500 end 1 7`
	const taken = `
		800100 queued 2 5 #1 ~9.0.1
		800200 receive 2 5 #1 ~9.0.1`
	const behind = `
			10000-22000 running 1
			22000-900000 waiting 2 by 2>1 900000..900400
				22000-800200 mailbox 2 behind 0 by 1>2 20000..800200
				800200-900000 running 2
			900000-900200 ready 1
			900200-900500 running 1`
	for _, s := range []scenario{{
		name: "it sleeps", events: before + `
			20100 able 2
			30000 in 2 @2
			31000 out 2 timer @2
			800000 able 2 over
			800050 in 2 over @2` + taken + after,
		start: 10000, end: 900500, want: behind,
	}, {
		name: "it computes", events: before + `
			300000 out 2 ready @2
			310000 in 2 @2
			600000 out 2 ready @2
			610000 in 2 @2` + taken + after,
		start: 10000, end: 900500, want: behind,
	}, {
		name: "it computes on the same scheduler, and collects garbage", events: before + `
			20002 in 2 @2
			300000 gc+ 2 @2
			310000 gc- 2 @2
			600000 gc+ 2 @2
			610000 gc- 2 @2` + taken + after,
		start: 10000, end: 900500, want: behind,
	}, {
		name: "it goes on to answer another process", events: before + `
			20002 in 2 @2
			20002 watch 3
			700000 send 2>3 4 @2` + taken + after,
		start: 10000, end: 900500, want: behind,
	}, {
		name: "it was idle, and the VM collects its garbage before it looks", events: before + `
			20100 able 2
			30000 in 2 @2
			40000 gc+ 2 @2
			800050 gc- 2 @2` + taken + after,
		start: 10000, end: 900500, want: `
			10000-22000 running 1
			22000-900000 waiting 2 by 2>1 900000..900400
				22000-30000 ready 2
				30000-40000 running 2
				40000-800050 gc 2
				800050-900000 running 2
			900000-900200 ready 1
			900200-900500 running 1`,
	}, {
		name: "it waits for the answer of a third", events: before + `
			20100 able 2
			30000 in 2 @2
			31000 out 2 wait @2
			790000 able 2
			800050 in 2 @2` + taken + after,
		start: 10000, end: 900500, want: behind,
	}, {
		name: "it was idle, and had to wait for a scheduler", events: before + `
			20100 able 2
			800050 in 2 @2` + taken + after,
		start: 10000, end: 900500, want: `
			10000-22000 running 1
			22000-900000 waiting 2 by 2>1 900000..900400
				22000-800050 ready 2
				800050-900000 running 2
			900000-900200 ready 1
			900200-900500 running 1`,
	}} {
		t.Run(s.name, s.run)
	}
}
