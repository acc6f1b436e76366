/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/krum_selection.h"

#include <math.h>
#include <stdlib.h>

int flmem_krum_prepare(struct flmem_combination *c, size_t times, struct flmem_error *err)
{
	size_t most = c->inputs < 3 ? 0 : (c->inputs - 3) / times;

	if (most < 1 || c->hostile > most)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"too few inputs for '%s': %zu, of which %zu (--hostile) may be hostile; it "
			"needs %zu or more",
			flmem_algorithm_name(c->algorithm), c->inputs, c->hostile ?: 1,
			times * (c->hostile ?: 1) + 3);
	if (!c->hostile)
		c->hostile = most;
	return 0;
}

static int compare_distances(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

double flmem_krum_score(const struct flmem_combination *c, const double *squares,
			const double *taken, size_t input, double *scratch)
{
	size_t others = 0, nearest;
	double sum = 0;

	for (size_t i = 0; i < c->inputs; i++)
		if (i != input && taken[i] == 0)
			scratch[others++] = squares[input * c->inputs + i];
	qsort(scratch, others, sizeof(*scratch), compare_distances);
	nearest = others > c->hostile + 1 ? others - c->hostile - 1 : 1;
	for (size_t i = 0; i < nearest && i < others; i++)
		sum += scratch[i];
	return sum;
}

size_t flmem_krum_best(const struct flmem_combination *c, const double *squares,
		       const double *taken, double *scratch)
{
	size_t best = c->inputs;
	double lowest = 0;

	for (size_t i = 0; i < c->inputs; i++) {
		double score;

		if (taken[i] != 0)
			continue;
		score = flmem_krum_score(c, squares, taken, i, scratch);
		if (best == c->inputs || score < lowest) {
			best = i;
			lowest = score;
		}
	}
	return best;
}

bool flmem_krum_is_possible(const struct flmem_combination *c, const double *squares,
			    const double *taken, double *scratch)
{
	size_t best = flmem_krum_best(c, squares, taken, scratch);

	return best < c->inputs && isfinite(flmem_krum_score(c, squares, taken, best, scratch));
}
