/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Which processes take part in open spans: those that started one and those that a
 * message led to from there, over a few hops. What happens to them, and to no others, is
 * logged. */

#ifndef WATCH_BPF_H
#define WATCH_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <linux/errno.h>
#include <bpf/bpf_helpers.h>

#include "count.bpf.h"
#include "group.bpf.h"
#include "log.bpf.h"
#include "open.bpf.h"

/* Messages are followed over so many hops. */
#define MAX_HOPS 10

/* A process that is watched, or was. It is watched as long as the span is open that led
 * to it; where several did, until some time after the deadline of the last of them. */
struct watch {
	__u64 until_ns; /* 0: somebody is about to write the entry anew, or to delete it */
	__u64 start_ns; /* of the span, the token of its place among the recent ones */
	__u64 since_ns;
	__u64 left_ns;  /* when it last stopped running, 0: not since then */
	__u64 ready_ns; /* since when it could run again, as far as is known; 0: it is not */
	__u32 root;     /* 1 + place of the span among the recent ones, 0: it has none, or there are several */
	__u32 hop;      /* 0: it started a span */
};

/* By process and VM. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* set when loading */
	__type(key, struct process_key);
	__type(value, struct watch);
} watches SEC(".maps");

/* Until when some process of a VM may be watched, rounded up so that it is rarely written. */
struct watching {
	__u64 until_ns;
	__u64 gaps; /* grows whenever nobody was watched for some time */
};

/* At the low bits of the VM's pid. Where two VMs share a place, more is done than need be. */
#define WATCHINGS 256

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WATCHINGS);
	__type(key, __u32);
	__type(value, struct watching);
} watchings SEC(".maps");

#define WATCHING_STEP (1ULL << 27) /* ns */

static __always_inline struct watching *watching_of(__u32 pid)
{
	__u32 at = pid % WATCHINGS;

	return bpf_map_lookup_elem(&watchings, &at);
}

/* Whether any process of a VM may be watched. Where not, programs have nothing to do. */
static __always_inline bool is_watching(__u32 pid, __u64 now)
{
	struct watching *all = watching_of(pid);

	return all && now < *(volatile __u64 *)&all->until_ns;
}

/* How often another thread may get in between: it writes what is as good then, or nearly. */
#define WATCHING_TRIES 4

static __always_inline void keep_watching(__u32 pid, __u64 now, __u64 until)
{
	struct watching *all = watching_of(pid);

	if (!all)
		return;
	until |= WATCHING_STEP - 1;
	for (int i = 0; i < WATCHING_TRIES; i++) {
		__u64 old = *(volatile __u64 *)&all->until_ns;

		if (old >= until)
			return;
		if (old <= now) /* before it is seen that somebody is watched */
			__sync_fetch_and_add(&all->gaps, 1);
		if (__sync_val_compare_and_swap(&all->until_ns, old, until) == old)
			return;
	}
}

static __always_inline bool is_watched(const struct watch *w, __u64 now)
{
	__u32 root = *(volatile __u32 *)&w->root;
	struct span *v;

	if (now >= *(volatile __u64 *)&w->until_ns)
		return false;
	if (!root)
		return true;
	root--;
	v = bpf_map_lookup_elem(&recent, &root);
	return v && *(volatile __u64 *)&v->start_ns == w->start_ns;
}

/* The entry of a process that is watched, NULL where it is not. */
static __always_inline struct watch *find_watch(const struct process_key *k, __u64 now)
{
	struct watch *w = k->process ? bpf_map_lookup_elem(&watches, k) : NULL;

	return w && is_watched(w, now) ? w : NULL;
}

/* What leads to a process: since_ns is the present. */
static __always_inline void join_watch(struct watch *w, const struct watch *by)
{
	if (by->hop < w->hop)
		w->hop = by->hop;
	if (w->root && w->root == by->root && w->start_ns == by->start_ns)
		return;
	if (by->until_ns > w->until_ns)
		*(volatile __u64 *)&w->until_ns = by->until_ns;
	if (w->root) /* afterwards: until then it is watched for the other one's sake */
		*(volatile __u32 *)&w->root = 0;
}

/* Takes an entry of before, of which a thread has seen that it is not watched: one at a
 * time gets it, and only if nobody has written it since. */
static __always_inline bool take_watch(struct watch *w, __u64 until)
{
	return until && __sync_val_compare_and_swap(&w->until_ns, until, 0) == until;
}

static __always_inline void renew_watch(struct watch *w, const struct watch *by)
{
	*(volatile __u32 *)&w->root = by->root;
	*(volatile __u64 *)&w->start_ns = by->start_ns;
	w->since_ns = by->since_ns;
	w->left_ns = 0;
	w->ready_ns = 0;
	w->hop = by->hop;
	__sync_lock_test_and_set(&w->until_ns, by->until_ns);
}

/* How often another thread may get in between before a process is left unwatched. */
#define WATCH_TRIES 32

/* Whether the process was watched before, or is now, or cannot be. */
enum watched { WAS_WATCHED, NEWLY_WATCHED, NOT_WATCHED };

/* Joins the entry of a process, or makes one. */
static __always_inline enum watched put_watch(struct process_key *k, struct watch *by)
{
	for (int i = 0; i < WATCH_TRIES; i++) {
		struct watch *w = bpf_map_lookup_elem(&watches, k);
		__u64 until = w ? *(volatile __u64 *)&w->until_ns : 0;
		long err;

		if (w && is_watched(w, by->since_ns)) {
			join_watch(w, by);
			return WAS_WATCHED;
		}
		if (w && take_watch(w, until)) {
			renew_watch(w, by);
			return NEWLY_WATCHED;
		}
		if (w)
			continue;
		err = bpf_map_update_elem(&watches, k, by, BPF_NOEXIST);
		if (!err) {
			arrived(WATCHES);
			return NEWLY_WATCHED;
		}
		if (err != -EEXIST)
			break;
	}
	return NOT_WATCHED;
}

/* When it was last logged of a process that there was no room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct process_key);
	__type(value, __u64);
} unwatched SEC(".maps");

/* So often it is at most. In ns. */
#define UNWATCHED_STEP 100000000

/* Says that there is no room to watch a process. */
static __always_inline void leave_unwatched(const struct process_key *k, __u64 now, __u64 other)
{
	__u64 *last = bpf_map_lookup_elem(&unwatched, k);

	if (last && now < *last + UNWATCHED_STEP)
		return;
	bpf_map_update_elem(&unwatched, k, &now, BPF_ANY);
	count_other(UNWATCHED);
	log_plain(LOG_UNWATCHED, now, k->pid, k->process, other);
}

/* Has a process watched, because another one, or none, led to it. Not static, as
 * note_rank. */
__noinline int watch_process(struct process_key *k, struct watch *by, __u64 other)
{
	enum watched how;

	if (!k || !by || !k->process)
		return 0;
	how = put_watch(k, by);
	if (how == NOT_WATCHED) {
		leave_unwatched(k, by->since_ns, other);
		return 0;
	}
	keep_watching(k->pid, by->since_ns, by->until_ns);
	if (how == NEWLY_WATCHED) {
		bpf_map_delete_elem(&unwatched, k); /* the next time it is news */
		log_plain(LOG_WATCH, by->since_ns, k->pid, k->process, other);
	}
	return 0;
}

#endif
