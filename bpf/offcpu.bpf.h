/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* When VMs' scheduler threads do not run, for the log: they sleep or are stopped, and wait
 * for a processor. */

#ifndef OFFCPU_BPF_H
#define OFFCPU_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "log.bpf.h"
#include "neighbour.bpf.h"
#include "runqueue.bpf.h"
#include "watch.bpf.h"

/* Shorter times explain nothing. In ns. */
#define OFF_CPU_LEAST 10000

/* Why a thread does not run. As bpf.OffReason. */
enum off_reason {
	OFF_READY,   /* it could: it waits for a processor */
	OFF_BLOCKED, /* it sleeps, in a system call or because of a page that is not there */
	OFF_STOPPED, /* by a signal */
	OFF_TRACED,  /* by a debugger */
	OFF_FROZEN,  /* with its cgroup */
};

/* States of struct task_struct, include/linux/sched.h, and a bit of its jobctl, sched/jobctl.h. */
#define TASK_STOPPED 0x4
#define TASK_TRACED 0x8
#define TASK_FROZEN 0x8000
#define JOBCTL_TRAP_FREEZE (1UL << 23)

/* What a thread does that does not run, or what the last one was. */
struct off_cpu {
	__u64 since_ns; /* 0: it runs */
	__u64 ready_ns; /* since when it could run, 0: it cannot */
	__u32 pid;      /* of the VM */
	__u16 why;      /* it cannot, an enum off_reason */
	__s16 syscall;  /* the number of the system call that it is in, -1: none */
};

/* By the ids of the threads. User space reads it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set when loading */
	__type(key, __u32);
	__type(value, struct off_cpu);
} off_cpus SEC(".maps");

static __always_inline bool is_observed(__u32 pid)
{
	return pid && bpf_map_lookup_elem(&observed, &pid);
}

/* What we need of the kernel's structs: one of each architecture. */
struct pt_regs___x86 {
	unsigned long orig_ax;
} __attribute__((preserve_access_index));

struct pt_regs___arm64 {
	int syscallno;
} __attribute__((preserve_access_index));

/* The system call that the current thread is in, -1: none. */
static __always_inline __s16 current_syscall(void)
{
	void *regs = (void *)bpf_task_pt_regs((void *)bpf_get_current_task_btf());
#ifdef __TARGET_ARCH_x86
	long number = ((struct pt_regs___x86 *)regs)->orig_ax;
#else
	long number = ((struct pt_regs___arm64 *)regs)->syscallno;
#endif
	return number < 0 || number > 0x7fff ? -1 : number;
}

/* Why the current thread stops running, which is in such a state. */
static __always_inline enum off_reason off_reason(struct task_struct *current, __u32 state)
{
	if (!state)
		return OFF_READY;
	if (state & TASK_STOPPED)
		return OFF_STOPPED;
	if (state & TASK_TRACED)
		return OFF_TRACED;
	if (state & TASK_FROZEN || current->jobctl & JOBCTL_TRAP_FREEZE)
		return OFF_FROZEN;
	return OFF_BLOCKED;
}

/* The current thread, of a VM, stops running. Whether anybody is watched by then is seen
 * at the end. */
static __always_inline void off_cpu_starts(struct task_struct *current, __u32 pid, __u32 state)
{
	__u64 now = bpf_ktime_get_ns();
	struct off_cpu off = {.since_ns = now, .pid = pid, .why = off_reason(current, state), .syscall = -1};
	__u32 tid = current->pid;

	if (off.why == OFF_READY)
		off.ready_ns = now;
	else
		off.syscall = current_syscall();
	bpf_map_update_elem(&off_cpus, &tid, &off, BPF_ANY);
}

/* Whether it is known that a thread runs no process. */
static __always_inline bool is_idle(__u32 pid, __u32 tid)
{
	struct runner *r = bpf_map_lookup_elem(&runners, &tid);

	return r && r->pid == pid && !r->process && r->gaps == watching_gaps(pid);
}

/* Logs that a thread did not run until now. Where it sleeps and runs no process, only its
 * wait for a processor matters. */
static __always_inline void log_off_cpu(__u64 now, __u32 pid, __u32 tid, const struct off_cpu *off)
{
	struct off_cpu told = *off;
	struct writing w;

	if (told.why == OFF_BLOCKED && is_idle(pid, tid)) {
		told.why = OFF_READY;
		told.since_ns = told.ready_ns;
	}
	if (!told.since_ns || now < told.since_ns + OFF_CPU_LEAST)
		return;
	w = begin_record(LOG_OFF_CPU, now, pid, 0);
	if (!w.to)
		return;
	w.to->tid = tid;
	w.to->size = told.why | (__u32)(__u16)told.syscall << 16;
	w.to->details[0] = told.since_ns;
	w.to->details[1] = told.ready_ns;
	end_record(&w);
}

static __always_inline void off_cpu_ends(__u32 pid, __u32 tid)
{
	struct off_cpu *off = bpf_map_lookup_elem(&off_cpus, &tid);
	__u64 now = bpf_ktime_get_ns();

	if (!off || !off->since_ns)
		return;
	if (is_watching(pid, now))
		log_off_cpu(now, pid, tid, off);
	off->since_ns = 0;
}

/* A thread that is running may be woken, before it gets to sleep: it goes on. */
SEC("tp_btf/sched_wakeup")
int detail_wakeup(__u64 *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];
	__u32 tid = p->pid, vm = vm_of(tid);
	struct off_cpu *off;

	if (p->on_cpu || !is_observed(vm))
		return 0;
	count_traced(vm);
	off = bpf_map_lookup_elem(&off_cpus, &tid);
	if (off && off->since_ns && !off->ready_ns)
		off->ready_ns = bpf_ktime_get_ns();
	return 0;
}

/* Arguments: whether it was preempted, the thread that stops running, the one that
 * begins, and the state of the first. */
SEC("tp_btf/sched_switch")
int detail_switch(__u64 *ctx)
{
	struct task_struct *from = (struct task_struct *)ctx[1], *to = (struct task_struct *)ctx[2];
	__u32 from_vm = vm_of_current(from), to_tid = to->pid, to_vm = vm_of(to_tid);

	if (is_observed(from_vm)) {
		count_traced(from_vm);
		off_cpu_starts(from, from_vm, ctx[0] ? 0 : ctx[3]);
	}
	if (is_observed(to_vm)) {
		count_traced(to_vm);
		off_cpu_ends(to_vm, to_tid);
	}
	return 0;
}

#endif
