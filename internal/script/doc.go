// Package script observes Erlang VMs by the output of scripts of dtrace(1) and
// bpftrace, which print a line for each event. It pairs them in user space, as the
// programs in the kernel do where there are some.
//
// The text begins with a line that says so, and what comes before is passed over:
//
//	beamscope events 1
//
// Each line after it is one of
//
//	t NS                                                  the time
//	s OUTCOME PID KEY NS [ARMED BY] [#LABEL.CUR]          a start
//	v OUTCOME PID KEY NS [#LABEL.CUR]                     a via
//	e OUTCOME PID KEY NS [=AMOUNT] [#LABEL.CUR]           an end
//	y OUTCOME PID KEY NS                                  a sync
//	a OUTCOME PID KEY ARMED NS                            an arm
//
// see [pairing.Event]. NS are nanoseconds of CLOCK_MONOTONIC, PID is that of the VM
// for the operating system, and #LABEL.CUR the seq_trace token of a message. A key may
// have spaces in it, but that of an arm. Empty lines are passed over. Of lines like
//
//	Lost N events
//	dtrace: N drops on CPU M
//
// the tracer itself is the author: it had no room for so many lines. What any other
// line means is not known: it is rejected.
//
// # Time
//
// Lines of different processors come in a wrong order. They are put into the right
// one for half a second of the script's time, which t tells. What comes later than
// that is lost as missed, and with it what is open of the same key.
//
// A t of more than ten seconds ahead of the last one is rejected, unless the t before it
// was rejected for that and is no later: one bad line is nothing that all others are late
// by, and a script that was stopped goes on with its second t.
//
// Windows end when t has passed them by that half second. A window that began before
// the script did, or that waits for a t that does not come, is unobserved.
//
// The script's clock is ours, unless the first time in the text is more than ten
// seconds ago or still to come, or the text is known to be a recording. Then the first
// time is taken to be the beginning of the next window or, where that has begun and the
// text is live, the present; and what lies between the clocks stays as it is.
//
// # Loss
//
// Where lines are missing it is not known of what. What is open then is lost as cut,
// and so is what would time out although it began before the loss was told: its end
// may have been among what is missing.
package script
