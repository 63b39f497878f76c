/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Waits of VMs' scheduler threads for a processor, for the log. */

#ifndef OSWAIT_BPF_H
#define OSWAIT_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "log.bpf.h"
#include "runqueue.bpf.h"
#include "watch.bpf.h"

/* Shorter ones explain nothing. In ns. */
#define OS_WAIT_LEAST 10000

/* Since when threads wait, by their ids; 0: they do not. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set when loading */
	__type(key, __u32);
	__type(value, __u64);
} os_waits SEC(".maps");

static __always_inline bool is_observed(__u32 pid)
{
	return pid && bpf_map_lookup_elem(&observed, &pid);
}

/* Whether anybody is watched by then is seen at the end. */
static __always_inline void os_wait_starts(__u32 pid, __u32 tid)
{
	__u64 now = bpf_ktime_get_ns();

	if (!is_observed(pid))
		return;
	count_traced();
	bpf_map_update_elem(&os_waits, &tid, &now, BPF_ANY);
}

static __always_inline void os_wait_ends(__u32 pid, __u32 tid)
{
	__u64 now = bpf_ktime_get_ns(), from;
	struct writing w;
	__u64 *since;

	if (!is_observed(pid))
		return;
	count_traced();
	since = bpf_map_lookup_elem(&os_waits, &tid);
	from = since ? *since : 0;
	if (!from)
		return;
	*since = 0;
	if (now < from + OS_WAIT_LEAST || !is_watching(pid, now))
		return;
	w = begin_record(LOG_OS_WAIT, now, pid, 0);
	if (!w.to)
		return;
	w.to->tid = tid;
	w.to->details[0] = from;
	w.to->details[1] = now;
	end_record(&w);
}

/* A thread that is running may be woken, before it gets to sleep: it does not wait. */
SEC("tp_btf/sched_wakeup")
int detail_wakeup(__u64 *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];
	__u32 tid = p->pid;

	if (!p->on_cpu)
		os_wait_starts(vm_of(tid), tid);
	return 0;
}

/* Arguments: whether it was preempted, the thread that stops running, the one that
 * begins. */
SEC("tp_btf/sched_switch")
int detail_switch(__u64 *ctx)
{
	struct task_struct *from = (struct task_struct *)ctx[1], *to = (struct task_struct *)ctx[2];
	__u32 from_vm = vm_of_current(from), to_tid = to->pid;

	if (from_vm && (ctx[0] || !from->__state))
		os_wait_starts(from_vm, from->pid);
	os_wait_ends(vm_of(to_tid), to_tid);
	return 0;
}

#endif
