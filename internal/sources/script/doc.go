// Package script observes Erlang VMs by the output of scripts of dtrace(1) and bpftrace, which
// print a line for each event. It pairs the events in user space, by the same rules as the programs
// in the kernel.
//
// The text begins with this line, and everything before it is skipped:
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
// see [pairing.Event]. NS are nanoseconds of CLOCK_MONOTONIC, PID is the VM's process id in the
// operating system, and #LABEL.CUR the seq_trace token of a message. A key may contain spaces,
// except that of an arm. Empty lines are skipped. The tracer itself writes lines like
//
//	Lost N events
//	dtrace: N drops on CPU M
//
// if it had no room for that many lines. All other lines are rejected.
//
// # Time
//
// Lines of different processors are out of order. The package sorts them within half a second of
// the script's time, which the t lines give. A line that comes later is lost as missed, together
// with the open instances of its key.
//
// A t of more than ten seconds ahead of the last one is rejected. It is accepted if the t before it
// was rejected for the same reason and is not later. So one bad line does not make all others late,
// and a script that was stopped goes on with its second t.
//
// A window ends when t has passed its end by half a second. A window that began before the script
// did, or that waits for a missing t, is unobserved.
//
// The script's clock is ours, unless the first time in the text is more than ten seconds ago or in
// the future, or the text is a recording. Then the first time counts as the beginning of the next
// window. If that has begun and the text is live, it counts as the present. The difference between
// the clocks stays constant.
//
// # Loss
//
// If lines are missing, it is not known which. All open instances are then lost as cut. So are
// instances that began before the loss was reported and would time out later: their ends may be
// among the missing lines.
package script
