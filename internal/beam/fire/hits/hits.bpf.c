//go:build ignore

// SPDX-License-Identifier: Apache-2.0 OR MIT

/* Counts hits of places in a program, separately inside and outside of the periods
 * that two of the places delimit. */

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The cookie of a place: the number of its counter, and its mark. */
#define NUMBER 0xffffffffULL
#define BEGINS (1ULL << 32)
#define ENDS (1ULL << 33)

struct counter {
	__u64 inside;
	__u64 outside;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set when loading */
	__type(key, __u32);
	__type(value, struct counter);
} counters SEC(".maps");

/* Whether a period is open. Hits of both marks count as inside. */
__u32 inside;

SEC("uprobe.multi")
int hit(void *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 number = cookie & NUMBER;
	struct counter *c = bpf_map_lookup_elem(&counters, &number);

	if (cookie & BEGINS)
		*(volatile __u32 *)&inside = 1;
	/* Atomic, as a hit can interrupt the program during another hit on the same
	 * processor. */
	if (c)
		__sync_fetch_and_add(*(volatile __u32 *)&inside ? &c->inside : &c->outside, 1);
	if (cookie & ENDS)
		*(volatile __u32 *)&inside = 0;
	return 0;
}
