/* One convolution of two real densities of N bins by FFTW3, to compare with
 * BenchmarkConvolve and BenchmarkGonum: with plans that are kept, and planned anew
 * each time with FFTW_ESTIMATE. Prints nanoseconds, the median of the rounds.
 *
 *	cc -O2 -o /tmp/fftw_bench fftw_bench.c -lfftw3 -lm && /tmp/fftw_bench
 */
#include <fftw3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct work {
	int n, length;
	double *x, *y, *out;
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

static void convolve(struct work *w, const double *a, const double *b)
{
	size_t bytes = sizeof(double) * (size_t)w->n, rest = sizeof(double) * (size_t)(w->length - w->n);

	memcpy(w->x, a, bytes);
	memcpy(w->y, b, bytes);
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

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(int n)
{
	enum { ROUNDS = 201 };
	static double kept[ROUNDS], planned[ROUNDS];
	struct work w = { .n = n, .length = 1 };
	double *a = fftw_alloc_real((size_t)n), *b = fftw_alloc_real((size_t)n);

	while (w.length < 2 * n - 1)
		w.length *= 2;
	w.x = fftw_alloc_real((size_t)w.length);
	w.y = fftw_alloc_real((size_t)w.length);
	w.out = fftw_alloc_real((size_t)w.length);
	w.fx = fftw_alloc_complex((size_t)w.length / 2 + 1);
	w.fy = fftw_alloc_complex((size_t)w.length / 2 + 1);
	for (int i = 0; i < n; i++) {
		a[i] = (double)rand() / RAND_MAX / n;
		b[i] = (double)rand() / RAND_MAX / n;
	}
	plan(&w);
	for (int i = 0; i < ROUNDS; i++) {
		double start = now();
		convolve(&w, a, b);
		kept[i] = now() - start;
	}
	unplan(&w);
	for (int i = 0; i < ROUNDS; i++) {
		double start = now();
		plan(&w);
		convolve(&w, a, b);
		unplan(&w);
		planned[i] = now() - start;
	}
	qsort(kept, ROUNDS, sizeof *kept, by_size);
	qsort(planned, ROUNDS, sizeof *planned, by_size);
	printf("FFTW3/kept/N=%d %.0f ns/op\nFFTW3/planned/N=%d %.0f ns/op\n", n, kept[ROUNDS / 2], n, planned[ROUNDS / 2]);
	fftw_free(w.x);
	fftw_free(w.y);
	fftw_free(w.out);
	fftw_free(w.fx);
	fftw_free(w.fy);
	fftw_free(a);
	fftw_free(b);
}

int main(void)
{
	static const int sizes[] = { 50, 200, 1000, 4000, 65536 };

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		measure(sizes[i]);
	return 0;
}
