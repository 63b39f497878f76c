/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Outcomes and their counters. */

#ifndef COUNT_BPF_H
#define COUNT_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "vm.bpf.h"

/* The number of windows that have rows at the same time: one that is being read, one that will be
 * read next, one that is filling, and five in reserve in case the reader is delayed. */
#define WINDOWS 8

/* The row for events of windows that have no row. Everything in it counts as loss. */
#define STRAY WINDOWS

/* Longest name of an outcome in bytes, without the NUL. */
#define NAME_MAX 255

/* Labels, the numbers of user_trace probes, are less than this. */
#define LABELS 951

/* Columns of a row of cells. The bins for the delays of successes follow them. */
enum column {
	STARTS,      /* start events */
	ENDS,        /* end and fail events */
	SUCCESSES,   /* instances that ended in time */
	FAILURES,    /* instances that failed in time */
	TIMEOUTS,    /* instances that were still open at start + dMax */
	ORPHANS,     /* ends whose start is unknown */
	LATES,       /* ends of instances that had already ended */
	READ_ERRORS, /* events lost: an argument could not be read */
	MAP_FULL,    /* instances lost: no room among the open spans, or for their queue */
	RING_FULL,   /* instances that were not streamed: no room in the ring buffer */
	CUT,         /* open instances given up because their end will not be seen */
	EXITS_LOST,  /* process exits that could not be stored */
	DROPPED,     /* events of VM probes that were ignored, such as those that fail the condition */
	INFERRED,    /* instances whose start and end were paired by their order */
	UNPAIRED,    /* instances whose end is unknown: another start replaced them, or their queue
		      * is out of order */
	AMOUNT,      /* sum of the amounts in end events */
	COLUMNS,
};

/* Flags of an outcome. */
#define STREAM (1 << 0)     /* send instances through the ring buffer */
#define WORST (1 << 1)      /* with STREAM: send only the worst of each window */
#define EXIT_FAILS (1 << 2) /* the exit of its process ends an instance as a failure */
#define GROUPED (1 << 3)    /* instances are also counted in groups */
#define BY_SPAWN (1 << 4)   /* the group of a process is the function with which it was spawned */
#define EXPLAIN (1 << 5)    /* log the events of processes that take part */
#define SELECTIVE (1 << 6)  /* ends take instances out of their queue in any order */
#define STAGED (1 << 7)     /* instances go through a second stage, which has its own queue */

/* An entry for an outcome, written by user space. To change an outcome, user space adds another
 * entry, which replaces this one on its label. Instances that started before are still counted
 * here. So an entry never changes, except for until_ns, next and flags, each of which is written
 * atomically. */
struct outcome {
	__u64 since_ns; /* starts before this time belong to previous */
	__u64 until_ns; /* starts from this time on belong to another entry, or to none */
	__u64 dmax_ns;
	__u64 bin_ns;
	__u32 bins;
	__u32 cells;    /* index of its first cell in a stripe */
	__u32 label;
	__u32 number;   /* of its name: all entries of the name have the same */
	__u32 previous; /* 1 + index of the entry that this one replaces, 0: none */
	__u32 next;     /* 1 + index of the next outcome on this label, 0: none */
	__u32 flags;
	__u32 rule;     /* with a rule: number in the keys of its instances, unique to this entry */
	__u64 name_len; /* in bytes, without the NUL */
	char name[NAME_MAX + 1];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set when loading */
	__type(key, __u32);
	__type(value, struct outcome);
} outcomes SEC(".maps");

/* 1 + index of the first outcome on each label, 0: none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LABELS);
	__type(key, __u32);
	__type(value, __u32);
} labels SEC(".maps");

/* A period in which all windows have the same length. */
struct era {
	__u64 from_ns;   /* CLOCK_MONOTONIC, the beginning of its first window; ~0: the era is unused */
	__u64 window_ns;
	__u64 first;     /* number of its first window */
};

/* Where windows begin. An era ends where the other one begins, and the numbers of windows continue.
 * When user space has read all windows of an era, it can overwrite that era with a new one; it
 * writes from_ns last. It advances oldest as it reads. */
struct clock {
	struct era eras[2];
	__u64 oldest; /* number of the oldest window that is not yet read */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct clock);
} clocks SEC(".maps");

/* Counters. User space maps them and exchanges each for zero in one step, so that a reading neither
 * stops the programs nor loses counts.
 *
 * Stripe s of a counter is at s * stripe_cells + outcome.cells + (slot * (WINDOWS + 1) + row) *
 * (COLUMNS + bins) + column. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* stripes * stripe_cells; set when loading */
	__type(key, __u32);
	__type(value, __u64);
} cells SEC(".maps");

const volatile __u32 stripe_mask;      /* stripes - 1; usually one stripe for each processor */
const volatile __u32 stripe_cells = 1; /* cells in a stripe */

/* Counters that belong to no outcome: the first cells of a stripe. */
enum other {
	FOREIGN, /* user_trace events that are not of version 1 of the wrapper */
	NAMELESS, /* starts whose name discovery cannot use: unreadable, empty or too long */
	UNNOTED, /* starts whose name found no free place in the table of discovery */
	UNWATCHED, /* processes that take part in a span but found no room to be watched */
	RETURNS, /* runs of programs at the return of a function */
	STEPPED, /* runs of programs at an instruction that the kernel single-steps */
	TRACED,  /* runs of programs at tracepoints of the kernel */
	OTHERS,  /* from here on: the runs of programs in each VM, by its slot */
};

/* Returns the row of the window that contains t. */
static __always_inline __u32 row_at(__u64 t)
{
	__u32 zero = 0;
	struct clock *c = bpf_map_lookup_elem(&clocks, &zero);
	struct era *e, *other;
	__u64 window;

	if (!c)
		return STRAY;
	e = &c->eras[0];
	other = &c->eras[1];
	if (other->from_ns <= t && (e->from_ns > t || e->from_ns < other->from_ns))
		e = other;
	if (t < e->from_ns)
		return STRAY;
	window = e->first + (t - e->from_ns) / e->window_ns;
	return window - c->oldest < WINDOWS ? window % WINDOWS : STRAY;
}

/* The cells of an outcome and a VM, in this processor's stripe. */
struct series {
	__u32 first; /* cell of row 0, column 0 */
	__u32 width; /* of a row */
};

static __always_inline __u32 stripe(void)
{
	return (bpf_get_smp_processor_id() & stripe_mask) * stripe_cells;
}

static __always_inline struct series series_of(const struct outcome *o, __u32 pid)
{
	struct series s;

	s.width = COLUMNS + o->bins;
	s.first = stripe() + o->cells + vm_slot(pid) * (WINDOWS + 1) * s.width;
	return s;
}

/* Adds to a cell atomically: another thread may preempt the program and run it on the same
 * stripe. */
static __always_inline void count_cell(__u32 i, __u64 n)
{
	__u64 *cell = bpf_map_lookup_elem(&cells, &i);

	if (cell)
		__sync_fetch_and_add(cell, n);
}

static __always_inline void count_more(const struct series *s, __u32 row, __u32 column, __u64 n)
{
	count_cell(s->first + row * s->width + column, n);
}

static __always_inline void count(const struct series *s, __u32 row, __u32 column)
{
	count_more(s, row, column, 1);
}

static __always_inline void count_other(enum other which)
{
	count_cell(stripe() + which, 1);
}

/* How the kernel enters the program, which adds to its cost: at the return of a function, or by
 * single-stepping an instruction. */
const volatile bool at_return;
const volatile bool is_stepped;

/* Counts a run of a program in a VM. pid is 0 if the VM is unknown. */
static __always_inline void count_run(__u32 pid)
{
	__u32 slot = pid ? vm_slot(pid) : vm_slots;

	count_cell(stripe() + OTHERS + slot, 1);
	if (slot >= vm_slots)
		count_crowd(pid);
}

/* Counts a run of a program at a probe. */
static __always_inline void count_hit(__u32 pid)
{
	count_run(pid);
	if (at_return)
		count_other(RETURNS);
	if (is_stepped)
		count_other(STEPPED);
}

/* Counts a run of a program at a tracepoint. */
static __always_inline void count_traced(__u32 pid)
{
	count_run(pid);
	count_other(TRACED);
}

#endif
