/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Queues of open instances with the same key, for outcomes whose instances end in the order in
 * which they start. A queue only hands out numbers. The instances are in the tables of open
 * instances, under the key of their queue and their number. */

#ifndef QUEUE_BPF_H
#define QUEUE_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "count.bpf.h"
#include "open.bpf.h"

struct queue {
	__u64 ends;     /* number of the next instance to join << 32 | number at the head */
	__u64 used_ns;  /* when an instance last joined or left */
	__u64 gone_ns;  /* when the process that takes from the queue exited; 0: it has not */
	__u64 busy_ns;  /* since when the queue has not been empty */
	__u64 taken;    /* whether an instance has left since busy_ns */
	__u64 first_ns; /* when the first instance left after the last sync event */
	__u64 floor_ns; /* instances that started before this can no longer end */
	__u32 outcome;  /* index of the entry */
	__u32 worked;   /* a sync event came after the last instance left */
	__u32 room;     /* index of the room in which it takes a place */
	__u32 pad;
};

/* By key. Its seq is the stage: 0 for the first, 1 for the second. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* few outcomes need it */
	__uint(max_entries, 1); /* set when loading */
	__type(key, struct span_key);
	__type(value, struct queue);
} queues SEC(".maps");

/* Bits of seq. The first marks the numbers of the second stage. The second marks a seq_trace token
 * that identifies the instance. The third marks the address of its message. */
#define SECOND_STAGE (1ULL << 32)
#define BY_TOKEN (1ULL << 63)
#define BY_ADDRESS (1ULL << 62)

static __always_inline struct queue *queue_at(const struct span_key *key, bool second)
{
	struct span_key k = *key;

	k.seq = second;
	return bpf_map_lookup_elem(&queues, &k);
}

/* Marks a queue that the sweep is about to delete. In a closed queue, the number at the head is far
 * ahead of the number of the next instance to join. So a thread that joins at the same time sees
 * that the queue is closed. */
#define CLOSED (1U << 31)

static __always_inline bool is_closed(__u64 ends)
{
	return (__u32)((ends >> 32) - ends) > CLOSED / 2;
}

/* Closes a queue whose ends were read before. Returns false if an instance joined or left since. */
static __always_inline bool close_queue(struct queue *q, __u64 ends)
{
	__u64 closed = ends >> 32 << 32 | (__u32)((ends >> 32) + CLOSED);

	return __sync_val_compare_and_swap(&q->ends, ends, closed) == ends;
}

static __always_inline struct room *queue_room_at(__u32 at)
{
	return bpf_map_lookup_elem(&queue_rooms, &at);
}

/* Adds a queue, if there is room. seq of the key is the stage. Its numbers differ from those of an
 * earlier queue of the same key, whose instances may still be open. */
static __noinline int add_queue(const struct span_key *k, __u32 outcome, __u64 now)
{
	struct queue empty = {
		.ends = (now >> 8) << 32 | (__u32)(now >> 8),
		.used_ns = now,
		.outcome = outcome,
		.worked = true,
		.room = room_of(k->pid),
	};
	struct room *r = queue_room_at(empty.room);

	if (!r)
		return 0;
	if (take_place(r) && !bpf_map_update_elem(&queues, k, &empty, BPF_NOEXIST))
		arrived(QUEUES);
	else
		free_place(r);
	return 0;
}

/* Returns the queue of a key, and adds it if necessary. Returns NULL if there is no room. */
static __always_inline struct queue *make_queue(const struct span_key *key, bool second,
						__u32 outcome, __u64 now)
{
	struct span_key k = *key;
	struct queue *q;

	k.seq = second;
	q = bpf_map_lookup_elem(&queues, &k);
	if (q)
		return q;
	add_queue(&k, outcome, now);
	return bpf_map_lookup_elem(&queues, &k);
}

/* A thread that meets a closed queue tries again this many times at most. */
#define JOIN_TRIES 8

/* Joins the queue of a key, and sets *seq to the number of the new instance. Returns NULL if there
 * is no room. */
static __always_inline struct queue *join_queue(const struct span_key *key, bool second,
						__u32 outcome, __u64 now, __u64 *seq)
{
	for (int i = 0; i < JOIN_TRIES; i++) {
		struct queue *q = make_queue(key, second, outcome, now);
		__u64 ends;

		if (!q)
			return NULL;
		*(volatile __u64 *)&q->used_ns = now;
		ends = __sync_fetch_and_add(&q->ends, 1ULL << 32);
		if (is_closed(ends))
			continue;
		if ((__u32)ends == (__u32)(ends >> 32)) {
			*(volatile __u64 *)&q->busy_ns = now;
			*(volatile __u64 *)&q->taken = false;
		}
		*seq = ends >> 32 | (second ? SECOND_STAGE : 0);
		return q;
	}
	return NULL;
}

/* Attempts to leave a queue while other threads join or leave it. */
#define QUEUE_TRIES 4

/* Sets *seq to the number at the head, and advances the head. Returns false if the queue is
 * empty. */
static __always_inline bool leave_queue(struct queue *q, __u64 now, bool second, __u64 *seq)
{
	*(volatile __u64 *)&q->used_ns = now;
	for (int i = 0; i < QUEUE_TRIES; i++) {
		__u64 ends = *(volatile __u64 *)&q->ends;
		__u32 head = ends, tail = ends >> 32;

		if (head == tail || is_closed(ends))
			return false;
		if (__sync_val_compare_and_swap(&q->ends, ends,
						(__u64)tail << 32 | (__u32)(head + 1)) != ends)
			continue;
		*(volatile __u64 *)&q->taken = true;
		*seq = head | (second ? SECOND_STAGE : 0);
		return true;
	}
	return false;
}

/* Reports whether an instance may have ended unseen: the address of its message identifies it, and a
 * program did not follow a list with that message to its end. */
static __noinline int may_be_fetched(const struct outcome *o, const struct span *open)
{
	struct queue *q;

	if (o->flags & STAGED || !(open->key.seq & BY_ADDRESS) || open->key.seq & BY_TOKEN)
		return false;
	q = queue_at(&open->key, false);
	return q && (open->start_ns & ~ENDED) < *(volatile __u64 *)&q->floor_ns;
}

/* Reports whether the head of a queue is past a number. */
static __always_inline bool was_passed(struct queue *q, __u64 seq)
{
	return (__s32)((__u32)*(volatile __u64 *)&q->ends - (__u32)seq) > 0;
}

#endif
