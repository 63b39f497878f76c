package main

import "slices"

// A place is a dtrace.Place whose address is given relative to an exported function.
type place struct {
	probe, other string
	function     string // for people: the function that contains the instruction
	at           at
	returns      bool
	code         string // first bytes of the instruction, in hexadecimal
	stepped      bool   // the kernel single-steps the instruction, because no other one will do
	args         []string
	message      string
	indirect     bool
	fetch        bool
	state        string
}

// at is the place of an instruction, counted in bytes from an exported function, or from the
// target of a jump or call in that function.
type at struct {
	symbol string
	jump   int // bytes from the symbol to a jump or call with its distance; -1 for none
	offset int // bytes to the instruction, from the target of the jump or else from the symbol
}

func entry(symbol string) at { return at{symbol, -1, 0} }

// A build contains the places that were found in a build of the VM.
type build struct {
	id, name string
	release  int
	places   []place
}

// The first bytes of functions, which the kernel emulates.
const (
	pushR15 = "4157"
	pushR14 = "4156"
	pushR13 = "4155"
	pushR12 = "4154"
)

// Arguments by the calling convention, System V for x86-64. A process begins with its pid.
const (
	process1 = "8@(%rdi)"
	process2 = "8@(%rsi)"
	term1    = "8@%rdi"
)

// builds returns the known builds. The sources of the release show what each function does, and
// its parameters. The disassembly shows that the build calls it for each event, because the
// compiler has inlined some functions. The tests of package bpf compare the counts with the
// work of a VM.
//
// garbage_collect contains the functions that collect. Its places, in their order: a minor
// collection starts, a major one starts, a minor one has no room (minor_collection returns -1),
// a collection has freed memory, the heap is too large (either function returns -2).
func builds() []build {
	return []build{
		debian12(),
		debian12ARM(),
		debian13("d9c20f2ea54ccc715d68468199ec17a3d3a1ed94", "Debian 13, erlang-base 1:27.3.4.1+dfsg-1+deb13u3, amd64"),
		debian13("c3c1e30f9638181692a0faa7554e2643b6def036", "Debian 13, erlang-base 1:27.3.4.1+dfsg-1+deb13u4, amd64"),
		debian13ARM(),
	}
}

// lives returns the places of events about lives of processes and calls of native functions. They
// are the same in all known builds. The code of a native function follows the terms of its module
// and its name, and its arity.
func lives() []place {
	const function = "8@-24(%rdx)"
	return []place{
		{probe: "process__exit", function: "erts_do_exit_process", at: entry("erts_do_exit_process"), code: pushR12, args: []string{process1, ""}},
		{probe: "nif__entry", function: "erts_call_dirty_nif", at: entry("erts_call_dirty_nif"), code: pushR15, args: []string{process2, function}},
		{probe: "nif__entry", function: "erts_call_dirty_bif", at: entry("erts_call_dirty_bif"), code: pushR15, args: []string{process2, function}},
		{probe: "nif__return", function: "erts_call_dirty_nif", at: entry("erts_call_dirty_nif"), returns: true, code: pushR15, args: []string{"", ""}},
		{probe: "nif__return", function: "erts_call_dirty_bif", at: entry("erts_call_dirty_bif"), returns: true, code: pushR15, args: []string{"", ""}},
	}
}

// fetch returns the place at which a process takes the list of all signals out of its outer queue:
// a branch of erts_proc_sig_fetch__ that each call passes before it changes the list. The caller has
// the lock of the queue. first is the word of the process with the first signal, and state the one with
// its flags.
func fetch(offset int, code, process, first, state string) place {
	return place{
		probe: "message__queued", function: "erts_proc_sig_fetch__", at: at{"erts_proc_sig_fetch__", -1, offset}, code: code,
		args: []string{process, "", "", "", "", ""}, message: first, fetch: true, state: state,
	}
}

// spans returns the place at which the application beamscope reports spans. It calls
// ets:is_compiled_ms/1 with a tuple. The place is the first branch of that function, which each call
// passes.
func spans(code string) place {
	return place{
		probe: "user_trace__n", function: "ets_is_compiled_ms_1", at: at{"ets_is_compiled_ms_1", -1, 5}, code: code,
		args: []string{process1, "8@%rax"},
	}
}

// ports returns the places of events about busy ports. In set_busy_port, a jump follows the test
// whether the port was busy before, and another one follows the test whether it was free. A port
// begins with its identifier.
func ports(busy, free int) []place {
	const port = "8@(%rdi)"
	set := func(offset int) at { return at{"set_busy_port", -1, offset} }
	return []place{
		{probe: "port__busy", function: "set_busy_port", at: set(busy), code: "74", args: []string{port}},
		{probe: "port__not_busy", function: "set_busy_port", at: set(free), code: "74", args: []string{port}},
		{probe: "dist__port_not_busy", function: "erts_dist_port_not_busy", at: at{"erts_dist_port_not_busy", -1, 3}, code: "74", args: []string{"", port, ""}},
	}
}

func debian12() build {
	collect := func(offset int) at { return at{"erts_garbage_collect_nobump", 0x42, offset} }
	const (
		process   = "8@(%rbx)"
		reclaimed = "8@(%rsp)"
	)
	return build{
		id: "94bcd90b66fca38e41e627fa3a2ec089b2e498be", release: 25,
		name: "Debian 12, erlang-base 1:25.2.3+dfsg-1+deb12u4, amd64",
		places: append([]place{
			// The process is complete, and becomes runnable next.
			{probe: "process__spawn", function: "erl_create_process", at: at{"erl_create_process", -1, 0xa6c}, code: "e8", args: []string{"8@%rbx", "8@448(%r15)"}},
			{probe: "dist__port_busy", function: "erts_dsig_send", at: at{"erts_dsig_send", -1, 0xdaf}, code: "0f85", args: []string{"", "8@16(%rsp)", "", ""}},
			{probe: "gc_minor__start", function: "garbage_collect", at: collect(0x78d), code: "0f84", args: []string{process, "-4@%r14d"}},
			{probe: "gc_major__start", function: "garbage_collect", at: collect(0x375), code: "721b", args: []string{process, ""}},
			{probe: "gc_minor__end", function: "garbage_collect", at: collect(0x10cd), code: "7415", args: []string{process, "8@$0"}},
			{probe: "gc_minor__end", other: "gc_major__end", function: "garbage_collect", at: collect(0x615), code: "7415", args: []string{process, reclaimed}},
			{probe: "gc_minor__end", other: "gc_major__end", function: "garbage_collect", at: collect(0xaa0), code: "e8", args: []string{process, "8@$0"}},
			{
				probe: "message__send", function: "queue_messages", at: at{"erts_queue_message", 0x27, 0}, code: pushR15,
				args: []string{term1, process2, "", "", "", ""}, message: "8@%r8",
			},
			{
				probe: "message__queued", function: "queue_messages", at: at{"erts_queue_message", 0x27, 0}, code: pushR15,
				args: []string{process2, "", "", "", "", ""}, message: "8@%r8",
			},
			fetch(0x14, "0f84", process1, "8@656(%rdi)", "4@640(%rdi)"),
			{
				probe: "message__receive", function: "beam_jit_remove_message", at: entry("_Z23beam_jit_remove_messageP7processlPmS1_j"), code: pushR14,
				args: []string{process1, "", "", "", "", ""}, message: "8@344(%rdi)", indirect: true,
			},
			spans("7531"),
		}, slices.Concat(lives(), ports(0x40, 0x78))...),
	}
}

// debian13 returns a build of OTP 27.3.4.1. The disassembly of the revision deb13u4 differs from that
// of deb13u3 in packet_get_length, numbers of lines and addresses only.
func debian13(id, name string) build {
	collect := func(offset int) at { return at{"erts_garbage_collect_nobump", 0x42, offset} }
	const (
		process   = "8@(%rbx)"
		reclaimed = "8@16(%rsp)"
	)
	send := func(function, code, message string) place {
		return place{
			probe: "message__send", function: function, at: entry(function), code: code,
			args: []string{process1, process2, "", "", "", ""}, message: message,
		}
	}
	queued := func(function, code, receiver, message string) place {
		return place{
			probe: "message__queued", function: function, at: entry(function), code: code,
			args: []string{receiver, "", "", "", "", ""}, message: message,
		}
	}
	return build{
		id: id, release: 27, name: name,
		places: append([]place{
			{probe: "process__spawn", function: "erl_create_process", at: at{"erl_create_process", -1, 0xc14}, code: "e8", args: []string{"8@%rbx", "8@440(%rbp)"}},
			{probe: "dist__port_busy", function: "erts_dsig_send", at: at{"erts_dsig_send", -1, 0xe8e}, code: "0f85", args: []string{"", "8@32(%rsp)", "", ""}},
			{probe: "gc_minor__start", function: "garbage_collect", at: collect(0x7ec), code: "0f84", args: []string{process, "8@%r14"}},
			{probe: "gc_major__start", function: "garbage_collect", at: collect(0x39e), code: "721b", args: []string{process, ""}},
			{probe: "gc_minor__end", function: "garbage_collect", at: collect(0x1295), code: "0f85", args: []string{process, "8@$0"}},
			{probe: "gc_minor__end", other: "gc_major__end", function: "garbage_collect", at: collect(0x67f), code: "0f85", args: []string{process, reclaimed}},
			{probe: "gc_minor__end", other: "gc_major__end", function: "garbage_collect", at: collect(0xb0f), code: "e8", args: []string{process, "8@$0"}},
			send("erts_queue_proc_message", pushR13, "8@%rcx"),
			send("erts_queue_proc_messages", pushR14, "8@%r8"),
			queued("erts_queue_proc_message", pushR13, process2, "8@%rcx"),
			queued("erts_queue_proc_messages", pushR14, process2, "8@%r8"),
			queued("erts_queue_message", pushR12, process1, "8@%rdx"),
			queued("erts_queue_message_token", pushR12, process1, "8@%rdx"),
			// The list is not empty here.
			fetch(0x3f, "0f84", process, "8@%rax", "4@624(%rbx)"),
			{
				probe: "message__receive", function: "beam_jit_remove_message", at: entry("_Z23beam_jit_remove_messageP7processiPmS1_j"), code: pushR15,
				args: []string{process1, "", "", "", "", ""}, message: "8@328(%rdi)", indirect: true,
			},
			spans("7539"),
		}, slices.Concat(lives(), ports(0x40, 0x7f))...),
	}
}
