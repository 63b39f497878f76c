/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Which Erlang VM this is: its OS pid, and the slot in which its counts are. */

#ifndef VM_BPF_H
#define VM_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* The pid namespace whose pids user space knows; inode 0: the initial one. */
const volatile __u64 pidns_dev;
const volatile __u64 pidns_ino;

/* Slots there are. The one of this number is for VMs that found none free. */
const volatile __u32 vm_slots = 1;

/* The slot of each VM by its pid. A VM that has none yet takes a free one. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} vms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1); /* as many as there are slots; set when loading */
	__type(value, __u32);
} free_slots SEC(".maps");

/* The VM in each slot by its pid, 0: none. User space maps it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* as many as there are slots; set when loading */
	__type(key, __u32);
	__type(value, __u64);
} slot_pids SEC(".maps");

/* pid << 32 | slot of VMs seen lately, at the low bits of their pid: a look-up
 * here costs a tenth of one in vms. */
#define VM_CACHE 256

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, VM_CACHE);
	__type(key, __u32);
	__type(value, __u64);
} vm_cache SEC(".maps");

/* The pid of the VM as user space knows it; 0 where it knows none, because the VM
 * is outside its pid namespace: not one of those that it observes. */
static __always_inline __u32 current_pid(void)
{
	if (pidns_ino) {
		struct bpf_pidns_info ns = {};

		if (bpf_get_ns_current_pid_tgid(pidns_dev, pidns_ino, &ns, sizeof(ns)))
			return 0;
		return ns.tgid;
	}
	return bpf_get_current_pid_tgid() >> 32;
}

static __always_inline void set_slot_pid(__u32 slot, __u64 pid)
{
	__u64 *place = bpf_map_lookup_elem(&slot_pids, &slot);

	if (place)
		*(volatile __u64 *)place = pid;
}

/* Two threads of a VM may ask at once for the first time: the one that comes
 * second gives its slot back. */
static __noinline __u32 find_slot(__u32 pid)
{
	__u32 *known = bpf_map_lookup_elem(&vms, &pid);
	__u32 slot;

	if (known)
		return *known;
	if (bpf_map_pop_elem(&free_slots, &slot))
		return vm_slots;
	set_slot_pid(slot, pid); /* before anything is counted there */
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

#endif
