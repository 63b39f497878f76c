/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* The state of an Erlang process in the VM's memory. */

#ifndef STATE_BPF_H
#define STATE_BPF_H

/* Bits of a process's state, erts/emulator/beam/erl_process.h of OTP 25, 27 and 29:
 * ERTS_PSFLG_BIT(n) is bit ERTS_PSFLGS_ZERO_BIT_OFFSET + n, above three priorities of two bits
 * each. If the VM's own processes have other bits, process_state is 0: see
 * procname.Layouts.ProveStates. */
#define PSFLG(n) (1U << (6 + (n)))
#define PSFLG_EXITING PSFLG(5)
#define PSFLG_ACTIVE PSFLG(7)
#define PSFLG_SUSPENDED PSFLG(10)
#define PSFLG_DIRTY_CPU_PROC PSFLG(20)
#define PSFLG_DIRTY_IO_PROC PSFLG(21)

#endif
