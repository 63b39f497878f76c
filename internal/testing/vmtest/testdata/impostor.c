/* Loaded into an emulator before anything else, this makes of it a process that only jumps to
 * the site of a probe, again and again. Usage: SITE, the address of the site as linked; PERIOD,
 * microseconds from one jump to the next; LIFE, milliseconds after which a process is replaced
 * by a new one, 0: never. */
#define _GNU_SOURCE
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static sigjmp_buf back;
static char stack[1 << 16], frame[1 << 16];

static void leave(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

static int first(struct dl_phdr_info *info, size_t size, void *base)
{
	(void)size;
	*(unsigned long *)base = info->dlpi_addr;
	return 1;
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Runs the code at a site. The code behind it needs a VM, crashes, and a signal handler resumes. */
static void jump(unsigned long site, long period, long life)
{
	volatile long end = now_ms() + life;

	for (;;) {
		if (!sigsetjmp(back, 1))
			__asm__ volatile("mov %0, %%rbp\n"
					 "xor %%eax, %%eax\n xor %%ebx, %%ebx\n xor %%r12d, %%r12d\n"
					 "xor %%r13d, %%r13d\n xor %%r14d, %%r14d\n xor %%r15d, %%r15d\n"
					 "lea -131072(%%rsp), %%rsp\n" /* what follows spoils no frame of ours */
					 "jmp *%1"
					 : : "r"(frame + (1 << 15)), "r"(site)
					 : "memory", "rax", "rbx", "r12", "r13", "r14", "r15");
		if (period)
			usleep(period);
		if (life && now_ms() > end)
			_exit(0);
	}
}

__attribute__((constructor)) static void begin(void)
{
	const int signals[] = { SIGSEGV, SIGILL, SIGBUS, SIGTRAP, SIGFPE };
	const stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = leave, .sa_flags = SA_NODEFER | SA_ONSTACK };
	unsigned long base = 0, site;
	long period, life;

	if (!getenv("SITE"))
		return;
	dl_iterate_phdr(first, &base);
	site = base + strtoul(getenv("SITE"), NULL, 0);
	period = atol(getenv("PERIOD"));
	life = atol(getenv("LIFE"));
	sigaltstack(&other, NULL);
	for (unsigned long i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaction(signals[i], &action, NULL);
	for (; life; wait(NULL))
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			jump(site, period, life);
		}
	jump(site, period, 0);
}
