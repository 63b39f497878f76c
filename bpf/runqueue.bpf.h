/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* The waits of VMs' threads for a processor: from when the operating system's scheduler
 * has a thread runnable until it runs it. */

#ifndef RUNQUEUE_BPF_H
#define RUNQUEUE_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "count.bpf.h"
#include "rule.bpf.h"
#include "task.bpf.h"
#include "vm.bpf.h"

/* The entry of the outcome. */
const volatile __u32 runqueue_outcome;

/* VMs that are observed, by their pids. User space writes it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u8);
} observed SEC(".maps");

/* The VM of each scheduler thread, by the thread's id in the initial pid namespace. It is
 * noted when the thread stops running, for then the kernel tells whose it is. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set when loading */
	__type(key, __u32);
	__type(value, __u32);
} threads SEC(".maps");

/* The VM of the thread that stops running; 0 where it is none. */
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

/* Makes the event of a thread; false where it is of no VM that is observed still. */
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

static __always_inline __u32 vm_of(__u32 tid)
{
	__u32 *pid = bpf_map_lookup_elem(&threads, &tid);

	return pid ? *pid : 0;
}

/* A thread that is running may be woken, before it gets to sleep: it does not wait. */
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

/* Arguments: whether it was preempted, the thread that stops running, the one that
 * begins. */
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
