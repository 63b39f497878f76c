/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Keeps programs on the stack of the thread that they run in. */

#ifndef STACK_BPF_H
#define STACK_BPF_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* Always false. The verifier knows that, the compiler does not. */
const volatile bool never;

/* Every program at a uprobe begins with this. It does nothing and must stay.
 *
 * Since Linux 6.13 the kernel gives a program a separate stack for each processor, a "private
 * stack". It assumes that nothing preempts a program at a uprobe, which is wrong: if the kernel is
 * preemptible, another thread may run the same program on the same processor meanwhile. That thread
 * overwrites the stack of the first, and the kernel crashes.
 *
 * A program with a tail call gets no private stack (check_max_stack_depth in
 * kernel/bpf/verifier.c). It is enough that the instruction exists: the verifier looks for it
 * before it removes code that never executes. 12 is BPF_FUNC_tail_call. */
static __always_inline void use_thread_stack(void)
{
	if (never)
		asm volatile("call 12" ::: "r0", "r1", "r2", "r3", "r4", "r5", "memory");
}

#endif
