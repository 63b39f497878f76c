//go:build ignore

// SPDX-License-Identifier: Apache-2.0 OR MIT

/* Finds out whether programs know the pid namespace of user space. */

#include "namespace.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Returns the pid of the process that runs the program, as other programs would get it. */
SEC("syscall")
int own_pid(void *ctx)
{
	return current_pid();
}
