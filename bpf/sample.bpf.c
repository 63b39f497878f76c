//go:build ignore

// SPDX-License-Identifier: Apache-2.0 OR MIT

/* Samples of VMs: a timer on each processor interrupts whatever runs there. If a sample is due and a
 * VM runs, the program counts the instruction and the process. The VM itself does nothing. */

#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "namespace.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The length of windows, and the beginning of the first one, in nanoseconds of CLOCK_MONOTONIC.
 * User space sets the beginning when everything is ready. */
volatile __u64 windows_start = ~0ULL;
const volatile __u64 window_length = 1;

/* Time is divided into intervals of equal length, in nanoseconds. In each interval one sample is due
 * on each processor, at a random time, and the next interrupt takes it. So samples are not in step
 * with any other timer. Interrupts are several times as frequent as samples. */
const volatile __u64 sample_interval = 1;

/* The time between interrupts of each processor, in nanoseconds. User space writes it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set when loading */
	__type(key, __u32);
	__type(value, __u64);
} gaps SEC(".maps");

/* The state of the samples of a processor. */
struct sample_clock {
	__u64 last;     /* time of the last interrupt, in nanoseconds from windows_start on */
	__u64 gap;      /* time between interrupts at that time */
	__u64 interval; /* number of the interval for which due is drawn, plus 1 */
	__u64 due;      /* time of its sample, in nanoseconds from windows_start on */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample_clock);
} sample_clocks SEC(".maps");

/* The number of windows for which there are counters that only grow. A power of two. */
#define WINDOWS 8

/* Kinds of threads, the same as bpf.Thread. */
enum sample_thread {
	SAMPLE_OTHER, /* not a scheduler */
	SAMPLE_SCHEDULER,
	SAMPLE_DIRTY_CPU,
	SAMPLE_DIRTY_IO,
};

/* What the scheduler's own data says about the process that it runs. */
enum sample_current {
	CURRENT_UNKNOWN, /* the place of the data is unknown, or the data cannot be read */
	CURRENT_NONE,    /* the scheduler runs no process */
	CURRENT_SAME,    /* it runs the process that the register points to */
	CURRENT_OTHER,   /* it runs a process, and the register points to something else */
};

/* The key of a counter. Samples that are equal in every field share one counter. */
struct sample {
	__u64 ip;
	__u64 in_register;  /* the word that the register points to: in JIT code, the term of the process's pid */
	__u64 by_scheduler; /* the term of the pid in the scheduler's data; 0: unknown, or no process */
	__u64 window;
	__u32 pid;
	__u8 thread;
	__u8 current;
	__u8 unused[2];
};

/* A VM that is sampled. Each kind of scheduler has an array with one structure for each
 * scheduler. */
struct sampled_vm {
	__u64 data[SAMPLE_DIRTY_IO + 1]; /* addresses of the arrays; 0: unknown */
	__u32 size;                      /* of a structure */
	__u32 current;                   /* offset of the address of the process that the scheduler runs */
	__u32 number[SAMPLE_DIRTY_IO + 1]; /* offset of the scheduler's number */
	__u64 no_room[WINDOWS];            /* samples without a counter, by window modulo WINDOWS */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct sampled_vm);
} sampled_vms SEC(".maps");

/* Counts of even and of odd windows. User space removes the counts of windows that are over from
 * one map, while the program counts into the other. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set when loading */
	__type(key, struct sample);
	__type(value, __u64);
} even_samples SEC(".maps"), odd_samples SEC(".maps");

/* Samples taken on each processor, whatever ran there, by window modulo WINDOWS. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WINDOWS);
	__type(key, __u32);
	__type(value, __u64);
} taken SEC(".maps");

/* If this is not 0, the cost of the program is measured. Then the program takes a sample every
 * measured_every interrupts, and counts the interrupts. User space maps the count. */
const volatile __u32 measured_every;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} measured SEC(".maps");

/* The registers of bpf_user_pt_regs_t, arch/x86/include/uapi/asm/ptrace.h and
 * arch/arm64/include/uapi/asm/ptrace.h. In code of the JIT, PROCESS is the address of the running
 * process, see c_p in erts/emulator/beam/jit/x86/beam_asm.hpp and jit/arm/beam_asm.hpp of OTP 25 to 29. */
#ifdef __TARGET_ARCH_arm64
#define WORDS 34
#define PROCESS 21 /* x21 */
#define IP 32	   /* pc */
#define MODE 33	   /* pstate */
#define MODE_MASK 15
#define USER_MODE 0
#else
#define WORDS 21
#define PROCESS 2 /* r13 */
#define IP 16
#define MODE 17 /* cs */
#define MODE_MASK 3
#define USER_MODE 3
#endif

struct registers {
	__u64 words[WORDS];
};

static __always_inline __u64 read_word(__u64 addr)
{
	__u64 word;

	return bpf_probe_read_user(&word, sizeof(word), (void *)addr) ? 0 : word;
}

/* Returns the number that begins at an index of a text, or -1 if there is none. */
static __always_inline __s32 number_in(const char *text, int from)
{
	__s32 n = -1;

	for (int i = from; i < 16 && text[i] >= '0' && text[i] <= '9'; i++)
		n = (n < 0 ? 0 : n * 10) + (text[i] - '0');
	return n;
}

/* Returns the kind of a thread by its name, and sets *number to its number. The names are
 * erts_sched_1, erts_dcpus_1 and erts_dios_1, or up to OTP 25 1_scheduler, 1_dirty_cpu_sch and
 * 1_dirty_io_sche. */
static __always_inline enum sample_thread thread_of(const char *name, __s32 *number)
{
	int at = 0;

	if (name[0] == 'e' && name[1] == 'r' && name[2] == 't' && name[3] == 's' && name[4] == '_') {
		if (name[5] == 's' && name[6] == 'c') {
			*number = number_in(name, 11);
			return *number < 0 ? SAMPLE_OTHER : SAMPLE_SCHEDULER;
		}
		if (name[5] == 'd' && name[6] == 'c') {
			*number = number_in(name, 11);
			return *number < 0 ? SAMPLE_OTHER : SAMPLE_DIRTY_CPU;
		}
		if (name[5] == 'd' && name[6] == 'i') {
			*number = number_in(name, 10);
			return *number < 0 ? SAMPLE_OTHER : SAMPLE_DIRTY_IO;
		}
		return SAMPLE_OTHER;
	}
	*number = number_in(name, 0);
	if (*number < 0)
		return SAMPLE_OTHER;
	for (; at < 5 && name[at] >= '0' && name[at] <= '9'; at++)
		;
	if (name[at] != '_')
		return SAMPLE_OTHER;
	if (name[at + 1] == 's' && name[at + 2] == 'c')
		return SAMPLE_SCHEDULER;
	if (name[at + 1] != 'd' || name[at + 2] != 'i' || name[at + 6] != '_')
		return SAMPLE_OTHER;
	return name[at + 7] == 'c' ? SAMPLE_DIRTY_CPU : SAMPLE_DIRTY_IO;
}

/* Sets what the scheduler's data says about the process. */
static __always_inline void by_scheduler(struct sample *s, const struct sampled_vm *vm, __s32 number, __u64 in_register)
{
	__u32 kind = s->thread;
	__u64 at, process;

	asm volatile("" : "+r"(kind)); /* shows the limit to the verifier */
	kind &= SAMPLE_DIRTY_IO;
	if (!vm->data[kind] || number < 1)
		return;
	at = vm->data[kind] + (__u64)(number - 1) * vm->size;
	if (read_word(at + vm->number[kind]) != number)
		return;
	if (bpf_probe_read_user(&process, sizeof(process), (void *)(at + vm->current)))
		return;
	if (!process) {
		s->current = CURRENT_NONE;
		return;
	}
	s->current = process == in_register ? CURRENT_SAME : CURRENT_OTHER;
	s->by_scheduler = read_word(process);
}

/* Reads the VM's own registers, even if the interrupt came while the VM was in the kernel. */
static __always_inline void read_registers(struct registers *ctx, __u64 *ip, __u64 *process)
{
	struct registers *before;

	if ((ctx->words[MODE] & MODE_MASK) == USER_MODE) {
		*ip = ctx->words[IP];
		*process = ctx->words[PROCESS];
		return;
	}
	before = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	bpf_probe_read_kernel(ip, sizeof(*ip), &before->words[IP]);
	bpf_probe_read_kernel(process, sizeof(*process), &before->words[PROCESS]);
}

static __always_inline void count_sample(const struct sample *s, struct sampled_vm *vm, __u64 number)
{
	void *samples = s->window & 1 ? (void *)&odd_samples : (void *)&even_samples;
	__u64 *n = bpf_map_lookup_elem(samples, s);

	if (!n) {
		if (!bpf_map_update_elem(samples, s, &number, BPF_NOEXIST))
			return;
		n = bpf_map_lookup_elem(samples, s); /* another processor has added it */
	}
	__sync_fetch_and_add(n ? n : &vm->no_room[s->window & (WINDOWS - 1)], number);
}

/* Draws the time of the sample of an interval. */
static __always_inline void draw(struct sample_clock *c, __u64 interval)
{
	c->interval = interval + 1;
	c->due = interval * sample_interval + ((bpf_get_prandom_u32() * sample_interval) >> 32);
}

/* Returns how many samples were due since the last interrupt of this processor. An interrupt stands
 * for the time between interrupts and no more: if some interrupts were missing, the processor may
 * have done something else then. Some kernels have no interrupts while a processor is idle. */
static __always_inline __u64 samples_due(__u64 now)
{
	__u32 zero = 0, cpu = bpf_get_smp_processor_id();
	struct sample_clock *c = bpf_map_lookup_elem(&sample_clocks, &zero);
	__u64 *drawn = bpf_map_lookup_elem(&gaps, &cpu);
	__u64 gap, since, longest, number = 0;

	if (!c || !drawn)
		return 0;
	gap = *drawn;
	longest = gap + (gap == c->gap ? gap / 2 : c->gap); /* an interrupt may be late; a new gap may
							     * begin between two interrupts */
	since = c->last;
	if (now - since > longest)
		since = now > gap ? now - gap : 0;
	c->last = now;
	c->gap = gap;
	if (since / sample_interval >= c->interval)
		draw(c, since / sample_interval);
	for (int i = 0; i < 4 && c->due <= now; i++) { /* the time between interrupts is less than an interval */
		number += c->due > since;
		draw(c, c->interval);
	}
	return number;
}

/* Counts an interrupt while the cost is measured, and returns how many samples to take. */
static __always_inline __u64 samples_measured(void)
{
	__u32 zero = 0;
	volatile __u64 *n = bpf_map_lookup_elem(&measured, &zero);

	if (!n)
		return 0;
	*n += 1;
	return *n % measured_every == 0;
}

/* Nothing preempts this program, and the kernel does not nest it. So it may have a private stack,
 * see stack.bpf.h. */
SEC("perf_event")
int sample_vm(struct registers *ctx)
{
	__u64 now = bpf_ktime_get_ns(), start = windows_start, process = 0, number, *ticks;
	struct sample s = {};
	struct sampled_vm *vm;
	char name[16] = {};
	__s32 scheduler = -1;
	__u32 slot;

	if (now < start || !window_length || !sample_interval)
		return 0;
	now -= start;
	number = samples_due(now);
	if (measured_every)
		number = samples_measured();
	if (!number)
		return 0;
	s.window = now / window_length;
	slot = s.window & (WINDOWS - 1);
	ticks = bpf_map_lookup_elem(&taken, &slot);
	if (ticks)
		*ticks += number;
	s.pid = current_pid();
	vm = bpf_map_lookup_elem(&sampled_vms, &s.pid);
	if (!vm)
		return 0;
	bpf_get_current_comm(name, sizeof(name));
	s.thread = thread_of(name, &scheduler);
	read_registers(ctx, &s.ip, &process);
	if (s.thread == SAMPLE_SCHEDULER)
		s.in_register = read_word(process);
	by_scheduler(&s, vm, scheduler, process);
	count_sample(&s, vm, number);
	return 0;
}

/* Types and enums that only the generated Go code needs. These variables keep them in the type
 * information. */
const enum sample_thread *sample_thread_type __attribute__((unused));
const enum sample_current *sample_current_type __attribute__((unused));
