package explain

import (
	"strings"
	"testing"
)

// Process 2 serves 3, and then takes messages of 4 and 5 that came after the message of process 1.
const overtaking = `
	0 watch 1
	0 watch 2
	0 watch 3
	0 watch 4
	0 watch 5
	1 in 2 @2
	2 send 3>2 9
	3 out 3 wait @3
	4 queued 2 9 #1
	5 receive 2 9 #1
	10 start 1 7
	20 send 1>2 4
	22 out 1 wait
	10000 send 4>2 9
	10002 out 4 wait @4
	11000 send 5>2 9
	11002 out 5 wait @5
	20000 send 2>3 alias
	20001 queued 2 4 #3 !1
	20002 queued 2 9 #3 !2
	20003 queued 2 9 #3 !3
	20004 receive 2 9 #3 !2
	30000 send 2>4 alias
	30004 receive 2 9 #2 !3
	40000 send 2>5 alias
	40004 receive 2 4 #1 !1
	50000 send 2>1 alias
	50002 out 2 wait @2
	50005 in 1
	50006 queued 1 4 #1
	50007 receive 1 4 #1
	50010 end 1 7`

// mailboxOf returns a trace of the script with a wait in the mailbox of process 2.
func mailboxOf(line string) string {
	return `
		10-22 running 1
		22-50000 waiting 2 inferred by 2>1 50000..50007
			22-40004 mailbox 2 inferred ` + line + ` by 1>2 20..40004
			40004-50000 running 2 inferred
		50000-50005 ready 1
		50005-50010 running 1`
}

// A message that came later and is taken earlier has overtaken the waiting one, unless it is an
// answer to a question of the receiver.
func TestMessagesThatOvertake(t *testing.T) {
	for _, s := range []scenario{{
		name: "two", events: overtaking, start: 10, end: 50010, want: mailboxOf("behind 0 overtaken 2"),
	}, {
		name: "an answer to a question", start: 10, end: 50010,
		events: strings.Replace(overtaking, "10000 send 4>2 9", "9000 send 2>4 4\n10000 send 4>2 9", 1),
		want:   mailboxOf("behind 0 overtaken 1"),
	}, {
		name: "an answer to an alias", start: 10, end: 50010,
		events: strings.Replace(overtaking, "11000 send 5>2 9", "11000 send 5>2 alias", 1),
		want:   mailboxOf("behind 0 overtaken 1"),
	}, {
		name: "one more of a sender that was answered", start: 10, end: 50010,
		events: strings.NewReplacer("11000 send 5>2 9", "11000 send 4>2 9", "30000 send 2>4 alias", "30000 send 2>4 4", "0 watch 5", "", "11002 out 5 wait @5", "").Replace(overtaking),
		want:   mailboxOf("behind 0 overtaken 2"),
	}} {
		t.Run(s.name, s.run)
	}
}

// A message that was fetched after another one came after it. The wait is inferred if the order of
// the messages that were taken first is unknown, even if tokens identify the waiting message.
func TestOvertakingIsExactWhereItIsProven(t *testing.T) {
	token := strings.NewReplacer("20 send 1>2 4", "20 send 1>2 4 ~5.0.1", "20001 queued 2 4 #3 !1", "20001 queued 2 4 #3 !1 ~5.0.1",
		"40004 receive 2 4 #1 !1", "40004 receive 2 4 #1 !1 ~5.0.1", "50000 send 2>1 alias", "50000 send 2>1 alias ~5.1.2",
		"50006 queued 1 4 #1", "50006 queued 1 4 #1 ~5.1.2", "50007 receive 1 4 #1", "50007 receive 1 4 #1 ~5.1.2").Replace(overtaking)
	want := func(mark string) string {
		return `
		10-22 running 1
		22-50000 waiting 2 by 2>1 50000..50007
			22-40004 mailbox 2` + mark + ` behind 0 overtaken 2 by 1>2 20..40004
			40004-50000 running 2
		50000-50005 ready 1
		50005-50010 running 1`
	}
	for _, s := range []scenario{
		{name: "with addresses", events: token, start: 10, end: 50010, want: want("")},
		{name: "without", events: strings.NewReplacer(" !2", "", " !3", "").Replace(token), start: 10, end: 50010, want: want(" inferred")},
	} {
		t.Run(s.name, s.run)
	}
}
