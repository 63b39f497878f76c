/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Discovery: which names spans have that are of no outcome. Each VM has room of its own, by
 * its slot, so that no VM's names take the room of another's.
 *
 * The span program does it, attached to every label: what is observed already costs
 * nothing more, and where two programs would run, one does.
 *
 * Most events are of a name that is known. So a name is looked for by a hash of 64
 * bits in a table that holds nothing else, and only who puts a new one there writes
 * the name itself, once, into the list that user space reads. Names never mix: one in
 * the list was read as a whole, from one event. Two names with the same hash would be
 * taken for one, and the second would not be found; of as many names as fit in the
 * table, any two have the same once in 10^12 times. */

#ifndef DISCOVER_BPF_H
#define DISCOVER_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "count.bpf.h"

const volatile bool discover; /* note names */

/* Names that the list of a VM has room for. */
#define MAX_NAMES 512

/* Places for the hashes of a VM, a power of two: so many more than names that one is free soon
 * behind where it should be, and that names beyond those in the list are still told
 * apart, to be counted. */
#define HASHES 4096

/* Places that a hash may be at, from where it should be on. */
#define HASH_TRIES 16

/* User space clears those of a slot that is given up. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set when loading, to HASHES a slot where there is discovery */
	__type(key, __u32);
	__type(value, __u64); /* 0: free */
} hashes SEC(".maps");

/* A name in the order in which they were seen. */
struct seen_name {
	__u32 length; /* in bytes, with the NUL; written last: 0 while it is not there */
	__u32 pid;    /* of the VM where it was seen first */
	char name[NAME_MAX + 1];
};

/* User space maps it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set when loading, to MAX_NAMES a slot where there is discovery */
	__type(key, __u32);
	__type(value, struct seen_name);
} seen_names SEC(".maps");

/* How many names were seen in each VM, by its slot, also those that the list has no room
 * for. User space maps it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* as many as there are slots; set when loading */
	__type(key, __u32);
	__type(value, __u64);
} names_seen SEC(".maps");

/* A name is read in pieces, for want of stack: of so many bytes, and a NUL behind. */
#define PIECE 63

#define HASH_FACTOR 0x9ddfea08eb382d69ULL

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * HASH_FACTOR;
	return hash ^ hash >> 47;
}

/* Hashes the name at addr; 0 where it cannot be read, is empty or too long. Not static,
 * as note_rank, and for want of stack. */
__noinline __u64 hash_name(__u64 addr)
{
	__u64 hash = 0;

	for (__u32 done = 0; done <= NAME_MAX; done += PIECE) {
		__u64 text[(PIECE + 1) / 8] = {}; /* zeros behind the name take part */
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

/* What a look for a hash found. */
enum found { KNOWN, NEW, NO_PLACE };

/* Looks for a hash among those of a slot, and puts it in where it is new: of several who try
 * at once, one finds it new. */
static __always_inline enum found find_hash(__u64 hash, __u32 slot)
{
	for (__u32 i = 0; i < HASH_TRIES; i++) {
		__u32 at = slot * HASHES + (hash / 2 + i) % HASHES; /* its lowest bit says nothing */
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

/* Notes the name at addr of a span that started in a VM, unless it is known. Not
 * static, as note_rank. */
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
	/* What was read just now is there; if it is not any more, the place is one of
	 * an empty name. */
	__sync_lock_test_and_set(&seen->length, n > 0 ? n : 1);
	return 0;
}

#endif
