// A program with USDT probes, for the tests of package usdt. It needs no C
// library, so that the compiled programs are small and run anywhere.
//
// It raises one of its semaphores by itself, says so on standard output, and waits
// for the end of standard input.
//
// The compiled files beside this one were made with gcc 12.2, clang 14.0,
// binutils 2.40 and systemtap-sdt-dev 4.8 by the commands in build.sh.
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#define SEMAPHORE(name) \
	__extension__ unsigned short fixture_##name##_semaphore __attribute__((used, section(".probes")))
#define HIDDEN __attribute__((visibility("hidden")))
#define NOINLINE __attribute__((noinline))

SEMAPHORE(start);
SEMAPHORE(many);
SEMAPHORE(never);
SEMAPHORE(twin);

HIDDEN volatile long counter = 7;
static volatile int table[16];
HIDDEN volatile unsigned char bytes[64] = {1, 2, 3};

HIDDEN void plain(long a); // in plain.c

static long call(long number, long a, long b, long c)
{
	long result;
#if defined(__x86_64__)
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	result = x0;
#endif
	return result;
}

#if defined(__x86_64__)
enum { READ = 0, WRITE = 1, EXIT = 60 };
#else
enum { READ = 63, WRITE = 64, EXIT = 93 };
#endif

// Several sites of one name, with different locations.
NOINLINE long twice(long a, int b, short c)
{
	DTRACE_PROBE3(fixture, twin, a, b, c);
	a += counter;
	DTRACE_PROBE3(fixture, twin, a * 3, (char)b, 17);
	return a + b;
}

// A global function, to be found by name.
NOINLINE long fixture_work(long a, unsigned char *p, long i)
{
	volatile long local[4] = {a, i, 0, -1};
	DTRACE_PROBE12(fixture, many, a, (int)i, p[i], local[1], counter, table[3], bytes[i], 5, -6, (unsigned short)i,
		(signed char)a, p);
	return local[0] + local[3] + p[i];
}

NOINLINE void never(void)
{
	DTRACE_PROBE(fixture, never);
}

static void run(void)
{
	static const char ready[] = "ready\n";
	unsigned char input[16];
	DTRACE_PROBE1(fixture, start, ready);
	plain(counter);
	table[3] = (int)twice(counter, 2, 3);
	counter = fixture_work(counter, (unsigned char *)bytes, 2);
	fixture_start_semaphore = 3;
	call(WRITE, 1, (long)ready, sizeof ready - 1);
	while (call(READ, 0, (long)input, sizeof input) > 0)
		;
	if (counter == -1)
		never();
	call(EXIT, 0, 0, 0);
}

__attribute__((used)) void start(void)
{
	run();
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start: xor %ebp, %ebp; and $-16, %rsp; call start; hlt");
#elif defined(__aarch64__)
__asm__(".globl _start\n_start: mov x29, xzr; bl start; brk 0");
#endif
