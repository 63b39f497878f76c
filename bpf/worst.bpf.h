/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Decides which instances are streamed. If only the worst of a window are wanted, the programs keep
 * the ranks of the worst so far. An instance that ranks below all of these cannot be among the
 * worst, so none of the worst is missed. If many instances come in random order, few are streamed:
 * the more there were, the rarer is an instance that is worse than most. */

#ifndef WORST_BPF_H
#define WORST_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "count.bpf.h"
#include "open.bpf.h"

/* The number of worst instances of an outcome, VM and window that are certainly all streamed; a
 * power of two. */
#define MAX_WORST 16

/* The ranks of the worst instances so far, for an outcome, a VM and a window. */
struct worst {
	__u64 floor; /* the lowest of ranks */
	__u64 ranks[MAX_WORST];
};

/* By outcome, then slot, then row. User space clears the entries that it has read. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set when loading */
	__type(key, __u32);
	__type(value, struct worst);
} worsts SEC(".maps");

/* Timeouts are worse than failures, failures than successes, and long delays
 * worse than short ones. No rank is 0. */
static __always_inline __u64 rank_of(__u32 status, __u64 delay)
{
	__u64 rank = delay + 1;

	if (status == TIMEOUTS)
		rank |= 1ULL << 63;
	else if (status == FAILURES)
		rank |= 1ULL << 62;
	return rank;
}

/* Attempts to note a rank while other threads do the same. If all fail, the instance is streamed
 * without being noted, which does no harm. */
#define NOTE_TRIES 4

/* Notes a rank if it is among the worst so far, and reports whether it is. Of equal ranks, the
 * first ones count. Not static: the verifier checks a global function once, and not at each
 * call. */
__noinline int note_rank(__u32 at, __u64 rank)
{
	struct worst *w = bpf_map_lookup_elem(&worsts, &at);

	if (!w || rank <= *(volatile __u64 *)&w->floor)
		return false;
	for (int try = 0; try < NOTE_TRIES; try++) {
		__u64 least = ~0ULL, second = ~0ULL;
		__u32 place = 0;

		for (__u32 i = 0; i < MAX_WORST; i++) {
			__u64 r = *(volatile __u64 *)&w->ranks[i];

			if (r < least) {
				second = least;
				least = r;
				place = i;
			} else if (r < second) {
				second = r;
			}
		}
		if (rank <= least)
			return false;
		place %= MAX_WORST;
		if (__sync_val_compare_and_swap(&w->ranks[place], least, rank) == least) {
			*(volatile __u64 *)&w->floor = second < rank ? second : rank;
			return true;
		}
	}
	return true;
}

/* Reports whether to stream an instance of an outcome with STREAM. An instance that ends after its
 * outcome has changed does not count. */
static __always_inline bool is_wanted(const struct outcome *o, const struct span *v, __u32 row,
				      __u32 status, __u64 end_ns)
{
	__u32 slot;

	if (end_ns >= o->until_ns)
		return false;
	if (!(o->flags & WORST))
		return true;
	if (row == STRAY)
		return false;
	slot = v->outcome * (vm_slots + 1) + vm_slot(v->key.pid);
	return note_rank(slot * WINDOWS + row, rank_of(status, end_ns - v->start_ns));
}

#endif
