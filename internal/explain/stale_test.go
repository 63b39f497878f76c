package explain

import (
	"strings"
	"testing"
)

// A message that a server never takes is not confused with the one that it takes. If the VM's
// memory shows which message it takes, that one is used; otherwise nothing is claimed.
func TestStaleMessage(t *testing.T) {
	const events = `
		0 watch 1
		10 start 1 7
		20 send 1>2 4
		20 watch 2
		22 out 1 wait
		25 in 2 @2
		26 queued 2 4 #2 !8
		27 receive 2 4 #2 !8
		30000 send 2>1 4
		30005 out 2 wait @2
		30010 in 1
		30011 queued 1 4 #1 !9
		30012 receive 1 4 #1 !9
		30020 end 1 7`
	without := strings.NewReplacer(" !8", "", " !9", "").Replace(events)
	const uncertain = `
		10-22 running 1
		22-30000 waiting 2 ambiguous by 2>1 30000..30012: it is not certain when it took the message
		30000-30010 ready 1
		30010-30020 running 1`
	again := `
		30100 start 1 7
		30110 send 1>2 4
		30111 out 1 wait
		30115 in 2 @2
		30116 queued 2 4 #2
		30117 receive 2 4 #2
		60000 send 2>1 4
		60010 in 1
		60011 queued 1 4 #1
		60012 receive 1 4 #1
		60020 end 1 7`
	for _, s := range []scenario{{
		name: "by its address", events: events, start: 10, end: 30020, want: `
			10-22 running 1
			22-30000 waiting 2 inferred by 2>1 30000..30012
				22-25 ready 2 inferred
				25-30000 running 2 inferred
			30000-30010 ready 1
			30010-30020 running 1`,
	}, {
		name: "a collection may have moved it", events: strings.Replace(events, "27 receive", "26 gc+ 2 @2\n26 gc- 2 @2\n27 receive", 1),
		start: 10, end: 30020, want: uncertain,
	}, {
		name: "by nothing", events: without, start: 10, end: 30020, want: uncertain,
	}, {
		name: "the stale one is of another size", events: strings.Replace(without, "27 receive 2 4 #2", "27 receive 2 9 #2", 1), start: 10, end: 30020, want: `
			10-22 running 1
			22-30000 waiting 2 inferred by 2>1 30000..30012
				22-30000 mailbox 2 inferred behind 1 by 1>2 20..0
			30000-30010 ready 1
			30010-30020 running 1`,
	}} {
		t.Run(s.name, s.run)
	}
	before := strings.NewReplacer("start 1 7", "start 1 6", "end 1 7", "end 1 6").Replace(without)
	for _, s := range []scenario{{
		name: "tracked all the time", events: before + again, start: 30100, end: 60020, want: `
			30100-30111 running 1
			30111-60000 waiting 2 inferred by 2>1 60000..60012
				30111-30115 ready 2 inferred
				30115-60000 running 2 inferred
			60000-60010 ready 1
			60010-60020 running 1`,
	}, {
		name: "tracked anew", events: before + strings.Replace(again, "30111", "30110 watch 2\n30111", 1), start: 30100, end: 60020, want: `
			30100-30111 running 1
			30111-60000 waiting 2 ambiguous by 2>1 60000..60012: it is not certain when it took the message
			60000-60010 ready 1
			60010-60020 running 1`,
	}} {
		t.Run(s.name, s.run)
	}
}
