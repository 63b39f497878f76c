package explain

import "testing"

// Explanations give the cause of a suspension and the suspending process. After its end the process
// waits to run.
func TestSuspensions(t *testing.T) {
	for _, s := range []scenario{{
		name: "busy port", events: `
			0 watch 1
			10 start 1 7
			20 suspend 1 6
			21 out 1 port
			60 resume 1
			70 in 1
			75 suspend 1 erts_dsig_send
			76 out 1 port
			79 resume 1
			80 in 1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-21 running 1
			21-60 port 1 [#Port<0.6>]
			60-70 ready 1
			70-76 running 1
			76-79 port 1 [a connection to another node]
			79-80 ready 1
			80-90 running 1`,
	}, {
		name: "the VM, and what is not known", events: `
			0 watch 1
			10 start 1 7
			20 suspend 1 persistent_term_put_2
			21 out 1 port
			30 resume 1
			31 in 1
			40 suspend 1 erts_try_seize_code_write_permission.part.0
			41 out 1 port
			50 resume 1
			51 in 1
			60 suspend 1 some_function
			61 out 1 port
			70 resume 1
			71 in 1
			80 suspend 1 .
			81 out 1 port
			90 resume 1
			91 in 1
			95 out 1 port
			97 resume 1
			98 in 1
			100 end 1 7`,
		start: 10, end: 100, want: `
			10-21 running 1
			21-30 vm 1 [persistent terms]
			30-31 ready 1
			31-41 running 1
			41-50 vm 1 [code]
			50-51 ready 1
			51-61 running 1
			61-70 vm 1 [some_function]
			70-71 ready 1
			71-81 running 1
			81-90 unexplained 1: suspended; no event tells why
			90-91 ready 1
			91-95 running 1
			95-97 unexplained 1: suspended; no event tells why
			97-98 ready 1
			98-100 running 1`,
	}, {
		name: "when it was resumed was not seen", events: `
			0 watch 1
			10 start 1 7
			20 suspend 1 6
			21 out 1 port
			70 in 1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-21 running 1
			21-70 port 1 inferred [#Port<0.6>]: inferred: beamscope did not see when it was resumed
			70-90 running 1`,
	}, {
		name: "resumed before it stops, and while", events: `
			0 watch 1
			10 start 1 7
			20 suspend 1 finish_loading_1
			30 resume 1
			40 out 1 ready
			50 in 1
			60 suspend 1 finish_loading_1
			61 resume 1
			62 out 1 port
			80 in 1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-40 running 1
			40-50 ready 1
			50-62 running 1
			62-80 ready 1
			80-90 running 1`,
	}, {
		name: "by another process, which it waits for", events: `
			0 watch 1
			10 start 1 7
			20 out 1 wait
			30 hold 1>2
			70 release 1>2
			75 resume 1
			80 in 1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-30 unexplained 1 inferred: ` + reasonSignal + `
			30-70 suspended 1 by 2
			70-80 unexplained 1 inferred: ` + reasonSignal + `
			80-90 running 1`,
	}, {
		name: "by another process, and a message comes", events: `
			0 watch 1
			10 start 1 7
			20 out 1 wait
			30 hold 1>2
			50 send 3>1 4 unwatched
			70 release 1>2
			75 resume 1
			80 queued 1 4 #1
			81 in 1
			82 receive 1 4 #1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-30 waiting 3 inferred by 3>1 50..82: what it did is not known: beamscope did not track it then
			30-70 suspended 1 by 2
			70-81 ready 1
			81-90 running 1`,
	}, {
		name: "by another process, long before a message comes", events: `
			0 watch 1
			10 start 1 7
			20 out 1 wait
			30000 hold 1>2
			50000 send 3>1 4 unwatched
			70000 release 1>2
			75000 resume 1
			80000 queued 1 4 #1
			81000 in 1
			82000 receive 1 4 #1
			90000 end 1 7`,
		start: 10, end: 90000, want: `
			10-20 running 1
			20-30000 waiting 3 inferred by 3>1 50000..82000: what it did is not known: beamscope did not track it then
			30000-70000 suspended 1 by 2
			70000-81000 ready 1
			81000-90000 running 1`,
	}, {
		name: "by another process, while it is ready; then it is not", events: `
			0 watch 1
			10 start 1 7
			20 out 1 ready
			30 hold 1>2
			40 release 1>2
			41 resume 1
			50 in 1
			60 out 1 ready
			65 hold 1>2
			66 release 1>2
			70 in 1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-30 ready 1
			30-40 suspended 1 by 2
			40-50 ready 1
			50-60 running 1
			60-70 ready 1
			70-90 running 1`,
	}, {
		name: "by another process, by a signal", events: `
			0 watch 1
			10 start 1 7
			20 hold 1>2
			25 out 1 ready
			28 suspend 1 erts_proc_sig_handle_incoming
			60 release 1>2
			65 resume 1
			70 in 1
			75 hold 1>3
			77 suspend 1 erts_proc_sig_handle_incoming
			78 out 1 port
			84 release 1>3
			85 resume 1
			86 in 1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-25 running 1
			25-28 ready 1
			28-60 suspended 1 by 2
			60-70 ready 1
			70-78 running 1
			78-84 suspended 1 by 3
			84-86 ready 1
			86-90 running 1`,
	}, {
		name: "by another process, which exits", events: `
			0 watch 1
			10 start 1 7
			20 out 1 ready
			30 hold 1>2
			75 resume 1
			80 in 1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-30 ready 1
			30-75 suspended 1 by 2
			75-80 ready 1
			80-90 running 1`,
	}, {
		name: "by two processes", events: `
			0 watch 1
			10 start 1 7
			20 out 1 ready
			30 hold 1>2
			40 hold 1>3
			50 release 1>2
			51 resume 1 2
			80 release 1>3
			81 resume 1 1
			85 in 1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-30 ready 1
			30-50 suspended 1 by 2
			50-80 suspended 1 by 3
			80-85 ready 1
			85-90 running 1`,
	}, {
		name: "by two processes, and the VM resumes it late", events: `
			0 watch 1
			10 start 1 7
			20 out 1 ready
			30 hold 1>2
			40 hold 1>3
			50 release 1>2
			60 release 1>3
			70 resume 1 2
			72 resume 1 1
			85 in 1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-30 ready 1
			30-50 suspended 1 by 2
			50-60 suspended 1 by 3
			60-85 ready 1
			85-90 running 1`,
	}, {
		name: "twice by one process, and once by another one", events: `
			0 watch 1
			10 start 1 7
			20 out 1 ready
			30 hold 1>2
			35 hold 1>2
			40 hold 1>3
			50 release 1>2
			60 release 1>2
			65 resume 1 2
			80 release 1>3
			81 resume 1 1
			85 in 1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-30 ready 1
			30-60 suspended 1 by 2
			60-80 suspended 1 by 3
			80-85 ready 1
			85-90 running 1`,
	}, {
		name: "by three processes, and one resumes it", events: `
			0 watch 1
			10 start 1 7
			20 out 1 ready
			30 hold 1>2
			40 hold 1>3
			41 hold 1>4
			50 release 1>3
			51 resume 1 3
			80 release 1>2
			81 resume 1 1
			85 in 1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-30 ready 1
			30-51 suspended 1 by 2
			51-80 suspended 1
			80-85 ready 1
			85-90 running 1`,
	}, {
		name: "not resumed yet", events: `
			0 watch 1
			10 start 1 7
			20 out 1 ready
			30 hold 1>2`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-30 ready 1
			30-90 suspended 1 inferred by 2: ` + guessHold,
	}, {
		name: "by the VM, and by another process meanwhile", events: `
			0 watch 1
			10 start 1 7
			20 suspend 1 finish_loading_1
			21 out 1 port
			30 hold 1>2
			40 resume 1 2
			70 release 1>2
			75 resume 1 1
			80 in 1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-21 running 1
			21-40 vm 1 [code]
			40-70 suspended 1 by 2
			70-80 ready 1
			80-90 running 1`,
	}, {
		name: "garbage is collected meanwhile", events: `
			0 watch 1
			10 start 1 7
			20 suspend 1 persistent_term_put_2
			21 out 1 port
			30 gc+ 1
			35 gc- 1
			40 in 1 @9
			41 gc+ 1 @9
			50 gc- 1 @9
			51 out 1 port @9
			60 resume 1
			70 in 1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-21 running 1
			21-30 vm 1 [persistent terms]
			30-35 gc 1
			35-40 vm 1 inferred [persistent terms]: inferred: beamscope did not see when it was resumed
			40-41 running 1
			41-50 gc 1
			50-51 running 1
			51-60 vm 1 [persistent terms]
			60-70 ready 1
			70-90 running 1`,
	}, {
		name: "a server that was suspended before", events: `
			0 watch 1
			10 start 1 7
			20 watch 2
			20 send 1>2 4
			21 out 1 wait
			60 release 2>3
			61 resume 2
			70 queued 2 4 #1 @2
			71 in 2 @2
			72 receive 2 4 #1 @2
			80 send 2>1 4 @2
			81 out 2 wait @2
			82 queued 1 4 #1
			83 in 1
			84 receive 1 4 #1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-21 running 1
			21-80 waiting 2 inferred by 2>1 80..84
				21-60 suspended 2 inferred by 3
				60-71 ready 2 inferred
				71-80 running 2 inferred
			80-83 ready 1
			83-90 running 1`,
	}, {
		name: "a server that was suspended before, and its messages are fetched meanwhile", events: `
			0 watch 1
			10 start 1 7
			20 watch 2
			20 send 1>2 4
			21 out 1 wait
			30 queued 2 4 #1 @2
			60000 release 2>3
			61000 resume 2
			71000 in 2 @2
			72000 receive 2 4 #1 @2
			80000 send 2>1 4 @2
			81000 out 2 wait @2
			82000 queued 1 4 #1
			83000 in 1
			84000 receive 1 4 #1
			90000 end 1 7`,
		start: 10, end: 90000, want: `
			10-21 running 1
			21-80000 waiting 2 inferred by 2>1 80000..84000
				21-60000 suspended 2 inferred by 3
				60000-71000 ready 2 inferred
				71000-80000 running 2 inferred
			80000-83000 ready 1
			83000-90000 running 1`,
	}, {
		name: "a server that was tracked before, and not when it was suspended", events: `
			0 watch 1
			0 watch 2
			0 send 1>2 4
			1 in 2 @2
			2 out 2 wait @2
			3 out 1 wait
			100000 in 1
			200010 start 1 7
			200020 watch 2
			200020 send 1>2 4
			200021 queued 2 4 #1 @2
			200030 out 1 wait
			260000 release 2>3
			261000 resume 2
			271000 in 2 @2
			272000 receive 2 4 #1 @2
			280000 send 2>1 4 @2
			281000 out 2 wait @2
			282000 queued 1 4 #1
			283000 in 1
			284000 receive 1 4 #1
			290000 end 1 7`,
		start: 200010, end: 290000, want: `
			200010-200030 running 1
			200030-280000 waiting 2 inferred by 2>1 280000..284000
				200030-260000 suspended 2 inferred by 3
				260000-271000 ready 2 inferred
				271000-280000 running 2 inferred
			280000-283000 ready 1
			283000-290000 running 1`,
	}, {
		name: "a server that was suspended before, and is given to a scheduler", events: `
			0 watch 1
			10 start 1 7
			20 watch 2
			20 send 1>2 4
			21 able 2
			22 out 1 wait
			60 release 2>3
			61 resume 2
			70 queued 2 4 #1 @2
			71 in 2 @2
			72 receive 2 4 #1 @2
			80 send 2>1 4 @2
			81 out 2 wait @2
			82 queued 1 4 #1
			83 in 1
			84 receive 1 4 #1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-22 running 1
			22-80 waiting 2 inferred by 2>1 80..84
				22-60 suspended 2 inferred by 3
				60-71 ready 2 inferred
				71-80 running 2 inferred
			80-83 ready 1
			83-90 running 1`,
	}, {
		name: "given to a scheduler while it is suspended", events: `
			0 watch 1
			10 start 1 7
			20 out 1 wait
			30 hold 1>2
			50 able 1
			70 release 1>2
			75 resume 1
			81 in 1
			90 end 1 7`,
		start: 10, end: 90, want: `
			10-20 running 1
			20-30 unexplained 1 inferred: ` + reasonSignal + `
			30-70 suspended 1 by 2
			70-81 ready 1 inferred
			81-90 running 1`,
	}} {
		s.run(t)
	}
}
