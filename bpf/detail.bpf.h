/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Logs the events of watched processes. Each program logs one kind of event, and returns at once if
 * no process is watched. */

#ifndef DETAIL_BPF_H
#define DETAIL_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "args.bpf.h"
#include "log.bpf.h"
#include "neighbour.bpf.h"
#include "param.bpf.h"
#include "pid.bpf.h"
#include "rule.bpf.h"
#include "stack.bpf.h"
#include "state.bpf.h"
#include "unseen.bpf.h"
#include "watch.bpf.h"

struct detail {
	__u64 now;
	struct process_key key;
	__u32 tables; /* of the VM, see term_tables */
};

/* Begins an event. Returns false if no process of the VM is watched. */
static __always_inline bool begin_detail(void *ctx, struct detail *d)
{
	d->now = bpf_ktime_get_ns();
	d->key.pid = current_pid();
	count_hit(d->key.pid);
	if (!d->key.pid || !is_watching(d->key.pid, d->now))
		return false;
	d->tables = term_tables(ctx, d->key.pid);
	return true;
}

/* Finds the process whose pid is argument n. Returns NULL if that process is not watched. */
static __always_inline struct watch *watched_arg(void *ctx, struct detail *d, struct block *b, int n)
{
	__u64 addr;

	if (read_block(ctx, b) || read_arg(ctx, b, n, &addr))
		return NULL;
	d->key.process = pack_pid(addr, d->tables);
	return find_watch(&d->key, d->now);
}

/* Finds the process that runs on this thread. Returns NULL if it is unknown or not watched. */
static __always_inline struct watch *watched_runner(struct detail *d)
{
	struct runner *r = this_runner(d->key.pid);

	d->key.process = r && knows_runner(r) ? r->process : 0;
	return find_watch(&d->key, d->now);
}

/* At the start and the end of garbage collections. Logs only the process. The cookie is the
 * kind. */
SEC("uprobe.multi")
int detail_plain(void *ctx)
{
	struct block block;
	struct detail d;

	use_thread_stack();
	if (begin_detail(ctx, &d) && watched_arg(ctx, &d, &block, 0))
		log_plain(bpf_get_attach_cookie(ctx), d.now, d.key.pid, d.key.process, 0);
	return 0;
}

/* At process__exit. */
SEC("uprobe.multi")
int detail_exit(void *ctx)
{
	struct block block;
	struct detail d;

	use_thread_stack();
	if (!begin_detail(ctx, &d) || !watched_arg(ctx, &d, &block, 0))
		return 0;
	check_thread(d.key.pid);
	log_plain(LOG_EXIT, d.now, d.key.pid, d.key.process, 0);
	bpf_map_delete_elem(&watches, &d.key);
	return 0;
}

/* At nif__entry and nif__return. The cookie is the kind. The return of a function that stands in
 * for nif__return has no argument for the process, which is then the one that runs on the
 * thread. */
SEC("uprobe.multi")
int detail_nif(void *ctx)
{
	__u64 kind = bpf_get_attach_cookie(ctx), addr, text = 0;
	struct block block;
	struct detail d;

	use_thread_stack();
	if (!begin_detail(ctx, &d))
		return 0;
	if (args[0].kind == ARG_UNKNOWN ? !watched_runner(&d) : !watched_arg(ctx, &d, &block, 0))
		return 0;
	if (kind == LOG_NIF_START && !read_arg(ctx, &block, 1, &addr))
		text = args_are_terms ? function_group(addr, atoms_of(ctx)) : text_group(addr);
	log_plain(kind, d.now, d.key.pid, d.key.process, text);
	return 0;
}

/* A message, as it is logged. */
struct message {
	__u64 receiver;
	__u32 size;
	__u32 label;
	__u32 prev;
	__u32 cur;
	__u32 inner;
	__u16 origin; /* of a received message: then receiver is where the message comes from */
	__u8 flags;
};

static __always_inline void log_message(__u8 kind, const struct detail *d, const struct message *m)
{
	struct writing w = begin_record(kind, d->now, d->key.pid, d->key.process);

	if (!w.to)
		return;
	w.to->other = m->receiver;
	w.to->size = m->size;
	w.to->flags = m->flags;
	w.to->origin = m->origin;
	w.to->details[0] = m->label | (__u64)m->prev << 32;
	w.to->details[1] = m->cur | (__u64)m->inner << 32;
	end_record(&w);
}

/* Returns argument n, or 0 if it cannot be read. */
static __always_inline __u64 number_arg(void *ctx, const struct block *b, int n)
{
	__u64 value;

	return read_arg(ctx, b, n, &value) ? 0 : value;
}

/* Logs that d->key.process sends a message, if it or the receiver is watched. If the sender is
 * watched, the receiver is watched from now on. */
static __noinline int log_sent(struct detail *d, struct message *m)
{
	struct process_key to = {.process = m->receiver, .pid = d->key.pid};
	struct watch *from = find_watch(&d->key, d->now), *receiver;
	__u8 stranger = from ? 0 : LOG_STRANGER;

	if (from && from->hop < MAX_HOPS && !(to.process >> 48)) { /* a process of this node */
		struct watch by = {
			.until_ns = *(volatile __u64 *)&from->until_ns,
			.start_ns = from->start_ns,
			.since_ns = d->now,
			.root = *(volatile __u32 *)&from->root,
			.hop = from->hop + 1,
		};

		watch_process(&to, &by, d->key.process);
	}
	receiver = find_watch(&to, d->now);
	if (receiver) {
		if (!receiver->ready_ns)
			*(volatile __u64 *)&receiver->ready_ns = d->now;
	} else if (stranger) {
		return 0;
	}
	m->flags |= stranger;
	log_message(LOG_SEND, d, m);
	return 0;
}

/* The argument after those of message__send, message__queued and message__receive: the address of
 * the message, if it can be read. */
#define ARG_MESSAGE 6

/* In the cookie: that argument is the address of a word that contains the message's address. */
#define MESSAGE_INDIRECT (1 << 8)

/* In the cookie: the VM has no event for the fetch of a message. */
#define MESSAGE_UNFETCHED (1 << 9)

/* Reads the address of a message that has no token. The VM does not reuse the address while the
 * message is in a mailbox, unless it collects garbage. */
static __always_inline void read_address(void *ctx, __u64 cookie, const struct block *b, struct message *m)
{
	__u64 address;

	if (m->label || m->prev || m->cur)
		return;
	address = number_arg(ctx, b, ARG_MESSAGE);
	if (address && cookie & MESSAGE_INDIRECT && bpf_probe_read_user(&address, sizeof(address), (void *)address))
		return;
	if (!address)
		return;
	m->label = address;
	m->prev = address >> 32;
	m->flags |= LOG_ADDRESS;
}

/* Reports whether the sender of a message is the process that runs on this thread, or that process
 * is unknown. The VM also sends messages on behalf of processes that do not run. */
static __always_inline bool sends_itself(struct detail *d)
{
	struct runner *r = this_runner(d->key.pid);

	return r && (!knows_runner(r) || r->process == d->key.process);
}

/* At message__send. The cookie has the flags above. */
SEC("uprobe.multi")
int detail_send(void *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct message m = {};
	struct block block;
	struct detail d;
	__u64 from, to;

	use_thread_stack();
	if (!begin_detail(ctx, &d) || read_block(ctx, &block) ||
	    read_arg(ctx, &block, 0, &from) || read_arg(ctx, &block, 1, &to))
		return 0;
	d.key.process = pack_pid(from, d.tables);
	m.receiver = pack_pid(to, d.tables);
	if (args_are_terms && (!m.receiver || !sends_itself(&d)))
		return 0;
	m.size = number_arg(ctx, &block, 2);
	m.label = number_arg(ctx, &block, 3);
	m.prev = number_arg(ctx, &block, 4);
	m.cur = number_arg(ctx, &block, 5);
	if (cookie & MESSAGE_UNFETCHED) {
		m.flags |= LOG_UNFETCHED;
		read_address(ctx, cookie, &block, &m);
	}
	log_sent(&d, &m);
	return 0;
}

/* A reference that is an alias: ErtsPRefThing, little endian. Its header consists of the number of
 * words that follow, and its type. */
#define PID_REF_HEADER (3 << 6 | 0x4 << 2)

struct pid_ref {
	__u64 header;
	__u64 numbers[2];
	__u64 process;
};

/* A seq_trace token: a tuple of 5. */
#define TUPLE4_HEADER (4ULL << 6)
#define TUPLE5_HEADER (5 << 6)

struct token {
	__u64 header;
	__u64 flags;
	__u64 label;
	__u64 serial;
	__u64 from;
	__u64 lastcnt;
};

/* Offsets of the members of struct process, in bytes; 0: unknown. */
const volatile __u32 process_state;
const volatile __u32 process_flags;
const volatile __u32 process_save;
const volatile __u32 process_seq_clock;
const volatile __u32 process_seq_lastcnt;
const volatile __u32 process_suspensions;
const volatile __u32 process_timer;

/* Offset of three words in a message, in bytes: its term, its token and its origin. */
const volatile __u32 message_words;

/* Returns the process of an alias, or 0 if the term is not an alias. */
static __always_inline __u64 alias_process(__u64 term, __u32 tables)
{
	struct pid_ref ref;

	if ((term & TERM_BOXED_MASK) != TERM_BOXED_TAG ||
	    bpf_probe_read_user(&ref, sizeof(ref), (void *)(term - TERM_BOXED_TAG)) ||
	    ref.header != PID_REF_HEADER)
		return 0;
	return term_pid(ref.process, tables);
}

/* Reads the token that a message to an alias will have. The function that sends the message
 * increments the serial only later, see seq_trace_update_serial in erl_trace.c. */
static __always_inline void read_token(__u64 term, __u64 process, struct message *m)
{
	__u64 clock = 0, lastcnt = 0;
	struct token t;

	if ((term & TERM_BOXED_MASK) != TERM_BOXED_TAG ||
	    bpf_probe_read_user(&t, sizeof(t), (void *)(term - TERM_BOXED_TAG)) ||
	    t.header != TUPLE5_HEADER)
		return;
	m->label = 1U << 31; /* as probes report a label that does not fit into 32 bits */
	if (TERM_TAG(t.label) == TERM_TAG_SMALL) {
		__s64 label = (__s64)t.label >> TERM_TAG_BITS;

		if (label == (__s32)label)
			m->label = label;
	}
	if (!process_seq_clock || !process_seq_lastcnt ||
	    bpf_probe_read_user(&clock, sizeof(clock), (void *)(process + process_seq_clock)) ||
	    bpf_probe_read_user(&lastcnt, sizeof(lastcnt), (void *)(process + process_seq_lastcnt)))
		return;
	m->prev = lastcnt;
	m->cur = clock + 1;
}

/* At erts_proc_sig_send_to_alias(Process *c_p, Eterm from, Eterm to, Eterm msg, Eterm token) or,
 * since OTP 28, erts_proc_sig_send_altact_msg. The latter has one more parameter, and also sends
 * messages with priority, to pids as well. The cookie is that of message__send. */
SEC("uprobe.multi")
int detail_send_alias(void *ctx)
{
	struct message m = {.flags = LOG_ALIAS | (bpf_get_attach_cookie(ctx) & MESSAGE_UNFETCHED ? LOG_UNFETCHED : 0)};
	struct detail d;

	use_thread_stack();
	if (!begin_detail(ctx, &d))
		return 0;
	d.key.process = term_pid(param(ctx, 2), d.tables);
	m.receiver = alias_process(param(ctx, 3), d.tables) ?: term_pid(param(ctx, 3), d.tables);
	if (!m.receiver)
		return 0;
	read_token(param(ctx, 5), param(ctx, 1), &m);
	log_sent(&d, &m);
	return 0;
}

/* The message of a monitor: {'DOWN', Ref, Type, Object, Reason}. Its first element may be another
 * term. */
struct down {
	__u64 header;
	__u64 tag;
	__u64 ref;
	__u64 type;
};

static __always_inline bool is_down(__u64 term)
{
	struct down d;

	return (term & TERM_BOXED_MASK) == TERM_BOXED_TAG &&
	       !bpf_probe_read_user(&d, sizeof(d), (void *)(term - TERM_BOXED_TAG)) && d.header == TUPLE5_HEADER &&
	       (d.ref & TERM_BOXED_MASK) == TERM_BOXED_TAG && TERM_IS_ATOM(d.type);
}

/* The message that the VM sends when a file descriptor that a native function has selected is
 * ready, unless the function has set another message: {select, Obj, Ref, ready_input}. That of the
 * module socket is {'$socket', Socket, select, Ref}. */
struct tuple4 {
	__u64 header;
	__u64 tag;
};

/* Returns the index of the atom with which a tuple of four begins, or 0 if the term is no such
 * tuple. */
static __always_inline __u32 tag_of_tuple4(__u64 term)
{
	struct tuple4 t;

	if ((term & TERM_BOXED_MASK) != TERM_BOXED_TAG ||
	    bpf_probe_read_user(&t, sizeof(t), (void *)(term - TERM_BOXED_TAG)) || t.header != TUPLE4_HEADER ||
	    !TERM_IS_ATOM(t.tag))
		return 0;
	return t.tag >> TERM_ATOM_BITS;
}

/* Reads the origin of the message that the process on this thread receives. */
static __always_inline void read_origin(const struct detail *d, struct message *m)
{
	__u64 save = 0, at = 0, words[3] = {}; /* term, token, from */
	struct runner *r = this_runner(d->key.pid);

	if (!process_save || !message_words || !r || !r->address || r->process != d->key.process ||
	    bpf_probe_read_user(&save, sizeof(save), (void *)(r->address + process_save)) ||
	    bpf_probe_read_user(&at, sizeof(at), (void *)save) ||
	    bpf_probe_read_user(words, sizeof(words), (void *)(at + message_words)))
		return;
	m->receiver = term_pid(words[2], d->tables);
	if (m->receiver) {
		/* If the VM sends a message on behalf of a process, the word of the token contains
		 * an atom. */
		m->origin = TERM_IS_ATOM(words[1]) && is_down(words[0]) ? ORIGIN_DOWN : ORIGIN_PROCESS;
	} else if (TERM_TAG(words[2]) == TERM_TAG_PORT) {
		m->receiver = term_port(words[2], d->tables);
		m->origin = ORIGIN_PORT;
	} else if (TERM_IS_ATOM(words[2])) {
		m->receiver = (__u32)(words[2] >> TERM_ATOM_BITS) | (__u64)tag_of_tuple4(words[0]) << 32;
		m->origin = ORIGIN_ATOM;
	}
}

/* At message__queued and message__receive. The cookie has the kind and the flags above. */
SEC("uprobe.multi")
int detail_received(void *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct message m = {};
	struct block block;
	struct detail d;

	use_thread_stack();
	if (!begin_detail(ctx, &d) || !watched_arg(ctx, &d, &block, 0))
		return 0;
	m.size = number_arg(ctx, &block, 1);
	m.inner = number_arg(ctx, &block, 2);
	m.label = number_arg(ctx, &block, 3);
	m.prev = number_arg(ctx, &block, 4);
	m.cur = number_arg(ctx, &block, 5);
	read_address(ctx, cookie, &block, &m);
	if (cookie & MESSAGE_UNFETCHED)
		m.flags |= LOG_UNFETCHED;
	if ((__u8)cookie == LOG_RECEIVE)
		read_origin(&d, &m);
	log_message(cookie, &d, &m);
	return 0;
}

/* Reads the process whose pid, as a term, is argument 0. Returns false if there is none. */
static __always_inline bool process_arg(void *ctx, struct detail *d, struct block *b)
{
	__u64 term;

	if (read_block(ctx, b) || read_arg(ctx, b, 0, &term))
		return false;
	d->key.process = term_pid(term, d->tables);
	return d->key.process;
}

/* The same as bpf.StateKnown and the constants after it. */
enum {
	STATE_KNOWN = 1 << 0,
	STATE_ACTIVE = 1 << 1,
	STATE_SUSPENDED = 1 << 2,
	STATE_DIRTY = 1 << 3,
	STATE_EXITING = 1 << 4,
	STATE_TIMER = 1 << 5,
	STATE_TIMED_OUT = 1 << 6,
};

/* Flags of struct process, erl_process.h. F_INSLPQUEUE: the timer of a receive is running. F_TIMO:
 * it has expired, or a variable sets the timeout to infinity. Neither: there is no timer. */
#define F_INSLPQUEUE (1 << 1)
#define F_TIMO (1 << 2)

/* Returns the state of the receive timer of a process, or 0 if it is unknown. */
static __always_inline __u32 read_timer(__u64 process)
{
	__u32 flags;

	if (!process_flags || !process_state ||
	    bpf_probe_read_user(&flags, sizeof(flags), (void *)(process + process_flags)))
		return 0;
	if (flags & F_INSLPQUEUE)
		return STATE_KNOWN | STATE_TIMER;
	return flags & F_TIMO ? STATE_KNOWN | STATE_TIMED_OUT : STATE_KNOWN;
}

/* The timer of a receive that has expired: ERTS_PTMR_TIMEDOUT in erl_hl_timer.h of OTP 25, 27 and
 * 29. It is set before the process becomes runnable. */
#define PTMR_TIMED_OUT 1

/* Returns the state of the receive timer of a process that becomes runnable, or 0 if it is
 * unknown. */
static __always_inline __u32 read_expired(__u64 process)
{
	__u64 timer;

	if (!process_timer || bpf_probe_read_user(&timer, sizeof(timer), (void *)(process + process_timer)))
		return 0;
	return timer == PTMR_TIMED_OUT ? STATE_KNOWN | STATE_TIMED_OUT : STATE_KNOWN;
}

/* Returns the state of a process, or 0 if it is unknown. */
static __always_inline __u32 read_state(__u64 process)
{
	__u32 flags, state = STATE_KNOWN;

	if (!process_state || bpf_probe_read_user(&flags, sizeof(flags), (void *)(process + process_state)))
		return 0;
	if (flags & PSFLG_ACTIVE)
		state |= STATE_ACTIVE;
	if (flags & PSFLG_SUSPENDED)
		state |= STATE_SUSPENDED;
	if (flags & (PSFLG_DIRTY_CPU_PROC | PSFLG_DIRTY_IO_PROC))
		state |= STATE_DIRTY;
	if (flags & PSFLG_EXITING)
		state |= STATE_EXITING;
	return state | read_timer(process);
}

/* At process__in, the end of erts_schedule, which returns a Process *. */
SEC("uprobe.multi")
int detail_in(void *ctx)
{
	struct writing rec;
	struct runner *r;
	struct watch *w;
	struct block block;
	struct detail d;
	__u64 address;
	bool again;

	use_thread_stack();
	if (!begin_detail(ctx, &d) || !process_arg(ctx, &d, &block))
		return 0;
	r = this_runner(d.key.pid);
	address = returned(ctx);
	again = r && begin_run(r, d.key.process, address, d.now);
	w = find_watch(&d.key, d.now);
	if (!w)
		return 0;
	check_thread(d.key.pid);
	log_neighbours(d.now, d.key.pid, d.key.process, w->ready_ns ?: w->left_ns ?: w->since_ns);
	rec = begin_record(LOG_IN, d.now, d.key.pid, d.key.process);
	if (!rec.to)
		return 0;
	rec.to->flags = again ? LOG_AGAIN : 0;
	rec.to->details[0] = read_timer(address);
	end_record(&rec);
	return 0;
}

/* At process__out, the entry of erts_schedule(ErtsSchedulerData *esdp, Process *p, int
 * calls). */
SEC("uprobe.multi")
int detail_out(void *ctx)
{
	struct writing rec;
	struct runner *r;
	struct watch *w;
	struct block block;
	struct detail d;
	__u32 state;

	use_thread_stack();
	if (!begin_detail(ctx, &d) || !process_arg(ctx, &d, &block))
		return 0;
	r = this_runner(d.key.pid);
	if (r)
		end_run(r, d.key.process, d.now);
	w = find_watch(&d.key, d.now);
	if (!w)
		return 0;
	check_thread(d.key.pid);
	state = read_state(param(ctx, 2));
	w->left_ns = d.now;
	w->ready_ns = !state || (state & (STATE_ACTIVE | STATE_SUSPENDED)) == STATE_ACTIVE ? d.now : 0;
	rec = begin_record(LOG_OUT, d.now, d.key.pid, d.key.process);
	if (!rec.to)
		return 0;
	rec.to->details[0] = state;
	rec.to->details[1] = (__u32)number_arg(ctx, &block, 1);
	end_record(&rec);
	return 0;
}

/* At process__ready, the entry of erts_schedule_process(Process *p, erts_aint32_t state,
 * ErtsProcLocks locks). */
SEC("uprobe.multi")
int detail_ready(void *ctx)
{
	struct watch *w;
	struct block block;
	struct detail d;

	use_thread_stack();
	if (!begin_detail(ctx, &d) || !process_arg(ctx, &d, &block))
		return 0;
	w = find_watch(&d.key, d.now);
	if (!w)
		return 0;
	if (!w->ready_ns)
		*(volatile __u64 *)&w->ready_ns = d.now;
	log_plain(LOG_READY, d.now, d.key.pid, d.key.process, read_expired(param(ctx, 1)));
	return 0;
}

/* Types of monitors, ERTS_MON_TYPE_PROC and ERTS_MON_TYPE_DIST_PROC of erl_monitor_link.h. */
#define MONITOR_PROCESS 0
#define MONITOR_REMOTE 3

/* At process__monitor, the entry of erts_monitor_create(Uint16 type, Eterm ref, Eterm orgn,
 * Eterm trgt, Eterm name, Eterm tag). */
SEC("uprobe.multi")
int detail_monitor(void *ctx)
{
	__u64 type = (__u16)param(ctx, 1);
	struct detail d;

	use_thread_stack();
	if (!begin_detail(ctx, &d) || (type != MONITOR_PROCESS && type != MONITOR_REMOTE))
		return 0;
	d.key.process = term_pid(param(ctx, 3), d.tables);
	if (find_watch(&d.key, d.now))
		log_plain(LOG_MONITOR, d.now, d.key.pid, d.key.process, type == MONITOR_PROCESS ? term_pid(param(ctx, 4), d.tables) : 0);
	return 0;
}

/* At process__suspend, the entry of erts_suspend(Process *c_p, ErtsProcLocks locks, Port
 * *busy_port). */
SEC("uprobe.multi")
int detail_suspend(void *ctx)
{
	__u64 port = param(ctx, 3), term = 0;
	struct writing rec;
	struct block block;
	struct detail d;

	use_thread_stack();
	if (!begin_detail(ctx, &d) || !process_arg(ctx, &d, &block) || !find_watch(&d.key, d.now))
		return 0;
	/* Like a process, a port begins with its id. */
	if (port)
		bpf_probe_read_user(&term, sizeof(term), (void *)port);
	rec = begin_record(LOG_SUSPEND, d.now, d.key.pid, d.key.process);
	if (!rec.to)
		return 0;
	rec.to->other = term_port(term, d.tables);
	rec.to->flags = port ? LOG_PORT : 0;
	rec.to->details[0] = caller(ctx);
	end_record(&rec);
	return 0;
}

/* Logs that d->key.process is resumed. It had been suspended this many times; 0: unknown. */
static __noinline int log_resumed(struct detail *d, __u64 suspensions)
{
	struct watch *w = find_watch(&d->key, d->now);

	if (!w)
		return 0;
	if (!w->ready_ns)
		*(volatile __u64 *)&w->ready_ns = d->now;
	log_plain(LOG_RESUME, d->now, d->key.pid, d->key.process, suspensions);
	return 0;
}

/* At process__resume, the entry of erts_resume(Process *process, ErtsProcLocks locks). */
SEC("uprobe.multi")
int detail_resume(void *ctx)
{
	__u32 suspensions = 0;
	struct block block;
	struct detail d;

	use_thread_stack();
	if (!begin_detail(ctx, &d) || !process_arg(ctx, &d, &block))
		return 0;
	if (process_suspensions)
		bpf_probe_read_user(&suspensions, sizeof(suspensions), (void *)(param(ctx, 1) + process_suspensions));
	return log_resumed(&d, suspensions);
}

/* The beginning of struct ErtsProcList_, erts/emulator/beam/erl_process.h of OTP 25, 27 and 29. */
struct process_list {
	__u64 process; /* a pid, or a pointer to the process */
	__u64 started;
	__u64 next;
};

/* At most this many processes of a list are logged as resumed. */
#define RESUMED_MOST 256

struct resuming {
	struct detail d;
	__u64 at; /* address of the next item */
};

static long resume_next(__u32 i, struct resuming *r)
{
	struct process_list item;

	if (!r->at || bpf_probe_read_user(&item, sizeof(item), (void *)r->at))
		return 1;
	r->at = item.next;
	if (TERM_TAG(item.process) != TERM_TAG_PID &&
	    bpf_probe_read_user(&item.process, sizeof(item.process), (void *)item.process))
		return 0;
	r->d.key.process = term_pid(item.process, r->d.tables);
	log_resumed(&r->d, 0);
	return 0;
}

/* At processes__resume, the entry of erts_resume_processes(ErtsProcList *list). */
SEC("uprobe.multi")
int detail_resume_list(void *ctx)
{
	struct resuming r;

	use_thread_stack();
	if (!begin_detail(ctx, &r.d))
		return 0;
	r.at = param(ctx, 1);
	bpf_loop(RESUMED_MOST, resume_next, &r, 0);
	return 0;
}

/* At process__suspend__by and process__resume__by, the entries of the functions that
 * erlang:suspend_process and erlang:resume_process call. The cookie is the kind. */
SEC("uprobe.multi")
int detail_by(void *ctx)
{
	struct block block;
	struct detail d;
	__u64 by;

	use_thread_stack();
	if (begin_detail(ctx, &d) && process_arg(ctx, &d, &block) && find_watch(&d.key, d.now) &&
	    !read_arg(ctx, &block, 1, &by))
		log_plain(bpf_get_attach_cookie(ctx), d.now, d.key.pid, d.key.process, term_pid(by, d.tables));
	return 0;
}

#endif
