/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Processor time of the slices in which scheduler threads run processes. A thread that runs a
 * process may still sleep, or wait for a processor: this time is subtracted. */

#ifndef SLICE_BPF_H
#define SLICE_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "count.bpf.h"
#include "task.bpf.h"

/* A scheduler thread that has run a process. */
struct slice_time {
	__u64 off_ns;   /* time off the processors since the thread was first seen */
	__u64 since_ns; /* since when it is off the processors; 0: it is on one */
	__u64 begin_ns; /* off_ns at the beginning of its slice */
	__u32 dirty;    /* it is a dirty scheduler */
	__u32 pid;      /* of its VM */
};

/* By thread id. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set when loading */
	__type(key, __u32);
	__type(value, struct slice_time);
} slices SEC(".maps");

static __always_inline bool is_dirty(void)
{
	char comm[16];

	return !bpf_get_current_comm(comm, sizeof(comm)) && thread_kind(comm) == THREAD_DIRTY;
}

/* Notes that the current thread, of a VM, starts to run a process. */
static __always_inline void begin_slice(__u32 pid)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct slice_time *s = bpf_map_lookup_elem(&slices, &tid), first = {};

	if (s) {
		s->begin_ns = s->off_ns;
		return;
	}
	first.dirty = is_dirty();
	first.pid = pid;
	bpf_map_update_elem(&slices, &tid, &first, BPF_NOEXIST);
}

/* Ends the slice of the current thread, which lasted delay. Returns how long the thread was on a
 * processor, or 0 if the thread is unknown. */
static __always_inline __u64 end_slice(__u64 delay, bool *dirty)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct slice_time *s = bpf_map_lookup_elem(&slices, &tid);
	__u64 off;

	if (!s)
		return 0;
	*dirty = s->dirty;
	off = s->off_ns - s->begin_ns;
	return off < delay ? delay - off : 0;
}

/* Arguments: whether the thread was preempted, the thread that stops running, and the thread that
 * starts. */
SEC("tp_btf/sched_switch")
int slice_switch(__u64 *ctx)
{
	struct task_struct *from = (struct task_struct *)ctx[1], *to = (struct task_struct *)ctx[2];
	__u32 from_tid = from->pid, to_tid = to->pid;
	struct slice_time *stops, *begins;

	stops = bpf_map_lookup_elem(&slices, &from_tid);
	if (stops) {
		count_traced(stops->pid);
		stops->since_ns = bpf_ktime_get_ns();
	}
	begins = bpf_map_lookup_elem(&slices, &to_tid);
	if (!begins || !begins->since_ns)
		return 0;
	if (!stops)
		count_traced(begins->pid);
	begins->off_ns += bpf_ktime_get_ns() - begins->since_ns;
	begins->since_ns = 0;
	return 0;
}

#endif
