// A probe of another provider, without a semaphore: sdt.h decides that for a whole
// source file.
#include <sys/sdt.h>

__attribute__((visibility("hidden"))) void plain(long a)
{
	DTRACE_PROBE1(other, plain, a);
}
