//go:build ignore

// SPDX-License-Identifier: Apache-2.0 OR MIT

/* The wrapper's spans: user_trace events become outcome instances here, in the
 * kernel, and are counted into the window in which they end. */

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "args.bpf.h"
#include "count.bpf.h"
#include "discover.bpf.h"
#include "open.bpf.h"
#include "worst.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

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

/* When Erlang processes exited, until the next sweep. Only for VMs where an
 * outcome fails with its process. */
struct exit_key {
	__u64 owner;
	__u64 pid; /* of the VM */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* most never need it */
	__uint(max_entries, 1); /* set when loading */
	__type(key, struct exit_key);
	__type(value, __u64); /* ns */
} exits SEC(".maps");

/* An instance as it is streamed. A failure with a class is followed by it. */
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

/* "<0.1234.5>" is at most three numbers of ten digits. */
#define PID_MAX 40

/* Packs the Erlang pid that the string at addr holds: number, serial << 32,
 * node << 48. 0: not a pid, or not readable. */
static __noinline __u64 erlang_pid(__u64 addr)
{
	char text[PID_MAX] = {};
	__u64 part = 0, node = 0, number = 0;
	int parts = 0;

	if (bpf_probe_read_user_str(text, sizeof(text), (void *)addr) < 0 || text[0] != '<')
		return 0;
	for (int i = 1; i < PID_MAX; i++) {
		char c = text[i];

		if (c >= '0' && c <= '9') {
			part = part * 10 + (c - '0');
			continue;
		}
		if (c == '.' && parts == 0)
			node = part;
		else if (c == '.' && parts == 1)
			number = part;
		else if (c == '>' && parts == 2)
			return number | part << 32 | node << 48;
		else
			return 0;
		parts++;
		part = 0;
	}
	return 0;
}

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

/* Sends an instance through the ring buffer. Nobody is woken: the reader comes
 * by itself, and a wake-up costs three times what the rest of a hit does. */
static __noinline int stream(struct instance *i, __u64 class)
{
	struct failed_instance *f;

	if (!i)
		return 0;
	if (i->status != FAILURES || !class)
		return bpf_ringbuf_output(&ring, i, sizeof(*i), BPF_RB_NO_WAKEUP);
	f = bpf_ringbuf_reserve(&ring, sizeof(*f), 0);
	if (!f)
		return -1;
	f->instance = *i;
	if (bpf_probe_read_user_str(f->class, sizeof(f->class), (void *)class) < 0)
		f->class[0] = 0;
	bpf_ringbuf_submit(f, BPF_RB_NO_WAKEUP);
	return 0;
}

/* How an open instance ends, and when. What comes first counts: the deadline,
 * the death of its process, or the event of this status at end_ns. */
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

/* Counts an instance that has ended, in the row of the window of its end. */
static __always_inline void settle(const struct outcome *o, const struct series *s, __u32 row,
				   const struct span *v, __u32 status, __u64 end_ns, __u64 class)
{
	count(s, row, status);
	if (status == SUCCESSES) {
		__u64 bin = (end_ns - v->start_ns) / o->bin_ns;

		count(s, row, COLUMNS + (bin < o->bins ? bin : o->bins - 1));
	}
	if (o->flags & STREAM && is_wanted(o, v, row, status, end_ns)) {
		struct instance i = {
			.start_ns = v->start_ns,
			.end_ns = end_ns,
			.id = v->key.id,
			.parent = v->parent,
			.owner = v->owner,
			.number = v->key.number,
			.pid = v->key.pid,
			.status = status,
		};

		if (stream(&i, class))
			count(s, row, RING_FULL);
	}
}

static __always_inline void start(void *ctx, struct event *e)
{
	struct outcome *o = named_outcome(e, true);
	struct span v = {};
	struct series s;
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
	if (o->flags & (STREAM | EXIT_FAILS) && !read_arg(ctx, &e->block, ARG_PID, &pid))
		v.owner = erlang_pid(pid);
	if (put_recent(&v, v.start_ns))
		return;
	if (bpf_map_update_elem(&spans, &v.key, &v, BPF_ANY))
		count(&s, row, MAP_FULL);
	else
		arrived(SPANS);
}

/* Ends the span that was read from v as open. */
static __always_inline void end_open(void *ctx, struct event *e, const struct outcome *o,
				     const struct series *s, __u32 row, struct span *v,
				     const struct span *open, __u32 status)
{
	__u64 now = e->now > open->start_ns ? e->now : open->start_ns; /* clocks of two processors */
	__u64 end_ns = now, class = 0;

	if (!take(v, open)) {
		count(s, row, LATES);
		return;
	}
	status = verdict(o, open, status, &end_ns);
	if (end_ns != now) {
		count(s, row, LATES);
		row = row_at(end_ns);
	}
	if (status == FAILURES && o->flags & STREAM)
		read_arg(ctx, &e->block, ARG_CLASS, &class);
	settle(o, s, row, open, status, end_ns, class);
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
	struct span *v = recent_at(e->key.pid, e->key.id);
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

/* What a sweep is told, and what it answers. */
struct sweep_request {
	__u64 until_ns;  /* instances whose deadline or whose process's exit is before this end */
	__u64 forget_ns; /* timed-out spans whose deadline is before this are forgotten */
	__u64 cut;       /* not 0: all open instances are given up */
	__u64 pid;       /* VM whose open spans are counted by themselves */
	__u64 open;      /* out: spans that are still open */
	__u64 open_pid;  /* out: those of that VM */
	__u64 expired;   /* out: timed-out spans that are still remembered */
	__u64 exits;     /* out: exits that are still of use */
};

/* Looks after one span; true if it ended here, with a copy in open. */
static __always_inline bool sweep_span(struct span *v, struct sweep_request *w,
				       struct span *open, bool *timed_out)
{
	struct outcome *o;
	struct series s;
	__u64 end_ns = w->until_ns;
	__u32 status;

	if (!read_open(v, open))
		return false;
	o = bpf_map_lookup_elem(&outcomes, &open->outcome);
	if (!o)
		return false;
	*timed_out = false;
	if (w->cut) {
		status = CUT;
	} else {
		status = verdict(o, open, COLUMNS, &end_ns);
		if (status == COLUMNS) {
			w->open++;
			w->open_pid += open->key.pid == w->pid;
			return false;
		}
		*timed_out = true;
	}
	if (!take(v, open))
		return false;
	s = series_of(o, open->key.pid);
	if (status == CUT)
		count(&s, row_at(end_ns), CUT);
	else
		settle(o, &s, row_at(end_ns), open, status, end_ns, 0);
	return true;
}

/* A timed-out span moves to the hash map, where it is remembered for longer. */
static long sweep_recent(void *map, const __u32 *at, struct span *v, struct sweep_request *w)
{
	__u64 start_ns = *(volatile __u64 *)&v->start_ns;
	struct span open;
	bool timed_out;

	if (!start_ns || start_ns & ENDED) /* most are: not worth a copy */
		return 0;
	if (!sweep_span(v, w, &open, &timed_out) || !timed_out)
		return 0;
	open.start_ns |= ENDED;
	if (!bpf_map_update_elem(&spans, &open.key, &open, BPF_ANY)) {
		w->expired++;
		arrived(SPANS);
	}
	return 0;
}

static long sweep_other(void *map, const struct span_key *k, struct span *v,
			struct sweep_request *w)
{
	struct span_key key = *k;
	struct outcome *o = bpf_map_lookup_elem(&outcomes, &v->outcome);
	__u64 start_ns = *(volatile __u64 *)&v->start_ns;
	struct span open;
	bool timed_out;

	if (!o)
		return 0;
	if (start_ns & ENDED) {
		if ((start_ns & ~ENDED) + o->dmax_ns < w->forget_ns)
			bpf_map_delete_elem(&spans, &key);
		else
			w->expired++;
		return 0;
	}
	if (!sweep_span(v, w, &open, &timed_out))
		return 0;
	if (timed_out)
		w->expired++;
	else
		bpf_map_delete_elem(&spans, &key);
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

/* Whether there may be something in a map, as far as the last sweep and what has
 * arrived since tell. Notes what will have been seen. */
static __always_inline bool may_have(struct arrivals *a)
{
	__u64 count = *(volatile __u64 *)&a->count;
	bool may = a->left || count != a->seen;

	a->seen = count;
	return may;
}

/* Run by user space before it reads a window: ends what will not end by itself. */
SEC("syscall")
int sweep(struct sweep_request *ctx)
{
	__u32 of_spans = SPANS, of_exits = EXITS;
	struct arrivals *s = bpf_map_lookup_elem(&arrivals, &of_spans);
	struct arrivals *e = bpf_map_lookup_elem(&arrivals, &of_exits);
	struct sweep_request w = *ctx;

	if (!s || !e)
		return 0;
	w.open = w.open_pid = w.expired = w.exits = 0;
	if (may_have(s)) {
		bpf_for_each_map_elem(&spans, sweep_other, &w, 0);
		s->left = w.open + w.expired;
	}
	bpf_for_each_map_elem(&recent, sweep_recent, &w, 0);
	if (may_have(e)) {
		bpf_for_each_map_elem(&exits, sweep_exit, &w, 0);
		e->left = w.exits;
	}
	ctx->open = w.open;
	ctx->open_pid = w.open_pid;
	ctx->expired = w.expired;
	return 0;
}

/* Names that only the generated Go code needs: keeps them in the type information. */
const struct instance *instance_type __attribute__((unused));
const struct failed_instance *failed_instance_type __attribute__((unused));
const enum arg_kind *arg_kind_type __attribute__((unused));
const enum other *other_type __attribute__((unused));
