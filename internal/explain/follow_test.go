package explain

import (
	"fmt"
	"testing"
)

// A process waits for the activities of the process that wakes it.
func TestFollow(t *testing.T) {
	for _, s := range []scenario{{
		name: "a call that is answered to an alias", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			2 out 2 wait @2
			10 start 1 7
			20 send 1>2 9
			22 out 1 wait
			30 in 2 @2
			31 queued 2 9 #1
			32 receive 2 9 #1
			33 gc+ 2 @2
			40 gc- 2 @2
			80 send 2>1 alias
			82 out 2 wait @2
			85 in 1
			86 queued 1 4 #1
			87 receive 1 4 #1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-22 running 1
			22-80 waiting 2 inferred by 2>1 80..87
				22-30 ready 2 inferred
				30-33 running 2 inferred
				33-40 gc 2 inferred
				40-80 running 2 inferred
			80-85 ready 1
			85-90 running 1`,
	}, {
		name: "a late answer to an alias that is none any more", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			10 start 1 7
			20 send 1>3 9
			22 out 1 wait
			30 in 3 @3
			31 queued 3 9 #1
			32 receive 3 9 #1
			100000 send 2>1 alias
			100005 out 2 wait
			900000 send 3>1 alias
			900010 in 1
			900011 queued 1 4 #1
			900012 receive 1 4 #1
			900020 end 1 7`,
		start: 10, end: 900020, want: `
			10-22 running 1
			22-900000 waiting 3 inferred by 3>1 900000..900012
				22-30 ready 3 inferred
				30-900000 running 3 inferred
			900000-900010 ready 1
			900010-900020 running 1`,
	}, {
		name: "either of two answers to aliases", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			10 start 1 7
			20 send 1>3 9
			22 out 1 wait
			30 in 3 @3
			31 queued 3 9 #1
			32 receive 3 9 #1
			100000 send 2>1 alias
			110000 send 3>1 alias
			120000 in 1
			120011 queued 1 4 #1
			120012 receive 1 4 #1
			120020 end 1 7`,
		start: 10, end: 120020, want: `
			10-22 running 1
			22-110000 waiting 0 ambiguous: it waited for a message of <0.2.0> or <0.3.0>
			110000-120000 ready 1 inferred
			120000-120020 running 1`,
	}, {
		name: "it is scheduled in for a system task while it waits", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			2 out 2 wait @2
			10 start 1 7
			20 send 1>2 9
			22 out 1 wait
			30 in 2 @2
			31 queued 2 9 #1
			32 receive 2 9 #1
			80000 in 1
			80005 out 1 wait
			90000 send 2>1 4
			90005 in 1
			90006 queued 1 4 #1
			90007 receive 1 4 #1
			90010 end 1 7`,
		start: 10, end: 90010, want: `
			10-22 running 1
			22-80000 waiting 2 inferred by 2>1 90000..90007
				22-30 ready 2 inferred
				30-80000 running 2 inferred
			80000-80005 running 1
			80005-90000 waiting 2 inferred by 2>1 90000..90007
				80005-90000 running 2 inferred
			90000-90005 ready 1
			90005-90010 running 1`,
	}, {
		name: "a timer ends its wait, and it does something", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			2 out 2 wait @2
			10 start 1 7
			20 send 1>2 9
			22 out 1 timer
			30 in 2 @2
			31 queued 2 9 #1
			32 receive 2 9 #1
			80000 in 1 over
			80002 send 1>9 4
			80005 out 1 wait
			90000 send 2>1 4
			90005 in 1
			90006 queued 1 4 #1
			90007 receive 1 4 #1
			90010 end 1 7`,
		start: 10, end: 90010, want: `
			10-22 running 1
			22-80000 timer 1: its receive timed out: it slept, or the message that it waited for did not come
			80000-80005 running 1
			80005-90000 waiting 2 inferred by 2>1 90000..90007
				80005-90000 running 2 inferred
			90000-90005 ready 1
			90005-90010 running 1`,
	}, {
		name: "a timer ends its wait, and it runs for long", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			2 out 2 wait @2
			10 start 1 7
			20 send 1>2 9
			22 out 1 timer
			30 in 2 @2
			31 queued 2 9 #1
			32 receive 2 9 #1
			20000 in 1 over
			80005 out 1 wait
			90000 send 2>1 4
			90005 in 1
			90006 queued 1 4 #1
			90007 receive 1 4 #1
			90010 end 1 7`,
		start: 10, end: 90010, want: `
			10-22 running 1
			22-20000 timer 1: its receive timed out: it slept, or the message that it waited for did not come
			20000-80005 running 1
			80005-90000 waiting 2 inferred by 2>1 90000..90007
				80005-90000 running 2 inferred
			90000-90005 ready 1
			90005-90010 running 1`,
	}, {
		name: "it has asked one of two, and nothing came", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			10 start 1 7
			20 send 1>2 9
			21 send 1>3 4
			22 out 1 wait
			30 in 2 @2
			31 queued 2 9 #1
			32 receive 2 9 #1`,
		start: 10, end: 90, want: `
			10-22 running 1
			22-90 waiting 0 ambiguous: waits for one of <0.2.0> or <0.3.0>: it has sent to each since a message came`,
	}, {
		name: "it has asked one that has answered before, and nothing came", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 send 1>3 4
			2 send 1>2 9
			3 send 2>1 5
			4 queued 1 5 #1
			5 receive 1 5 #1
			10 start 1 7
			20 send 1>2 9
			21 send 1>3 4
			22 out 1 wait
			30 in 2 @2
			31 queued 2 9 #2
			31 queued 2 9 #2
			32 receive 2 9 #2
			33 receive 2 9 #1`,
		start: 10, end: 90, want: `
			10-22 running 1
			22-90 waiting 2 inferred by 1>2 20..33: assumed: of the processes that it has sent to, only this one has ever answered
				22-33 mailbox 2 inferred behind 1 by 1>2 20..33
				33-90 running 2 inferred`,
	}, {
		name: "tokens", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			2 out 2 wait @2
			10 start 1 7
			20 send 1>2 9 ~5.0.1
			22 out 1 wait
			30 in 2 @2
			31 queued 2 9 #1 ~5.0.1
			32 receive 2 9 #1 ~5.0.1
			80 send 2>1 alias ~5.1.2
			82 out 2 wait @2
			85 in 1
			86 queued 1 4 #1 ~5.1.2
			87 receive 1 4 #1 ~5.1.2
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-22 running 1
			22-80 waiting 2 by 2>1 80..87
				22-30 ready 2
				30-80 running 2
			80-85 ready 1
			85-90 running 1`,
	}, {
		name: "a slow callee two processes away", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 in 2 @2
			1 in 3 @3
			2 out 2 wait @2
			2 out 3 wait @3
			10 start 1 7
			20 send 1>2 9
			22 out 1 wait
			23 in 2 @2
			23 queued 2 9 #1
			24 receive 2 9 #1
			25 send 2>3 7
			26 out 2 wait @2
			27 in 3 @3
			27 queued 3 7 #1
			28 receive 3 7 #1
			800 send 3>2 alias
			801 out 3 wait
			802 in 2 @2
			803 queued 2 5 #1
			803 receive 2 5 #1
			805 send 2>1 alias
			806 out 2 wait
			810 in 1
			811 queued 1 4 #1
			812 receive 1 4 #1
			820 end 1 7`,
		start: 10, end: 820, want: `
			10-22 running 1
			22-805 waiting 2 inferred by 2>1 805..812
				22-23 ready 2 inferred
				23-26 running 2 inferred
				26-800 waiting 3 inferred by 3>2 800..803
					26-27 ready 3 inferred
					27-800 running 3 inferred
				800-802 ready 2 inferred
				802-805 running 2 inferred
			805-810 ready 1
			810-820 running 1`,
	}, {
		name: "a lock that a third process holds", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 in 2 @2
			2 out 2 wait @2
			3 in 3 @3
			10 start 1 7
			20 send 1>2 9
			22 out 1 wait
			23 in 2 @2
			23 queued 2 9 #1
			24 receive 2 9 #1
			25 out 2 wait @2
			50 nif+ 3 @3 slow
			70 nif- 3 @3 slow
			75 send 3>2 3
			76 in 2 @2
			76 queued 2 3 #1
			77 receive 2 3 #1
			80 send 2>1 alias
			82 out 2 wait @2
			85 in 1
			86 queued 1 4 #1
			87 receive 1 4 #1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-22 running 1
			22-80 waiting 2 inferred by 2>1 80..87
				22-23 ready 2 inferred
				23-25 running 2 inferred
				25-75 waiting 3 inferred by 3>2 75..77
					25-50 running 3 inferred
					50-70 nif 3 inferred [slow]
					70-75 running 3 inferred
				75-76 ready 2 inferred
				76-80 running 2 inferred
			80-85 ready 1
			85-90 running 1`,
	}, {
		name: "behind others in the mailbox", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 in 2 @2
			2 send 3>2 4
			10 start 1 7
			6000 send 3>2 4
			13000 send 1>2 9
			13001 out 1 wait
			13030 queued 2 4 #3
			13030 queued 2 4 #3
			13030 queued 2 9 #3
			13031 receive 2 4 #3
			13040 receive 2 4 #2
			13060 receive 2 9 #1
			13080 send 2>1 alias
			13082 out 2 wait @2
			13085 in 1
			13086 queued 1 4 #1
			13087 receive 1 4 #1
			13090 end 1 7`,
		start: 10, end: 13090, want: `
			10-13001 running 1
			13001-13080 waiting 2 inferred by 2>1 13080..13087
				13001-13060 mailbox 2 inferred behind 2 by 1>2 13000..13060
				13060-13080 running 2 inferred
			13080-13085 ready 1
			13085-13090 running 1`,
	}, {
		name: "behind others in the mailbox, for each of which another one is asked", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 in 2 @2
			2 send 3>2 4
			10 start 1 7
			6000 send 3>2 4
			13000 send 1>2 9
			13001 out 1 wait
			13030 queued 2 4 #3
			13030 queued 2 4 #3
			13030 queued 2 9 #3
			13031 receive 2 4 #3
			13032 send 2>3 2
			13033 out 2 wait
			13034 send 3>2 5
			13035 in 2
			13036 queued 2 5 #3
			13037 receive 2 5 #3
			13040 receive 2 4 #2
			13042 send 2>3 2
			13043 out 2 wait
			13044 send 3>2 5
			13045 in 2
			13046 queued 2 5 #2
			13047 receive 2 5 #2
			13048 queued 2 6 #2
			13049 receive 2 6 #2
			13060 receive 2 9 #1
			13080 send 2>1 alias
			13082 out 2 wait @2
			13085 in 1
			13086 queued 1 4 #1
			13087 receive 1 4 #1
			13090 end 1 7`,
		start: 10, end: 13090, want: `
			10-13001 running 1
			13001-13080 waiting 2 inferred by 2>1 13080..13087
				13001-13060 mailbox 2 inferred behind 2 by 1>2 13000..13060
				13060-13080 running 2 inferred
			13080-13085 ready 1
			13085-13090 running 1`,
	}, {
		name: "a call that timed out in the mailbox", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 in 2 @2
			2 send 3>2 4
			3 send 3>2 4
			10 start 1 7
			20 send 1>2 9
			22 out 1 wait
			30 queued 2 4 #3
			30 queued 2 4 #3
			30 queued 2 9 #3
			31 receive 2 4 #3
			40 receive 2 4 #2`,
		start: 10, end: 90, want: `
			10-22 running 1
			22-90 waiting 2 inferred by 1>2 20..0: assumed: it sent the last message there
				22-90 mailbox 2 inferred behind 2 by 1>2 20..0`,
	}, {
		name: "a call that timed out in the server", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			2 out 2 wait @2
			10 start 1 7
			20 send 1>2 9
			22 out 1 wait
			30 in 2 @2
			31 queued 2 9 #1
			32 receive 2 9 #1
			33 out 2 wait`,
		start: 10, end: 90, want: `
			10-22 running 1
			22-90 waiting 2 inferred by 1>2 20..32: assumed: it sent the last message there
				22-30 ready 2 inferred
				30-33 running 2 inferred
				33-90 unexplained 2 inferred: it waits for a message; no event tells from which process`,
	}, {
		name: "waiting for a process that is not watched", events: `
			0 watch 1
			10 start 1 7
			20 send 1>2 9
			22 out 1 wait`,
		start: 10, end: 90, want: `
			10-22 running 1
			22-90 waiting 2 inferred by 1>2 20..0: assumed: it sent the last message there; what it did is not known: beamscope did not track it then`,
	}, {
		name: "a message with literals, which are not counted when it is sent", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			2 out 2 wait @2
			10 start 1 7
			20 send 1>2 9
			22 out 1 wait
			30 in 2 @2
			31 queued 2 12 #1
			32 receive 2 12 #1
			80 send 2>1 0
			85 in 1
			86 queued 1 3 #1
			87 receive 1 3 #1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-22 running 1
			22-80 waiting 2 inferred by 2>1 80..87
				22-30 ready 2 inferred
				30-80 running 2 inferred
			80-85 ready 1
			85-90 running 1`,
	}, {
		name: "waiting for a process of another node", events: `
			0 watch 1
			10 start 1 7
			20 send 1>281474976710661 9
			22 out 1 wait`,
		start: 10, end: 90, want: `
			10-22 running 1
			22-90 waiting 281474976710661 inferred by 1>281474976710661 20..0: assumed: it sent the last message there; a process of another node`,
	}, {
		name: "a process that is watched when it is called first", events: `
			0 watch 1
			10 start 1 7
			20 watch 2
			20 send 1>2 9
			22 out 1 wait
			30 in 2 @2
			31 queued 2 9 #1
			32 receive 2 9 #1
			80 send 2>1 alias
			85 in 1
			86 queued 1 4 #1
			87 receive 1 4 #1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-22 running 1
			22-80 waiting 2 inferred by 2>1 80..87
				22-30 ready 2 inferred
				30-80 running 2 inferred
			80-85 ready 1
			85-90 running 1`,
	}, {
		name: "a process that works for somebody else when it is watched first", events: `
			0 watch 1
			10 start 1 7
			20 watch 2
			20 send 1>2 9
			22 out 1 wait
			30 in 2 @2
			31 queued 2 9 #1
			100000 send 2>3 4
			100010 receive 2 9 #1
			100080 send 2>1 alias
			100085 in 1
			100086 queued 1 4 #1
			100087 receive 1 4 #1
			100090 end 1 7`,
		start: 10, end: 100090, want: `
			10-22 running 1
			22-100080 waiting 2 inferred by 2>1 100080..100087
				22-100010 mailbox 2 inferred behind 0 by 1>2 20..100010
				100010-100080 running 2 inferred
			100080-100085 ready 1
			100085-100090 running 1`,
	}, {
		name: "a process with a backlog that is watched when it is called first", events: `
			0 watch 1
			10 start 1 7
			20 watch 2
			20 send 1>2 9
			22 out 1 wait
			30 queued 2 9 #5
			30 queued 2 9 #5
			32 receive 2 9 #5
			33 receive 2 9 #4
			34 receive 2 9 #3
			35 receive 2 9 #2
			36 receive 2 9 #1
			80 send 2>1 alias
			85 in 1
			86 queued 1 4 #1
			87 receive 1 4 #1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-22 running 1
			22-80 waiting 2 inferred by 2>1 80..87
				22-36 mailbox 2 inferred behind 4 by 1>2 20..36
				36-80 running 2 inferred
			80-85 ready 1
			85-90 running 1`,
	}, {
		name: "a selective receive, woken by another message in between", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 in 2 @2
			2 out 2 wait @2
			3 in 3 @3
			10 start 1 7
			20 send 1>2 9
			22 out 1 wait
			30 in 2 @2
			31 queued 2 9 #1
			32 receive 2 9 #1
			40 send 3>1 4
			42 in 1
			43 queued 1 4 #1
			44 out 1 wait
			80 send 2>1 4
			85 in 1
			86 queued 1 4 #2
			87 receive 1 4 #2
			88 receive 1 4 #1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-22 running 1
			22-42 waiting 2 inferred by 2>1 80..87
				22-30 ready 2 inferred
				30-42 running 2 inferred
			42-44 running 1
			44-80 waiting 2 inferred by 2>1 80..87
				44-80 running 2 inferred
			80-85 ready 1
			85-90 running 1`,
	}, {
		name: "two that send at the same time", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			10 start 1 7
			20 out 1 wait
			80 send 2>1 4
			81 send 3>1 4
			85 in 1
			86 queued 1 4 #2
			86 queued 1 4 #2
			87 receive 1 4 #2
			88 receive 1 4 #1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-80 waiting 0 ambiguous: it waited for a message of <0.2.0> or <0.3.0>
			80-85 ready 1 inferred
			85-90 running 1`,
	}, {
		name: "two that send at the same time, of different sizes", events: `
			0 watch 1
			0 watch 2
			0 watch 3
			1 in 3 @3
			10 start 1 7
			20 out 1 wait
			80 send 2>1 4
			81 send 3>1 5
			85 in 1
			86 queued 1 5 #2
			86 queued 1 4 #2
			87 receive 1 5 #2
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-81 waiting 3 inferred by 3>1 81..87
				20-81 running 3 inferred
			81-85 ready 1 inferred
			85-90 running 1`,
	}, {
		name: "the wait of one that is not watched when it answers", events: `
			0 watch 1
			10 start 1 7
			20 out 1 wait
			80 send 2>1 unwatched 4
			85 in 1
			86 queued 1 4 #1
			87 receive 1 4 #1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-80 waiting 2 inferred by 2>1 80..87: what it did is not known: beamscope did not track it then
			80-85 ready 1
			85-90 running 1`,
	}, {
		name: "an answer is there, and not yet looked at", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			2 out 2 wait @2
			10 start 1 7
			20 send 1>2 9
			22 out 1 wait
			30 in 2 @2
			31 queued 2 9 #1
			32 receive 2 9 #1
			33 send 2>1 8
			34 out 2 wait`,
		start: 10, end: 34, want: `
			10-22 running 1
			22-33 waiting 2 inferred by 2>1 33..0
				22-30 ready 2 inferred
				30-33 running 2 inferred
			33-34 ready 1`,
	}, {
		name: "it is answered, and wants no answer", events: `
			0 watch 1
			0 watch 2
			1 in 2 @2
			2 out 2 wait @2
			10 start 1 7
			20 send 1>2 9
			22 out 1 wait
			30 in 2 @2
			31 queued 2 9 #1
			32 receive 2 9 #1
			33 send 2>1 8
			34 out 2 wait
			35 in 1
			36 queued 1 8 #1
			37 out 1 wait`,
		start: 10, end: 90, want: `
			10-22 running 1
			22-35 waiting 2 inferred by 1>2 20..32: assumed: it sent the last message there
				22-30 ready 2 inferred
				30-34 running 2 inferred
				34-35 waiting 1 inferred by 2>1 33..0: ` + reasonAssumed + `
					34-35 ready 1 inferred
			35-37 running 1
			37-90 waiting 2 inferred by 1>2 20..32: assumed: it sent the last message there
				37-90 waiting 1 inferred by 2>1 33..0: ` + reasonAssumed + `
					37-90 unexplained 1 inferred: ` + reasonCircle,
	}} {
		t.Run(s.name, func(t *testing.T) { s.run(t) })
	}
}

// Waits are followed through a limited number of processes.
func TestFollowFar(t *testing.T) {
	const far = 12
	var events string
	for p := 1; p <= far; p++ {
		events += fmt.Sprintf("%d watch %d\n", 0, p)
		if p > 1 {
			events += fmt.Sprintf("1 in %d\n2 out %d wait\n", p, p)
		}
	}
	events += "10 start 1 7\n"
	for p := 1; p < far; p++ {
		at := 10 * p
		if p > 1 {
			events += fmt.Sprintf("%d in %d\n%d queued %d 1 #1\n%d receive %d 1 #1\n", at, p, at, p, at, p)
		}
		events += fmt.Sprintf("%d send %d>%d 1\n%d out %d wait\n", at, p, p+1, at, p)
	}
	scenario{start: 10, end: 200, want: `
		10-200 waiting 2 inferred by 1>2 10..20: assumed: it sent the last message there
			10-20 ready 2 inferred
			20-200 waiting 3 inferred by 2>3 20..30: assumed: it sent the last message there
				20-30 ready 3 inferred
				30-200 waiting 4 inferred by 3>4 30..40: assumed: it sent the last message there
					30-40 ready 4 inferred
					40-200 waiting 5 inferred by 4>5 40..50: assumed: it sent the last message there
						40-50 ready 5 inferred
						50-200 waiting 6 inferred by 5>6 50..60: assumed: it sent the last message there
							50-60 ready 6 inferred
							60-200 waiting 7 inferred by 6>7 60..70: assumed: it sent the last message there
								60-70 ready 7 inferred
								70-200 waiting 8 inferred by 7>8 70..80: assumed: it sent the last message there
									70-80 ready 8 inferred
									80-200 waiting 9 inferred by 8>9 80..90: assumed: it sent the last message there
										80-90 ready 9 inferred
										90-200 waiting 10 inferred by 9>10 90..100: assumed: it sent the last message there; followed over 8 processes`,
		events: events}.run(t)
}
