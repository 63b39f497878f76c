/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Queues of open instances that have the same key, for outcomes whose instances end in
 * the order in which they start. A queue only numbers them: the instances are among the
 * open ones, each under the key of its queue and its number. */

#ifndef QUEUE_BPF_H
#define QUEUE_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "open.bpf.h"

struct queue {
	__u64 ends;     /* numbers: of the next one to come << 32 | of the first that is there */
	__u64 used_ns;  /* when something last came or went */
	__u64 gone_ns;  /* when the process exited that takes from it, 0: it has not */
	__u64 busy_ns;  /* since when there has always been one */
	__u64 taken;    /* whether one was taken since then */
	__u64 first_ns; /* when the first one was taken since the last event of sync */
	__u64 floor_ns; /* nothing that is there before this will ever end */
	__u32 outcome;  /* the entry */
	__u32 worked;   /* there was such an event since one was taken */
};

/* By key; seq tells the stage of the outcome. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* few outcomes need it */
	__uint(max_entries, 1); /* set when loading */
	__type(key, struct span_key);
	__type(value, struct queue);
} queues SEC(".maps");

/* The numbers of instances of the second stage have the first bit. Those that a seq_trace
 * token tells apart have the second, those that the address of their message does the last. */
#define SECOND_STAGE (1ULL << 32)
#define BY_TOKEN (1ULL << 63)
#define BY_ADDRESS (1ULL << 62)

static __always_inline struct queue *queue_at(const struct span_key *key, bool second)
{
	struct span_key k = *key;

	k.seq = second;
	return bpf_map_lookup_elem(&queues, &k);
}

/* The sweep deletes queues that are of no use any more. It closes them first: the number
 * of the first one is then far ahead of that of the next one to come, so that whoever joins
 * meanwhile sees that it has joined nothing. */
#define CLOSED (1U << 31)

static __always_inline bool is_closed(__u64 ends)
{
	return (__u32)((ends >> 32) - ends) > CLOSED / 2;
}

/* Closes a queue that was read with these ends; false where something came or went. */
static __always_inline bool close_queue(struct queue *q, __u64 ends)
{
	__u64 closed = ends >> 32 << 32 | (__u32)((ends >> 32) + CLOSED);

	return __sync_val_compare_and_swap(&q->ends, ends, closed) == ends;
}

/* Makes the queue of a key, which tells the stage. Its numbers differ from those of the one
 * that the key had before: what was in that may be open still. */
static __noinline int add_queue(const struct span_key *k, __u32 outcome, __u64 now)
{
	struct queue empty = {
		.ends = (now >> 8) << 32 | (__u32)(now >> 8),
		.used_ns = now,
		.outcome = outcome,
		.worked = true,
	};

	if (!bpf_map_update_elem(&queues, k, &empty, BPF_NOEXIST))
		arrived(QUEUES);
	return 0;
}

/* The queue of a key, made where there is none; NULL where there is no room. */
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

/* How often the sweep may be about to delete a queue before there is taken to be no room. */
#define JOIN_TRIES 8

/* The queue of a key, with the number of one that comes; NULL where there is no room. */
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

/* How often another thread may get in between. */
#define QUEUE_TRIES 4

/* Takes the number of the first one; false where there is none. */
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

/* Whether one of this number has been passed by. */
static __always_inline bool was_passed(struct queue *q, __u64 seq)
{
	return (__s32)((__u32)*(volatile __u64 *)&q->ends - (__u32)seq) > 0;
}

#endif
