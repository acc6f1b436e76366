/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the arithmetic of the sampler: the places of its samples, and the bytes that they stand
 * for.
 */
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "preload/sampler/sampler.h"

#define DRAWS 1000000

/* The countdown of a thread, as in record.c. */
struct row {
	uint64_t random, remaining, interval, bytes, count;
};

/* Reports whether the next block of the row is sampled, and adds the sample up. */
static bool sample_next(struct row *row, uint64_t size)
{
	uint64_t end, bytes, count;

	if (size <= row->remaining) {
		row->remaining -= size;
		return false;
	}
	end = sampler_last_point(row->random, row->interval) + size - row->remaining;
	sampler_weigh(size, end, row->interval, &bytes, &count);
	row->remaining = sampler_draw_gap(&row->random, end, row->interval, row->interval);
	row->bytes += bytes;
	row->count += count;
	return true;
}

static struct row begin_row(uint64_t seed, uint64_t interval)
{
	struct row row = {.random = seed, .interval = interval};

	row.remaining = sampler_draw_gap(&row.random, 0, 0, interval);
	return row;
}

/*
 * The numbers are seeded, so they are the same every time. A period equal to that of the parts
 * meets no pattern.
 */
static void test_sums_are_unbiased_for_each_size(void **state)
{
	static const uint64_t sizes[] = {37, 963, 400, 1000, 1500, 100, 2000, 8000};
	enum {
		SIZES = sizeof(sizes) / sizeof(sizes[0])
	};
	struct row row = begin_row(42, 1000);
	double bytes[SIZES] = {0}, count[SIZES] = {0};

	(void)state;
	for (int i = 0; i < DRAWS; i++) {
		int which = i % SIZES;

		row.bytes = row.count = 0;
		if (sample_next(&row, sizes[which])) {
			bytes[which] += (double)row.bytes;
			count[which] += (double)row.count;
		} else {
			assert_true(sizes[which] < 2000);
		}
	}
	for (int i = 0; i < SIZES; i++) {
		double exact = (double)DRAWS / SIZES;

		assert_true(fabs(bytes[i] / exact / (double)sizes[i] - 1) < 0.03);
		assert_true(fabs(count[i] / exact / FLMEM_PROFILE_COUNT_UNIT - 1) < 0.03);
		if (sizes[i] >= 2000)
			assert_true(bytes[i] == exact * (double)sizes[i]);
	}
}

/* The error of one place without others in between is its first and last part at most. */
static void test_a_row_of_small_blocks_is_nearly_exact(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed < 200; seed++) {
		struct row row = begin_row(seed, 1 << 19);

		for (int i = 0; i < 6400; i++)
			(void)sample_next(&row, 10240);
		assert_true(fabs((double)row.bytes - 65536000.0) < 2 * (1 << 19));
	}
}

static void test_each_byte_has_its_sample(void **state)
{
	struct row row = begin_row(7, 1);

	(void)state;
	for (uint64_t size = 1; size < 100; size++)
		assert_true(sample_next(&row, size));
	assert_int_equal(row.bytes, 99 * 100 / 2);
	assert_int_equal(row.count, 99 * FLMEM_PROFILE_COUNT_UNIT);
}

/* A program may let each inexact result raise SIGFPE, round up, and read the flags afterwards. */
static void test_the_floating_point_environment_stays(void **state)
{
	uint64_t random = 42, bytes, count, gap, bytes_up, count_up;

	(void)state;
	gap = sampler_draw_gap(&random, 0, 0, 1000);
	sampler_weigh(77, 70, 1000, &bytes, &count);
	random = 42;
	assert_int_equal(fesetround(FE_UPWARD), 0);
	assert_int_equal(feclearexcept(FE_ALL_EXCEPT), 0);
	(void)feenableexcept(FE_ALL_EXCEPT);
	assert_int_equal(sampler_draw_gap(&random, 0, 0, 1000), gap);
	sampler_weigh(77, 70, 1000, &bytes_up, &count_up);
	assert_int_equal(fetestexcept(FE_ALL_EXCEPT), 0);
	/* Some processors raise no such exception. */
	(void)fedisableexcept(FE_ALL_EXCEPT);
	assert_int_equal(fegetround(), FE_UPWARD);
	fesetround(FE_TONEAREST);
	assert_int_equal(bytes_up, bytes);
	assert_int_equal(count_up, count);
	/* No flags are raised in the environment that most programs have. */
	assert_int_equal(feclearexcept(FE_ALL_EXCEPT), 0);
	sampler_draw_gap(&random, 70, 1000, 1000);
	sampler_weigh(77, 70, 1000, &bytes, &count);
	assert_int_equal(fetestexcept(FE_ALL_EXCEPT), 0);
}

/* The covered heap is in units of slots times the first interval. */
static void test_the_interval_grows_with_the_heap(void **state)
{
	const uint32_t slots = 120000;
	uint32_t held = sampler_live_limit(slots, 0);
	double covered = (double)held / slots, interval = 1;

	(void)state;
	assert_int_equal(held, slots / 2);
	for (uint32_t steps = 1; steps <= 14; steps++) {
		uint32_t limit = sampler_live_limit(slots, steps);

		interval *= 2;
		assert_true(limit > held && limit <= slots / 4 * 3);
		covered += interval * (limit - held) / slots;
		held = limit;
		/* Twenty more samples stand for less than all the others. */
		assert_true(covered * slots > 20 * interval);
		/* More slots would make it more exact by a bounded factor only. */
		assert_true(interval <= 8 || covered * 300 > interval);
	}
	assert_true(covered > 150);
	assert_int_equal(sampler_live_limit(slots, 40), held);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums_are_unbiased_for_each_size),
		cmocka_unit_test(test_a_row_of_small_blocks_is_nearly_exact),
		cmocka_unit_test(test_each_byte_has_its_sample),
		cmocka_unit_test(test_the_floating_point_environment_stays),
		cmocka_unit_test(test_the_interval_grows_with_the_heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
