/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Outcomes of the VM's own probes: events that have the same key become instances here.
 * A program is specialised, by constants, for one kind of event of a rule at one layout
 * of arguments: what it does not need is not there any more when it runs. */

#ifndef RULE_BPF_H
#define RULE_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "args.bpf.h"
#include "count.bpf.h"
#include "discover.bpf.h"
#include "group.bpf.h"
#include "open.bpf.h"
#include "pid.bpf.h"
#include "queue.bpf.h"
#include "settle.bpf.h"
#include "slice.bpf.h"
#include "stack.bpf.h"

enum pairing { PAIR_FIRST, PAIR_LAST, PAIR_FIFO };

enum operand_kind {
	OPERAND_NONE,
	OPERAND_THREAD, /* of the operating system */
	OPERAND_NUMBER,
	OPERAND_PID,    /* a process, as text */
	OPERAND_TERM,   /* a process, as a term; none where it cannot be read */
	OPERAND_TEXT,
};

struct operand {
	__u8 kind;
	__u8 arg;
};

#define NO_ARG 0xff

struct rule {
	__u8 pairing;
	__u8 loose;    /* ends come without starts as a rule */
	__u8 overtaken; /* ends may be told before their starts */
	__u8 staged;   /* instances go through a second stage */
	__u8 synced;   /* what leaves the first stage does so all at a time */
	__u8 selective; /* ends take instances out of their queue in any order */
	__u8 armed;    /* starts count only where they are armed */
	__u8 by_spawn; /* the group of a process is the function that it was spawned with */
	__u8 tests;    /* how many there are */
	__u8 amount;   /* argument, or NO_ARG */
	__u8 label;    /* of a seq_trace token: argument, or NO_ARG */
	__u8 serial;   /* likewise */
	__u8 message;  /* its address in the VM: argument, or NO_ARG */
	__u8 indirect; /* that argument is the address of a word, which has the message's */
	__u8 arrivals; /* starts are counted in groups, too */
	__u8 slices;   /* instances are slices of scheduler threads: see slice.bpf.h */
	struct operand key;
	struct operand arm;   /* of an event that arms, and of a start that has to be armed */
	struct operand owner; /* the process, OPERAND_NONE where nobody asks */
	struct operand group;
};

const volatile struct rule rule;

#define MAX_TESTS 16

enum test_form { TEST_NUMBER, TEST_TERM, TEST_TEXT, TEST_PREFIX };

enum test_op { OP_EQUAL, OP_UNEQUAL, OP_LESS, OP_LESS_EQUAL, OP_GREATER, OP_GREATER_EQUAL };

/* Where a test leads to: another one behind it, or one of these. */
#define ACCEPT 0xfe
#define REJECT 0xff

struct test {
	__u8 arg;
	__u8 form;
	__u8 op;
	__u8 yes;    /* where to go on if it holds */
	__u8 no;     /* and if it does not */
	__u8 length; /* of the text in bytes, without the NUL */
	__s64 number;
	__u64 text[(TEXT_MAX + 1) / 8];
};

const volatile struct test tests[MAX_TESTS];

/* What arms a start, by its key; or when an end came that no start was seen of. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set when loading */
	__type(key, struct span_key);
	__type(value, __u64);
} arming SEC(".maps");

/* An event that is of a rule. Its arguments are read one by one: they are few, and what
 * is not asked for is not read. */
struct rule_event {
	void *ctx;
	__u64 now;
	struct outcome *outcome;
	__u32 index; /* of the outcome */
	__u32 row;
	struct span_key key;
	bool current; /* the outcome is one for what happens now */
	/* Of an end that takes from a queue in any order: */
	bool taken;  /* another one has, since the queue was empty */
	bool unsure; /* the queue was not empty for so long that its order says nothing */
	__u32 tables; /* of the VM, see term_tables */
	struct series series;
};

/* Whether the string at addr is the text of a test, or begins with it; negative where it
 * cannot be read. */
static __always_inline long test_text(const volatile struct test *t, __u64 addr)
{
	__u64 text[(TEXT_MAX + 1) / 8 + 1] = {};
	__u32 length = t->length;
	long n;

	if (!addr)
		return 0;
	/* One byte more than the text, and a NUL: what is longer is seen to be. */
	n = bpf_probe_read_user_str(text, length + 2, (void *)addr);
	if (n < 0)
		return n;
	if (n < length + 1 || (t->form == TEST_TEXT && n != length + 1))
		return 0;
	for (__u32 i = 0; i < (TEXT_MAX + 1) / 8 && i * 8 < length; i++) {
		__u32 unused = length < (i + 1) * 8 ? ((i + 1) * 8 - length) * 8 : 0;

		if (text[i] << unused != t->text[i] << unused)
			return 0;
	}
	return 1;
}

static __always_inline bool compare(__u8 op, __s64 a, __s64 b)
{
	switch (op) {
	case OP_EQUAL:
		return a == b;
	case OP_UNEQUAL:
		return a != b;
	case OP_LESS:
		return a < b;
	case OP_LESS_EQUAL:
		return a <= b;
	case OP_GREATER:
		return a > b;
	default:
		return a >= b;
	}
}

/* Whether a test holds; negative where its argument cannot be read. */
static __always_inline long holds(struct rule_event *e, const volatile struct test *t)
{
	__u64 value;
	long err;

	err = read_arg(e->ctx, NULL, t->arg, &value);
	if (err)
		return err;
	switch (t->form) {
	case TEST_NUMBER:
		return compare(t->op, value, t->number);
	case TEST_TERM:
		if (!knows_terms(e->tables))
			return -1;
		return compare(t->op, term_pid(value, e->tables), t->number);
	}
	err = test_text(t, value);
	if (err < 0)
		return err;
	return t->op == OP_EQUAL ? err : value && !err;
}

/* Whether an event satisfies the condition; negative where that cannot be told. */
static __noinline long satisfies(struct rule_event *e)
{
	__u8 at = 0;

	for (__u8 i = 0; i < MAX_TESTS && i < rule.tests; i++) {
		long ok;

		if (i != at)
			continue;
		ok = holds(e, &tests[i]);
		if (ok < 0)
			return ok;
		at = ok ? tests[i].yes : tests[i].no;
	}
	return at != REJECT;
}

/* Reads an operand; 0, or why it is not to be had. */
static __always_inline long read_operand(struct rule_event *e, const volatile struct operand *o,
					 __u64 *value)
{
	long err;

	if (o->kind == OPERAND_THREAD) {
		*value = (__u32)bpf_get_current_pid_tgid();
		return 0;
	}
	err = read_arg(e->ctx, NULL, o->arg, value);
	if (err)
		return err;
	switch (o->kind) {
	case OPERAND_PID:
		*value = erlang_pid(*value);
		return *value ? 0 : -1;
	case OPERAND_TERM:
		*value = term_pid(*value, e->tables);
		return *value ? 0 : -1;
	case OPERAND_TEXT:
		*value = hash_name(*value);
		return *value ? 0 : -1;
	}
	return 0;
}

/* Reads the key of an event, and its seq_trace token where it has one. */
static __always_inline long read_key(struct rule_event *e)
{
	__u64 label = 0, serial = 0, address;
	long err = read_operand(e, &rule.key, &e->key.id);

	e->key.seq = 0;
	if (err || rule.pairing != PAIR_FIFO)
		return err;
	if (rule.label != NO_ARG && (rule.staged || rule.message == NO_ARG)) {
		err = read_arg(e->ctx, NULL, rule.label, &label);
		if (!err)
			err = read_arg(e->ctx, NULL, rule.serial, &serial);
		if (!err && (label || serial))
			e->key.seq = BY_TOKEN | label << 32 | (__u32)serial;
	}
	if (err || e->key.seq || rule.message == NO_ARG)
		return err;
	err = read_arg(e->ctx, NULL, rule.message, &address);
	if (!err && rule.indirect)
		err = bpf_probe_read_user(&address, sizeof(address), (void *)address);
	if (!err)
		e->key.seq = BY_ADDRESS | (address & (BY_ADDRESS - 1));
	return err;
}

/* Whether an event is told from others by the address of its message. */
static __always_inline bool by_address(const struct rule_event *e)
{
	return !(e->key.seq & BY_TOKEN) && e->key.seq & BY_ADDRESS;
}

/* Notes the text that a group stands for; false where it cannot be read. Not static, as
 * note_rank. */
__noinline int note_text(__u64 group, __u64 addr)
{
	struct group_text t = {};

	if (bpf_probe_read_user_str(t.text, sizeof(t.text), (void *)addr) < 0)
		return false;
	bpf_map_update_elem(&texts_seen, &group, &t, BPF_NOEXIST);
	return true;
}

/* The group that a text stands for; 0 where it cannot be read. */
static __always_inline __u64 text_group(__u64 addr)
{
	__u64 group = hash_name(addr);

	if (!group)
		return 0;
	group |= IS_TEXT;
	if (bpf_map_lookup_elem(&texts_seen, &group) || note_text(group, addr))
		return group;
	return 0;
}

static __always_inline __u64 read_group(struct rule_event *e)
{
	__u64 group = 0;

	if (rule.group.kind == OPERAND_NONE)
		return 0;
	if (rule.group.kind == OPERAND_TEXT) {
		if (read_arg(e->ctx, NULL, rule.group.arg, &group))
			return 0;
		return text_group(group);
	}
	if (read_operand(e, &rule.group, &group))
		return 0;
	return rule.by_spawn ? spawn_group(group, e->key.pid) : group;
}

#define KEY_SALT 0x9e3779b97f4a7c15ULL

static __always_inline struct span *place_of(const struct span_key *k)
{
	return recent_at(k, ((k->id ^ k->seq << 20 ^ k->number) * KEY_SALT) >> 32);
}

/* Whether anything was ever put into the hash map of spans. */
static __always_inline bool have_spans(void)
{
	__u32 of_spans = SPANS;
	struct arrivals *a = bpf_map_lookup_elem(&arrivals, &of_spans);

	return a && *(volatile __u64 *)&a->count;
}

/* Finds the open instance of a key, and copies it; NULL where none is open. hashed tells
 * in which map it is, timed_out that it was one and has timed out. */
static __always_inline struct span *find_open(const struct span_key *k, struct span *copy,
					      bool *hashed, bool *timed_out)
{
	struct span *v = place_of(k);

	*hashed = *timed_out = false;
	if (v && read_open(v, copy) && same_key(&copy->key, k))
		return v;
	if (!have_spans())
		return NULL;
	*hashed = true;
	v = bpf_map_lookup_elem(&spans, k);
	if (!v)
		return NULL;
	if (read_open(v, copy))
		return v;
	*timed_out = true;
	return NULL;
}

/* Takes an open instance that was found; false where another thread did. */
static __always_inline bool take_found(struct span *v, const struct span *open, bool hashed)
{
	bool taken = take(v, open);

	if (taken && hashed)
		bpf_map_delete_elem(&spans, &open->key);
	return taken;
}

static __always_inline void put_open(struct rule_event *e, const struct span *v)
{
	if (put_at(place_of(&v->key), v, v->start_ns))
		return;
	if (bpf_map_update_elem(&spans, &v->key, v, BPF_ANY))
		count(&e->series, e->row, MAP_FULL);
	else
		arrived(SPANS);
}

/* Ends an open instance that was taken if its deadline is past, which no sweep has seen
 * yet: it is remembered, so that its end is known to be late. False where it is not. */
static __noinline int settle_expired(struct rule_event *e, struct span *open)
{
	struct ending end = {.end_ns = e->now};
	struct outcome *o = e->outcome;

	end.status = verdict(o, open, SUCCESSES, &end.end_ns);
	if (end.status == SUCCESSES || is_placeholder(open))
		return false;
	settle(o, &e->series, row_at(end.end_ns), open, &end);
	open->start_ns |= ENDED;
	if (!bpf_map_update_elem(&spans, &open->key, open, BPF_ANY))
		arrived(SPANS);
	return true;
}

/* Gives up what has been put into a queue while its end came, and did not find it. */
static __noinline int give_up(struct rule_event *e, const struct span_key *k)
{
	struct span open, *found;
	bool hashed, timed_out;

	found = find_open(k, &open, &hashed, &timed_out);
	if (found && take_found(found, &open, hashed))
		count(&e->series, e->row, UNPAIRED);
	return 0;
}

/* Puts an instance at the end of the queue of its key. */
static __noinline int put_in_queue(struct rule_event *e, struct span *v, bool second)
{
	struct queue *q = join_queue(&e->key, second, e->index, e->now, &v->key.seq);

	if (!q) {
		count(&e->series, e->row, MAP_FULL);
		return 0;
	}
	put_open(e, v);
	if (was_passed(q, v->key.seq))
		give_up(e, &v->key);
	return 0;
}

/* How long before a receiver fetches what there is a send under way may have been told. */
#define UNDER_WAY 100000

/* The time before which nothing that is in the queue can end any more. A receiver
 * fetches all that there is, and then works on it: when it begins on the next lot,
 * nothing can be left of what was sent before it fetched the one before. */
static __always_inline __u64 floor_of(struct queue *q, __u64 now)
{
	__u64 first = *(volatile __u64 *)&q->first_ns;

	if (*(volatile __u32 *)&q->worked) {
		*(volatile __u64 *)&q->floor_ns = first > UNDER_WAY ? first - UNDER_WAY : 0;
		*(volatile __u64 *)&q->first_ns = now;
		*(volatile __u32 *)&q->worked = false;
	}
	return *(volatile __u64 *)&q->floor_ns;
}

/* Notes that the receiver works on what it has fetched. */
static __always_inline void note_work(struct rule_event *e)
{
	struct queue *q = queue_at(&e->key, false);

	if (q)
		*(volatile __u32 *)&q->worked = true;
}

/* What was found under a key, or at the head of its queue. */
enum head {
	HEAD_NONE,      /* nothing, or not what started */
	HEAD_OPEN,      /* an open instance, taken by us */
	HEAD_TIMED_OUT, /* one that has timed out */
};

/* How many there may be at the head of a queue that will never end. */
#define STALE_MOST 8

/* Takes the first of the queue of a key. */
static __noinline enum head take_first(struct rule_event *e, bool second, struct span *open)
{
	struct queue *q = queue_at(&e->key, second);
	struct span_key k = e->key;
	__u64 floor;

	if (!q)
		return HEAD_NONE;
	if (rule.selective && second == rule.staged) {
		e->taken = *(volatile __u64 *)&q->taken;
		e->unsure = *(volatile __u64 *)&q->busy_ns + e->outcome->dmax_ns < e->now;
	}
	floor = rule.synced && !second ? floor_of(q, e->now) : 0;
	for (int i = 0; i < STALE_MOST; i++) {
		bool hashed, timed_out;
		struct span *v;

		if (!leave_queue(q, e->now, second, &k.seq))
			return HEAD_NONE;
		v = find_open(&k, open, &hashed, &timed_out);
		if (timed_out) {
			bpf_map_delete_elem(&spans, &k);
			if ((open->start_ns & ~ENDED) < floor)
				continue;
			return is_placeholder(open) ? HEAD_NONE : HEAD_TIMED_OUT;
		}
		if (!v || !take_found(v, open, hashed))
			return HEAD_NONE;
		if (is_placeholder(open))
			return HEAD_NONE;
		if (open->start_ns >= floor)
			return HEAD_OPEN;
		if (settle_expired(e, open))
			bpf_map_delete_elem(&spans, &k); /* nothing will end it */
		else
			count(&e->series, e->row, UNPAIRED);
	}
	return HEAD_NONE;
}

/* How long before its start an end may be told. */
#define OVERTAKING 1000000000

/* Ends what has just started if its end was told before: the start is told on one thread,
 * while the process may run, and exit, on another. */
static __noinline int end_overtaken(struct rule_event *e)
{
	__u64 *ended_ns = bpf_map_lookup_elem(&arming, &e->key);
	struct ending end = {.end_ns = e->now, .status = SUCCESSES};
	bool hashed, timed_out, soon;
	struct span open, *v;

	if (!ended_ns)
		return 0;
	soon = *ended_ns + OVERTAKING >= e->now;
	bpf_map_delete_elem(&arming, &e->key);
	if (!soon)
		return 0;
	v = find_open(&e->key, &open, &hashed, &timed_out);
	if (v && take_found(v, &open, hashed))
		settle(e->outcome, &e->series, e->row, &open, &end);
	return 0;
}

/* Whether a start that has to be armed is. */
static __always_inline bool is_armed(struct rule_event *e)
{
	__u64 *armed = bpf_map_lookup_elem(&arming, &e->key);
	__u64 by = 0, target = armed ? *armed : 0;

	if (armed)
		bpf_map_delete_elem(&arming, &e->key);
	return target && !read_operand(e, &rule.arm, &by) && by == target;
}

/* Has the instance that is open under the key of a start make way for a new one; false
 * where there is to be no new one. */
static __always_inline bool make_way(struct rule_event *e)
{
	struct span open, *found;
	bool hashed, timed_out;

	found = find_open(&e->key, &open, &hashed, &timed_out);
	if (!found)
		return true;
	if (e->now <= open.start_ns + e->outcome->dmax_ns && rule.pairing == PAIR_FIRST)
		return false;
	if (!take_found(found, &open, hashed) || settle_expired(e, &open))
		return true;
	count(&e->series, e->row, UNPAIRED);
	if (!e->key.seq || by_address(e))
		return true; /* the VM uses the address again: the old message is no more */
	/* Two messages have one token: no end tells which is which. */
	count(&e->series, e->row, UNPAIRED);
	return false;
}

/* Counts a start in its group. */
static __always_inline void count_arrival(struct rule_event *e, __u64 group)
{
	if (rule.arrivals && e->row != STRAY)
		add_to_group(group, e->index | (__u64)e->key.pid << 32, e->row | (__u64)STARTS << 32, 0, 0);
}

/* Opens the instance that an event starts. */
static __always_inline void open_instance(struct rule_event *e)
{
	struct span v = {.start_ns = e->now, .key = e->key, .outcome = e->index};

	v.group = read_group(e);
	count_arrival(e, v.group);
	if (rule.owner.kind != OPERAND_NONE)
		read_operand(e, &rule.owner, &v.owner);
	if (rule.pairing == PAIR_FIFO && !e->key.seq)
		put_in_queue(e, &v, false);
	else
		put_open(e, &v);
}

static __always_inline void rule_start(struct rule_event *e)
{
	if (!e->current)
		return;
	if (rule.armed && !is_armed(e)) {
		count(&e->series, e->row, DROPPED);
		return;
	}
	count(&e->series, e->row, STARTS);
	if (rule.pairing == PAIR_FIFO && !e->key.seq) {
		open_instance(e);
		return;
	}
	if (!make_way(e)) {
		if (rule.arrivals)
			count_arrival(e, read_group(e));
		return;
	}
	open_instance(e);
	if (rule.slices)
		begin_slice(e->key.pid);
	if (rule.overtaken)
		end_overtaken(e);
}

/* Keeps the place of one that has timed out, so that its end is known to be late. */
static __noinline int keep_timed_out(struct rule_event *e, struct span *ended)
{
	if (!join_queue(&e->key, true, e->index, e->now, &ended->key.seq)) {
		count(&e->series, e->row, MAP_FULL);
		return 0;
	}
	if (!bpf_map_update_elem(&spans, &ended->key, ended, BPF_ANY))
		arrived(SPANS);
	return 0;
}

/* Keeps the place in the second stage of what comes and has not started. */
static __noinline int keep_place(struct rule_event *e)
{
	struct span v = {
		.start_ns = e->now,
		.key = e->key,
		.parent = PLACEHOLDER,
		.outcome = e->index,
	};

	put_in_queue(e, &v, true);
	return 0;
}

/* Has an instance go on to the second stage under the address of its message. */
static __noinline int pass_on_by_address(struct rule_event *e, struct span *v)
{
	v->key.seq = e->key.seq;
	put_open(e, v);
	return 0;
}

/* Has the first of the first stage go on to the second; what it was. */
static __noinline enum head pass_on(struct rule_event *e)
{
	struct span open = {};
	enum head head = take_first(e, false, &open);

	if (by_address(e)) {
		if (head == HEAD_OPEN)
			pass_on_by_address(e, &open);
		return head;
	}
	if (head == HEAD_OPEN)
		put_in_queue(e, &open, true);
	else if (head == HEAD_TIMED_OUT)
		keep_timed_out(e, &open);
	return head;
}

static __always_inline void rule_via(struct rule_event *e)
{
	if (e->key.seq & BY_TOKEN)
		return; /* the token tells at the end */
	if (by_address(e))
		make_way(e);
	if (pass_on(e) == HEAD_NONE && e->current && !by_address(e))
		keep_place(e);
}

/* Takes the open instance of a key. */
static __always_inline enum head take_keyed(struct rule_event *e, struct span *open)
{
	bool hashed, timed_out;
	struct span *v = find_open(&e->key, open, &hashed, &timed_out);

	if (timed_out)
		bpf_map_delete_elem(&spans, &e->key);
	if (!v && !timed_out && rule.overtaken) {
		/* Whoever starts looks for this, and we look again for what has
		 * started meanwhile: one sees the other. */
		bpf_map_update_elem(&arming, &e->key, &e->now, BPF_ANY);
		v = find_open(&e->key, open, &hashed, &timed_out);
		if (v)
			bpf_map_delete_elem(&arming, &e->key);
	}
	if (v && take_found(v, open, hashed))
		return HEAD_OPEN;
	return timed_out ? HEAD_TIMED_OUT : HEAD_NONE;
}

/* Ends an instance that was open and is taken. */
static __always_inline void end_instance(struct rule_event *e, struct span *open, bool inferred)
{
	struct ending end = {.end_ns = e->now, .inferred = inferred};
	__u32 row = e->row;

	if (end.end_ns < open->start_ns) /* clocks of two processors */
		end.end_ns = open->start_ns;
	if (rule.amount != NO_ARG)
		read_arg(e->ctx, NULL, rule.amount, &end.amount);
	if (rule.slices) {
		bool dirty = false;

		end.amount = end_slice(end.end_ns - open->start_ns, &dirty);
		end.slice = dirty ? SLICE | DIRTY_SLICE : SLICE;
	}
	end.status = verdict(e->outcome, open, SUCCESSES, &end.end_ns);
	if (end.status != SUCCESSES) {
		count(&e->series, row, LATES);
		end.amount = 0;
		end.slice = 0;
		row = row_at(end.end_ns);
	}
	if (end.status == SUCCESSES ? e->unsure : e->taken)
		count(&e->series, row, UNPAIRED);
	else
		settle(e->outcome, &e->series, row, open, &end);
}

static __always_inline void rule_end(struct rule_event *e)
{
	bool queued = rule.pairing == PAIR_FIFO && !e->key.seq;
	struct span open;
	enum head head;

	head = queued ? take_first(e, rule.staged, &open) : take_keyed(e, &open);
	if (rule.synced && rule.staged)
		note_work(e);
	if (head == HEAD_NONE && rule.loose) {
		if (e->current)
			count(&e->series, e->row, DROPPED);
		return;
	}
	if (e->current)
		count(&e->series, e->row, ENDS);
	if (head == HEAD_OPEN)
		end_instance(e, &open, queued || (rule.staged && by_address(e)));
	else if (e->current)
		count(&e->series, e->row, head == HEAD_TIMED_OUT ? LATES : ORPHANS);
}

static __always_inline void rule_arm(struct rule_event *e)
{
	__u64 target;

	if (!read_operand(e, &rule.arm, &target))
		bpf_map_update_elem(&arming, &e->key, &target, BPF_ANY);
}

/* Finds out what an event is of; false where it is not to be counted, or is already. The
 * cookie is the outcome's entry. */
static __always_inline bool is_of_rule(void *ctx, struct rule_event *e)
{
	long ok = 1;

	e->ctx = ctx;
	e->now = bpf_ktime_get_ns();
	e->index = bpf_get_attach_cookie(ctx);
	e->key.pid = current_pid();
	if (!e->key.pid)
		return false;
	count_hit(e->key.pid);
	e->outcome = bpf_map_lookup_elem(&outcomes, &e->index);
	if (!e->outcome || e->now < e->outcome->since_ns)
		return false;
	e->tables = term_tables(ctx, e->key.pid);
	e->key.number = e->outcome->rule;
	e->current = e->now < e->outcome->until_ns;
	e->series = series_of(e->outcome, e->key.pid);
	e->row = row_at(e->now);
	if (rule.tests)
		ok = satisfies(e);
	if (ok > 0) {
		ok = read_key(e);
		if (!ok)
			return true;
		/* That a term cannot be read only says that there is no process, as when
		 * a scheduler begins. */
		if (rule.key.kind == OPERAND_TERM && knows_terms(e->tables))
			ok = 0;
	}
	if (e->current)
		count(&e->series, e->row, ok ? READ_ERRORS : DROPPED);
	return false;
}

SEC("uprobe.multi")
int rule_start_probe(void *ctx)
{
	struct rule_event e = {};

	use_thread_stack();
	if (is_of_rule(ctx, &e))
		rule_start(&e);
	return 0;
}

SEC("uprobe.multi")
int rule_via_probe(void *ctx)
{
	struct rule_event e = {};

	use_thread_stack();
	if (is_of_rule(ctx, &e))
		rule_via(&e);
	return 0;
}

SEC("uprobe.multi")
int rule_end_probe(void *ctx)
{
	struct rule_event e = {};

	use_thread_stack();
	if (is_of_rule(ctx, &e))
		rule_end(&e);
	return 0;
}

SEC("uprobe.multi")
int rule_sync_probe(void *ctx)
{
	struct rule_event e = {};

	use_thread_stack();
	if (is_of_rule(ctx, &e))
		note_work(&e);
	return 0;
}

SEC("uprobe.multi")
int rule_arm_probe(void *ctx)
{
	struct rule_event e = {};

	use_thread_stack();
	if (is_of_rule(ctx, &e))
		rule_arm(&e);
	return 0;
}

/* Notes that the process of a key has exited: nothing in its queues can end any more, and
 * the sweep deletes them. */
static __always_inline void note_gone(struct rule_event *e)
{
	struct queue *first = queue_at(&e->key, false), *second = queue_at(&e->key, true);

	if (first)
		*(volatile __u64 *)&first->gone_ns = e->now;
	if (second)
		*(volatile __u64 *)&second->gone_ns = e->now;
}

/* At process__exit. */
SEC("uprobe.multi")
int rule_gone_probe(void *ctx)
{
	struct rule_event e = {};

	use_thread_stack();
	if (is_of_rule(ctx, &e))
		note_gone(&e);
	return 0;
}

/* The function that all processes of OTP's behaviours are spawned with. */
static const char proc_lib[] = "proc_lib:init_p/";

static __always_inline bool is_proc_lib(__u64 addr)
{
	char text[sizeof(proc_lib) - 1];

	if (bpf_probe_read_user(text, sizeof(text), (void *)addr))
		return false;
	for (int i = 0; i < sizeof(text); i++)
		if (text[i] != proc_lib[i])
			return false;
	return true;
}

/* At process__spawn, attached where groups are functions that processes were started
 * with. */
SEC("uprobe.multi")
int process_spawn(void *ctx)
{
	struct process_key k = {.pid = current_pid()};
	struct block block;
	__u64 pid, mfa, group;

	use_thread_stack();
	if (!k.pid)
		return 0;
	count_hit(k.pid);
	if (read_block(ctx, &block) || read_arg(ctx, &block, 0, &pid) ||
	    read_arg(ctx, &block, 1, &mfa))
		return 0;
	k.process = erlang_pid(pid);
	if (!k.process)
		return 0;
	if (is_proc_lib(mfa)) {
		/* The function says nothing: user space finds out the one behind it. Where
		 * the queue is full, it does so only for the processes that stand out. */
		bpf_map_push_elem(&born, &k, 0);
		return 0;
	}
	group = text_group(mfa);
	if (group)
		bpf_map_update_elem(&spawned, &k, &group, BPF_ANY);
	return 0;
}

/* At process__exit, attached where process_spawn is. */
SEC("uprobe.multi")
int process_gone(void *ctx)
{
	struct process_key k = {.pid = current_pid()};
	struct block block;
	__u64 pid;

	use_thread_stack();
	if (!k.pid)
		return 0;
	count_hit(k.pid);
	if (read_block(ctx, &block) || read_arg(ctx, &block, 0, &pid))
		return 0;
	k.process = erlang_pid(pid);
	bpf_map_delete_elem(&spawned, &k);
	return 0;
}

#endif
