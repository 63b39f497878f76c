/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Detects times when the kernel took a scheduler thread off its processor and no program saw it.
 * The kernel counts these times. If a program did not run, or found no room, the counts differ.
 * Then the log gets a record of the time in question. */

#ifndef UNSEEN_BPF_H
#define UNSEEN_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "log.bpf.h"
#include "neighbour.bpf.h"
#include "task.bpf.h"
#include "thread.bpf.h"
#include "watch.bpf.h"

/* Why a thread does not run. The same as bpf.OffReason. */
enum off_reason {
	OFF_READY,   /* it is runnable, and waits for a processor */
	OFF_BLOCKED, /* it sleeps, in a system call or because of a page fault */
	OFF_STOPPED, /* a signal stopped it */
	OFF_TRACED,  /* a debugger stopped it */
	OFF_FROZEN,  /* its cgroup is frozen */
};

/* The time off the processor of a thread, the present one or else the last one. The programs at the
 * scheduler's tracepoints write it. Programs on the thread itself write sure_ns, and correct what
 * is wrong. */
struct off_cpu {
	__u64 since_ns; /* since when the thread has been off its processor; 0: it runs */
	__u64 ready_ns; /* since when it has been runnable; 0: it is not */
	__u64 sure_ns;  /* everything that the thread did up to this time is known */
	__u32 pid;      /* of the VM */
	__u32 switches; /* how often the kernel took it off a processor, up to the last time that a
			 * program saw */
	__u16 why;      /* why it does not run, an enum off_reason */
	__s16 syscall;  /* number of the system call that it is in; -1: none */
	__u32 unused;
};

/* By thread id. User space reads it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set when loading */
	__type(key, __u32);
	__type(value, struct off_cpu);
} off_cpus SEC(".maps");

/* Returns how often the kernel took a thread off a processor. The kernel counts before its
 * tracepoint. */
static __always_inline __u32 switches_of(struct task_struct *t)
{
	return t->nvcsw + t->nivcsw;
}

/* Logs that a thread did not run for an unknown part of the time up to now. off is what is known of
 * the thread, or NULL. A thread that was seen to go to sleep slept at least until the kernel woke
 * it. */
static __always_inline void log_unseen(__u64 now, __u32 pid, __u32 tid, const struct off_cpu *off)
{
	struct writing w;

	if (!is_watching(pid, now))
		return;
	w = begin_record(LOG_OFF_CPU, now, pid, 0);
	if (!w.to)
		return;
	w.to->tid = tid;
	w.to->flags = LOG_UNSEEN;
	if (off && off->since_ns) {
		w.to->size = off->why | (__u32)(__u16)off->syscall << 16;
		w.to->details[0] = off->since_ns;
		w.to->details[1] = off->ready_ns ?: off->since_ns;
	} else if (off) {
		w.to->details[0] = off->sure_ns;
		w.to->details[1] = off->sure_ns;
	}
	end_record(&w);
}

/* Adds an entry for a running thread that has none. Either the thread had been waiting since before
 * the observation began, or the map had no room for it. */
static __always_inline void add_off_cpu(__u64 now, __u32 pid, struct task_struct *runs)
{
	struct off_cpu off = {.sure_ns = now, .pid = pid, .switches = switches_of(runs), .syscall = -1};
	__u32 tid = runs->pid;

	log_unseen(now, pid, tid, NULL);
	bpf_map_update_elem(&off_cpus, &tid, &off, BPF_NOEXIST);
}

/* Attempts to compare the counts while the kernel switches the thread. */
#define CHECK_TRIES 4

/* Compares what is known of the current thread with the kernel's count, and logs the difference.
 * Programs call it before they log that a process starts or stops running on the thread, exits, or
 * starts or ends a span. Not static, like note_rank. */
__noinline int check_thread(__u32 pid)
{
	struct task_struct *current = (void *)bpf_get_current_task_btf();
	__u64 now = bpf_ktime_get_ns();
	__u32 tid = current->pid;
	struct off_cpu *off = bpf_map_lookup_elem(&off_cpus, &tid);

	if (!off) {
		if (vm_of(tid) == pid) /* otherwise it has been on its processor since before it was
				        * observed */
			add_off_cpu(now, pid, current);
		return 0;
	}
	if (off->pid != pid)
		return 0;
	for (int i = 0; i < CHECK_TRIES; i++) {
		struct off_cpu known = *off;
		__u32 counted = switches_of(current);

		if (known.switches == counted && !known.since_ns)
			break;
		if (__sync_val_compare_and_swap(&off->switches, known.switches, counted) != known.switches)
			continue; /* the thread was switched just now */
		*(volatile __u64 *)&off->since_ns = 0;
		log_unseen(now, pid, tid, &known);
		break;
	}
	*(volatile __u64 *)&off->sure_ns = now;
	return 0;
}

#endif
