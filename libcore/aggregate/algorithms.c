/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "aggregate/algorithm.h"
#include "base/cleanup.h"

static const struct {
	const char *name;
	const struct flmem_algorithm *algorithm;
} all_algorithms[] = {
#define ALGORITHM_ROW(identifier, name, meaning) {name, &flmem_##identifier},
	FLMEM_ALGORITHMS(ALGORITHM_ROW)};

const struct flmem_algorithm *flmem_algorithm_find(const char *name)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(all_algorithms); i++)
		if (strcmp(all_algorithms[i].name, name) == 0)
			return all_algorithms[i].algorithm;
	return NULL;
}

const char *flmem_algorithm_name(const struct flmem_algorithm *algorithm)
{
	size_t i = 0;

	while (all_algorithms[i].algorithm != algorithm)
		i++;
	return all_algorithms[i].name;
}

int flmem_weights_scale(double *weights, size_t count, double *ret_total, struct flmem_error *err)
{
	double largest = 0, total = 0;
	int exponent;

	for (size_t i = 0; i < count; i++) {
		if (!(weights[i] >= 0) || isinf(weights[i]))
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "weight %zu is '%g'; weights are finite and not "
					       "negative",
					       i + 1, weights[i]);
		largest = fmax(largest, weights[i]);
	}
	if (largest == 0)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "all weights are 0");
	frexp(largest, &exponent);
	for (size_t i = 0; i < count; i++) { /* the largest weight is below 1 now */
		double scaled = ldexp(weights[i], -exponent);

		if (weights[i] > 0 && scaled < 0x1p-500)
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "weight %zu is '%g', too small beside '%g'", i + 1,
					       weights[i], largest);
		weights[i] = scaled;
		total += scaled;
	}
	frexp(total, &exponent);
	for (size_t i = 0; i < count; i++)
		weights[i] = ldexp(weights[i], -exponent);
	*ret_total = ldexp(total, -exponent);
	return 0;
}
