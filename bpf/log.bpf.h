/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* The log of events of processes that take part in open spans: a flight recorder. Writers wake no
 * reader and never wait for one. The newest records overwrite the oldest, and a reader detects how
 * many it missed. */

#ifndef LOG_BPF_H
#define LOG_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "count.bpf.h"

/* The kinds of records, as bpf.EventKind describes them. */
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

/* The origin of a message, as the VM stores it with the message. It determines what the member
 * other is. */
enum origin {
	ORIGIN_UNKNOWN,
	ORIGIN_PROCESS, /* other is a process of this node; the VM may have sent the message on its
			 * behalf */
	ORIGIN_PORT,    /* other is the number of a port */
	ORIGIN_ATOM,    /* other is the index of an atom, which names a part of the VM or another
			 * node. If the message is a tuple of four that begins with an atom, the
			 * index of that atom is in the upper half */
	ORIGIN_DOWN,    /* the message is from a monitor; other is the process whose exit it reports */
};

/* Flags of a record. */
#define LOG_ALIAS (1 << 0)    /* the message was sent to an alias */
#define LOG_STRANGER (1 << 1) /* the sender of the message, or the process of the span, is not watched */
#define LOG_AGAIN (1 << 2)    /* the process that runs is also the last one that ran on the thread */
#define LOG_PORT (1 << 3)     /* the process is suspended because of a port */
#define LOG_ADDRESS (1 << 4)  /* the message has no token; label and prev contain its address */
#define LOG_UNSEEN (1 << 5)   /* of LOG_OFF_CPU: after the second time, it is unknown when the thread ran */
#define LOG_UNFETCHED (1 << 6) /* of a message: the VM does not report when a process fetches one */

struct record {
	__u64 place; /* 1 + the record's number in its stripe; 0: it is being written */
	__u64 now;
	__u64 process;
	__u64 other; /* by kind: a process, the number of a port, the hash of a text, the id of a
		      * span, the state of LOG_READY, or the suspensions of LOG_RESUME */
	__u32 pid;   /* of the VM */
	__u32 tid;
	__u8 kind;
	__u8 flags;
	__u16 origin; /* of a received message, an enum origin */
	__u32 size;        /* by kind: size of a message, number of the name of a span's outcome, or
			    * reason why a thread did not run | its system call << 16 */
	__u64 details[2];  /* by kind: label, prev, cur and inner of a message, 32 bits each; from
			    * and to; the state of LOG_IN or LOG_OUT, with the reductions of LOG_OUT,
			    * in the lower halves; or the caller of LOG_SUSPEND */
};

/* The records of stripe s begin at index s * (log_mask + 1). User space maps it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set when loading, if there is a log */
	__type(key, __u32);
	__type(value, struct record);
} log_records SEC(".maps");

const volatile __u32 log_mask; /* number of records in a stripe, a power of two, minus 1 */

/* How many records each stripe has ever had, one cache line for each. User space maps it. */
struct log_head {
	__u64 next;
	__u64 pad[7];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* number of stripes; set when loading */
	__type(key, __u32);
	__type(value, struct log_head);
} log_heads SEC(".maps");

/* A record that is being written, and the value of its member place once it is complete. */
struct writing {
	struct record *to;
	__u64 place;
};

/* Takes the next place in the log, and sets the members that all records have. to is NULL if there
 * is no log. It is also NULL if a thread that was preempted still writes the record that was here
 * one round ago. Then the new record is lost, but two records never mix. */
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

/* Marks a record as complete. */
static __always_inline void end_record(struct writing *w)
{
	__sync_lock_test_and_set(&w->to->place, w->place);
}

/* Logs a record with no details but other. Not static, like note_rank. */
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
