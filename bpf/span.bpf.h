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
#include "stack.bpf.h"
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
	__u64 kind;
	__u64 version;
	__u64 process;       /* address of its pid, 0: not known */
	__u64 parent;
	__u64 class;         /* address, 0: none */
	bool unreadable;     /* some of it could not be read */
};

/* Reads what an event says; false where it cannot be read. It reads everything at once,
 * so that the block need not be kept on the stack. */
static __always_inline bool read_event(void *ctx, struct event *e)
{
	struct block block;

	if (read_block(ctx, &block) ||
	    read_arg(ctx, &block, ARG_EVENT, &e->kind) ||
	    read_arg(ctx, &block, ARG_VERSION, &e->version) ||
	    read_arg(ctx, &block, ARG_ID, &e->key.id) ||
	    read_arg(ctx, &block, ARG_NAME, &e->name))
		return false;
	if (read_arg(ctx, &block, ARG_PID, &e->process))
		e->process = 0;
	if (read_arg(ctx, &block, ARG_PARENT, &e->parent))
		e->parent = 0;
	if (read_arg(ctx, &block, ARG_CLASS, &e->class))
		e->class = 0;
	return true;
}

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
			e->unreadable = true;
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
static __always_inline void watch_owner(struct event *e, __u64 owner, __u64 dmax_ns, __u32 root)
{
	struct process_key k = {.process = owner, .pid = e->key.pid};
	struct watch by = {
		.until_ns = e->now + WATCH_DMAX * dmax_ns,
		.start_ns = e->now,
		.since_ns = e->now,
		.root = root,
	};

	watch_process(&k, &by, 0);
}

/* The process of which an event tells the pid; 0 where it is not known. */
static __always_inline __u64 process_of(const struct event *e)
{
	return e->process ? erlang_pid(e->process) : 0;
}

/* Where a span was put. */
enum placed { PLACED_NOWHERE, PLACED_RECENT, PLACED_HASHED };

/* Puts a span that starts among the open ones. */
static __always_inline enum placed put_span(struct event *e, __u64 owner, __u32 flags)
{
	struct span v = {.start_ns = e->now, .key = e->key, .owner = owner, .outcome = e->outcome};

	if (flags & STREAM)
		v.parent = e->parent;
	if (flags & GROUPED)
		v.group = flags & BY_SPAWN ? spawn_group(owner, e->key.pid) : owner;
	if (put_recent(&v, v.start_ns))
		return PLACED_RECENT;
	if (bpf_map_update_elem(&spans, &v.key, &v, BPF_ANY))
		return PLACED_NOWHERE;
	arrived(SPANS);
	return PLACED_HASHED;
}

static __always_inline void start(struct event *e)
{
	struct outcome *o = named_outcome(e, true);
	enum placed placed;
	struct series s;
	__u64 owner = 0;
	__u32 row;

	if (!o)
		return;
	s = series_of(o, e->key.pid);
	row = row_at(e->now);
	count(&s, row, STARTS);
	if (o->flags & (STREAM | EXIT_FAILS | GROUPED | EXPLAIN))
		owner = process_of(e);
	placed = put_span(e, owner, o->flags);
	if (placed == PLACED_NOWHERE)
		count(&s, row, MAP_FULL);
	if (o->flags & EXPLAIN) {
		watch_owner(e, owner, o->dmax_ns,
			    placed == PLACED_RECENT ? recent_index(&e->key, 0) + 1 : 0);
		log_span(e, owner, o->number, LOG_SPAN_START);
	}
}

/* Ends the span that was read from v as open. */
static __always_inline void end_open(struct event *e, const struct outcome *o,
				     const struct series *s, __u32 row, struct span *v,
				     const struct span *open)
{
	__u64 now = e->now > open->start_ns ? e->now : open->start_ns; /* clocks of two processors */
	struct ending end = {.end_ns = now};

	if (!take(v, open)) {
		count(s, row, LATES);
		return;
	}
	end.status = verdict(o, open, e->kind == EVENT_END ? SUCCESSES : FAILURES, &end.end_ns);
	if (end.end_ns != now) {
		count(s, row, LATES);
		row = row_at(end.end_ns);
	}
	if (end.status == FAILURES && o->flags & STREAM)
		end.class = e->class;
	settle(o, s, row, open, &end);
}

/* A span that an event ends. */
struct ended {
	struct span *place; /* NULL where there is none */
	struct span read;   /* what is there */
	bool open;          /* it is open still */
	bool hashed;        /* it is not among the recent ones */
};

/* Finds the span of an end that is not among the recent ones, and returns its outcome;
 * NULL where it is of none. */
static __noinline struct outcome *find_other(struct event *e, struct ended *s)
{
	struct outcome *o = named_outcome(e, false);

	s->hashed = true;
	s->open = false;
	if (!o)
		return NULL;
	s->place = bpf_map_lookup_elem(&spans, &e->key);
	s->open = s->place && read_open(s->place, &s->read) && same_key(&s->read.key, &e->key);
	if (s->open) /* it may have started before the outcome changed */
		o = bpf_map_lookup_elem(&outcomes, &s->read.outcome);
	return o;
}

/* Finds the span of an end, and returns its outcome; NULL where it is of none. */
static __always_inline struct outcome *find_ended(struct event *e, struct ended *s)
{
	struct outcome *o;

	s->place = recent_at(&e->key, 0);
	if (!s->place)
		return NULL;
	/* The id tells which span it is: it is unique within the VM. So the name
	 * need not be read, only that the outcome is on this label. */
	s->hashed = false;
	s->open = read_open(s->place, &s->read);
	o = bpf_map_lookup_elem(&outcomes, &s->read.outcome);
	if (!o || s->read.key.id != e->key.id || s->read.key.pid != e->key.pid ||
	    o->label != e->label || s->read.start_ns == BUSY)
		return find_other(e, s);
	return o;
}

static __always_inline void end(struct event *e)
{
	struct ended found;
	struct outcome *o = find_ended(e, &found);
	struct series s;
	__u32 row;

	if (!o)
		return;
	if (o->flags & EXPLAIN && e->process)
		log_span(e, process_of(e), o->number, LOG_SPAN_END);
	s = series_of(o, e->key.pid);
	row = row_at(e->now);
	count(&s, row, ENDS);
	if (!found.open) {
		count(&s, row, found.place ? LATES : ORPHANS);
		return;
	}
	end_open(e, o, &s, row, found.place, &found.read);
	if (!found.hashed)
		return;
	bpf_map_delete_elem(&spans, &found.read.key);
	put_recent(&found.read, found.read.start_ns | ENDED);
}

/* At a user_trace probe. The cookie is the label. */
SEC("uprobe.multi")
int span(void *ctx)
{
	struct event e;

	use_thread_stack();
	e.now = bpf_ktime_get_ns();
	e.label = bpf_get_attach_cookie(ctx);
	e.key.pid = current_pid();
	e.key.number = 0;
	e.key.seq = 0;
	if (!e.key.pid)
		return 0;
	count_hit(e.key.pid);
	e.unreadable = !read_event(ctx, &e);
	if (e.unreadable) {
		read_error(&e);
		return 0;
	}
	if (e.version != WRAPPER_VERSION || e.kind < EVENT_START || e.kind > EVENT_FAIL || !e.name)
		count_other(FOREIGN);
	else if (e.kind == EVENT_START)
		start(&e);
	else
		end(&e);
	if (e.unreadable) /* the name */
		read_error(&e);
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

	use_thread_stack();
	if (!key.pid)
		return 0;
	count_hit(key.pid);
	if (!read_block(ctx, &block) && !read_arg(ctx, &block, 0, &addr))
		key.owner = erlang_pid(addr);
	if (!key.owner || bpf_map_update_elem(&exits, &key, &now, BPF_ANY))
		bpf_for_each_map_elem(&outcomes, exit_lost, &key, 0);
	else
		arrived(EXITS);
	return 0;
}

#endif
