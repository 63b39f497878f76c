/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Threads of the operating system, as the kernel sees them. */

#ifndef TASK_BPF_H
#define TASK_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* The members of the kernel's struct that we need. The loader fills in their offsets. */
struct task_struct {
	int pid;
	unsigned char on_cpu; /* 0 or 1; up to Linux 7.1 it is the first byte of an int */
	unsigned int __state;
	unsigned long jobctl;
	unsigned long nvcsw;  /* how often the thread left a processor because it slept */
	unsigned long nivcsw; /* how often it left a processor while it was runnable */
	char comm[16];
} __attribute__((preserve_access_index));

enum thread_kind { THREAD_OTHER, THREAD_SCHEDULER, THREAD_DIRTY };

/* Returns the kind of a thread by its name. Threads that run Erlang code are called 1_scheduler,
 * 1_dirty_cpu_sch and 1_dirty_io_sche up to OTP 25, and erts_sched_1, erts_dcpus_1 and erts_dios_1
 * since. */
static __always_inline enum thread_kind thread_kind(const char *comm)
{
	int at = 0;

	if (comm[0] == 'e' && comm[1] == 'r' && comm[2] == 't' && comm[3] == 's')
		at = 4;
	for (; at < 4 && comm[at] >= '0' && comm[at] <= '9'; at++)
		;
	if (!at || comm[at] != '_')
		return THREAD_OTHER;
	if (comm[at + 1] == 's')
		return THREAD_SCHEDULER;
	return comm[at + 1] == 'd' ? THREAD_DIRTY : THREAD_OTHER;
}

#endif
