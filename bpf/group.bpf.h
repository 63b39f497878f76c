/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Groups of an outcome's instances: by process, function or port. Each window has its own groups.
 * Their number is limited: instances that find no room are counted together. */

#ifndef GROUP_BPF_H
#define GROUP_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "count.bpf.h"
#include "open.bpf.h"

struct group_key {
	__u64 group;
	__u32 outcome; /* index of the entry */
	__u32 pid;     /* of the VM */
	__u32 row;     /* of the window */
	__u32 pad;
};

/* There are four buckets for each power of two: see outcome.Bucket. */
#define DELAY_BUCKETS 172

struct group {
	__u64 counts[3]; /* successes, failures, timeouts */
	__u64 total_ns;  /* of the delays of successes */
	__u64 amount;
	__u64 starts;   /* if arrivals are counted */
	__u64 cpu_ns;   /* of successful slices: time on a processor */
	__u64 dirty_ns; /* of successful slices: time on dirty schedulers, on a processor or not */
	__u32 delays[DELAY_BUCKETS]; /* of the successes */
};

/* User space deletes the groups of a window after it has read them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* set when loading */
	__type(key, struct group_key);
	__type(value, struct group);
} groups SEC(".maps");

/* The initial value of a group. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct group);
} new_group SEC(".maps");

/* Instances that found no room in groups, by outcome, VM and window. Their group is 0. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* set when loading */
	__type(key, struct group_key);
	__type(value, struct group);
} rests SEC(".maps");

/* The texts of groups that are not processes, by their hash. */
#define TEXT_MAX 127

struct group_text {
	char text[TEXT_MAX + 1];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set when loading */
	__type(key, __u64);
	__type(value, struct group_text);
} texts_seen SEC(".maps");

/* Marks a group as a text. Pids never have this bit. */
#define IS_TEXT (1ULL << 63)

struct process_key {
	__u64 process;
	__u64 pid; /* of the VM */
};

/* The group of the function with which each process was spawned. An entry is deleted when its
 * process exits. User space adds functions that only the VM's memory shows, possibly just after the
 * exit: such entries are evicted eventually. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set when loading */
	__type(key, struct process_key);
	__type(value, __u64);
} spawned SEC(".maps");

/* For user space: new processes whose spawn event does not show their real function. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1); /* set when loading */
	__type(value, struct process_key);
} born SEC(".maps");

/* Returns the group of the function with which a process was spawned, or the process itself if that
 * is unknown. */
static __always_inline __u64 spawn_group(__u64 process, __u32 pid)
{
	struct process_key k = {.process = process, .pid = pid};
	__u64 *known = bpf_map_lookup_elem(&spawned, &k);

	return known ? *known : process;
}

static __always_inline __u32 log2_of(__u64 v)
{
	__u32 r = 0;

	if (v >> 32) { r += 32; v >>= 32; }
	if (v >> 16) { r += 16; v >>= 16; }
	if (v >> 8) { r += 8; v >>= 8; }
	if (v >> 4) { r += 4; v >>= 4; }
	if (v >> 2) { r += 2; v >>= 2; }
	return r + (v >> 1);
}

static __always_inline __u32 delay_bucket(__u64 ns)
{
	__u32 e, bucket;

	if (ns < 4)
		return ns;
	e = log2_of(ns);
	bucket = (e - 1) * 4 + (ns >> (e - 2) & 3);
	return bucket < DELAY_BUCKETS ? bucket : DELAY_BUCKETS - 1;
}

/* Flags of the status of an instance in its group: the instance is a slice, so its amount is
 * processor time; and the slice is on a dirty scheduler. */
#define SLICE (1U << 16)
#define DIRTY_SLICE (1U << 17)

/* Adds an instance to its group. flagged is SUCCESSES, FAILURES or TIMEOUTS with flags, or STARTS
 * for an instance that starts. */
static __always_inline void add_share(struct group *g, __u32 flagged, __u64 delay, __u64 amount)
{
	__u32 status = flagged & ~(SLICE | DIRTY_SLICE);
	__u32 bucket = delay_bucket(delay);

	switch (status) {
	case STARTS:
		__sync_fetch_and_add(&g->starts, 1);
		break;
	case SUCCESSES:
		__sync_fetch_and_add(&g->counts[0], 1);
		__sync_fetch_and_add(&g->total_ns, delay);
		if (bucket < DELAY_BUCKETS)
			__sync_fetch_and_add(&g->delays[bucket], 1);
		break;
	case FAILURES:
		__sync_fetch_and_add(&g->counts[1], 1);
		break;
	default:
		__sync_fetch_and_add(&g->counts[2], 1);
	}
	if (flagged & SLICE) {
		__sync_fetch_and_add(&g->cpu_ns, amount);
		if (flagged & DIRTY_SLICE)
			__sync_fetch_and_add(&g->dirty_ns, delay);
	} else if (amount) {
		__sync_fetch_and_add(&g->amount, amount);
	}
}

static __always_inline struct group *make_group(void *map, const struct group_key *k)
{
	struct group *g = bpf_map_lookup_elem(map, k), *empty;
	__u32 zero = 0;

	if (g)
		return g;
	empty = bpf_map_lookup_elem(&new_group, &zero);
	if (empty)
		bpf_map_update_elem(map, k, empty, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, k);
}

/* Counts an instance in its group. owner is the index of the outcome's entry, with the pid of the
 * VM in the upper half. end is the row, with the flagged status in the upper half. Not static, like
 * note_rank. */
__noinline int add_to_group(__u64 group, __u64 owner, __u64 end, __u64 delay, __u64 amount)
{
	struct group_key k = {.group = group, .outcome = owner, .pid = owner >> 32, .row = end};
	struct group *g = make_group(&groups, &k);

	if (!g) {
		k.group = 0;
		g = make_group(&rests, &k);
	}
	if (g)
		add_share(g, end >> 32, delay, amount);
	return 0;
}

static __always_inline void count_group(const struct span *v, __u32 row, __u32 status,
					__u64 delay, __u64 amount)
{
	add_to_group(v->group, v->outcome | (__u64)v->key.pid << 32, row | (__u64)status << 32,
		     delay, amount);
}

#endif
