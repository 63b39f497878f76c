// The structures of an Erlang VM that package procname reads, with other things
// between them than in any VM. offsets has what the compiler makes of them.
#include <stddef.h>
#include <stdint.h>

typedef uint64_t Eterm;
typedef struct { int32_t value; } atomic32;

typedef struct {
	char list[7];
	union {
		struct {
			uint16_t other;
			uint32_t max, pix_cl_mask;
			char between;
			uint32_t pix_cl_shift, pix_cli_mask, pix_cli_shift;
			Eterm invalid_data;
			volatile void **tab;
		} o;
		char align[128];
	} r;
} ErtsPTab;

struct reg_proc {
	char name_of_nothing;
	Eterm name;
	struct process *p;
};

struct proc_dict {
	unsigned arraySize, sizeMask;
	uint64_t between;
	unsigned usedSlots;
#ifndef DAMAGED
	const Eterm data[1];
#else
	const uint16_t data[1];
#endif
};

struct process {
	Eterm *heap;
	struct {
		uint32_t flags;
		Eterm id;
		uint64_t timer;
		union {
			struct {
				uint16_t interval;
				struct reg_proc *reg;
			} alive;
			void *release;
		} u;
	} common;
	Eterm *hend, *old_hend, *old_heap;
	struct proc_dict *dictionary;
	union {
		void *terminate;
		struct {
			Eterm arity, function, module;
		} initial;
	} u;
	char between;
	atomic32 state;
	uint32_t rcount;
	uint32_t between_flags, flags;
	struct {
		void *first, **last, **save;
	} sig_qs;
	Eterm seq_trace_lastcnt, seq_trace_clock;
};

struct erl_mesg {
	struct erl_mesg *next;
	char between;
	Eterm m[3];
};

typedef struct {
	short between;
	int index;
} IndexSlot;

struct atom {
	char between;
	IndexSlot slot;
#ifndef MISSING
	unsigned char *name;
#endif
	int16_t len;
};

struct index_table {
	char between[3];
	IndexSlot ***seg_table;
	int entries;
};

ErtsPTab erts_proc;
struct index_table erts_atom_table;
struct process process;
struct erl_mesg message;
struct atom atom;

const uint64_t offsets[] = {
	offsetof(ErtsPTab, r.o.tab),
	offsetof(ErtsPTab, r.o.max),
	offsetof(ErtsPTab, r.o.pix_cl_mask),
	offsetof(ErtsPTab, r.o.pix_cl_shift),
	offsetof(ErtsPTab, r.o.pix_cli_mask),
	offsetof(ErtsPTab, r.o.pix_cli_shift),
	offsetof(ErtsPTab, r.o.invalid_data),
	offsetof(struct process, common.id),
	offsetof(struct process, common.u.alive.reg),
	offsetof(struct process, u.initial.module),
	offsetof(struct process, u.initial.function),
	offsetof(struct process, u.initial.arity),
	offsetof(struct process, dictionary),
	offsetof(struct process, heap),
	offsetof(struct process, hend),
	offsetof(struct process, old_heap),
	offsetof(struct process, old_hend),
	offsetof(struct process, state),
	offsetof(struct process, flags),
	offsetof(struct process, sig_qs.save),
	offsetof(struct process, seq_trace_clock),
	offsetof(struct process, seq_trace_lastcnt),
	offsetof(struct process, rcount),
	offsetof(struct process, common.timer),
	offsetof(struct erl_mesg, m),
	offsetof(struct reg_proc, p),
	offsetof(struct reg_proc, name),
	offsetof(struct proc_dict, sizeMask),
	offsetof(struct proc_dict, usedSlots),
	offsetof(struct proc_dict, arraySize),
	offsetof(struct proc_dict, data),
	offsetof(struct index_table, entries),
	offsetof(struct index_table, seg_table),
	offsetof(struct atom, slot.index),
	offsetof(struct atom, len),
#ifndef MISSING
	offsetof(struct atom, name),
#endif
};
