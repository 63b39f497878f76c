/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Erlang pids, as text and as terms, packed into one integer: number, serial << 32,
 * node << 48. */

#ifndef PID_BPF_H
#define PID_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* "<0.1234.5>": at most three numbers of ten digits each. */
#define PID_MAX 40

/* Packs the Erlang pid in the string at addr. Returns 0 if it is not a pid, cannot be read, or is
 * too large to be packed. Not static: the verifier checks a global function once, and not at each
 * call. */
__noinline __u64 erlang_pid(__u64 addr)
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
			return node >> 15 || part >> 16 ? 0 : number | part << 32 | node << 48;
		else
			return 0;
		parts++;
		part = 0;
	}
	return 0;
}

/* How terms represent the VM's own pids and ports: see erts/emulator/beam/erl_term.h and
 * erl_ptab.h. */
enum term_form {
	TERMS_UNKNOWN,   /* terms cannot be read */
	TERMS_BY_NUMBER, /* up to OTP 25: the lower half contains the number, and a serial above it */
	TERMS_BY_PLACE,  /* since OTP 26: the lowest bits are a place in the VM's table of processes,
			  * or of ports, from which the number follows */
};

const volatile enum term_form terms_are;

/* Where the VM has the data about its two tables, struct known_table: distances in bytes from the
 * place where the program is attached. */
const volatile __s64 process_table;
const volatile __s64 port_table;

/* ErtsPTabReadOnlyData from the member max on, since OTP 26, for 64 bits. All of it follows from
 * max and the number of places in a cache line. */
struct known_table {
	__u32 max; /* number of places, a power of two */
	__u32 unused;
	__u64 mask;
	__u64 line_mask;
	__u64 in_mask;
	__u32 in_bits;   /* log2 of the number of places in a cache line */
	__u32 line_bits; /* log2 of the number of cache lines */
};

#define TABLE_MAX_BITS 27 /* ERTS_PTAB_MAX_SIZE */

/* A cache of how numbers follow from places, at the low bits of the VM's pid: pid << 32 | table of
 * ports << 16 | table of processes. The tables are as read_table returns them. */
#define TABLES_CACHE 256

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TABLES_CACHE);
	__type(key, __u32);
	__type(value, __u64);
} term_cache SEC(".maps");

/* Reads a table. Returns bits | in_bits << 8, or 0 if the memory contains no valid table, for
 * example before the VM has made it. */
static __always_inline __u32 read_table(__u64 addr)
{
	struct known_table t;
	__u32 bits;

	if (bpf_probe_read_user(&t, sizeof(t), (void *)addr))
		return 0;
	if (t.in_bits > TABLE_MAX_BITS || t.line_bits > TABLE_MAX_BITS)
		return 0;
	bits = t.in_bits + t.line_bits;
	if (bits > TABLE_MAX_BITS || t.max != 1U << bits || t.mask != t.max - 1 ||
	    t.line_mask != (1U << t.line_bits) - 1 || t.in_mask != (1U << t.in_bits) - 1)
		return 0;
	return bits | t.in_bits << 8;
}

/* Returns both tables of the VM that runs the program: ports << 16 | processes, with 0 for an
 * unknown table. The program is attached at the address here. Not static, like erlang_pid. */
__noinline __u32 vm_tables(__u32 pid, __u64 here)
{
	__u32 at = pid % TABLES_CACHE;
	__u64 *cached = bpf_map_lookup_elem(&term_cache, &at);
	__u64 entry;
	__u32 tables, ports;

	if (!cached)
		return 0;
	entry = *(volatile __u64 *)cached;
	if (entry >> 32 == pid)
		return entry;
	tables = read_table(here + process_table);
	ports = read_table(here + port_table);
	if (tables && ports)
		*(volatile __u64 *)cached = (__u64)pid << 32 | ports << 16 | tables;
	return ports << 16 | tables;
}

/* Returns what is needed to read terms of the VM that runs the program. */
static __always_inline __u32 term_tables(void *ctx, __u32 pid)
{
	return terms_are == TERMS_BY_PLACE ? vm_tables(pid, bpf_get_func_ip(ctx)) : 0;
}

/* Reports whether terms can be read. tables is the result of term_tables. */
static __always_inline bool knows_terms(__u32 tables)
{
	return terms_are == TERMS_BY_NUMBER || (terms_are == TERMS_BY_PLACE && (tables & 0xffff));
}

/* The lowest bits of a term are its type: erts/emulator/beam/erl_term.h of OTP 25, 27 and 29. The
 * term of a boxed value is a pointer with a tag added. */
#define TERM_TAG_BITS 4
#define TERM_TAG_PID 0x3
#define TERM_TAG_PORT 0x7
#define TERM_TAG_SMALL 0xf
#define TERM_TAG(term) ((term) & ((1 << TERM_TAG_BITS) - 1))
#define TERM_BOXED_TAG 0x2
#define TERM_BOXED_MASK 0x3
#define TERM_ATOM_BITS 6
#define TERM_TAG_ATOM 0xb
#define TERM_IS_ATOM(term) (((term) & ((1 << TERM_ATOM_BITS) - 1)) == TERM_TAG_ATOM)

/* Returns the data from which the VM made a term. The argument data has a place in its lowest bits.
 * The lowest bits of the place are the highest bits of the number (erts_ptab_pixdata2data). */
static __always_inline __u64 data_of_place(__u64 data, __u32 table)
{
	__u32 bits = table & 0x1f, in_bits = table >> 8 & 0x1f;
	__u64 mask = (1ULL << bits) - 1, place = data & mask;

	return (data & ~mask) | place >> in_bits | (place & ((1ULL << in_bits) - 1)) << (bits - in_bits & 0x1f);
}

/* Packs the pid of a process of this VM, given as a term. Returns 0 if it is not a pid, or is too
 * large to be packed. */
static __always_inline __u64 term_pid(__u64 term, __u32 tables)
{
	__u64 data = term >> TERM_TAG_BITS;

	if (TERM_TAG(term) != TERM_TAG_PID)
		return 0;
	switch (terms_are) {
	case TERMS_BY_NUMBER: /* a number of 15 bits, and a serial of 13 */
		data = (__u32)term >> TERM_TAG_BITS;
		return (data & 0x7fff) | data >> 15 << 32;
	case TERMS_BY_PLACE: /* a number of 28 bits, and a serial of 32 */
		if (!(tables & 0xffff))
			return 0;
		data = data_of_place(data, tables);
		return data >> 44 ? 0 : (data & 0xfffffff) | data >> 28 << 32;
	default:
		return 0;
	}
}

/* Whether the program is at a stand-in function, where pids are terms and not text. */
const volatile bool args_are_terms;

/* Packs the pid in an event. Returns 0 if it is not a pid. */
static __always_inline __u64 pack_pid(__u64 value, __u32 tables)
{
	return args_are_terms ? term_pid(value, tables) : erlang_pid(value);
}

/* Returns the number of a port of this VM, given as a term. Returns 0 if it is not a port. */
static __always_inline __u64 term_port(__u64 term, __u32 tables)
{
	if (TERM_TAG(term) != TERM_TAG_PORT)
		return 0;
	switch (terms_are) {
	case TERMS_BY_NUMBER:
		return (__u32)term >> TERM_TAG_BITS;
	case TERMS_BY_PLACE:
		return tables >> 16 ? data_of_place(term >> TERM_TAG_BITS, tables >> 16) : 0;
	default:
		return 0;
	}
}

#endif
