/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Erlang VMs, by OS pid. Each VM has a slot, which holds its counters. */

#ifndef VM_BPF_H
#define VM_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "namespace.bpf.h"

/* The number of slots. The slot with this number is for all VMs that found none free. */
const volatile __u32 vm_slots = 1;

/* The slot of each VM by its pid. A new VM takes a free slot. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} vms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1); /* the number of slots; set when loading */
	__type(value, __u32);
} free_slots SEC(".maps");

/* The VM in each slot: user << 32 | pid; 0: none. user is the real user id of the process when it
 * took the slot, or NO_USER if that is unknown. User space maps it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the number of slots; set when loading */
	__type(key, __u32);
	__type(value, __u64);
} slot_pids SEC(".maps");

/* How often programs ran in VMs without a slot, by the user of the VM. If the map is full, the runs
 * of further users are not counted here. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} crowd_runs SEC(".maps");

/* Stands for an unknown user: no user has this id. */
#define NO_USER 0xffffffff

/* A cache of vms: pid << 32 | slot, at the low bits of the pid. A look-up here costs a tenth of one
 * in vms. */
#define VM_CACHE 256

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, VM_CACHE);
	__type(key, __u32);
	__type(value, __u64);
} vm_cache SEC(".maps");

/* Returns the user of a VM, or NO_USER if another process runs this program. */
static __always_inline __u32 running_user(__u32 pid)
{
	return current_pid() == pid ? (__u32)bpf_get_current_uid_gid() : NO_USER;
}

/* Does the same. Like count_crowd this is a global function: the verifier checks it once, not at
 * each call. */
__noinline __u32 user_of(__u32 pid) { return running_user(pid); }

/* Counts a run of a program in a VM without a slot. */
__noinline int count_crowd(__u32 pid)
{
	__u32 user = user_of(pid);
	__u64 *runs = bpf_map_lookup_elem(&crowd_runs, &user), none = 0;

	if (!runs) {
		bpf_map_update_elem(&crowd_runs, &user, &none, BPF_NOEXIST);
		runs = bpf_map_lookup_elem(&crowd_runs, &user);
	}
	if (runs)
		__sync_fetch_and_add(runs, 1);
	return 0;
}

static __always_inline void set_slot_pid(__u32 slot, __u64 entry)
{
	__u64 *place = bpf_map_lookup_elem(&slot_pids, &slot);

	if (place)
		*(volatile __u64 *)place = entry;
}

/* Finds the slot of a VM, or takes a free one. If two threads of a VM do that at the same time, the
 * second one gives its slot back. */
static __noinline __u32 find_slot(__u32 pid)
{
	__u32 *known = bpf_map_lookup_elem(&vms, &pid);
	__u32 slot;

	if (known)
		return *known;
	if (bpf_map_pop_elem(&free_slots, &slot))
		return vm_slots;
	set_slot_pid(slot, (__u64)user_of(pid) << 32 | pid); /* before the first count */
	if (!bpf_map_update_elem(&vms, &pid, &slot, BPF_NOEXIST))
		return slot;
	set_slot_pid(slot, 0);
	bpf_map_push_elem(&free_slots, &slot, 0);
	known = bpf_map_lookup_elem(&vms, &pid);
	return known ? *known : vm_slots;
}

static __always_inline __u32 vm_slot(__u32 pid)
{
	__u32 at = pid % VM_CACHE;
	__u64 *cached = bpf_map_lookup_elem(&vm_cache, &at);
	__u64 entry = cached ? *(volatile __u64 *)cached : 0;
	__u32 slot;

	if (entry && entry >> 32 == pid)
		return entry;
	slot = find_slot(pid);
	if (cached && slot < vm_slots)
		*(volatile __u64 *)cached = (__u64)pid << 32 | slot;
	return slot;
}

/* Returns the user of a VM, or NO_USER if it is unknown. Unlike vm_slot this takes no slot. It calls no
 * function, because chains of calls that end here leave little stack. */
static __always_inline __u32 vm_user(__u32 pid)
{
	__u32 at = pid % VM_CACHE, slot = vm_slots, user = NO_USER, *known;
	__u64 *cached = bpf_map_lookup_elem(&vm_cache, &at);
	__u64 with_slot = cached ? *(volatile __u64 *)cached : 0, *entry;

	if (with_slot >> 32 == pid)
		slot = with_slot;
	else if ((known = bpf_map_lookup_elem(&vms, &pid)))
		slot = *known;
	entry = bpf_map_lookup_elem(&slot_pids, &slot); /* NULL without a slot */
	if (entry)
		user = *(volatile __u64 *)entry >> 32;
	return user == NO_USER ? running_user(pid) : user;
}

#endif
