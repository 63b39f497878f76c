/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Logs the times in which VMs' scheduler threads do not run: they sleep, are stopped, or wait for a
 * processor. */

#ifndef OFFCPU_BPF_H
#define OFFCPU_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "log.bpf.h"
#include "neighbour.bpf.h"
#include "runqueue.bpf.h"
#include "unseen.bpf.h"
#include "watch.bpf.h"

/* Shorter times are not logged, because they explain nothing. In ns. */
#define OFF_CPU_LEAST 10000

/* Bits of the state of struct task_struct (include/linux/sched.h), and one of its jobctl
 * (linux/sched/jobctl.h). */
#define TASK_STOPPED 0x4
#define TASK_TRACED 0x8
#define TASK_FROZEN 0x8000
#define JOBCTL_TRAP_FREEZE (1UL << 23)

static __always_inline bool is_observed(__u32 pid)
{
	return pid && bpf_map_lookup_elem(&observed, &pid);
}

/* The members that we need of the kernel's structs, one for each architecture. */
struct pt_regs___x86 {
	unsigned long orig_ax;
} __attribute__((preserve_access_index));

struct pt_regs___arm64 {
	int syscallno;
} __attribute__((preserve_access_index));

/* Returns the number of the system call that the current thread is in, or -1 if there is none. */
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

/* Returns why the current thread, which is in this state, stops running. */
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

/* Notes that the current thread, of a VM, stops running. Whether any process is watched is checked
 * only when it runs again. */
static __always_inline void off_cpu_starts(struct task_struct *current, __u32 pid, __u32 state)
{
	struct off_cpu off = {.since_ns = bpf_ktime_get_ns(), .pid = pid, .why = off_reason(current, state), .syscall = -1};
	__u32 tid = current->pid;
	struct off_cpu *last = bpf_map_lookup_elem(&off_cpus, &tid);

	off.sure_ns = off.since_ns;
	off.switches = switches_of(current);
	if (off.why == OFF_READY)
		off.ready_ns = off.since_ns;
	else
		off.syscall = current_syscall();
	if (!last) {
		bpf_map_update_elem(&off_cpus, &tid, &off, BPF_ANY);
		return;
	}
	if (last->pid == pid && (last->since_ns || last->switches + 1 != off.switches))
		log_unseen(off.since_ns, pid, tid, last);
	*last = off; /* in place: check_thread may be about to write sure_ns */
}

/* Reports whether a thread is known to run no process. */
static __always_inline bool is_idle(__u32 pid, __u32 tid)
{
	struct runner *r = bpf_map_lookup_elem(&runners, &tid);

	return r && r->pid == pid && !r->process && r->gaps == watching_gaps(pid);
}

/* Logs that a thread did not run until now. If it slept and had no process to run, only its wait
 * for a processor matters. */
static __always_inline void log_off_cpu(__u64 now, __u32 pid, __u32 tid, const struct off_cpu *off)
{
	struct off_cpu entry = *off;
	struct writing w;

	if (entry.why == OFF_BLOCKED && is_idle(pid, tid)) {
		entry.why = OFF_READY;
		entry.since_ns = entry.ready_ns;
	}
	if (!entry.since_ns || now < entry.since_ns + OFF_CPU_LEAST)
		return;
	if (!entry.ready_ns) { /* the thread was woken before it had left its processor, which
			        * detail_wakeup ignores */
		log_unseen(now, pid, tid, off);
		return;
	}
	w = begin_record(LOG_OFF_CPU, now, pid, 0);
	if (!w.to)
		return;
	w.to->tid = tid;
	w.to->size = entry.why | (__u32)(__u16)entry.syscall << 16;
	w.to->details[0] = entry.since_ns;
	w.to->details[1] = entry.ready_ns;
	end_record(&w);
}

/* Notes that a thread of a VM starts to run. */
static __always_inline void off_cpu_ends(struct task_struct *next, __u32 pid)
{
	__u32 tid = next->pid, switches = switches_of(next);
	struct off_cpu *off = bpf_map_lookup_elem(&off_cpus, &tid);
	__u64 now = bpf_ktime_get_ns();

	if (!off) {
		add_off_cpu(now, pid, next);
		return;
	}
	if (!off->since_ns || off->switches != switches)
		log_unseen(now, pid, tid, off);
	else if (is_watching(pid, now))
		log_off_cpu(now, pid, tid, off);
	off->since_ns = 0;
	off->sure_ns = now;
	off->switches = switches;
	off->pid = pid;
}

/* A thread that is woken while it is still on its processor just continues. */
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

/* Arguments: whether the thread was preempted, the thread that stops running, the thread that
 * starts, and the state of the first. */
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
		off_cpu_ends(to, to_vm);
	}
	return 0;
}

#endif
