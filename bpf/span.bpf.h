/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* The wrapper's spans: user_trace events become outcome instances here. */

#ifndef SPAN_BPF_H
#define SPAN_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "args.bpf.h"
#include "count.bpf.h"
#include "discover.bpf.h"
#include "open.bpf.h"
#include "settle.bpf.h"
#include "watch.bpf.h"

/* Arguments of user_trace__nN; see docs/erlang.md for what the wrapper puts there. */
enum {
	ARG_PID,
	ARG_TAG,
	ARG_ID,
	ARG_EVENT,
	ARG_VERSION,
	ARG_PARENT,
	ARG_NAME,
	ARG_CLASS,
};

enum { EVENT_START = 1, EVENT_END = 2, EVENT_FAIL = 3 };

#define WRAPPER_VERSION 1

/* Outcomes whose names share one label; user space refuses more. */
#define OUTCOMES_PER_LABEL 8

/* What one event says. */
struct event {
	__u64 now;
	__u32 label;
	__u32 outcome;       /* entry, known when its name is */
	struct span_key key; /* the number in it likewise */
	__u64 name;          /* address */
	struct block block;
};

/* Names are compared in chunks of so many bytes, for want of stack. */
#define CHUNK 64

/* Compares the outcome's name with the string at addr: 1 same, 0 different,
 * negative: not readable. */
static __always_inline long same_name(const struct outcome *o, __u64 addr)
{
	const __u64 *name = (const __u64 *)o->name;
	__u64 size = (o->name_len & NAME_MAX) + 1; /* the NUL too */
	__u64 text[CHUNK / 8];

	for (__u64 done = 0; done < NAME_MAX + 1; done += CHUNK) {
		__u64 left = size - done;
		long err;

		err = bpf_probe_read_user(text, left < CHUNK ? left : CHUNK, (void *)(addr + done));
		if (err)
			return err;
		for (__u64 i = 0; i < CHUNK / 8; i++) {
			__u64 word = name[done / 8 + i];

			if (left <= (i + 1) * 8) {
				__u64 unused = ((i + 1) * 8 - left) * 8;

				return text[i] << unused == word << unused;
			}
			if (text[i] != word)
				return 0;
		}
	}
	return 0;
}

/* The entry among those of one name that what happens now is of, given the one on
 * the label and its index; NULL where the name is not observed now. */
static __always_inline struct outcome *entry_at(__u64 now, struct outcome *o, __u32 *index)
{
	if (now < o->since_ns) {
		*index = o->previous - 1; /* of no entry where there was none */
		o = bpf_map_lookup_elem(&outcomes, index);
	}
	return o && o->since_ns <= now && now < o->until_ns ? o : NULL;
}

/* Counts an event that could not be read at every outcome that it may have been of. */
static __noinline int read_error(struct event *e)
{
	__u32 *at = bpf_map_lookup_elem(&labels, &e->label);
	__u32 next = at ? *at : 0;

	for (int i = 0; i < OUTCOMES_PER_LABEL && next; i++) {
		__u32 index = next - 1;
		struct outcome *o = bpf_map_lookup_elem(&outcomes, &index);
		struct series s;

		if (!o)
			break;
		next = o->next;
		o = entry_at(e->now, o, &index);
		if (!o)
			continue;
		s = series_of(o, e->key.pid);
		count(&s, row_at(e->now), READ_ERRORS);
	}
	return 0;
}

/* The outcome that the event names, NULL where there is none. Discovery notes names
 * of no outcome, at their starts: what is not seen to start is no instance. */
static __always_inline struct outcome *named_outcome(struct event *e, bool starts)
{
	__u32 *at = bpf_map_lookup_elem(&labels, &e->label);
	__u32 next = at ? *at : 0;

	for (int i = 0; i < OUTCOMES_PER_LABEL && next; i++) {
		__u32 index = next - 1;
		struct outcome *o = bpf_map_lookup_elem(&outcomes, &index);
		long same;

		if (!o)
			return NULL;
		next = o->next;
		same = same_name(o, e->name);
		if (same < 0) {
			read_error(e);
			return NULL;
		}
		if (same) {
			e->key.number = o->number;
			o = entry_at(e->now, o, &index);
			e->outcome = index;
			return o;
		}
	}
	if (discover && starts)
		note_name(e->name, e->key.pid);
	return NULL;
}

/* Logs that a process starts or ends a span. */
static __noinline int log_span(struct event *e, __u64 process, __u32 number, __u8 kind)
{
	struct process_key k = {.process = process, .pid = e->key.pid};
	struct writing w = begin_record(kind, e->now, e->key.pid, process);

	if (!w.to)
		return 0;
	w.to->other = e->key.id;
	w.to->size = number;
	w.to->flags = find_watch(&k, e->now) ? 0 : LOG_STRANGER;
	end_record(&w);
	return 0;
}

/* How many times its dMax after a span's start it may be that processes are watched for
 * its sake. Where several spans lead to a process it is not known which of them goes on:
 * one that is late is in its mailbox still, and what comes behind it would not be known to. */
#define WATCH_DMAX 2

/* Has the process watched that started a span, which is at this place among the recent
 * ones, 0 for none. */
static __noinline int watch_owner(struct event *e, __u64 owner, __u64 dmax_ns, __u32 root)
{
	struct process_key k = {.process = owner, .pid = e->key.pid};
	struct watch by = {
		.until_ns = e->now + WATCH_DMAX * dmax_ns,
		.start_ns = e->now,
		.since_ns = e->now,
		.root = root,
	};

	return watch_process(&k, &by, 0);
}

static __always_inline void start(void *ctx, struct event *e)
{
	struct outcome *o = named_outcome(e, true);
	struct span v = {};
	struct series s;
	bool placed;
	__u64 pid;
	__u32 row;

	if (!o)
		return;
	s = series_of(o, e->key.pid);
	row = row_at(e->now);
	count(&s, row, STARTS);
	v.start_ns = e->now;
	v.key = e->key;
	v.outcome = e->outcome;
	if (o->flags & STREAM)
		read_arg(ctx, &e->block, ARG_PARENT, &v.parent);
	if (o->flags & (STREAM | EXIT_FAILS | GROUPED | EXPLAIN) && !read_arg(ctx, &e->block, ARG_PID, &pid))
		v.owner = erlang_pid(pid);
	if (o->flags & GROUPED)
		v.group = o->flags & BY_SPAWN ? spawn_group(v.owner, e->key.pid) : v.owner;
	placed = put_recent(&v, v.start_ns);
	if (o->flags & EXPLAIN) {
		watch_owner(e, v.owner, o->dmax_ns, placed ? recent_index(&v.key, 0) + 1 : 0);
		log_span(e, v.owner, o->number, LOG_SPAN_START);
	}
	if (placed)
		return;
	if (bpf_map_update_elem(&spans, &v.key, &v, BPF_ANY))
		count(&s, row, MAP_FULL);
	else
		arrived(SPANS);
}

/* Logs the end of a span, where that is wanted. */
static __always_inline void explain_end(void *ctx, struct event *e, const struct outcome *o)
{
	__u64 pid;

	if (o->flags & EXPLAIN && !read_arg(ctx, &e->block, ARG_PID, &pid))
		log_span(e, erlang_pid(pid), o->number, LOG_SPAN_END);
}

/* Ends the span that was read from v as open. */
static __always_inline void end_open(void *ctx, struct event *e, const struct outcome *o,
				     const struct series *s, __u32 row, struct span *v,
				     const struct span *open, __u32 status)
{
	__u64 now = e->now > open->start_ns ? e->now : open->start_ns; /* clocks of two processors */
	struct ending end = {.end_ns = now};

	if (!take(v, open)) {
		count(s, row, LATES);
		return;
	}
	end.status = verdict(o, open, status, &end.end_ns);
	if (end.end_ns != now) {
		count(s, row, LATES);
		row = row_at(end.end_ns);
	}
	if (end.status == FAILURES && o->flags & STREAM)
		read_arg(ctx, &e->block, ARG_CLASS, &end.class);
	settle(o, s, row, open, &end);
}

/* Ends a span that is not among the recent ones. */
static __always_inline void end_other(void *ctx, struct event *e, __u32 status)
{
	struct outcome *o = named_outcome(e, false);
	struct span *v, open;
	struct series s;
	bool found;
	__u32 row;

	if (!o)
		return;
	v = bpf_map_lookup_elem(&spans, &e->key);
	found = v && read_open(v, &open) && same_key(&open.key, &e->key);
	if (found) /* it may have started before the outcome changed */
		o = bpf_map_lookup_elem(&outcomes, &open.outcome);
	if (!o)
		return;
	explain_end(ctx, e, o);
	s = series_of(o, e->key.pid);
	row = row_at(e->now);
	count(&s, row, ENDS);
	if (!found) {
		count(&s, row, v ? LATES : ORPHANS);
		return;
	}
	end_open(ctx, e, o, &s, row, v, &open, status);
	bpf_map_delete_elem(&spans, &open.key);
	put_recent(&open, open.start_ns | ENDED);
}

static __always_inline void end(void *ctx, struct event *e, __u32 status)
{
	struct span *v = recent_at(&e->key, 0);
	struct outcome *o;
	struct span read;
	struct series s;
	bool open;
	__u32 row;

	if (!v)
		return;
	/* The id tells which span it is: it is unique within the VM. So the name
	 * need not be read, only that the outcome is on this label. */
	open = read_open(v, &read);
	o = bpf_map_lookup_elem(&outcomes, &read.outcome);
	if (!o || read.key.id != e->key.id || read.key.pid != e->key.pid ||
	    o->label != e->label || read.start_ns == BUSY) {
		end_other(ctx, e, status);
		return;
	}
	explain_end(ctx, e, o);
	s = series_of(o, e->key.pid);
	row = row_at(e->now);
	count(&s, row, ENDS);
	if (open)
		end_open(ctx, e, o, &s, row, v, &read, status);
	else
		count(&s, row, LATES);
}

/* At a user_trace probe. The cookie is the label. */
SEC("uprobe.multi")
int span(void *ctx)
{
	__u64 kind = 0, version = 0;
	struct event e;

	e.now = bpf_ktime_get_ns();
	e.label = bpf_get_attach_cookie(ctx);
	e.key.pid = current_pid();
	e.key.number = 0;
	e.key.seq = 0;
	if (!e.key.pid)
		return 0;
	count_other(HITS);
	if (read_block(ctx, &e.block) ||
	    read_arg(ctx, &e.block, ARG_EVENT, &kind) ||
	    read_arg(ctx, &e.block, ARG_VERSION, &version) ||
	    read_arg(ctx, &e.block, ARG_ID, &e.key.id) ||
	    read_arg(ctx, &e.block, ARG_NAME, &e.name)) {
		read_error(&e);
		return 0;
	}
	if (version != WRAPPER_VERSION || kind < EVENT_START || kind > EVENT_FAIL || !e.name)
		count_other(FOREIGN);
	else if (kind == EVENT_START)
		start(ctx, &e);
	else
		end(ctx, &e, kind == EVENT_END ? SUCCESSES : FAILURES);
	return 0;
}

/* Counts an exit that was not noted at the outcomes of which it may have been the
 * failure. */
static long exit_lost(void *map, const __u32 *at, struct outcome *o, struct exit_key *k)
{
	struct series s;

	if (o->flags & EXIT_FAILS) {
		s = series_of(o, k->pid);
		count(&s, row_at(bpf_ktime_get_ns()), EXITS_LOST);
	}
	return 0;
}

/* At process__exit, attached where the death of a process is a failure. */
SEC("uprobe.multi")
int process_exit(void *ctx)
{
	struct exit_key key = {.pid = current_pid()};
	__u64 now = bpf_ktime_get_ns();
	struct block block;
	__u64 addr;

	if (!key.pid)
		return 0;
	count_other(HITS);
	if (!read_block(ctx, &block) && !read_arg(ctx, &block, 0, &addr))
		key.owner = erlang_pid(addr);
	if (!key.owner || bpf_map_update_elem(&exits, &key, &now, BPF_ANY))
		bpf_for_each_map_elem(&outcomes, exit_lost, &key, 0);
	else
		arrived(EXITS);
	return 0;
}

#endif
