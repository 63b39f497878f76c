package explain

import (
	"strings"
	"testing"
)

// In calling, process 1 calls process 2 over an alias. The serial of the answer's token is known at
// the receipt, and not at the send.
const calling = `
	0 watch 1
	0 watch 2
	1 in 2 @2
	2 out 2 wait @2
	10 start 1 7
	15 monitor 1>2
	20 send 1>2 9 ~5.0.1
	22 out 1 wait
	30 in 2 @2
	31 queued 2 9 #1 ~5.0.1
	32 receive 2 9 #1 ~5.0.1
	80000 send 2>1 alias ~5.0.0
	80002 out 2 wait @2
	80005 in 1
	80006 queued 1 4 #1 ~5.1.2
	80007 receive 1 4 #1 ~5.1.2
	80010 end 1 7`

// If the serial of a token is unknown when an answer is sent to an alias, the answer is found as
// without a token.
func TestTokenWithoutSerial(t *testing.T) {
	const answered = `
			10-22 running 1
			22-80000 waiting 2 inferred by 2>1 80000..80007
				22-30 ready 2 inferred
				30-80000 running 2 inferred
			80000-80005 ready 1
			80005-80010 running 1`
	for _, s := range []scenario{
		{name: "of the span", events: calling, want: answered},
		{name: "of the application, without a label", events: strings.ReplaceAll(calling, "~5.", "~0."), want: answered},
		{name: "two answers that may be the one", events: strings.Replace(calling, "80002 out 2", `
			79999 watch 3
			80001 send 3>1 alias ~5.0.0
			80002 out 2`, 1), want: `
			10-22 running 1
			22-80001 waiting 0 ambiguous: it waited for a message of <0.2.0> or <0.3.0>
			80001-80005 ready 1 inferred
			80005-80010 running 1`},
		{name: "an answer with another token", events: strings.Replace(calling, "alias ~5.0.0", "alias ~6.0.0", 1), want: `
			10-22 running 1
			22-80005 unexplained 1: ` + reasonUnseen + `
			80005-80010 running 1`},
	} {
		s.start, s.end = 10, 80010
		s.run(t)
	}
}
