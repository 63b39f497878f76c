/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* The log of what happened to the processes that take part in open spans: a flight
 * recorder. Nobody is woken and nothing waits for a reader: the newest records overwrite
 * the oldest, and a reader finds out how many it missed. */

#ifndef LOG_BPF_H
#define LOG_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "count.bpf.h"

/* What happened, see the kinds of bpf.EventKind. */
enum logged {
	LOG_NOTHING,
	LOG_WATCH,
	LOG_UNWATCHED,
	LOG_SPAN_START,
	LOG_SPAN_END,
	LOG_IN,
	LOG_OUT,
	LOG_GC_START,
	LOG_GC_END,
	LOG_NIF_START,
	LOG_NIF_END,
	LOG_SEND,
	LOG_QUEUED,
	LOG_RECEIVE,
	LOG_SUSPEND,
	LOG_EXIT,
	LOG_OFF_CPU,
	LOG_NEIGHBOUR,
	LOG_RESUME,
	LOG_HOLD,
	LOG_RELEASE,
	LOG_READY,
	LOG_MONITOR,
};

/* Where a message comes from, as the VM keeps it with the message. What other is then. */
enum origin {
	ORIGIN_UNKNOWN,
	ORIGIN_PROCESS, /* a process of this node, or the VM for its sake */
	ORIGIN_PORT,    /* the number of a port */
	ORIGIN_ATOM,    /* the index of an atom: a part of the VM, or another node; in the upper half that
			 * of the atom with which the message begins if it is a tuple of four */
	ORIGIN_DOWN,    /* the process whose end a monitor tells of */
};

/* Flags of a record. */
#define LOG_ALIAS (1 << 0)    /* a message was sent to an alias */
#define LOG_STRANGER (1 << 1) /* who sent it, or ends the span, is not watched */
#define LOG_AGAIN (1 << 2)    /* a process runs, and was the last one that ran on the thread */
#define LOG_PORT (1 << 3)     /* a process is suspended because of a port */
#define LOG_ADDRESS (1 << 4)  /* a message has no token; its address is there instead of label and prev */

struct record {
	__u64 place; /* 1 + its number in its stripe, 0 while it is being written */
	__u64 now;
	__u64 process;
	__u64 other; /* a process, the number of a port, the hash of a text, the id of a span; the
		      * state of LOG_READY */
	__u32 pid;   /* of the VM */
	__u32 tid;
	__u8 kind;
	__u8 flags;
	__u16 origin; /* of a message that is taken, an enum origin */
	__u32 size;        /* of a message; number of the name of a span's outcome; why a
			    * thread did not run, and its system call << 16 */
	__u64 details[2];  /* label, prev, cur and inner, four times 32 bits; from and to; state,
			    * alone of LOG_IN, and reductions, in the lower halves; or, of a
			    * suspension, its caller */
};

/* Stripe s has its records from s * (log_mask + 1) on. User space maps it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set when loading, where there is a log */
	__type(key, __u32);
	__type(value, struct record);
} log_records SEC(".maps");

const volatile __u32 log_mask; /* records of a stripe, a power of two, - 1 */

/* How many records each stripe has had; a cache line for each. User space maps it. */
struct log_head {
	__u64 next;
	__u64 pad[7];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* stripes; set when loading */
	__type(key, __u32);
	__type(value, struct log_head);
} log_heads SEC(".maps");

/* A record that is being written, and what its place will say when it is there. */
struct writing {
	struct record *to;
	__u64 place;
};

/* Takes a place, and sets what all records have. to is NULL where there is no log, and
 * where a thread that was kept from the processor still writes the record that was there
 * a round ago: then this one is lost, and never are two mixed. */
static __always_inline struct writing begin_record(__u8 kind, __u64 now, __u32 pid, __u64 process)
{
	__u32 stripe = bpf_get_smp_processor_id() & stripe_mask, at;
	struct log_head *head = bpf_map_lookup_elem(&log_heads, &stripe);
	struct writing w = {};

	if (!head)
		return w;
	w.place = __sync_fetch_and_add(&head->next, 1);
	at = stripe * (log_mask + 1) + (w.place & log_mask);
	w.place++;
	w.to = bpf_map_lookup_elem(&log_records, &at);
	if (!w.to)
		return w;
	if (!__sync_lock_test_and_set(&w.to->place, 0) && w.place > log_mask + 1) {
		w.to = NULL;
		return w;
	}
	w.to->now = now;
	w.to->process = process;
	w.to->other = 0;
	w.to->pid = pid;
	w.to->tid = bpf_get_current_pid_tgid();
	w.to->kind = kind;
	w.to->flags = 0;
	w.to->origin = 0;
	w.to->size = 0;
	w.to->details[0] = 0;
	w.to->details[1] = 0;
	return w;
}

/* Says that a record is there. */
static __always_inline void end_record(struct writing *w)
{
	__sync_lock_test_and_set(&w->to->place, w->place);
}

/* Logs what has no more to say than about whom it is, and one thing besides. Not static,
 * as note_rank. */
__noinline int log_plain(__u8 kind, __u64 now, __u32 pid, __u64 process, __u64 other)
{
	struct writing w = begin_record(kind, now, pid, process);

	if (!w.to)
		return 0;
	w.to->other = other;
	end_record(&w);
	return 0;
}

#endif
