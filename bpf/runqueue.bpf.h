/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* The waits of VMs' threads for a processor: from the time when a thread becomes runnable until it
 * runs. */

#ifndef RUNQUEUE_BPF_H
#define RUNQUEUE_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "count.bpf.h"
#include "rule.bpf.h"
#include "task.bpf.h"
#include "thread.bpf.h"
#include "vm.bpf.h"

/* The index of the outcome's entry. */
const volatile __u32 runqueue_outcome;

/* The pids of the observed VMs. User space writes it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u8);
} observed SEC(".maps");

/* Returns the VM of the scheduler thread that stops running, or 0 if no observed VM has it. */
static __always_inline __u32 vm_of_current(struct task_struct *current)
{
	__u32 tid = current->pid, *known = bpf_map_lookup_elem(&threads, &tid);
	__u32 pid;

	if (known)
		return *known;
	if (thread_kind(current->comm) == THREAD_OTHER)
		return 0;
	pid = current_pid();
	if (!pid || !bpf_map_lookup_elem(&observed, &pid))
		return 0;
	bpf_map_update_elem(&threads, &tid, &pid, BPF_ANY);
	return pid;
}

/* Prepares the event of a thread. Returns false if its VM is not observed, or if the outcome does
 * not count the event. */
static __always_inline bool thread_event(struct rule_event *e, __u32 pid, __u32 tid)
{
	if (!pid || !bpf_map_lookup_elem(&observed, &pid))
		return false;
	e->now = bpf_ktime_get_ns();
	e->index = runqueue_outcome;
	e->outcome = bpf_map_lookup_elem(&outcomes, &e->index);
	if (!e->outcome || e->now < e->outcome->since_ns)
		return false;
	e->key.pid = pid;
	e->key.number = e->outcome->rule;
	e->key.id = tid;
	count_traced(pid);
	e->current = e->now < e->outcome->until_ns;
	e->series = series_of(e->outcome, pid);
	e->row = row_at(e->now);
	return true;
}

/* A thread that is woken while it is still on its processor does not wait. */
static __always_inline int woken(struct task_struct *p)
{
	struct rule_event e = {};
	__u32 tid = p->pid;

	if (!p->on_cpu && thread_event(&e, vm_of(tid), tid))
		rule_start(&e);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int thread_wakeup(__u64 *ctx)
{
	return woken((struct task_struct *)ctx[0]);
}

/* Arguments: whether the thread was preempted, the thread that stops running, and the thread that
 * starts. */
SEC("tp_btf/sched_switch")
int thread_switch(__u64 *ctx)
{
	struct task_struct *from = (struct task_struct *)ctx[1], *to = (struct task_struct *)ctx[2];
	__u32 from_vm = vm_of_current(from), to_tid = to->pid;
	struct rule_event e = {};

	if (from_vm && (ctx[0] || !from->__state) && thread_event(&e, from_vm, from->pid))
		rule_start(&e);
	if (thread_event(&e, vm_of(to_tid), to_tid))
		rule_end(&e);
	return 0;
}

#endif
