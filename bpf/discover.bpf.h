/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Discovery: stores the names of spans that have no outcome. Each VM has room of its own, by its
 * slot, so that the names of one VM never take the room of another.
 *
 * The span program does it, attached to every label. So spans that are observed already cost
 * nothing more, and one program runs instead of two.
 *
 * Most events have a known name. So a program looks the name up by a 64-bit hash in a table that
 * contains only hashes. Only the program that adds a new hash writes the name itself, once, into
 * the list that user space reads. Names never mix: each name in the list was read as a whole, from
 * one event. Two names with the same hash would count as one, and the second would not be found.
 * Among as many names as fit in the table, the probability of that is 10^-12. */

#ifndef DISCOVER_BPF_H
#define DISCOVER_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "count.bpf.h"

const volatile bool discover; /* store unknown names */

/* The number of names in the list of a VM. */
#define MAX_NAMES 512

/* The number of places for the hashes of a VM, a power of two. It is much larger than MAX_NAMES. So
 * a hash soon finds a free place, and names that do not fit in the list are still distinguished,
 * and counted. */
#define HASHES 4096

/* The number of places, from its own one on, where a hash may be. */
#define HASH_TRIES 16

/* User space clears the hashes of a slot when it gives up the slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set when loading: HASHES for each slot if discovery is on */
	__type(key, __u32);
	__type(value, __u64); /* 0: free */
} hashes SEC(".maps");

/* A name. The list has names in the order in which they were first seen. */
struct seen_name {
	__u32 length; /* in bytes, with the NUL; written last: 0 until the name is complete */
	__u32 pid;    /* of the VM where the name was first seen */
	char name[NAME_MAX + 1];
};

/* User space maps it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set when loading: MAX_NAMES for each slot if discovery is on */
	__type(key, __u32);
	__type(value, struct seen_name);
} seen_names SEC(".maps");

/* How many names were seen in each VM, by its slot, including those that did not fit in the list.
 * User space maps it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the number of slots; set when loading */
	__type(key, __u32);
	__type(value, __u64);
} names_seen SEC(".maps");

/* Names are read in pieces of this many bytes, each followed by a NUL, because the stack is
 * small. */
#define PIECE 63

#define HASH_FACTOR 0x9ddfea08eb382d69ULL

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * HASH_FACTOR;
	return hash ^ hash >> 47;
}

/* Hashes the name at addr. Returns 0 if the name cannot be read, is empty or is too long. Not
 * static, like note_rank, and because the stack is small. */
__noinline __u64 hash_name(__u64 addr)
{
	__u64 hash = 0;

	for (__u32 done = 0; done <= NAME_MAX; done += PIECE) {
		__u64 text[(PIECE + 1) / 8] = {}; /* the zeros after the name are hashed too */
		long n = bpf_probe_read_user_str(text, sizeof(text), (void *)(addr + done));

		if (n <= 0 || done + n - 1 > NAME_MAX)
			return 0;
		for (int i = 0; i < (PIECE + 1) / 8 && i * 8 < n; i++)
			hash = mix(hash, text[i]);
		if (n <= PIECE) {
			done += n - 1;
			return done ? mix(hash, done) | 1 : 0; /* never 0 */
		}
	}
	return 0;
}

/* The result of a look-up of a hash. */
enum found { KNOWN, NEW, NO_PLACE };

/* Looks up a hash among those of a slot, and adds it if it is new. If several threads look it up at
 * the same time, it is NEW for one of them only. */
static __always_inline enum found find_hash(__u64 hash, __u32 slot)
{
	for (__u32 i = 0; i < HASH_TRIES; i++) {
		__u32 at = slot * HASHES + (hash / 2 + i) % HASHES; /* / 2: the lowest bit is always 1 */
		__u64 *place = bpf_map_lookup_elem(&hashes, &at);
		__u64 there;

		if (!place)
			return NO_PLACE;
		there = *(volatile __u64 *)place;
		if (!there)
			there = __sync_val_compare_and_swap(place, 0, hash);
		if (!there)
			return NEW;
		if (there == hash)
			return KNOWN;
	}
	return NO_PLACE;
}

/* Stores the name at addr of a span that started in a VM, unless the name is known. Not static,
 * like note_rank. */
__noinline int note_name(__u64 addr, __u32 pid)
{
	__u64 hash = hash_name(addr);
	__u32 slot = vm_slot(pid), at;
	__u64 *count;
	struct seen_name *seen;
	long n;

	if (!hash) {
		count_other(NAMELESS);
		return 0;
	}
	switch (find_hash(hash, slot)) {
	case KNOWN:
		return 0;
	case NO_PLACE:
		count_other(UNNOTED);
		return 0;
	case NEW:
		break;
	}
	count = bpf_map_lookup_elem(&names_seen, &slot);
	if (!count)
		return 0;
	at = __sync_fetch_and_add(count, 1);
	if (at >= MAX_NAMES)
		return 0;
	at += slot * MAX_NAMES;
	seen = bpf_map_lookup_elem(&seen_names, &at);
	if (!seen)
		return 0;
	n = bpf_probe_read_user_str(seen->name, sizeof(seen->name), (void *)addr);
	seen->pid = pid;
	/* hash_name has just read the name. If it is not readable any more, the entry has an empty
	 * name. */
	__sync_lock_test_and_set(&seen->length, n > 0 ? n : 1);
	return 0;
}

#endif
