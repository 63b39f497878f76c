/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Outcomes of the VM's own probes: events with the same key become instances here. Constants
 * specialise each program for one kind of event of one rule and one layout of arguments, so the
 * verifier removes all code that this event does not need. */

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
#include "state.bpf.h"
#include "termgroup.bpf.h"

enum pairing { PAIR_FIRST, PAIR_LAST, PAIR_FIFO };

enum operand_kind {
	OPERAND_NONE,
	OPERAND_THREAD, /* of the operating system */
	OPERAND_NUMBER,
	OPERAND_PID,    /* a process, as text */
	OPERAND_TERM,   /* a process, as a term; none if it cannot be read */
	OPERAND_TEXT,
	OPERAND_FUNCTION, /* the address of a function's terms */
	OPERAND_PORT,     /* a port, as a term */
};

struct operand {
	__u8 kind;
	__u8 arg;
};

#define NO_ARG 0xff

struct rule {
	__u8 pairing;
	__u8 loose;    /* ends often come without starts */
	__u8 overtaken; /* an end may be reported before its start */
	__u8 staged;   /* instances go through a second stage */
	__u8 synced;   /* receivers take all instances out of the first stage at once */
	__u8 selective; /* ends take instances out of their queue in any order */
	__u8 armed;    /* a start counts only if it is armed */
	__u8 by_spawn; /* the group of a process is the function with which it was spawned */
	__u8 tests;    /* number of tests */
	__u8 amount;   /* argument, or NO_ARG */
	__u8 label;    /* label of the seq_trace token: argument, or NO_ARG */
	__u8 serial;   /* serial of the seq_trace token: argument, or NO_ARG */
	__u8 message;  /* address of the message in the VM: argument, or NO_ARG */
	__u8 indirect; /* the argument message is the address of a word that holds the address */
	__u8 state;    /* state of the process that fetches messages: argument, or NO_ARG */
	__u8 arrivals; /* starts are counted in groups too */
	__u8 slices;   /* instances are slices of scheduler threads: see slice.bpf.h */
	struct operand key;
	struct operand arm;   /* of an arming event, and of a start that must be armed */
	struct operand owner; /* the process of the instance; OPERAND_NONE if not needed */
	struct operand group;
};

const volatile struct rule rule;

#define MAX_TESTS 16

enum test_form {
	TEST_NUMBER,
	TEST_TERM,
	TEST_TEXT,
	TEST_PREFIX,
	TEST_MODULE, /* the module of a function, given as the address of its terms */
	TEST_FUNCTION, /* the name and, as number, the arity of a function, given likewise */
};

enum test_op { OP_EQUAL, OP_UNEQUAL, OP_LESS, OP_LESS_EQUAL, OP_GREATER, OP_GREATER_EQUAL };

/* Where to go on after a test: the index of a later test, or one of these. */
#define ACCEPT 0xfe
#define REJECT 0xff

struct test {
	__u8 arg;
	__u8 form;
	__u8 op;
	__u8 yes;    /* where to go on if the test holds */
	__u8 no;     /* where to go on if it does not */
	__u8 length; /* of the text, in bytes, without the NUL */
	__s64 number;
	__u64 text[(TEXT_MAX + 1) / 8];
};

const volatile struct test tests[MAX_TESTS];

/* By key: the value that an arming event requires of the start; or, for rules with overtaken, the
 * time of an end that came without a start. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set when loading */
	__type(key, struct span_key);
	__type(value, __u64);
} arming SEC(".maps");

/* An event of a rule. The programs read its arguments one by one: there are few, and a program
 * reads only those that it needs. */
struct rule_event {
	void *ctx;
	__u64 now;
	struct outcome *outcome;
	__u32 index; /* of the outcome's entry */
	__u32 row;
	struct span_key key;
	bool current; /* the event comes before until_ns of the entry */
	/* Of an end that takes from a queue in any order: */
	bool taken;  /* another end has taken an instance since the queue was last empty */
	bool unsure; /* the queue has not been empty for so long that its order is meaningless */
	__u32 tables; /* of the VM, see term_tables */
	struct series series;
};

/* Reports whether the string at addr equals the text of a test, or begins with it. Returns a
 * negative number if the string cannot be read. */
static __always_inline long test_text(const volatile struct test *t, __u64 addr)
{
	__u64 text[(TEXT_MAX + 1) / 8 + 1] = {};
	__u32 length = t->length;
	long n;

	if (!addr)
		return 0;
	/* One byte more than the text, and the NUL: shows that a string is longer than the text. */
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

/* The address of the VM's table of atoms. */
static __always_inline __u64 atoms_of(void *ctx) { return bpf_get_func_ip(ctx) + atom_table; }

/* Reports whether an atom has the text that a test wants. Returns a negative number if the atom
 * cannot be read. */
static __always_inline long test_atom(const volatile struct test *t, __u64 term, __u64 table)
{
	__u64 text[(TEXT_MAX + 1) / 8] = {};
	struct known_atom atom;
	__u32 length = t->length;

	if (find_atom(table, term, &atom))
		return -1;
	if (atom.length != length)
		return 0;
	if (bpf_probe_read_user(text, length, (void *)atom.text))
		return -1;
	for (__u32 i = 0; i < (TEXT_MAX + 1) / 8 && i * 8 < length; i++)
		if (text[i] != t->text[i])
			return 0;
	return 1;
}

/* Reports whether a function has the module, or the name and the arity, that a test wants. addr is
 * the address of the function's terms. Returns a negative number if they cannot be read. */
static __always_inline long test_mfa(const volatile struct test *t, __u64 addr, __u64 table)
{
	bool module = t->form == TEST_MODULE;
	__u64 mfa[3];

	if (bpf_probe_read_user(mfa, sizeof(mfa), (void *)addr))
		return -1;
	if (!module && mfa[2] != (__u64)t->number)
		return 0;
	return test_atom(t, module ? mfa[0] : mfa[1], table);
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

/* Reports whether a test holds. Returns a negative number if its argument cannot be read. */
static __always_inline long test_holds(struct rule_event *e, const volatile struct test *t)
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
	case TEST_MODULE:
	case TEST_FUNCTION:
		err = test_mfa(t, value, atoms_of(e->ctx));
		break;
	default:
		err = test_text(t, value);
	}
	if (err < 0)
		return err;
	return t->op == OP_EQUAL ? err : value && !err;
}

/* Reports whether an event satisfies the condition. Returns a negative number if that is
 * unknown. */
static __noinline long satisfies(struct rule_event *e)
{
	__u8 at = 0;

	for (__u8 i = 0; i < MAX_TESTS && i < rule.tests; i++) {
		long ok;

		if (i != at)
			continue;
		ok = test_holds(e, &tests[i]);
		if (ok < 0)
			return ok;
		at = ok ? tests[i].yes : tests[i].no;
	}
	return at != REJECT;
}

/* Reads an operand. Returns 0, or an error if it cannot be read. */
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
	case OPERAND_FUNCTION:
		*value = function_group(*value, atoms_of(e->ctx));
		return *value ? 0 : -1;
	case OPERAND_PORT:
		if (TERM_TAG(*value) != TERM_TAG_PORT || (terms_are == TERMS_BY_PLACE && !(e->tables >> 16)))
			return -1;
		*value = term_port(*value, e->tables) + 1; /* 0 means unreadable, and port 0 exists */
	}
	return 0;
}

/* Reads the key of an event, and its seq_trace token if it has one. */
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

/* Reports whether the address of its message identifies the instance of an event. */
static __always_inline bool by_address(const struct rule_event *e)
{
	return !(e->key.seq & BY_TOKEN) && e->key.seq & BY_ADDRESS;
}

/* Stores the text of a group. Returns false if the text cannot be read. Not static, like
 * note_rank. */
__noinline int note_text(__u64 group, __u64 addr)
{
	struct group_text t = {};

	if (bpf_probe_read_user_str(t.text, sizeof(t.text), (void *)addr) < 0)
		return false;
	bpf_map_update_elem(&texts_seen, &group, &t, BPF_NOEXIST);
	return true;
}

/* Returns the group of a text, or 0 if the text cannot be read. */
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
	if (rule.group.kind == OPERAND_PORT)
		return port_group(group - 1);
	return rule.by_spawn ? spawn_group(group, e->key.pid) : group;
}

#define KEY_SALT 0x9e3779b97f4a7c15ULL

static __always_inline struct span *place_of(const struct span_key *k)
{
	return recent_at(k, ((k->id ^ k->seq << 20 ^ k->number) * KEY_SALT) >> 32);
}

/* Reports whether anything was ever added to the hash map of spans. */
static __always_inline bool have_spans(void)
{
	__u32 of_spans = SPANS;
	struct arrivals *a = bpf_map_lookup_elem(&arrivals, &of_spans);

	return a && *(volatile __u64 *)&a->count;
}

/* Finds the open instance of a key and copies it. Returns NULL if none is open. *hashed says that
 * the instance is in the hash map, *timed_out that it has timed out. */
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

/* Takes an open instance that find_open found. Returns false if another thread took it first. */
static __always_inline bool take_found(struct span *v, const struct span *open, bool hashed)
{
	bool taken = take(v, open);

	if (taken && hashed)
		delete_hashed(&open->key, open->room);
	return taken;
}

static __always_inline void put_open(struct rule_event *e, struct span *v)
{
	if (put_at(place_of(&v->key), v, v->start_ns) || add_hashed(v))
		return;
	count(&e->series, e->row, MAP_FULL);
}

/* Settles an instance that was taken after its deadline but before a sweep ended it. The hash map
 * remembers it, so that its end counts as late. Returns false if its deadline has not passed, or if
 * it is a placeholder. */
static __noinline int settle_expired(struct rule_event *e, struct span *open)
{
	struct ending end = {.end_ns = e->now};
	struct outcome *o = e->outcome;

	end.status = verdict(o, open, SUCCESSES, &end.end_ns);
	if (end.status == SUCCESSES || is_placeholder(open))
		return false;
	settle(o, &e->series, row_at(end.end_ns), open, &end);
	open->start_ns |= ENDED;
	add_hashed(open);
	return true;
}

/* Gives up an instance that was added to a queue just after its end had looked for it. */
static __noinline int give_up(struct rule_event *e, const struct span_key *k)
{
	struct span open, *found;
	bool hashed, timed_out;

	found = find_open(k, &open, &hashed, &timed_out);
	if (found && take_found(found, &open, hashed))
		count(&e->series, e->row, UNPAIRED);
	return 0;
}

/* Adds an instance to the end of the queue of its key. */
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

/* The VM may report a send up to this long before the message is in the mailbox, in ns. So a fetch
 * may miss a message that was sent just before it. */
#define UNDER_WAY 100000

/* Returns the floor of a queue: instances that started before it can no longer end. A receiver
 * fetches all its messages at once, and then works on them. So when it begins the next fetch,
 * nothing is left that was sent before the previous fetch. */
static __always_inline __u64 update_floor(struct queue *q, __u64 now)
{
	__u64 first = *(volatile __u64 *)&q->first_ns;

	if (*(volatile __u32 *)&q->worked) {
		*(volatile __u64 *)&q->floor_ns = first > UNDER_WAY ? first - UNDER_WAY : 0;
		*(volatile __u64 *)&q->first_ns = now;
		*(volatile __u32 *)&q->worked = false;
	}
	return *(volatile __u64 *)&q->floor_ns;
}

/* Notes that the receiver works on the messages that it has fetched. */
static __always_inline void note_work(struct rule_event *e)
{
	struct queue *q = queue_at(&e->key, false);

	if (q)
		*(volatile __u32 *)&q->worked = true;
}

/* What a look-up by key, or at the head of a queue, found. */
enum head {
	HEAD_NONE,      /* nothing, or a placeholder */
	HEAD_OPEN,      /* an open instance, taken by this program */
	HEAD_TIMED_OUT, /* an instance that has timed out */
};

/* At most this many instances below the floor are removed from a queue at a time. */
#define STALE_MOST 8

/* Takes the instance at the head of the queue of a key. */
static __noinline enum head take_head(struct rule_event *e, bool second, struct span *open)
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
	floor = rule.synced && !second ? update_floor(q, e->now) : 0;
	for (int i = 0; i < STALE_MOST; i++) {
		bool hashed, timed_out;
		struct span *v;

		if (!leave_queue(q, e->now, second, &k.seq))
			return HEAD_NONE;
		v = find_open(&k, open, &hashed, &timed_out);
		if (timed_out) {
			delete_hashed(&k, open->room);
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
			delete_hashed(&k, open->room); /* no end will look for it */
		else
			count(&e->series, e->row, UNPAIRED);
	}
	return HEAD_NONE;
}

/* An end may be reported up to this long before its start, in ns. */
#define OVERTAKING 1000000000

/* Ends an instance that has just started if its end was reported before. The VM reports the start
 * on one thread, while the process may already run, and exit, on another. */
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

/* Reports whether a start is armed, and disarms the key. */
static __always_inline bool is_armed(struct rule_event *e)
{
	__u64 *armed = bpf_map_lookup_elem(&arming, &e->key);
	__u64 by = 0, target = armed ? *armed : 0;

	if (armed)
		bpf_map_delete_elem(&arming, &e->key);
	return target && !read_operand(e, &rule.arm, &by) && by == target;
}

/* Removes the open instance under the key of a start to make room for a new one. Returns false if
 * no new instance may start. */
static __always_inline bool displace_open(struct rule_event *e)
{
	struct span open, *found;
	bool hashed, timed_out;

	found = find_open(&e->key, &open, &hashed, &timed_out);
	if (!found)
		return true;
	if (e->now <= open.start_ns + e->outcome->dmax_ns && rule.pairing == PAIR_FIRST)
		return false;
	if (!take_found(found, &open, hashed))
		return true;
	if ((rule.staged || !may_be_fetched(e->outcome, &open)) && settle_expired(e, &open))
		return true;
	count(&e->series, e->row, UNPAIRED);
	if (!e->key.seq || by_address(e))
		return true; /* the VM has reused the address, so the old message is gone */
	/* Two messages have the same token: an end cannot tell them apart. */
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
	if (!displace_open(e)) {
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

/* Moves a timed-out instance to the queue of the second stage, so that its end counts as late. */
static __noinline int keep_timed_out(struct rule_event *e, struct span *ended)
{
	if (!join_queue(&e->key, true, e->index, e->now, &ended->key.seq)) {
		count(&e->series, e->row, MAP_FULL);
		return 0;
	}
	add_hashed(ended);
	return 0;
}

/* Adds a placeholder to the queue of the second stage for an event without a start. It keeps the
 * order of the other instances right. */
static __noinline int add_placeholder(struct rule_event *e)
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

/* Moves an instance to the second stage, under the address of its message. */
static __noinline int pass_on_by_address(struct rule_event *e, struct span *v)
{
	v->key.seq = e->key.seq;
	put_open(e, v);
	return 0;
}

/* Moves the instance at the head of the first stage to the second stage. Returns what was at the
 * head. */
static __noinline enum head pass_on(struct rule_event *e)
{
	struct span open = {};
	enum head head = take_head(e, false, &open);

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
		return; /* the end finds the instance by the token */
	if (by_address(e))
		displace_open(e);
	if (pass_on(e) == HEAD_NONE && e->current && !by_address(e))
		add_placeholder(e);
}

/* Takes the open instance of a key. */
static __always_inline enum head take_keyed(struct rule_event *e, struct span *open)
{
	bool hashed, timed_out;
	struct span *v = find_open(&e->key, open, &hashed, &timed_out);

	if (timed_out)
		delete_hashed(&e->key, open->room);
	if (!v && !timed_out && rule.overtaken) {
		/* A start adds its instance before it looks here, and this end looks for the
		 * instance again after it was added here. So at least one of them sees the
		 * other. */
		bpf_map_update_elem(&arming, &e->key, &e->now, BPF_ANY);
		v = find_open(&e->key, open, &hashed, &timed_out);
		if (v)
			bpf_map_delete_elem(&arming, &e->key);
	}
	if (v && take_found(v, open, hashed))
		return HEAD_OPEN;
	return timed_out ? HEAD_TIMED_OUT : HEAD_NONE;
}

/* Ends an open instance that was taken. */
static __always_inline void end_instance(struct rule_event *e, struct span *open, bool inferred)
{
	struct ending end = {.end_ns = e->now, .inferred = inferred};
	__u32 row = e->row;

	if (end.end_ns < open->start_ns) /* the clocks of two processors may differ */
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

	head = queued ? take_head(e, rule.staged, &open) : take_keyed(e, &open);
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

/* The receiver takes the list of all signals out of its outer queue. */
struct fetch {
	struct rule_event e;
	__u64 at; /* address of the next signal of the list; 0: there is none */
	long err; /* the state of the process, or the signal, could not be read */
};

/* A program goes through this many signals of a list at most. The receiver holds the lock of its
 * queue meanwhile, some milliseconds for so many. The same as fetchMost in fetch_live_test.go. */
#define FETCH_MOST (1 << 14)

/* What each signal begins with: ErtsSignalCommon of erl_proc_sig_queue.h. A message has its term where
 * others have their tag. */
struct signal {
	__u64 next;
	__u64 specific;
	__u64 tag;
};

/* Signals that are no messages have the header of a pid of another node as their tag. */
#define IS_MESSAGE(tag) (((tag) & 0x3f) != 0x30)

/* Ends the instance of a message that is fetched. */
static __noinline int end_fetched(struct rule_event *e)
{
	struct span open;
	enum head head = take_keyed(e, &open);

	if (e->current)
		count(&e->series, e->row, ENDS);
	if (head == HEAD_OPEN)
		end_instance(e, &open, false);
	else if (e->current)
		count(&e->series, e->row, head == HEAD_TIMED_OUT ? LATES : ORPHANS);
	return 0;
}

static long fetch_next(__u32 i, struct fetch *f)
{
	struct signal s;

	if (!f->at)
		return 1;
	f->err = bpf_probe_read_user(&s, sizeof(s), (void *)f->at);
	if (f->err)
		return 1;
	if (IS_MESSAGE(s.tag)) {
		f->e.key.seq = BY_ADDRESS | (f->at & (BY_ADDRESS - 1));
		end_fetched(&f->e);
	}
	f->at = s.next;
	return 0;
}

/* Gives up the instances of the messages in the rest of a list. Which ones these are is not known. So
 * those that started before now are lost as unpaired when they time out, see may_be_fetched. The queue
 * keeps the time. It is never empty, so the sweep keeps the queue until then. */
static __noinline int give_up_rest(struct rule_event *e)
{
	__u64 seq;
	struct queue *q = join_queue(&e->key, false, e->index, e->now, &seq);

	if (q)
		*(volatile __u64 *)&q->floor_ns = e->now;
	else
		count(&e->series, e->row, MAP_FULL);
	return 0;
}

static __always_inline void rule_arm(struct rule_event *e)
{
	__u64 target;

	if (!read_operand(e, &rule.arm, &target))
		bpf_map_update_elem(&arming, &e->key, &target, BPF_ANY);
}

/* Prepares an event for its rule. Returns false if the event does not count, or was already counted
 * as dropped or unreadable. The cookie is the index of the outcome's entry. */
static __always_inline bool begin_rule_event(void *ctx, struct rule_event *e)
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
		/* A term that cannot be read only means that there is no process, for example when
		 * a scheduler starts. */
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
	if (begin_rule_event(ctx, &e))
		rule_start(&e);
	return 0;
}

SEC("uprobe.multi")
int rule_via_probe(void *ctx)
{
	struct rule_event e = {};

	use_thread_stack();
	if (begin_rule_event(ctx, &e))
		rule_via(&e);
	return 0;
}

SEC("uprobe.multi")
int rule_end_probe(void *ctx)
{
	struct rule_event e = {};

	use_thread_stack();
	if (begin_rule_event(ctx, &e))
		rule_end(&e);
	return 0;
}

/* At the place of a function where a receiver fetches the messages of its outer queue. The argument
 * message is the address of the first one. The messages of a process that exits are not received. */
SEC("uprobe.multi")
int rule_fetch_probe(void *ctx)
{
	struct fetch f = {};
	__u64 state;

	use_thread_stack();
	if (!begin_rule_event(ctx, &f.e))
		return 0;
	f.err = read_arg(ctx, NULL, rule.state, &state);
	if (!f.err && state & PSFLG_EXITING)
		return 0;
	f.at = f.e.key.seq & (BY_ADDRESS - 1);
	if (!f.err)
		bpf_loop(FETCH_MOST, fetch_next, &f, 0);
	if (f.err)
		count(&f.e.series, f.e.row, READ_ERRORS);
	if (f.at)
		give_up_rest(&f.e);
	return 0;
}

SEC("uprobe.multi")
int rule_sync_probe(void *ctx)
{
	struct rule_event e = {};

	use_thread_stack();
	if (begin_rule_event(ctx, &e))
		note_work(&e);
	return 0;
}

SEC("uprobe.multi")
int rule_arm_probe(void *ctx)
{
	struct rule_event e = {};

	use_thread_stack();
	if (begin_rule_event(ctx, &e))
		rule_arm(&e);
	return 0;
}

/* Notes that the process of a key has exited. Nothing in its queues can end any more, so the sweep
 * deletes them. */
static __always_inline void note_exit(struct rule_event *e)
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
	if (begin_rule_event(ctx, &e))
		note_exit(&e);
	return 0;
}

/* OTP's behaviours spawn all their processes with this function. */
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

/* At process__spawn. Attached if an outcome is grouped by the function with which processes were
 * spawned. */
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
	k.process = pack_pid(pid, term_tables(ctx, k.pid));
	if (!k.process)
		return 0;
	group = args_are_terms ? function_group(mfa, atoms_of(ctx)) : 0;
	if (args_are_terms ? is_init_p(group) : is_proc_lib(mfa)) {
		/* This function hides the real one, which user space reads from the VM's memory. If
		 * the queue is full, it does so only for the processes that stand out. */
		bpf_map_push_elem(&born, &k, 0);
		return 0;
	}
	if (!args_are_terms)
		group = text_group(mfa);
	if (group)
		bpf_map_update_elem(&spawned, &k, &group, BPF_ANY);
	return 0;
}

/* At process__exit. Attached together with process_spawn. */
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
	k.process = pack_pid(pid, term_tables(ctx, k.pid));
	bpf_map_delete_elem(&spawned, &k);
	return 0;
}

#endif
