/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the kernels of every instruction set of this machine give the bits of the portable
 * ones. Prints a checksum of all results, which must be the same on every machine.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/generator.h"
#include "aggregate/kernels.h"
#include "base/bytes/fnv.h"

#define COUNT 65551U /* more than all 16-bit numbers, and no multiple of a vector */

#define STATE UINT64_C(88172645463325252)

static uint64_t digest, state;

/* xorshift64*: gives the same numbers on every machine. */
static uint64_t random_bits(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * UINT64_C(2685821657736338717);
}

/* Makes all NaNs equal: which of them an operation returns differs between processors. */
static void unify_nans(double *values)
{
	for (size_t i = 0; i < COUNT; i++)
		if (isnan(values[i]))
			values[i] = (double)NAN;
}

static void expect_same(const struct flmem_kernels *kernels, const char *what, unsigned type,
			const void *found, const void *expected, size_t bytes)
{
	const char *a = found, *b = expected;
	size_t at = 0;

	while (at < bytes && a[at] == b[at])
		at++;
	if (at == bytes)
		return;
	printf("%s: %s, type %u: other bits at byte %zu\n", kernels->name, what, type, at);
	exit(1);
}

static void check_loads(const struct flmem_kernels *kernels, const struct flmem_kernels *portable)
{
	static uint64_t from[COUNT];
	static double a[COUNT], b[COUNT];

	for (unsigned e = 0; e < FLMEM_ELEMENTS_COUNT; e++) {
		size_t bytes = flmem_element_bytes((enum flmem_element)e);

		for (size_t i = 0; i < COUNT; i++) {
			uint64_t number = bytes <= 2 ? i : random_bits();

			memcpy((char *)from + i * bytes, &number, bytes);
		}
		kernels->load[e](from, a, COUNT);
		portable->load[e](from, b, COUNT);
		unify_nans(a);
		unify_nans(b);
		expect_same(kernels, "load", e, a, b, sizeof(a));
		digest = flmem_fnv_mix(digest, b, sizeof(b));
	}
}

/* Makes numbers of a type, the middle between two of them, and the doubles next to those. */
static void fill_ties(double *values, unsigned type, const struct flmem_kernels *portable,
		      unsigned round)
{
	size_t bytes = flmem_element_bytes((enum flmem_element)type);

	for (size_t i = 0; i < COUNT; i++) {
		uint64_t number = bytes <= 2 ? i : random_bits(), next = number + 1;
		double low, high;

		portable->load[type](&number, &low, 1);
		portable->load[type](&next, &high, 1);
		values[i] = round ? low / 2 + high / 2 : low;
		if (round == 2)
			values[i] = nextafter(values[i], (double)INFINITY);
		if (round == 3)
			values[i] = nextafter(values[i], (double)-INFINITY);
	}
}

static void fill_any(double *values)
{
	for (size_t i = 0; i < COUNT; i++) {
		uint64_t bits = random_bits();

		if (i % 3)
			values[i] = ldexp((double)(int64_t)bits, (int)(bits % 400) - 260);
		else
			memcpy(&values[i], &bits, sizeof(bits));
	}
}

static void check_stores(const struct flmem_kernels *kernels, const struct flmem_kernels *portable)
{
	static double from[COUNT];
	static uint64_t a[COUNT], b[COUNT];

	for (unsigned e = 0; e < FLMEM_ELEMENTS_COUNT; e++)
		for (unsigned round = 0; round < 6; round++) {
			size_t bytes = COUNT * flmem_element_bytes((enum flmem_element)e);

			if (round < 4)
				fill_ties(from, e, portable, round);
			else
				fill_any(from);
			kernels->store[e](from, a, COUNT);
			portable->store[e](from, b, COUNT);
			expect_same(kernels, "store", e, a, b, bytes);
			digest = flmem_fnv_mix(digest, b, bytes);
		}
}

static void check_sums(const struct flmem_kernels *kernels, const struct flmem_kernels *portable)
{
	static double from[COUNT], a[COUNT], b[COUNT];
	double distances[2];

	fill_any(from);
	kernels->scale(from, 0.3, a, COUNT);
	portable->scale(from, 0.3, b, COUNT);
	for (unsigned round = 0; round < 3; round++) {
		for (size_t i = 0; i < COUNT; i++)
			from[i] = (double)(int64_t)random_bits() * 0x1p-60;
		kernels->add(from, 0.7, a, COUNT);
		portable->add(from, 0.7, b, COUNT);
	}
	kernels->divide(a, 0.9, COUNT);
	portable->divide(b, 0.9, COUNT);
	distances[0] = kernels->distance(from, from + 5, COUNT - 5);
	distances[1] = portable->distance(from, from + 5, COUNT - 5);
	unify_nans(a);
	unify_nans(b);
	expect_same(kernels, "sums", 0, a, b, sizeof(a));
	expect_same(kernels, "distance", 0, &distances[0], &distances[1], sizeof(double));
	digest = flmem_fnv_mix(flmem_fnv_mix(digest, b, sizeof(b)), &distances[1], sizeof(double));
}

static void check_order(const struct flmem_kernels *kernels, const struct flmem_kernels *portable)
{
	static double a[2][COUNT], b[2][COUNT];

	fill_any(a[0]);
	fill_any(a[1]);
	unify_nans(a[0]);
	unify_nans(a[1]);
	memcpy(b, a, sizeof(b));
	kernels->order(a[0], a[1], COUNT);
	portable->order(b[0], b[1], COUNT);
	expect_same(kernels, "order", 0, a, b, sizeof(a));
	digest = flmem_fnv_mix(digest, b, sizeof(b));
}

static void check_generated(const struct flmem_kernels *kernels,
			    const struct flmem_kernels *portable)
{
	static double a[64 * FLMEM_GENERATOR_GROUP], b[64 * FLMEM_GENERATOR_GROUP];
	struct flmem_generator generator;

	flmem_generator_init(&generator, "layers.0.weight", false, 7, 3);
	kernels->generate(&generator, 5, a, 64);
	portable->generate(&generator, 5, b, 64);
	expect_same(kernels, "generate", 0, a, b, sizeof(a));
	digest = flmem_fnv_mix(digest, b, sizeof(b));
}

static void check_all(const struct flmem_kernels *kernels, const struct flmem_kernels *portable)
{
	digest = FLMEM_FNV_START;
	state = STATE;
	check_loads(kernels, portable);
	check_stores(kernels, portable);
	check_sums(kernels, portable);
	check_order(kernels, portable);
	check_generated(kernels, portable);
	fprintf(stderr, "%s: as portable\n", kernels->name);
}

int main(void)
{
	const struct flmem_kernels *kernels, *portable = flmem_kernels_at(0);

	for (size_t i = 0; (kernels = flmem_kernels_at(i)); i++)
		portable = kernels;
	if (!portable)
		return 2;
	for (size_t i = 0; (kernels = flmem_kernels_at(i)); i++)
		if (kernels->supported())
			check_all(kernels, portable);
		else
			fprintf(stderr, "%s: not supported by this processor\n", kernels->name);
	return printf("%016" PRIx64 "\n", digest) < 0;
}
