/* Convolutions of two real densities of N bins by FFTW3, to compare with. Reads
 * lines "N kept COUNT" or "N planned COUNT", and answers each with the nanoseconds
 * that one of so many convolutions took: with plans that are kept, or planned anew
 * each time with FFTW_ESTIMATE.
 *
 *	cc -O2 -o fftw_bench fftw_bench.c -lfftw3 -lm && echo 1000 kept 100 | ./fftw_bench
 */
#include <fftw3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct work {
	int n, length;
	double *a, *b, *x, *y, *out;
	fftw_complex *fx, *fy;
	fftw_plan forward_x, forward_y, backward;
};

static void plan(struct work *w)
{
	w->forward_x = fftw_plan_dft_r2c_1d(w->length, w->x, w->fx, FFTW_ESTIMATE);
	w->forward_y = fftw_plan_dft_r2c_1d(w->length, w->y, w->fy, FFTW_ESTIMATE);
	w->backward = fftw_plan_dft_c2r_1d(w->length, w->fx, w->out, FFTW_ESTIMATE);
}

static void unplan(struct work *w)
{
	fftw_destroy_plan(w->forward_x);
	fftw_destroy_plan(w->forward_y);
	fftw_destroy_plan(w->backward);
}

static void convolve(struct work *w)
{
	size_t bytes = sizeof(double) * (size_t)w->n, rest = sizeof(double) * (size_t)(w->length - w->n);

	memcpy(w->x, w->a, bytes);
	memcpy(w->y, w->b, bytes);
	memset(w->x + w->n, 0, rest);
	memset(w->y + w->n, 0, rest);
	fftw_execute(w->forward_x);
	fftw_execute(w->forward_y);
	for (int i = 0; i <= w->length / 2; i++) {
		double re = w->fx[i][0] * w->fy[i][0] - w->fx[i][1] * w->fy[i][1];
		double im = w->fx[i][0] * w->fy[i][1] + w->fx[i][1] * w->fy[i][0];
		w->fx[i][0] = re;
		w->fx[i][1] = im;
	}
	fftw_execute(w->backward);
	for (int i = 0; i < w->length; i++)
		w->out[i] /= w->length;
}

static void allocate(struct work *w, int n)
{
	w->n = n;
	for (w->length = 1; w->length < 2 * n - 1;)
		w->length *= 2;
	w->a = fftw_alloc_real((size_t)n);
	w->b = fftw_alloc_real((size_t)n);
	w->x = fftw_alloc_real((size_t)w->length);
	w->y = fftw_alloc_real((size_t)w->length);
	w->out = fftw_alloc_real((size_t)w->length);
	w->fx = fftw_alloc_complex((size_t)w->length / 2 + 1);
	w->fy = fftw_alloc_complex((size_t)w->length / 2 + 1);
	for (int i = 0; i < n; i++) {
		w->a[i] = (double)rand() / RAND_MAX / n;
		w->b[i] = (double)rand() / RAND_MAX / n;
	}
}

static void release(struct work *w)
{
	fftw_free(w->a);
	fftw_free(w->b);
	fftw_free(w->x);
	fftw_free(w->y);
	fftw_free(w->out);
	fftw_free(w->fx);
	fftw_free(w->fy);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* measure returns the nanoseconds of one convolution. The first one, which finds
 * the memory cold, does not count. */
static double measure(struct work *w, int planned, int count)
{
	double start;

	plan(w);
	convolve(w);
	start = now();
	for (int i = 0; i < count; i++) {
		if (planned) {
			unplan(w);
			plan(w);
		}
		convolve(w);
	}
	start = now() - start;
	unplan(w);
	return start / count;
}

int main(void)
{
	char how[16];
	int n, count;

	while (scanf("%d %15s %d", &n, how, &count) == 3) {
		struct work w;

		if (n < 1 || n > 1 << 20 || count < 1)
			return 2;
		allocate(&w, n);
		printf("%.1f\n", measure(&w, strcmp(how, "planned") == 0, count));
		fflush(stdout);
		release(&w);
	}
	return 0;
}
