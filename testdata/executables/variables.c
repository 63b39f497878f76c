// Functions with probes, one inlined and one not, whose only argument is the variable that
// package procname looks for: so the note of the probe says where the compiler has it.
#include <sys/sdt.h>

struct message { struct message *next; long term; };

extern long size_of(long term);
extern void use(struct message *m, long n);

// With SPILLED the variable is in memory when a probe fires.
#ifdef SPILLED
extern void keep(struct message **m);
#else
#define keep(m)
#endif

static inline __attribute__((always_inline)) void queued(struct message *m, long n)
{
	struct message *msg = m;
	long size = size_of(msg->term);

	keep(&msg);
	STAP_PROBE1(erlang, message__queued, msg);
	use(msg, size + n);
}

long all_queued(struct message *first, long msg)
{
	long n = 0;

	for (struct message *sig = first; sig; sig = sig->next)
		queued(sig, n++ + msg);
	return n;
}

__attribute__((noinline)) long taken(struct message **save, long n)
{
	struct message *msgp = *save;
	long size = size_of(msgp->term);

	keep(&msgp);
	STAP_PROBE1(erlang, message__receive, msgp);
	*save = msgp->next;
	use(msgp, size + n);
	return size;
}

// The variable is nowhere when the probe fires.
long gone(struct message *msgp)
{
	long n = size_of(msgp->term);

#ifdef GONE
	STAP_PROBE1(erlang, message__receive, n);
#endif
	return n;
}
