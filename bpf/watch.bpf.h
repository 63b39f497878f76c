/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Processes that take part in open spans: those that started a span, and those that messages led to
 * from there, over a few hops. Programs log what happens to these processes, and to no others. */

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

/* The largest number of messages, one after the other, that lead from the process that started a
 * span to another that is watched. */
#define MAX_HOPS 10

/* A process that is or was watched. It is watched while the span that led to it is open. If several
 * spans led to it, it is watched until some time after the last of their deadlines. */
struct watch {
	__u64 until_ns; /* 0: a thread is about to rewrite or delete the entry */
	__u64 start_ns; /* start of the span, which identifies it in its place in recent */
	__u64 since_ns;
	__u64 left_ns;  /* when it last stopped running; 0: not since since_ns */
	__u64 ready_ns; /* since when it has been runnable, as far as is known; 0: it is not */
	__u32 root;     /* 1 + place of the span in recent; 0: it is not there, or there are several
			 * spans */
	__u32 hop;      /* number of messages that led to the process; 0: it started a span */
};

/* By process and VM. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* set when loading */
	__type(key, struct process_key);
	__type(value, struct watch);
} watches SEC(".maps");

/* Until when any process of a VM may be watched, rounded up so that it rarely changes. */
struct watching {
	__u64 until_ns;
	__u64 gaps; /* how often watching began again after a time without any watched process */
};

/* At the low bits of the VM's pid. If two VMs share a place, programs do more than necessary. */
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

/* Reports whether any process of a VM may be watched. If not, programs have nothing to do. */
static __always_inline bool is_watching(__u32 pid, __u64 now)
{
	struct watching *all = watching_of(pid);

	return all && now < *(volatile __u64 *)&all->until_ns;
}

/* Attempts to extend the time while other threads do the same. What they write is as good, or
 * nearly. */
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
		if (old <= now) /* before any program sees that a process is watched */
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

/* Returns the entry of a process, or NULL if the process is not watched. */
static __always_inline struct watch *find_watch(const struct process_key *k, __u64 now)
{
	struct watch *w = k->process ? bpf_map_lookup_elem(&watches, k) : NULL;

	return w && is_watched(w, now) ? w : NULL;
}

/* Adds another reason to watch a process to its entry. by->since_ns is the present time. */
static __always_inline void join_watch(struct watch *w, const struct watch *by)
{
	if (by->hop < w->hop)
		w->hop = by->hop;
	if (w->root && w->root == by->root && w->start_ns == by->start_ns)
		return;
	if (by->until_ns > w->until_ns)
		*(volatile __u64 *)&w->until_ns = by->until_ns;
	if (w->root) /* last: until until_ns was written, the span at root kept the process watched */
		*(volatile __u32 *)&w->root = 0;
}

/* Takes an entry that a thread has found to be unwatched. Only one thread succeeds, and only if
 * nothing has written the entry since. */
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

/* Attempts to write an entry while other threads do the same, before a process is left
 * unwatched. */
#define WATCH_TRIES 32

/* Whether a process was already watched, is watched from now on, or cannot be watched. */
enum watched { WAS_WATCHED, NEWLY_WATCHED, NOT_WATCHED };

/* Adds a reason to watch a process to its entry, or adds an entry. */
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

/* When the log last recorded that there was no room to watch a process. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct process_key);
	__type(value, __u64);
} unwatched SEC(".maps");

/* The log records that for each process at most once in this time, in ns. */
#define UNWATCHED_STEP 100000000

/* Logs and counts that there is no room to watch a process. */
static __always_inline void log_unwatched(const struct process_key *k, __u64 now, __u64 other)
{
	__u64 *last = bpf_map_lookup_elem(&unwatched, k);

	if (last && now < *last + UNWATCHED_STEP)
		return;
	bpf_map_update_elem(&unwatched, k, &now, BPF_ANY);
	count_other(UNWATCHED);
	log_plain(LOG_UNWATCHED, now, k->pid, k->process, other);
}

/* Watches a process because the process other led to it, or because it started a span; then other
 * is 0. Not static, like note_rank. It copies its parameters, because before Linux 6.6 the memory that
 * they point to may be no key or value of a map. */
__noinline int watch_process(struct process_key *key, struct watch *reason, __u64 other)
{
	struct process_key k;
	struct watch by;
	enum watched how;

	if (!key || !reason || !key->process)
		return 0;
	k = *key;
	by = *reason;
	how = put_watch(&k, &by);
	if (how == NOT_WATCHED) {
		log_unwatched(&k, by.since_ns, other);
		return 0;
	}
	keep_watching(k.pid, by.since_ns, by.until_ns);
	if (how == NEWLY_WATCHED) {
		bpf_map_delete_elem(&unwatched, &k); /* so that a lack of room is logged again */
		log_plain(LOG_WATCH, by.since_ns, k.pid, k.process, other);
	}
	return 0;
}

#endif
