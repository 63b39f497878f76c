/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* The shares of users in the room for open instances and for their queues. Without shares, one VM
 * with very many of them would take the room of all others. */

#ifndef ROOM_BPF_H
#define ROOM_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "vm.bpf.h"

/* A share in the hash map spans or queues. The programs count its entries as they add and delete
 * them. That count is wrong by a few if they race. So each sweep corrects it by the number of
 * entries that it sees. */
struct room {
	__s64 limit;  /* of entries, written by user space */
	__s64 used;   /* entries */
	__s64 before; /* entries when the sweep began */
	__s64 seen;   /* entries that the sweep has seen */
	__s64 ended;  /* entries that the sweep has kept although they have ended */
};

/* The first room is for the VMs of all users without a room. */
#define ROOMS 128

/* The shares in spans. User space maps it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ROOMS);
	__type(key, __u32);
	__type(value, struct room);
} rooms SEC(".maps");

/* The shares in queues, with the same indexes. User space maps it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ROOMS);
	__type(key, __u32);
	__type(value, struct room);
} queue_rooms SEC(".maps");

/* The index of each user's room. User space writes it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} room_users SEC(".maps");

/* Returns the index of a VM's room. */
static __always_inline __u32 room_of(__u32 pid)
{
	__u32 user = vm_user(pid), *at = bpf_map_lookup_elem(&room_users, &user);

	return at ? *at : 0;
}

static __always_inline struct room *room_at(__u32 at)
{
	return bpf_map_lookup_elem(&rooms, &at);
}

/* Takes a place for an entry. Returns false if the room is full; the place is taken nevertheless. */
static __always_inline bool take_place(struct room *r)
{
	return __sync_fetch_and_add(&r->used, 1) < *(volatile __s64 *)&r->limit;
}

static __always_inline void free_place(struct room *r)
{
	__sync_fetch_and_add(&r->used, -1);
}

/* Reports whether a room was nearly full when the sweep began. */
static __always_inline bool was_crowded(const struct room *r)
{
	return r->before * 4 > r->limit * 3;
}

/* Prepares a room for a sweep. */
static long begin_counting(void *map, const __u32 *at, struct room *r, void *ctx)
{
	r->before = *(volatile __s64 *)&r->used;
	r->seen = r->ended = 0;
	return 0;
}

/* Corrects the number of entries in a room by the number that the sweep has seen. Others may have
 * added and deleted entries meanwhile. */
static long end_counting(void *map, const __u32 *at, struct room *r, void *ctx)
{
	if (r->seen != r->before)
		__sync_fetch_and_add(&r->used, r->seen - r->before);
	return 0;
}

#endif
