/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* The open instances: those that have started and not yet ended.
 *
 * Most spans are short, and most VMs have few open at a time. So a span goes into the table recent,
 * at the low bits of its id. There, a start and an end together cost two atomic operations. Only if
 * another open span has that place, the span goes into the hash map spans, which costs ten times as
 * much and has room for all. */

#ifndef OPEN_BPF_H
#define OPEN_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "room.bpf.h"

struct span_key {
	__u32 number; /* of the outcome's name, which its entries share; of the entry itself if it
		       * has a rule */
	__u32 pid;    /* of the VM */
	__u64 id;     /* of the span, or the key of its events */
	__u64 seq;    /* distinguishes instances with the same key, otherwise 0 */
};

/* Set in the numbers of outcomes with a rule. */
#define RULE_NUMBER (1U << 31)

struct span {
	__u64 start_ns; /* while open; otherwise it has ENDED set, or is BUSY */
	struct span_key key;
	__u64 parent;
	__u64 owner;    /* the Erlang process that started it; 0 if not needed */
	__u64 group;    /* in which it is counted; 0 if not needed */
	__u32 outcome;  /* index of the entry at which it is counted */
	__u32 room;     /* index of the room in which it takes a place, if it is in spans */
};

/* The span has ended. It is kept so that a later end counts as late, not as an orphan. */
#define ENDED (1ULL << 63)

/* The parent of a placeholder. A placeholder keeps a place in a queue for something whose start was
 * not seen. It is open like an instance, but counts as none. */
#define PLACEHOLDER (~0ULL)

static __always_inline bool is_placeholder(const struct span *v)
{
	return v->key.number & RULE_NUMBER && v->parent == PLACEHOLDER;
}

/* A thread is writing the span. For all other threads it has ended. */
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

/* Hash maps that the sweep iterates over. An iteration takes long even if the map is empty, so the
 * sweep skips a map if it cannot have entries. */
enum swept_map { SPANS, EXITS, QUEUES, WATCHES, SWEPT_MAPS };

struct arrivals {
	__u64 count; /* entries ever added */
	__u64 seen;  /* count at the last sweep */
	__u64 left;  /* entries that the last sweep kept */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SWEPT_MAPS);
	__type(key, __u32);
	__type(value, struct arrivals);
} arrivals SEC(".maps");

/* Counts an entry after it was added. A sweep that came too early to find the entry has not counted
 * it either, so the next sweep looks again. */
static __always_inline void arrived(__u32 which)
{
	struct arrivals *a = bpf_map_lookup_elem(&arrivals, &which);

	if (a)
		__sync_fetch_and_add(&a->count, 1);
}

/* Adds a span to the hash map, in the room of its VM, or replaces the one with its key. Returns
 * false if there is no room. */
static __noinline int add_hashed(struct span *v)
{
	struct room *r;
	bool free;

	v->room = room_of(v->key.pid);
	r = room_at(v->room);
	if (!r)
		return false;
	free = take_place(r);
	if (free && !bpf_map_update_elem(&spans, &v->key, v, BPF_NOEXIST)) {
		arrived(SPANS);
		return true;
	}
	free_place(r);
	return !bpf_map_update_elem(&spans, &v->key, v, BPF_EXIST);
}

/* Deletes a span from the hash map. room is that of the span. This and add_hashed are functions
 * because their callers have little stack left. */
static __noinline int delete_hashed(const struct span_key *key, __u32 room)
{
	struct room *r = room_at(room);

	if (!bpf_map_delete_elem(&spans, key) && r)
		free_place(r);
	return 0;
}

/* Returns the index of a key's place in recent. Ids of spans are unique, but keys of VM probes are
 * not: salt distinguishes those. It is 0 for spans. The ids of a VM follow each other, or they are 16
 * apart, because a VM's unique integers are; those of explained spans are 256 apart, and the last four
 * bits are a class. In each case RECENT or RECENT/16 of them in a row have different places. */
static __always_inline __u32 recent_index(const struct span_key *key, __u64 salt)
{
	__u64 last = key->id & 15;

	return (key->id >> 4 ^ last ^ last << 10 ^ key->pid * 0x9e3779b1 ^ salt) % RECENT;
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

/* Writes a span to a place in recent, with this start_ns. Returns false if the place has an open
 * span. */
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

/* Loads a start time before all later loads. x86-64 keeps loads in order. Other processors need an
 * atomic operation, here one that changes nothing. */
static __always_inline __u64 load_start(struct span *v)
{
#ifdef __TARGET_ARCH_x86
	return *(volatile __u64 *)&v->start_ns;
#else
	return __sync_fetch_and_or(&v->start_ns, 0);
#endif
}

/* Copies a span. Returns false if the span has ended. If take succeeds later, the span had not
 * changed since. */
static __always_inline bool read_open(struct span *v, struct span *copy)
{
	copy->start_ns = load_start(v);
	copy->key = v->key;
	copy->parent = v->parent;
	copy->owner = v->owner;
	copy->group = v->group;
	copy->outcome = v->outcome;
	copy->room = v->room;
	return copy->start_ns && !(copy->start_ns & ENDED);
}

/* Ends an instance that was read as open. Of several threads, the one that swaps the start time
 * takes the instance; the others get false. No two spans at one place have the same start time. So
 * the copy is of the span that is taken, even if the place was reused in between. */
static __always_inline bool take(struct span *v, const struct span *read)
{
	return __sync_val_compare_and_swap(&v->start_ns, read->start_ns,
					   read->start_ns | ENDED) == read->start_ns;
}

#endif
