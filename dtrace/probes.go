package dtrace

// The functions below return the catalogue by subject. Each call makes a new copy, which callers
// can change. The names of arguments are beamscope's own: in the VM's declarations some are
// different, and some are wrong.

func messages() []Probe {
	size := Arg{"size", Words, "without off-heap binaries; 4294967295 where the VM does not know, for messages from other nodes"}
	qlen := Arg{"qlen", Int, "not the length of the queue in OTP 25"}
	token := seqToken()
	received := append([]Arg{{"receiver", PID, ""}, size, qlen}, token...)
	return []Probe{
		{
			Name: "message__send", State: Alive, Hot: Hot,
			Args: append([]Arg{{"sender", PID, "cut to 64 bytes"}, {"receiver", PID, "a name where that was sent to; cut to 64 bytes"}, size}, token...),
			StandIn: StandIn{
				Where: Test{Arg: 0, Text: "<0.", Prefix: true},
				Doc:   "It reports messages from a process of this node to a living process, at the moment when the VM puts the message into the receiver's outer queue. It reports neither the size nor the token. If the VM puts several messages there at once, it reports only the last.",
			},
			Doc:   "A message is sent. It stays silent for alias replies, such as those of gen_server:call with a timeout, for messages with priority, which there are since OTP 28, for timers and for the output of ports.",
			Trace: "{trace, Pid, send, Msg, To}",
		},
		{
			Name: "message__send__remote", State: Alive, Hot: Hot,
			Args:  append([]Arg{{"sender", PID, ""}, {"node", Node, "of the receiver"}, {"receiver", PID, "a name where that was sent to"}, size}, token...),
			Doc:   "A message is sent to another node. message__send fires for it too: count one of them.",
			Trace: "{trace, Pid, send, Msg, To}",
		},
		{
			Name: "message__queued", State: Alive, Hot: Hot, Args: received,
			StandIn: StandIn{Doc: "It reports a message when the VM puts it into the receiver's outer queue, because the VM calls no function for each message that a receiver fetches. So the time until message-receive contains the wake-up delay. Only where message-send starts instances and message-queued ends them, as in hop, it reports the messages when the receiver fetches them: in erts_proc_sig_fetch__, all that have come at once. A receiver also fetches when it collects garbage, makes the reference of a call, or is asked for its messages, which may be before it wants one. It does not report messages to an alias, nor 'DOWN' and 'EXIT' messages. It reports neither the size, nor the length of the queue, nor the token. If the VM puts several messages there at once, it reports only the last."},
			Doc:     "A receiver fetches a message from its outer queue. The time since message__send is the wake-up delay, that until message__receive the wait in the mailbox.",
			Trace:   "{trace, Pid, 'receive', Msg}",
		},
		{
			Name: "message__receive", State: Alive, Hot: Hot, Args: received,
			Doc:     "A process takes a message out of its mailbox.",
			StandIn: StandIn{Doc: "It reports neither the size, nor the length of the queue, nor the token."},
		},
	}
}

// tokenLabel and tokenSerial are the names of the arguments that identify a seq_trace token.
const (
	tokenLabel  = "label"
	tokenSerial = "cur"
)

// seqToken are the arguments that show the seq_trace token.
func seqToken() []Arg {
	return []Arg{
		{tokenLabel, Int, "of the sender's seq_trace token; 0 without one, -2147483648 where it does not fit into 32 bits"},
		{"prev", Int, "previous serial number of the token"},
		{tokenSerial, Int, "serial number of the token: with label and prev it identifies the message"},
	}
}

// collectionEnd describes how the end of a collection differs if functions stand in for the probes.
const collectionEnd = "If a collection has freed memory, or the process is killed because its heap is too large, the end does not say whether the collection was minor or major. Its start does."

func memory() []Probe {
	need := []Arg{{"pid", PID, ""}, {"need", Words, "wanted on the heap"}}
	reclaimed := []Arg{{"pid", PID, ""}, {"reclaimed", Words, ""}}
	resized := []Arg{{"pid", PID, ""}, {"old", Words, "size of the heap before"}, {"new", Words, "size of the heap after"}}
	return []Probe{
		{Name: "copy__struct", State: Alive, Hot: VeryHot, Args: []Arg{{"size", Words, ""}}, Doc: "A term is copied. The probe does not name the process."},
		{Name: "copy__object", State: Alive, Hot: Rare, Args: []Arg{{"pid", PID, "to which it is copied"}, {"size", Words, ""}}, Doc: "A term is copied to a process, in OTP 25 for match specifications and tracers only."},
		{Name: "gc_minor__start", State: Alive, Hot: Moderate, Args: need, Doc: "A minor garbage collection starts. It ends on the same thread.", Trace: "{trace, Pid, gc_minor_start, Info}"},
		{Name: "gc_minor__end", State: Alive, Hot: Moderate, Args: reclaimed, Doc: "A minor garbage collection ends. One for which the old heap has no room does nothing, and a major one follows.", Trace: "{trace, Pid, gc_minor_end, Info}", StandIn: StandIn{Doc: collectionEnd}},
		{Name: "gc_major__start", State: Alive, Hot: Moderate, Args: need, Doc: "A major garbage collection starts. It ends on the same thread.", Trace: "{trace, Pid, gc_major_start, Info}"},
		{Name: "gc_major__end", State: Alive, Hot: Moderate, Args: reclaimed, Doc: "A major garbage collection ends.", Trace: "{trace, Pid, gc_major_end, Info}", StandIn: StandIn{Doc: collectionEnd}},
		{Name: "process__heap_grow", State: Alive, Hot: Moderate, Args: resized, Doc: "The heap of a process grows."},
		{Name: "process__heap_shrink", State: Alive, Hot: Moderate, Args: resized, Doc: "The heap of a process shrinks."},
	}
}

func functions() []Probe {
	call := []Arg{{"pid", PID, ""}, {"mfa", MFA, ""}}
	deep := append(call[:2:2], Arg{"depth", Int, "of the stack"})
	return []Probe{
		{Name: "local__function__entry", State: Dead, Args: deep, Doc: "A function is called from its own module.", Trace: "{trace, Pid, call, MFA}"},
		{
			Name: "global__function__entry", State: Alive, Hot: VeryHot, Args: deep,
			Doc: "A function is called by apply or another dynamic call; other calls are not seen.", Trace: "{trace, Pid, call, MFA}",
			Harmless: []int{25},
			Hazard:   "while it is attached to, the VM crashes at the first such call of a function whose module is not loaded, as it takes what lies in front of a trampoline for the function's name",
		},
		{Name: "function__return", State: Absent, Args: deep, Doc: "A function returns.", Trace: "{trace, Pid, return_from, MFA, Result}"},
		{Name: "bif__entry", State: Absent, Args: call, Doc: "A built-in function is called.", Trace: "{trace, Pid, call, MFA}"},
		{Name: "bif__return", State: Absent, Args: call, Doc: "A built-in function returns.", Trace: "{trace, Pid, return_from, MFA, Result}"},
		{Name: "nif__entry", State: DirtyOnly, Hot: Moderate, Args: call, Doc: "A dirty NIF is called. File input and output show here, because the NIFs of prim_file are dirty.", Trace: "{trace, Pid, call, MFA}"},
		{Name: "nif__return", State: DirtyOnly, Hot: Moderate, Args: []Arg{call[0], {"mfa", MFA, "not the function that returns, but the one with which the process goes on: erts_internal:dirty_nif_finalizer/1 or, after an exception, dirty_nif_exception/1"}}, Doc: "A dirty NIF returns, on the thread that it was called on.", StandIn: StandIn{Doc: "It also reports functions whose process was killed meanwhile. It does not report the process."}, Trace: "{trace, Pid, return_from, MFA, Result}"},
	}
}

func processes() []Probe {
	pid := Arg{"pid", PID, ""}
	reason := Arg{"reason", Reason, ""}
	return []Probe{
		{Name: "process__spawn", State: Alive, Hot: Moderate, Args: []Arg{{"pid", PID, "of the new process"}, {"mfa", MFA, "erlang:apply/2 for a fun"}}, Doc: "A process is spawned. The probe does not report its parent.", StandIn: StandIn{Doc: "It reports a process before the process can run."}, Trace: "{trace, Pid, spawned, Parent, MFA}"},
		{Name: "process__exit", State: Alive, Hot: Moderate, Args: []Arg{pid, reason}, Doc: "A process exits.", StandIn: StandIn{Doc: "It does not report the reason."}, Trace: "{trace, Pid, exit, Reason}"},
		{Name: "process__exit_signal", State: Alive, Hot: Moderate, Args: []Arg{{"sender", PID, ""}, {"receiver", PID, ""}, reason}, Doc: "An exit signal reaches a local process."},
		{
			Name: "process__exit_signal__remote", State: Alive, Hot: Rare,
			Args: append([]Arg{{"sender", PID, ""}, {"node", Node, "of the receiver"}, {"receiver", PID, ""}, reason}, seqToken()...),
			Doc:  "An exit signal is sent to a process of another node.",
		},
		{Name: "process__scheduled", State: DirtyOnly, Hot: Moderate, Args: []Arg{pid, {"mfa", MFA, "where it goes on"}}, Doc: "A dirty scheduler starts to run a process. Ordinary schedulers do not fire it, so it gives no run times.", Trace: "{trace, Pid, in, MFA}"},
		{Name: "process__unscheduled", State: Alive, Hot: Hot, Args: []Arg{pid}, Doc: "A scheduler of any kind stops running a process.", Trace: "{trace, Pid, out, MFA}"},
		{Name: "process__hibernate", State: Alive, Hot: Moderate, Args: []Arg{pid, {"mfa", MFA, "where it goes on"}}, Doc: "A process hibernates. Since OTP 28 it stays silent for erlang:hibernate/0, by which gen_server and others hibernate."},
		{
			Name: "process__port_unblocked", State: Alive, Hot: Rare,
			Args:   []Arg{{"pid", PID, "cut to 16 bytes"}, {"port", Port, "cut to 16 bytes"}},
			Doc:    "A process that waited for a busy port may go on.",
			Hazard: "while it is attached to, the VM goes through the waiting processes in a loop that does not end, not even when the tracer has left, so that a scheduler spins for ever and the VM hangs",
		},
	}
}

// standIns returns the probes that the provider lacks and for which exported functions stand in.
// The places of the functions' arguments come from the sources of OTP 25, 27 and 29.
func standIns() []Probe {
	return []Probe{
		{
			Name: "process__in", State: Alive, Hot: Hot, Trace: "{trace, Pid, in, MFA}",
			Args:     []Arg{{"pid", PID, ""}},
			Doc:      "A scheduler of any kind starts to run a process. The return of erts_schedule stands in for it, as process__scheduled fires on dirty schedulers only.",
			Function: &Function{Symbol: "erts_schedule", Return: true, Anywhere: true, Params: []Param{{Number: 0, Deref: true}}},
		},
		{
			Name: "process__out", State: Alive, Hot: Hot, Trace: "{trace, Pid, out, MFA}",
			Args:     []Arg{{"pid", PID, "none at the first call of a scheduler"}, {"reductions", Int, "that it used since it was scheduled in; 4000 as a rule where it had to leave because they were used up. A dirty CPU scheduler counts 4 for each microsecond, a dirty I/O scheduler one in all"}},
			Doc:      "A scheduler of any kind stops running a process. The entry of erts_schedule stands in for it, because process__unscheduled does not report the reductions.",
			Function: &Function{Symbol: "erts_schedule", Anywhere: true, Params: []Param{{Number: 2, Deref: true}, {Number: 3}}},
		},
		{
			Name: "process__ready", State: Alive, Hot: Hot,
			Args:     []Arg{{"pid", PID, ""}},
			Doc:      "A process that waited in a receive is given to a scheduler: a message has come, or the time of the receive is over. It may have been given to a scheduler before. The entry of erts_schedule_process stands in for it, because no probe reports it.",
			Function: &Function{Symbol: "erts_schedule_process", Params: []Param{{Number: 1, Deref: true}}},
		},
		{
			Name: "process__suspend", State: Alive, Hot: Rare,
			Args:     []Arg{{"pid", PID, ""}},
			Doc:      "A process is suspended by what it calls: because a port is busy that it writes to or, for a moment, because the VM has to do something first. The entry of erts_suspend stands in for it, because the probes report a wait for a busy port only at its end, and do not report other suspensions.",
			Function: &Function{Symbol: "erts_suspend", Params: []Param{{Number: 1, Deref: true}}},
		},
		{
			Name: "process__resume", State: Alive, Hot: Rare,
			Args:     []Arg{{"pid", PID, ""}},
			Doc:      "A process that is suspended is resumed, unless it was suspended several times. The entry of erts_resume stands in for it, as no probe reports it.",
			Function: &Function{Symbol: "erts_resume", Params: []Param{{Number: 1, Deref: true}}},
		},
		{
			Name: "processes__resume", State: Alive, Hot: Rare,
			Args:     []Arg{{"pid", PID, "the first of them"}},
			Doc:      "The processes that waited for a port or another node are resumed. The entry of erts_resume_processes stands in for it, as no probe reports it.",
			Function: &Function{Symbol: "erts_resume_processes", Params: []Param{{Number: 1, Deref: true}}},
		},
		{
			Name: "process__suspend__by", State: Alive, Hot: Rare,
			Args:     []Arg{{"pid", PID, "that is to be suspended"}, {"by", PID, "that suspends it"}},
			Doc:      "A process calls erlang:suspend_process. The entry of erts_internal:suspend_process/2 stands in for it, as no probe reports it.",
			Subject:  "pid",
			Function: &Function{Symbol: "erts_internal_suspend_process_2", Params: []Param{{Number: 2, Deref: true}, {Number: 1, Deref: true}}},
		},
		{
			Name: "process__resume__by", State: Alive, Hot: Rare,
			Args:     []Arg{{"pid", PID, "that is to be resumed"}, {"by", PID, "that suspended it"}},
			Doc:      "A process calls erlang:resume_process. The entry of erlang:resume_process/1 stands in for it, as no probe reports it.",
			Subject:  "pid",
			Function: &Function{Symbol: "resume_process_1", Params: []Param{{Number: 2, Deref: true}, {Number: 1, Deref: true}}},
		},
		{
			Name: "message__send__alias", State: Alive, Hot: Hot,
			Args:  []Arg{{"sender", PID, ""}},
			Doc:   "A message is sent to an alias, such as the reply of a gen_server:call with a timeout. The entry of erts_proc_sig_send_to_alias stands in for it, as message__send stays silent then; on OTP 29 that of erts_proc_sig_send_altact_msg, which sends messages with priority too.",
			Trace: "{trace, Pid, send, Msg, To}",
			Function: &Function{
				Symbol: "erts_proc_sig_send_to_alias", Renamed: map[int]string{29: "erts_proc_sig_send_altact_msg"},
				Params: []Param{{Number: 2}},
			},
		},
		{
			Name: "process__monitor", State: Alive, Hot: Moderate,
			Args:     []Arg{{"type", Int, "of what is monitored: 0 for a process of this node, 1 for a port, 3 for a process of another node"}, {"pid", PID, "that monitors"}, {"target", PID, "that is monitored"}},
			Doc:      "A monitor is created. The entry of erts_monitor_create stands in for it, as no probe reports monitors.",
			Subject:  "pid",
			Function: &Function{Symbol: "erts_monitor_create", Params: []Param{{Number: 1}, {Number: 3}, {Number: 4}}},
		},
		{
			Name: "process__demonitor", State: Alive, Hot: Moderate,
			Args:     []Arg{{"pid", PID, "that monitored"}},
			Doc:      "A monitor of a process of this node is removed, by erlang:demonitor or because the monitoring process exits. The entry of erts_proc_sig_send_demonitor stands in for it, as no probe reports monitors.",
			Function: &Function{Symbol: "erts_proc_sig_send_demonitor", Params: []Param{{Number: 2}}},
		},
	}
}

func distribution() []Probe {
	self := Arg{"node", Node, "that the VM is"}
	port := Arg{"port", Port, ""}
	remote := Arg{"remote", Node, ""}
	return []Probe{
		{Name: "dist__monitor", State: Alive, Hot: Rare, Args: []Arg{self, {"what", Text, "nodeup or nodedown"}, {"remote", Node, ""}, {"type", Text, "visible or hidden"}, {"reason", Reason, ""}}, Doc: "Another node comes or goes."},
		{Name: "dist__port_busy", Subject: "pid", State: Alive, Hot: Rare, Args: []Arg{self, port, remote, {"pid", PID, "which is suspended"}}, Doc: "A process has to wait because the connection to another node is congested.", StandIn: StandIn{Doc: "It reports only the port."}},
		{Name: "dist__port_not_busy", State: Alive, Hot: Rare, Args: []Arg{self, port, remote}, Doc: "The connection to another node is free again. May fire several times for one dist__port_busy.", StandIn: StandIn{Doc: "It reports only the port."}},
		{Name: "dist__output", State: Alive, Hot: Moderate, Args: []Arg{self, port, remote, {"bytes", Bytes, ""}}, Doc: "Data is sent to another node by the output of a driver that has no outputv: never over TCP."},
		{Name: "dist__outputv", State: Alive, Hot: Moderate, Args: []Arg{self, port, remote, {"bytes", Bytes, "always 0"}}, Doc: "Data is sent to another node by the driver's outputv."},
	}
}

func ports() []Probe {
	pid := Arg{"pid", PID, ""}
	port := Arg{"port", Port, ""}
	name := Arg{"name", Text, "which the port was opened with"}
	return []Probe{
		{Name: "port__open", State: Alive, Hot: Rare, Args: []Arg{pid, name, port}, Doc: "A port is opened.", Trace: "{trace, Port, open, Pid, Driver}"},
		{Name: "port__command", State: Alive, Hot: Moderate, Args: []Arg{pid, port, name, {"command", Text, "command, close or connect"}}, Doc: "A port gets a command, most often data to write.", Trace: "{trace, Port, 'receive', Msg}"},
		{Name: "port__control", State: Alive, Hot: Moderate, Args: []Arg{pid, port, name, {"command", Int, "number that the driver defines"}}, Doc: "A port gets a control operation.", Trace: "{trace, Port, 'receive', Msg}"},
		{Name: "port__connect", State: Alive, Hot: Rare, Args: []Arg{pid, port, name, {"owner", PID, "new owner"}}, Doc: "A port gets another owner.", Trace: "{trace, Port, 'receive', Msg}"},
		{Name: "port__exit", State: Alive, Hot: Rare, Args: []Arg{pid, port, name, {"reason", Reason, "normal where it was closed"}}, Doc: "A port is closed or gets an exit signal.", Trace: "{trace, Port, closed, Reason}"},
		{Name: "port__busy", State: Alive, Hot: Rare, Args: []Arg{port}, Doc: "A port becomes busy: processes that write to it have to wait."},
		{Name: "port__not_busy", State: Alive, Hot: Rare, Args: []Arg{port}, Doc: "A port is not busy any more."},
	}
}

func drivers() []Probe {
	pid := Arg{"pid", PID, ""}
	driver := Arg{"driver", Text, "its name"}
	port := Arg{"port", Port, ""}
	name := Arg{"name", Text, "which the port was opened with"}
	bytes := Arg{"bytes", Bytes, ""}
	command := Arg{"command", Int, "number that the driver defines"}
	on := []Arg{pid, port, name}
	return []Probe{
		{Name: "driver__init", State: Alive, Hot: Rare, Args: []Arg{driver, {"major", Int, "version"}, {"minor", Int, "version"}, {"flags", Int, ""}}, Doc: "A driver is loaded."},
		{Name: "driver__finish", State: Alive, Hot: Rare, Args: []Arg{driver}, Doc: "A driver is unloaded."},
		{Name: "driver__start", State: Alive, Hot: Rare, Args: []Arg{pid, driver, port}, Doc: "A driver starts to serve a port."},
		{Name: "driver__stop", State: Alive, Hot: Rare, Args: []Arg{pid, driver, port}, Doc: "A driver stops to serve a port."},
		{Name: "driver__flush", State: Alive, Hot: Rare, Args: on, Doc: "The VM calls a driver because a port with unwritten data closes."},
		{Name: "driver__output", State: Alive, Hot: Moderate, Args: append(on[:3:3], bytes), Doc: "A driver gets data to write."},
		{Name: "driver__outputv", State: Alive, Hot: Moderate, Args: append(on[:3:3], bytes), Doc: "A driver gets data to write, in several pieces."},
		{Name: "driver__control", State: Alive, Hot: Moderate, Args: append(on[:3:3], command, bytes), Doc: "A driver gets a control operation."},
		{Name: "driver__call", State: Alive, Hot: Moderate, Args: append(on[:3:3], command, bytes), Doc: "A driver is called by erlang:port_call."},
		{Name: "driver__event", State: Absent, Args: on, Doc: "The VM calls a driver because of an event."},
		{Name: "driver__ready_input", State: Alive, Hot: Moderate, Args: on, Doc: "The VM calls a driver because there is data to read."},
		{Name: "driver__ready_output", State: Alive, Hot: Moderate, Args: on, Doc: "The VM calls a driver because it can write again."},
		{Name: "driver__ready_async", State: Alive, Hot: Moderate, Args: on, Doc: "The VM calls a driver because its job on another thread is done."},
		{Name: "driver__timeout", State: Alive, Hot: Moderate, Args: on, Doc: "The VM calls a driver because its timer expired."},
		{Name: "driver__process_exit", State: Alive, Hot: Rare, Args: on, Doc: "The VM calls a driver because a process that it monitors has exited."},
		{Name: "driver__stop_select", State: Alive, Hot: Rare, Args: []Arg{driver}, Doc: "The VM calls a driver because a file descriptor may be closed."},
	}
}

func user() []Probe {
	args := []Arg{{"pid", PID, "that fired it"}, {"tag", Text, "of the process, dyntrace:put_tag/1; null without one"}}
	for _, name := range []string{"i1", "i2", "i3", "i4"} {
		args = append(args, Arg{name, Int, "64 bits; 0 where none was given"})
	}
	for _, name := range []string{"s1", "s2", "s3", "s4"} {
		args = append(args, Arg{name, Text, "null where none was given, or more than 1024 bytes"})
	}
	return []Probe{
		{Name: UserTrace, Family: userTraces, State: Alive, Args: args, Doc: "Erlang code called dyntrace:pn with this number. The wrapper fires them for spans.", StandIn: StandIn{Doc: "The application beamscope calls ets:is_compiled_ms/1 for spans that programs in the kernel must see: those that are explained or grouped, or fail when their process exits. Nothing else is reported."}},
		{Name: "user_trace__i4s4", State: Alive, Args: args, Doc: "Erlang code called dyntrace:p. All callers share this probe, so numbered ones are better."},
		{Name: "user_trace__s1", State: Alive, Args: []Arg{{"message", Text, ""}}, Doc: "Erlang code called the deprecated dyntrace:user_trace_s1."},
		{Name: "trace", State: Absent, Args: []Arg{{"pid", PID, ""}, {"event", Text, ""}, {"state", Reason, "of the tracer"}, {"arg1", Reason, ""}, {"arg2", Reason, ""}}, Doc: "A trace message of erlang:trace, with dyntrace as its tracer."},
		{Name: "trace_seq", State: Absent, Args: []Arg{{"state", Reason, "of the tracer"}, {"label", Reason, ""}, {"info", Reason, ""}}, Doc: "A message of seq_trace, with dyntrace as its tracer."},
	}
}
