/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Decides how an open instance ends, and counts it in the window of its end and in its group.
 * Streams it if required. */

#ifndef SETTLE_BPF_H
#define SETTLE_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "count.bpf.h"
#include "group.bpf.h"
#include "open.bpf.h"
#include "pid.bpf.h"
#include "worst.bpf.h"

/* When Erlang processes exited, until the next sweep. Used only if an outcome fails when its
 * process exits. */
struct exit_key {
	__u64 owner;
	__u64 pid; /* of the VM */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* rarely needed */
	__uint(max_entries, 1); /* set when loading */
	__type(key, struct exit_key);
	__type(value, __u64); /* ns */
} exits SEC(".maps");

/* An instance as it is streamed. If a failure has a class, the class follows it. */
struct instance {
	__u64 start_ns;
	__u64 end_ns;
	__u64 id;
	__u64 parent;
	__u64 owner;
	__u32 number; /* of the outcome's name */
	__u32 pid;
	enum column status; /* SUCCESSES, FAILURES or TIMEOUTS */
	__u32 pad;
};

#define CLASS_MAX 63

struct failed_instance {
	struct instance instance;
	char class[CLASS_MAX + 1];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* set when loading */
} ring SEC(".maps");

/* Returns how an open instance ends, and sets *end_ns to the time. The earliest of these counts:
 * the deadline, the exit of its process, and the event with this status at *end_ns. */
static __always_inline __u32 verdict(const struct outcome *o, const struct span *v, __u32 status,
				     __u64 *end_ns)
{
	if (o->flags & EXIT_FAILS) {
		struct exit_key key = {.owner = v->owner, .pid = v->key.pid};
		__u64 *exit_ns = bpf_map_lookup_elem(&exits, &key);

		if (exit_ns && *exit_ns >= v->start_ns && *exit_ns < *end_ns) {
			*end_ns = *exit_ns;
			status = FAILURES;
		}
	}
	if (*end_ns > v->start_ns + o->dmax_ns) {
		*end_ns = v->start_ns + o->dmax_ns;
		status = TIMEOUTS;
	}
	return status;
}

/* How an instance ended. */
struct ending {
	__u64 end_ns;
	__u32 status;
	bool inferred; /* start and end were paired by their order */
	__u32 slice;   /* SLICE, with DIRTY_SLICE on a dirty scheduler: amount is processor time; 0:
		        * no slice */
	__u64 amount;  /* from the end event */
	__u64 class;   /* address of the text of a failure's class; 0: none */
};

static __always_inline void fill_instance(struct instance *i, const struct outcome *o,
					  const struct span *v, const struct ending *e)
{
	i->start_ns = v->start_ns;
	i->end_ns = e->end_ns;
	i->id = v->key.id;
	i->parent = v->parent;
	i->owner = v->owner;
	i->number = o->number;
	i->pid = v->key.pid;
	i->status = e->status;
	i->pad = 0;
}

/* Sends an instance through the ring buffer, and returns -1 if there is no room. It does not wake
 * the reader, which polls: a wake-up costs three times as much as the rest of a hit. It writes the
 * instance directly into the buffer, because the stack is small. */
static __noinline int stream(const struct outcome *o, const struct span *v, const struct ending *e)
{
	if (e->status == FAILURES && e->class) {
		struct failed_instance *f = bpf_ringbuf_reserve(&ring, sizeof(*f), 0);

		if (!f)
			return -1;
		fill_instance(&f->instance, o, v, e);
		if (bpf_probe_read_user_str(f->class, sizeof(f->class), (void *)e->class) < 0)
			f->class[0] = 0;
		bpf_ringbuf_submit(f, BPF_RB_NO_WAKEUP);
	} else {
		struct instance *i = bpf_ringbuf_reserve(&ring, sizeof(*i), 0);

		if (!i)
			return -1;
		fill_instance(i, o, v, e);
		bpf_ringbuf_submit(i, BPF_RB_NO_WAKEUP);
	}
	return 0;
}

/* Counts an instance that has ended, in the row of the window of its end. */
static __always_inline int settle(const struct outcome *o, const struct series *s, __u32 row,
			     const struct span *v, const struct ending *e)
{
	__u64 end_ns = e->end_ns, delay = end_ns - v->start_ns;
	__u32 status = e->status;

	count(s, row, status);
	if (e->inferred)
		count(s, row, INFERRED);
	if (e->amount && !e->slice)
		count_more(s, row, AMOUNT, e->amount);
	if (status == SUCCESSES) {
		__u64 bin = delay / o->bin_ns;

		count(s, row, COLUMNS + (bin < o->bins ? bin : o->bins - 1));
	}
	if (o->flags & GROUPED && row != STRAY)
		count_group(v, row, status | e->slice, delay, e->amount);
	if (o->flags & STREAM && is_wanted(o, v, row, status, end_ns) && stream(o, v, e))
		count(s, row, RING_FULL);
	return 0;
}

#endif
