/* Run it with: dtrace -s SCRIPT -p 4711 */

#pragma D option quiet
#pragma D option switchrate=10hz

BEGIN { printf("beamscope events 1\n"); }

tick-100ms { printf("t %d\n", timestamp); }

erlang$target:::message-receive
/ (((int32_t)arg3 == (-9223372036854775807 - 1) || (int32_t)arg5 != 3) && !((uint32_t)arg1 < 4 || copyinstr(arg0) == "<0.12.3>")) && ((int32_t)arg3 != 0 || (int32_t)arg5 != 0) /
{
	printf("e conditions %d %s %d #%d.%d\n", pid, copyinstr(arg0), timestamp, (int32_t)arg3, (int32_t)arg5);
}

erlang$target:::message-receive
/ (((int32_t)arg3 == (-9223372036854775807 - 1) || (int32_t)arg5 != 3) && !((uint32_t)arg1 < 4 || copyinstr(arg0) == "<0.12.3>")) && (int32_t)arg3 == 0 && (int32_t)arg5 == 0 /
{
	printf("e conditions %d %s %d\n", pid, copyinstr(arg0), timestamp);
}

erlang$target:::process-exit
/ (copyinstr(arg1) == "a \"quoted\" \\ 100% *" || !(substr(copyinstr(arg1), 0, 1) == "{")) /
{
	printf("e conditions %d %s %d\n", pid, copyinstr(arg0), timestamp);
}

pid$target::erts_schedule:return
{
	this->pid = arg1 != 0 ? *(uint64_t *)copyin(arg1, sizeof (uint64_t)) : 0;
}

pid$target::erts_schedule:return
/ (this->pid & 15) == 3 && (((this->pid >> 4 & 32767) == 8 || ((this->pid >> 4 & 32767) >= 80 && (this->pid >> 4 & 32767) < 90) || ((this->pid >> 4 & 32767) >= 800 && (this->pid >> 4 & 32767) < 900) || ((this->pid >> 4 & 32767) >= 8000 && (this->pid >> 4 & 32767) < 9000)) || ((this->pid >> 4 & 32767) == 12 && (this->pid >> 19 & 8191) == 3) || !((this->pid >> 4 & 32767) == 12)) /
{
	printf("e conditions %d <0.%d.%d> %d\n", pid, (this->pid >> 4 & 32767), (this->pid >> 19 & 8191), timestamp);
}

pid$target::erts_schedule:entry
{
	this->pid = arg1 != 0 ? *(uint64_t *)copyin(arg1, sizeof (uint64_t)) : 0;
}

pid$target::erts_schedule:entry
/ (this->pid & 15) == 3 && (0 == 0 && !(0 != 0) && (int32_t)arg2 >= 4000) /
{
	printf("e conditions %d <0.%d.%d> %d\n", pid, (this->pid >> 4 & 32767), (this->pid >> 19 & 8191), timestamp);
}

erlang$target:::message-receive
/ (((int32_t)arg3 == (-9223372036854775807 - 1) || (int32_t)arg5 != 3) && !((uint32_t)arg1 < 4 || copyinstr(arg0) == "<0.12.3>")) && ((int32_t)arg3 != 0 || (int32_t)arg5 != 0) /
{
	printf("s conditions %d %s %d #%d.%d\n", pid, copyinstr(arg0), timestamp, (int32_t)arg3, (int32_t)arg5);
}

erlang$target:::message-receive
/ (((int32_t)arg3 == (-9223372036854775807 - 1) || (int32_t)arg5 != 3) && !((uint32_t)arg1 < 4 || copyinstr(arg0) == "<0.12.3>")) && (int32_t)arg3 == 0 && (int32_t)arg5 == 0 /
{
	printf("s conditions %d %s %d\n", pid, copyinstr(arg0), timestamp);
}

erlang$target:::process-exit
/ (copyinstr(arg1) == "a \"quoted\" \\ 100% *" || !(substr(copyinstr(arg1), 0, 1) == "{")) /
{
	printf("s conditions %d %s %d\n", pid, copyinstr(arg0), timestamp);
}

pid$target::erts_schedule:return
/ (this->pid & 15) == 3 && (((this->pid >> 4 & 32767) == 8 || ((this->pid >> 4 & 32767) >= 80 && (this->pid >> 4 & 32767) < 90) || ((this->pid >> 4 & 32767) >= 800 && (this->pid >> 4 & 32767) < 900) || ((this->pid >> 4 & 32767) >= 8000 && (this->pid >> 4 & 32767) < 9000)) || ((this->pid >> 4 & 32767) == 12 && (this->pid >> 19 & 8191) == 3) || !((this->pid >> 4 & 32767) == 12)) /
{
	printf("s conditions %d <0.%d.%d> %d\n", pid, (this->pid >> 4 & 32767), (this->pid >> 19 & 8191), timestamp);
}

pid$target::erts_schedule:entry
/ (this->pid & 15) == 3 && (0 == 0 && !(0 != 0) && (int32_t)arg2 >= 4000) /
{
	printf("s conditions %d <0.%d.%d> %d\n", pid, (this->pid >> 4 & 32767), (this->pid >> 19 & 8191), timestamp);
}
