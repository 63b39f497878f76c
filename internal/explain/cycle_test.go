package explain

import (
	"strings"
	"testing"
)

// A pool waits for a worker that it gives the request to later. What the worker did before
// that is not known: it does not wait for the pool.
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
