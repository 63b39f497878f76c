/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* The parameters of a function at its entry, and its result at its return, according to the calling
 * conventions: System V for x86-64, and AAPCS64. */

#ifndef PARAM_BPF_H
#define PARAM_BPF_H

#include "args.bpf.h"

/* Returns parameter n, from 1 to 5. n must be a constant. */
static __always_inline __u64 param(void *ctx, int n)
{
#ifdef __TARGET_ARCH_x86
	/* rdi, rsi, rdx, rcx and r8 in struct pt_regs of asm/ptrace.h */
	switch (n) {
	case 1:
		return word_of(ctx, 14);
	case 2:
		return word_of(ctx, 13);
	case 3:
		return word_of(ctx, 12);
	case 4:
		return word_of(ctx, 11);
	default:
		return word_of(ctx, 9);
	}
#else
	return word_of(ctx, n - 1);
#endif
}

/* At the entry of a function: returns the distance from the place of the probe to the return
 * address, or 0 if that address cannot be read. */
static __always_inline __u64 caller(void *ctx)
{
#ifdef __TARGET_ARCH_x86
	__u64 to;

	/* The stack pointer rsp, where the call has pushed the return address, and rip. */
	return bpf_probe_read_user(&to, sizeof(to), (void *)word_of(ctx, 19)) ? 0 : to - word_of(ctx, 16);
#else
	return word_of(ctx, 30) - word_of(ctx, 32); /* lr and pc */
#endif
}

/* At the return of a function: returns its result. */
static __always_inline __u64 returned(void *ctx)
{
#ifdef __TARGET_ARCH_x86
	return word_of(ctx, 10); /* rax */
#else
	return word_of(ctx, 0);
#endif
}

#endif
