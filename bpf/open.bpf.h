/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* The open instances: where a start waits for its end.
 *
 * Most spans are short, and most VMs have few open at a time. So a span goes
 * into the table recent, at the low bits of its id, where starting and ending
 * one costs two atomic operations; only where that place is taken by another
 * open span it goes into the hash map spans, which costs ten times as much and
 * has room for all. */

#ifndef OPEN_BPF_H
#define OPEN_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct span_key {
	__u32 number; /* of the outcome's name, whichever entry the span is counted at; with
		       * a rule that of the entry alone */
	__u32 pid;    /* of the VM */
	__u64 id;     /* of a span, or the key of its events */
	__u64 seq;    /* tells apart what has the same key, 0 where nothing has */
};

/* Set in the numbers of outcomes of VM probes. */
#define RULE_NUMBER (1U << 31)

struct span {
	__u64 start_ns; /* when open; with ENDED set, or BUSY, otherwise */
	struct span_key key;
	__u64 parent;
	__u64 owner;    /* the Erlang process that started it; 0 where nobody asks */
	__u64 group;    /* that it is counted in; 0 where nobody asks */
	__u32 outcome;  /* the entry that it is counted at */
	__u32 pad;
};

/* Ended, and kept to tell a later end from an orphan. */
#define ENDED (1ULL << 63)

/* The parent of what keeps a place in a queue and never started, as far as we know. It
 * is open like others, and no instance. */
#define PLACEHOLDER (~0ULL)

static __always_inline bool is_placeholder(const struct span *v)
{
	return v->key.number & RULE_NUMBER && v->parent == PLACEHOLDER;
}

/* Being written. Counts as ended for everybody but the writer. */
#define BUSY (~0ULL)

#define RECENT (1 << 14)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RECENT);
	__type(key, __u32);
	__type(value, struct span);
} recent SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set when loading */
	__type(key, struct span_key);
	__type(value, struct span);
} spans SEC(".maps");

/* Hash maps that the sweep goes through. That takes long even where they are empty,
 * so it is left out where nothing can be in them. */
enum swept_map { SPANS, EXITS, QUEUES, WATCHES, SWEPT_MAPS };

struct arrivals {
	__u64 count; /* entries that were ever put in, counted when they are */
	__u64 seen;  /* of these, by the last sweep */
	__u64 left;  /* entries that it left */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SWEPT_MAPS);
	__type(key, __u32);
	__type(value, struct arrivals);
} arrivals SEC(".maps");

/* Counts an entry, after it was put in: a sweep that was too early to find it will
 * not have seen it counted either. */
static __always_inline void arrived(__u32 which)
{
	struct arrivals *a = bpf_map_lookup_elem(&arrivals, &which);

	if (a)
		__sync_fetch_and_add(&a->count, 1);
}

/* The place of a key. Ids of spans are unique, but keys of VM probes are not: salt is
 * what tells those apart, 0 for spans. */
static __always_inline __u32 recent_index(const struct span_key *key, __u64 salt)
{
	return (key->id ^ key->pid * 0x9e3779b1 ^ salt) % RECENT;
}

static __always_inline struct span *recent_at(const struct span_key *key, __u64 salt)
{
	__u32 at = recent_index(key, salt);

	return bpf_map_lookup_elem(&recent, &at);
}

static __always_inline bool same_key(const struct span_key *a, const struct span_key *b)
{
	return a->id == b->id && a->pid == b->pid && a->number == b->number && a->seq == b->seq;
}

/* Puts a span at a place among the recent ones, with this start_ns, unless an open span
 * is there. */
static __always_inline bool put_at(struct span *place, const struct span *v, __u64 start_ns)
{
	__u64 old;

	if (!place)
		return false;
	old = *(volatile __u64 *)&place->start_ns;
	if (old == BUSY || (old && !(old & ENDED)))
		return false;
	if (__sync_val_compare_and_swap(&place->start_ns, old, BUSY) != old)
		return false;
	place->key = v->key;
	place->parent = v->parent;
	place->owner = v->owner;
	place->group = v->group;
	place->outcome = v->outcome;
	__sync_lock_test_and_set(&place->start_ns, start_ns);
	return true;
}

static __always_inline bool put_recent(const struct span *v, __u64 start_ns)
{
	return put_at(recent_at(&v->key, 0), v, start_ns);
}

/* Loads a start time before whatever is loaded after it. x86-64 keeps loads in
 * order; elsewhere an atomic operation that changes nothing does. */
static __always_inline __u64 load_start(struct span *v)
{
#ifdef __TARGET_ARCH_x86
	return *(volatile __u64 *)&v->start_ns;
#else
	return __sync_fetch_and_or(&v->start_ns, 0);
#endif
}

/* Reads a span; false where it has ended. An open span that is read has not
 * changed until it is taken: see take. */
static __always_inline bool read_open(struct span *v, struct span *copy)
{
	copy->start_ns = load_start(v);
	copy->key = v->key;
	copy->parent = v->parent;
	copy->owner = v->owner;
	copy->group = v->group;
	copy->outcome = v->outcome;
	return copy->start_ns && !(copy->start_ns & ENDED);
}

/* Ends an instance that was read as open. The start time is the token: of
 * several that try, the one that swaps it has the instance. As no two spans at
 * one place have the same start time, what was read belongs to the span that is
 * taken, even where the place was reused in between. */
static __always_inline bool take(struct span *v, const struct span *read)
{
	return __sync_val_compare_and_swap(&v->start_ns, read->start_ns,
					   read->start_ns | ENDED) == read->start_ns;
}

#endif
