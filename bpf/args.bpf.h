/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* The arguments at a probe's site. User space writes their locations into args before it loads the
 * program. So the verifier sees constants, and removes every branch that this site does not take.
 * What runs at a hit is the load of a register, or of a word of memory. */

#ifndef ARGS_BPF_H
#define ARGS_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define MAX_ARGS 12

enum arg_kind {
	ARG_CONST,
	ARG_REGISTER,
	ARG_MEMORY,
	ARG_BLOCK,   /* in the block, which is read once for all its arguments */
	ARG_UNKNOWN,
	ARG_ADDRESS, /* like ARG_MEMORY, but the address itself is the value */
};

struct arg {
	__u8 kind;
	__u8 size;      /* in bytes: 1, 2, 4, 8 */
	__u8 is_signed;
	__u8 shift;     /* by which to shift the value in its register, in bits */
	__s8 base;      /* word of struct pt_regs; -1: none */
	__s8 index;     /* word of struct pt_regs; -1: none */
	__u8 scale;
	__s64 disp;     /* ARG_CONST: the value; ARG_MEMORY: added to the address;
			 * ARG_BLOCK: word of the block */
};

const volatile struct arg args[MAX_ARGS];

/* Arguments that are adjacent on the VM's stack are read together: most of the cost of reading user
 * memory is the cost of the call. */
#define BLOCK_WORDS 12

const volatile __s8 block_base = -1; /* word of struct pt_regs */
const volatile __s64 block_disp;
const volatile __u32 block_bytes;    /* 0: there is no block */

struct block {
	__u64 words[BLOCK_WORDS];
};

/* The context must be read at a constant offset from its unmodified pointer. In
 * plain C the compiler may merge the cases into one load at a computed offset,
 * which the verifier refuses. */
#define WORD(n)                                                                \
	case n:                                                                \
		asm volatile("%[v] = *(u64 *)(%[ctx] + " #n " * 8)"            \
			     : [v] "=r"(v)                                     \
			     : [ctx] "r"(ctx));                                \
		return v

static __always_inline __u64 word_of(void *ctx, int n)
{
	__u64 v;

	switch (n) {
	WORD(0); WORD(1); WORD(2); WORD(3); WORD(4); WORD(5); WORD(6);
	WORD(7); WORD(8); WORD(9); WORD(10); WORD(11); WORD(12); WORD(13);
	WORD(14); WORD(15); WORD(16); WORD(17); WORD(18); WORD(19); WORD(20);
#ifdef __TARGET_ARCH_arm64
	WORD(21); WORD(22); WORD(23); WORD(24); WORD(25); WORD(26); WORD(27);
	WORD(28); WORD(29); WORD(30); WORD(31); WORD(32); WORD(33);
#endif
	}
	return 0;
}

/* Reads the block. Call it before read_arg. */
static __always_inline long read_block(void *ctx, struct block *b)
{
	if (!block_bytes)
		return 0;
	return bpf_probe_read_user(b, block_bytes, (void *)(word_of(ctx, block_base) + block_disp));
}

/* Reads argument n, extended to 64 bits. Returns 0, or an error if it cannot be read. */
static __always_inline long read_arg(void *ctx, const struct block *b, int n, __u64 *value)
{
	const volatile struct arg *a = &args[n];
	int unused = 64 - a->size * 8;
	__u64 v = 0;
	long err;

	switch (a->kind) {
	case ARG_CONST:
		*value = a->disp;
		return 0;
	case ARG_REGISTER:
		v = word_of(ctx, a->base) >> a->shift;
		break;
	case ARG_BLOCK:
		v = b->words[a->disp];
		break;
	case ARG_ADDRESS:
		*value = word_of(ctx, a->base) + word_of(ctx, a->index) * a->scale + a->disp;
		return 0;
	case ARG_MEMORY:
		err = bpf_probe_read_user(&v, a->size,
					  (void *)(word_of(ctx, a->base) +
						   word_of(ctx, a->index) * a->scale +
						   a->disp));
		if (err)
			return err;
		break;
	default:
		return -1;
	}
	v <<= unused;
	*value = a->is_signed ? (__u64)((__s64)v >> unused) : v >> unused;
	return 0;
}

#endif
