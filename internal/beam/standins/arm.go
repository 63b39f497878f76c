package main

import "slices"

// Debian's builds for arm64. A function for arm64 begins with an instruction that the kernel would
// single-step. So each place is a later instruction that the kernel emulates and that the function
// always executes at the event. The function has moved its parameters to registers that calls
// preserve by then.

// livesARM returns the places of events about lives of processes, calls of native functions and
// spans. The functions for native functions return at one place each, whose offset differs.
//
// ets_is_compiled_ms_1 overwrites its parameter, the process, with its first instruction. So that one
// is the place, although the kernel single-steps it.
func livesARM(exit, nif, bif string, returnNIF, returnBIF int) []place {
	const (
		function = "8@[x22, -24]"
		ret      = "c0035fd6"
	)
	return []place{
		{probe: "process__exit", function: "erts_do_exit_process", at: at{"erts_do_exit_process", -1, 0x24}, code: exit, args: []string{"8@[x19]", ""}},
		{probe: "nif__entry", function: "erts_call_dirty_nif", at: at{"erts_call_dirty_nif", -1, 0x78}, code: nif, args: []string{"8@[x19]", function}},
		{probe: "nif__entry", function: "erts_call_dirty_bif", at: at{"erts_call_dirty_bif", -1, 0x4c}, code: bif, args: []string{"8@[x20]", function}},
		{probe: "nif__return", function: "erts_call_dirty_nif", at: at{"erts_call_dirty_nif", -1, returnNIF}, code: ret, args: []string{"", ""}},
		{probe: "nif__return", function: "erts_call_dirty_bif", at: at{"erts_call_dirty_bif", -1, returnBIF}, code: ret, args: []string{"", ""}},
		{probe: "user_trace__n", function: "ets_is_compiled_ms_1", at: entry("ets_is_compiled_ms_1"), code: "200040f9", stepped: true, args: []string{"8@[x0]", "8@[x1]"}},
	}
}

// receiveARM returns the place at which a process takes a message. The first branch of the function
// follows the instructions that save registers. saved is the word of the process that points to the
// word with the message's address.
func receiveARM(symbol, saved string) place {
	return place{
		probe: "message__receive", function: "beam_jit_remove_message", at: at{symbol, -1, 0x28}, code: "c00d0054",
		args: []string{"8@[x19]", "", "", "", "", ""}, message: saved, indirect: true,
	}
}

// portsARM returns the places of events about busy ports, see [ports].
func portsARM(busy int, busyCode string, free int) []place {
	set := func(offset int) at { return at{"set_busy_port", -1, offset} }
	return []place{
		{probe: "port__busy", function: "set_busy_port", at: set(busy), code: busyCode, args: []string{"8@[x19]"}},
		{probe: "port__not_busy", function: "set_busy_port", at: set(free), code: "a00000b4", args: []string{"8@[x19]"}},
	}
}

// congestionARM returns the places of events about busy connections to other nodes. In erts_dsig_send a
// branch follows the test whether the process is suspended, and not resumed at once: it tests whether a
// system monitor receives a message about the busy port. port is the term of the port there.
// erts_dist_port_not_busy only passes its parameter on to another function.
func congestionARM(busy int, busyCode, port, freeCode string) []place {
	return []place{
		{probe: "dist__port_busy", function: "erts_dsig_send", at: at{"erts_dsig_send", -1, busy}, code: busyCode, args: []string{"", port, "", ""}},
		{probe: "dist__port_not_busy", function: "erts_dist_port_not_busy", at: at{"erts_dist_port_not_busy", -1, 4}, code: freeCode, args: []string{"", "8@[x0]", ""}},
	}
}

func debian12ARM() build {
	collect := func(offset int) at { return at{"erts_garbage_collect_nobump", 0x50, offset} }
	const process = "8@[x25]"
	queue := at{"erts_queue_message", 0x2c, 0x34} // the first call of queue_messages
	return build{
		id: "34b08b26333c6796439da9addbbde3dc375f9aaf", release: 25,
		name: "Debian 12, erlang-base 1:25.2.3+dfsg-1+deb12u4, arm64",
		places: slices.Concat([]place{
			// The process is complete, and becomes runnable next.
			{probe: "process__spawn", function: "erl_create_process", at: at{"erl_create_process", -1, 0x754}, code: "2caeff97", args: []string{"8@x19", "8@[x27, 440]"}},
			{probe: "gc_minor__start", function: "garbage_collect", at: collect(0x65c), code: "664300b4", args: []string{process, "-4@w21"}},
			{probe: "gc_major__start", function: "garbage_collect", at: collect(0x260), code: "211100f0", args: []string{process, ""}},
			{probe: "gc_minor__end", function: "garbage_collect", at: collect(0xd04), code: "c0000054", args: []string{process, "8@0"}},
			{probe: "gc_minor__end", other: "gc_major__end", function: "garbage_collect", at: collect(0x464), code: "bb660394", args: []string{process, "8@x19"}},
			{probe: "gc_minor__end", other: "gc_major__end", function: "garbage_collect", at: collect(0x8c4), code: "af89fa97", args: []string{process, "8@0"}},
			{
				probe: "message__send", function: "queue_messages", at: queue, code: "56220094",
				args: []string{"8@x0", "8@[x19]", "", "", "", ""}, message: "8@x4",
			},
			{
				probe: "message__queued", function: "queue_messages", at: queue, code: "56220094",
				args: []string{"8@[x19]", "", "", "", "", ""}, message: "8@x4",
			},
			fetch(0x1c, "a00600b4", "8@[x19]", "8@[x19, 648]", "4@[x19, 632]"),
			receiveARM("_Z23beam_jit_remove_messageP7processlPmS1_j", "8@[x19, 336]"),
		}, livesARM("600d0037", "e00600f0", "2d8a0594", 0x230, 0x268), portsARM(0x44, "80024037", 0x6c),
			congestionARM(0xb50, "00070837", "8@x21", "bbe9ff17")),
	}
}

func debian13ARM() build {
	collect := func(offset int) at { return at{"erts_garbage_collect_nobump", 0x50, offset} }
	const process = "8@[x24]"
	send := func(function string, offset int, code, sender, receiver, message string) place {
		return place{
			probe: "message__send", function: function, at: at{function, -1, offset}, code: code,
			args: []string{sender, receiver, "", "", "", ""}, message: message,
		}
	}
	queued := func(function string, offset int, code, receiver, message string) place {
		return place{
			probe: "message__queued", function: function, at: at{function, -1, offset}, code: code,
			args: []string{receiver, "", "", "", "", ""}, message: message,
		}
	}
	return build{
		id: "0ba29dc73fecfbc46bccf81ecd6f89168f27d155", release: 27,
		name: "Debian 13, erlang-base 1:27.3.4.1+dfsg-1+deb13u4, arm64",
		places: slices.Concat([]place{
			{probe: "process__spawn", function: "erl_create_process", at: at{"erl_create_process", -1, 0x928}, code: "b8aaff97", args: []string{"8@x19", "8@[x28, 432]"}},
			{probe: "gc_minor__start", function: "garbage_collect", at: collect(0x644), code: "604c7037", args: []string{process, "8@x21"}},
			{probe: "gc_major__start", function: "garbage_collect", at: collect(0x210), code: "da1100b0", args: []string{process, ""}},
			{probe: "gc_minor__end", function: "garbage_collect", at: collect(0xee0), code: "20187037", args: []string{process, "8@0"}},
			{probe: "gc_minor__end", other: "gc_major__end", function: "garbage_collect", at: collect(0x454), code: "6da70394", args: []string{process, "8@x19"}},
			{probe: "gc_minor__end", other: "gc_major__end", function: "garbage_collect", at: collect(0x8d4), code: "f5abf997", args: []string{process, "8@0"}},
			send("erts_queue_proc_message", 0x2c, "20060054", "8@[x21]", "8@[x20]", "8@x19"),
			send("erts_queue_proc_messages", 0x30, "a0050054", "8@[x20]", "8@[x19]", "8@x23"),
			queued("erts_queue_proc_message", 0x2c, "20060054", "8@[x20]", "8@x19"),
			queued("erts_queue_proc_messages", 0x30, "a0050054", "8@[x19]", "8@x23"),
			queued("erts_queue_message", 0x44, "dc1f0094", "8@[x20]", "8@x19"),
			queued("erts_queue_message_token", 0x40, "bd1f0094", "8@[x20]", "8@x19"),
			fetch(0x34, "a10f00b4", "8@[x19]", "8@[x19, 632]", "4@[x19, 616]"),
			receiveARM("_Z23beam_jit_remove_messageP7processiPmS1_j", "8@[x19, 320]"),
		}, livesARM("e00b0037", "20090090", "45c80594", 0x234, 0x260), portsARM(0x40, "c0024037", 0x6c),
			congestionARM(0xcbc, "00020837", "8@[sp, 112]", "cce8ff17")),
	}
}
