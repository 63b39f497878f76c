package explain

import "testing"

// If no events show when processes begin and stop running, explanations only claim what separate
// probes report: collections and native functions.
func TestUnscheduled(t *testing.T) {
	const why = "this VM does not tell when processes run"
	for _, s := range []scenario{{
		name: "a sleep", events: `
			0 watch 1
			10 start 1 7
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-90 unexplained 1: ` + why,
	}, {
		name: "a collection and a native function", events: `
			0 watch 1
			10 start 1 7
			20 gc+ 1
			30 gc- 1
			40 nif+ 1 f @9
			60 nif- 1 f @9
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 unexplained 1: ` + why + `
			20-30 gc 1
			30-40 unexplained 1: ` + why + `
			40-60 nif 1 [f]
			60-90 unexplained 1: ` + why,
	}, {
		name: "a call", events: `
			0 watch 1
			10 start 1 7
			20 watch 2
			20 send 1>2 4
			30 receive 2 4 #1 @2
			50 send 2>1 4 @2
			60 receive 1 4 #1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-90 unexplained 1: ` + why,
	}} {
		s.unscheduled = why
		t.Run(s.name, func(t *testing.T) { s.run(t) })
	}
}

// Guesses about a process that stops running are marked, even if tokens show the process that it
// waits for. An unseen beginning of a run is marked too.
func TestGuesses(t *testing.T) {
	for _, s := range []scenario{{
		name: "by reductions", events: `
			0 watch 1
			10 start 1 7
			20 out 1 reds=4000
			30 in 1 untold @2
			40 out 1 reds=9 @2
			70 in 1 untold @2
			90 end 1 7 @2`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-30 ready 1 inferred: ` + guessReductions + `
			30-40 running 1
			40-70 unexplained 1 inferred: ` + reasonUntold + `
			70-90 running 1`,
	}, {
		name: "by reductions, and who is waited for is exact", events: `
			0 watch 1
			0 watch 2
			1 in 2 untold @2
			10 start 1 7
			20 send 1>2 4 ~9.0.1
			21 out 1 reds=9
			30 receive 2 4 ~9.0.1 #1 @2
			60 send 2>1 4 ~9.1.2 @2
			61 out 2 reds=9 @2
			69 queued 1 4 ~9.1.2 #1
			70 in 1 untold
			71 receive 1 4 ~9.1.2 #1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-21 running 1
			21-60 waiting 2 inferred by 2>1 60..71: ` + guessReductions + `
				21-30 mailbox 2 inferred behind 0 by 1>2 20..30
				30-60 running 2 inferred
			60-70 ready 1
			70-90 running 1`,
	}, {
		name: "it was not seen when it began to run", events: `
			0 watch 1
			10 start 1 7
			20 out 1 ready
			50020 send 1>2 4
			50030 out 1 wait
			90030 out 1 ready
			90040 in 1
			91000 end 1 7`,
		start: 10, end: 91000, want: `
			10-20 running 1
			20-50020 unexplained 1: ` + whyBegunUnseen + `
			50020-50030 running 1
			50030-90030 unexplained 1: ` + whyBegunUnseen + `
			90030-90040 ready 1
			90040-91000 running 1`,
	}, {
		name: "it was not seen when it began to run, but for what was fetched for it", events: `
			0 watch 1
			10 start 1 7
			20 out 1 ready
			50000 queued 1 4 #1
			60000 receive 1 4 #1
			91000 end 1 7`,
		start: 10, end: 91000, want: `
			10-20 running 1
			20-50000 ready 1
			50000-91000 running 1`,
	}} {
		s.run(t)
	}
}

// If no events show when threads sleep, it is uncertain that a process really ran.
func TestThreadless(t *testing.T) {
	scenario{threadless: true, events: `
		0 watch 1
		10 start 1 7
		20 out 1 wait
		40 in 1
		50 gc+ 1
		60 gc- 1
		90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1 inferred: ` + guessThread + `
			20-40 unexplained 1 inferred: ` + reasonSignal + `
			40-50 running 1 inferred: ` + guessThread + `
			50-60 gc 1 inferred: ` + guessThread + `
			60-90 running 1 inferred: ` + guessThread}.run(t)
}
