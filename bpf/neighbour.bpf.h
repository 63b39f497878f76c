/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* The processes that ran lately on each scheduler thread, as far as any process was watched. The
 * log shows which of them kept a watched process from running there. */

#ifndef NEIGHBOUR_BPF_H
#define NEIGHBOUR_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "log.bpf.h"
#include "watch.bpf.h"

/* Consecutive slices of one process count as one if the gap between them is shorter than this, in
 * ns, or if all longer gaps are a small part of the whole. A process that often runs out of
 * reductions stops and continues every few microseconds, and the machine often interrupts the
 * thread in between. */
#define SLICE_GAP 50000
#define SLICE_GAPS 8 /* the small part, as its inverse */

/* Shorter slices kept no process waiting. In ns. */
#define SLICE_LEAST 200000

/* How many slices are remembered, a power of two. */
#define SLICES 8

struct slice {
	__u64 process;
	__u64 from_ns;
	__u64 to_ns;
	__u64 gaps_ns; /* sum of the gaps that are at least SLICE_GAP long */
};

struct runner {
	__u64 process; /* the process that runs; 0: none, or unknown */
	__u64 address; /* of its struct process */
	__u64 from_ns;
	__u64 gaps;    /* gaps of watching when a process last started or stopped running */
	__u32 last;    /* number of the last slice */
	__u32 pid;     /* of the VM: thread ids are reused */
	struct slice slices[SLICES];
};

/* By thread id. Only programs on the thread write its entry. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set when loading */
	__type(key, __u32);
	__type(value, struct runner);
} runners SEC(".maps");

/* The initial value of a runner. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct runner);
} new_runner SEC(".maps");

static __always_inline __u64 watching_gaps(__u32 pid)
{
	struct watching *all = watching_of(pid);

	return all ? *(volatile __u64 *)&all->gaps : 0;
}

/* Returns the entry of the current thread, which belongs to this VM. */
static __always_inline struct runner *this_runner(__u32 pid)
{
	__u32 tid = bpf_get_current_pid_tgid(), zero = 0;
	struct runner *r = bpf_map_lookup_elem(&runners, &tid), *empty;

	if (r && r->pid == pid)
		return r;
	empty = bpf_map_lookup_elem(&new_runner, &zero);
	if (empty)
		bpf_map_update_elem(&runners, &tid, empty, BPF_ANY);
	r = bpf_map_lookup_elem(&runners, &tid);
	if (r)
		r->pid = pid;
	return r;
}

/* Reports whether the entry shows which process runs on its thread, or that none does. That is so
 * if some process was watched all the time since a process last started or stopped running
 * there. */
static __always_inline bool knows_runner(const struct runner *r)
{
	return r->gaps == watching_gaps(r->pid);
}

/* Notes that a process starts to run. address is that of its struct process. Returns true if it is
 * also the last process that ran here. */
static __always_inline bool begin_run(struct runner *r, __u64 process, __u64 address, __u64 now)
{
	bool again = r->slices[r->last % SLICES].process == process && r->gaps == watching_gaps(r->pid);

	r->process = process;
	r->address = address;
	r->from_ns = now;
	r->gaps = watching_gaps(r->pid);
	return again;
}

/* Extends a slice to now, if its process ran again from from_ns on. Returns false if that is
 * another slice. */
static __always_inline bool extend_slice(struct slice *s, __u64 from_ns, __u64 now)
{
	__u64 gap = from_ns - s->to_ns;

	if (gap >= SLICE_GAP) {
		if (s->gaps_ns + gap > (now - s->from_ns) / SLICE_GAPS)
			return false;
		s->gaps_ns += gap;
	}
	s->to_ns = now;
	return true;
}

/* Notes that a process stops running. If no process was watched for some time since it started, it
 * may have stopped meanwhile, and others may have run. */
static __always_inline void end_run(struct runner *r, __u64 process, __u64 now)
{
	struct slice *s = &r->slices[r->last % SLICES];
	bool known = r->process == process && r->gaps == watching_gaps(r->pid);

	r->gaps = watching_gaps(r->pid);
	r->process = 0;
	if (!known)
		process = 0; /* an unknown process ran */
	else if (s->process == process && extend_slice(s, r->from_ns, now))
		return;
	r->last++;
	s = &r->slices[r->last % SLICES];
	s->process = process;
	s->from_ns = known ? r->from_ns : now;
	s->to_ns = now;
	s->gaps_ns = 0;
}

/* Logs the slices that ran here while a process was ready to run, the oldest first. Not static,
 * like note_rank. */
__noinline int log_neighbours(__u64 now, __u32 pid, __u64 process, __u64 ready)
{
	struct runner *r = this_runner(pid);

	if (!r)
		return 0;
	for (__u32 i = 1; i <= SLICES; i++) {
		struct slice *s = &r->slices[(r->last + i) % SLICES];
		struct writing w;

		if (s->to_ns <= ready || s->to_ns - s->from_ns < SLICE_LEAST || s->process == process)
			continue;
		w = begin_record(LOG_NEIGHBOUR, now, pid, process);
		if (!w.to)
			return 0;
		w.to->other = s->process;
		w.to->details[0] = s->from_ns;
		w.to->details[1] = s->to_ns;
		end_record(&w);
	}
	return 0;
}

#endif
