/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Outcomes, and how what happens to them becomes a cell to count in. */

#ifndef COUNT_BPF_H
#define COUNT_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "vm.bpf.h"

/* Windows that have rows of their own at one time: one that is being read, one
 * that is being waited for, one that is filling, and five in reserve for a
 * reader that was kept from the processor. */
#define WINDOWS 8

/* The row for what belongs to no window that still has a row. All of it is loss. */
#define STRAY WINDOWS

/* Longest name of an outcome in bytes, without the NUL. */
#define NAME_MAX 255

/* A label, the number of a user_trace probe, is below this. */
#define LABELS 951

/* Columns of a row of cells. The bins of the delays of successes follow them. */
enum column {
	STARTS,      /* start events */
	ENDS,        /* end and fail events */
	SUCCESSES,   /* instances that ended in time */
	FAILURES,    /* instances that were said to have failed, in time */
	TIMEOUTS,    /* instances that were still open at start + dMax */
	ORPHANS,     /* ends without a start that we know of */
	LATES,       /* ends of instances that had ended before */
	READ_ERRORS, /* events lost: an argument could not be read */
	MAP_FULL,    /* instances lost: no room among the open spans, or for their queue */
	RING_FULL,   /* instances not streamed: no room in the ring buffer */
	CUT,         /* open instances given up because nobody will see their end */
	EXITS_LOST,  /* exits of processes that were not noted */
	DROPPED,     /* events of VM probes that did not satisfy the conditions */
	INFERRED,    /* instances of which start and end were paired by their order */
	UNPAIRED,    /* instances whose end is not known: another start overtook it, or their queue is out of order */
	AMOUNT,      /* sum of what the ends of instances told */
	COLUMNS,
};

/* Flags of an outcome. */
#define STREAM (1 << 0)     /* send instances through the ring buffer */
#define WORST (1 << 1)      /* of these only the worst of each window */
#define EXIT_FAILS (1 << 2) /* the death of its process ends an instance as a failure */
#define GROUPED (1 << 3)    /* instances are counted in groups besides */
#define BY_SPAWN (1 << 4)   /* the group of a process is the function that it was spawned with */
#define EXPLAIN (1 << 5)    /* log what happens to the processes that take part */
#define SELECTIVE (1 << 6)  /* ends take instances out of their queue in any order */
#define STAGED (1 << 7)     /* instances go through a second stage, with a queue of its own */

/* An outcome as user space describes it, for as long as it stays as it is. When
 * it is to change, another entry takes its place on its label, and what started
 * before goes on to be counted here. So an entry says one thing for all its life,
 * but for until_ns, next and flags, each of which is written in one go. */
struct outcome {
	__u64 since_ns; /* what starts before this is of previous */
	__u64 until_ns; /* what starts from this on is of another entry, or of none */
	__u64 dmax_ns;
	__u64 bin_ns;
	__u32 bins;
	__u32 cells;    /* index of its first cell in a stripe */
	__u32 label;
	__u32 number;   /* of its name: entries that follow each other have the same */
	__u32 previous; /* 1 + index of the entry that this one replaces, 0: none */
	__u32 next;     /* 1 + index of the next outcome on this label, 0: none */
	__u32 flags;
	__u32 rule;     /* what its keys have for a number, where it has a rule: no other entry had it */
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

/* A time in which windows have one length. */
struct era {
	__u64 from_ns;   /* CLOCK_MONOTONIC, where its first window begins; ~0: there is no such era */
	__u64 window_ns;
	__u64 first;     /* number of its first window */
};

/* Where windows begin. An era ends where the other one begins, and windows are
 * numbered on. User space writes a new era over the one whose windows are all
 * read, from_ns last; and it advances oldest as it reads. */
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

/* Counts that only ever grow. User space maps them and takes differences, so
 * that nothing stops while it reads and nothing is lost to a reset.
 *
 * Stripe s of a counter is at s * stripe_cells + outcome.cells +
 * (slot * (WINDOWS + 1) + row) * (COLUMNS + bins) + column. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* stripes * stripe_cells; set when loading */
	__type(key, __u32);
	__type(value, __u64);
} cells SEC(".maps");

const volatile __u32 stripe_mask;      /* stripes - 1; as many as processors, as a rule */
const volatile __u32 stripe_cells = 1; /* cells in a stripe */

/* What has no outcome to be counted at: the first cells of a stripe. */
enum other {
	FOREIGN, /* user_trace events that are not the wrapper's version 1 */
	NAMELESS, /* starts of which discovery could not read the name, or that have none */
	UNNOTED, /* starts of names for which discovery had no place to tell whether it knows them */
	UNWATCHED, /* processes that take part in a span and found no room to be watched */
	RETURNS, /* runs of a program where a function returns */
	STEPPED, /* runs of a program for which the kernel single-steps an instruction */
	TRACED,  /* runs of a program at tracepoints of the kernel */
	OTHERS,  /* the runs of programs in each VM, by its slot, are in the cells from here on */
};

/* The row of the window that contains t. */
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

/* The cells of one outcome of one VM, on this processor's stripe. */
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

/* Counts atomically: a program may lose the processor to another thread that
 * runs the same program on the same stripe. */
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

/* What it costs to get into a program at a probe, beside the program itself. */
const volatile bool at_return;
const volatile bool is_stepped;

/* Counts a run of a program in a VM. A pid of 0 is a VM that is not known. */
static __always_inline void count_run(__u32 pid)
{
	count_cell(stripe() + OTHERS + (pid ? vm_slot(pid) : vm_slots), 1);
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
