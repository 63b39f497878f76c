/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Groups by function or port at stand-in functions. A probe reports a group's text; a stand-in
 * function has only terms. The programs identify such a group by a hash, and user space makes its
 * text. */

#ifndef TERMGROUP_BPF_H
#define TERMGROUP_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "discover.bpf.h"
#include "group.bpf.h"

/* The address of the VM's table of atoms, struct index_table, as a distance in bytes from the place
 * where the program is attached. 0: unknown. */
const volatile __s64 atom_table;

/* Offsets in struct index_table and struct atom, erts/emulator/beam/index.h and atom.h of OTP 25
 * and 27. An atom contains its own index, so a different layout is detected. */
#define TABLE_PAGES 120
#define ATOM_INDEX 16
#define PAGE_BITS 10
#define ATOM_TAG 0x0b
#define ATOM_TAG_BITS 6

/* Struct atom, from its index on. */
struct known_atom {
	__u32 index;
	__u32 unused;
	__u16 length; /* of the text in bytes */
	__u16 characters;
	__u32 first;
	__u64 text; /* its address */
};

/* The parts of the text of a group. */
struct text_parts {
	__u64 module;   /* hash of its text in texts_seen; 0 if the group is a port */
	__u64 function; /* hash of its text in texts_seen; 0 if the group is a port */
	__u64 number;   /* the arity, or the number of the port */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set when loading */
	__type(key, __u64);
	__type(value, struct text_parts);
} text_parts SEC(".maps");

/* Finds an atom. Returns 0, or an error if the atom cannot be read. table is the address of the
 * VM's table of atoms. */
static __always_inline long find_atom(__u64 table, __u64 term, struct known_atom *a)
{
	__u64 index = term >> ATOM_TAG_BITS, at;
	long err;

	if ((term & ((1 << ATOM_TAG_BITS) - 1)) != ATOM_TAG || index >> 32)
		return -1;
	err = bpf_probe_read_user(&at, sizeof(at), (void *)(table + TABLE_PAGES));
	if (err)
		return err;
	err = bpf_probe_read_user(&at, sizeof(at), (void *)(at + (index >> PAGE_BITS) * 8));
	if (err)
		return err;
	at += (index & ((1 << PAGE_BITS) - 1)) * 8;
	err = bpf_probe_read_user(&at, sizeof(at), (void *)at);
	if (err)
		return err;
	err = bpf_probe_read_user(a, sizeof(*a), (void *)(at + ATOM_INDEX));
	if (err)
		return err;
	return a->index == index && a->length <= TEXT_MAX ? 0 : -1;
}

/* Stores the text of an atom under its hash, and returns the hash. Returns 0 if the text cannot be
 * read or is empty. The text has at most TEXT_MAX bytes. Not inlined: the text does not fit
 * on the stack of its callers as well. */
__noinline __u64 note_atom(__u64 addr, __u32 length)
{
	struct group_text t = {};
	__u64 hash = mix(HASH_FACTOR, length);

	barrier_var(length);
	if (!length || length > TEXT_MAX || bpf_probe_read_user(t.text, length, (void *)addr))
		return 0;
	for (int i = 0; i < sizeof(t.text) / 8; i++)
		hash = mix(hash, ((__u64 *)t.text)[i]);
	hash |= IS_TEXT;
	if (!bpf_map_lookup_elem(&texts_seen, &hash))
		bpf_map_update_elem(&texts_seen, &hash, &t, BPF_NOEXIST);
	return hash;
}

/* Stores the parts of a group's text, and returns the group's hash. */
static __always_inline __u64 store_parts(const struct text_parts *t)
{
	__u64 group = mix(mix(t->module, t->function), t->number) | IS_TEXT;

	if (!bpf_map_lookup_elem(&text_parts, &group))
		bpf_map_update_elem(&text_parts, &group, t, BPF_NOEXIST);
	return group;
}

/* Returns the group of a function, or 0 if the function cannot be read. words is the address of
 * three words: the term of its module, the term of its name, and its arity. table is the address of
 * the VM's table of atoms. Not inlined, like note_atom. */
__noinline __u64 function_group(__u64 words, __u64 table)
{
	struct text_parts t = {};
	struct known_atom atom;
	__u64 mfa[3];

	if (bpf_probe_read_user(mfa, sizeof(mfa), (void *)words) || find_atom(table, mfa[0], &atom))
		return 0;
	t.module = note_atom(atom.text, atom.length);
	if (!t.module || find_atom(table, mfa[1], &atom))
		return 0;
	t.function = note_atom(atom.text, atom.length);
	if (!t.function)
		return 0;
	t.number = mfa[2];
	return store_parts(&t);
}

/* Returns the group of a port. Not inlined, like note_atom. */
__noinline __u64 port_group(__u64 number)
{
	struct text_parts t = {.number = number};

	return store_parts(&t);
}

/* Texts of at most eight bytes, as words. */
#define WORD_PROC_LIB 0x62696c5f636f7270ULL /* proc_lib */
#define WORD_INIT_P 0x705f74696e69ULL	    /* init_p */

/* Reports whether the text with this hash equals a word. */
static __always_inline bool has_text(__u64 hash, __u64 word)
{
	__u64 *text = bpf_map_lookup_elem(&texts_seen, &hash);

	return text && text[0] == word && !text[1];
}

/* Reports whether a group is proc_lib:init_p of any arity: OTP's behaviours spawn processes with it. */
static __always_inline bool is_init_p(__u64 group)
{
	struct text_parts *t = bpf_map_lookup_elem(&text_parts, &group);

	return t && has_text(t->module, WORD_PROC_LIB) && has_text(t->function, WORD_INIT_P);
}

#endif
