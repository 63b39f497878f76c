/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* The sweep ends instances for which no event will come, and deletes old entries. */

#ifndef SWEEP_BPF_H
#define SWEEP_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "count.bpf.h"
#include "open.bpf.h"
#include "queue.bpf.h"
#include "settle.bpf.h"
#include "watch.bpf.h"

/* The parameters of a sweep, and its results. */
struct sweep_request {
	__u64 until_ns;  /* end instances whose deadline, or whose process's exit, is before this */
	__u64 forget_ns; /* forget timed-out spans whose deadline is before this */
	__u64 crowd_ns;  /* the same in rooms that are nearly full */
	__u32 cut_all;   /* not 0: give up all instances */
	__u32 skip;      /* not 0: do not sweep the queues */
	__u64 asked;     /* not 0: there are entries in asked_vms */
	__u64 open;      /* out: spans that are still open */
	__u64 expired;   /* out: timed-out spans that are still remembered */
	__u64 exits;     /* entries that the sweep keeps in exits */
	__u64 queues;    /* entries that the sweep keeps in queues */
	__u64 watches;   /* entries that the sweep keeps in watches */
};

/* What user space asks about a VM. */
struct asked_vm {
	__u64 cut_ns; /* give up instances that began before this and have neither timed out nor failed */
	__u64 open;   /* out: spans that are still open */
};

/* From and for user space: the VMs that the next sweep treats separately, by pid. */
#define MAX_ASKED 1024
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_ASKED);
	__type(key, __u32);
	__type(value, struct asked_vm);
} asked_vms SEC(".maps");

/* From and for user space: the request of the next sweep. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sweep_request);
} sweep_requests SEC(".maps");

/* Reports whether an end may already have taken an instance out of order: its queue allows that,
 * and some instance has left it. Then it is unknown whether the instance has timed out. */
static __always_inline bool may_be_taken(const struct outcome *o, const struct span *open)
{
	bool second = open->key.seq & SECOND_STAGE;
	struct queue *q;

	if (!(o->flags & SELECTIVE) || open->key.seq & (BY_TOKEN | BY_ADDRESS))
		return false;
	if (o->flags & STAGED && !second)
		return false;
	q = queue_at(&open->key, second);
	return !q || *(volatile __u64 *)&q->taken;
}

/* Sweeps one span. Returns true if the span ended here, with a copy in open. *timed_out is false if
 * it was cut. */
static __always_inline bool sweep_span(struct span *v, struct sweep_request *w,
				       struct span *open, bool *timed_out)
{
	struct outcome *o;
	struct asked_vm *asked = NULL;
	struct ending end = {.end_ns = w->until_ns};
	struct series s;

	if (!read_open(v, open))
		return false;
	o = bpf_map_lookup_elem(&outcomes, &open->outcome);
	if (!o)
		return false;
	if (w->asked)
		asked = bpf_map_lookup_elem(&asked_vms, &open->key.pid);
	end.status = w->cut_all ? CUT : verdict(o, open, COLUMNS, &end.end_ns);
	if (end.status == COLUMNS && asked && open->start_ns < asked->cut_ns)
		end.status = CUT;
	if (end.status == COLUMNS) {
		w->open++;
		if (asked)
			asked->open++;
		return false;
	}
	*timed_out = end.status != CUT;
	if (!take(v, open))
		return false;
	if (is_placeholder(open))
		return true;
	s = series_of(o, open->key.pid);
	if (end.status == CUT)
		count(&s, row_at(end.end_ns), CUT);
	else if (may_be_taken(o, open) || may_be_fetched(o, open))
		count(&s, row_at(end.end_ns), UNPAIRED);
	else
		settle(o, &s, row_at(end.end_ns), open, &end);
	return true;
}

/* Counts an entry of the hash map that is kept although it has ended. */
static __always_inline void kept_ended(struct sweep_request *w, struct room *r)
{
	w->expired++;
	if (r)
		r->ended++;
}

/* Moves a timed-out span to the hash map, which remembers it for longer. */
static long sweep_recent(void *map, const __u32 *at, struct span *v, struct sweep_request *w)
{
	__u64 start_ns = *(volatile __u64 *)&v->start_ns;
	struct span open;
	bool timed_out;

	if (!start_ns || start_ns & ENDED) /* true of most places: skip them without a copy */
		return 0;
	if (!sweep_span(v, w, &open, &timed_out) || !timed_out)
		return 0;
	open.start_ns |= ENDED;
	if (add_hashed(&open))
		kept_ended(w, room_at(open.room));
	return 0;
}

static long sweep_hashed(void *map, const struct span_key *k, struct span *v,
			 struct sweep_request *w)
{
	struct span_key key = *k;
	struct outcome *o = bpf_map_lookup_elem(&outcomes, &v->outcome);
	__u64 start_ns = *(volatile __u64 *)&v->start_ns;
	__u32 room = v->room;
	struct room *r = room_at(room);
	struct span open;
	bool timed_out;

	if (!o || !r)
		return 0;
	r->seen++;
	if (start_ns & ENDED) {
		__u64 forget_ns = was_crowded(r) ? w->crowd_ns : w->forget_ns;

		if ((start_ns & ~ENDED) + o->dmax_ns < forget_ns)
			delete_hashed(&key, room);
		else
			kept_ended(w, r);
		return 0;
	}
	if (!sweep_span(v, w, &open, &timed_out))
		return 0;
	if (timed_out)
		kept_ended(w, r);
	else
		delete_hashed(&key, room);
	return 0;
}

static long sweep_exit(void *map, const struct exit_key *k, __u64 *exit_ns,
		       struct sweep_request *w)
{
	struct exit_key key = *k;

	if (*exit_ns < w->until_ns)
		bpf_map_delete_elem(&exits, &key);
	else
		w->exits++;
	return 0;
}

/* A queue that is empty, or whose process has exited, is deleted only after this time, in ns: it
 * may soon be used again. */
#define QUEUE_IDLE 100000000

/* Reports whether a queue can be deleted: it has no instances, or none that can end or that must be
 * remembered as timed out. */
static __always_inline bool is_deletable(const struct span_key *k, struct queue *q, __u64 ends,
					 __u64 forget_ns)
{
	__u64 used_ns = *(volatile __u64 *)&q->used_ns;
	__u32 index = q->outcome;
	struct outcome *o = bpf_map_lookup_elem(&outcomes, &index);

	if (!o || o->rule != k->number || used_ns + o->dmax_ns < forget_ns)
		return true;
	if (ends >> 32 != (__u32)ends && !*(volatile __u64 *)&q->gone_ns)
		return false;
	return used_ns + QUEUE_IDLE < bpf_ktime_get_ns();
}

static long sweep_queue(void *map, const struct span_key *k, struct queue *q,
			struct sweep_request *w)
{
	__u64 ends = *(volatile __u64 *)&q->ends;
	struct room *r = queue_room_at(q->room), *of_spans = room_at(q->room);
	struct span_key key = *k;
	__u64 forget_ns;

	if (!r || !of_spans)
		return 0;
	r->seen++;
	forget_ns = was_crowded(of_spans) ? w->crowd_ns : w->forget_ns;
	if (!is_closed(ends) && (!is_deletable(&key, q, ends, forget_ns) || !close_queue(q, ends)))
		w->queues++;
	else if (!bpf_map_delete_elem(&queues, &key))
		free_place(r);
	return 0;
}

static long sweep_watch(void *map, const struct process_key *k, struct watch *v,
			struct sweep_request *w)
{
	struct process_key key = *k;
	__u64 until = *(volatile __u64 *)&v->until_ns;

	if (!is_watched(v, bpf_ktime_get_ns()) && take_watch(v, until))
		bpf_map_delete_elem(&watches, &key);
	else
		w->watches++;
	return 0;
}

/* Reports whether a map may have entries: the last sweep kept some, or some were added since. Also
 * marks those added as seen. */
static __always_inline bool may_have_entries(struct arrivals *a)
{
	__u64 count = *(volatile __u64 *)&a->count;
	bool may = a->left || count != a->seen;

	a->seen = count;
	return may;
}

/* User space runs the sweep before it reads a window. */
SEC("syscall")
int sweep(void *ctx)
{
	__u32 only = 0;
	__u32 of_spans = SPANS, of_exits = EXITS, of_queues = QUEUES, of_watches = WATCHES;
	struct arrivals *s = bpf_map_lookup_elem(&arrivals, &of_spans);
	struct arrivals *e = bpf_map_lookup_elem(&arrivals, &of_exits);
	struct arrivals *q = bpf_map_lookup_elem(&arrivals, &of_queues);
	struct arrivals *p = bpf_map_lookup_elem(&arrivals, &of_watches);
	struct sweep_request w, *r = bpf_map_lookup_elem(&sweep_requests, &only);

	if (!s || !e || !q || !p || !r)
		return 0;
	w = *r;
	w.open = w.expired = w.exits = w.queues = w.watches = 0;
	if (may_have_entries(s)) {
		bpf_for_each_map_elem(&rooms, begin_counting, NULL, 0);
		bpf_for_each_map_elem(&spans, sweep_hashed, &w, 0);
		bpf_for_each_map_elem(&rooms, end_counting, NULL, 0);
		s->left = w.open + w.expired;
	}
	bpf_for_each_map_elem(&recent, sweep_recent, &w, 0);
	if (may_have_entries(e)) {
		bpf_for_each_map_elem(&exits, sweep_exit, &w, 0);
		e->left = w.exits;
	}
	if (!w.skip && may_have_entries(q)) {
		bpf_for_each_map_elem(&queue_rooms, begin_counting, NULL, 0);
		bpf_for_each_map_elem(&queues, sweep_queue, &w, 0);
		bpf_for_each_map_elem(&queue_rooms, end_counting, NULL, 0);
		q->left = w.queues;
	}
	if (may_have_entries(p)) {
		bpf_for_each_map_elem(&watches, sweep_watch, &w, 0);
		p->left = w.watches;
	}
	r->open = w.open;
	r->expired = w.expired;
	return 0;
}

#endif
