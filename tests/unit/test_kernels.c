/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the arithmetic of the aggregation: rounding, and the same bits on every instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/combine.h"
#include "base/cleanup.h"
#include "ops/aggregate/find_special.h"

#define COUNT 4099U /* not a multiple of a vector */

/* Returns the next number of xorshift64*: the same ones in every run. */
static uint64_t random_bits(void)
{
	static uint64_t state = 88172645463325252U;

	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * UINT64_C(2685821657736338717);
}

static double random_double(void)
{
	double x = (double)(random_bits() >> 11) * 0x1p-53 - 0.5;

	switch (random_bits() % 8) {
	case 0:
		return ldexp(x, (int)(random_bits() % 300) - 150);
	case 1:
		return ldexp(x, (int)(random_bits() % 40) - 25);
	case 2: /* a tie in many of the types */
		return ldexp((double)(random_bits() % 4096), (int)(random_bits() % 60) - 40);
	case 3: {
		uint64_t bits = random_bits();

		memcpy(&x, &bits, sizeof(x));
		return x;
	}
	default:
		return x;
	}
}

static uint64_t bits_of(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static const struct flmem_kernels *portable(void)
{
	size_t last = 0;

	while (flmem_kernels_at(last + 1))
		last++;
	return flmem_kernels_at(last);
}

static void every_number_of_a_small_type_is_stored_as_it_was_loaded(void **state)
{
	const struct flmem_kernels *kernels = portable();

	(void)state;
	for (int e = 0; e < FLMEM_ELEMENTS_COUNT; e++) {
		size_t bytes = flmem_element_bytes((enum flmem_element)e);
		unsigned all = bytes == 1 ? 256 : 65536;

		if (bytes > 2)
			continue;
		for (unsigned bits = 0; bits < all; bits++) {
			uint16_t from = (uint16_t)bits, to = 0;
			double x;

			kernels->load[e](&from, &x, 1);
			kernels->store[e](&x, &to, 1);
			if (!isnan(x) && e != FLMEM_ELEMENT_BOOL)
				assert_int_equal(to, bits);
		}
	}
}

/* Infinities and NaNs of every type, in every place of a word, as the kernels see them. */
static void special_elements_are_found_without_kernels(void **state)
{
	(void)state;
	for (int e = 0; flmem_element_is_real((enum flmem_element)e); e++) {
		size_t bytes = flmem_element_bytes((enum flmem_element)e);

		for (unsigned i = 0; i < 200000; i++) {
			const size_t count = 1 + i % 11;
			uint64_t bits =
				bytes > 2 && i % 3 == 0 ? UINT64_MAX << (i % 64) : random_bits();
			char elements[11 * sizeof(bits)] = {0};
			double x;

			bits = bytes > 2 ? bits : i / 11;
			memcpy(elements + i % count * bytes, &bits, bytes);
			portable()->load[e](&bits, &x, 1);
			if (flmem_elements_have_special((enum flmem_element)e, elements,
							count * bytes) == isfinite(x))
				fail_msg("type %d, %a", e, x);
		}
	}
}

/*
 * Returns the index of the nearest number of the type, the even one of two; -1 beyond the largest.
 */
static int nearest(const double *values, unsigned count, double x)
{
	unsigned low = 0, high = count - 1;

	while (high - low > 1) {
		unsigned middle = (low + high) / 2;

		if (values[middle] <= x)
			low = middle;
		else
			high = middle;
	}
	if (x - values[low] == values[high] - x)
		return (int)(low % 2 ? high : low);
	return (int)(x - values[low] < values[high] - x ? low : high);
}

static void doubles_are_rounded_to_the_nearest_even(void **state)
{
	static const struct {
		enum flmem_element element;
		/* Number of finite positive values; an index is also the bits of its value. */
		unsigned finite;
		double next;	/* the value that would follow the largest */
		unsigned above; /* the bits of the value that follows */
	} rows[] = {
		{FLMEM_ELEMENT_F16, 0x7c00, 65536.0, 0x7c00},
		{FLMEM_ELEMENT_BF16, 0x7f80, 0x1p128, 0x7f80},
		{FLMEM_ELEMENT_F8_E4M3, 0x7f, 480.0, 0x7f},
		{FLMEM_ELEMENT_F8_E5M2, 0x7c, 65536.0, 0x7c},
	};
	static double values[65536];
	const struct flmem_kernels *kernels = portable();

	(void)state;
	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		int e = (int)rows[r].element;

		for (unsigned i = 0; i < rows[r].finite; i++) {
			uint16_t bits = (uint16_t)i;

			kernels->load[e](&bits, &values[i], 1);
		}
		values[rows[r].finite] = rows[r].next;
		for (int i = 0; i < 300000; i++) {
			double x = fabs(random_double());
			uint16_t stored = 0;
			int expected;

			if (isnan(x))
				continue;
			expected = nearest(values, rows[r].finite + 1, fmin(x, rows[r].next));
			kernels->store[e](&x, &stored, 1);
			if (stored != (unsigned)expected)
				fail_msg("row %zu: %a is stored as %#x, not %#x", r, x, stored,
					 expected);
			assert_int_equal(stored <= rows[r].above, 1);
		}
	}
}

static void whole_numbers_are_rounded_and_limited(void **state)
{
	static const double from[] = {0.5, 1.5, -0.5, -1.5, 1e30, -1e30, 254.5, NAN};
	const struct flmem_kernels *kernels = portable();
	int64_t i64[8];
	uint64_t u64[8];
	int8_t i8[8];
	uint8_t u8[8];

	(void)state;
	kernels->store[FLMEM_ELEMENT_I64](from, i64, 8);
	kernels->store[FLMEM_ELEMENT_U64](from, u64, 8);
	kernels->store[FLMEM_ELEMENT_I8](from, i8, 8);
	kernels->store[FLMEM_ELEMENT_U8](from, u8, 8);
	assert_memory_equal(i64, ((int64_t[]){0, 2, 0, -2, INT64_MAX, INT64_MIN, 254, INT64_MIN}),
			    sizeof(i64));
	assert_memory_equal(u64, ((uint64_t[]){0, 2, 0, 0, UINT64_MAX, 0, 254, 0}), sizeof(u64));
	assert_memory_equal(i8, ((int8_t[]){0, 2, 0, -2, 127, -128, 127, -128}), sizeof(i8));
	assert_memory_equal(u8, ((uint8_t[]){0, 2, 0, 0, 255, 0, 254, 0}), sizeof(u8));
}

static void compare_loads(const struct flmem_kernels *one, const struct flmem_kernels *other)
{
	static uint64_t from[COUNT];
	static double a[COUNT], b[COUNT];

	for (int e = 0; e < FLMEM_ELEMENTS_COUNT; e++) {
		for (size_t i = 0; i < COUNT; i++)
			from[i] = random_bits();
		one->load[e](from, a, COUNT);
		other->load[e](from, b, COUNT);
		for (size_t i = 0; i < COUNT; i++)
			if (bits_of(a[i]) != bits_of(b[i]) && !(isnan(a[i]) && isnan(b[i])))
				fail_msg("%s loads type %d as %a, %s as %a", one->name, e, a[i],
					 other->name, b[i]);
	}
}

static void compare_stores(const struct flmem_kernels *one, const struct flmem_kernels *other)
{
	static double from[COUNT];
	static uint64_t a[COUNT], b[COUNT];

	for (int e = 0; e < FLMEM_ELEMENTS_COUNT; e++) {
		for (size_t i = 0; i < COUNT; i++)
			from[i] = random_double();
		one->store[e](from, a, COUNT);
		other->store[e](from, b, COUNT);
		assert_memory_equal(a, b, COUNT * flmem_element_bytes((enum flmem_element)e));
	}
}

static void compare_surveys(const struct flmem_kernels *one, const struct flmem_kernels *other,
			    const double *from)
{
	for (size_t count = 1; count < 140; count += 6) {
		struct flmem_lanes a, b;
		struct flmem_difference c, d;

		one->survey(from, count, &a);
		other->survey(from, count, &b);
		assert_memory_equal(&a, &b, sizeof(a));
		one->differ(from, from + 30, count, &c);
		other->differ(from, from + 30, count, &d);
		assert_memory_equal(&c, &d, sizeof(c));
		assert_int_equal(c.differing, count);
		assert_int_equal(bits_of(one->squares(from, 0.7, count)),
				 bits_of(other->squares(from, 0.7, count)));
	}
}

static void compare_sums(const struct flmem_kernels *one, const struct flmem_kernels *other)
{
	static double from[COUNT], a[COUNT], b[COUNT];

	for (size_t i = 0; i < COUNT; i++)
		from[i] = random_double();
	one->scale(from, 0.3, a, COUNT);
	other->scale(from, 0.3, b, COUNT);
	for (size_t i = 0; i < COUNT; i++)
		from[i] = (double)i / 3;
	one->add(from, 0.7, a, COUNT);
	other->add(from, 0.7, b, COUNT);
	one->divide(a, 0.9, COUNT);
	other->divide(b, 0.9, COUNT);
	for (size_t i = 0; i < COUNT; i++)
		if (!isnan(a[i]) || !isnan(b[i]))
			assert_memory_equal(&a[i], &b[i], sizeof(a[i]));
	assert_int_equal(one->finite(a, COUNT), other->finite(b, COUNT));
	for (size_t count = 0; count < 20; count++)
		assert_int_equal(bits_of(one->distance(from, from + 30, count * 7)),
				 bits_of(other->distance(from, from + 30, count * 7)));
	compare_surveys(one, other, from);
	memcpy(b, a, sizeof(a));
	one->order(a, from, COUNT);
	for (size_t i = 0; i < COUNT; i++)
		assert_false(from[i] < a[i]);
}

/*
 * Division by a power of two takes another way, which must not show. Some divisors here are not
 * powers of two.
 */
static void dividing_has_the_bits_of_the_operator(void **state)
{
	static const double divisors[] = {1.0,	     0.5,	2.0,  0x1p-40, 0x1p1021, 0x1p1023,
					  0x1p-1022, 0x1p-1074, 0.75, 3.0,     -0.5,	 -1.0};
	static double from[COUNT], to[COUNT];
	const struct flmem_kernels *kernels;

	(void)state;
	for (size_t i = 0; i < COUNT; i++)
		from[i] = random_double();
	for (size_t k = 0; (kernels = flmem_kernels_at(k)); k++)
		for (size_t d = 0; kernels->supported() && d < FLMEM_ARRAY_SIZE(divisors); d++) {
			memcpy(to, from, sizeof(to));
			kernels->divide(to, divisors[d], COUNT);
			for (size_t i = 0; i < COUNT; i++)
				if (bits_of(to[i]) != bits_of(from[i] / divisors[d]) &&
				    !(isnan(to[i]) && isnan(from[i])))
					fail_msg("%s: %a / %a is %a", kernels->name, from[i],
						 divisors[d], to[i]);
		}
}

/* Calculates the mean by way of arrays of doubles, which the shorter way must equal. */
static bool mean_by_rows(const struct flmem_kernels *kernels, enum flmem_element element,
			 const struct flmem_mean *mean, size_t at, void *to, size_t count)
{
	static double row[COUNT], sum[COUNT];

	for (size_t i = 0; i < mean->inputs; i++) {
		kernels->load[element](mean->from[i] + at, row, count);
		if (i)
			kernels->add(row, mean->weights[i], sum, count);
		else
			kernels->scale(row, mean->weights[i], sum, count);
	}
	kernels->divide(sum, mean->total, count);
	kernels->store[element](sum, to, count);
	return kernels->finite(sum, count);
}

/*
 * Fills the input with numbers of a type, or with random bits, of which some are NaN or infinite.
 */
static void fill_input(enum flmem_element element, char *input, bool special)
{
	double values[COUNT];

	for (size_t i = 0; i < COUNT; i++)
		values[i] = special ? random_double() : (double)(int)(random_bits() % 401) / 8 - 25;
	portable()->store[element](values, input, COUNT);
}

static void check_mean(const struct flmem_kernels *kernels, enum flmem_element element,
		       const struct flmem_mean *mean)
{
	static const size_t counts[] = {0, 1, 7, 255, 256, 257, COUNT - 3};
	static uint64_t expected[COUNT], found[COUNT];
	size_t bytes = flmem_element_bytes(element);

	for (size_t n = 0; n < FLMEM_ARRAY_SIZE(counts); n++) {
		size_t at = n % 3 * bytes;
		bool finite;

		memset(expected, 0x55, sizeof(expected));
		memset(found, 0x55, sizeof(found));
		finite = mean_by_rows(portable(), element, mean, at, expected, counts[n]);
		assert_int_equal(kernels->mean[element](mean, at, found, counts[n]), finite);
		assert_memory_equal(found, expected, sizeof(found));
	}
}

static void means_have_the_bits_of_their_steps(void **state)
{
	enum {
		INPUTS = 9
	};
	static char inputs[INPUTS][COUNT * sizeof(double)];
	static const double weights[INPUTS] = {0.3, 0.25, 1, 0.7, 0x1p-40, 3, 0.1, 0.9, 0.5};
	static const double totals[] = {1, 0.5, 0.75, 0.9};
	char *from[INPUTS];
	const struct flmem_kernels *kernels;

	(void)state;
	for (size_t i = 0; i < INPUTS; i++)
		from[i] = inputs[i];
	for (size_t k = 0; (kernels = flmem_kernels_at(k)); k++)
		for (int e = 0; kernels->supported() && e < FLMEM_ELEMENTS_COUNT; e++)
			for (size_t n = 1; kernels->mean[e] && n <= INPUTS; n++) {
				const struct flmem_mean mean = {
					.from = from,
					.weights = weights,
					.inputs = n,
					.total = totals[n % FLMEM_ARRAY_SIZE(totals)],
				};

				for (size_t i = 0; i < n; i++)
					fill_input((enum flmem_element)e, inputs[i], n % 2);
				check_mean(kernels, (enum flmem_element)e, &mean);
			}
	assert_non_null(portable()->mean[FLMEM_ELEMENT_F32]);
}

static void every_instruction_set_gives_the_same_bits(void **state)
{
	const struct flmem_kernels *kernels;

	(void)state;
	for (size_t i = 0; (kernels = flmem_kernels_at(i)); i++) {
		if (!kernels->supported()) {
			print_message("SKIP: this processor has no %s\n", kernels->name);
			continue;
		}
		for (int round = 0; round < 20; round++) {
			compare_loads(kernels, portable());
			compare_stores(kernels, portable());
			compare_sums(kernels, portable());
		}
	}
}

static void special_values_are_found(void **state)
{
	const struct flmem_kernels *kernels;
	double values[100];

	(void)state;
	for (size_t k = 0; (kernels = flmem_kernels_at(k)); k++) {
		if (!kernels->supported())
			continue;
		for (size_t i = 0; i < 100; i++)
			values[i] = i % 2 ? 0x1.fffffffffffffp1023 : -0.0;
		assert_true(kernels->finite(values, 100));
		for (size_t i = 0; i < 100; i++) {
			double before = values[i];

			values[i] = i % 3 ? -INFINITY : NAN;
			assert_false(kernels->finite(values, 100));
			values[i] = before;
		}
	}
}

static void the_mean_of_equal_models_is_that_model(void **state)
{
	static float from[COUNT], out[COUNT];
	double weights[] = {3, 1, 7, 100};
	char *buffers[] = {(char *)from, (char *)from, (char *)from, (char *)from, (char *)out};
	struct flmem_combination c = {
		.algorithm = flmem_algorithm_find("fedavg"),
		.kernels = flmem_kernels_best(),
		.inputs = 4,
		.weights = weights,
	};
	const struct flmem_combine_array array = {
		.element = FLMEM_ELEMENT_F32,
		.buffers = buffers,
		.count = COUNT,
	};
	struct flmem_combine_rows rows;

	(void)state;
	assert_int_equal(flmem_weights_scale(weights, 4, &c.total, NULL), 0);
	assert_true(c.total >= 0.5 && c.total < 1);
	for (size_t i = 0; i < COUNT; i++)
		from[i] = (float)(random_bits() >> 40) * 0x1p-24F;
	assert_true(flmem_combine_rows_init(&rows, 4));
	assert_true(flmem_combine(&c, &rows, &array));
	assert_memory_equal(from, out, sizeof(from));
	flmem_combine_rows_clear(&rows);
}

static void weights_without_a_meaning_are_refused(void **state)
{
	static const double rows[][2] = {
		{0, 0}, {-1, 2}, {NAN, 1}, {INFINITY, 1}, {1e-300, 1e300},
	};
	struct flmem_error err = {0};
	double total;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		double weights[] = {rows[i][0], rows[i][1]};

		assert_int_equal(flmem_weights_scale(weights, 2, &total, &err), FLMEM_EUSAGE);
		assert_non_null(strstr(err.message, "weight"));
	}
}

/* The product 0.29 * 100 is just below 29 in binary. */
static void a_share_is_taken_as_it_is_written(void **state)
{
	struct flmem_combination c = {.inputs = 100, .trim = 0.29};

	(void)state;
	assert_int_equal(flmem_algorithm_find("trimmed-mean")->prepare(&c, NULL), 0);
	assert_int_equal(c.trimmed, 29);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_share_is_taken_as_it_is_written),
		cmocka_unit_test(every_number_of_a_small_type_is_stored_as_it_was_loaded),
		cmocka_unit_test(special_elements_are_found_without_kernels),
		cmocka_unit_test(doubles_are_rounded_to_the_nearest_even),
		cmocka_unit_test(whole_numbers_are_rounded_and_limited),
		cmocka_unit_test(dividing_has_the_bits_of_the_operator),
		cmocka_unit_test(means_have_the_bits_of_their_steps),
		cmocka_unit_test(every_instruction_set_gives_the_same_bits),
		cmocka_unit_test(special_values_are_found),
		cmocka_unit_test(the_mean_of_equal_models_is_that_model),
		cmocka_unit_test(weights_without_a_meaning_are_refused),
	};

	return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
