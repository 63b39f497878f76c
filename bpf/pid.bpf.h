/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* Erlang pids, as text and as terms, packed into one integer: number, serial << 32,
 * node << 48. */

#ifndef PID_BPF_H
#define PID_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* "<0.1234.5>" is at most three numbers of ten digits. */
#define PID_MAX 40

/* Packs the Erlang pid that the string at addr holds. 0: not a pid, not
 * readable, or too large to be packed. Not static: so the verifier looks at it once by
 * itself, and not along each way that leads here. */
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

/* How many bits of a local pid's data are its number: 15 up to OTP 25, where the data
 * are in the lower half of the term; 28 since, where they fill it. */
const volatile __u32 pid_number_bits = 15;

/* The last bits of a term tell what it is, erts/emulator/beam/erl_term.h. */
#define TERM_TAG_BITS 4
#define TERM_TAG_PID 0x3

/* Packs the pid of a process of the VM itself, given as a term. 0: not a pid. */
static __always_inline __u64 term_pid(__u64 term)
{
	__u64 data = (pid_number_bits == 15 ? (__u32)term : term) >> TERM_TAG_BITS;

	if ((term & ((1 << TERM_TAG_BITS) - 1)) != TERM_TAG_PID)
		return 0;
	return (data & ((1ULL << pid_number_bits) - 1)) | data >> pid_number_bits << 32;
}

#endif
