// An executable with an exported function that calls one that is not exported. Both use variables.
int exported;
static int hidden;

__attribute__((noinline)) static int inner(int n)
{
	hidden += n;
	return hidden;
}

int outer(int n)
{
	exported = n;
	return inner(n) + 1;
}

void _start(void)
{
	outer(1);
	for (;;)
		;
}
