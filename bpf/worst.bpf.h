/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Which instances are streamed. Where only the worst of a window are wanted, the
 * programs keep the ranks of the worst so far, and an instance that ranks below
 * them all cannot be among the worst. So none of the worst is missed, and of a
 * flood in no particular order few are streamed: the more there were, the more
 * rarely comes one that is worse than most. */

#ifndef WORST_BPF_H
#define WORST_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "count.bpf.h"
#include "open.bpf.h"

/* Instances of an outcome, VM and window of which it is known that they are all
 * streamed; a power of two. */
#define MAX_WORST 16

/* The ranks of the worst so far of an outcome, a VM and a window. */
struct worst {
	__u64 floor; /* the least of them */
	__u64 ranks[MAX_WORST];
};

/* By outcome, then slot, then row. User space clears what it has read. */
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

/* How often another thread may get in between before the instance is streamed
 * without having been noted, which does no harm. */
#define NOTE_TRIES 4

/* Notes a rank if it is among the worst so far, and says whether it is. Of equal
 * ones the first count. Not static: so the verifier looks at it once by itself, and
 * not along each way that leads here. */
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

/* Whether an instance of an outcome that is streamed is to be sent. What ends
 * when its outcome is another already is not an instance. */
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
