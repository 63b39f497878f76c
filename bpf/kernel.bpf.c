//go:build ignore

// SPDX-License-Identifier: Apache-2.0 OR MIT

/* The programs that run in the kernel: events become outcome instances here, and are
 * counted into the window in which they end. */

#include "detail.bpf.h"
#include "offcpu.bpf.h"
#include "rule.bpf.h"
#include "runqueue.bpf.h"
#include "slice.bpf.h"
#include "span.bpf.h"
#include "sweep.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Types and enums that only the generated Go code needs. These variables keep them in the type
 * information. */
const struct instance *instance_type __attribute__((unused));
const struct failed_instance *failed_instance_type __attribute__((unused));
const enum arg_kind *arg_kind_type __attribute__((unused));
const enum other *other_type __attribute__((unused));
const enum logged *logged_type __attribute__((unused));
const enum off_reason *off_reason_type __attribute__((unused));
const struct off_cpu *off_cpu_type __attribute__((unused));
const enum origin *origin_type __attribute__((unused));
const enum pairing *pairing_type __attribute__((unused));
const enum operand_kind *operand_kind_type __attribute__((unused));
const enum test_form *test_form_type __attribute__((unused));
const enum test_op *test_op_type __attribute__((unused));
