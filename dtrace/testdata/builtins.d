/* Run it with: dtrace -s SCRIPT -p 4711 */

#pragma D option quiet
#pragma D option switchrate=10hz

BEGIN { printf("beamscope events 1\n"); }

tick-100ms { printf("t %d\n", timestamp); }

erlang$target:::gc_minor-end
{
	printf("e gc %d %d %d =%d\n", pid, tid, timestamp, (uint32_t)arg1);
}

erlang$target:::gc_major-end
{
	printf("e gc %d %d %d =%d\n", pid, tid, timestamp, (uint32_t)arg1);
}

erlang$target:::gc_minor-start
{
	printf("s gc %d %d %d\n", pid, tid, timestamp);
}

erlang$target:::gc_major-start
{
	printf("s gc %d %d %d\n", pid, tid, timestamp);
}

erlang$target:::gc_minor-end
{
	printf("e gc_minor %d %d %d =%d\n", pid, tid, timestamp, (uint32_t)arg1);
}

erlang$target:::gc_minor-start
{
	printf("s gc_minor %d %d %d\n", pid, tid, timestamp);
}

erlang$target:::gc_major-end
{
	printf("e gc_major %d %d %d =%d\n", pid, tid, timestamp, (uint32_t)arg1);
}

erlang$target:::gc_major-start
{
	printf("s gc_major %d %d %d\n", pid, tid, timestamp);
}

erlang$target:::message-queued
/ ((int32_t)arg3 != 0 || (int32_t)arg5 != 0) /
{
	printf("e hop %d %s %d #%d.%d\n", pid, copyinstr(arg0), timestamp, (int32_t)arg3, (int32_t)arg5);
}

erlang$target:::message-queued
/ (int32_t)arg3 == 0 && (int32_t)arg5 == 0 /
{
	printf("e hop %d %s %d\n", pid, copyinstr(arg0), timestamp);
}

erlang$target:::message-receive
{
	printf("y hop %d %s %d\n", pid, copyinstr(arg0), timestamp);
}

erlang$target:::message-send
/ substr(copyinstr(arg1), 0, 3) == "<0." && ((int32_t)arg3 != 0 || (int32_t)arg5 != 0) /
{
	printf("s hop %d %s %d #%d.%d\n", pid, copyinstr(arg1), timestamp, (int32_t)arg3, (int32_t)arg5);
}

erlang$target:::message-send
/ substr(copyinstr(arg1), 0, 3) == "<0." && (int32_t)arg3 == 0 && (int32_t)arg5 == 0 /
{
	printf("s hop %d %s %d\n", pid, copyinstr(arg1), timestamp);
}

erlang$target:::message-receive
/ ((int32_t)arg3 != 0 || (int32_t)arg5 != 0) /
{
	printf("e mailbox %d %s %d #%d.%d\n", pid, copyinstr(arg0), timestamp, (int32_t)arg3, (int32_t)arg5);
}

erlang$target:::message-receive
/ (int32_t)arg3 == 0 && (int32_t)arg5 == 0 /
{
	printf("e mailbox %d %s %d\n", pid, copyinstr(arg0), timestamp);
}

erlang$target:::message-queued
/ ((int32_t)arg3 != 0 || (int32_t)arg5 != 0) /
{
	printf("s mailbox %d %s %d #%d.%d\n", pid, copyinstr(arg0), timestamp, (int32_t)arg3, (int32_t)arg5);
}

erlang$target:::message-queued
/ (int32_t)arg3 == 0 && (int32_t)arg5 == 0 /
{
	printf("s mailbox %d %s %d\n", pid, copyinstr(arg0), timestamp);
}

erlang$target:::message-receive
/ ((int32_t)arg3 != 0 || (int32_t)arg5 != 0) /
{
	printf("e message %d %s %d #%d.%d\n", pid, copyinstr(arg0), timestamp, (int32_t)arg3, (int32_t)arg5);
}

erlang$target:::message-receive
/ (int32_t)arg3 == 0 && (int32_t)arg5 == 0 /
{
	printf("e message %d %s %d\n", pid, copyinstr(arg0), timestamp);
}

erlang$target:::message-queued
/ ((int32_t)arg3 != 0 || (int32_t)arg5 != 0) /
{
	printf("v message %d %s %d #%d.%d\n", pid, copyinstr(arg0), timestamp, (int32_t)arg3, (int32_t)arg5);
}

erlang$target:::message-queued
/ (int32_t)arg3 == 0 && (int32_t)arg5 == 0 /
{
	printf("v message %d %s %d\n", pid, copyinstr(arg0), timestamp);
}

erlang$target:::message-send
/ substr(copyinstr(arg1), 0, 3) == "<0." && ((int32_t)arg3 != 0 || (int32_t)arg5 != 0) /
{
	printf("s message %d %s %d #%d.%d\n", pid, copyinstr(arg1), timestamp, (int32_t)arg3, (int32_t)arg5);
}

erlang$target:::message-send
/ substr(copyinstr(arg1), 0, 3) == "<0." && (int32_t)arg3 == 0 && (int32_t)arg5 == 0 /
{
	printf("s message %d %s %d\n", pid, copyinstr(arg1), timestamp);
}

pid$target::erts_proc_sig_send_demonitor:entry
{
	this->pid = arg1;
}

pid$target::erts_proc_sig_send_demonitor:entry
/ (this->pid & 15) == 3 /
{
	printf("e call %d <0.%d.%d> %d\n", pid, (this->pid >> 4 & 32767), (this->pid >> 19 & 8191), timestamp);
}

erlang$target:::message-send
/ substr(copyinstr(arg1), 0, 3) == "<0." /
{
	printf("s call %d %s %d %s\n", pid, copyinstr(arg0), timestamp, copyinstr(arg1));
}

pid$target::erts_monitor_create:entry
{
	this->pid = arg2;
	this->target = arg3;
}

pid$target::erts_monitor_create:entry
/ (this->pid & 15) == 3 && (this->target & 15) == 3 && (int32_t)arg0 == 0 /
{
	printf("a call %d <0.%d.%d> <0.%d.%d> %d\n", pid, (this->pid >> 4 & 32767), (this->pid >> 19 & 8191), (this->target >> 4 & 32767), (this->target >> 19 & 8191), timestamp);
}

erlang$target:::process-exit
{
	printf("e lifetime %d %s %d\n", pid, copyinstr(arg0), timestamp);
}

erlang$target:::process-spawn
{
	printf("s lifetime %d %s %d\n", pid, copyinstr(arg0), timestamp);
}

erlang$target:::nif-return
{
	printf("e dirty_nif %d %d %d\n", pid, tid, timestamp);
}

erlang$target:::nif-entry
{
	printf("s dirty_nif %d %d %d\n", pid, tid, timestamp);
}

erlang$target:::nif-return
{
	printf("e file_io %d %d %d\n", pid, tid, timestamp);
}

erlang$target:::nif-entry
/ substr(copyinstr(arg1), 0, 10) == "prim_file:" /
{
	printf("s file_io %d %d %d\n", pid, tid, timestamp);
}

erlang$target:::port-not_busy
{
	printf("e port_busy %d %s %d\n", pid, copyinstr(arg0), timestamp);
}

erlang$target:::port-busy
{
	printf("s port_busy %d %s %d\n", pid, copyinstr(arg0), timestamp);
}

erlang$target:::dist-port_not_busy
{
	printf("e dist_busy %d %s %d\n", pid, copyinstr(arg1), timestamp);
}

erlang$target:::dist-port_busy
{
	printf("s dist_busy %d %s %d\n", pid, copyinstr(arg1), timestamp);
}

pid$target::erts_schedule:entry
{
	this->pid = arg1 != 0 ? *(uint64_t *)copyin(arg1, sizeof (uint64_t)) : 0;
}

pid$target::erts_schedule:entry
/ (this->pid & 15) == 3 /
{
	printf("e run %d <0.%d.%d> %d\n", pid, (this->pid >> 4 & 32767), (this->pid >> 19 & 8191), timestamp);
}

pid$target::erts_schedule:return
{
	this->pid = arg1 != 0 ? *(uint64_t *)copyin(arg1, sizeof (uint64_t)) : 0;
}

pid$target::erts_schedule:return
/ (this->pid & 15) == 3 /
{
	printf("s run %d <0.%d.%d> %d\n", pid, (this->pid >> 4 & 32767), (this->pid >> 19 & 8191), timestamp);
}

pid$target::erts_schedule:return
/ (this->pid & 15) == 3 /
{
	printf("e run_wait %d <0.%d.%d> %d\n", pid, (this->pid >> 4 & 32767), (this->pid >> 19 & 8191), timestamp);
}

pid$target::erts_schedule:entry
/ (this->pid & 15) == 3 && (int32_t)arg2 >= 4000 /
{
	printf("s run_wait %d <0.%d.%d> %d\n", pid, (this->pid >> 4 & 32767), (this->pid >> 19 & 8191), timestamp);
}
