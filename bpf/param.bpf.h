/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* The parameters of a function, at its entry: by the calling conventions, System V for
 * x86-64 and AAPCS64. */

#ifndef PARAM_BPF_H
#define PARAM_BPF_H

#include "args.bpf.h"

/* Parameter n, from 1 to 5; n is a constant. */
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

#endif
