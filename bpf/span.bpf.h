/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Spans of the application: user_trace events become outcome instances here. */

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
#include "unseen.bpf.h"
#include "watch.bpf.h"

/* Arguments of user_trace__nN, as docs/reference/erlang.md describes them. */
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

#define ENCODING_VERSION 1

/* At most this many outcomes share a label. User space refuses more. */
#define OUTCOMES_PER_LABEL 8

/* The contents of an event. */
struct event {
	__u64 now;
	__u32 label;
	__u32 outcome;       /* index of its entry, once the name is known */
	struct span_key key; /* its number too is set once the name is known */
	__u64 name;          /* address */
	__u64 kind;
	__u64 version;
	__u64 process;       /* its pid, in the form that pack_pid takes; 0: unknown */
	__u64 parent;
	__u64 class;         /* address; 0: none */
	__u32 tables;        /* of the VM, see term_tables, if the pid is a term */
	bool unreadable;     /* some argument could not be read */
};

/* Reads the arguments of an event. Returns false if they cannot be read. It reads all at once, so
 * that the block does not stay on the stack. */
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

/* Names are compared in chunks of this many bytes, because the stack is small. */
#define CHUNK 64

/* Compares the outcome's name with the string at addr. Returns 1 if they are equal, 0 if they
 * differ, and a negative number if the string cannot be read. */
static __always_inline long same_name(const struct outcome *o, __u64 addr)
{
	const __u64 *name = (const __u64 *)o->name;
	__u64 size = (o->name_len & NAME_MAX) + 1; /* with the NUL */
	__u64 text[CHUNK / 8];

	for (__u64 done = 0; done < NAME_MAX + 1; done += CHUNK) {
		__u64 left = size - done, take = left < CHUNK ? left : CHUNK;
		long err;

		/* Verifiers before Linux 6.6 do not see the limit otherwise. */
		asm volatile("" : "+r"(take));
		if (take > CHUNK)
			return 0;
		err = bpf_probe_read_user(text, take, (void *)(addr + done));
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

/* Returns the entry, of all entries of a name, that counts what happens now. o is the entry on the
 * label, and *index is its index. Returns NULL if the name is not observed now. */
static __always_inline struct outcome *entry_at(__u64 now, struct outcome *o, __u32 *index)
{
	if (now < o->since_ns) {
		*index = o->previous - 1; /* wraps around if there is none, so the look-up fails */
		o = bpf_map_lookup_elem(&outcomes, index);
	}
	return o && o->since_ns <= now && now < o->until_ns ? o : NULL;
}

/* Counts an unreadable event at every outcome to which it may belong. */
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

/* Returns the outcome that the event names, or NULL if there is none. If discovery is on, stores
 * unknown names, but only at starts: a span without a start is no instance. */
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

/* Processes may be watched for a span until this many times its dMax after its start. If several
 * spans lead to a process, it is unknown for which of them it works: the message of a late span may
 * still be in its mailbox. What follows from that message would be missed if watching ended at the
 * deadline. */
#define WATCH_DMAX 2

/* Starts to watch the process that started a span. root is 1 + the place of the span in recent, or
 * 0 if it is not there. */
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

/* Returns the process of an event, or 0 if it is unknown. */
static __always_inline __u64 process_of(const struct event *e)
{
	return e->process ? pack_pid(e->process, e->tables) : 0;
}

/* Where a span was put. */
enum placed { PLACED_NOWHERE, PLACED_RECENT, PLACED_HASHED };

/* Adds a span that starts to the open ones. */
static __always_inline enum placed put_span(struct event *e, __u64 owner, __u32 flags)
{
	struct span v = {.start_ns = e->now, .key = e->key, .owner = owner, .outcome = e->outcome};

	if (flags & STREAM)
		v.parent = e->parent;
	if (flags & GROUPED)
		v.group = flags & BY_SPAWN ? spawn_group(owner, e->key.pid) : owner;
	if (put_recent(&v, v.start_ns))
		return PLACED_RECENT;
	return add_hashed(&v) ? PLACED_HASHED : PLACED_NOWHERE;
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
		check_thread(e->key.pid);
		log_span(e, owner, o->number, LOG_SPAN_START);
	}
}

/* Ends a span. open is a copy of it, read from v while it was open. */
static __always_inline void end_open(struct event *e, const struct outcome *o,
				     const struct series *s, __u32 row, struct span *v,
				     const struct span *open)
{
	__u64 now = e->now > open->start_ns ? e->now : open->start_ns; /* clocks may differ */
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

/* The span to which an end event belongs. */
struct ended {
	struct span *place; /* NULL: there is none */
	struct span read;   /* a copy of what is there */
	bool open;          /* the span is still open */
	bool hashed;        /* the span is in the hash map */
};

/* Finds the span of an end in the hash map, by the name of its outcome. Returns the outcome, or
 * NULL if the name is not observed. */
static __noinline struct outcome *find_hashed(struct event *e, struct ended *s)
{
	struct outcome *o = named_outcome(e, false);

	s->hashed = true;
	s->open = false;
	if (!o)
		return NULL;
	s->place = bpf_map_lookup_elem(&spans, &e->key);
	s->open = s->place && read_open(s->place, &s->read) && same_key(&s->read.key, &e->key);
	if (s->open) /* the outcome may have changed since it started */
		o = bpf_map_lookup_elem(&outcomes, &s->read.outcome);
	return o;
}

/* Finds the span of an end, and returns its outcome, or NULL if it has none. */
static __always_inline struct outcome *find_ended(struct event *e, struct ended *s)
{
	struct outcome *o;

	s->place = recent_at(&e->key, 0);
	if (!s->place)
		return NULL;
	/* The id identifies the span: it is unique within the VM. So it is enough to check that the
	 * outcome is on this label, without reading the name. */
	s->hashed = false;
	s->open = read_open(s->place, &s->read);
	o = bpf_map_lookup_elem(&outcomes, &s->read.outcome);
	if (!o || s->read.key.id != e->key.id || s->read.key.pid != e->key.pid ||
	    o->label != e->label || s->read.start_ns == BUSY)
		return find_hashed(e, s);
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
	if (o->flags & EXPLAIN)
		check_thread(e->key.pid);
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
	delete_hashed(&found.read.key, found.read.room);
	put_recent(&found.read, found.read.start_ns | ENDED);
}

/* Begins an event at the present time. Returns false if the VM has no pid in beamscope's pid
 * namespace. */
static __always_inline bool begin_event(struct event *e)
{
	e->now = bpf_ktime_get_ns();
	e->key.pid = current_pid();
	e->key.number = 0;
	e->key.seq = 0;
	e->tables = 0;
	e->unreadable = false;
	if (!e->key.pid)
		return false;
	count_hit(e->key.pid);
	return true;
}

/* Processes an event whose arguments were read. */
static __always_inline void take_event(struct event *e)
{
	if (e->version != ENCODING_VERSION || e->kind < EVENT_START || e->kind > EVENT_FAIL || !e->name)
		count_other(FOREIGN);
	else if (e->kind == EVENT_START)
		start(e);
	else
		end(e);
	if (e->unreadable) /* the name was unreadable */
		read_error(e);
}

/* At a user_trace probe. The cookie is the label. */
SEC("uprobe.multi")
int span(void *ctx)
{
	struct event e;

	use_thread_stack();
	if (!begin_event(&e))
		return 0;
	e.label = bpf_get_attach_cookie(ctx);
	e.unreadable = !read_event(ctx, &e);
	if (e.unreadable)
		read_error(&e);
	else
		take_event(&e);
	return 0;
}

/* The argument of the function that the application beamscope calls if the VM has no probes: a tuple. Its numbers
 * are small integers. Its texts are large integers, whose bytes the VM stores in memory with the
 * lowest first: the text, a zero byte, and more. The class may be 0. */
struct called {
	__u64 header;
	__u64 magic;
	__u64 version;
	__u64 label;
	__u64 kind;
	__u64 id;
	__u64 parent;
	__u64 name;
	__u64 class;
};

#define CALLED_HEADER (8 << 6)
#define CALLED_MAGIC 0x62656d73636f70ULL /* as in erlang/beamscope/src/beamscope.erl */

/* The header of a large integer consists of the number of words that follow, and this. */
#define POSITIVE_BIG (0x2 << 2)
#define HEADER_KIND(header) ((header) & 0x3f)

/* Returns the value of a small integer, or 0 for any other term. */
static __always_inline __u64 small_value(__u64 term)
{
	return TERM_TAG(term) == TERM_TAG_SMALL ? (__u64)((__s64)term >> TERM_TAG_BITS) : 0;
}

/* Returns the address of the text in a large integer, or 0 for any other term. */
static __always_inline __u64 text_in(__u64 term)
{
	__u64 header;

	if ((term & TERM_BOXED_MASK) != TERM_BOXED_TAG ||
	    bpf_probe_read_user(&header, sizeof(header), (void *)(term - TERM_BOXED_TAG)) ||
	    HEADER_KIND(header) != POSITIVE_BIG)
		return 0;
	return term - TERM_BOXED_TAG + sizeof(header);
}

/* Reads the argument of the wrapper's call. Returns false if the call is not the wrapper's. */
static __always_inline bool read_called(void *ctx, struct event *e)
{
	struct block block;
	struct called c;
	__u64 term;

	if (read_block(ctx, &block) || read_arg(ctx, &block, 1, &term) ||
	    (term & TERM_BOXED_MASK) != TERM_BOXED_TAG ||
	    bpf_probe_read_user(&c, sizeof(c), (void *)(term - TERM_BOXED_TAG)) ||
	    c.header != CALLED_HEADER || small_value(c.magic) != CALLED_MAGIC)
		return false;
	if (read_arg(ctx, &block, 0, &e->process))
		e->process = 0;
	e->version = small_value(c.version);
	e->label = small_value(c.label);
	e->kind = small_value(c.kind);
	e->key.id = small_value(c.id);
	e->parent = small_value(c.parent);
	e->name = text_in(c.name);
	e->class = text_in(c.class);
	return true;
}

/* At the function that the application beamscope calls if the VM has no probes. */
SEC("uprobe.multi")
int span_call(void *ctx)
{
	struct event e;

	use_thread_stack();
	if (!begin_event(&e) || !read_called(ctx, &e))
		return 0;
	e.tables = term_tables(ctx, e.key.pid);
	take_event(&e);
	return 0;
}

/* Counts an exit that could not be stored, at every outcome that it may have ended as a failure. */
static long count_lost_exit(void *map, const __u32 *at, struct outcome *o, struct exit_key *k)
{
	struct series s;

	if (o->flags & EXIT_FAILS) {
		s = series_of(o, k->pid);
		count(&s, row_at(bpf_ktime_get_ns()), EXITS_LOST);
	}
	return 0;
}

/* At process__exit. Attached if the exit of a process is a failure. */
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
		key.owner = pack_pid(addr, term_tables(ctx, key.pid));
	if (!key.owner || bpf_map_update_elem(&exits, &key, &now, BPF_ANY))
		bpf_for_each_map_elem(&outcomes, count_lost_exit, &key, 0);
	else
		arrived(EXITS);
	return 0;
}

#endif
