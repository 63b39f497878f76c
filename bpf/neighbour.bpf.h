/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* What ran on each scheduler's thread lately, as far as somebody was watched: which
 * processes kept another one from running there. */

#ifndef NEIGHBOUR_BPF_H
#define NEIGHBOUR_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "log.bpf.h"
#include "watch.bpf.h"

/* Slices of one process, and of nobody else between them, are one where there is less
 * between them than this, in ns, or what is more comes to a small part of the whole: a
 * process that is short of reductions stops and goes on every few microseconds, and the
 * machine often interrupts the thread in between. */
#define SLICE_GAP 50000
#define SLICE_GAPS 8 /* the part, as its inverse */

/* What is shorter kept nobody waiting, in ns. */
#define SLICE_LEAST 200000

/* Slices that are remembered, a power of two. */
#define SLICES 8

struct slice {
	__u64 process;
	__u64 from_ns;
	__u64 to_ns;
	__u64 gaps_ns; /* between them, those of SLICE_GAP and more */
};

struct runner {
	__u64 process; /* that runs, 0: none, or it is not known which */
	__u64 address; /* of its struct process */
	__u64 from_ns;
	__u64 gaps;    /* of watching, when it began to run */
	__u32 last;    /* number of the last slice */
	__u32 pid;     /* of the VM: the ids of threads that have ended come again */
	struct slice slices[SLICES];
};

/* By the id of the thread. Only programs on that thread write its entry. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set when loading */
	__type(key, __u32);
	__type(value, struct runner);
} runners SEC(".maps");

/* What a new runner is. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct runner);
} no_runner SEC(".maps");

static __always_inline __u64 watching_gaps(__u32 pid)
{
	struct watching *all = watching_of(pid);

	return all ? *(volatile __u64 *)&all->gaps : 0;
}

/* The entry of the thread that runs the program, which is of this VM. */
static __always_inline struct runner *this_runner(__u32 pid)
{
	__u32 tid = bpf_get_current_pid_tgid(), zero = 0;
	struct runner *r = bpf_map_lookup_elem(&runners, &tid), *empty;

	if (r && r->pid == pid)
		return r;
	empty = bpf_map_lookup_elem(&no_runner, &zero);
	if (empty)
		bpf_map_update_elem(&runners, &tid, empty, BPF_ANY);
	r = bpf_map_lookup_elem(&runners, &tid);
	if (r)
		r->pid = pid;
	return r;
}

/* Notes that a process, at an address, begins to run; true if it is the last one that ran here. */
static __always_inline bool runs(struct runner *r, __u64 process, __u64 address, __u64 now)
{
	bool again = r->slices[r->last % SLICES].process == process && r->gaps == watching_gaps(r->pid);

	r->process = process;
	r->address = address;
	r->from_ns = now;
	r->gaps = watching_gaps(r->pid);
	return again;
}

/* Has a slice go on with its process, which ran again from from_ns to now; false where
 * that is another slice. */
static __always_inline bool goes_on(struct slice *s, __u64 from_ns, __u64 now)
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

/* Notes that it stops. What began before there was nobody watched for some time may have
 * stopped meanwhile, and others may have run. */
static __always_inline void stops(struct runner *r, __u64 process, __u64 now)
{
	struct slice *s = &r->slices[r->last % SLICES];
	bool known = r->process == process && r->gaps == watching_gaps(r->pid);

	r->gaps = watching_gaps(r->pid);
	r->process = 0;
	if (!known)
		process = 0; /* somebody ran */
	else if (s->process == process && goes_on(s, r->from_ns, now))
		return;
	r->last++;
	s = &r->slices[r->last % SLICES];
	s->process = process;
	s->from_ns = known ? r->from_ns : now;
	s->to_ns = now;
	s->gaps_ns = 0;
}

/* Logs what ran here after a process could have run, the earlier ones first. Not static,
 * as note_rank. */
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
