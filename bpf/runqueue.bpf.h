/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef RUNQUEUE_BPF_H
#define RUNQUEUE_BPF_H
#endif
