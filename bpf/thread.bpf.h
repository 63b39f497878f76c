/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* The scheduler threads of VMs. */

#ifndef THREAD_BPF_H
#define THREAD_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* The VM of each scheduler thread, by the thread's id in the initial pid namespace. The entry is
 * written when the thread stops running, because a program can only find the process of the current
 * thread. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set when loading */
	__type(key, __u32);
	__type(value, __u32);
} threads SEC(".maps");

/* Returns the VM of a thread, or 0 if it is unknown. */
static __always_inline __u32 vm_of(__u32 tid)
{
	__u32 *pid = bpf_map_lookup_elem(&threads, &tid);

	return pid ? *pid : 0;
}

#endif
